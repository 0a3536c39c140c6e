//! Decides who may talk to the endpoint at all. Three questions, in this order: does the client
//! think it is talking to us (`Host`), does it come from a web page we know (`Origin`), and who is
//! it: the holder of the one token, or somebody the host identifies.
//!
//! The first two keep out web pages that tricked a browser into sending here; the last keeps out
//! everybody else. Each refusal says what to do.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Response, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN, WWW_AUTHENTICATE},
    request::Parts,
    uri::Authority,
};
use http_body_util::{BodyExt as _, Full};
use serde_json::json;
use url::{Origin, Url};

use super::{HttpAnswer, PATH, token::Token};
use crate::server::caller::{Caller, Identify};

/// How long the host may take to identify a caller.
const IDENTIFY_WAIT: Duration = Duration::from_secs(10);

/// How a client proves who it is.
#[derive(Clone)]
enum Credentials {
    /// With the one token; it is then the endpoint's own caller.
    Token(Token),
    /// The host identifies it.
    Identify(Arc<dyn Identify>),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Token(_) => "Token",
            Self::Identify(_) => "Identify",
        })
    }
}

/// Checks every request before the protocol sees it.
#[derive(Debug, Clone)]
pub struct Guard {
    credentials: Credentials,
    hosts: Vec<String>,
    origins: Vec<Origin>,
}

/// Why an origin cannot be allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the origin of a web page, such as `https://app.example.com`")]
pub struct OriginError(String);

impl Guard {
    /// Admits holders of the token who address us by a name of this machine.
    pub fn new(token: Token) -> Self {
        Self::with(Credentials::Token(token))
    }

    /// Admits callers the host identifies who address us by a name of this machine. Each request
    /// has its own caller.
    pub fn identified(identify: Arc<dyn Identify>) -> Self {
        Self::with(Credentials::Identify(identify))
    }

    fn with(credentials: Credentials) -> Self {
        let names = ["localhost", "127.0.0.1", "::1"];
        Self {
            credentials,
            hosts: names.map(str::to_owned).to_vec(),
            origins: Vec::new(),
        }
    }

    /// Adds a name or address that clients may address us by, without a port.
    #[must_use]
    pub fn host(mut self, host: &str) -> Self {
        self.hosts.push(plain(host));
        self
    }

    /// Adds the origin of a web page that may talk to us.
    pub fn origin(mut self, origin: &str) -> Result<Self, OriginError> {
        let parsed = Url::parse(origin).map(|url| url.origin());
        match parsed {
            Ok(parsed) if parsed.is_tuple() => {
                self.origins.push(parsed);
                Ok(self)
            }
            Ok(_) | Err(_) => Err(OriginError(
                origin.chars().flat_map(char::escape_debug).collect(),
            )),
        }
    }

    pub(super) fn hosts(&self) -> Vec<String> {
        self.hosts.clone()
    }

    pub(super) fn origins(&self) -> Vec<String> {
        let with_port = |origin: &Origin| match origin {
            Origin::Tuple(scheme, host, port) => format!("{scheme}://{host}:{port}"),
            Origin::Opaque(_) => String::new(),
        };
        self.origins.iter().map(with_port).collect()
    }

    /// Who a request is from, or why it is refused. `None` is the endpoint's own caller.
    pub(super) async fn admit(&self, head: &Parts) -> Result<Option<Caller>, Box<HttpAnswer>> {
        self.check(head)?;
        let identify = match &self.credentials {
            Credentials::Token(_) => return Ok(None),
            Credentials::Identify(identify) => identify,
        };
        let identified = identify.identify(&head.headers);
        match tokio::time::timeout(IDENTIFY_WAIT, identified).await {
            Ok(Some(caller)) => Ok(Some(caller)),
            Ok(None) => {
                let message = "this server does not know who you are; send a credential it knows in \
                               the header `Authorization`";
                Err(Box::new(unauthorized(message)))
            }
            Err(_) => {
                let message = "identifying the caller took too long; try again";
                Err(Box::new(refusal(StatusCode::SERVICE_UNAVAILABLE, message)))
            }
        }
    }

    /// Admits or refuses a request as far as can be decided without waiting.
    fn check(&self, head: &Parts) -> Result<(), Box<HttpAnswer>> {
        let refused = |status, message: &str| Err(Box::new(refusal(status, message)));
        if !self.is_for_us(head) {
            return refused(
                StatusCode::FORBIDDEN,
                "this server is not called by that name; use the address it printed when it \
                 started, or start it with `--allow-host NAME`",
            );
        }
        if !self.comes_from_somewhere_known(&head.headers) {
            return refused(
                StatusCode::FORBIDDEN,
                "web pages of that origin may not speak to this server; if this one should, start \
                 it with `--allow-origin ORIGIN`",
            );
        }
        if head.uri.path() != PATH {
            let message = format!("there is nothing here; the endpoint is `{PATH}`");
            return refused(StatusCode::NOT_FOUND, &message);
        }
        match &self.credentials {
            Credentials::Token(token) if !holds(token, &head.headers) => {
                let message = "send the header `Authorization: Bearer TOKEN`; `haft mcp token` prints \
                               the token";
                Err(Box::new(unauthorized(message)))
            }
            Credentials::Token(_) | Credentials::Identify(_) => Ok(()),
        }
    }

