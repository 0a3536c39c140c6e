//! Children of a connection: their output as the caller takes it, their end, and stopping them.
//!
//! One task owns a child. It ends the whole tree when the caller drops it or when the connection
//! ends, whichever comes first.

use std::{sync::Arc, time::Duration};

use haft_contract::{
    ErrorKind,
    ops::{OpsError, OutputChunk, ProcessControls, ProcessHandle, TerminalSize},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout_at},
};

use super::{
    exchange::{Exchange, cancelled},
    session::Session,
};
use crate::remote::{
    convert::{self, chunk_to_wire, spawn_from_wire},
    frame::{Frame, Kind},
    wire::{self, Reply, WireNote},
};

/// The most queued orders to stop one child.
const MAX_STOPS: usize = 8;

/// A running child, as other tasks reach it.
#[derive(Clone)]
pub(super) struct RunningChild {
    controls: Arc<dyn ProcessControls>,
    stop: mpsc::Sender<Stop>,
}

/// An order to end a child's whole tree.
struct Stop {
    grace: Duration,
    done: oneshot::Sender<Result<(), OpsError>>,
}

/// A child, and this task's ends of its channels.
struct Child<'a> {
    handle: Box<dyn ProcessHandle>,
    exchange: &'a Exchange,
    stops: mpsc::Receiver<Stop>,
}

/// Starts a child before the deadline, and stays with it until it ends.
pub(super) async fn run(
    session: &Session,
    exchange: &Exchange,
    spawn: wire::Spawn,
    input: Vec<u8>,
    until: Instant,
) -> Result<Reply, OpsError> {
    let spawn = spawn_from_wire(spawn, input)?;
    let handle = tokio::select! {
        handle = timeout_at(until, session.operations.processes.spawn(spawn)) => handle,
        () = exchange.cancel.cancelled() => return Err(cancelled()),
    };
    let late = |_| OpsError::new(ErrorKind::TimedOut, "the program did not start in time");
    let handle = handle.map_err(late)??;
    let (stop, stops) = mpsc::channel(MAX_STOPS);
    let running = RunningChild {
        controls: handle.controls(),
        stop,
    };
    session.keep_process(exchange.number, running);
    exchange.note(&WireNote::Started);
    let child = Child {
        handle,
        exchange,
        stops,
    };
    let ended = child.stay().await;
    session.forget_process(exchange.number);
    ended
}

impl Child<'_> {
    /// Sends output until there is no more, then how the child ended.
    async fn stay(mut self) -> Result<Reply, OpsError> {
        loop {
            tokio::select! {
                biased;
                () = self.exchange.cancel.cancelled() => return self.end().await,
                Some(stop) = self.stops.recv() => self.stop(stop).await,
                chunk = self.handle.next_chunk() => match chunk {
                    Some(chunk) => if self.hand_out(&chunk).await.is_err() {
                        return self.end().await;
                    },
                    None => break,
                },
            }
        }
        self.exchange.note(&WireNote::OutputEnded);
        loop {
            tokio::select! {
                biased;
                () = self.exchange.cancel.cancelled() => return self.end().await,
                Some(stop) = self.stops.recv() => self.stop(stop).await,
                exit = self.handle.wait() => return Ok(Reply::Exit(exit?.into())),
            }
        }
    }

    /// Sends one piece once the caller has room for it. The child can be stopped meanwhile.
    async fn hand_out(&mut self, chunk: &OutputChunk) -> Result<(), OpsError> {
        let frame = Frame::new(Kind::Output, self.exchange.number, chunk_to_wire(chunk));
        let mut paying = std::pin::pin!(self.exchange.window.pay(frame));
        let paid = loop {
            tokio::select! {
                biased;
                () = self.exchange.cancel.cancelled() => return Err(cancelled()),
                paid = &mut paying => break paid.map_err(|_| cancelled())?,
                Some(stop) = self.stops.recv() => {
                    let stopped = self.handle.stop(stop.grace).await;
                    // The requester may have gone.
                    let _ = stop.done.send(stopped);
                }
            }
        };
        self.exchange.send_paid(paid).await
    }

    async fn stop(&mut self, stop: Stop) {
        let stopped = self.handle.stop(stop.grace).await;
        // The requester may have gone.
        let _ = stop.done.send(stopped);
    }

    /// Ends the tree at once.
    async fn end(&mut self) -> Result<Reply, OpsError> {
        self.handle.stop(Duration::ZERO).await?;
        Err(cancelled())
    }
}

/// Ends a child's whole tree. Succeeds if it has already ended.
pub(super) async fn stop(
    session: &Session,
    process: u64,
    grace_ms: u64,
) -> Result<Reply, OpsError> {
    let Some(running) = session.process(process) else {
        return Ok(Reply::Done);
    };
    let (done, stopped) = oneshot::channel();
    let stop = Stop {
        grace: Duration::from_millis(grace_ms),
        done,
    };
    // The child's task is gone only when the child is.
    if running.stop.send(stop).await.is_ok()
        && let Ok(stopped) = stopped.await
    {
        stopped?;
    }
    Ok(Reply::Done)
}

pub(super) async fn input(
    session: &Session,
    process: u64,
    bytes: &[u8],
) -> Result<Reply, OpsError> {
    controls(session, process)?.write(bytes).await?;
    Ok(Reply::Done)
}

pub(super) async fn close_input(session: &Session, process: u64) -> Result<Reply, OpsError> {
    if let Some(running) = session.process(process) {
        running.controls.close_input().await?;
    }
    Ok(Reply::Done)
}

pub(super) async fn resize(
    session: &Session,
    process: u64,
    rows: u16,
    columns: u16,
) -> Result<Reply, OpsError> {
    let size = TerminalSize { rows, columns };
    controls(session, process)?.resize(size).await?;
    Ok(Reply::Done)
}

/// Signals a child. Succeeds without effect if it has ended.
pub(super) async fn signal(
    session: &Session,
    process: u64,
    signal: &str,
) -> Result<Reply, OpsError> {
    let signal = convert::signal(signal)?;
    if let Some(running) = session.process(process) {
        running.controls.signal(signal).await?;
    }
    Ok(Reply::Done)
}

pub(super) async fn waits_for_input(session: &Session, process: u64) -> Result<Reply, OpsError> {
    match session.process(process) {
        Some(running) => Ok(Reply::Answer(running.controls.waits_for_input().await?)),
        None => Ok(Reply::Answer(false)),
    }
}

fn controls(session: &Session, process: u64) -> Result<Arc<dyn ProcessControls>, OpsError> {
    session
        .process(process)
        .map(|running| running.controls)
        .ok_or_else(|| OpsError::new(ErrorKind::InvalidInput, "the process has ended"))
}
