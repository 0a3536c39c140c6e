//! Guarded background processes: a call can keep only a planned command, do only the planned act,
//! and find only its own session's processes.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use haft_contract::{
    Access, BoxFuture, ErrorKind, ToolError,
    access::{ProcessAct, RunningCommand},
    background::{
        Background, KeepRequest, KeptProcess, LogPage, LogStart, ProcessId, ProcessState,
    },
};
use tokio::time::Instant;

use super::Guard;
use crate::background::BackgroundChild;

impl Background for Guard {
    fn keep(&self, keep: KeepRequest) -> Result<ProcessId, ToolError> {
        self.still_wanted()?;
        let planned = self.plan.accesses().iter().find_map(|access| match access {
            Access::Command(command) if command.command == keep.command => Some(command),
            _ => None,
        });
        let Some(planned) = planned else {
            let message = "the call's plan does not name this command";
            return Err(ToolError::new(ErrorKind::NotInPlan, message));
        };
        let running = RunningCommand {
            command: planned.command.clone(),
            cwd: planned.cwd.clone(),
            tier: self.plan.tier(),
        };
        self.engine
            .processes
            .keep(&self.principal, self.plan.workspace_id(), running, keep)
    }

    fn release(&self, id: ProcessId) -> BoxFuture<'_, Result<u64, ToolError>> {
        Box::pin(async move { Ok(self.find(id)?.release().await) })
    }

    fn abandon(&self, id: ProcessId) {
        // Works after the call has been settled too: this is how a dropped tool cleans up.
        let Ok(kept) = self.find(id) else {
            return;
        };
        if kept.has_ended() {
            self.engine
                .processes
                .forget(&self.principal, self.plan.workspace_id(), id);
        } else if kept.is_attached() {
            kept.stop.cancel();
        }
    }

    fn list(&self) -> BoxFuture<'_, Vec<KeptProcess>> {
        Box::pin(async move {
            let kept = self
                .engine
                .processes
                .of(&self.principal, self.plan.workspace_id());
            join_all(kept.iter().map(|kept| kept.look_closely())).await
        })
    }

    fn look(&self, id: ProcessId) -> BoxFuture<'_, Result<KeptProcess, ToolError>> {
        Box::pin(async move { Ok(self.noted(self.find(id)?.look_closely().await)) })
    }

    fn log(&self, id: ProcessId, from: LogStart, most: usize) -> Result<LogPage, ToolError> {
        Ok(self.find(id)?.page(from, most))
    }

    fn wait(
        &self,
        id: ProcessId,
        from: LogStart,
        at_most: Duration,
    ) -> BoxFuture<'_, Result<KeptProcess, ToolError>> {
        Box::pin(async move {
            let kept = self.find(id)?;
            Ok(self.noted(kept.wait(from, Instant::now() + at_most).await))
        })
    }

    fn end(&self, id: ProcessId) -> BoxFuture<'_, Result<KeptProcess, ToolError>> {
        Box::pin(async move {
            let kept = self.find(id)?;
            if !kept.has_ended() && !kept.is_attached() {
                return Err(not_planned());
            }
            kept.stop.cancel();
            kept.ended().await;
            Ok(self.noted(kept.look_closely().await))
        })
    }

    fn ended(&self, id: ProcessId) -> BoxFuture<'_, Result<KeptProcess, ToolError>> {
        Box::pin(async move {
            let kept = self.find(id)?;
            kept.ended().await;
            Ok(self.noted(kept.look_closely().await))
        })
    }

    fn act(&self, id: ProcessId, act: ProcessAct) -> BoxFuture<'_, Result<(), ToolError>> {
        Box::pin(async move {
            self.still_wanted()?;
            let kept = self.find(id)?;
            let planned = self.plan.accesses().iter().any(|access| match access {
                Access::Process(planned) => {
                    planned.id == id
                        && planned.act == act
                        // The exact process that was judged, not another with the same name.
                        && planned.running.as_ref() == Some(kept.running())
                }
                _ => false,
            });
            if !planned {
                return Err(not_planned());
            }
            kept.act(&act).await
        })
    }
}

impl Guard {
    fn find(&self, id: ProcessId) -> Result<Arc<BackgroundChild>, ToolError> {
        self.engine
            .processes
            .find(&self.principal, self.plan.workspace_id(), id)
    }

    /// Records how a process ended, if the call asks about it, as a fact of the call.
    fn noted(&self, kept: KeptProcess) -> KeptProcess {
        if let ProcessState::Ended(exit) = &kept.state {
            self.confinement.reports().note_end(exit.status);
        }
        kept
    }
}

fn not_planned() -> ToolError {
    ToolError::new(
        ErrorKind::NotInPlan,
        "the call's plan does not include this action on this process",
    )
}
