//! What can be done to a running child while somebody else reads its output: input and signals.
//!
//! Harmless once the child has ended: its process group is signalled only while the leader holds
//! its id, and a closed input says so.

use std::{
    os::fd::OwnedFd,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use haft_contract::{
    ErrorKind,
    future::BoxFuture,
    ops::{OpsError, ProcessControls, ProcessSignal, TerminalSize},
};
use rustix::{io::Errno, process::Signal};
use tokio::io::unix::AsyncFd;

use super::tree::Tree;

/// How long a write waits for a child that reads nothing.
const WRITE_LIMIT: Duration = Duration::from_secs(5);

/// The controls of one child.
pub(super) struct LocalControls {
    input: tokio::sync::Mutex<Option<AsyncFd<OwnedFd>>>,
    /// Absent once the child is reaped and its id may mean another process.
    tree: Mutex<Option<Tree>>,
}

impl LocalControls {
    pub(super) fn new(input: Option<AsyncFd<OwnedFd>>, tree: Option<Tree>) -> Arc<Self> {
        Arc::new(Self {
            input: tokio::sync::Mutex::new(input),
            tree: Mutex::new(tree),
        })
    }

    /// Forgets the child: it is reaped, or about to be.
    pub(super) fn forget(&self) {
        *self.tree.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl ProcessControls for LocalControls {
    fn write<'a>(&'a self, bytes: &'a [u8]) -> BoxFuture<'a, Result<(), OpsError>> {
        Box::pin(async move {
            let input = self.input.lock().await;
            let Some(pipe) = &*input else {
                return Err(not_open());
            };
            match tokio::time::timeout(WRITE_LIMIT, write_all(pipe, bytes)).await {
                Ok(result) => result,
                Err(_) => Err(OpsError::new(
                    ErrorKind::TimedOut,
                    format!(
                        "the process read nothing for {} s; part of the input may be written",
                        WRITE_LIMIT.as_secs()
                    ),
                )),
            }
        })
    }

    fn close_input(&self) -> BoxFuture<'_, Result<(), OpsError>> {
        Box::pin(async move {
            self.input.lock().await.take();
            Ok(())
        })
    }

    fn resize(&self, _size: TerminalSize) -> BoxFuture<'_, Result<(), OpsError>> {
        Box::pin(async {
            Err(OpsError::new(
                ErrorKind::InvalidInput,
                "the process has no terminal; start it with one",
            ))
        })
    }

    fn signal(&self, signal: ProcessSignal) -> BoxFuture<'_, Result<(), OpsError>> {
        Box::pin(async move {
            if let Some(tree) = &*self.tree.lock().unwrap_or_else(PoisonError::into_inner) {
                tree.signal_group(raw(signal));
            }
            Ok(())
        })
    }

    fn waits_for_input(&self) -> BoxFuture<'_, Result<bool, OpsError>> {
        Box::pin(async {
            Err(OpsError::new(
                ErrorKind::Unavailable,
                "whether a process waits for input cannot be told here",
            ))
        })
    }
}

async fn write_all(pipe: &AsyncFd<OwnedFd>, bytes: &[u8]) -> Result<(), OpsError> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let mut ready = pipe.writable().await.map_err(|_| not_open())?;
        match rustix::io::write(pipe.get_ref(), rest) {
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(Errno::AGAIN) => ready.clear_ready(),
            Err(Errno::INTR) => {}
            Err(_) => return Err(not_open()),
        }
    }
    Ok(())
}

fn not_open() -> OpsError {
    OpsError::new(
        ErrorKind::InvalidInput,
        "the input of the process is not open",
    )
}

fn raw(signal: ProcessSignal) -> Signal {
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
