//! pi. Its npm package is a self-contained bundle and is only unpacked: not all of the packages it
//! names are published.

use serde_json::json;

use super::{Agent, AgentStand, AgentTraits, variables, words};
use crate::model::{Model, Wire};

pub(super) struct Pi;

impl Pi {
    fn words(stand: &AgentStand, more: &[&str]) -> Vec<String> {
        let program = stand.peers.join("pi/dist/bundle/cli.js");
        let (node, program) = (stand.node(), program.display().to_string());
        words(&[[&*node, &*program].as_slice(), more].concat())
    }
}

impl Agent for Pi {
    fn id(&self) -> &'static str {
        "pi"
    }

    fn title(&self) -> &'static str {
        "pi"
    }

    fn version(&self, stand: &AgentStand) -> String {
        AgentStand::version_in(&stand.peers.join("pi/package.json"))
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

    fn configure(&self, stand: &AgentStand, model: &Model) {
        let cost = json!({"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0});
        stand.write_json(
            ".pi/agent/models.json",
            &json!({"providers": {"scripted": {
                "baseUrl": format!("{}/v1", model.url()),
                "api": "openai-completions",
                "apiKey": "none",
                "models": [{
                    "id": "m", "name": "m", "reasoning": false, "input": ["text", "image"],
                    "contextWindow": 200_000, "maxTokens": 8_192, "cost": cost,
                }],
            }}}),
        );
        stand.write_json(
            ".pi/agent/settings.json",
            &json!({
                "defaultProvider": "scripted",
                "defaultModel": "m",
                "quietStartup": true,
                "enableInstallTelemetry": false,
            }),
        );
    }

    fn environment(&self, _: &AgentStand, _: &Model) -> Vec<(String, String)> {
        variables(&[
            ("PI_OFFLINE", "1"),
            ("PI_TELEMETRY", "0"),
            ("PI_SKIP_VERSION_CHECK", "1"),
        ])
    }

    fn headless(&self, stand: &AgentStand, prompt: &str) -> Vec<String> {
        Self::words(stand, &["-p", prompt])
    }

    fn on_screen(&self, stand: &AgentStand) -> Option<Vec<String>> {
        Some(Self::words(stand, &[]))
    }

    fn ready(&self) -> &'static str {
        "extended-keys is off"
    }
}
