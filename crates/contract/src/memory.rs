//! Memories: short texts that an agent keeps beyond a session, for one user in one tenant.
//!
//! A memory is data, never an instruction. It carries the labels of the session that saved it, and
//! a session that reads it has read from the same sources. Read next:
//! [`AgentMemory`](crate::context::AgentMemory), `docs/adr/0051-*.md`.

use crate::{
    call::CallId,
    host::Timestamp,
    identity::{AgentId, Principal, SessionId, TenantId, UserId},
    label::Labels,
    uuid_id::uuid_id,
};

/// The longest text of a memory, in bytes.
pub const MAX_MEMORY_BYTES: usize = 4 * 1024;

/// The most memories that an agent keeps for one user.
pub const MAX_MEMORIES: usize = 500;

/// The most memories that one search returns.
pub const MAX_FOUND_MEMORIES: usize = 20;

uuid_id!(
    /// Identifies a memory. Time-ordered.
    MemoryId
);

/// Whose memories these are: those of one agent for one user. No other agent, user or tenant sees
/// them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryOwner {
    /// The tenant.
    pub tenant: TenantId,
    /// The user the agent acts for.
    pub user: UserId,
    /// The agent.
    pub agent: AgentId,
}

impl MemoryOwner {
    /// Whose memories a principal saves and reads.
    pub fn of(principal: &Principal) -> Self {
        Self {
            tenant: principal.tenant.clone(),
            user: principal.user.clone(),
            agent: principal.agent.clone(),
        }
    }
}

/// A text that was saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// The memory.
    pub id: MemoryId,
    /// Whose it is.
    pub owner: MemoryOwner,
    /// The text, with secrets taken out.
    pub text: String,
    /// What the session that saved it had read from.
    pub read_from: Labels,
    /// The session that saved it.
    pub session: SessionId,
    /// The call that saved it.
    pub call: CallId,
    /// When it was saved.
    pub saved: Timestamp,
}

impl Memory {
    /// Whether its text has all of these words, in any order and any case. No words are in every
    /// text.
    pub fn has_words(&self, words: &str) -> bool {
        let text = self.text.to_lowercase();
        words
            .to_lowercase()
            .split_whitespace()
            .all(|word| text.contains(word))
    }
}
