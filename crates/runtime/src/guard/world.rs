//! Guarded access to the world: only the hosts, databases, recipients and remote tools that the
//! plan names. Policy has judged those names and a person may have approved them, so a tool may ask
//! for nothing else while it runs.

use haft_contract::{
    Access, BoxFuture, ErrorKind,
    egress::Host,
    ops::{
        DatabaseOps, DatabaseQuery, Fetch, FetchResponse, MessageOps, NetOps, NetStream, OpsError,
        OutgoingMessage, RemoteToolOps, Rows,
    },
};

use super::Guard;

impl Guard {
    /// Fails unless an access of the plan matches what the tool asks for.
    fn planned(&self, what: &str, is_it: impl Fn(&Access) -> bool) -> Result<(), OpsError> {
        self.still_wanted()?;
        if self.plan.accesses().iter().any(is_it) {
            return Ok(());
        }
        Err(OpsError::new(
            ErrorKind::NotInPlan,
            format!("the call's plan does not name {what}"),
        ))
    }

    fn planned_host(&self, host: &Host, port: u16) -> Result<(), OpsError> {
        self.planned(
            &format!("the host `{host}:{port}`"),
            |access| match access {
                Access::Host {
                    host: named,
                    port: at,
                } => *at == port && Host::parse(named).is_ok_and(|named| named == *host),
                _ => false,
            },
        )
    }
}

impl NetOps for Guard {
    fn connect<'a>(
        &'a self,
        host: &'a Host,
        port: u16,
    ) -> BoxFuture<'a, Result<Box<dyn NetStream>, OpsError>> {
        Box::pin(async move {
            self.planned_host(host, port)?;
            self.operations().world.net.connect(host, port).await
        })
    }

    fn fetch<'a>(&'a self, request: Fetch<'a>) -> BoxFuture<'a, Result<FetchResponse, OpsError>> {
        Box::pin(async move {
            self.planned_host(request.host, request.port)?;
            self.operations().world.net.fetch(request).await
        })
    }
}

impl DatabaseOps for Guard {
    fn query<'a>(&'a self, query: DatabaseQuery<'a>) -> BoxFuture<'a, Result<Rows, OpsError>> {
        Box::pin(async move {
            let source = format!("the database `{}`", query.source);
            let what = if query.writes {
                format!("writing to {source}")
            } else {
                source
            };
            // Write access includes reading.
            self.planned(&what, |access| match access {
                Access::Database { source, writes } => {
                    source == query.source && (*writes || !query.writes)
                }
                _ => false,
            })?;
            self.operations().world.databases.query(query).await
        })
    }
}

impl MessageOps for Guard {
    fn send<'a>(&'a self, message: OutgoingMessage<'a>) -> BoxFuture<'a, Result<(), OpsError>> {
        Box::pin(async move {
            let (to, over) = (message.target, message.channel);
            self.planned(
                &format!("a message to `{to}` over `{over}`"),
                |access| match access {
                    Access::Message { channel, target } => channel == over && target == to,
                    _ => false,
                },
            )?;
            self.operations().world.messages.send(message).await
        })
    }
}

impl RemoteToolOps for Guard {
    fn admit(&self, provider: &str, tool: &str) -> Result<(), OpsError> {
        let what = format!("the tool `{tool}` of `{provider}`");
        self.planned(&what, |access| match access {
            Access::RemoteTool {
                provider: named,
                tool: its,
            } => named == provider && its == tool,
            _ => false,
        })?;
        self.operations().world.remote_tools.admit(provider, tool)
    }
}
