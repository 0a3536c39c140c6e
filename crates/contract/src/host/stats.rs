//! Which calls a list or a count is about, and what is counted. The store counts; nobody loads calls to
//! count them.

use std::time::Duration;

use super::{StoredCall, Timestamp};
use crate::{identity::WorkspaceId, outcome::Terminal};

/// The most groups that one count returns.
pub const MAX_STATS_ROWS: usize = 1_000;

/// Which calls are meant. What is absent does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallFilter {
    /// Only calls made in one of these workspaces; in any, if none is named.
    pub workspaces: Vec<WorkspaceId>,
    /// Only calls of this agent.
    pub agent: Option<String>,
    /// Only calls of this tool: `provider/name`, the name of a built-in one, or the name the model
    /// wrote.
    pub tool: Option<String>,
    /// Only calls opened at this moment or later.
    pub since: Option<Timestamp>,
    /// Only calls opened before this moment.
    pub until: Option<Timestamp>,
}

impl CallFilter {
    /// The calls of one workspace.
    pub fn of_workspace(workspace: WorkspaceId) -> Self {
        Self {
            workspaces: vec![workspace],
            ..Self::default()
        }
    }

    /// Whether every call is meant.
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a call is meant. Every store decides by this; where it looks only narrows down.
    pub fn wants(&self, call: &StoredCall) -> bool {
        let tool = call.tool.as_deref();
        (self.workspaces.is_empty() || self.workspaces.contains(&call.workspace))
            && self.agent.as_ref().is_none_or(|agent| call.agent == *agent)
            && self.tool.as_ref().is_none_or(|wanted| {
                call.asked_tool == *wanted
                    || tool == Some(wanted.as_str())
                    || tool.and_then(|tool| tool.strip_prefix("builtin/")) == Some(wanted.as_str())
            })
            && self.since.is_none_or(|since| call.opened >= since)
            && self.until.is_none_or(|until| call.opened < until)
    }
}

/// How calls ended, or that they did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// Not settled yet.
    Open,
    /// Settled like this.
    Ended(Terminal),
}

impl CallOutcome {
    /// Whether a call with this outcome, if it has one, is meant.
    pub fn wants(self, terminal: Option<Terminal>) -> bool {
        match self {
            Self::Open => terminal.is_none(),
            Self::Ended(wanted) => terminal == Some(wanted),
        }
    }
}

/// What to count, and by what.
#[derive(Debug, Clone)]
pub struct StatsQuery {
    /// Which calls.
    pub filter: CallFilter,
    /// What they are grouped by.
    pub by: StatsKey,
    /// The most groups to return: the newest days, or the groups with the most calls. At most
    /// [`MAX_STATS_ROWS`].
    pub limit: usize,
}

/// What calls are grouped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatsKey {
    /// Nothing: all calls are one group. Without calls there is none.
    All,
    /// The day they were opened, where the clock is this many microseconds ahead of UTC.
    Day {
        /// Microseconds to add to UTC.
        offset_us: i64,
    },
    /// The tool.
    Tool,
    /// The agent.
    Agent,
    /// The workspace.
    Workspace,
}

/// What a group has in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatsGroup {
    /// Nothing but that they were counted.
    All,
    /// A day, counted from 1970-01-01.
    Day(i64),
    /// The name of a tool or an agent, or the id of a workspace.
    Name(String),
}

/// One group of calls, counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatsRow {
    /// What they have in common.
    pub group: StatsGroup,
    /// How many calls.
    pub calls: u64,
    /// How many of them a person was asked about.
    pub asked: u64,
    /// How many were denied.
    pub denied: u64,
    /// How many failed, ran out of time, or ended unknown.
    pub failed: u64,
    /// How long they ran, together.
    pub ran: Duration,
    /// How long they waited for people, together.
    pub waited: Duration,
    /// The bytes of output they had.
    pub bytes: u64,
}

impl StatsRow {
    /// A group without calls.
    pub fn empty(group: StatsGroup) -> Self {
        Self {
            group,
            calls: 0,
            asked: 0,
            denied: 0,
            failed: 0,
            ran: Duration::ZERO,
            waited: Duration::ZERO,
            bytes: 0,
        }
    }
}

/// A workspace as the record knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredWorkspace {
    /// The workspace.
    pub id: WorkspaceId,
    /// What people know it by: its root, with the back end in front unless it is local. Absent when
    /// none of its calls had a plan.
    pub shown: Option<String>,
    /// How many calls it has.
    pub calls: u64,
    /// When its last call was opened.
    pub last: Timestamp,
}

/// What people know a workspace by, from the back end and the root that its plans show.
pub fn shown_workspace(backend: &str, root: &str) -> String {
    match backend {
        "local" => root.to_owned(),
        elsewhere => format!("{elsewhere}:{root}"),
    }
}
