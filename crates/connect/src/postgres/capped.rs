//! A connection on which no message of the server may be larger than a limit. The driver keeps a
//! message whole before anybody sees a byte of it, and a row is one message: without this, one value
//! of a gigabyte is a gigabyte here.
//!
//! The size is the first thing a message says. A connection with one that is too large ends there,
//! before its content is read.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::batch::MAX_ROW_BYTES;

/// The largest message: the largest row that is handed on, and room for how its values are written.
const MAX_MESSAGE_BYTES: usize = 2 * MAX_ROW_BYTES;

/// What a message begins with: what it is, and its size without that byte.
const HEADER_BYTES: usize = 5;

/// How many connections ended because of a message that was too large.
#[derive(Debug, Clone, Default)]
pub(super) struct TooLarge(Arc<AtomicU64>);

impl TooLarge {
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The connection.
pub(super) struct Capped<S> {
    inner: S,
    messages: Messages,
    too_large: TooLarge,
}

/// Where in the server's messages the reading is.
#[derive(Debug, Default)]
struct Messages {
    /// The header of the next message as far as it has arrived.
    header: Vec<u8>,
    /// How much of the content of this one has not arrived.
    left: usize,
}

impl<S> Capped<S> {
    pub(super) fn new(inner: S, too_large: TooLarge) -> Self {
        Self {
            inner,
            messages: Messages::default(),
            too_large,
        }
    }
}

impl Messages {
    /// Goes on over bytes that arrived; false if they begin a message that is too large.
    fn take(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let skipped = self.left.min(bytes.len());
            self.left -= skipped;
            bytes = bytes.get(skipped..).unwrap_or_default();
            if self.left > 0 {
                break;
            }
            let missing = HEADER_BYTES - self.header.len();
            let (of_header, rest) = bytes.split_at(missing.min(bytes.len()));
            self.header.extend_from_slice(of_header);
            bytes = rest;
            if let [_, a, b, c, d] = *self.header.as_slice() {
                self.header.clear();
                let size = u32::from_be_bytes([a, b, c, d]);
                let size = usize::try_from(size).unwrap_or(usize::MAX);
                if size > MAX_MESSAGE_BYTES {
                    return false;
                }
                // It counts its own four bytes.
                self.left = size.saturating_sub(4);
            }
        }
        true
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Capped<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let had = into.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(context, into);
        let arrived = into.filled().get(had..).unwrap_or_default();
        if !self.messages.take(arrived) {
            self.too_large.0.fetch_add(1, Ordering::Relaxed);
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the server sent a message that is too large",
            )));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Capped<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(size: usize) -> Vec<u8> {
        let mut message = vec![b'D'];
        message.extend(u32::try_from(size + 4).unwrap().to_be_bytes());
        message.extend(vec![0xff; size]);
        message
    }

    #[test]
    fn messages_are_told_apart_however_they_arrive() {
        let sizes = [0, 1, 300, 70_000, 3];
        let sent: Vec<u8> = sizes.into_iter().flat_map(message).collect();
        for piece in [1, 2, 3, 5, 8_192, sent.len()] {
            let mut messages = Messages::default();
            assert!(
                sent.chunks(piece).all(|piece| messages.take(piece)),
                "{piece}"
            );
            assert!(messages.left == 0 && messages.header.is_empty());
        }
    }

    #[test]
    fn a_message_that_is_too_large_is_seen_at_its_head() {
        let mut messages = Messages::default();
        assert!(messages.take(&message(10)));
        let size = u32::try_from(MAX_MESSAGE_BYTES + 1).unwrap().to_be_bytes();
        assert!(messages.take(&[b'D', size[0], size[1]]));
        assert!(!messages.take(&size[2..]));
        let mut largest = vec![b'D'];
        largest.extend(u32::try_from(MAX_MESSAGE_BYTES).unwrap().to_be_bytes());
        assert!(Messages::default().take(&largest));
    }
}
