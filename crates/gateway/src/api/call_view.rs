//! A recorded call, in the words that `haft log --json` uses.

use haft_contract::{
    Terminal,
    host::{CallOutcome, StoredCall},
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::time::rfc3339;

/// The word for a call that has no outcome yet.
pub(crate) const OPEN: &str = "open";

/// A recorded call.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Call)]
pub(crate) struct CallView {
    /// Its id.
    pub(crate) call: String,
    /// When it was accepted.
    #[schema(format = DateTime)]
    pub(crate) opened: String,
    /// When it had its outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub(crate) settled: Option<String>,
    /// `open`, or how it ended: `succeeded`, `failed`, `denied`, `timed_out`, `cancelled`, `unknown`.
    #[schema(example = "succeeded")]
    pub(crate) outcome: &'static str,
    /// The tool, as `provider/name` if the name was known.
    pub(crate) tool: String,
    /// The tool as it was asked for.
    pub(crate) asked_tool: String,
    /// The person the agent acts for.
    pub(crate) user: String,
    /// The agent.
    pub(crate) agent: String,
    /// The conversation.
    pub(crate) session: String,
    /// What kind of conversation it is.
    pub(crate) session_kind: &'static str,
    /// What people know its workspace by.
    pub(crate) workspace: String,
    /// The id of its workspace.
    pub(crate) workspace_id: String,
    /// What it did or would do, in one line.
    pub(crate) summary: String,
}

impl CallView {
    pub(crate) fn of(call: &StoredCall) -> Self {
        let shown = call.workspace_shown.clone();
        Self {
            call: call.id.to_string(),
            opened: rfc3339(call.opened),
            settled: call.settled.map(rfc3339),
            outcome: call.terminal.map_or(OPEN, Terminal::as_str),
            tool: call.tool.clone().unwrap_or_else(|| call.asked_tool.clone()),
            asked_tool: call.asked_tool.clone(),
            user: call.user.clone(),
            agent: call.agent.clone(),
            session: call.session.to_string(),
            session_kind: call.session_kind.as_str(),
            workspace: shown.unwrap_or_else(|| call.workspace.to_string()),
            workspace_id: call.workspace.to_string(),
            summary: call.summary.clone(),
        }
    }
}

/// The outcome that a word names.
pub(crate) fn outcome(word: &str) -> Option<CallOutcome> {
    if word == OPEN {
        return Some(CallOutcome::Open);
    }
    Terminal::parse(word).map(CallOutcome::Ended)
}
