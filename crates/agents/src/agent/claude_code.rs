//! Claude Code, a standalone program. The npm package is a stub unless its scripts run, so the
//! platform's own package is started.

use serde_json::json;

use super::{Agent, AgentStand, AgentTraits, variables, words};
use crate::model::{Model, Wire};

pub(super) struct ClaudeCode;

/// Not a real key. Its last characters are recorded as approved, so that the screen does not ask.
const KEY: &str = "sk-ant-fake-0123456789abcdefghij";
const APPROVED: &str = "0123456789abcdefghij";

const MODEL: &str = "claude-sonnet-4-5";

impl ClaudeCode {
    fn program(stand: &AgentStand) -> String {
        stand.npm("@anthropic-ai/claude-code-linux-x64/claude")
    }
}

impl Agent for ClaudeCode {
    fn id(&self) -> &'static str {
        "claude-code"
    }

    fn title(&self) -> &'static str {
        "Claude Code"
    }

    fn version(&self, stand: &AgentStand) -> String {
        stand.npm_version("@anthropic-ai/claude-code")
    }

    fn wire(&self) -> Wire {
        Wire::Anthropic
    }

    fn knows(&self) -> AgentTraits {
        AgentTraits {
            images: true,
            stop: &["Escape"],
        }
    }

    fn configure(&self, stand: &AgentStand, _: &Model) {
        let project = stand.work.display().to_string();
        stand.write_json(
            ".claude.json",
            &json!({
                "hasCompletedOnboarding": true,
                "theme": "dark",
                "customApiKeyResponses": {"approved": [APPROVED], "rejected": []},
                "projects": {project: {"hasTrustDialogAccepted": true}},
            }),
        );
        // Haft asks already; the agent must not ask a second time.
        let allow = json!({"permissions": {"allow": ["mcp__haft"]}});
        stand.write_json(".claude/settings.json", &allow);
    }

    fn environment(&self, stand: &AgentStand, model: &Model) -> Vec<(String, String)> {
        let temporary = stand.home.display().to_string();
        variables(&[
            ("ANTHROPIC_BASE_URL", &model.url()),
            ("ANTHROPIC_API_KEY", KEY),
            ("CLAUDE_CODE_TMPDIR", &temporary),
            ("DISABLE_TELEMETRY", "1"),
            ("DISABLE_AUTOUPDATER", "1"),
            ("DISABLE_ERROR_REPORTING", "1"),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            // A server that has not answered by then is given up for good, even on a slow machine.
            ("MCP_TIMEOUT", "300000"),
            // With a screen it would clone its plug-in catalog.
            ("CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL", "1"),
        ])
    }

    fn headless(&self, stand: &AgentStand, prompt: &str) -> Vec<String> {
        words(&[&Self::program(stand), "-p", prompt, "--model", MODEL])
    }

    fn on_screen(&self, stand: &AgentStand) -> Option<Vec<String>> {
        Some(words(&[&Self::program(stand), "--model", MODEL]))
    }

    fn screen_environment(&self) -> &'static [(&'static str, &'static str)] {
        // On a slow machine the first prompt arrives before the server answers. The tools of a late
        // server are found only by a search, which the scripted model does not make.
        &[("ENABLE_TOOL_SEARCH", "false")]
    }

    fn ready(&self) -> &'static str {
        "for shortcuts"
    }
}
