//! Qwen Code. It asks its model for more than the conversation (memory, suggestions, whether a call
//! is safe) unless it is told not to.

use serde_json::json;

use super::{Agent, AgentStand, AgentTraits, variables, words};
use crate::model::{Model, Wire};

pub(super) struct Qwen;

impl Qwen {
    fn words(stand: &AgentStand, more: &[&str]) -> Vec<String> {
        let (node, program) = (stand.node(), stand.npm("@qwen-code/qwen-code/cli.js"));
        words(&[[&*node, &*program].as_slice(), more].concat())
    }
}

impl Agent for Qwen {
    fn id(&self) -> &'static str {
        "qwen"
    }

    fn title(&self) -> &'static str {
        "Qwen Code"
    }

    fn version(&self, stand: &AgentStand) -> String {
        stand.npm_version("@qwen-code/qwen-code")
    }

    fn wire(&self) -> Wire {
        Wire::Chat
    }

    fn knows(&self) -> AgentTraits {
        AgentTraits {
            images: true,
            stop: &["Escape"],
        }
    }

    fn configure(&self, stand: &AgentStand, _: &Model) {
        stand.write_json(
            ".qwen/settings.json",
            &json!({
                "$version": 4,
                "general": {"enableAutoUpdate": false},
                "privacy": {"usageStatisticsEnabled": false},
                "telemetry": {"enabled": false},
                "memory": {
                    "enableManagedAutoMemory": false,
                    "enableManagedAutoDream": false,
                    "enableAutoSkill": false,
                },
                "ui": {"enableFollowupSuggestions": false, "autoModeAcknowledged": true},
                "tools": {"approvalMode": "default"},
                "security": {"auth": {"selectedType": "openai"}},
            }),
        );
    }

    fn environment(&self, _: &AgentStand, model: &Model) -> Vec<(String, String)> {
        variables(&[
            ("OPENAI_API_KEY", "none"),
            // A model it knows can see images.
            ("OPENAI_MODEL", "gpt-4o"),
            ("OPENAI_BASE_URL", &format!("{}/v1", model.url())),
            ("QWEN_CODE_NO_RELAUNCH", "true"),
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
