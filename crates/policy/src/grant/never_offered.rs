//! Commands that nobody should allow for good: what runs with more rights than the person has, and
//! what destroys a disk, a home or a running machine. No hint and no *always* offers a rule for a
//! script that contains one. A person can still answer a question about it, or write a rule.
//!
//! Which commands these are is in `ruinous.rs`.

use haft_contract::{
    Access, SealedPlan, WorkPath,
    access::{Command, ProcessAct},
};

use crate::{command_pattern::PatternReach, ruinous::ruins, shell::analyse};

/// Whether a plan runs such a command.
pub fn is_never_offered(plan: &SealedPlan) -> bool {
    let ruins = |command: &Command, cwd: &WorkPath| {
        analyse(command, cwd, plan.workspace()).is_ok_and(|read| {
            let mut segments = read.segments().iter();
            segments.any(|segment| ruins(segment) == PatternReach::Yes)
        })
    };
    plan.accesses().iter().any(|access| match access {
        Access::Command(command) => ruins(&command.command, &command.cwd),
        // What is typed may be a command to a shell that runs there.
        Access::Process(process) => match &process.act {
            ProcessAct::Write(text) => ruins(&Command::Shell(text.clone()), &WorkPath::root()),
            ProcessAct::CloseInput
            | ProcessAct::Resize(_)
            | ProcessAct::Signal(_)
            | ProcessAct::Kill => false,
        },
        Access::Path(_)
        | Access::Host { .. }
        | Access::Database { .. }
        | Access::Message { .. }
        | Access::RemoteTool { .. }
        | Access::Custom(_) => false,
    })
}
