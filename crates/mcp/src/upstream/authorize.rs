//! How requests to a mounted HTTP server get their token. The transport asks before every request
//! and reports a refusal; how a token is obtained is not its concern.

use std::fmt;

use haft_contract::future::BoxFuture;

/// A bearer token. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct BearerToken(String);

impl BearerToken {
    /// Takes the token without its `Bearer` prefix.
    pub fn new(token: String) -> Self {
        Self(token)
    }

    /// The token itself, for the header it goes into.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken(..)")
    }
}

/// A server refused a request because it was not authorized.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unauthorized {
    /// 401 (who are you) or 403 (you may not).
    pub status: u16,
    /// The server's challenge, unparsed but capped.
    pub www_authenticate: Option<String>,
    /// The token that was sent, so that one already replaced is not replaced twice.
    pub sent: Option<BearerToken>,
}

/// What to do about a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalResponse {
    /// Ask for a token again and send the request once more.
    TryAgain,
    /// Only a person can help.
    LoginNeeded,
}

/// Authorizes the requests to one server with one credential.
pub trait Authorize: Send + Sync {
    /// The token to send, if there is one. Refreshes one that is about to expire, within its own
    /// time limit. Dropping the future leaves a usable state.
    fn token(&self) -> BoxFuture<'_, Option<BearerToken>>;

    /// Handles a refusal: gets a new token if that is possible without a person, and says what to
    /// do. A request is resent at most once.
    fn on_unauthorized(&self, refusal: Unauthorized) -> BoxFuture<'_, RefusalResponse>;
}
