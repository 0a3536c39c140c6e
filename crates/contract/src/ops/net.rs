//! The network as a tool reaches it: one connection, or one HTTP request. What a plan did not name is
//! not reached, and what is reached went through the back end's admission of addresses.

use std::time::Duration;

use super::OpsError;
use crate::{egress::Host, future::BoxFuture};

/// Network operations of one workspace.
pub trait NetOps: Send + Sync {
    /// Connects to a port of a host.
    fn connect<'a>(
        &'a self,
        host: &'a Host,
        port: u16,
    ) -> BoxFuture<'a, Result<Box<dyn NetStream>, OpsError>>;

    /// Makes one HTTP request. A redirect is an answer like any other: whoever follows it needs a plan
    /// that names where it leads.
    fn fetch<'a>(&'a self, request: Fetch<'a>) -> BoxFuture<'a, Result<FetchResponse, OpsError>>;
}

/// A connection. Dropping it closes it.
pub trait NetStream: Send {
    /// Reads up to this many bytes; none at the end.
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
    /// The host, which is also what TLS asks for.
    pub host: &'a Host,
    /// The port.
    pub port: u16,
    /// Path and query, from the slash on.
    pub target: &'a str,
    /// Headers beside those that HTTP itself needs.
    pub headers: &'a [(String, String)],
    /// The body.
    pub body: &'a [u8],
    /// The largest answer that is taken, in bytes.
    pub max_bytes: usize,
    /// How long it may take in all.
    pub within: Duration,
}

/// Whether a request is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebScheme {
    /// `http`: anybody on the way can read and change it.
    Plain,
    /// `https`.
    Tls,
}

impl WebScheme {
    /// The word in an address.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "http",
            Self::Tls => "https",
        }
    }
}

/// What a host answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchResponse {
    /// The status.
    pub status: u16,
    /// The headers, in order; what is no text is left out.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}
