//! Follows a child to its end, or stops it with everything it started.
//!
//! A chunk that has been read is always passed on before a stop is handled, so no output is lost
//! between the two. Reading continues whatever the caps above do.

use std::{future::Future, time::Duration};

use haft_contract::{
    ErrorKind, ToolError,
    ops::{ChildExit, ExitStatus, OutputChunk, ProcessHandle},
};
use tokio_util::sync::CancellationToken;

/// How long a stopped child may clean up before it is killed.
const GRACE: Duration = Duration::from_millis(800);

/// How long output is still collected after a child was stopped.
const LAST_OUTPUT: Duration = Duration::from_millis(200);

/// Receives a child's output, chunk by chunk.
pub(crate) trait TakeChunk: Send {
    fn take(&mut self, chunk: OutputChunk) -> impl Future<Output = ()> + Send;
}

/// How following a child ended.
pub(crate) enum FollowEnd {
    /// The child ended on its own.
    Ended(ChildExit),
    /// The call had to stop first. The tree is gone, unless the error says otherwise.
    Stopped(ToolError),
}

/// Passes output on until the streams end and the child is gone, or the call must stop.
pub(crate) async fn follow(
    process: &mut dyn ProcessHandle,
    cancel: &CancellationToken,
    output: &mut impl TakeChunk,
) -> Result<FollowEnd, ToolError> {
    loop {
        let chunk = tokio::select! {
            biased;
            () = cancel.cancelled() => return Ok(stop(process, output).await),
            chunk = process.next_chunk() => chunk,
        };
        match chunk {
            Some(chunk) => output.take(chunk).await,
            None => break,
        }
    }
    let exit = tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        exit = process.wait() => Some(exit?),
    };
    match exit {
        Some(exit) => Ok(FollowEnd::Ended(exit)),
        None => Ok(stop(process, output).await),
    }
}

/// What went wrong with a child that ended on its own, if anything.
pub(crate) fn failure(subject: &str, exit: &ChildExit) -> Option<ToolError> {
    let ended = match exit.status {
        ExitStatus::Code(0) => return None,
        ExitStatus::Code(code) => format!("{subject} exited with code {code}"),
        ExitStatus::Signal(signal) => format!("{subject} was ended by signal {signal}"),
    };
    Some(match exit.exceeded {
        Some(limit) => ToolError::new(
            ErrorKind::LimitExceeded,
            format!("{ended}; it exceeded the limit `{}`", limit.as_str()),
        )
        .hint(format!(
            "do less at once; the operator sets the limit as `{}` under `[sandbox.limits]` in \
             haft.toml",
            limit.as_str()
        )),
        None => ToolError::new(ErrorKind::CommandFailed, ended),
    })
}

async fn stop(process: &mut dyn ProcessHandle, output: &mut impl TakeChunk) -> FollowEnd {
    let stopped = process.stop(GRACE).await;
    let rest = async {
        while let Some(chunk) = process.next_chunk().await {
            output.take(chunk).await;
        }
    };
    // A stream that another process still holds open must not delay the answer.
    let _ = tokio::time::timeout(LAST_OUTPUT, rest).await;
    let message = match stopped {
        Ok(()) => "it and everything it started were stopped",
        Err(_) => "it was told to stop, but part of it may still run",
    };
    FollowEnd::Stopped(ToolError::new(ErrorKind::Cancelled, message))
}
