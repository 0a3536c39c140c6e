//! Guarded processes: only the planned command, in the planned directory, at the planned tier, with
//! the planned network. What the sandbox did to it becomes a fact of the call, and what it changed
//! in the workspace becomes part of the record ([`super::changes`]).

use std::{sync::Arc, time::Duration};

use haft_contract::{
    Access, BoxFuture, ErrorKind,
    access::CommandAccess,
    ops::{
        ChildExit, OpsError, OutputChunk, ProcessControls, ProcessHandle, ProcessOps,
        SharedLoopback, Spawn,
    },
};

use super::{Guard, confinement::ChildReports};
use crate::session_key::SessionKey;

impl ProcessOps for Guard {
    fn spawn(&self, mut spawn: Spawn) -> BoxFuture<'_, Result<Box<dyn ProcessHandle>, OpsError>> {
        Box::pin(async move {
            self.still_wanted()?;
            let planned = self.plan.accesses().iter().find_map(|access| match access {
                Access::Command(command) if command.command == spawn.command => Some(command),
                _ => None,
            });
            let Some(planned) = planned else {
                return Err(OpsError::new(
                    ErrorKind::NotInPlan,
                    "the call's plan does not name this command",
                ));
            };
            // The directory resolved when the plan was made, and the tier that was judged, whatever
            // the tool asks for now.
            spawn.cwd = planned.cwd.clone();
            spawn.tier = self.plan.tier();
            spawn.egress = self.plan.egress().cloned();
            spawn.masks = self.plan.masks().clone();
            spawn.loopback = self.loopback(planned);
            spawn.attempted_masks = self.plan.attempted_masks().clone();
            self.look_before_commands().await;
            let child = self.operations().processes.spawn(spawn).await?;
            Ok(Box::new(Observed {
                child,
                reports: Arc::clone(self.confinement.reports()),
            }) as Box<dyn ProcessHandle>)
        })
    }
}

impl Guard {
    /// The session's loopback, for a command that stays and, while one does, for every other: that
    /// is how a call reaches the server an earlier one started.
    fn loopback(&self, planned: &CommandAccess) -> Option<SharedLoopback> {
        let session = SessionKey::of(&self.principal, self.plan.workspace_id());
        let shares = planned.stays || self.engine.processes.keeps_running(&session);
        shares.then(|| session.loopback())
    }
}

/// A child whose end is noted, whatever the tool does with it.
struct Observed {
    child: Box<dyn ProcessHandle>,
    reports: Arc<ChildReports>,
}

impl ProcessHandle for Observed {
    fn next_chunk(&mut self) -> BoxFuture<'_, Option<OutputChunk>> {
        self.child.next_chunk()
    }

    fn wait(&mut self) -> BoxFuture<'_, Result<ChildExit, OpsError>> {
        Box::pin(async move {
            let exit = self.child.wait().await?;
            self.reports.note(&exit);
            self.reports.note_end(exit.status);
            Ok(exit)
        })
    }

    fn controls(&self) -> Arc<dyn ProcessControls> {
        self.child.controls()
    }

    fn stop(&mut self, grace: Duration) -> BoxFuture<'_, Result<(), OpsError>> {
        Box::pin(async move {
            self.child.stop(grace).await?;
            // Refusals from before the call was stopped are worth knowing too.
            if let Ok(exit) = self.child.wait().await {
                self.reports.note(&exit);
            }
            Ok(())
        })
    }
}
