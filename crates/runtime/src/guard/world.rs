//! Guarded access to the world: only the hosts, databases, recipients and remote tools that the
//! plan names. Policy has judged those names and a person may have approved them, so a tool may ask
//! for nothing else while it runs.

use std::net::IpAddr;

use haft_contract::{
    Access, BoxFuture, ErrorKind, Label,
    egress::Host,
    host::ArtifactId,
    ops::{
        DatabaseOps, DatabaseQuery, DocumentOps, DocumentText, Fetch, FetchResponse, KeepRows,
        MessageOps, NetOps, NetStream, OpsError, OutgoingMessage, PutBackRows, PutBackRun,
        ReadStatement, RemoteToolOps, RowChange, RowsPutBack, SchemaPage, SchemaQuestion,
        SourceSummary, StatementEnd, StatementEstimate, StatementReading, TakeRows,
        UntrustedDocument,
    },
};

use super::Guard;

/// What becomes of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StatementFate {
    Run,
    /// It is planned by the database and not run: what it would write is only read about.
    Explained,
}

impl Guard {
    /// Fails unless an access of the plan matches what the tool asks for.
    pub(super) fn planned(
        &self,
        what: &str,
        is_it: impl Fn(&Access) -> bool,
    ) -> Result<(), OpsError> {
        self.still_wanted()?;
        if self.plan.accesses().iter().any(is_it) {
            return Ok(());
        }
        Err(OpsError::new(
            ErrorKind::NotInPlan,
            format!("the call's plan does not name {what}"),
        ))
    }

    pub(super) fn planned_host(&self, host: &Host, port: u16) -> Result<(), OpsError> {
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

    /// Counts a host as read by this session, in the record first: from here on what it says may
    /// reach the agent, in an answer, in an error, in how long it takes.
    async fn note_host_read(&self, host: &Host) -> Result<(), OpsError> {
        let noted = self.note_read(std::iter::once(&Label::of_host(host))).await;
        noted.map_err(|error| OpsError::new(ErrorKind::Unavailable, error.to_string()))
    }

    fn denied_addresses(&self) -> Result<&[IpAddr], OpsError> {
        self.denied_addresses.as_deref().ok_or_else(|| {
            let message = "it is not known which addresses the rules deny";
            OpsError::new(ErrorKind::Denied, message)
        })
    }

    /// Write access includes reading, and a database or a table everything in it.
    pub(super) fn planned_query(&self, wanted: &str, writes_too: bool) -> Result<(), OpsError> {
        let source = format!("the database `{wanted}`");
        let what = if writes_too {
            format!("writing to {source}")
        } else {
            source
        };
        self.planned(&what, |access| match access {
            Access::Database { source, writes } => {
                let rest = wanted.strip_prefix(source.as_str());
                let within = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
                within && (*writes || !writes_too)
            }
            _ => false,
        })
    }

    /// Reads the statement again: what a tool says about it counts for nothing. What a tool planned
    /// as a whole database without its parts is judged as that.
    fn planned_statement(
        &self,
        query: &DatabaseQuery<'_>,
        fate: StatementFate,
    ) -> Result<(), OpsError> {
        self.still_wanted()?;
        let databases = &self.operations().world.databases;
        let reading = databases.read_statement(query.source, query.statement)?;
        let runs = fate == StatementFate::Run;
        if reading.writes && runs && !query.writes {
            return Err(OpsError::new(
                ErrorKind::NotInPlan,
                "the statement changes data, and was passed as one that only reads",
            ));
        }
        for access in &reading.accesses {
            if let Access::Database { source, writes } = access {
                self.planned_query(source, *writes && runs)?;
            }
        }
        // A statement without a table touches the database all the same.
        self.planned(
            &format!("the database `{}`", query.source),
            |access| match access {
                Access::Database { source, writes } => {
                    let name = source.split('.').next().unwrap_or_default();
                    name == query.source && (*writes || !query.writes)
                }
                _ => false,
            },
        )
    }

    /// What a tool says that it takes back counts as little as a statement's text: its columns must be
    /// in the plan.
    fn planned_row_change(&self, request: &PutBackRows<'_>) -> Result<(), OpsError> {
        let databases = &self.operations().world.databases;
        let reading = databases.read_row_change(request.change)?;
        let for_real = request.run == PutBackRun::ForReal;
        for access in &reading.accesses {
            if let Access::Database { source, writes } = access {
                self.planned_query(source, *writes && for_real)?;
            }
        }
        Ok(())
    }

    pub(super) fn planned_message(&self, over: &str, to: &str) -> Result<(), OpsError> {
        self.planned(
            &format!("a message to `{to}` over `{over}`"),
            |access| match access {
                Access::Message { channel, target } => channel == over && target == to,
                _ => false,
            },
        )
    }

    pub(super) fn planned_remote_tool(&self, provider: &str, tool: &str) -> Result<(), OpsError> {
        let what = format!("the tool `{tool}` of `{provider}`");
        self.planned(&what, |access| match access {
            Access::RemoteTool {
                provider: named,
                tool: its,
            } => named == provider && its == tool,
            _ => false,
        })
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
            self.note_host_read(host).await?;
            let denied = self.denied_addresses()?;
            let net = &self.operations().world.net;
            net.connect_unless(denied, host, port).await
        })
    }

    fn fetch<'a>(&'a self, request: Fetch<'a>) -> BoxFuture<'a, Result<FetchResponse, OpsError>> {
        Box::pin(async move {
            self.planned_host(request.host, request.port)?;
            self.note_host_read(request.host).await?;
            let keep = request.keep;
            let denied = self.denied_addresses()?;
            let net = &self.operations().world.net;
            let mut response = net.fetch_unless(denied, request).await?;
            if keep {
                response.kept = self.keep_bytes(&response.body).await;
            }
            Ok(response)
        })
    }

    fn keep<'a>(&'a self, body: &'a [u8]) -> BoxFuture<'a, Option<ArtifactId>> {
        Box::pin(self.keep_bytes(body))
    }

    fn show_kept<'a>(&'a self, host: &'a Host, port: u16) -> BoxFuture<'a, Result<(), OpsError>> {
        Box::pin(async move {
            self.planned_host(host, port)?;
            self.note_host_read(host).await
        })
    }
}

