//! How a server is, for its callers (`Phase`) and for people ([`Status`]).

use std::sync::Arc;

use haft_contract::host::Timestamp;
use tokio::time::Instant;

use super::offer::Counts;
use crate::{
    name::ServerId,
    pin::{LapseReason, RefusedDefinition},
    upstream::connection::{Connection, ProtocolEra},
};

/// How a server is, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Not running; it is started when it is needed.
    Known,
    /// Being started.
    Starting,
    /// Running.
    Ready,
    /// It failed, and is tried again later.
    Down,
    /// A person has to log in.
    LoginNeeded,
    /// Ended for good.
    Stopped,
}

impl State {
    /// The word people read.
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

/// How a server is, for people.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// Its id.
    pub server: ServerId,
    /// How it is.
    pub state: State,
    /// Since when.
    pub since: Timestamp,
    /// When it is tried again, if it is down.
    pub again: Option<Timestamp>,
    /// The era it speaks, if it was ever reached.
    pub era: Option<ProtocolEra>,
    /// How its definitions stand.
    pub counts: Counts,
    /// How many requests of calls it has under way.
    pub under_way: usize,
    /// Definitions that were not taken.
    pub refused: Vec<RefusedDefinition>,
    /// Why what was accepted under this id before does not count, if something was.
    pub lapsed: Option<LapseReason>,
    /// What went wrong last, escaped.
    pub last_error: Option<String>,
}

/// How a server is, for its callers.
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
    /// How many requests of calls the connection has under way; none without a connection.
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

/// What the task that owns the connection lets the others know.
#[derive(Clone)]
pub(super) struct ServerStatus {
    pub(super) phase: Phase,
    pub(super) since: Timestamp,
    pub(super) again: Option<Timestamp>,
    pub(super) last_error: Option<String>,
    /// How often what the server offers was learned.
    pub(super) learned: u64,
}
