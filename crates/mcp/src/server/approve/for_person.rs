//! What a call waits for a person about: an approval of its plan, or a question of its agent. The two
//! have ids of different kinds and different commands that answer them.

use std::fmt;

use haft_contract::host::{AgentQuestionId, ApprovalId};

/// A question that a person has to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForPerson {
    /// Whether a plan is carried out.
    Approval(ApprovalId),
    /// What the agent asks.
    Question(AgentQuestionId),
}

impl ForPerson {
    /// The word in front of its id in a key.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Approval(_) => "approval",
            Self::Question(_) => "question",
        }
    }

    /// The shell commands that answer it.
    pub(super) fn commands(self) -> String {
        match self {
            Self::Approval(id) => {
                format!("`haft approve {id}`, `haft deny {id}`, or `haft approvals --watch`")
            }
            Self::Question(id) => format!("`haft answer {id} TEXT`"),
        }
    }

    /// What it waits for, and that nothing has happened.
    pub(super) fn sentence(self) -> &'static str {
        match self {
            Self::Approval(_) => {
                "this call waits until a person approves it, and nobody has answered yet; nothing has \
                 happened so far"
            }
            Self::Question(_) => {
                "this call waits until a person answers your question, and nobody has yet"
            }
        }
    }
}

impl fmt::Display for ForPerson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Approval(id) => fmt::Display::fmt(id, f),
            Self::Question(id) => fmt::Display::fmt(id, f),
        }
    }
}
