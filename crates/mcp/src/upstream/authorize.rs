//! Who says what a request to a mounted HTTP server is authorized with. The transport asks before
//! every request and reports a refusal; how a token is come by is not its business.

use std::fmt;

use haft_contract::future::BoxFuture;

/// A bearer token. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct BearerToken(String);

impl BearerToken {
    /// Takes a token as it stands behind `Bearer`.
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

/// A server refused a request for want of authorization.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unauthorized {
    /// 401 (who are you) or 403 (you may not).
    pub status: u16,
    /// What the server says it wants, as it came but capped.
    pub www_authenticate: Option<String>,
    /// The token that was sent, so that one that was replaced meanwhile is not replaced twice.
    pub sent: Option<BearerToken>,
}

/// What to do about a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalResponse {
    /// Ask for a token again and send the request once more.
    TryAgain,
    /// Nothing but a person can help.
    LoginNeeded,
}

/// Authorizes the requests to one server with one credential.
pub trait Authorize: Send + Sync {
    /// The token to send; none while there is none. Refreshes one that is about to expire, within a
    /// time limit of its own. Dropping the future leaves a usable state.
    fn token(&self) -> BoxFuture<'_, Option<BearerToken>>;

    /// Hears of a refusal, gets a new token if that is possible without a person, and says what to
    /// do. A request is sent at most once more.
    fn on_unauthorized(&self, refusal: Unauthorized) -> BoxFuture<'_, RefusalResponse>;
}
