//! Requests to one address: headers, authorization, and what a status means.

use std::sync::{Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use reqwest::{Method, Response};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::beside::Beside;
use crate::upstream::{
    authorize::{Authorize, BearerToken, Next, Unauthorized},
    connection::{Era, RequestError},
    limits::{MESSAGE_BYTES, WORDS_CHARS},
    session::{VERSION_HEADER, notices::Notices},
    wire::{Dropped, message},
};

/// The header of a session with `initialize`.
const SESSION: &str = "mcp-session-id";

/// The longest header of a server that is kept, in bytes.
const MAX_HEADER_BYTES: usize = 4 * 1024;

/// What all requests to one server share.
pub(super) struct Address {
    pub(super) client: reqwest::Client,
    pub(super) url: Url,
    /// The operator's own headers.
    pub(super) headers: HeaderMap,
    pub(super) authorize: Option<std::sync::Arc<dyn Authorize>>,
    pub(super) notices: std::sync::Arc<Notices>,
    pub(super) dropped: std::sync::Arc<Dropped>,
    pub(super) beside: std::sync::Arc<Beside>,
    pub(super) agreed: OnceLock<(Era, String)>,
    pub(super) session: Mutex<Option<HeaderValue>>,
    pub(super) gone: CancellationToken,
    /// Why it is gone; set before `gone` fires.
    pub(super) why: OnceLock<String>,
}

impl Address {
    pub(super) fn era(&self) -> Option<Era> {
        self.agreed.get().map(|(era, _)| *era)
    }

    pub(super) fn session(&self) -> Option<HeaderValue> {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        session.clone()
    }

    /// Ends everything.
    pub(super) fn end(&self, why: &str) {
        let _ = self.why.set(why.to_owned());
        self.gone.cancel();
    }

    /// Posts a message; gives the answer's head, whatever its status.
    pub(super) async fn post(
        &self,
        message: String,
        headers: &[(HeaderName, HeaderValue)],
    ) -> Result<Response, RequestError> {
        let body = Bytes::from(message);
        let build = || {
            let mut request = self.request(Method::POST, headers);
            request = request
                .header(header::CONTENT_TYPE, "application/json")
                .header(header::ACCEPT, "application/json, text/event-stream");
            request.body(body.clone())
        };
        self.deliver(build).await
    }

    /// Opens a stream of events, from after the one with this id if it is given.
    pub(super) async fn get(&self, after: Option<&str>) -> Result<Response, RequestError> {
        let build = || {
            let mut request = self.request(Method::GET, &[]);
            request = request.header(header::ACCEPT, "text/event-stream");
            match after {
                Some(after) => request.header("last-event-id", after),
                None => request,
            }
        };
        self.deliver(build).await
    }

    /// Ends the session at the server.
    pub(super) async fn delete(&self) -> Result<Response, RequestError> {
        self.deliver(|| self.request(Method::DELETE, &[])).await
    }

    fn request(
        &self,
        method: Method,
        headers: &[(HeaderName, HeaderValue)],
    ) -> reqwest::RequestBuilder {
        let mut request = self.client.request(method, self.url.clone());
        request = request.headers(self.headers.clone());
        if let Some((_, version)) = self.agreed.get() {
            request = request.header(VERSION_HEADER, version);
        }
        if let Some(session) = self.session() {
            request = request.header(SESSION, session);
        }
        // Set, not added: what was agreed on may be among them.
        let headers: HeaderMap = headers.iter().cloned().collect();
        request.headers(headers)
    }

    async fn deliver(
        &self,
        build: impl Fn() -> reqwest::RequestBuilder,
    ) -> Result<Response, RequestError> {
        let mut tried = false;
        loop {
            let token = match &self.authorize {
                Some(authorize) => authorize.token().await,
                None => None,
            };
            let mut request = build();
            if let Some(token) = &token {
                request = request.bearer_auth(token.reveal());
            }
            let response = request.send().await.map_err(not_delivered)?;
            match self.refused(&response, token).await? {
                Refused::No => return Ok(response),
                Refused::TryAgain if !tried => tried = true,
                Refused::TryAgain => return Err(RequestError::LoginNeeded),
            }
        }
    }

    /// Whether the server wants another authorization.
    async fn refused(
        &self,
        response: &Response,
        sent: Option<BearerToken>,
    ) -> Result<Refused, RequestError> {
        let www_authenticate = response.headers().get(header::WWW_AUTHENTICATE);
        let www_authenticate = www_authenticate.and_then(|value| value.to_str().ok());
        match response.status() {
            StatusCode::UNAUTHORIZED => {}
            StatusCode::FORBIDDEN if www_authenticate.is_some() => {}
            _ => return Ok(Refused::No),
        }
        let Some(authorize) = &self.authorize else {
            return Err(RequestError::LoginNeeded);
        };
        let refusal = Unauthorized {
            status: response.status().as_u16(),
            www_authenticate: www_authenticate
                .map(|value| value.chars().take(MAX_HEADER_BYTES).collect()),
            sent,
        };
        match authorize.on_unauthorized(refusal).await {
            Next::TryAgain => Ok(Refused::TryAgain),
            Next::LoginNeeded => Err(RequestError::LoginNeeded),
        }
    }

    /// Keeps the session a server gave, which every later request must name.
    pub(super) fn note_session(&self, response: &Response) {
        if self.agreed.get().is_some() {
            return;
        }
        let session = response.headers().get(SESSION);
        if let Some(session) = session.filter(|session| session.len() <= MAX_HEADER_BYTES) {
            let mut kept = self.session.lock().unwrap_or_else(PoisonError::into_inner);
            *kept = Some(session.clone());
        }
    }

    /// What a status other than success means.
    pub(super) async fn failure(&self, response: Response) -> RequestError {
        let status = response.status();
        if status == StatusCode::NOT_FOUND && self.session().is_some() {
            let why = "the server has forgotten the session";
            self.end(why);
            return RequestError::NotSent(why.to_owned());
        }
        if status.is_redirection() {
            let to = response.headers().get(header::LOCATION);
            let to = to.and_then(|to| to.to_str().ok()).unwrap_or_default();
            let to: String = to.chars().take(200).flat_map(char::escape_debug).collect();
            let why = format!("it redirects to `{to}`, which is not followed");
            return RequestError::NotSent(why);
        }
        if let Ok(body) = whole(response).await
            && let Some(error) = message::read_error(&body)
        {
            return error;
        }
        let why = format!("it answered with HTTP status {}", status.as_u16());
        if status.is_client_error() || status == StatusCode::SERVICE_UNAVAILABLE {
            RequestError::NotSent(why)
        } else {
            RequestError::Lost(why)
        }
    }
}

enum Refused {
    No,
    TryAgain,
}

/// Reads a whole body, up to the size of a message.
pub(super) async fn whole(mut response: Response) -> Result<String, RequestError> {
    let too_large = || {
        let why = format!("it sent a message of more than {MESSAGE_BYTES} bytes");
        RequestError::Protocol(why)
    };
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(lost)? {
        if body.len() + chunk.len() > MESSAGE_BYTES {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    String::from_utf8(body)
        .map_err(|_| RequestError::Protocol("its answer is not UTF-8".to_owned()))
}

/// Why a request did not get through.
fn not_delivered(error: reqwest::Error) -> RequestError {
    let before = error.is_connect() || error.is_builder();
    let why = describe(error);
    if before {
        RequestError::NotSent(why)
    } else {
        RequestError::Lost(why)
    }
}

/// Why an answer broke off.
pub(super) fn lost(error: reqwest::Error) -> RequestError {
    RequestError::Lost(describe(error))
}

/// An error with its causes and without the address, which may hold secrets.
fn describe(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut words = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        words = format!("{words}: {error}");
        cause = error.source();
    }
    words.chars().take(WORDS_CHARS).collect()
}
