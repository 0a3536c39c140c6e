//! Accepts connections and ends gracefully. Everything that a stranger can send before anybody looks at
//! it is bounded here: connections, headers, and the time for each.

use std::sync::Arc;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Gateway,
    limits::{ACCEPT_AGAIN, END_WAIT, HEAD_WAIT, MAX_CONNECTIONS, MAX_HEADERS},
    router,
};

/// Takes up calls that an earlier process accepted and did not end, and serves until `cancel` is cancelled.
/// Then no more connections are accepted, streams are told to resume
/// elsewhere, requests in progress are answered, and calls that were accepted go on until the host is
/// shut down.
pub async fn serve(gateway: &Gateway, listener: TcpListener, cancel: &CancellationToken) {
    gateway.take_up().await;
    gateway.sweep_now_and_then();
    let router = router::router(gateway.clone());
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
        let (router, cancel) = (router.clone(), cancel.clone());
        connections.spawn(async move {
            let _place = place;
            if let Err(error) = converse(router, stream, &cancel).await {
                tracing::debug!(%error, %from, "a connection ended early");
            }
        });
    }
    drop(listener);
    gateway.ending().cancel();
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
    router: Router,
    stream: TcpStream,
    cancel: &CancellationToken,
) -> Result<(), hyper::Error> {
    // Without it, every small event of a stream waits for the acknowledgement of the previous one.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps its delay");
    }
    let answer = TowerToHyperService::new(router.into_service::<hyper::body::Incoming>());
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
