//! What a tool reaches beyond files, processes and the network: databases, people, and tools that
//! run elsewhere. The operator configures each under a name; a tool passes the name and never sees
//! a credential.
//!
//! A back end that has none of them refuses ([`World::none`]). The runtime checks each request
//! against the call's plan before it gets here.

use std::{fmt, sync::Arc};

use super::{
    DatabaseOps, DatabaseQuery, DocumentOps, DocumentText, Fetch, FetchResponse, KeepRows, NetOps,
    NetStream, OpsError, PutBackRows, ReadStatement, RowChange, RowsPutBack, SchemaPage,
    SchemaQuestion, SourceSummary, StatementEnd, StatementEstimate, StatementReading, TakeRows,
    UntrustedDocument,
};
use crate::{egress::Host, error::ErrorKind, future::BoxFuture};

/// Everything a workspace reaches beyond its files and processes.
#[derive(Clone)]
pub struct World {
    /// The network.
    pub net: Arc<dyn NetOps>,
    /// Documents that came from there.
    pub documents: Arc<dyn DocumentOps>,
    /// Databases.
    pub databases: Arc<dyn DatabaseOps>,
    /// People and channels.
    pub messages: Arc<dyn MessageOps>,
    /// Tools that run elsewhere.
    pub remote_tools: Arc<dyn RemoteToolOps>,
}

impl World {
    /// Refuses everything, except for tools that bring their own connection.
    pub fn none() -> Self {
        Self {
            net: Arc::new(EmptyWorld),
            documents: Arc::new(EmptyWorld),
            databases: Arc::new(EmptyWorld),
            messages: Arc::new(EmptyWorld),
            remote_tools: Arc::new(EmptyWorld),
        }
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

/// People and channels, by the names the operator gave them.
pub trait MessageOps: Send + Sync {
    /// Sends a message.
    fn send<'a>(&'a self, message: OutgoingMessage<'a>) -> BoxFuture<'a, Result<(), OpsError>>;
}

/// A message to somebody.
#[derive(Debug, Clone)]
pub struct OutgoingMessage<'a> {
    /// The configured channel.
    pub channel: &'a str,
    /// The recipient within it.
    pub target: &'a str,
    /// The text.
    pub text: &'a str,
}

/// Tools that run elsewhere. The local tool that represents one brings its own connection, and asks
/// here before each request whether its call may make it.
pub trait RemoteToolOps: Send + Sync {
    /// Fails unless this tool of this provider may be called.
    fn admit(&self, provider: &str, tool: &str) -> Result<(), OpsError>;
}

/// Refuses everything.
struct EmptyWorld;

fn absent(what: &str) -> OpsError {
    OpsError::new(
        ErrorKind::Unavailable,
        format!("{what} cannot be reached from this workspace"),
    )
}

impl NetOps for EmptyWorld {
    fn connect<'a>(
        &'a self,
        _host: &'a Host,
        _port: u16,
    ) -> BoxFuture<'a, Result<Box<dyn NetStream>, OpsError>> {
        Box::pin(async { Err(absent("the network")) })
    }

    fn fetch<'a>(&'a self, _request: Fetch<'a>) -> BoxFuture<'a, Result<FetchResponse, OpsError>> {
        Box::pin(async { Err(absent("the network")) })
    }
}

impl DocumentOps for EmptyWorld {
    fn read<'a>(
        &'a self,
        _document: UntrustedDocument<'a>,
    ) -> BoxFuture<'a, Result<DocumentText, OpsError>> {
        Box::pin(async {
            Err(OpsError::new(
                ErrorKind::Unavailable,
                "nothing reads documents in this workspace",
            ))
        })
    }
}

impl ReadStatement for EmptyWorld {
    fn sources(&self) -> Vec<SourceSummary> {
        Vec::new()
    }

    fn read_statement(&self, source: &str, _: &str) -> Result<StatementReading, OpsError> {
        Err(absent_database(source))
    }

    fn read_row_change(&self, change: &RowChange) -> Result<StatementReading, OpsError> {
        Err(absent_database(&change.source))
    }
}

impl DatabaseOps for EmptyWorld {
    fn query<'a>(
        &'a self,
        query: DatabaseQuery<'a>,
        _: &'a mut dyn TakeRows,
    ) -> BoxFuture<'a, Result<StatementEnd, OpsError>> {
        Box::pin(async move { Err(absent_database(query.source)) })
    }

    fn explain<'a>(
        &'a self,
        query: DatabaseQuery<'a>,
    ) -> BoxFuture<'a, Result<StatementEstimate, OpsError>> {
        Box::pin(async move { Err(absent_database(query.source)) })
    }

    fn put_back<'a>(
        &'a self,
        request: PutBackRows<'a>,
        _: &'a mut dyn KeepRows,
    ) -> BoxFuture<'a, Result<RowsPutBack, OpsError>> {
        Box::pin(async move { Err(absent_database(&request.change.source)) })
    }

    fn schema<'a>(
        &'a self,
        question: SchemaQuestion<'a>,
    ) -> BoxFuture<'a, Result<SchemaPage, OpsError>> {
        Box::pin(async move { Err(absent_database(question.source)) })
    }
}

fn absent_database(source: &str) -> OpsError {
    absent(&format!("the database `{source}`"))
}

impl MessageOps for EmptyWorld {
    fn send<'a>(&'a self, message: OutgoingMessage<'a>) -> BoxFuture<'a, Result<(), OpsError>> {
        Box::pin(async move { Err(absent(&format!("the channel `{}`", message.channel))) })
    }
}

impl RemoteToolOps for EmptyWorld {
    fn admit(&self, _provider: &str, _tool: &str) -> Result<(), OpsError> {
        Ok(())
    }
}
