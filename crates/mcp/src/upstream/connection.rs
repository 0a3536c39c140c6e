//! What the rest of the crate knows about a mounted server: how to open a connection, and what an
//! open one can do. The transports implement it and the supervisor uses it; neither knows the
//! other.

use std::{fmt, sync::Arc, time::Duration};

use haft_contract::{Principal, future::BoxFuture};
use serde_json::Value;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::{client::Client, name::ServerId};
pub use crate::{definitions::Definitions, protocol_era::ProtocolEra};

/// A change on the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerChange {
    /// One of the lists changed: fetch the definitions again.
    Definitions,
    /// A resource's content changed; holds the server's own URI.
    Resource(String),
}

/// A protocol request for one call.
pub struct Request {
    /// Whose call it is for: a connection serves the owner of its credential only.
    pub principal: Arc<Principal>,
    /// `tools/call`, `resources/read`, `prompts/get`, ….
    pub method: &'static str,
    /// Its parameters, without what the transport adds (progress token, version, capabilities).
    pub parameters: Value,
    /// The longest it may take, regardless of progress.
    pub deadline: Duration,
    /// Receives progress.
    pub progress: Option<Arc<dyn Fn(Progress) + Send + Sync>>,
    /// Answers the server's questions; without one, the server is told that nobody can.
    pub client: Option<Arc<dyn Client>>,
}

/// A progress report, checked to only ever increase.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// The progress so far.
    pub progress: f64,
    /// The total, if known.
    pub total: Option<f64>,
    /// A description of the progress.
    pub message: Option<String>,
}

/// Why a connection could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The server did not start, or could not be reached.
    #[error("the server could not be reached: {0}")]
    Unreachable(String),
    /// The server does not speak the protocol, or violates it.
    #[error("the server broke the protocol: {0}")]
    Protocol(String),
    /// A person has to log in first.
    #[error("the server wants somebody to log in")]
    LoginNeeded,
    /// The server was not ready in time.
    #[error("the server was not ready within {} s", .0.as_secs())]
    Slow(Duration),
    /// Cancelled from our side.
    #[error("stopped before it was open")]
    Cancelled,
}

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The server answered with an error.
    #[error("the server answered with error {code}: {message}")]
    Answered {
        /// The protocol's error code.
        code: i64,
        /// The server's message.
        message: String,
        /// The error's data.
        data: Option<Value>,
    },
    /// The server says that the request was made from a different schema than it has now.
    #[error("the server says that its definitions have changed: {0}")]
    Outdated(String),
    /// The server violated the protocol, or sent too much.
    #[error("the server broke the protocol: {0}")]
    Protocol(String),
    /// The connection ended after the request was sent: whether it ran is unknown.
    #[error("the connection ended before the answer: {0}")]
    Lost(String),
    /// The request was never sent.
    #[error("the request could not be sent: {0}")]
    NotSent(String),
    /// No answer in time; the server was told to stop.
    #[error("no answer within {} ms", .0.as_millis())]
    Slow(Duration),
    /// Cancelled from our side; the server was told.
    #[error("cancelled")]
    Cancelled,
    /// A person has to log in first.
    #[error("the server wants somebody to log in")]
    LoginNeeded,
    /// The server is at its request limit, and its queue is full.
    #[error("the server already has {0} requests running or waiting, which is its limit")]
    Busy(usize),
    /// The server is down and not due for another attempt.
    #[error("the server is down: {reason}; it is tried again in {} s", .again.as_secs())]
    Down {
        /// Why, escaped.
        reason: String,
        /// How long until the next attempt.
        again: Duration,
    },
    /// No person accepted this item, or it changed since it was accepted.
    #[error("{0}")]
    Withheld(String),
    /// The credential that the server is mounted with belongs to somebody else.
    #[error("{0}")]
    OtherOwner(&'static str),
}

/// A mounted server as its tools see it: always there, whether it runs or not. A request starts it
/// if necessary, waits its turn, and is refused if its definition is not the accepted one.
pub trait Server: Send + Sync {
    /// The configured id.
    fn id(&self) -> &ServerId;

    /// Sends a request and waits for its result, as [`Connection::request`] does.
    fn request<'a>(
        &'a self,
        request: Request,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Value, RequestError>>;
}

/// Opens connections to one server with one credential.
pub trait Connect: Send + Sync {
    /// Starts the process or connects to the address, and agrees on an era. The caller bounds the
    /// time; dropping the future ends what was started.
    fn connect<'a>(
        &'a self,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Arc<dyn Connection>, ConnectError>>;

    /// The era to try first, if an earlier connection found it.
    fn known_era(&self) -> Option<ProtocolEra> {
        None
    }

    /// The last output of the server, if it is a process.
    fn last_words(&self) -> LastWords {
        LastWords::default()
    }
}

/// The last output of a server's process; for people, unescaped.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LastWords {
    /// From standard error.
    pub stderr: String,
    /// From standard output, where a line that is not a message breaks the protocol.
    pub stray: String,
}

/// An open connection to a server.
pub trait Connection: Send + Sync {
    /// The agreed era.
    fn era(&self) -> ProtocolEra;

    /// Fetches what the server offers now.
    fn definitions<'a>(
        &'a self,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Definitions, RequestError>>;

    /// Sends a request and waits for its result. A cancellation is passed on to the server, and the
    /// server's questions to the request's client.
    fn request<'a>(
        &'a self,
        request: Request,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Value, RequestError>>;

    /// How many call requests are in flight: sent, and neither answered nor abandoned.
    fn under_way(&self) -> usize;

    /// Changes from now on, coalesced.
    fn changes(&self) -> broadcast::Receiver<ServerChange>;

    /// Waits until the connection has ended, and says why.
    fn closed(&self) -> BoxFuture<'_, String>;

    /// Ends the whole process tree, or the session. Returns when that is done.
    fn close(&self) -> BoxFuture<'_, ()>;
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("method", &self.method)
            .finish_non_exhaustive()
    }
}
