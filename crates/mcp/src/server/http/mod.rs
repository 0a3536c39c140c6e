//! Serves an endpoint over Streamable HTTP, to clients of both eras on one path.
//!
//! Clients are checked before a byte of the protocol is read (`guard`): which host they address,
//! which page they come from, and who they are. Everything a stranger can send is bounded here:
//! connections, headers, bodies, and the time for each.
//!
//! Each request has its own caller. A session belongs to the caller who began it; for anybody else
//! it does not exist (`session_owners`).

mod guard;
mod lost_answers;
mod plain;
mod session_owners;
mod token;

use std::{borrow::Cow, convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, request::Parts};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited, combinators::BoxBody};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
};
use serde::Deserialize;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    guard::refusal, lost_answers::LostAnswers, plain::PlainCall, session_owners::SessionOwners,
};
pub use self::{
    guard::{Guard, OriginError},
    lost_answers::COME_BACK,
    token::{Token, TokenError},
};
use super::{MAX_MESSAGE_BYTES, caller::ServedCaller, connection::Connection, endpoint::Endpoint};

/// The only path that is served.
pub const PATH: &str = "/mcp";

/// Connections open at once; the next ones wait to be accepted.
pub const MAX_CONNECTIONS: usize = 512;

/// Sessions of clients that begin with `initialize`; further ones are refused until one ends.
pub const MAX_SESSIONS: usize = 1_000;

/// How long such a session may be idle. Long, because people go home and come back.
pub const SESSION_IDLE: Duration = Duration::from_hours(24);

/// How long a client has to send the head of a request, and how long a connection may idle between
/// two.
pub const HEAD_WAIT: Duration = Duration::from_secs(30);

/// How long a client has to send a body.
pub const BODY_WAIT: Duration = Duration::from_secs(30);

/// The most headers of a request.
const MAX_HEADERS: usize = 64;

/// How long requests in progress may take once serving ends.
const END_WAIT: Duration = Duration::from_secs(2);

/// How long to wait after a connection could not be accepted, for example because there were no
/// descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

type HttpAnswer = Response<BoxBody<Bytes, Infallible>>;

/// The header that names a session.
const SESSION: &str = "mcp-session-id";

tokio::task_local! {
    /// Who sent the request that this task answers. The SDK creates the connection for it in the
    /// same task without passing anything.
    static CALLER: ServedCaller;
}

/// The SDK's protocol service, behind the guard.
struct GuardedProtocol {
    endpoint: Arc<Endpoint>,
    guard: Guard,
    protocol: StreamableHttpService<Connection, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
    absences: Arc<LostAnswers>,
    owners: SessionOwners,
    /// Cancelled when serving ends.
    gone: CancellationToken,
}

/// Serves clients until `cancel` is cancelled, then lets requests in progress finish.
pub async fn serve(
    endpoint: Arc<Endpoint>,
    listener: TcpListener,
    guard: Guard,
    cancel: &CancellationToken,
) {
    serve_patiently(endpoint, listener, guard, COME_BACK, cancel).await;
}

