//! opencode, a standalone program in the package for its platform. By default it fetches a list of
//! models and a plug-in when it starts.

use serde_json::json;

use super::{Agent, AgentStand, AgentTraits, variables, words};
use crate::model::{Model, Wire};

pub(super) struct Opencode;

impl Opencode {
    fn program(stand: &AgentStand) -> String {
        stand.npm("opencode-linux-x64/bin/opencode")
    }
}

impl Agent for Opencode {
    fn id(&self) -> &'static str {
        "opencode"
    }

    fn title(&self) -> &'static str {
        "opencode"
    }

    fn version(&self, stand: &AgentStand) -> String {
        stand.npm_version("opencode-ai")
    }

    fn wire(&self) -> Wire {
        Wire::Chat
    }

    fn knows(&self) -> AgentTraits {
        AgentTraits {
            images: true,
            stop: &["Escape", "Escape"],
        }
    }

    fn configure(&self, stand: &AgentStand, model: &Model) {
        stand.write_json(
            ".config/opencode/opencode.json",
            &json!({
                "model": "scripted/m",
                "small_model": "scripted/m",
                "autoupdate": false,
                "share": "disabled",
                "enabled_providers": ["scripted"],
                "provider": {"scripted": {
                    "npm": "@ai-sdk/openai-compatible",
                    "name": "scripted",
                    "options": {"baseURL": format!("{}/v1", model.url()), "apiKey": "none"},
                    "models": {"m": {
                        "name": "m",
                        "attachment": true,
                        "tool_call": true,
                        "modalities": {"input": ["text", "image"], "output": ["text"]},
                        "limit": {"context": 200_000, "output": 8_192},
                    }},
                }},
            }),
        );
    }

    fn environment(&self, _: &AgentStand, _: &Model) -> Vec<(String, String)> {
        variables(&[
            ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
            ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
            ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
            ("OPENCODE_DISABLE_SHARE", "1"),
            ("OPENCODE_DISABLE_CLAUDE_CODE", "1"),
            ("npm_config_offline", "true"),
        ])
    }

    fn headless(&self, stand: &AgentStand, prompt: &str) -> Vec<String> {
        words(&[&Self::program(stand), "run", prompt])
    }
}
