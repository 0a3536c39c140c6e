//! The agents whose configuration Haft can write itself into, and take servers over from: where each
//! keeps its servers, and how it writes one down.
//!
//! One file an agent, each with where its documentation says so; `server.rs` is what they have in
//! common, `document/` changes their files. Nothing here touches a file: texts come in and go out.
//! `docs/guide/agents.md` tells the same to people.

pub(crate) mod additions;
mod claude_code;
mod codex;
mod cursor;
pub(crate) mod document;
mod gemini;
mod goose;
mod nanobot;
mod openclaw;
mod opencode;
mod pi;
mod qwen;
pub(crate) mod server;
pub(crate) mod takeover;
mod vscode;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use clap::ValueEnum;
use serde_json::Value;

use self::{
    additions::Setting,
    document::Format,
    server::{EntryFields, Server},
};

/// What Haft calls itself in an agent's configuration.
pub(crate) const ENTRY: &str = "haft";

/// The variables with which agents let their configuration be elsewhere.
pub(crate) const VARIABLES: [&str; 8] = [
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "GEMINI_CLI_HOME",
    "GOOSE_PATH_ROOT",
    "OPENCLAW_CONFIG_PATH",
    "OPENCLAW_STATE_DIR",
    "PI_CODING_AGENT_DIR",
    "QWEN_HOME",
];

/// An agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Agent {
    /// Anthropic's Claude Code
    ClaudeCode,
    /// OpenAI's Codex
    Codex,
    /// Cursor
    Cursor,
    /// Visual Studio Code
    Vscode,
    /// Google's Gemini CLI
    Gemini,
    /// OpenClaw
    Openclaw,
    /// Goose
    Goose,
    /// opencode
    Opencode,
    /// Qwen Code
    Qwen,
    /// pi
    Pi,
    /// nanobot
    Nanobot,
}

/// For whom an agent uses a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scope {
    /// For you, in every project
    User,
    /// For everybody who opens this project: a file in it
    Project,
    /// For you, in this project alone (Claude Code)
    Local,
}

impl Scope {
    /// What it is called on the command line.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
        }
    }
}

/// Where an agent keeps its servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServersLocation {
    /// The file.
    pub(crate) path: PathBuf,
    /// How it is written.
    pub(crate) format: Format,
    /// The keys that lead to the table of servers.
    pub(crate) table: Vec<String>,
}

/// How an agent's own shell and file tools are turned off, in a file that need not be the one with
/// its servers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OwnTools {
    /// The file.
    pub(crate) path: PathBuf,
    /// How it is written.
    pub(crate) format: Format,
    /// What is set in it.
    pub(crate) settings: Vec<Setting>,
    /// The tools that are off then, as the agent calls them.
    pub(crate) names: &'static [&'static str],
    /// What a person should know of the others.
    pub(crate) note: Option<&'static str>,
}

/// Where a person's files are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Homes<'e> {
    /// The home directory.
    pub(crate) home: &'e Path,
    /// `.config` in it, or what is used instead.
    pub(crate) config: &'e Path,
    /// The project.
    pub(crate) project: &'e Path,
    /// What [`VARIABLES`] say.
    pub(crate) variables: &'e BTreeMap<String, PathBuf>,
}

impl Homes<'_> {
    /// A directory in the home directory, or the one a variable names.
    fn below(&self, name: &str, variable: &str) -> PathBuf {
        match self.variables.get(variable) {
            Some(path) => path.clone(),
            None => self.home.join(name),
        }
    }
}

/// How one agent writes servers down.
pub(crate) trait Dialect {
    /// Where it keeps them; nowhere for a scope it does not have.
    fn place(&self, scope: Scope, homes: &Homes<'_>) -> Option<ServersLocation>;

    /// Other names of that file. One that is there is used in its stead.
    fn also_named(&self) -> &'static [&'static str] {
        &[]
    }

    /// A server as an entry.
    fn write(&self, server: &Server) -> EntryFields;

    /// An entry as a server; none where the entry is something else of the agent's own.
    fn read(&self, name: &str, entry: &Value) -> Result<Option<Server>, String>;

    /// How it writes the directory of the open project, if it starts servers elsewhere.
    fn project_directory(&self, scope: Scope) -> Option<&'static str> {
        let _ = scope;
        None
    }

    /// How its own shell and file tools are turned off for good; none where it has no setting for
    /// that.
    fn own_tools(&self, scope: Scope, homes: &Homes<'_>) -> Option<OwnTools> {
        let _ = (scope, homes);
        None
    }

    /// What a person does next to see the server there.
    fn look(&self) -> &'static str;
}

impl Agent {
    /// Every agent.
    pub(crate) fn all() -> &'static [Self] {
        Self::value_variants()
    }

    /// What it is called on the command line, and as the one who asks.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Cursor => "cursor",
            Self::Vscode => "vscode",
            Self::Gemini => "gemini",
            Self::Openclaw => "openclaw",
            Self::Goose => "goose",
            Self::Opencode => "opencode",
            Self::Qwen => "qwen",
            Self::Pi => "pi",
            Self::Nanobot => "nanobot",
        }
    }

    /// How it writes servers down.
    pub(crate) fn dialect(self) -> &'static dyn Dialect {
        match self {
            Self::ClaudeCode => &claude_code::ClaudeCode,
            Self::Codex => &codex::Codex,
            Self::Cursor => &cursor::Cursor,
            Self::Vscode => &vscode::Vscode,
            Self::Gemini => &gemini::Gemini,
            Self::Openclaw => &openclaw::Openclaw,
            Self::Goose => &goose::Goose,
            Self::Opencode => &opencode::Opencode,
            Self::Qwen => &qwen::Qwen,
            Self::Pi => &pi::Pi,
            Self::Nanobot => &nanobot::Nanobot,
        }
    }
}

impl ServersLocation {
    fn new<const N: usize>(path: PathBuf, format: Format, table: [&str; N]) -> Self {
        Self {
            path,
            format,
            table: table.map(str::to_owned).to_vec(),
        }
    }
}

#[cfg(test)]
mod tests;
