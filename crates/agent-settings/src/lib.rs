//! The agents Haft can add itself to and take servers over from: where each keeps its servers, and
//! how it writes one.
//!
//! There is one file per agent, each with a link to its documentation. `server.rs` holds what they
//! have in common, `document/` edits their files as text, and only `files/` reads and writes them.
//! `docs/guide/agents.md` explains the same to people.

pub mod additions;
mod claude_code;
mod codex;
mod cursor;
pub mod document;
pub mod files;
mod gemini;
mod goose;
mod nanobot;
mod openclaw;
mod opencode;
mod pi;
mod qwen;
pub mod server;
pub mod takeover;
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

/// Haft's name in an agent's configuration.
pub const ENTRY: &str = "haft";

/// The variables that move agents' configuration.
pub const VARIABLES: [&str; 8] = [
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
pub enum Agent {
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
pub enum Scope {
    /// For you, in every project
    User,
    /// For everybody who opens this project: a file in it
    Project,
    /// For you, in this project alone (Claude Code)
    Local,
}

impl Scope {
    /// Its name on the command line.
    pub fn id(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
        }
    }
}

/// Where an agent keeps its servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServersLocation {
    /// The file.
    pub path: PathBuf,
    /// Its format.
    pub format: Format,
    /// The keys that lead to the table of servers.
    pub table: Vec<String>,
}

/// How an agent's own shell and file tools are turned off, in a file that may differ from the one
/// with its servers.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnTools {
    /// The file.
    pub path: PathBuf,
    /// Its format.
    pub format: Format,
    /// The settings to make in it.
    pub settings: Vec<Setting>,
    /// The tools this turns off, by the agent's names.
    pub names: &'static [&'static str],
    /// What a person should know about the other tools.
    pub note: Option<&'static str>,
}

/// Where a person's files are.
#[derive(Debug, Clone, Copy)]
pub struct Homes<'e> {
    /// The home directory.
    pub home: &'e Path,
    /// `.config` in it, or its replacement.
    pub config: &'e Path,
    /// The project.
    pub project: &'e Path,
    /// The values of [`VARIABLES`].
    pub variables: &'e BTreeMap<String, PathBuf>,
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

/// How one agent describes servers.
pub trait Dialect {
    /// Where it keeps them; `None` for a scope it does not have.
    fn place(&self, scope: Scope, homes: &Homes<'_>) -> Option<ServersLocation>;

    /// Other names for that file. One that exists is used instead.
    fn also_named(&self) -> &'static [&'static str] {
        &[]
    }

    /// A server as an entry.
    fn write(&self, server: &Server) -> EntryFields;

    /// An entry as a server; `None` if the entry is something else of the agent's.
    fn read(&self, name: &str, entry: &Value) -> Result<Option<Server>, String>;

    /// Its notation for the open project's directory, if it starts servers elsewhere.
    fn project_directory(&self, scope: Scope) -> Option<&'static str> {
        let _ = scope;
        None
    }

    /// How its own shell and file tools are turned off for good; `None` if it has no setting for
    /// that.
    fn own_tools(&self, scope: Scope, homes: &Homes<'_>) -> Option<OwnTools> {
        let _ = (scope, homes);
        None
    }

    /// What a person does next to see the server in the agent.
    fn look(&self) -> &'static str;
}

impl Agent {
    /// Every agent.
    pub fn all() -> &'static [Self] {
        Self::value_variants()
    }

    /// Its name on the command line, and as the caller.
    pub fn id(self) -> &'static str {
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

    /// How it describes servers.
    pub fn dialect(self) -> &'static dyn Dialect {
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
