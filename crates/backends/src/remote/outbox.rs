//! The queue of frames to be written to a connection, in order.
//!
//! Bulk frames wait for room; the small frames that control an exchange never do, so that they can
//! be queued in a `Drop`. Order is kept between both: a cancel must not overtake the request it
//! cancels. Must not grow without bound: a peer that reads nothing ends the connection.

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{
    io::{AsyncWrite, AsyncWriteExt, BufWriter},
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
};
use tokio_util::sync::CancellationToken;

use super::frame::Frame;

/// The most bulk frames that are queued.
const MAX_BULK_FRAMES: usize = 64;

/// The most frames that are queued. Control frames are few per exchange, and exchanges are limited.
const MAX_FRAMES: usize = 64 * 1024;

/// The size of the write buffer of a connection.
const WRITE_BUFFER_BYTES: usize = 128 * 1024;

/// The queue of outgoing frames.
pub(crate) struct Outbox {
    waiting: Mutex<VecDeque<QueuedFrame>>,
    more: Notify,
    room: Arc<Semaphore>,
    closed: CancellationToken,
}

/// A frame, and the room it takes up until it is written.
struct QueuedFrame {
    frame: Frame,
    _room: Option<OwnedSemaphorePermit>,
}

/// Nothing more can be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutboxClosed;

impl Outbox {
    pub(crate) fn new() -> Self {
        Self {
            waiting: Mutex::new(VecDeque::new()),
            more: Notify::new(),
            room: Arc::new(Semaphore::new(MAX_BULK_FRAMES)),
            closed: CancellationToken::new(),
        }
    }

    /// Queues a small frame at once.
    pub(crate) fn push(&self, frame: Frame) -> Result<(), OutboxClosed> {
        self.queue(frame, None)
    }

    /// Queues a frame once there is room.
    pub(crate) async fn send(&self, frame: Frame) -> Result<(), OutboxClosed> {
        let room = tokio::select! {
            room = Arc::clone(&self.room).acquire_owned() => room.map_err(|_| OutboxClosed)?,
            () = self.closed.cancelled() => return Err(OutboxClosed),
        };
        self.queue(frame, Some(room))
    }

    /// Lets the queued frames be written, and accepts no more.
    pub(crate) fn close(&self) {
        self.closed.cancel();
    }

    /// Completes when nothing more will be accepted.
    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Writes frames until the outbox is closed and empty, then ends the stream.
    pub(crate) async fn write_to(&self, writer: impl AsyncWrite + Unpin) -> io::Result<()> {
        let mut writer = BufWriter::with_capacity(WRITE_BUFFER_BYTES, writer);
        let written = self.write_frames(&mut writer).await;
        self.close();
        written?;
        writer.shutdown().await
    }

    async fn write_frames(&self, writer: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        loop {
            while let Some(next) = self.pop() {
                let head = next.frame.head().ok_or_else(|| {
                    io::Error::other("a frame larger than the cap was about to be sent")
                })?;
                writer.write_all(&head).await?;
                writer.write_all(&next.frame.body).await?;
            }
            writer.flush().await?;
            tokio::select! {
                biased;
                () = self.more.notified() => {}
                () = self.closed.cancelled() => {
                    if self.is_empty() {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn queue(&self, frame: Frame, room: Option<OwnedSemaphorePermit>) -> Result<(), OutboxClosed> {
        if self.closed.is_cancelled() {
            return Err(OutboxClosed);
        }
        {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            if waiting.len() >= MAX_FRAMES {
                waiting.clear();
                self.closed.cancel();
                return Err(OutboxClosed);
            }
            waiting.push_back(QueuedFrame { frame, _room: room });
        }
        self.more.notify_one();
        Ok(())
    }

    fn pop(&self) -> Option<QueuedFrame> {
        self.waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front()
    }

    fn is_empty(&self) -> bool {
        self.waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::frame::{FrameReader, Kind},
        *,
    };

    #[tokio::test]
    async fn frames_leave_in_the_order_they_came_and_the_stream_ends() {
        let outbox = Outbox::new();
        outbox.send(Frame::bare(Kind::Request, 1)).await.unwrap();
        outbox.push(Frame::bare(Kind::Cancel, 1)).unwrap();
        outbox.close();
        assert_eq!(outbox.push(Frame::bare(Kind::Ping, 0)), Err(OutboxClosed));
        let (near, far) = tokio::io::duplex(1024);
        outbox.write_to(near).await.unwrap();
        let mut reader = FrameReader::new(far);
        assert_eq!(reader.next().await.unwrap().kind, Kind::Request);
        assert_eq!(reader.next().await.unwrap().kind, Kind::Cancel);
        assert!(reader.next().await.is_err());
    }

    #[tokio::test]
    async fn bulk_waits_for_room_and_is_let_go_when_the_outbox_closes() {
        let outbox = Arc::new(Outbox::new());
        for _ in 0..MAX_BULK_FRAMES {
            outbox.send(Frame::bare(Kind::Data, 1)).await.unwrap();
        }
        let blocked = tokio::spawn({
            let outbox = Arc::clone(&outbox);
            async move { outbox.send(Frame::bare(Kind::Data, 1)).await }
        });
        tokio::task::yield_now().await;
        assert!(!blocked.is_finished());
        outbox.close();
        assert_eq!(blocked.await.unwrap(), Err(OutboxClosed));
    }
}
