//! An endpoint over Streamable HTTP for somebody else's HTTP server: one request of an identified
//! caller in, one answer out, for clients of both eras.
//!
//! Everything a client can send is bounded here: bodies and the time for them, sessions in all and of
//! one tenant, answers whose stream was lost. Who the caller is, and which hosts and web pages may
//! send here at all, is for the server to check before. A session belongs to the caller who began it,
//! in the workspace it was begun in; for anybody else it does not exist (`session_owners`).

use std::{borrow::Cow, error::Error, io, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, request::Parts};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Body;
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::{
    BODY_WAIT, HttpAnswer, MAX_SESSIONS, SESSION_IDLE,
    guard::{Guard, refusal},
    lost_answers::{COME_BACK, LostAnswers},
    plain::PlainCall,
    session_owners::{SessionCaps, SessionOwner, SessionOwners, SessionRoom, SessionsFull},
};
use crate::server::{
    MAX_MESSAGE_BYTES,
    caller::{Caller, ServedCaller},
    connection::Connection,
    endpoint::Endpoint,
};

/// The header that names a session.
const SESSION: &str = "mcp-session-id";

tokio::task_local! {
    /// Who sent the request that this task answers. The SDK creates the connection for it in the
    /// same task without passing anything.
    static CALLER: ServedCaller;
}

/// The body of a request, whichever HTTP server received it.
pub trait RequestBody:
    Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static
{
}

impl<B> RequestBody for B where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static
{
}

/// The limits of an endpoint in somebody else's HTTP server.
#[derive(Debug, Clone)]
#[must_use = "options do nothing before an endpoint has them"]
pub struct HttpOptions {
    sessions: usize,
    tenant_sessions: usize,
    come_back: Duration,
    /// What the SDK checks once more after a guard has, with better messages.
    guard: Option<Guard>,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            sessions: MAX_SESSIONS,
            tenant_sessions: MAX_SESSIONS,
            come_back: COME_BACK,
            guard: None,
        }
    }
}

impl HttpOptions {
    /// Sets how many sessions are open at once. The default is [`MAX_SESSIONS`].
    pub fn sessions(mut self, most: usize) -> Self {
        self.sessions = most;
        self
    }

    /// Sets how many sessions one tenant has open at once, so that none takes them all. The default
    /// is as many as there are.
    pub fn tenant_sessions(mut self, most: usize) -> Self {
        self.tenant_sessions = most;
        self
    }

    /// Sets how long a client with a session has to reconnect for an answer whose stream it lost.
    /// The default is [`COME_BACK`].
    pub fn come_back(mut self, within: Duration) -> Self {
        self.come_back = within;
        self
    }

    pub(super) fn behind(mut self, guard: &Guard) -> Self {
        self.guard = Some(guard.clone());
        self
    }
}

/// An endpoint, ready to answer requests that some HTTP server received.
pub struct HttpEndpoint {
    endpoint: Arc<Endpoint>,
    protocol: StreamableHttpService<Connection, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
    absences: Arc<LostAnswers>,
    owners: SessionOwners,
    /// Cancelled when serving ends.
    gone: CancellationToken,
}

impl HttpEndpoint {
    /// Answers until `cancel` is cancelled, which ends sessions and streams.
    pub fn new(endpoint: Arc<Endpoint>, options: HttpOptions, cancel: &CancellationToken) -> Self {
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(SESSION_IDLE);
        let sessions = Arc::new(sessions);
        let config = StreamableHttpServerConfig::default()
            .with_json_response(true)
            .with_max_request_body_bytes(MAX_MESSAGE_BYTES)
            .with_cancellation_token(cancel.child_token());
        let config = match &options.guard {
            Some(guard) => config
                .with_allowed_hosts(guard.hosts())
                .with_allowed_origins(guard.origins())
                .enforce_origin_validation(),
            None => config.disable_allowed_hosts().disable_allowed_origins(),
        };
        let (of, gone) = (Arc::clone(&endpoint), cancel.clone());
        let connect = move || {
            // Never serve a request without a known caller.
            let served = CALLER.try_with(Clone::clone).map_err(io::Error::other)?;
            Ok(Connection::new(Arc::clone(&of), served, &gone))
        };
        Self {
            endpoint,
            gone: cancel.clone(),
            protocol: StreamableHttpService::new(connect, Arc::clone(&sessions), config),
            absences: LostAnswers::new(Arc::clone(&sessions), options.come_back),
            owners: SessionOwners::new(SessionCaps {
                in_all: options.sessions,
                of_tenant: options.tenant_sessions,
            }),
            sessions,
        }
    }

    /// Answers a request of this caller, in the caller's workspace. The path is not looked at. The
    /// answer may be a stream that goes on for as long as somebody reads it; dropping it, or this
    /// future, cancels what the request started, unless a session's client may come back for it.
    pub async fn answer<B: RequestBody>(&self, caller: Caller, request: Request<B>) -> HttpAnswer {
        self.answer_to(Some(caller), request).await
    }

