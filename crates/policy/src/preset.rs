//! The defaults if no rule applies, and their Cedar policies.
//!
//! | question | `sandboxed` | `workspace` | `careful` | `locked` |
//! |---|---|---|---|---|
//! | read a path in the workspace | allow | allow | allow | deny |
//! | write a path in the workspace | allow | allow | ask | deny |
//! | run a command | allow what a sandbox holds | the same, but what loses something asks | allow what looks, and what builds, tests or commits where a sandbox holds it; else ask | deny |
//! | a command that concerns a person, that stays, or that is not legible | ask | ask | ask | deny |
//! | connect, query, send, call a remote tool | ask | ask | ask | deny |
//! | a tool that only looks and touches nothing | allow | allow | allow | deny |
//! | a tool that changes something its accesses do not name | ask | ask | ask | deny |
//! | an `ask` rule | ask | ask | ask | deny |
//!
//! "Allow" applies only to tools of the providers `builtin`, `embedded` and `script`; a tool from
//! anywhere else asks (in `locked`: is denied) until a rule names it. Each command of a script is
//! judged separately, and files it writes by redirection are judged as files.
//!
//! A sandbox *holds* a command in tier T2 or T3 without network, where its changes are on record.
//! Elsewhere only an *ordinary* command is allowed, in a sandbox, which is listed in
//! `shell/commands.toml` with every word it has, which both parsers read alike, and which loses
//! nothing. What concerns a person, what loses something and what is routine is in
//! `shell/concern.rs`, what is legible in `shell/legible.rs`.

use std::fmt;

use crate::facts::Action;

/// A named set of defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Preset {
    /// What a sandbox without network holds and `haft undo` takes back is allowed; the network,
    /// leaving the workspace and what cannot be taken back ask.
    Sandboxed,
    /// The same, but commands that delete files or rewrite history ask.
    Workspace,
    /// Reads inside the workspace are allowed, and sandboxed commands that look, build, test or commit;
    /// what is there to change files asks.
    Careful,
    /// Nothing asks; what no rule allows is denied.
    Locked,
}

impl Preset {
    /// Every preset, loosest first.
    pub const ALL: [Self; 4] = [
        Self::Sandboxed,
        Self::Workspace,
        Self::Careful,
        Self::Locked,
    ];

    /// The word used in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sandboxed => "sandboxed",
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
            Self::Sandboxed => SANDBOXED,
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

const WRITE: &str = r#"permit (principal, action == Action::"write", resource)
when { context.trusted };"#;

const SANDBOXED: &[(Option<Action>, &str)] = &[
    (Some(Action::Use), USE),
    (Some(Action::Read), READ),
    (Some(Action::Write), WRITE),
    (
        Some(Action::Command),
        r#"permit (principal, action == Action::"command", resource)
when {
  context.trusted && context.sandboxed && !context.concerning && !context.stays &&
  (context.ordinary && !context.loses || context.held && context.legible)
};"#,
    ),
    (None, ASK_THE_REST),
];

const WORKSPACE: &[(Option<Action>, &str)] = &[
    (Some(Action::Use), USE),
    (Some(Action::Read), READ),
    (Some(Action::Write), WRITE),
    (
        Some(Action::Command),
        r#"permit (principal, action == Action::"command", resource)
when {
  context.trusted && context.sandboxed && !context.concerning && !context.stays &&
  !context.loses && (context.ordinary || context.held && context.legible)
};"#,
    ),
    (None, ASK_THE_REST),
];

const CAREFUL: &[(Option<Action>, &str)] = &[
    (Some(Action::Use), USE),
    (Some(Action::Read), READ),
    (
        Some(Action::Command),
        r#"permit (principal, action == Action::"command", resource)
when {
  context.trusted && context.sandboxed &&
  (context.looks || context.held && context.routine && !context.concerning &&
   !context.stays && !context.loses)
};"#,
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
