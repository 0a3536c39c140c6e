//! Requests to one address: headers, authorization, and status handling.

use std::sync::{Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use haft_egress::{HttpClient, HttpError, HttpRequest, HttpResponse};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::server_questions::ServerQuestions;
use crate::upstream::{
    authorize::{Authorize, BearerToken, RefusalResponse, Unauthorized},
    connection::{ProtocolEra, RequestError},
    limits::{MESSAGE_BYTES, WORDS_CHARS},
    session::{VERSION_HEADER, notices::Notices},
    wire::{DroppedMessages, message},
};

/// The session header of the `initialize` era.
const SESSION: &str = "mcp-session-id";

/// The longest server header that is kept, in bytes.
const MAX_HEADER_BYTES: usize = 4 * 1024;

/// What all requests to one server share.
pub(super) struct Address {
    pub(super) client: std::sync::Arc<HttpClient>,
    pub(super) url: Url,
    /// The operator's own headers.
    pub(super) headers: HeaderMap,
    pub(super) authorize: Option<std::sync::Arc<dyn Authorize>>,
    pub(super) notices: std::sync::Arc<Notices>,
    pub(super) dropped: std::sync::Arc<DroppedMessages>,
    pub(super) beside: std::sync::Arc<ServerQuestions>,
    pub(super) agreed: OnceLock<(ProtocolEra, String)>,
    pub(super) session: Mutex<Option<HeaderValue>>,
    /// Fires when the server's own stream was opened or refused, or was waited for in vain.
    pub(super) listening: CancellationToken,
    pub(super) gone: CancellationToken,
    /// Why the connection ended; set before `gone` fires.
    pub(super) why: OnceLock<String>,
}

impl Address {
    pub(super) fn era(&self) -> Option<ProtocolEra> {
        self.agreed.get().map(|(era, _)| *era)
    }

    pub(super) fn session(&self) -> Option<HeaderValue> {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        session.clone()
    }

    /// Ends the connection and everything on it.
    pub(super) fn end(&self, why: &str) {
        let _ = self.why.set(why.to_owned());
        self.gone.cancel();
    }

    /// Posts a message and returns the response head, whatever its status.
    pub(super) async fn post(
        &self,
        message: String,
        headers: &[(HeaderName, HeaderValue)],
    ) -> Result<HttpResponse, RequestError> {
        let mut request = self.request(Method::POST, headers);
        let json = HeaderValue::from_static("application/json");
        let either = HeaderValue::from_static("application/json, text/event-stream");
        request.headers.insert(header::CONTENT_TYPE, json);
        request.headers.insert(header::ACCEPT, either);
        request.body = Bytes::from(message);
        self.deliver(request).await
    }

    /// Opens an event stream, resuming after the event with this id if given.
    pub(super) async fn get(&self, after: Option<&str>) -> Result<HttpResponse, RequestError> {
        let mut request = self.request(Method::GET, &[]);
        let events = HeaderValue::from_static("text/event-stream");
        request.headers.insert(header::ACCEPT, events);
        if let Some(after) = after {
            let after = HeaderValue::from_str(after);
            let after = after.map_err(|error| RequestError::NotSent(error.to_string()))?;
            request.headers.insert("last-event-id", after);
        }
        self.deliver(request).await
    }

    /// Ends the session at the server.
    pub(super) async fn delete(&self) -> Result<HttpResponse, RequestError> {
        self.deliver(self.request(Method::DELETE, &[])).await
    }

    fn request(&self, method: Method, headers: &[(HeaderName, HeaderValue)]) -> HttpRequest {
        let mut request = HttpRequest::new(method, self.url.clone());
        request.headers.clone_from(&self.headers);
        if let Some((_, version)) = self.agreed.get()
            && let Ok(version) = HeaderValue::from_str(version)
        {
            request.headers.insert(VERSION_HEADER, version);
        }
        if let Some(session) = self.session() {
            request.headers.insert(SESSION, session);
        }
        // Replaced, not appended: the negotiated version may be among them.
        for (name, value) in headers {
            request.headers.insert(name, value.clone());
        }
        request
    }

    async fn deliver(&self, request: HttpRequest) -> Result<HttpResponse, RequestError> {
        let mut tried = false;
        loop {
            let token = match &self.authorize {
                Some(authorize) => authorize.token().await,
                None => None,
            };
            let mut request = request.clone();
            if let Some(token) = &token {
                let bearer = HeaderValue::from_str(&format!("Bearer {}", token.reveal()));
                let mut bearer = bearer.map_err(|_| RequestError::LoginNeeded)?;
                bearer.set_sensitive(true);
                request.headers.insert(header::AUTHORIZATION, bearer);
            }
            let response = self.client.send(request).await.map_err(failed)?;
            match self.refused(&response, token).await? {
                DeliveryRefusal::No => return Ok(response),
                DeliveryRefusal::TryAgain if !tried => tried = true,
                DeliveryRefusal::TryAgain => return Err(RequestError::LoginNeeded),
            }
        }
    }

    /// Whether the server wants different authorization.
    async fn refused(
        &self,
        response: &HttpResponse,
        sent: Option<BearerToken>,
    ) -> Result<DeliveryRefusal, RequestError> {
        let www_authenticate = response.headers().get(header::WWW_AUTHENTICATE);
        let www_authenticate = www_authenticate.and_then(|value| value.to_str().ok());
        match response.status() {
            StatusCode::UNAUTHORIZED => {}
            StatusCode::FORBIDDEN if www_authenticate.is_some() => {}
            _ => return Ok(DeliveryRefusal::No),
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
            RefusalResponse::TryAgain => Ok(DeliveryRefusal::TryAgain),
            RefusalResponse::LoginNeeded => Err(RequestError::LoginNeeded),
        }
    }

    /// Keeps the session id from the server, which every later request must carry.
    pub(super) fn note_session(&self, response: &HttpResponse) {
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
    pub(super) async fn failure(&self, response: HttpResponse) -> RequestError {
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

enum DeliveryRefusal {
    No,
    TryAgain,
}

/// Reads a whole body, up to the size of a message.
pub(super) async fn whole(mut response: HttpResponse) -> Result<String, RequestError> {
    let body = response.body(MESSAGE_BYTES).await.map_err(failed)?;
    String::from_utf8(body)
        .map_err(|_| RequestError::Protocol("its answer is not UTF-8".to_owned()))
}

/// Converts a transport failure.
pub(super) fn failed(error: HttpError) -> RequestError {
    match error {
        HttpError::TooLarge(limit) => {
            RequestError::Protocol(format!("it sent a message of more than {limit} bytes"))
        }
        HttpError::TooManyHeaders => RequestError::Protocol(bounded(&error.to_string())),
        HttpError::Lost(why) => RequestError::Lost(bounded(&why)),
        other => RequestError::NotSent(bounded(&other.to_string())),
    }
}

fn bounded(words: &str) -> String {
    words.chars().take(WORDS_CHARS).collect()
}
