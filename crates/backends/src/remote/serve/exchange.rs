//! One request being answered: receiving its body, sending its result.

use std::sync::Arc;

use haft_contract::{ErrorKind, ops::OpsError};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::remote::{
    credit::{Allowance, Charged, REPLY_WINDOW, REQUEST_WINDOW, Window},
    frame::{CHUNK_BYTES, Frame, Kind},
    outbox::{Outbox, OutboxClosed},
    wire,
};

/// The largest result.
const MAX_RESULT_BYTES: usize = 64 * 1024 * 1024;

/// The largest body of a request: a file's whole content.
const MAX_BODY_BYTES: u64 = 256 * 1024 * 1024;

/// How much of a body is collected before its credit is returned: every piece, as pieces are large.
const CREDIT_STEP: u32 = 1;

/// A request that is being answered.
pub(super) struct Exchange {
    pub(super) number: u64,
    /// Fires when the caller is no longer interested, or gone.
    pub(super) cancel: CancellationToken,
    /// The credit left for sending.
    pub(super) window: Window,
    /// What the caller may still send of the body.
    pub(super) allowance: Allowance,
    outbox: Arc<Outbox>,
}

/// The pieces of a request's body as they arrive.
pub(super) type Body = mpsc::Receiver<Charged<Vec<u8>>>;

impl Exchange {
    pub(super) fn new(number: u64, cancel: CancellationToken, outbox: Arc<Outbox>) -> Self {
        Self {
            number,
            cancel,
            window: Window::new(REPLY_WINDOW),
            allowance: Allowance::new(REQUEST_WINDOW, CREDIT_STEP),
            outbox,
        }
    }

    /// The whole body, whose length the caller announced.
    pub(super) async fn collect(&self, mut body: Body, bytes: u64) -> Result<Vec<u8>, OpsError> {
        if bytes > MAX_BODY_BYTES {
            return Err(OpsError::new(
                ErrorKind::LimitExceeded,
                format!("{bytes} bytes are more than the {MAX_BODY_BYTES} one call can carry"),
            ));
        }
        let whole = usize::try_from(bytes).map_err(|_| cancelled())?;
        let mut collected = Vec::with_capacity(whole);
        loop {
            let piece = tokio::select! {
                piece = body.recv() => piece,
                () = self.cancel.cancelled() => return Err(cancelled()),
            };
            let Some(piece) = piece else { break };
            let (piece, grant) = self.allowance.handled(piece);
            if let Some(grant) = grant {
                let credit = Frame::credit(self.number, grant);
                self.outbox.push(credit).map_err(unheard)?;
            }
            collected.extend_from_slice(&piece);
            if collected.len() > whole {
                break;
            }
        }
        if collected.len() == whole {
            Ok(collected)
        } else {
            Err(OpsError::new(
                ErrorKind::Internal,
                "the request's body does not have the length it announced",
            ))
        }
    }

    /// Sends a result in pieces, as fast as the caller takes them.
    pub(super) async fn send(&self, bytes: &[u8]) -> Result<(), OpsError> {
        for piece in bytes.chunks(CHUNK_BYTES) {
            let frame = Frame::new(Kind::Data, self.number, piece.to_vec());
            self.send_frame(frame).await?;
        }
        Ok(())
    }

    /// Sends a result as JSON, in pieces.
    pub(super) async fn send_json<T: Serialize>(&self, result: &T) -> Result<(), OpsError> {
        let bytes = serde_json::to_vec(result)
            .map_err(|_| OpsError::new(ErrorKind::Internal, "the result cannot be written"))?;
        if bytes.len() > MAX_RESULT_BYTES {
            return Err(OpsError::new(
                ErrorKind::LimitExceeded,
                format!(
                    "the result has {} bytes, at most {MAX_RESULT_BYTES} can be carried; ask for \
                     less at a time",
                    bytes.len()
                ),
            ));
        }
        self.send(&bytes).await
    }

    /// Sends one frame that costs credit.
    async fn send_frame(&self, frame: Frame) -> Result<(), OpsError> {
        let paid = tokio::select! {
            paid = self.window.pay(frame) => paid.map_err(|_| cancelled())?,
            () = self.cancel.cancelled() => return Err(cancelled()),
        };
        self.send_paid(paid).await
    }

    /// Sends one frame whose credit has been taken.
    pub(super) async fn send_paid(&self, frame: Frame) -> Result<(), OpsError> {
        self.outbox.send(frame).await.map_err(unheard)
    }

    /// Sends a message before the end. If it cannot be sent, the connection ends, not the work.
    pub(super) fn note(&self, note: &wire::WireNote) {
        if let Ok(body) = serde_json::to_vec(note) {
            let _ = self.outbox.push(Frame::new(Kind::Note, self.number, body));
        }
    }

    /// Ends the exchange.
    pub(super) fn reply(&self, outcome: Result<wire::Reply, OpsError>) {
        let reply = outcome.unwrap_or_else(|error| wire::Reply::Failed((&error).into()));
        if let Ok(body) = serde_json::to_vec(&reply) {
            let _ = self.outbox.push(Frame::new(Kind::Reply, self.number, body));
        }
    }
}

/// The error after the caller asked to stop.
pub(super) fn cancelled() -> OpsError {
    OpsError::new(ErrorKind::Cancelled, "the call was cancelled")
}

fn unheard(_: OutboxClosed) -> OpsError {
    OpsError::new(ErrorKind::Unavailable, "the connection is lost")
}
