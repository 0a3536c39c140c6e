//! A running child: its output, its end, and stopping it.
//!
//! Reading never stops at a cap; the holder of the handle drains it. After the child has ended,
//! something it started may hold its streams open. That is tolerated for a limited time, then the
//! whole tree is killed; what was written before is still handed out.

use std::{sync::Arc, time::Duration};

use haft_contract::{
    ErrorKind,
    future::BoxFuture,
    ops::{ChildExit, ExitStatus, OpsError, OutputChunk, ProcessControls, ProcessHandle},
};
use tokio::{
    task::JoinHandle,
    time::{Instant, timeout_at},
};

use super::{
    child_leader::{ChildLeader, TreeEnd},
    controls::{ConnectedStreams, Controls},
    output::Output,
    streams::OurEnds,
};

/// How long to wait for more output after the child itself has ended, when something it started
/// holds the streams open.
pub const DRAIN_LIMIT: Duration = Duration::from_secs(2);

/// How long to wait for the end of the streams after the whole tree was killed.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// The most bytes read after the whole tree was killed: what its pipes can hold, and no more, so
/// that a process that was not found cannot flood us forever.
const LAST_BYTES: usize = 4 * 1024 * 1024;

/// Between two checks whether a tree has ended by itself.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// A running child, on the host or in a sandbox.
pub(super) struct LocalProcess<L: ChildLeader> {
    leader: L,
    output: Output,
    feeding: Option<JoinHandle<()>>,
    controls: Arc<Controls<L::Control>>,
    status: Option<ExitStatus>,
    phase: Phase,
}

/// How far the child is, which decides how output is read.
#[derive(Clone, Copy)]
enum Phase {
    /// The child runs.
    Running,
    /// The child has ended; its streams are read until this deadline.
    Draining(Instant),
    /// The tree was killed; what it wrote before is read until this deadline, up to a number of
    /// bytes.
    LastWords { until: Instant, left: usize },
}

impl<L: ChildLeader> LocalProcess<L> {
    /// Takes over a child that has just been started, and our ends of its streams.
    pub(super) fn new(leader: L, streams: OurEnds) -> Result<Self, OpsError> {
        // An early return drops the leader, which ends the child.
        let fail = |error: std::io::Error| {
            OpsError::new(
                ErrorKind::LimitExceeded,
                format!("the child cannot be watched: {}", error.kind()),
            )
        };
        let ConnectedStreams {
            controls,
            output,
            feeding,
        } = Controls::connect(leader.reach(), streams).map_err(fail)?;
        let output = Output::new(output).map_err(fail)?;
        let feeding = feeding.map(|feeding| tokio::spawn(feeding.feed()));
        Ok(Self {
            leader,
            output,
            feeding,
            controls,
            status: None,
            phase: Phase::Running,
        })
    }

    /// Waits until the child itself has ended, and records its status. The child stays unreaped.
    async fn exited(&mut self) -> Result<ExitStatus, OpsError> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        let status = self.leader.ended().await?;
        self.status = Some(status);
        Ok(status)
    }

    /// The next chunk while the child runs; `None` once it has ended or its streams have.
    async fn chunk_while_running(&mut self) -> Option<OutputChunk> {
        tokio::select! {
            // Output first: what was written before the end is handed out before it.
            biased;
            chunk = self.output.next() => chunk,
            _ = self.leader.ended() => None,
        }
    }

    /// The next chunk after the child has ended.
    async fn chunk_after_end(&mut self) -> Option<OutputChunk> {
        loop {
            match self.phase {
                Phase::Running => {
                    self.phase = Phase::Draining(Instant::now() + DRAIN_LIMIT);
                }
                Phase::Draining(until) => {
                    if Instant::now() < until
                        && let Ok(chunk) = timeout_at(until, self.output.next()).await
                    {
                        return chunk;
                    }
                    // Something holds the streams, silently or flooding them.
                    if let Err(error) = self.leader.kill().await {
                        tracing::warn!(%error, "a process outlived its call");
                    }
                    self.phase = Phase::LastWords {
                        until: Instant::now() + LAST_WORDS,
                        left: LAST_BYTES,
                    };
                }
                Phase::LastWords { until, left } => {
                    let chunk = timeout_at(until, self.output.next()).await;
                    if let Ok(Some(chunk)) = chunk
                        && let Some(left) = left.checked_sub(chunk.bytes.len())
                    {
                        self.phase = Phase::LastWords {
                            until: Instant::now() + LAST_WORDS,
                            left,
                        };
                        return Some(chunk);
                    }
                    self.output.close();
                    return None;
                }
            }
        }
    }

    /// Kills what the child left behind and reaps it once there is nothing more to read. A daemon
    /// does not outlive its call, however well the call ended.
    async fn finish_if_over(&mut self) {
        if self.status.is_none() || !self.output.has_ended() {
            return;
        }
        match self.leader.finish_if_alone() {
            TreeEnd::Over => {}
            TreeEnd::MayHaveLeftSome => {
                if let Err(error) = self.leader.kill().await {
                    tracing::warn!(%error, "a process outlived its call");
                }
                self.leader.finish();
            }
        }
    }
}

impl<L: ChildLeader> ProcessHandle for LocalProcess<L> {
    fn next_chunk(&mut self) -> BoxFuture<'_, Option<OutputChunk>> {
        Box::pin(async move {
            if self.status.is_none() {
                if let Some(chunk) = self.chunk_while_running().await {
                    return Some(chunk);
                }
                if self.output.has_ended() {
                    return None;
                }
                if let Err(error) = self.exited().await {
                    tracing::warn!(%error, "a child cannot be waited for");
                }
            }
            let chunk = self.chunk_after_end().await;
            if chunk.is_none() {
                self.finish_if_over().await;
            }
            chunk
        })
    }

    fn wait(&mut self) -> BoxFuture<'_, Result<ChildExit, OpsError>> {
        Box::pin(async move {
            let status = self.exited().await?;
            self.finish_if_over().await;
            let confinement = self.leader.confinement().await;
            Ok(ChildExit {
                status,
                exceeded: confinement.exceeded,
                refusals: confinement.refusals,
            })
        })
    }

    fn controls(&self) -> Arc<dyn ProcessControls> {
        Arc::<Controls<L::Control>>::clone(&self.controls)
    }

    fn stop(&mut self, grace: Duration) -> BoxFuture<'_, Result<(), OpsError>> {
        Box::pin(async move {
            if self.leader.is_finished() {
                return Ok(());
            }
            let until = Instant::now() + grace;
            self.leader.terminate().await?;
            // The child first, then everything else it left.
            let _ = timeout_at(until, self.exited()).await;
            while Instant::now() < until && !self.leader.is_gone().await? {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            self.leader.kill().await?;
            self.exited().await?;
            self.leader.finish();
            Ok(())
        })
    }
}

impl<L: ChildLeader> Drop for LocalProcess<L> {
    fn drop(&mut self) {
        if let Some(feeding) = self.feeding.take() {
            feeding.abort();
        }
        // Already over: finished right here, without scanning the whole machine. Otherwise the
        // leader, dropped next, ends the tree.
        if self.status.is_some() && self.output.has_ended() {
            self.leader.finish_if_alone();
        }
    }
}
