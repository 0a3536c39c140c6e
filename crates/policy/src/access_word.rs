//! Words that select accesses of one kind by any tool, where a name of a tool could stand:
//! `read(glob)` and `write(glob)` in `deny` and `ask`; `host(name)`, `db(source)` and
//! `message(channel:target)` in every list.

use haft_contract::{Access, PathMode};

use crate::facts::Action;

/// A kind of access that a rule selects by whichever tool makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum AccessWord {
    /// Reading a path.
    Read,
    /// Writing a path.
    Write,
    /// Connecting to a host.
    Host,
    /// Querying a database.
    Database,
    /// Sending a message.
    Message,
}

impl AccessWord {
    /// The words that no list takes for the name of a tool, once a pattern follows.
    const RESERVED: [Self; 3] = [Self::Host, Self::Database, Self::Message];

    /// The reserved word with this text.
    pub(crate) fn reserved(text: &str) -> Option<Self> {
        Self::RESERVED
            .into_iter()
            .find(|word| word.as_str() == text)
    }

    /// Whether a rule with it never names a tool.
    pub(crate) fn is_reserved(self) -> bool {
        Self::RESERVED.contains(&self)
    }

    /// The word in rules.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Host => "host",
            Self::Database => "db",
            Self::Message => "message",
        }
    }

    /// What stands before the pattern of such accesses by one tool.
    pub(crate) fn prefix_of(word: &str) -> &'static str {
        match Self::reserved(word) {
            Some(Self::Host) => "domain:",
            Some(Self::Database) => "db:",
            Some(Self::Message) => "message:",
            Some(Self::Read | Self::Write) | None => "",
        }
    }

    /// The word for an access, if there is one.
    pub(crate) fn of(access: &Access) -> Option<Self> {
        match access {
            Access::Path(path) => Some(match path.mode {
                PathMode::Read => Self::Read,
                PathMode::Write => Self::Write,
            }),
            Access::Host { .. } => Some(Self::Host),
            Access::Database { .. } => Some(Self::Database),
            Access::Message { .. } => Some(Self::Message),
            Access::Command(_)
            | Access::Process(_)
            | Access::RemoteTool { .. }
            | Access::Custom(_) => None,
        }
    }

    /// The action that it selects.
    pub(crate) fn action(self) -> Action {
        match self {
            Self::Read => Action::Read,
            Self::Write => Action::Write,
            Self::Host => Action::Connect,
            Self::Database => Action::Database,
            Self::Message => Action::Message,
        }
    }
}
