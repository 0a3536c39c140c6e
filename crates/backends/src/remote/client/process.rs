//! Child processes of a remote workspace.
//!
//! The exchange that started a child lasts as long as the child; dropping it ends the whole tree on
//! the other side, and so does losing the connection.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use haft_contract::{
    ErrorKind,
    future::BoxFuture,
    ops::{
        ChildExit, OpsError, OutputChunk, ProcessControls, ProcessHandle, ProcessOps,
        ProcessSignal, Spawn, TerminalSize,
    },
};
use tokio::time::timeout;

use super::{
    LONG_LIMIT, QUICK_LIMIT,
    exchange::{Event, Exchange, RoundTrip},
    link::Link,
    peer::Peer,
};
use crate::remote::{
    convert::{MalformedMessage, spawn_to_wire},
    credit::Charged,
    wire::{Reply, Request, WireNote},
};

/// How much longer than its grace period a tree may take to end.
const STOP_SLACK: Duration = Duration::from_secs(10);

/// The processes of a remote workspace.
pub(super) struct RemoteProcesses {
    peer: Arc<Peer>,
}

impl RemoteProcesses {
    pub(super) fn new(peer: Arc<Peer>) -> Self {
        Self { peer }
    }
}

impl ProcessOps for RemoteProcesses {
    fn spawn(&self, spawn: Spawn) -> BoxFuture<'_, Result<Box<dyn ProcessHandle>, OpsError>> {
        Box::pin(async move {
            if !spawn.masks.is_empty() {
                // `holds` promises none, so no plan has any.
                return Err(OpsError::new(
                    ErrorKind::TierUnavailable,
                    "a remote workspace cannot hide paths from a command",
                ));
            }
            let link = self.peer.link().await?;
            let (spawn, input) = spawn_to_wire(spawn);
            // Input may be long, and the connection slow.
            let limit = if input.is_empty() {
                QUICK_LIMIT
            } else {
                LONG_LIMIT
            };
            let start = async {
                let request = Request::Spawn(spawn);
                let mut exchange = link.begin(request, input.len(), limit).await?;
                exchange.send_body(&input).await?;
                match exchange.next().await? {
                    Event::Note(WireNote::Started) => Ok(exchange),
                    Event::Reply(Reply::Failed(failure)) => Err(failure.into()),
                    _ => Err(MalformedMessage("reply").into()),
                }
            };
            let exchange = timeout(limit, start).await.unwrap_or_else(|_| {
                Err(OpsError::new(
                    ErrorKind::TimedOut,
                    format!("the program did not start within {} s", limit.as_secs()),
                ))
            })?;
            Ok(Box::new(RemoteProcess::new(exchange)) as Box<dyn ProcessHandle>)
        })
    }
}

/// A child on the other side.
struct RemoteProcess {
    exchange: Exchange,
    /// Output that arrived while waiting for the end.
    pending: VecDeque<Charged<OutputChunk>>,
    output: Output,
    end: Option<Result<ChildExit, OpsError>>,
    controls: Arc<RemoteControls>,
}

/// Whether more output can come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    Open,
    Ended,
}

impl RemoteProcess {
    fn new(exchange: Exchange) -> Self {
        let controls = Arc::new(RemoteControls {
            link: Arc::clone(exchange.link()),
            process: exchange.number(),
        });
        Self {
            exchange,
            pending: VecDeque::new(),
            output: Output::Open,
            end: None,
            controls,
        }
    }

    /// Handles the next event; returns its output chunk, if it is one.
    async fn advance(&mut self) -> Option<Charged<OutputChunk>> {
        match self.exchange.next().await {
            Ok(Event::Output(chunk)) => return Some(chunk),
            Ok(Event::Note(WireNote::OutputEnded)) => self.output = Output::Ended,
            Ok(Event::Note(WireNote::Started | WireNote::Copied(_))) => {}
            Ok(Event::Reply(Reply::Exit(exit))) => {
                self.finish(ChildExit::try_from(exit).map_err(Into::into));
            }
            Ok(Event::Reply(Reply::Failed(failure))) => self.finish(Err(failure.into())),
            Ok(Event::Data(_) | Event::Reply(_)) => {
                self.finish(Err(MalformedMessage("reply").into()));
            }
            Err(error) => self.finish(Err(error)),
        }
        None
    }

