//! Calls that nobody is left to run, and how they end.

use haft_contract::{
    CallId, ErrorKind, Facts, Outcome, Terminal, host::Timestamp, outcome::Failure,
};

use crate::{
    body::Events,
    message::CallHolder,
    open_call::{CallInStore, CallState, OpenCall},
    recorded_call::RecordedCall,
    store::StoreError,
};

/// The outcome of a call that nobody is left to settle.
pub(crate) fn interrupted(call: CallId, started: Option<Timestamp>) -> Outcome {
    let (terminal, kind, message, hint) = if started.is_some() {
        (
            Terminal::Unknown,
            ErrorKind::Unavailable,
            "the process that ran this call ended before it recorded the result; it may have taken effect",
            "check what it would have changed before you ask for it again",
        )
    } else {
        (
            Terminal::Cancelled,
            ErrorKind::Cancelled,
            "the process that accepted this call ended before starting it; nothing was changed",
            "ask for it again if you still want it",
        )
    };
    Outcome {
        call,
        tool: None,
        terminal,
        content: Vec::new(),
        structured: None,
        error: Some(Failure {
            kind,
            message: message.to_owned(),
            at: None,
            hint: Some(hint.to_owned()),
        }),
        facts: Facts::default(),
    }
}

/// An open call as its rows have it, to be gone on with.
pub(crate) fn taken_up(call: &RecordedCall) -> Result<OpenCall, StoreError> {
    let last = call
        .events
        .last()
        .map_or(Timestamp(0), |entry| entry.event.at);
    Ok(OpenCall {
        id: call.id,
        principal: call.principal()?,
        holder: CallHolder::ThisProcess,
        stored: CallInStore::Rows {
            listed: call.listed,
            next_part: call.next_part,
        },
        left_by: None,
        state: CallState {
            started: call.started(),
            ..CallState::new(last)
        },
        events: Events::default(),
        bytes: 0,
    })
}