    /// Whether every name the request addresses us by is one of ours.
    fn is_for_us(&self, head: &Parts) -> bool {
        let mut named = head.headers.get_all(HOST).iter();
        let (Some(host), None) = (named.next(), named.next()) else {
            return false;
        };
        let host = host
            .to_str()
            .ok()
            .and_then(|it| it.parse::<Authority>().ok());
        let in_line = head.uri.authority();
        let ours = |authority: &Authority| self.hosts.contains(&plain(authority.host()));
        host.as_ref().is_some_and(ours) && in_line.is_none_or(ours)
    }

    /// Whether the origin is known or absent: a program sends none, a browser sends the page's.
    fn comes_from_somewhere_known(&self, headers: &HeaderMap) -> bool {
        headers.get_all(ORIGIN).iter().all(|origin| {
            let origin = origin.to_str().ok().and_then(|it| Url::parse(it).ok());
            origin.is_some_and(|origin| self.origins.contains(&origin.origin()))
        })
    }
}

fn holds(token: &Token, headers: &HeaderMap) -> bool {
    let mut offered = headers.get_all(AUTHORIZATION).iter();
    let (Some(offered), None) = (offered.next(), offered.next()) else {
        return false;
    };
    let offered = offered.to_str().ok().and_then(|it| it.split_once(' '));
    offered.is_some_and(|(scheme, offered)| {
        scheme.eq_ignore_ascii_case("bearer") && token.is(offered.trim())
    })
}

/// Refuses a client that has not proven who it is.
fn unauthorized(message: &str) -> HttpAnswer {
    let mut refused = refusal(StatusCode::UNAUTHORIZED, message);
    let challenge = HeaderValue::from_static("Bearer realm=\"haft\"");
    refused.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    refused
}

/// A host in the form used for comparison: without brackets, in lower case.
fn plain(host: &str) -> String {
    let host = host.strip_prefix('[').unwrap_or(host);
    host.strip_suffix(']').unwrap_or(host).to_ascii_lowercase()
}

/// A refusal that both a person and a client looking for a protocol error can read.
pub(super) fn refusal(status: StatusCode, message: &str) -> HttpAnswer {
    let body = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": message}});
    let mut refused = Response::new(Full::new(Bytes::from(body.to_string())).boxed());
    *refused.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    refused.headers_mut().insert(CONTENT_TYPE, json);
    refused
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn check(headers: &[(&str, &str)]) -> u16 {
        let guard = Guard::new(Token::parse(TOKEN).unwrap())
            .host("haft.example")
            .origin("https://app.example.com")
            .unwrap();
        let mut request = Request::post(PATH);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        guard
            .check(&head)
            .map_or_else(|refused| refused.status().as_u16(), |()| 200)
    }

    #[test]
    fn a_name_that_is_not_ours_is_refused() {
        let bearer = ("authorization", &*format!("Bearer {TOKEN}"));
        for host in ["localhost:8931", "127.0.0.1", "[::1]:9", "HAFT.example"] {
            assert_eq!(check(&[("host", host), bearer]), 200, "{host}");
        }
        for host in [
            "evil.test",
            "127.evil.com",
            "localhost.evil.test",
            "",
            "a b",
        ] {
            assert_eq!(check(&[("host", host), bearer]), 403, "{host}");
        }
        let twice = [("host", "localhost"), ("host", "evil.test"), bearer];
        assert_eq!(check(&twice), 403);
        assert_eq!(check(&[bearer]), 403);
    }

    #[test]
    fn a_web_page_that_is_not_known_is_refused() {
        let bearer = ("authorization", &*format!("Bearer {TOKEN}"));
        let host = ("host", "localhost");
        for known in ["https://app.example.com", "https://APP.example.com:443"] {
            assert_eq!(check(&[host, bearer, ("origin", known)]), 200, "{known}");
        }
        for foreign in [
            "http://app.example.com",
            "https://app.example.com:8443",
            "https://app.example.com.evil.test",
            "http://localhost",
            "null",
            "",
        ] {
            let headers = [host, bearer, ("origin", foreign)];
            assert_eq!(check(&headers), 403, "{foreign}");
        }
    }

    #[test]
    fn without_the_token_nobody_gets_in() {
        let host = ("host", "localhost");
        assert_eq!(check(&[host]), 401);
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer x",
            &format!("Basic {TOKEN}"),
            TOKEN,
        ] {
            assert_eq!(check(&[host, ("authorization", wrong)]), 401, "{wrong}");
        }
        let good = format!("bearer {TOKEN}");
        assert_eq!(check(&[host, ("authorization", &good)]), 200);
        let twice = [host, ("authorization", &good), ("authorization", &good)];
        assert_eq!(check(&twice), 401);
    }

    #[test]
    fn only_the_origin_of_a_page_can_be_allowed() {
        let guard = Guard::new(Token::parse(TOKEN).unwrap());
        for odd in ["null", "app.example.com", "file:///x", "data:x"] {
            assert!(guard.clone().origin(odd).is_err(), "{odd}");
        }
    }
}
