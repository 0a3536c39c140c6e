//! A recorded call, as `haft log`, `haft show` and `haft explain` print it.

use haft_contract::{
    Terminal,
    host::{StoredCall, StoredEvent},
};
use serde::Serialize;
use serde_json::Value;

use super::time;
use crate::terminal::Style;

/// The word for a call that has no outcome yet.
pub(crate) const OPEN: &str = "open";

/// The fewest characters shown of an id: its timestamp in milliseconds.
const MIN_ID_CHARS: usize = 13;

/// A recorded call for programs.
#[derive(Debug, Serialize)]
pub(crate) struct CallView {
    pub(crate) call: String,
    pub(crate) opened: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) settled: Option<String>,
    pub(crate) outcome: String,
    pub(crate) tool: String,
    pub(crate) asked_tool: String,
    pub(crate) user: String,
    pub(crate) agent: String,
    pub(crate) session: String,
    pub(crate) session_kind: String,
    /// The root of its workspace, and its id.
    pub(crate) workspace: String,
    pub(crate) workspace_id: String,
    pub(crate) summary: String,
}

/// A recorded event for programs.
#[derive(Debug, Serialize)]
pub(crate) struct EventView {
    pub(crate) sequence: u64,
    pub(crate) at: String,
    pub(crate) event: String,
    pub(crate) body: Value,
}

impl CallView {
    /// The view of a recorded call.
    pub(crate) fn of(call: &StoredCall) -> Self {
        Self {
            call: call.id.to_string(),
            opened: time::rfc3339(call.opened),
            settled: call.settled.map(time::rfc3339),
            outcome: outcome(call.terminal).to_owned(),
            tool: call.tool.clone().unwrap_or_else(|| call.asked_tool.clone()),
            asked_tool: call.asked_tool.clone(),
            user: call.user.clone(),
            agent: call.agent.clone(),
            session: call.session.to_string(),
            session_kind: call.session_kind.to_string(),
            workspace: call
                .workspace_shown
                .clone()
                .unwrap_or_else(|| call.workspace.to_string()),
            workspace_id: call.workspace.to_string(),
            summary: call.summary.clone(),
        }
    }

    /// The same with another word for its workspace.
    pub(crate) fn in_workspace(mut self, name: String) -> Self {
        self.workspace = name;
        self
    }
}

impl EventView {
    /// The view of a recorded event.
    pub(crate) fn of(event: &StoredEvent) -> Self {
        Self {
            sequence: event.sequence,
            at: time::rfc3339(event.at),
            event: event.kind.clone(),
            body: event.body.clone(),
        }
    }
}

/// The word for a call's outcome; `open` while there is none.
pub(crate) fn outcome(terminal: Option<Terminal>) -> &'static str {
    terminal.map_or(OPEN, Terminal::as_str)
}

/// The style of an outcome.
pub(crate) fn outcome_style(terminal: Option<Terminal>) -> Style {
    match terminal {
        Some(Terminal::Succeeded) => Style::Good,
        Some(Terminal::Failed | Terminal::Denied | Terminal::TimedOut) => Style::Bad,
        Some(Terminal::Cancelled | Terminal::Unknown) | None => Style::Warn,
    }
}

/// The shortest prefix length that tells these ids apart.
pub(crate) fn prefix_length(ids: &[String]) -> usize {
    let mut sorted: Vec<&str> = ids.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    let common = |pair: &[&str]| match pair {
        [a, b] => a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count(),
        _ => 0,
    };
    sorted
        .windows(2)
        .map(|pair| common(pair) + 1)
        .max()
        .unwrap_or(0)
        .max(MIN_ID_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_shown_as_short_as_they_can_be_told_apart() {
        let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        assert_eq!(prefix_length(&ids(&[])), 13);
        assert_eq!(
            prefix_length(&ids(&[
                "0193aaaa-bbbb-7000-8000-1",
                "0193aaaa-bbbc-7000-8000-1"
            ])),
            13
        );
        assert_eq!(
            prefix_length(&ids(&["0193aaaa-bbbb-7000-8", "0193aaaa-bbbb-7001-8"])),
            18
        );
    }
}
