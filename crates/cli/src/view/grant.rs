//! A standing approval, for people and for programs.

use haft_contract::host::{Grant, GrantScope};
use serde::Serialize;

use super::time;

#[derive(Debug, Serialize)]
pub(crate) struct GrantView {
    pub(crate) id: String,
    pub(crate) rule: String,
    /// `session`, `project` or `agent`.
    pub(crate) scope: &'static str,
    pub(crate) bound_to: String,
    pub(crate) user: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uses_left: Option<u32>,
    pub(crate) made_by: String,
    pub(crate) made_at: String,
    /// The call that caused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cause: Option<String>,
}

impl GrantView {
    pub(crate) fn of(grant: &Grant) -> Self {
        Self {
            id: grant.id.to_string(),
            rule: grant.rule.clone(),
            scope: grant.scope.as_str(),
            bound_to: grant.scope.shown().to_owned(),
            user: grant.user.to_string(),
            until: grant.until.map(time::rfc3339),
            uses_left: grant.uses_left,
            made_by: grant.made_by.clone(),
            made_at: time::rfc3339(grant.made_at),
            cause: grant.cause.map(|call| call.to_string()),
        }
    }
}

/// Where it applies, in words.
pub(crate) fn place(scope: &GrantScope) -> String {
    match scope {
        GrantScope::Session(session) => format!("in session `{session}`, in every workspace"),
        GrantScope::Project(workspace) => format!("in the workspace `{}`", workspace.shown),
        GrantScope::Agent(agent) => format!("for agent `{agent}`"),
    }
}

/// How long it applies, in words.
pub(crate) fn lasting(grant: &Grant) -> String {
    let until = grant
        .until
        .map(|until| format!("until {}", time::local(until)));
    let uses = grant.uses_left.map(|uses| match uses {
        1 => "for 1 more call".to_owned(),
        uses => format!("for {uses} more calls"),
    });
    match (until, uses) {
        (None, None) => "until it is revoked".to_owned(),
        (Some(one), None) | (None, Some(one)) => one,
        (Some(until), Some(uses)) => format!("{until}, {uses}"),
    }
}
