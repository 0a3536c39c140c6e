//! OpenClaw. It is slow to start, so its work is packed into few runs.

use serde_json::json;

use super::{Agent, AgentStand, AgentTraits, variables, words};
use crate::model::{Model, Wire};

pub(super) struct Openclaw;

impl Agent for Openclaw {
    fn id(&self) -> &'static str {
        "openclaw"
    }

    fn title(&self) -> &'static str {
        "OpenClaw"
    }

    fn version(&self, stand: &AgentStand) -> String {
        stand.npm_version("openclaw")
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
            ".openclaw/openclaw.json",
            &json!({
                "agents": {"defaults": {
                    "workspace": stand.work,
                    "skipBootstrap": true,
                    "model": {"primary": "scripted/m"},
                }},
                "models": {
                    "mode": "replace",
                    "catalogRefresh": {"enabled": false},
                    "providers": {"scripted": {
                        "baseUrl": format!("{}/v1", model.url()),
                        "apiKey": "none",
                        "api": "openai-completions",
                        "models": [{
                            "id": "m", "name": "m", "input": ["text", "image"],
                            "contextWindow": 200_000, "maxTokens": 8_192, "reasoning": false,
                            "cost": cost,
                        }],
                    }},
                },
                "update": {"checkOnStart": false},
                "telemetry": {"enabled": false},
                "plugins": {"enabled": false},
                // Otherwise its model has to search for a server's tools before it can call them.
                "tools": {"toolSearch": false, "codeMode": false},
            }),
        );
    }

    fn environment(&self, stand: &AgentStand, _: &Model) -> Vec<(String, String)> {
        let state = stand.home.join(".openclaw").display().to_string();
        variables(&[
            ("OPENCLAW_STATE_DIR", &state),
            ("OPENCLAW_OFFLINE", "1"),
            ("OPENCLAW_NO_AUTO_UPDATE", "1"),
            ("OPENCLAW_DISABLE_BUNDLED_PLUGINS", "1"),
        ])
    }

    fn headless(&self, stand: &AgentStand, prompt: &str) -> Vec<String> {
        let config = stand.home.join(".openclaw/openclaw.json");
        let (config, work) = (
            config.display().to_string(),
            stand.work.display().to_string(),
        );
        let (node, program) = (stand.node(), stand.npm("openclaw/openclaw.mjs"));
        let start = [&*node, &*program, "agent", "exec", "--config", &*config];
        words(&[start.as_slice(), &["--cwd", &*work, "--json", prompt]].concat())
    }
}
