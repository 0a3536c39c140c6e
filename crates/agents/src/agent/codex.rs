//! Codex, a standalone program in the package for its platform.

use std::fs;

use super::{Agent, AgentStand, AgentTraits, variables, words};
use crate::model::{Model, Wire};

pub(super) struct Codex;

impl Codex {
    fn program(stand: &AgentStand) -> String {
        stand.npm("@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex")
    }
}

impl Agent for Codex {
    fn id(&self) -> &'static str {
        "codex"
    }

    fn title(&self) -> &'static str {
        "Codex"
    }

    fn version(&self, stand: &AgentStand) -> String {
        stand.npm_version("@openai/codex")
    }

    fn wire(&self) -> Wire {
        Wire::Responses
    }

    fn knows(&self) -> AgentTraits {
        AgentTraits {
            images: true,
            stop: &["Escape"],
        }
    }

    fn configure(&self, stand: &AgentStand, model: &Model) {
        let (url, project) = (model.url(), stand.work.display());
        // It would use the network for plug-ins and updates, and its daemon outlives its screen.
        let text = format!(
            r#"# a comment of the person's own
model = "scripted"
model_provider = "scripted"
check_for_update_on_startup = false

[features]
plugins = false
in_app_updates = false
daemon_auto_start = false

[analytics]
enabled = false

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"

[projects."{project}"]
trust_level = "trusted"
"#
        );
        stand.write(".codex/config.toml", &text);
        let directory = stand.home.join(".codex");
        fs::create_dir_all(directory).expect("a directory");
    }

    fn environment(&self, _: &AgentStand, _: &Model) -> Vec<(String, String)> {
        variables(&[
            ("SCRIPTED_KEY", "none"),
            // Its screen fetches a tip of the day, and no setting stops that, so a closed loopback
            // port refuses it. The model is not reached over HTTPS.
            ("HTTPS_PROXY", "http://127.0.0.1:1"),
        ])
    }

    fn headless(&self, stand: &AgentStand, prompt: &str) -> Vec<String> {
        words(&[
            &Self::program(stand),
            "exec",
            "--skip-git-repo-check",
            prompt,
        ])
    }

    fn on_screen(&self, stand: &AgentStand) -> Option<Vec<String>> {
        Some(words(&[&Self::program(stand)]))
    }

    fn ready(&self) -> &'static str {
        "for shortcuts"
    }
}
