//! Gemini CLI. It starts no server in an untrusted folder, and stops on its own when a model makes
//! the same call five times.

use serde_json::json;

use super::{Agent, AgentStand, AgentTraits, variables, words};
use crate::model::{Model, Wire};

pub(super) struct Gemini;

impl Gemini {
    fn words(stand: &AgentStand, more: &[&str]) -> Vec<String> {
        let program = stand.npm("@google/gemini-cli/bundle/gemini.js");
        let node = stand.node();
        let start = [&*node, &*program, "-m", "gemini-2.5-pro"];
        words(&[start.as_slice(), more].concat())
    }
}

impl Agent for Gemini {
    fn id(&self) -> &'static str {
        "gemini"
    }

    fn title(&self) -> &'static str {
        "Gemini CLI"
    }

    fn version(&self, stand: &AgentStand) -> String {
        stand.npm_version("@google/gemini-cli")
    }

    fn wire(&self) -> Wire {
        Wire::Gemini
    }

    fn knows(&self) -> AgentTraits {
        AgentTraits {
            images: true,
            // Escape drops the call on the screen but does not notify the server.
            stop: &[],
        }
    }

    fn configure(&self, stand: &AgentStand, _: &Model) {
        stand.write_json(
            ".gemini/settings.json",
            &json!({
                "general": {"enableAutoUpdate": false, "enableAutoUpdateNotification": false},
                "privacy": {"usageStatisticsEnabled": false},
                "telemetry": {"enabled": false},
                "security": {"auth": {"selectedType": "gemini-api-key"}},
            }),
        );
        let project = stand.work.display().to_string();
        let trusted = json!({project: "TRUST_FOLDER"});
        stand.write_json(".gemini/trustedFolders.json", &trusted);
    }

    fn environment(&self, _: &AgentStand, model: &Model) -> Vec<(String, String)> {
        variables(&[
            ("GEMINI_API_KEY", "none"),
            ("GOOGLE_GEMINI_BASE_URL", &model.url()),
            ("GEMINI_CLI_NO_RELAUNCH", "true"),
        ])
    }

    fn headless(&self, stand: &AgentStand, prompt: &str) -> Vec<String> {
        Self::words(stand, &["-p", prompt])
    }

    fn on_screen(&self, stand: &AgentStand) -> Option<Vec<String>> {
        Some(Self::words(stand, &[]))
    }

    fn ready(&self) -> &'static str {
        "Type your message"
    }
}
