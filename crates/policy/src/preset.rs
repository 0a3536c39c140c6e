//! The defaults if no rule applies, and their Cedar policies.
//!
//! | question | `careful` | `workspace` | `locked` |
//! |---|---|---|---|
//! | read a path in the workspace | allow | allow | deny |
//! | write a path in the workspace | ask | allow | deny |
//! | run a command | allow one that only looks in tier T1, T2 or T3, else ask | allow an ordinary one in tier T1, T2 or T3, else ask | deny |
//! | connect, query, send, call a remote tool | ask | ask | deny |
//! | a tool that only looks and touches nothing | allow | allow | deny |
//! | a tool that changes something its accesses do not name | ask | ask | deny |
//! | an `ask` rule | ask | ask | deny |
//!
//! "Allow" applies only to tools of the providers `builtin`, `embedded` and `script`; a tool from
//! anywhere else asks (in `locked`: is denied) until a rule names it. Each command of a script is
//! judged separately. An *ordinary* command is listed in `shell/commands.toml` with every word it
//! has, and both parsers agree on it; files it writes by redirection are judged as files.

use std::fmt;

use crate::facts::Action;

/// A named set of defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Preset {
    /// Edits inside the workspace and ordinary sandboxed commands are allowed, the rest asks.
    Workspace,
    /// Reads inside the workspace and sandboxed commands that only look are allowed, everything that
    /// changes something asks.
    Careful,
    /// Nothing asks; what no rule allows is denied.
    Locked,
}

impl Preset {
    /// Every preset, loosest first.
    pub const ALL: [Self; 3] = [Self::Workspace, Self::Careful, Self::Locked];

    /// The word used in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Workspace => "workspace",
            Self::Careful => "careful",
            Self::Locked => "locked",
        }
    }

    /// The preset this word names, if any.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.as_str() == word)
    }

    /// Its Cedar policies: the action of each (`None` for all) and its text.
    pub(crate) fn policies(self) -> &'static [(Option<Action>, &'static str)] {
        match self {
            Self::Careful => CAREFUL,
            Self::Workspace => WORKSPACE,
            Self::Locked => LOCKED,
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

const USE: &str = r#"permit (principal, action == Action::"use", resource)
when { context.trusted && (context.accounted || context.harmless) };"#;
const READ: &str = r#"permit (principal, action == Action::"read", resource)
when { context.trusted };"#;
const ASK_THE_REST: &str = "permit (principal, action, resource)\nwhen { context.approved };";

const CAREFUL: &[(Option<Action>, &str)] = &[
    (Some(Action::Use), USE),
    (Some(Action::Read), READ),
    (
        Some(Action::Command),
        "permit (principal, action == Action::\"command\", resource)\n\
         when { context.trusted && context.sandboxed && context.looks };",
    ),
    (None, ASK_THE_REST),
];

const WORKSPACE: &[(Option<Action>, &str)] = &[
    (Some(Action::Use), USE),
    (Some(Action::Read), READ),
    (
        Some(Action::Write),
        "permit (principal, action == Action::\"write\", resource)\nwhen { context.trusted };",
    ),
    (
        Some(Action::Command),
        "permit (principal, action == Action::\"command\", resource)\n\
         when { context.trusted && context.sandboxed && context.ordinary };",
    ),
    (None, ASK_THE_REST),
];

const LOCKED: &[(Option<Action>, &str)] = &[
    (
        Some(Action::Use),
        "permit (principal, action == Action::\"use\", resource)\n\
         when { context.trusted && context.accounted };",
    ),
    (
        None,
        "forbid (principal, action, resource)\nwhen { context.approved };",
    ),
];
