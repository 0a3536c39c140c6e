//! nanobot, a Python program in its own virtual environment. At each start it asks a host for a
//! table of tokens; a proxy that refuses keeps that on loopback.

use std::process::Command;

use serde_json::json;

use super::{Agent, AgentStand, AgentTraits, variables, words};
use crate::model::{Model, Wire};

pub(super) struct Nanobot;

impl Nanobot {
    fn python(stand: &AgentStand) -> String {
        let python = stand.peers.join("nanobot/bin/python");
        python.display().to_string()
    }
}

impl Agent for Nanobot {
    fn id(&self) -> &'static str {
        "nanobot"
    }

    fn title(&self) -> &'static str {
        "nanobot"
    }

    fn version(&self, stand: &AgentStand) -> String {
        let ask = "import importlib.metadata as m; print(m.version('nanobot-ai'))";
        let python = Self::python(stand);
        let said = Command::new(python).args(["-c", ask]).output();
        let said = said.expect("nanobot's Python").stdout;
        String::from_utf8_lossy(&said).trim().to_owned()
    }

    fn wire(&self) -> Wire {
        Wire::Chat
    }

    fn knows(&self) -> AgentTraits {
        AgentTraits {
            // It saves an image and tells its model the path.
            images: false,
            stop: &[],
        }
    }

    fn configure(&self, stand: &AgentStand, model: &Model) {
        stand.write_json(
            ".nanobot/config.json",
            &json!({
                // Not the project: it turns its workspace into a repository that ignores
                // everything.
                "agents": {"defaults": {
                    "workspace": stand.home.join("nanobot"),
                    "provider": "custom",
                    "model": "scripted",
                }},
                "providers": {"custom": {
                    "apiKey": "none", "apiBase": format!("{}/v1", model.url()),
                }},
            }),
        );
    }

    fn environment(&self, _: &AgentStand, _: &Model) -> Vec<(String, String)> {
        variables(&[
            ("HTTPS_PROXY", "http://127.0.0.1:9"),
            ("NO_PROXY", "127.0.0.1,localhost"),
        ])
    }

    fn headless(&self, stand: &AgentStand, prompt: &str) -> Vec<String> {
        let python = Self::python(stand);
        let start = [&*python, "-m", "nanobot", "agent", "-m", prompt];
        words(&[start.as_slice(), &["--no-markdown", "--session", "test"]].concat())
    }
}