    fn finish(&mut self, end: Result<ChildExit, OpsError>) {
        self.output = Output::Ended;
        self.end.get_or_insert(end);
    }
}

impl ProcessHandle for RemoteProcess {
    fn next_chunk(&mut self) -> BoxFuture<'_, Option<OutputChunk>> {
        Box::pin(async move {
            loop {
                let mut chunk = self.pending.pop_front();
                if chunk.is_none() && self.output == Output::Open {
                    chunk = self.advance().await;
                } else if chunk.is_none() {
                    return None;
                }
                if let Some(chunk) = chunk {
                    return Some(self.exchange.handled(chunk));
                }
            }
        })
    }

    fn wait(&mut self) -> BoxFuture<'_, Result<ChildExit, OpsError>> {
        Box::pin(async move {
            loop {
                if let Some(end) = &self.end {
                    return end.clone();
                }
                // Not yet handled: the credit granted bounds what may arrive.
                if let Some(chunk) = self.advance().await {
                    self.pending.push_back(chunk);
                }
            }
        })
    }

    fn controls(&self) -> Arc<dyn ProcessControls> {
        Arc::<RemoteControls>::clone(&self.controls)
    }

    fn stop(&mut self, grace: Duration) -> BoxFuture<'_, Result<(), OpsError>> {
        let request = Request::Stop {
            process: self.exchange.number(),
            grace_ms: u64::try_from(grace.as_millis()).unwrap_or(u64::MAX),
        };
        Box::pin(async move {
            if matches!(self.end, Some(Ok(_))) {
                return Ok(());
            }
            self.controls.ask(request, &[], grace + STOP_SLACK).await?;
            Ok(())
        })
    }
}

/// The controls of a child on the other side.
struct RemoteControls {
    link: Arc<Link>,
    process: u64,
}

impl RemoteControls {
    async fn ask(&self, request: Request, body: &[u8], limit: Duration) -> Result<Reply, OpsError> {
        let ask = RoundTrip::new(request, limit).body(body);
        ask.over(&self.link, &mut Vec::new()).await
    }
}

impl ProcessControls for RemoteControls {
    fn write<'a>(&'a self, bytes: &'a [u8]) -> BoxFuture<'a, Result<(), OpsError>> {
        let process = self.process;
        Box::pin(async move {
            self.ask(Request::Input { process }, bytes, QUICK_LIMIT)
                .await?;
            Ok(())
        })
    }

    fn close_input(&self) -> BoxFuture<'_, Result<(), OpsError>> {
        let process = self.process;
        Box::pin(async move {
            self.ask(Request::CloseInput { process }, &[], QUICK_LIMIT)
                .await?;
            Ok(())
        })
    }

    fn resize(&self, size: TerminalSize) -> BoxFuture<'_, Result<(), OpsError>> {
        let request = Request::Resize {
            process: self.process,
            rows: size.rows,
            columns: size.columns,
        };
        Box::pin(async move {
            self.ask(request, &[], QUICK_LIMIT).await?;
            Ok(())
        })
    }

    fn signal(&self, signal: ProcessSignal) -> BoxFuture<'_, Result<(), OpsError>> {
        let request = Request::Signal {
            process: self.process,
            signal: signal.as_str().to_owned(),
        };
        Box::pin(async move {
            self.ask(request, &[], QUICK_LIMIT).await?;
            Ok(())
        })
    }

    fn waits_for_input(&self) -> BoxFuture<'_, Result<bool, OpsError>> {
        let process = self.process;
        Box::pin(async move {
            match self
                .ask(Request::WaitsForInput { process }, &[], QUICK_LIMIT)
                .await?
            {
                Reply::Answer(answer) => Ok(answer),
                _ => Err(MalformedMessage("reply").into()),
            }
        })
    }
}
