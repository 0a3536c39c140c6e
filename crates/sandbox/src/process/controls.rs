//! What can be done to a running child by code other than the reader of its output.
//!
//! The same for a child on the host and one in a sandbox; only how its processes are reached
//! differs ([`ChildControl`]). Does nothing once the child has ended.

use std::{
    os::fd::{AsFd as _, OwnedFd},
    sync::Arc,
};

use haft_contract::{
    ErrorKind,
    future::BoxFuture,
    ops::{OpsError, ProcessControls, ProcessSignal, Stream, TerminalSize},
};
use rustix::process::Signal;

use super::{
    input::{ChildInput, InputFeed, InputKind},
    streams::{InputEnd, OurEnds},
    terminal,
    waiting::InputSource,
};
use crate::{errno, pool::blocking};

/// How the processes of a child are reached.
pub(crate) trait ChildControl: Send + Sync + 'static {
    /// Signals the child and everything in its group; does nothing once it has ended. Must not
    /// block.
    fn signal(&self, signal: Signal) -> Result<(), OpsError>;

    /// The ids of the child and all it started, as this process sees them; empty once it has ended.
    /// May block.
    fn members(&self) -> Vec<i32>;
}

/// The controls of one child.
pub(crate) struct Controls<R> {
    reach: Arc<R>,
    input: ChildInput,
    source: Option<InputSource>,
    terminal: Option<OwnedFd>,
}

/// Our ends of a child's streams, split by who uses them.
pub(crate) struct ConnectedStreams<R> {
    /// The controls.
    pub(crate) controls: Arc<Controls<R>>,
    /// The streams its output is read from.
    pub(crate) output: Vec<(Stream, OwnedFd)>,
    /// Input that is still to be fed to it, if any.
    pub(crate) feeding: Option<InputFeed>,
}

impl<R: ChildControl> Controls<R> {
    /// Takes over our ends of a child's streams.
    pub(crate) fn connect(reach: Arc<R>, ours: OurEnds) -> std::io::Result<ConnectedStreams<R>> {
        let on = match ours.terminal {
            Some(_) => InputKind::Terminal,
            None => InputKind::Pipe,
        };
        // A child with input that ends by itself never waits for us.
        let source = match &ours.input {
            InputEnd::Open(_) => ours.source,
            InputEnd::Closed | InputEnd::Feed(..) => None,
        };
        let (input, feeding) = ChildInput::new(ours.input, on)?;
        Ok(ConnectedStreams {
            controls: Arc::new(Self {
                reach,
                input,
                source,
                terminal: ours.terminal,
            }),
            output: ours.output,
            feeding,
        })
    }
}

impl<R: ChildControl> ProcessControls for Controls<R> {
    fn write<'a>(&'a self, bytes: &'a [u8]) -> BoxFuture<'a, Result<(), OpsError>> {
        Box::pin(self.input.write(bytes))
    }

    fn close_input(&self) -> BoxFuture<'_, Result<(), OpsError>> {
        Box::pin(self.input.close())
    }

    fn resize(&self, size: TerminalSize) -> BoxFuture<'_, Result<(), OpsError>> {
        Box::pin(async move {
            let terminal = self.terminal.as_ref().ok_or_else(|| {
                OpsError::new(
                    ErrorKind::InvalidInput,
                    "the process was started without a terminal",
                )
            })?;
            terminal::resize(terminal.as_fd(), size).map_err(errno::error)
        })
    }

    fn signal(&self, signal: ProcessSignal) -> BoxFuture<'_, Result<(), OpsError>> {
        Box::pin(async move { self.reach.signal(number(signal)) })
    }

    fn waits_for_input(&self) -> BoxFuture<'_, Result<bool, OpsError>> {
        Box::pin(async move {
            let Some(source) = self.source else {
                return Ok(false);
            };
            let reach = Arc::clone(&self.reach);
            blocking(move || Ok(source.is_awaited_by(&reach.members()))).await
        })
    }
}

fn number(signal: ProcessSignal) -> Signal {
    match signal {
        ProcessSignal::Interrupt => Signal::INT,
        ProcessSignal::Terminate => Signal::TERM,
        ProcessSignal::Kill => Signal::KILL,
        ProcessSignal::HangUp => Signal::HUP,
        ProcessSignal::Quit => Signal::QUIT,
        ProcessSignal::User1 => Signal::USR1,
        ProcessSignal::User2 => Signal::USR2,
        ProcessSignal::Stop => Signal::STOP,
        ProcessSignal::Continue => Signal::CONT,
    }
}