    /// As [`Self::answer`]; nobody is the endpoint's own caller.
    pub(super) async fn answer_to<B: RequestBody>(
        &self,
        caller: Option<Caller>,
        request: Request<B>,
    ) -> HttpAnswer {
        let (head, body) = request.into_parts();
        let served = self.endpoint.admit(caller).await;
        let session = head.headers.get(SESSION);
        let session = session.and_then(|it| it.to_str().ok()).map(str::to_owned);
        if let Some(session) = &session {
            let is_theirs = self.owners.may_use(session, &self.owner(&served.caller));
            if !is_theirs
                || !self
                    .sessions
                    .sessions
                    .read()
                    .await
                    .contains_key(session.as_str())
            {
                // In the protocol this means: begin a new one. Whoever asks for somebody else's session
                // reads the same as whoever asks for none.
                return refusal(StatusCode::NOT_FOUND, "there is no such session");
            }
            self.absences.heard(session);
        }
        let ends = head.method == Method::DELETE && session.is_some();
        let body = match read(body).await {
            Ok(body) => body,
            Err(refused) => return *refused,
        };
        // Only the body decides whether this begins a session, whatever the headers claim.
        let room = if session.is_none() && begins_a_session(&body) {
            match self.room_for(&served.caller).await {
                Ok(room) => Some(room),
                Err(full) => {
                    return refusal(StatusCode::SERVICE_UNAVAILABLE, &full.to_string());
                }
            }
        } else {
            None
        };
        let mut answer = match PlainCall::read(&head, &body, &served) {
            Some(call) => call.answer(&self.endpoint, &served, &self.gone).await,
            None => self.through_the_sdk(session, head, body, served).await,
        };
        drop(room);
        // The SDK says "accepted", as for a notification, and clients warn about a session that may
        // not have ended.
        if ends && answer.status() == StatusCode::ACCEPTED {
            *answer.status_mut() = StatusCode::NO_CONTENT;
        }
        // Tells a proxy in front of us to pass on a stream's events at once.
        let unbuffered = HeaderValue::from_static("no");
        answer.headers_mut().insert("x-accel-buffering", unbuffered);
        answer
    }

    /// Room for another session of a caller.
    async fn room_for(&self, caller: &Caller) -> Result<SessionRoom<'_>, SessionsFull> {
        let open = self.sessions.sessions.read().await;
        let is_open = |session: &str| open.contains_key(session);
        let tenant = &caller.principal().tenant;
        self.owners.room_for(tenant, open.len(), is_open)
    }

    fn owner(&self, caller: &Caller) -> SessionOwner {
        let principal = caller.principal();
        SessionOwner {
            tenant: principal.tenant.clone(),
            workspace: caller.workspace().clone(),
            owner: self.endpoint.owner_of(principal),
        }
    }

    /// Answers requests that are not plain.
    async fn through_the_sdk(
        &self,
        session: Option<String>,
        head: Parts,
        body: Bytes,
        served: ServedCaller,
    ) -> HttpAnswer {
        let begins = session.is_none().then(|| served.caller.clone());
        let watch = session.map(|session| self.absences.watch(&session, &body));
        let request = Request::from_parts(head, Full::new(body));
        let answer = CALLER.scope(served, self.protocol.handle(request)).await;
        let begun = answer.headers().get(SESSION);
        let begun = begun.and_then(|session| session.to_str().ok());
        if let (Some(begun), Some(caller)) = (begun, begins) {
            let open = self.sessions.sessions.read().await;
            let is_open = |session: &str| open.contains_key(session);
            self.owners.begin(begun, self.owner(&caller), is_open);
        }
        match watch {
            Some(watch) => answer.map(watch),
            None => answer,
        }
    }
}

/// Reads a body whole, or says why not.
async fn read(body: impl RequestBody) -> Result<Bytes, Box<HttpAnswer>> {
    let body = Limited::new(body, MAX_MESSAGE_BYTES);
    let (status, why) = match tokio::time::timeout(BODY_WAIT, body.collect()).await {
        Ok(Ok(body)) => return Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => (
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("a message has at most {MAX_MESSAGE_BYTES} bytes; send less at once"),
        ),
        Ok(Err(error)) => {
            tracing::debug!(%error, "a body could not be read");
            let why = "the body could not be read".to_owned();
            (StatusCode::BAD_REQUEST, why)
        }
        Err(_) => (
            StatusCode::REQUEST_TIMEOUT,
            format!("the body was not sent within {} s", BODY_WAIT.as_secs()),
        ),
    };
    Err(Box::new(refusal(status, &why)))
}

/// Whether a message begins a session.
fn begins_a_session(message: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct MethodOnly<'a> {
        #[serde(borrow)]
        method: Cow<'a, str>,
    }
    serde_json::from_slice::<MethodOnly<'_>>(message).is_ok_and(|it| it.method == "initialize")
}

impl std::fmt::Debug for HttpEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpEndpoint")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}
