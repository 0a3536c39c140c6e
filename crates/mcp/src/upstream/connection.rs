//! What the rest of the crate knows of a mounted server: how to open a connection, and what can be
//! done with an open one. Transports stand behind it, the supervisor in front; neither knows the
//! other.

use std::{fmt, sync::Arc, time::Duration};

use haft_contract::future::BoxFuture;
use serde_json::Value;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::{client::Client, name::ServerId};

/// Which of the two protocols a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProtocolEra {
    /// With `initialize`: up to 2025-11-25.
    Legacy,
    /// Stateless: from 2026-07-28.
    Modern,
}

/// What a server says it offers, as it came. Lists are whole: every page was fetched.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Definitions {
    /// What the server calls itself; shown, never trusted.
    pub server: Value,
    /// Its capabilities.
    pub capabilities: Value,
    /// How it wants to be used, in its words.
    pub instructions: Option<String>,
    /// Each a `Tool` of the protocol, with fields we do not know.
    pub tools: Vec<Value>,
    /// Each a `Resource`.
    pub resources: Vec<Value>,
    /// Each a `ResourceTemplate`.
    pub templates: Vec<Value>,
    /// Each a `Prompt`.
    pub prompts: Vec<Value>,
}

/// Something changed at the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerChange {
    /// One of the lists: fetch the definitions again.
    Definitions,
    /// The content of a resource, by the server's own URI.
    Resource(String),
}

/// A request of the protocol, for one call.
pub struct Request {
    /// `tools/call`, `resources/read`, `prompts/get`, ….
    pub method: &'static str,
    /// Its parameters, without what the transport adds (progress token, version, capabilities).
    pub parameters: Value,
    /// The longest it may take, whatever progress is reported.
    pub deadline: Duration,
    /// Where progress goes.
    pub progress: Option<Arc<dyn Fn(Progress) + Send + Sync>>,
    /// Who is asked when the server asks; where there is none, the server is told so.
    pub client: Option<Arc<dyn Client>>,
}

/// A report of progress, as it came but checked: it only ever increases.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// How far.
    pub progress: f64,
    /// Of how much, if known.
    pub total: Option<f64>,
    /// In words.
    pub message: Option<String>,
}

/// Why a connection could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// It did not start, or could not be reached.
    #[error("the server could not be reached: {0}")]
    Unreachable(String),
    /// It speaks something else, or breaks the protocol.
    #[error("the server broke the protocol: {0}")]
    Protocol(String),
    /// A person has to log in first.
    #[error("the server wants somebody to log in")]
    LoginNeeded,
    /// It was not ready in time.
    #[error("the server was not ready within {} s", .0.as_secs())]
    Slow(Duration),
    /// Stopped from our side.
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
        /// The protocol's code.
        code: i64,
        /// The server's words.
        message: String,
        /// What came with it.
        data: Option<Value>,
    },
    /// What was asked for is not what the server offers any longer: it says that the request was
    /// made from another schema than it has.
    #[error("the server says that its definitions have changed: {0}")]
    Outdated(String),
    /// It broke the protocol, or sent more than is taken.
    #[error("the server broke the protocol: {0}")]
    Protocol(String),
    /// The connection ended after the request was sent: whether it ran is not known.
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
    /// As many requests are under way as the server is given, and as many wait.
    #[error("the server has {0} requests under way or waiting, which is all it is given")]
    Busy(usize),
    /// The server is down, and it is not time to try again.
    #[error("the server is down: {reason}; it is tried again in {} s", .again.as_secs())]
    Down {
        /// Why, escaped.
        reason: String,
        /// How long until it is tried again.
        again: Duration,
    },
    /// What is asked for was not accepted by a person, or is no longer what was accepted.
    #[error("{0}")]
    Withheld(String),
}

/// A mounted server, for what is made of its definitions: always there, whether it runs or not.
/// A request starts it if need be, waits its turn, and is refused if its definition is not the one
/// that was accepted.
pub trait Server: Send + Sync {
    /// The id it was given.
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
    /// Opens one: starts the process or reaches the address, agrees on an era. The caller bounds
    /// the time; dropping the future ends what was started.
    fn connect<'a>(
        &'a self,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Arc<dyn Connection>, ConnectError>>;

    /// The era to try first, if one is known from an earlier connection.
    fn known_era(&self) -> Option<ProtocolEra> {
        None
    }

    /// The last of what the server printed, if it is a process.
    fn last_words(&self) -> LastWords {
        LastWords::default()
    }
}

/// The last of what a server's process printed; for people, unescaped.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LastWords {
    /// To standard error.
    pub stderr: String,
    /// To standard output, and no message: whoever prints there does not speak the protocol.
    pub stray: String,
}

/// An open connection.
pub trait Connection: Send + Sync {
    /// The era that was agreed on.
    fn era(&self) -> ProtocolEra;

    /// Fetches what the server offers now.
    fn definitions<'a>(
        &'a self,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Definitions, RequestError>>;

    /// Sends a request and waits for its result. A cancel is passed on to the server, and so is
    /// every question of the server to the request's client.
    fn request<'a>(
        &'a self,
        request: Request,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Value, RequestError>>;

    /// How many requests of calls are under way: sent, and neither answered nor given up.
    fn under_way(&self) -> usize;

    /// Changes from now on, coalesced.
    fn changes(&self) -> broadcast::Receiver<ServerChange>;

    /// Waits until the connection has ended, and says why.
    fn closed(&self) -> BoxFuture<'_, String>;

    /// Ends it: the whole process tree, or the session. Returns when that is done.
    fn close(&self) -> BoxFuture<'_, ()>;
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("method", &self.method)
            .finish_non_exhaustive()
    }
}