/// As [`serve`], with another time limit for clients with a session to reconnect for an answer
/// whose stream they lost.
pub async fn serve_patiently(
    endpoint: Arc<Endpoint>,
    listener: TcpListener,
    guard: Guard,
    come_back: Duration,
    cancel: &CancellationToken,
) {
    let served = Arc::new(GuardedProtocol::new(endpoint, guard, come_back, cancel));
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let connections = TaskTracker::new();
    loop {
        let place = tokio::select! {
            place = Arc::clone(&places).acquire_owned() => place,
            () = cancel.cancelled() => break,
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = cancel.cancelled() => break,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        let (served, cancel) = (Arc::clone(&served), cancel.clone());
        connections.spawn(async move {
            let _place = place;
            if let Err(error) = converse(&served, stream, &cancel).await {
                tracing::debug!(%error, %from, "a connection ended early");
            }
        });
    }
    connections.close();
    if tokio::time::timeout(END_WAIT, connections.wait())
        .await
        .is_err()
    {
        tracing::debug!("some connections did not end in time");
    }
}

/// Serves one connection to its end.
async fn converse(
    served: &Arc<GuardedProtocol>,
    stream: TcpStream,
    cancel: &CancellationToken,
) -> Result<(), hyper::Error> {
    // Without it, every small event of a stream waits for the acknowledgement of the previous one.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps its delay");
    }
    let answer = service_fn(|request| {
        let served = Arc::clone(served);
        async move { Ok::<_, Infallible>(served.answer(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WAIT)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), answer);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        ended = &mut connection => return ended,
        () = cancel.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    match tokio::time::timeout(END_WAIT, connection).await {
        Ok(ended) => ended,
        Err(_) => Ok(()),
    }
}

impl GuardedProtocol {
    fn new(
        endpoint: Arc<Endpoint>,
        guard: Guard,
        come_back: Duration,
        cancel: &CancellationToken,
    ) -> Self {
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(SESSION_IDLE);
        let sessions = Arc::new(sessions);
        let config = StreamableHttpServerConfig::default()
            .with_json_response(true)
            .with_max_request_body_bytes(MAX_MESSAGE_BYTES)
            // The guard has checked these already, with better messages; they stay on as a second
            // check.
            .with_allowed_hosts(guard.hosts())
            .with_allowed_origins(guard.origins())
            .enforce_origin_validation()
            .with_cancellation_token(cancel.child_token());
        let (of, gone) = (Arc::clone(&endpoint), cancel.clone());
        let connect = move || {
            // Never serve a request without a known caller.
            let served = CALLER.try_with(Clone::clone).map_err(io::Error::other)?;
            Ok(Connection::new(Arc::clone(&of), served, &gone))
        };
        Self {
            endpoint,
            guard,
            gone: cancel.clone(),
            protocol: StreamableHttpService::new(connect, Arc::clone(&sessions), config),
            absences: LostAnswers::new(Arc::clone(&sessions), come_back),
            owners: SessionOwners::default(),
            sessions,
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> HttpAnswer {
        let (head, body) = request.into_parts();
        let caller = match self.guard.admit(&head).await {
            Ok(caller) => caller,
            Err(refused) => return *refused,
        };
        let served = self.endpoint.admit(caller).await;
        let session = head.headers.get(SESSION);
        let session = session.and_then(|it| it.to_str().ok()).map(str::to_owned);
        if let Some(session) = &session {
            let owner = self.endpoint.owner_of(served.caller.principal());
            if !self.owners.may_use(session, owner) {
                // In the protocol this means: begin a new one.
                return refusal(StatusCode::NOT_FOUND, "there is no such session");
            }
            self.absences.heard(session);
        }
        let ends = head.method == Method::DELETE && session.is_some();
        if let Some(session) = session.as_deref().filter(|_| ends)
            && !self.sessions.sessions.read().await.contains_key(session)
        {
            return refusal(StatusCode::NOT_FOUND, "there is no such session");
        }
        let body = Limited::new(body, MAX_MESSAGE_BYTES);
        let body = match tokio::time::timeout(BODY_WAIT, body.collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                return refusal(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    &format!("a message has at most {MAX_MESSAGE_BYTES} bytes; send less at once"),
                );
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "a body could not be read");
                return refusal(StatusCode::BAD_REQUEST, "the body could not be read");
            }
            Err(_) => {
                return refusal(
                    StatusCode::REQUEST_TIMEOUT,
                    &format!("the body was not sent within {} s", BODY_WAIT.as_secs()),
                );
            }
        };
        // Only the body decides whether this begins a session, whatever the headers claim.
        if session.is_none()
            && self.sessions.sessions.read().await.len() >= MAX_SESSIONS
            && begins_a_session(&body)
        {
            return refusal(
                StatusCode::SERVICE_UNAVAILABLE,
                &format!(
                    "{MAX_SESSIONS} sessions are open; end one with DELETE, or try again later"
                ),
            );
        }
        let mut answer = match PlainCall::read(&head, &body, &served) {
            Some(call) => call.answer(&self.endpoint, &served, &self.gone).await,
            None => self.through_the_sdk(session, head, body, served).await,
        };
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

    /// Answers requests that are not plain.
    async fn through_the_sdk(
        &self,
        session: Option<String>,
        head: Parts,
        body: Bytes,
        served: ServedCaller,
    ) -> HttpAnswer {
        let caller = Arc::clone(served.caller.principal());
        let begins = session.is_none();
        let watch = session.map(|session| self.absences.watch(&session, &body));
        let request = Request::from_parts(head, Full::new(body));
        let answer = CALLER.scope(served, self.protocol.handle(request)).await;
        let begun = answer.headers().get(SESSION).filter(|_| begins);
        if let Some(begun) = begun.and_then(|session| session.to_str().ok()) {
            let owner = self.endpoint.owner_of(&caller);
            let open = self.sessions.sessions.read().await;
            let is_open = |session: &str| open.contains_key(session);
            self.owners.begin(begun, owner, is_open);
        }
        match watch {
            Some(watch) => answer.map(watch),
            None => answer,
        }
    }
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

/// Binds a listener to an address.
pub async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}
