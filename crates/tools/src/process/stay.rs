//! A command that may outlive its call: kept from the start, shown while the call lasts, and left
//! running in the background once the call has waited long enough.
//!
//! Until it is released it belongs to the call: a deadline, a cancel or a departing caller ends it,
//! like any other command.

use std::{sync::Arc, time::Duration};

use haft_contract::{
    CallContext, ErrorKind, NoProgress, ToolError,
    access::Command,
    background::{KeepRequest, KeptProcess, ProcessId},
    context::OutputSink,
    ops::{ProcessHandle, TerminalSize},
};

pub(super) struct StayingCommand {
    pub(super) process: Box<dyn ProcessHandle>,
    pub(super) command: Command,
    pub(super) terminal: Option<TerminalSize>,
    /// How long it may run in total.
    pub(super) lifetime: Option<Duration>,
    /// How long the call waits for it to end.
    pub(super) patience: Duration,
    /// Receives its output while the call lasts.
    pub(super) output: Arc<dyn OutputSink>,
}

pub(super) enum StayOutcome {
    /// It ended before the call had waited long enough.
    Ended(KeptProcess),
    /// It keeps running; its output from this offset on is only in its log.
    Runs(KeptProcess, u64),
    /// The call had to stop.
    Stopped(ToolError),
}

/// Shows a command's output until it ends, or leaves it running.
pub(super) async fn stay(
    staying: StayingCommand,
    cx: &CallContext<NoProgress>,
) -> Result<StayOutcome, ToolError> {
    let background = cx.background();
    let id = background.keep(KeepRequest {
        process: staying.process,
        command: staying.command,
        terminal: staying.terminal,
        lifetime: staying.lifetime,
        output: Some(staying.output),
    })?;
    // Ends or forgets it, whichever way this function returns.
    let mut unreleased = Unreleased { cx, id: Some(id) };
    tokio::select! {
        biased;
        () = cx.cancel().cancelled() => {
            background.end(id).await?;
            let message = "it and everything it started were stopped";
            return Ok(StayOutcome::Stopped(ToolError::new(ErrorKind::Cancelled, message)));
        }
        ended = background.ended(id) => return Ok(StayOutcome::Ended(ended?)),
        () = tokio::time::sleep(staying.patience) => {}
    }
    let from = background.release(id).await?;
    unreleased.id = None;
    Ok(StayOutcome::Runs(background.look(id).await?, from))
}

/// A process that still belongs to the call.
struct Unreleased<'c> {
    cx: &'c CallContext<NoProgress>,
    id: Option<ProcessId>,
}

impl Drop for Unreleased<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.cx.background().abandon(id);
        }
    }
}
