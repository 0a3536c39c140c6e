//! The output of a child, from all its streams, in the order it arrives.
//!
//! Each stream is a pipe, so bytes of one stream are always in order. Between two streams the order
//! is that of arrival: what a child writes to both within a few microseconds, before either is
//! read, arrives grouped by stream.

use std::{
    os::fd::OwnedFd,
    task::{Context, Poll, ready},
};

use haft_contract::ops::{OutputChunk, Stream};
use rustix::io::Errno;
use tokio::io::{Interest, unix::AsyncFd};

use super::watch::watch;

/// The largest chunk: the capacity of a pipe.
const CHUNK_BYTES: usize = 64 * 1024;

/// The read ends of a child's streams.
pub(super) struct Output {
    streams: Vec<(Stream, AsyncFd<OwnedFd>)>,
    sequence: u64,
    /// Where the next poll starts, so that a flood on one stream cannot starve the others.
    next: usize,
    buffer: Vec<u8>,
}

impl Output {
    pub(super) fn new(pipes: Vec<(Stream, OwnedFd)>) -> std::io::Result<Self> {
        let streams = pipes
            .into_iter()
            .map(|(stream, pipe)| Ok((stream, watch(pipe, Interest::READABLE)?)))
            .collect::<std::io::Result<_>>()?;
        Ok(Self {
            streams,
            sequence: 0,
            next: 0,
            buffer: Vec::with_capacity(CHUNK_BYTES),
        })
    }

    /// Whether every stream has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.streams.is_empty()
    }

    /// Gives up on streams that something still holds open.
    pub(super) fn close(&mut self) {
        self.streams.clear();
    }

    /// The next chunk; `None` when every stream has ended.
    pub(super) async fn next(&mut self) -> Option<OutputChunk> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<OutputChunk>> {
        let mut looked = 0;
        while looked < self.streams.len() {
            let index = self.next % self.streams.len();
            let Some((stream, pipe)) = self.streams.get(index) else {
                break;
            };
            let stream = *stream;
            match poll_read(pipe, &mut self.buffer, cx) {
                Poll::Pending => {
                    self.next = index + 1;
                    looked += 1;
                }
                Poll::Ready(true) => {
                    self.next = index + 1;
                    let sequence = self.sequence;
                    self.sequence += 1;
                    return Poll::Ready(Some(OutputChunk {
                        sequence,
                        stream,
                        bytes: self.buffer.clone(),
                    }));
                }
                Poll::Ready(false) => {
                    // The next stream is now at this index.
                    self.streams.remove(index);
                    self.next = index;
                    looked = 0;
                }
            }
        }
        if self.streams.is_empty() {
            Poll::Ready(None)
        } else {
            Poll::Pending
        }
    }
}

/// Reads what is available into the buffer; `false` at the end of the stream.
fn poll_read(pipe: &AsyncFd<OwnedFd>, buffer: &mut Vec<u8>, cx: &mut Context<'_>) -> Poll<bool> {
    loop {
        let Ok(mut ready) = ready!(pipe.poll_read_ready(cx)) else {
            return Poll::Ready(false);
        };
        buffer.clear();
        let got = persistently(|| {
            rustix::io::read(pipe.get_ref(), rustix::buffer::spare_capacity(buffer))
        });
        match got {
            Ok(got) => return Poll::Ready(got > 0),
            Err(Errno::AGAIN) => ready.clear_ready(),
            // A pipe that cannot be read counts as ended.
            Err(_) => return Poll::Ready(false),
        }
    }
}

/// Reads again after a signal, and after the first EIO.
///
/// EIO says that nobody holds a terminal's other end any more, but it can overtake what was written
/// last: the kernel hands that over in a worker, and looks whether the other end is closed after it
/// waited for the worker (1 of 100,000 terminals on Linux 6.18, where the writer closes at once).
/// Nothing can be written after the close, so the next read waits for everything.
fn persistently(mut read: impl FnMut() -> Result<usize, Errno>) -> Result<usize, Errno> {
    let mut closed = false;
    loop {
        match read() {
            Err(Errno::INTR) => {}
            Err(Errno::IO) if !closed => closed = true,
            got => return got,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(answers: &[Result<usize, Errno>]) -> Result<usize, Errno> {
        let mut answers = answers.iter();
        persistently(|| *answers.next().expect("no more reads than answers"))
    }

    #[test]
    fn what_was_written_before_a_terminal_closed_is_read_after_the_first_eio() {
        assert_eq!(reads(&[Err(Errno::IO), Ok(9)]), Ok(9));
        assert_eq!(reads(&[Err(Errno::IO), Err(Errno::INTR), Ok(9)]), Ok(9));
    }

    #[test]
    fn a_terminal_that_says_eio_twice_has_ended() {
        assert_eq!(reads(&[Err(Errno::IO), Err(Errno::IO)]), Err(Errno::IO));
    }

    #[test]
    fn nothing_there_is_not_the_end() {
        assert_eq!(reads(&[Err(Errno::AGAIN)]), Err(Errno::AGAIN));
    }
}
