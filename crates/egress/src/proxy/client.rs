//! The program's side of a connection: bytes can be peeked at before they are consumed, so that the
//! proxy can decide on what was sent and still pass all of it on.
//!
//! Reading never asks for ancillary data, so the kernel closes any descriptor a program tries to
//! send along; nothing here can send one.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, ReadBuf},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    time::timeout,
};

/// How much is read at a time while peeking.
const STEP_BYTES: usize = 4096;

/// How much, and for how long, is still read from a program that was refused. Closing the
/// connection while it sends would discard the answer it has not read yet.
const LAST_BYTES: u64 = 256 * 1024;
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A program connected to the proxy.
pub(super) struct Client {
    pub(super) reader: PeekReader<OwnedReadHalf>,
    pub(super) writer: OwnedWriteHalf,
}

impl Client {
    pub(super) fn new(stream: UnixStream) -> Self {
        let (reader, writer) = stream.into_split();
        Self {
            reader: PeekReader::new(reader),
            writer,
        }
    }

    /// Sends a last message, and lets the program finish.
    pub(super) async fn end_with(mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.write_all(bytes).await?;
        self.writer.shutdown().await?;
        let mut rest = self.reader.take(LAST_BYTES);
        let mut nowhere = tokio::io::sink();
        let finished = tokio::io::copy(&mut rest, &mut nowhere);
        match timeout(LAST_WORDS, finished).await {
            Ok(read) => read.map(drop),
            Err(_) => Ok(()),
        }
    }
}

/// A reader whose next bytes can be peeked at.
pub(super) struct PeekReader<R> {
    inner: R,
    seen: Vec<u8>,
}

impl<R: AsyncRead + Unpin> PeekReader<R> {
    pub(super) fn new(inner: R) -> Self {
        Self {
            inner,
            seen: Vec::new(),
        }
    }

    /// The bytes peeked at and not consumed.
    pub(super) fn seen(&self) -> &[u8] {
        &self.seen
    }

    /// Peeks at some more bytes; fails at the end of the stream. Dropping the future loses nothing.
    pub(super) async fn more(&mut self) -> io::Result<()> {
        self.seen.reserve(STEP_BYTES);
        match self.inner.read_buf(&mut self.seen).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Waits for at least `count` bytes and consumes them.
    pub(super) async fn exactly(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.seen.len() < count {
            self.more().await?;
        }
        Ok(self.consume(count))
    }

    /// Consumes bytes that were peeked at.
    pub(super) fn consume(&mut self, count: usize) -> Vec<u8> {
        let rest = self.seen.split_off(count.min(self.seen.len()));
        std::mem::replace(&mut self.seen, rest)
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for PeekReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.seen.is_empty() {
            return Pin::new(&mut self.inner).poll_read(cx, buffer);
        }
        let taken = self.consume(buffer.remaining());
        buffer.put_slice(&taken);
        Poll::Ready(Ok(()))
    }
}
