//! Guarded processes: only the planned command, in the planned directory, at the planned tier.

use haft_contract::{
    Access, BoxFuture, ErrorKind,
    ops::{OpsError, ProcessHandle, ProcessOps, Spawn},
};

use super::Guard;

impl ProcessOps for Guard {
    fn spawn(&self, mut spawn: Spawn) -> BoxFuture<'_, Result<Box<dyn ProcessHandle>, OpsError>> {
        Box::pin(async move {
            self.still_wanted()?;
            let planned = self.plan.accesses.iter().find_map(|access| match access {
                Access::Command(command) if command.command == spawn.command => Some(command),
                _ => None,
            });
            let Some(planned) = planned else {
                return Err(OpsError::new(
                    ErrorKind::NotInPlan,
                    "the call's plan does not name this command",
                ));
            };
            // The directory as it was resolved when the plan was made, and the tier that was
            // judged, whatever the tool asks for now.
            spawn.cwd = planned.cwd.clone();
            spawn.tier = self.plan.tier;
            self.operations().processes.spawn(spawn).await
        })
    }
}
