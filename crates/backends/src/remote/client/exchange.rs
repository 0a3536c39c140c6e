//! One request in progress: sending its body, receiving what comes back, and giving up.
//!
//! Dropping it notifies the other side that nobody waits any more.

use std::{future::Future, sync::Arc, time::Duration};

use haft_contract::{
    ErrorKind,
    ops::{OpsError, OutputChunk},
};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{link::Link, peer::Peer};
use crate::remote::{
    convert::MalformedMessage,
    credit::{Allowance, Charged, REPLY_WINDOW, Window},
    frame::{CHUNK_BYTES, Frame, Kind},
    wire::{Reply, Request, WireNote},
};

/// How much later than the other side this one gives up.
const ANSWER_GRACE: Duration = Duration::from_secs(5);

/// How long the other side may take to confirm that it stopped.
const CANCEL_LIMIT: Duration = Duration::from_secs(5);

/// How much is handled before credit is returned, in one frame instead of many.
const CREDIT_STEP: u32 = 128 * 1024;
const _: () = assert!(CREDIT_STEP <= REPLY_WINDOW / 4);

/// What an exchange starts with for receiving.
pub(super) fn reply_allowance() -> Allowance {
    Allowance::new(REPLY_WINDOW, CREDIT_STEP)
}

/// Something the other side sent.
pub(super) enum Event {
    /// A piece of the result.
    Data(Charged<Vec<u8>>),
    /// A piece of a child's output.
    Output(Charged<OutputChunk>),
    /// A message before the end.
    Note(WireNote),
    /// The reply, which ends the exchange.
    Reply(Reply),
}

/// A request under way.
pub(super) struct Exchange {
    number: u64,
    link: Arc<Link>,
    events: mpsc::Receiver<Event>,
    window: Arc<Window>,
    allowance: Arc<Allowance>,
    phase: Phase,
    _slot: OwnedSemaphorePermit,
}

/// Whether the other side still works on it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    Over,
}

impl Exchange {
    pub(super) fn new(
        number: u64,
        link: Arc<Link>,
        events: mpsc::Receiver<Event>,
        window: Arc<Window>,
        allowance: Arc<Allowance>,
        slot: OwnedSemaphorePermit,
    ) -> Self {
        Self {
            number,
            link,
            events,
            window,
            allowance,
            phase: Phase::Open,
            _slot: slot,
        }
    }

    /// The number that identifies it to the other side.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The connection it goes over.
    pub(super) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Sends the body, as fast as the other side takes it. Stops early if the other side has
    /// replied.
    pub(super) async fn send_body(&self, bytes: &[u8]) -> Result<(), OpsError> {
        let outbox = &self.link.shared().outbox;
        for piece in bytes.chunks(CHUNK_BYTES) {
            let frame = Frame::new(Kind::Data, self.number, piece.to_vec());
            let Ok(frame) = self.window.pay(frame).await else {
                return Ok(());
            };
            let sent = outbox.send(frame).await;
            sent.map_err(|_| self.link.shared().loss())?;
        }
        if !bytes.is_empty() {
            let sent = outbox.push(Frame::bare(Kind::Finish, self.number));
            sent.map_err(|_| self.link.shared().loss())?;
        }
        Ok(())
    }

    /// The next event. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Result<Event, OpsError> {
        let Some(event) = self.events.recv().await else {
            self.phase = Phase::Over;
            return Err(self.link.shared().loss());
        };
        if matches!(event, Event::Reply(_)) {
            self.phase = Phase::Over;
        }
        Ok(event)
    }

    /// Takes out what arrived, which is handled then, so that more may come.
    pub(super) fn handled<T>(&self, charged: Charged<T>) -> T {
        let (content, grant) = self.allowance.handled(charged);
        if let Some(grant) = grant {
            let credit = Frame::credit(self.number, grant);
            // Whoever waits notices a lost connection.
            let _ = self.link.shared().outbox.push(credit);
        }
        content
    }

    /// Collects data until the reply, and returns the reply.
    async fn finish(
        &mut self,
        data: &mut Vec<u8>,
        most: usize,
        noted: &(dyn Fn(&WireNote) + Send + Sync),
    ) -> Result<Reply, OpsError> {
        loop {
            match self.next().await? {
                Event::Data(piece) => {
                    let piece = self.handled(piece);
                    if data.len() + piece.len() > most {
                        return Err(MalformedMessage("result that is too large").into());
                    }
                    data.extend_from_slice(&piece);
                }
                Event::Note(note) => noted(&note),
                Event::Output(_) => return Err(MalformedMessage("output").into()),
                Event::Reply(Reply::Failed(failure)) => return Err(failure.into()),
                Event::Reply(reply) => return Ok(reply),
            }
        }
    }

    /// Tells the other side to stop, and keeps listening.
    fn cancel(&self) {
        let _ = self
            .link
            .shared()
            .outbox
            .push(Frame::bare(Kind::Cancel, self.number));
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.link.shared().forget(self.number);
        if self.phase == Phase::Open {
            self.cancel();
        }
    }
}

