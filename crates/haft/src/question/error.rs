//! Why a question could not be shown or answered.

use haft_contract::host::AnswerError;
use haft_host::HostError;

/// Why a question could not be shown or answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuestionError {
    /// The answer does not count: somebody was faster, nobody waits any more, or the question cannot
    /// be shown whole here.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// What the record has is not what was asked.
    #[error("the question on record is not the one that was asked")]
    Changed,
    /// No rule would cover calls like this one, or not the one that was chosen.
    #[error("this rule is not proposed for the call")]
    NotProposed,
    /// The answer was given, and is not on record in time. Whether it counts is not known.
    #[error("the answer was not recorded in time")]
    NotRecorded,
    /// What a person could accept could not be found.
    #[error(transparent)]
    Host(HostError),
}

impl QuestionError {
    /// What to do next.
    pub fn hint(&self) -> &str {
        match self {
            Self::Answer(AnswerError::Unknown) => "list the open questions",
            Self::Answer(AnswerError::NotOpen { .. }) => "only the first answer counts",
            Self::Answer(AnswerError::NotYours) => "have somebody else answer",
            Self::Answer(AnswerError::OtherPlan) => "open the question again, and show it",
            Self::Answer(AnswerError::NotShown) => "refuse it, or answer where it was asked",
            Self::Answer(AnswerError::Store(_)) | Self::NotRecorded => {
                "open the question again to see its state"
            }
            Self::Changed => "refuse it, and verify the record",
            Self::NotProposed => "allow the call once",
            Self::Host(error) => error.hint(),
        }
    }
}
