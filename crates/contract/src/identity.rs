//! Who asks: tenant, user, agent, session, and the scopes of their credential. And where: the
//! workspace.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, LazyLock},
};

use sha2::{Digest as _, Sha256};

use crate::ops::BackendId;

/// The longest identifier accepted from outside.
pub const MAX_ID_CHARS: usize = 128;

/// An identifier is empty, too long, or contains a character that is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{shown}` is not an identifier: 1 to 128 characters of A-Z, a-z, 0-9 and . _ : @ -")]
pub struct IdentityError {
    shown: String,
}

fn check(id: &str) -> Result<(), IdentityError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '@' | '-');
    if id.is_empty() || id.len() > MAX_ID_CHARS || !id.chars().all(allowed) {
        let shown = id
            .chars()
            .take(MAX_ID_CHARS)
            .flat_map(char::escape_debug)
            .collect();
        return Err(IdentityError { shown });
    }
    Ok(())
}

macro_rules! id_type {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(Arc<str>);

        impl $type {
            /// Parses an identifier from outside.
            pub fn parse(id: &str) -> Result<Self, IdentityError> {
                check(id)?;
                Ok(Self(Arc::from(id)))
            }

            /// The identifier as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl std::str::FromStr for $type {
            type Err = IdentityError;

            fn from_str(id: &str) -> Result<Self, Self::Err> {
                Self::parse(id)
            }
        }
    };
}

id_type!(
    /// A customer of a platform; `local` on one person's machine.
    TenantId
);
id_type!(
    /// The person an agent acts for.
    UserId
);
id_type!(
    /// The program that asks for tools.
    AgentId
);
id_type!(
    /// One conversation of an agent.
    SessionId
);
id_type!(
    /// A workspace: the unit of files, locks, grants, seen versions and undo. Opaque: its display
    /// name and location are stored separately, and nothing is looked up by them.
    WorkspaceId
);
id_type!(
    /// The chat channel a session belongs to (`telegram`, `slack`, …).
    ChannelId
);
id_type!(
    /// A right a credential carries, such as `calendar.write`.
    Scope
);

impl TenantId {
    /// The only tenant on one person's machine.
    pub fn local() -> Self {
        Self(Arc::from("local"))
    }
}

impl UserId {
    /// Whoever uses this machine, where nobody is named.
    pub fn local() -> Self {
        Self(Arc::from("local"))
    }
}

/// How many bytes of a hash make up a workspace's id.
const ROOT_HASH_BYTES: usize = 16;

impl WorkspaceId {
    /// The workspace of a host that has only one. Such a host substitutes the real id before
    /// anything is recorded, so requests that do not care use this. Records from before workspaces
    /// had ids are kept under it.
    pub fn local() -> Self {
        // Every request of such a host names it, so its text is allocated once.
        static LOCAL: LazyLock<WorkspaceId> = LazyLock::new(|| WorkspaceId(Arc::from("local")));
        LOCAL.clone()
    }

    /// The id of a directory on a back end, the same in every process that opens it. For hosts that
    /// do not keep a list of workspaces.
    pub fn of_root(backend: &BackendId, root: &str) -> Self {
        let mut hash = Sha256::new();
        for part in ["haft-workspace-1", backend.as_str(), root] {
            // Each part is preceded by its length, so that no part runs into the next.
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
            hash.update(part);
        }
        let mut id = String::from("ws-");
        for byte in hash.finalize().iter().take(ROOT_HASH_BYTES) {
            // Writing to a `String` cannot fail.
            let _ = fmt::Write::write_fmt(&mut id, format_args!("{byte:02x}"));
        }
        Self(id.into())
    }
}

/// What kind of conversation a session is. A direct message is never `Main`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SessionKind {
    /// The operator's own conversation.
    Main,
    /// A direct message from another person.
    Dm,
    /// A group chat.
    Group,
    /// A session started by another session.
    Subagent,
    /// A scheduled job.
    Cron,
}

impl SessionKind {
    /// Every kind, in declaration order.
    pub const ALL: [Self; 5] = [
        Self::Main,
        Self::Dm,
        Self::Group,
        Self::Subagent,
        Self::Cron,
    ];

    /// The name used in configuration and output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Dm => "dm",
            Self::Group => "group",
            Self::Subagent => "subagent",
            Self::Cron => "cron",
        }
    }
}

impl fmt::Display for SessionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Who makes a call. Immutable for the life of the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The tenant whose data and rules apply.
    pub tenant: TenantId,
    /// The person the agent acts for.
    pub user: UserId,
    /// The agent that asks.
    pub agent: AgentId,
    /// Agents that started this one, nearest first. Policy takes the strictest answer of the whole
    /// chain, so a sub-agent never has more rights than its parents.
    pub ancestors: Vec<AgentId>,
    /// The conversation.
    pub session: SessionId,
    /// What kind of conversation it is.
    pub session_kind: SessionKind,
    /// What kind it was before the caller narrowed itself for this call. The rules of both kinds
    /// apply, so that calling itself something else never gives a caller more.
    pub narrowed_from: Option<SessionKind>,
    /// The channel the conversation came from, if any.
    pub channel: Option<ChannelId>,
    /// The scopes of the credential used for the call.
    pub scopes: BTreeSet<Scope>,
}

impl Principal {
    /// The person at this machine: tenant `local`, the given agent and session, kind `main`.
    pub fn local(user: UserId, agent: AgentId, session: SessionId) -> Self {
        Self {
            tenant: TenantId::local(),
            user,
            agent,
            ancestors: Vec::new(),
            session,
            session_kind: SessionKind::Main,
            narrowed_from: None,
            channel: None,
            scopes: BTreeSet::new(),
        }
    }

    /// Makes it a caller in another kind of session, to which the rules of both kinds apply.
    pub fn narrow_session(&mut self, kind: SessionKind) {
        let first = self.narrowed_from.unwrap_or(self.session_kind);
        self.narrowed_from = (first != kind).then_some(first);
        self.session_kind = kind;
    }

    /// The kinds of session whose rules apply.
    pub fn session_kinds(&self) -> impl Iterator<Item = SessionKind> + use<> {
        self.narrowed_from.into_iter().chain([self.session_kind])
    }

    /// Whether another agent, or another session, started this one.
    pub fn is_subagent(&self) -> bool {
        !self.ancestors.is_empty() || self.session_kind == SessionKind::Subagent
    }

    /// Whether no person attends its session: another agent or a timer started it.
    pub fn is_unattended(&self) -> bool {
        self.is_subagent() || self.session_kinds().any(|kind| kind == SessionKind::Cron)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_has_one_id_on_each_back_end() {
        let id = |backend: &str, root: &str| WorkspaceId::of_root(&BackendId::new(backend), root);
        let here = id("local", "/home/ada/haft");
        assert_eq!(here, id("local", "/home/ada/haft"));
        // Stored in records, so it must never change.
        assert_eq!(here.as_str(), "ws-e0b6258dddb88cc740f21de1b7a7bb3e");
        assert_eq!(WorkspaceId::parse(here.as_str()), Ok(here.clone()));
        for other in [
            id("local", "/home/ada/haft2"),
            id("ssh:box", "/home/ada/haft"),
            id("local/home", "/ada/haft"),
            WorkspaceId::local(),
        ] {
            assert_ne!(here, other);
        }
    }
}