/// One request from beginning to end.
pub(super) struct RoundTrip<'a> {
    pub(super) request: Request,
    pub(super) body: &'a [u8],
    pub(super) limit: Duration,
    /// The largest result accepted.
    pub(super) most: usize,
}

impl<'a> RoundTrip<'a> {
    /// A request that is answered by its reply alone.
    pub(super) fn new(request: Request, limit: Duration) -> Self {
        Self {
            request,
            body: &[],
            limit,
            most: 0,
        }
    }

    /// With a body.
    pub(super) fn body(mut self, body: &'a [u8]) -> Self {
        self.body = body;
        self
    }

    /// With a result that comes before the reply.
    pub(super) fn result(mut self, most: usize) -> Self {
        self.most = most;
        self
    }

    /// Sends it over the current connection or a new one.
    pub(super) async fn of(self, peer: &Peer) -> Result<Reply, OpsError> {
        let link = peer.link().await?;
        self.over(&link, &mut Vec::new()).await
    }

    /// Sends it over this connection; the result is appended to `data`.
    pub(super) async fn over(
        self,
        link: &Arc<Link>,
        data: &mut Vec<u8>,
    ) -> Result<Reply, OpsError> {
        let (_, reply) = self.numbered(link, data).await?;
        Ok(reply)
    }

    /// Sends it over this connection, for something that its exchange number then identifies.
    pub(super) async fn numbered(
        self,
        link: &Arc<Link>,
        data: &mut Vec<u8>,
    ) -> Result<(u64, Reply), OpsError> {
        let limit = self.limit;
        within(limit, async {
            let mut exchange = link.begin(self.request, self.body.len(), limit).await?;
            exchange.send_body(self.body).await?;
            let reply = exchange.finish(data, self.most, &|_| {}).await?;
            Ok((exchange.number(), reply))
        })
        .await
    }

    /// Sends it over the current connection or a new one. Stops when the caller wants to, and then
    /// waits until the other side has stopped.
    pub(super) async fn unless(
        self,
        cancel: &CancellationToken,
        peer: &Peer,
        data: &mut Vec<u8>,
        noted: &(dyn Fn(&WireNote) + Send + Sync),
    ) -> Result<Reply, OpsError> {
        if cancel.is_cancelled() {
            return Err(cancelled());
        }
        let limit = self.limit;
        within(limit, async {
            let link = peer.link().await?;
            let mut exchange = link.begin(self.request, self.body.len(), limit).await?;
            tokio::select! {
                reply = exchange.finish(data, self.most, noted) => return reply,
                () = cancel.cancelled() => {}
            }
            exchange.cancel();
            timeout(CANCEL_LIMIT, exchange.finish(data, self.most, noted))
                .await
                .unwrap_or_else(|_| Err(cancelled()))
        })
        .await
    }
}

/// Applies a deadline slightly later than the other side's.
async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, OpsError>>,
) -> Result<T, OpsError> {
    timeout(limit + ANSWER_GRACE, work)
        .await
        .unwrap_or_else(|_| {
            Err(OpsError::new(
                ErrorKind::TimedOut,
                format!(
                    "the other side did not answer within {} s; the request may or may not have \
                 taken effect",
                    limit.as_secs()
                ),
            ))
        })
}

fn cancelled() -> OpsError {
    OpsError::new(ErrorKind::Cancelled, "the call was cancelled")
}
