//! What a request for something of a mounted server came to: its result, or a question first.

use rmcp::{ErrorData, model::InputRequiredResult};
use serde::de::DeserializeOwned;

use super::{approve::CallReply, result};

/// The result of a fetch, or what its client is asked first.
pub(super) enum FetchOutcome<T> {
    Result(T),
    Asks(InputRequiredResult),
}

impl<T: DeserializeOwned> FetchOutcome<T> {
    /// Reads the reply to a call that fetches.
    pub(super) fn of(reply: CallReply) -> Result<Self, ErrorData> {
        match reply {
            CallReply::Ended(outcome) => result::of_fetch(&outcome).map(Self::Result),
            CallReply::InputRequired(asks) => Ok(Self::Asks(asks)),
            CallReply::Waits(waits) => Err(result::waiting(&waits)),
            // Only tool calls become tasks.
            CallReply::Task(_) => Err(ErrorData::internal_error("this is not a task", None)),
        }
    }
}
