//! The network as a tool reaches it: one connection, or one HTTP request. A host that the plan does
//! not name cannot be reached, and every address passes the back end's checks.

use std::{net::IpAddr, time::Duration};

use super::OpsError;
use crate::{artifact::ArtifactId, egress::Host, error::ErrorKind, future::BoxFuture};

/// Network operations of one workspace.
pub trait NetOps: Send + Sync {
    /// Connects to a port of a host.
    fn connect<'a>(
        &'a self,
        host: &'a Host,
        port: u16,
    ) -> BoxFuture<'a, Result<Box<dyn NetStream>, OpsError>>;

    /// Makes one HTTP request. A redirect is returned like any other response: to follow it, a tool
    /// needs a plan that names its target.
    /// A body that arrives compressed is returned as it was before; the limit is for that.
    fn fetch<'a>(&'a self, request: Fetch<'a>) -> BoxFuture<'a, Result<FetchResponse, OpsError>>;

    /// Connects, unless that leads to one of these addresses, which rules deny by whatever name. A network
    /// that cannot tell connects to nothing while there are any.
    fn connect_unless<'a>(
        &'a self,
        denied: &'a [IpAddr],
        host: &'a Host,
        port: u16,
    ) -> BoxFuture<'a, Result<Box<dyn NetStream>, OpsError>> {
        if denied.is_empty() {
            return self.connect(host, port);
        }
        Box::pin(async { Err(cannot_tell()) })
    }

    /// Makes one HTTP request, unless that leads to one of these addresses; see
    /// [`Self::connect_unless`].
    fn fetch_unless<'a>(
        &'a self,
        denied: &'a [IpAddr],
        request: Fetch<'a>,
    ) -> BoxFuture<'a, Result<FetchResponse, OpsError>> {
        if denied.is_empty() {
            return self.fetch(request);
        }
        Box::pin(async { Err(cannot_tell()) })
    }

    /// Keeps what a host sent as an artifact, for a tool that knows only later whether somebody will look
    /// at it again; `None` if it could not be kept.
    fn keep<'a>(&'a self, _body: &'a [u8]) -> BoxFuture<'a, Option<ArtifactId>> {
        Box::pin(async { None })
    }

    /// Says that a call is about to show what a host said earlier, from a copy that a tool kept.
    /// Nothing is connected to. The session counts as having read from the host.
    fn show_kept<'a>(&'a self, _host: &'a Host, _port: u16) -> BoxFuture<'a, Result<(), OpsError>> {
        Box::pin(async { Ok(()) })
    }
}

fn cannot_tell() -> OpsError {
    let message = "rules deny addresses, and the network here cannot tell where a name leads";
    OpsError::new(ErrorKind::Denied, message)
}

/// A connection. Dropping it closes it.
pub trait NetStream: Send {
    /// Reads at most this many bytes; returns none at the end.
    fn read(&mut self, limit: usize) -> BoxFuture<'_, Result<Vec<u8>, OpsError>>;

    /// Writes all of these bytes.
    fn write<'a>(&'a mut self, bytes: &'a [u8]) -> BoxFuture<'a, Result<(), OpsError>>;
}

/// An HTTP request.
#[derive(Debug, Clone)]
pub struct Fetch<'a> {
    /// `GET`, `POST` and the like.
    pub method: &'a str,
    /// Whether it is encrypted.
    pub scheme: WebScheme,
    /// The host, also used as the TLS server name.
    pub host: &'a Host,
    /// The port.
    pub port: u16,
    /// Path and query, starting with the slash.
    pub target: &'a str,
    /// Headers in addition to those that HTTP itself needs.
    pub headers: &'a [(String, String)],
    /// The body.
    pub body: &'a [u8],
    /// The largest response accepted, in bytes.
    pub max_bytes: usize,
    /// The total time it may take.
    pub within: Duration,
    /// Whether the body is kept as an artifact.
    pub keep: bool,
}

/// Whether a request is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebScheme {
    /// `http`: anybody on the path can read and change it.
    Plain,
    /// `https`.
    Tls,
}

impl WebScheme {
    /// The scheme as it appears in a URL.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "http",
            Self::Tls => "https",
        }
    }
}

/// A host's response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchResponse {
    /// The status.
    pub status: u16,
    /// The headers, in order; those that are not text are left out.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// Where the body is kept, if the request asked for that and it could be kept.
    pub kept: Option<ArtifactId>,
}
