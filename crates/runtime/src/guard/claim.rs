//! A running tool says what it is about to touch by means of its own, and is stopped unless its
//! plan names that. For accesses of its own kinds this is the only guard there is; for the others it
//! is what the operations would have said.

use haft_contract::{
    Access, ErrorKind, PathAccess, PathMode, PathScope, context::ClaimAccess, egress::Host,
    ops::OpsError,
};

use super::Guard;

impl ClaimAccess for Guard {
    fn claim(&self, access: &Access) -> Result<(), OpsError> {
        match access {
            Access::Path(path) => self.claim_path(path),
            Access::Command(command) => {
                let what = format!("the command `{}`", command.command.text());
                self.planned(&what, |planned| match planned {
                    Access::Command(planned) => {
                        planned.command == command.command && planned.stays == command.stays
                    }
                    _ => false,
                })
            }
            Access::Process(process) => self.planned(&process.text(), |planned| match planned {
                Access::Process(planned) => planned.id == process.id && planned.act == process.act,
                _ => false,
            }),
            Access::Host { host, port } => match Host::parse(host) {
                Ok(host) => self.planned_host(&host, *port),
                Err(error) => Err(OpsError::new(ErrorKind::NotInPlan, error.to_string())),
            },
            Access::Database { source, writes } => self.planned_query(source, *writes),
            Access::Message { channel, target } => self.planned_message(channel, target),
            Access::RemoteTool { provider, tool } => self.planned_remote_tool(provider, tool),
            Access::Custom(custom) => self.planned(
                &format!("`{custom}`"),
                |planned| matches!(planned, Access::Custom(planned) if planned == custom),
            ),
        }
    }
}

impl Guard {
    fn claim_path(&self, claimed: &PathAccess) -> Result<(), OpsError> {
        let covers = |mode| match claimed.mode {
            PathMode::Read => true,
            PathMode::Write => mode == PathMode::Write,
        };
        match claimed.scope {
            PathScope::File => match claimed.mode {
                PathMode::Read => self.readable(&claimed.path).map(drop),
                PathMode::Write => self.writable(&claimed.path).map(drop),
            },
            PathScope::Tree => self.planned(&format!("all of `{}`", claimed.path), |planned| {
                matches!(planned, Access::Path(planned) if planned.scope == PathScope::Tree
                    && covers(planned.mode) && planned.path.contains(&claimed.path))
            }),
        }
    }
}