impl DocumentOps for Guard {
    fn read<'a>(
        &'a self,
        document: UntrustedDocument<'a>,
    ) -> BoxFuture<'a, Result<DocumentText, OpsError>> {
        Box::pin(async move {
            // A document is bytes that the tool has already: reading it touches nothing.
            self.still_wanted()?;
            self.operations().world.documents.read(document).await
        })
    }
}

impl ReadStatement for Guard {
    fn sources(&self) -> Vec<SourceSummary> {
        self.operations().world.databases.sources()
    }

    fn read_statement(&self, source: &str, statement: &str) -> Result<StatementReading, OpsError> {
        let databases = &self.operations().world.databases;
        databases.read_statement(source, statement)
    }

    fn read_row_change(&self, change: &RowChange) -> Result<StatementReading, OpsError> {
        self.operations().world.databases.read_row_change(change)
    }
}

impl DatabaseOps for Guard {
    fn query<'a>(
        &'a self,
        query: DatabaseQuery<'a>,
        rows: &'a mut dyn TakeRows,
    ) -> BoxFuture<'a, Result<StatementEnd, OpsError>> {
        Box::pin(async move {
            self.planned_statement(&query, StatementFate::Run)?;
            self.run_statement(query, rows).await
        })
    }

    fn explain<'a>(
        &'a self,
        query: DatabaseQuery<'a>,
    ) -> BoxFuture<'a, Result<StatementEstimate, OpsError>> {
        Box::pin(async move {
            self.planned_statement(&query, StatementFate::Explained)?;
            self.operations().world.databases.explain(query).await
        })
    }

    fn put_back<'a>(
        &'a self,
        request: PutBackRows<'a>,
        _: &'a mut dyn KeepRows,
    ) -> BoxFuture<'a, Result<RowsPutBack, OpsError>> {
        Box::pin(async move {
            self.planned_row_change(&request)?;
            self.put_rows_back(request).await
        })
    }

    fn schema<'a>(
        &'a self,
        question: SchemaQuestion<'a>,
    ) -> BoxFuture<'a, Result<SchemaPage, OpsError>> {
        Box::pin(async move {
            self.planned_query(&format!("{}.(schema)", question.source), false)?;
            self.operations().world.databases.schema(question).await
        })
    }
}

impl MessageOps for Guard {
    fn send<'a>(&'a self, message: OutgoingMessage<'a>) -> BoxFuture<'a, Result<(), OpsError>> {
        Box::pin(async move {
            self.planned_message(message.channel, message.target)?;
            self.operations().world.messages.send(message).await
        })
    }
}

impl RemoteToolOps for Guard {
    fn admit(&self, provider: &str, tool: &str) -> Result<(), OpsError> {
        self.planned_remote_tool(provider, tool)?;
        self.operations().world.remote_tools.admit(provider, tool)
    }
}
