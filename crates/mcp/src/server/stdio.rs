//! Serves an endpoint to one client over a pair of pipes, one message per line. For a client that
//! starts Haft itself; it is gone once it closes our input.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use rmcp::{
    ServiceExt as _,
    service::{QuitReason, ServerInitializeError},
    transport::async_rw::AsyncRwTransport,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::CancellationToken;

use super::{
    MAX_MESSAGE_BYTES, capped::CappedConnection, connection::Connection, endpoint::Endpoint,
};

/// How long calls may continue after the client closed its side: enough to answer a script that
/// writes its requests and then reads, too short for work that nobody waits for.
pub const AFTER_GONE: Duration = Duration::from_secs(1);

/// How long calls have to end once the client is gone and they were cancelled: enough for a command
/// that has to be killed after being asked to stop.
pub const STOPS_WITHIN: Duration = Duration::from_secs(5);

/// Why serving failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The client does not speak the protocol.
    #[error("the client did not start as the protocol requires: {0}")]
    Began(String),
    /// A task ended without a result.
    #[error("serving ended early: {0}")]
    Lost(String),
}

/// Serves a client until it is gone or `cancel` is cancelled. By then each of its calls has ended,
/// its question withdrawn and its outcome on the way to the record; a call that takes longer than
/// [`STOPS_WITHIN`] to stop has at least been cancelled.
pub async fn serve(
    endpoint: Arc<Endpoint>,
    read: impl AsyncRead + Send + Unpin + 'static,
    write: impl AsyncWrite + Send + Unpin + 'static,
    cancel: &CancellationToken,
) -> Result<(), ServeError> {
    let gone = cancel.child_token();
    let closed = CancellationToken::new();
    let read = UntilClosed {
        read,
        closed: closed.clone(),
    };
    let transport = AsyncRwTransport::new_server(read, write);
    let transport = transport.with_max_line_length(MAX_MESSAGE_BYTES);
    let _stops = gone.clone().drop_guard();
    let stop = gone.clone();
    tokio::spawn(async move {
        tokio::select! {
            () = closed.cancelled() => {
                tokio::time::sleep(AFTER_GONE).await;
                stop.cancel();
            }
            () = stop.cancelled() => {}
        }
    });
    let served = endpoint.admit(None).await;
    let connection = Connection::new(Arc::clone(&endpoint), served, &gone);
    let connection = CappedConnection::new(connection, endpoint.requests_in_flight);
    // A separate token, because it is cancelled when this connection ends.
    let served = connection.serve_with_ct(transport, cancel.child_token());
    let running = match served.await {
        Ok(running) => running,
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
            return Ok(());
        }
        Err(error) => return Err(ServeError::Began(error.to_string())),
    };
    let ended = running.waiting().await;
    // Nobody is left who could ask for what still waits or runs.
    gone.cancel();
    endpoint.approvals.end(endpoint.caller.principal());
    let stopped = tokio::time::timeout(STOPS_WITHIN, endpoint.calls.until_none_runs());
    if stopped.await.is_err() {
        tracing::warn!("calls of a client that is gone have not stopped in time");
    }
    match ended {
        Ok(QuitReason::JoinError(error)) | Err(error) => Err(ServeError::Lost(error.to_string())),
        Ok(_) => Ok(()),
    }
}

/// A reader that signals when the other side has closed.
struct UntilClosed<R> {
    read: R,
    closed: CancellationToken,
}

impl<R: AsyncRead + Unpin> AsyncRead for UntilClosed<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let had_room = buffer.remaining() > 0;
        let polled = Pin::new(&mut self.read).poll_read(cx, buffer);
        let ended = match &polled {
            Poll::Ready(Ok(())) => had_room && buffer.filled().len() == before,
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        };
        if ended {
            self.closed.cancel();
        }
        polled
    }
}
