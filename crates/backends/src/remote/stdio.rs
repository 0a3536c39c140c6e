//! A descriptor of this process as an async stream: the standard input and output of a helper.
//!
//! They are pipes or sockets, depending on what started the helper; a file or a terminal cannot be
//! polled and is refused.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    pin::Pin,
    task::{Context, Poll, ready},
};

use haft_sandbox::process::watch::watch;
use rustix::{
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    io::{Errno, fcntl_dupfd_cloexec},
};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, unix::AsyncFd};

/// The lowest number for a copy, above the standard descriptors.
const FIRST_FREE: i32 = 3;

/// A descriptor that is read and written without blocking.
pub(super) struct Descriptor(AsyncFd<OwnedFd>);

impl Descriptor {
    /// A copy of the descriptor, for reading or for writing.
    pub(super) fn watch(descriptor: BorrowedFd<'_>, interest: Interest) -> io::Result<Self> {
        let copy = fcntl_dupfd_cloexec(descriptor, FIRST_FREE)?;
        let flags = fcntl_getfl(&copy)?;
        fcntl_setfl(&copy, flags | OFlags::NONBLOCK)?;
        Ok(Self(watch(copy, interest)?))
    }
}

impl AsyncRead for Descriptor {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.0.poll_read_ready(cx))?;
            match rustix::io::read(self.0.as_fd(), buffer.initialize_unfilled()) {
                Ok(got) => {
                    buffer.advance(got);
                    return Poll::Ready(Ok(()));
                }
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(Errno::INTR) => {}
                Err(errno) => return Poll::Ready(Err(errno.into())),
            }
        }
    }
}

impl AsyncWrite for Descriptor {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.0.poll_write_ready(cx))?;
            match rustix::io::write(self.0.as_fd(), bytes) {
                Ok(written) => return Poll::Ready(Ok(written)),
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(Errno::INTR) => {}
                Err(errno) => return Poll::Ready(Err(errno.into())),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
