//! Every cap of the gateway, with its default. What a stranger can send, and how long anything waits.

use std::time::Duration;

use haft_host::config::serve::ServeSettings;

/// Connections open at once; the next ones wait to be accepted.
pub(crate) const MAX_CONNECTIONS: usize = 16_384;

/// How long a client has to send the head of a request, and how long a connection may idle between two.
pub(crate) const HEAD_WAIT: Duration = Duration::from_secs(30);

/// How long a client has to send a body.
pub(crate) const BODY_WAIT: Duration = Duration::from_secs(30);

/// The most headers of a request.
pub(crate) const MAX_HEADERS: usize = 64;

/// How long requests in progress may take once serving ends.
pub(crate) const END_WAIT: Duration = Duration::from_secs(5);

/// How long to wait after a connection could not be accepted, for example because there were no
/// descriptors.
pub(crate) const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// The most entries on one page of a list.
pub(crate) const MAX_PAGE: usize = 200;

/// How many entries a page has if nobody says.
pub(crate) const PAGE: usize = 50;

/// How long a request for a call waits for its end if nobody says.
pub(crate) const CALL_WAIT: Duration = Duration::from_secs(30);

/// The longest that a request for a call may wait for its end.
pub(crate) const MAX_CALL_WAIT: Duration = Duration::from_mins(10);

/// The longest `Idempotency-Key`.
pub(crate) const MAX_IDEMPOTENCY_KEY: usize = 255;

/// A sign of life on a stream on which nothing happens.
pub(crate) const STREAM_BEAT: Duration = Duration::from_secs(15);

/// The most MCP sessions of one tenant, so that none takes all there are.
pub(crate) const TENANT_SESSIONS: usize = 250;

/// The most bytes of an output that one page has.
pub(crate) const MAX_OUTPUT_PAGE: usize = 256 * 1024;

/// What an operator may set.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Limits {
    /// The most bytes of a body.
    pub body_bytes: usize,
    /// The most live streams of one credential.
    pub streams_per_credential: usize,
    /// The most live streams in all.
    pub streams: usize,
    /// How many requests a second one credential may make, over time.
    pub requests_per_second: u32,
    /// How many requests it may make at once before that counts.
    pub burst: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 4 * 1024 * 1024,
            streams_per_credential: 64,
            streams: 16_384,
            requests_per_second: 200,
            burst: 1_000,
        }
    }
}

impl Limits {
    /// Those of the settings, with the defaults where they say nothing.
    pub(crate) fn of(settings: &ServeSettings) -> Self {
        let defaults = Self::default();
        let count = |name: &str, default: usize| {
            let set = settings.cap(name).map(usize::try_from);
            set.map_or(default, |set| set.unwrap_or(usize::MAX))
        };
        let rate = |name: &str, default: u32| {
            let set = settings.cap(name).map(u32::try_from);
            set.map_or(default, |set| set.unwrap_or(u32::MAX))
        };
        Self {
            body_bytes: count("body_bytes", defaults.body_bytes),
            streams_per_credential: count(
                "streams_per_credential",
                defaults.streams_per_credential,
            ),
            streams: count("streams", defaults.streams),
            requests_per_second: rate("requests_per_second", defaults.requests_per_second),
            burst: rate("burst", defaults.burst),
        }
    }
}
