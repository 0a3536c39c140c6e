//! The list of things to do that an agent keeps for a session.
//!
//! The record is the list: it is what the session's last call that set one says. Nothing else is
//! stored, so nothing can disagree with the record. Read next: [`SessionTodo`](crate::context::SessionTodo).

/// The most items of a list.
pub const MAX_TODO_ITEMS: usize = 100;

/// The longest text of an item, in bytes.
pub const MAX_TODO_TEXT_BYTES: usize = 500;

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TodoItem {
    /// What is to be done.
    pub text: String,
    /// How far it is.
    pub status: TodoStatus,
}

/// How far a thing to do is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TodoStatus {
    /// Not begun.
    #[default]
    Pending,
    /// Being done.
    InProgress,
    /// Done.
    Completed,
    /// No longer wanted.
    Cancelled,
}

impl TodoStatus {
    /// Every status.
    pub const ALL: [Self; 4] = [
        Self::Pending,
        Self::InProgress,
        Self::Completed,
        Self::Cancelled,
    ];

    /// The word used in JSON and in the record.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The status that this word names.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// Whether something is left to do.
    pub fn is_open(self) -> bool {
        match self {
            Self::Pending | Self::InProgress => true,
            Self::Completed | Self::Cancelled => false,
        }
    }

    /// The mark in front of an item, as in a Markdown list of tasks.
    pub fn mark(self) -> &'static str {
        match self {
            Self::Pending => "[ ]",
            Self::InProgress => "[>]",
            Self::Completed => "[x]",
            Self::Cancelled => "[-]",
        }
    }
}
