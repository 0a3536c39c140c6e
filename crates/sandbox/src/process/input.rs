//! A child's input from our side: writing to it, and ending it.
//!
//! Writers take turns, so that the bytes of two are never mixed. A write waits a limited time for
//! the child to read; meanwhile someone else must keep reading its output.

use std::{
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

use haft_contract::{ErrorKind, ops::OpsError};
use rustix::io::Errno;
use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::Mutex,
    time::timeout,
};

use super::{streams::InputEnd, terminal::end_of_file, watch::watch};

/// How long a write waits for a child that does not read.
const WRITE_LIMIT: Duration = Duration::from_secs(5);

/// A child's input.
pub(crate) struct ChildInput {
    state: Mutex<State>,
    on: InputKind,
}

/// What kind of stream the input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InputKind {
    /// A pipe: it ends when it is closed.
    Pipe,
    /// A terminal: it never closes, and ends with the end-of-file key.
    Terminal,
}

enum State {
    /// The child was given no input.
    Absent,
    /// The input was given as a whole, and ends by itself.
    Given,
    /// Open.
    Open(AsyncFd<OwnedFd>),
    /// It was open, and has been ended.
    Ended,
}

/// Bytes to write to a child once, followed by end of file.
pub(crate) struct InputFeed {
    end: AsyncFd<OwnedFd>,
    bytes: Vec<u8>,
    on: InputKind,
}

impl ChildInput {
    /// Takes over our end of a child's input. Input that was given as a whole is returned, to be
    /// fed.
    pub(crate) fn new(end: InputEnd, on: InputKind) -> std::io::Result<(Self, Option<InputFeed>)> {
        let (state, feeding) = match end {
            InputEnd::Closed => (State::Absent, None),
            InputEnd::Feed(end, bytes) => {
                let end = watch(end, Interest::WRITABLE)?;
                (State::Given, Some(InputFeed { end, bytes, on }))
            }
            InputEnd::Open(end) => (State::Open(watch(end, Interest::WRITABLE)?), None),
        };
        let state = Mutex::new(state);
        Ok((Self { state, on }, feeding))
    }

    /// Writes bytes to the child; returns when all are written.
    pub(crate) async fn write(&self, bytes: &[u8]) -> Result<(), OpsError> {
        let state = timeout(WRITE_LIMIT, self.state.lock());
        let state = state.await.map_err(|_| not_read(0, bytes.len()))?;
        write_all(state.end()?, bytes).await
    }

    /// Ends the input. Doing so again has no effect.
    pub(crate) async fn close(&self) -> Result<(), OpsError> {
        let state = timeout(WRITE_LIMIT, self.state.lock());
        let mut state = state.await.map_err(|_| not_read(0, 1))?;
        match (&*state, self.on) {
            (State::Ended | State::Given, _) => Ok(()),
            (State::Absent, _) => state.end().map(drop),
            (State::Open(end), InputKind::Terminal) => {
                let key = end_of_file(end.get_ref().as_fd());
                write_all(end, &[key]).await
            }
            (State::Open(_), InputKind::Pipe) => {
                *state = State::Ended;
                Ok(())
            }
        }
    }
}

impl State {
    fn end(&self) -> Result<&AsyncFd<OwnedFd>, OpsError> {
        let why = match self {
            Self::Open(end) => return Ok(end),
            Self::Absent => "the process was started without an input",
            Self::Given => "the process was given its whole input when it was started",
            Self::Ended => "the input of the process was ended",
        };
        Err(OpsError::new(ErrorKind::InvalidInput, why))
    }
}

impl InputFeed {
    /// Writes the child its input, then ends it. A child that stops reading is no error, and may
    /// take as long as it likes.
    pub(crate) async fn feed(self) {
        let mut rest = self.bytes.as_slice();
        while !rest.is_empty() {
            match write_some(&self.end, rest).await {
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(_) => return,
            }
        }
        if self.on == InputKind::Terminal {
            let key = end_of_file(self.end.get_ref().as_fd());
            // In the middle of a line the key only submits the line so far.
            let keys: &[u8] = match self.bytes.last() {
                None | Some(b'\n') => &[key],
                Some(_) => &[key, key],
            };
            let _ = write_all(&self.end, keys).await;
        }
    }
}

async fn write_all(end: &AsyncFd<OwnedFd>, bytes: &[u8]) -> Result<(), OpsError> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let written = timeout(WRITE_LIMIT, write_some(end, rest)).await;
        let written = written
            .map_err(|_| not_read(bytes.len() - rest.len(), bytes.len()))?
            .map_err(|_| {
                OpsError::new(
                    ErrorKind::Unavailable,
                    "the process does not read its input any more",
                )
            })?;
        rest = rest.get(written..).unwrap_or_default();
    }
    Ok(())
}

/// Writes as much as the child has room for, at least one byte.
async fn write_some(end: &AsyncFd<OwnedFd>, bytes: &[u8]) -> Result<usize, Errno> {
    loop {
        let mut ready = end.writable().await.map_err(|_| Errno::IO)?;
        match rustix::io::write(end.get_ref(), bytes) {
            Ok(0) | Err(Errno::AGAIN) => ready.clear_ready(),
            Ok(written) => return Ok(written),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

fn not_read(written: usize, all: usize) -> OpsError {
    OpsError::new(
        ErrorKind::TimedOut,
        format!(
            "the process read nothing for {} s; {written} of {all} bytes were written",
            WRITE_LIMIT.as_secs()
        ),
    )
}
