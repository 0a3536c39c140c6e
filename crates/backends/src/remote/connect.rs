//! How to get a byte stream to a serving helper, and the options sent over it.

use std::{collections::BTreeMap, fmt};

use haft_contract::{ErrorKind, future::BoxFuture, ops::OpsError};
use haft_sandbox::jail::Mounts;
use tokio::io::{AsyncRead, AsyncWrite};

use super::confinement::RemoteSandbox;

/// Makes connections to one place.
pub trait Connect: Send + Sync {
    /// Connects; the implementation limits the time.
    fn connect(&self) -> BoxFuture<'_, Result<Connection, ConnectError>>;
}

/// A byte stream in both directions to a serving helper.
pub struct Connection {
    /// What the helper sends.
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    /// What is sent to the helper.
    pub writer: Box<dyn AsyncWrite + Send + Unpin>,
    /// What carries the stream; dropped when the connection has ended.
    pub carrier: Box<dyn Carrier>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

/// What carries a connection: a child process, a socket.
pub trait Carrier: Send + Sync {
    /// Why the stream ended, if the carrier knows. Called once, at the end.
    fn last_words(&self) -> BoxFuture<'_, Option<ConnectError>>;
}

/// Knows no more than the stream itself.
impl Carrier for () {
    fn last_words(&self) -> BoxFuture<'_, Option<ConnectError>> {
        Box::pin(std::future::ready(None))
    }
}

/// How a remote workspace behaves. What is absent comes from the account that serves it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemoteOptions {
    /// Whether paths may lead onto file systems mounted inside the workspace.
    pub cross_mounts: Mounts,
    /// `PATH` of every child.
    pub search_path: Option<String>,
    /// `HOME` of every child.
    pub home: Option<String>,
    /// `TMPDIR` of every child.
    pub temporary: Option<String>,
    /// `USER` and `LOGNAME` of every child.
    pub user: Option<String>,
    /// More variables of every child, from the operator.
    pub environment: BTreeMap<String, String>,
    /// How children are confined in tiers above `host`.
    pub sandbox: RemoteSandbox,
}

/// A connection could not be made, or was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectError {
    message: String,
    hint: Option<String>,
}

impl ConnectError {
    /// An error with a message: lower case, no final period.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
        }
    }

    /// Adds what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What happened.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to do next, if something helps.
    pub fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ConnectError {}

impl From<&ConnectError> for OpsError {
    fn from(error: &ConnectError) -> Self {
        Self::new(ErrorKind::Unavailable, error.to_string())
    }
}
