//! The pipes between us and a child, and feeding its standard input.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use haft_contract::ops::{Input, Spawn, Stream};
use rustix::{
    fs::{Mode, OFlags, fcntl_setfl, open},
    io::Errno,
    pipe::{PipeFlags, pipe_with},
};
use tokio::io::unix::AsyncFd;

/// The streams of a child, both ends.
pub(super) struct Streams {
    /// The child's ends; their place is their number there.
    theirs: Vec<OwnedFd>,
    /// What we read from.
    pub(super) ours: Vec<(Stream, OwnedFd)>,
    /// What we write its standard input to.
    pub(super) input: Option<OwnedFd>,
}

impl Streams {
    pub(super) fn open(spawn: &Spawn) -> Result<Self, Errno> {
        let mut streams = Self {
            theirs: Vec::with_capacity(4),
            ours: Vec::with_capacity(3),
            input: None,
        };
        if spawn.input != Input::Closed {
            let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
            fcntl_setfl(&write, OFlags::NONBLOCK)?;
            streams.theirs.push(read);
            streams.input = Some(write);
        } else {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            streams
                .theirs
                .push(open("/dev/null", flags, Mode::empty())?);
        }
        streams.add(Stream::Stdout)?;
        streams.add(Stream::Stderr)?;
        if spawn.progress_channel {
            streams.add(Stream::Progress)?;
        }
        Ok(streams)
    }

    /// The child's ends, to be handed over in this order from 0.
    pub(super) fn for_child(&self) -> Vec<BorrowedFd<'_>> {
        self.theirs.iter().map(AsFd::as_fd).collect()
    }

    fn add(&mut self, stream: Stream) -> Result<(), Errno> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        // Only our end: a child that finds its output non-blocking would lose some.
        fcntl_setfl(&read, OFlags::NONBLOCK)?;
        self.theirs.push(write);
        self.ours.push((stream, read));
        Ok(())
    }
}

/// Gives the child its input, then end of file. A child that reads no further is no error.
pub(super) async fn feed(pipe: AsyncFd<OwnedFd>, bytes: Vec<u8>) {
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let Ok(mut ready) = pipe.writable().await else {
            return;
        };
        match rustix::io::write(pipe.get_ref(), rest) {
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(Errno::AGAIN) => ready.clear_ready(),
            Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}
