//! Serves an endpoint over Streamable HTTP, to clients of both eras on one path.
//!
//! Clients are checked before a byte of the protocol is read (`guard`): which host they address,
//! which page they come from, and who they are. Connections, headers and the time for them are
//! bounded here. What follows is in `http_endpoint.rs`, which an HTTP server of somebody else mounts
//! without all this.

mod guard;
mod http_endpoint;
mod lost_answers;
mod plain;
mod session_owners;
mod token;

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::{
    guard::{Guard, OriginError},
    http_endpoint::{HttpEndpoint, HttpOptions, RequestBody},
    lost_answers::COME_BACK,
    token::{Token, TokenError},
};
use super::endpoint::Endpoint;

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

/// An answer to a request.
pub type HttpAnswer = Response<BoxBody<Bytes, Infallible>>;

/// An endpoint behind the guard.
struct GuardedEndpoint {
    guard: Guard,
    endpoint: HttpEndpoint,
}

impl GuardedEndpoint {
    async fn answer(&self, request: Request<Incoming>) -> HttpAnswer {
        let (head, body) = request.into_parts();
        match self.guard.admit(&head).await {
            Ok(caller) => {
                let request = Request::from_parts(head, body);
                self.endpoint.answer_to(caller, request).await
            }
            Err(refused) => *refused,
        }
    }
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
    let options = HttpOptions::default().come_back(come_back).behind(&guard);
    let endpoint = HttpEndpoint::new(endpoint, options, cancel);
    let served = Arc::new(GuardedEndpoint { guard, endpoint });
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
    served: &Arc<GuardedEndpoint>,
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

/// Binds a listener to an address.
pub async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}
