//! A server's state, for its callers (`Phase`) and for people ([`Status`]).

use std::sync::Arc;

use haft_contract::host::Timestamp;
use tokio::time::Instant;

use super::offer::Counts;
use crate::{
    name::ServerId,
    pin::{LapseReason, RefusedDefinition},
    upstream::connection::{Connection, ProtocolEra},
};

/// A server's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Not running; started on demand.
    Known,
    /// Being started.
    Starting,
    /// Running.
    Ready,
    /// It failed and will be retried later.
    Down,
    /// A person has to log in.
    LoginNeeded,
    /// Ended for good.
    Stopped,
}

impl State {
    /// The state as people read it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Known => "known",
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Down => "down",
            Self::LoginNeeded => "login needed",
            Self::Stopped => "stopped",
        }
    }
}

/// A server's state, for people.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// Its id.
    pub server: ServerId,
    /// The current state.
    pub state: State,
    /// When it entered that state.
    pub since: Timestamp,
    /// When it is retried, if it is down.
    pub again: Option<Timestamp>,
    /// The era it speaks, if it was ever reached.
    pub era: Option<ProtocolEra>,
    /// The state of its definitions.
    pub counts: Counts,
    /// How many call requests are in flight.
    pub under_way: usize,
    /// Definitions that were rejected.
    pub refused: Vec<RefusedDefinition>,
    /// Why earlier acceptances under this id no longer count, if there were any.
    pub lapsed: Option<LapseReason>,
    /// The last error, escaped.
    pub last_error: Option<String>,
}

/// A server's state, for its callers.
#[derive(Clone)]
pub(super) enum Phase {
    Known,
    Starting,
    Ready(Arc<dyn Connection>),
    Down { reason: String, until: Instant },
    LoginNeeded { until: Instant },
    Stopped,
}

impl Phase {
    /// How many call requests the connection has in flight; zero without a connection.
    pub(super) fn under_way(&self) -> usize {
        match self {
            Self::Ready(connection) => connection.under_way(),
            Self::Known
            | Self::Starting
            | Self::Down { .. }
            | Self::LoginNeeded { .. }
            | Self::Stopped => 0,
        }
    }

    pub(super) fn state(&self) -> State {
        match self {
            Self::Known => State::Known,
            Self::Starting => State::Starting,
            Self::Ready(_) => State::Ready,
            Self::Down { .. } => State::Down,
            Self::LoginNeeded { .. } => State::LoginNeeded,
            Self::Stopped => State::Stopped,
        }
    }
}

/// What the task that owns the connection publishes to the others.
#[derive(Clone)]
pub(super) struct ServerStatus {
    pub(super) phase: Phase,
    pub(super) since: Timestamp,
    pub(super) again: Option<Timestamp>,
    pub(super) last_error: Option<String>,
    /// How often the server's definitions were fetched.
    pub(super) learned: u64,
}
