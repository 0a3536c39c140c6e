//! The calls in flight: how many there may be, how one is stopped, and how all are when the runtime
//! shuts down.

use std::{
    collections::{HashMap, hash_map},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use haft_contract::{
    CallId, ErrorKind, ToolError,
    outcome::{DeniedBy, Facts},
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::pipeline::Halt;

/// Every call that has begun and not ended.
#[derive(Default)]
pub(crate) struct InFlight {
    calls: Mutex<Calls>,
    /// Told whenever the last call has ended.
    none_left: Notify,
}

#[derive(Default)]
struct Calls {
    tokens: HashMap<CallId, CancellationToken>,
    /// No more are taken.
    closed: bool,
}

impl InFlight {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn len(&self) -> usize {
        self.calls().tokens.len()
    }

    /// Stops a call. Whether there was one.
    pub(crate) fn cancel(&self, call: CallId) -> bool {
        let token = self.calls().tokens.get(&call).cloned();
        token.map(|token| token.cancel()).is_some()
    }

    /// Takes a place for a call, given up when it is dropped.
    pub(crate) fn take(
        &self,
        call: CallId,
        cancel: &CancellationToken,
        limit: usize,
    ) -> Result<Place<'_>, NotTaken> {
        let mut calls = self.calls();
        if calls.closed {
            return Err(NotTaken::ShuttingDown);
        }
        let full = calls.tokens.len() >= limit;
        match calls.tokens.entry(call) {
            hash_map::Entry::Occupied(_) => Err(NotTaken::Twice),
            hash_map::Entry::Vacant(_) if full => Err(NotTaken::Full(limit)),
            hash_map::Entry::Vacant(place) => {
                place.insert(cancel.clone());
                Ok(Place { of: self, call })
            }
        }
    }

    /// Refuses every further call, stops those there are, and waits for their ends. How many had not
    /// ended in time.
    pub(crate) async fn shut_down(&self, wait: Duration) -> usize {
        let tokens: Vec<CancellationToken> = {
            let mut calls = self.calls();
            calls.closed = true;
            calls.tokens.values().cloned().collect()
        };
        tokens.iter().for_each(CancellationToken::cancel);
        let ended = async {
            loop {
                let told = self.none_left.notified();
                if self.len() == 0 {
                    break;
                }
                told.await;
            }
        };
        // Whether it came to an end is what is left.
        let _ = tokio::time::timeout(wait, ended).await;
        self.len()
    }
}

/// Why a call is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotTaken {
    /// One with its id is in flight.
    Twice,
    /// As many as there may be are.
    Full(usize),
    /// The runtime shuts down, and its record with it.
    ShuttingDown,
}

impl NotTaken {
    pub(crate) fn halt(self) -> Halt {
        let unavailable = |message| ToolError::new(ErrorKind::Unavailable, message);
        match self {
            Self::Twice => halt(ToolError::invalid_input(
                "a call with this id is in flight already",
            )),
            Self::Full(limit) => halt(
                unavailable(format!("{limit} calls are in flight already"))
                    .hint("repeat the call when fewer are in flight"),
            ),
            Self::ShuttingDown => {
                let message = "this Haft is shutting down, so the call is not taken".to_owned();
                let error = unavailable(message).hint("repeat the call when it is up again");
                halt(error).denied_by(DeniedBy::Ledger)
            }
        }
    }
}

fn halt(error: ToolError) -> Halt {
    Halt::new(error, None, Facts::default())
}

/// A call's place among those in flight.
pub(crate) struct Place<'a> {
    of: &'a InFlight,
    call: CallId,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut calls = self.of.calls();
        calls.tokens.remove(&self.call);
        if calls.tokens.is_empty() {
            self.of.none_left.notify_waiters();
        }
    }
}
