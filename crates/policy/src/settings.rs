//! Per-tool settings that are not rules over inputs: in which sessions a tool may be used, where
//! calls of sub-agents run, and how its child processes must be confined.

use std::collections::BTreeMap;

use haft_contract::{ToolName, identity::SessionKind, ops::SandboxMode};

/// In which sessions a tool may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SessionLevel {
    /// In every session.
    Always,
    /// Only in the operator's own conversation. A direct message never is.
    Main,
    /// Everywhere but in the operator's own conversation.
    NonMain,
    /// Nowhere.
    Blocked,
}

impl SessionLevel {
    /// Every level, in declaration order.
    pub const ALL: [Self; 4] = [Self::Always, Self::Main, Self::NonMain, Self::Blocked];

    /// The word used in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Main => "main",
            Self::NonMain => "non-main",
            Self::Blocked => "blocked",
        }
    }

    /// The level this word names, if any.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == word)
    }

    /// Whether a session of this kind may use the tool.
    pub fn admits(self, kind: SessionKind) -> bool {
        match self {
            Self::Always => true,
            Self::Main => kind == SessionKind::Main,
            Self::NonMain => kind != SessionKind::Main,
            Self::Blocked => false,
        }
    }
}

/// Where a call of a sub-agent runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SubagentRoute {
    /// Where the sub-agent runs.
    Here,
    /// At the gateway, and nowhere else.
    Gateway,
    /// Nowhere.
    Disabled,
}

impl SubagentRoute {
    /// Every route, the loosest first.
    pub const ALL: [Self; 3] = [Self::Here, Self::Gateway, Self::Disabled];

    /// The word used in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Here => "here",
            Self::Gateway => "gateway",
            Self::Disabled => "disabled",
        }
    }

    /// The route this word names, if any.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|route| route.as_str() == word)
    }
}

/// The settings of all tools that have any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolSettings {
    sessions: BTreeMap<ToolName, SessionLevel>,
    subagents: BTreeMap<ToolName, SubagentRoute>,
    sandboxes: BTreeMap<ToolName, SandboxMode>,
}

impl ToolSettings {
    /// In which sessions a tool may be used; `always` by default.
    pub fn session_level(&self, tool: &ToolName) -> SessionLevel {
        self.sessions
            .get(tool)
            .copied()
            .unwrap_or(SessionLevel::Always)
    }

    /// Where calls of sub-agents run; `here` by default.
    pub fn subagent_route(&self, tool: &ToolName) -> SubagentRoute {
        let route = self.subagents.get(tool).copied();
        route.unwrap_or(SubagentRoute::Here)
    }

    /// The confinement configured for a tool's child processes, if any.
    pub fn sandbox(&self, tool: &ToolName) -> Option<SandboxMode> {
        self.sandboxes.get(tool).copied()
    }

    /// Every configured confinement, by tool.
    pub fn sandboxes(&self) -> impl Iterator<Item = (&ToolName, SandboxMode)> {
        self.sandboxes.iter().map(|(tool, mode)| (tool, *mode))
    }

    /// Every configured session level, by tool.
    pub fn session_levels(&self) -> impl Iterator<Item = (&ToolName, SessionLevel)> {
        self.sessions.iter().map(|(tool, level)| (tool, *level))
    }

    /// Records a level. If two files disagree, both apply as rules; the later one is shown.
    pub(crate) fn set_session(&mut self, tool: ToolName, level: SessionLevel) {
        self.sessions.insert(tool, level);
    }

    /// Records a route. If two files disagree, the stricter one wins.
    pub(crate) fn set_subagents(&mut self, tool: ToolName, route: SubagentRoute) {
        let stricter = self.subagent_route(&tool).max(route);
        self.subagents.insert(tool, stricter);
    }

    /// Records a confinement. If two files disagree, the stronger one wins.
    pub(crate) fn set_sandbox(&mut self, tool: ToolName, mode: SandboxMode) {
        let stronger = self.sandbox(&tool).map_or(mode, |old| old.max(mode));
        self.sandboxes.insert(tool, stronger);
    }
}
