//! A Haft inside a program: one runtime, one record, and the principal that makes calls.
//!
//! It only says what is asked, where, and who asks; everything else happens in the runtime. Read next:
//! `builder.rs` for how it is built, `host.rs` for many workspaces, `turn/` for a model's tool calls,
//! `question/` for its questions.

use std::{sync::Arc, time::Duration};

use haft_contract::{
    AgentId, CallRequest, Outcome, Principal, SessionId, SessionKind, host::LedgerError,
    identity::IdentityError,
};
use haft_host::{HostPolicy, HostedWorkspace};
use haft_ledger::{Recovery, StoredLedger};
use haft_runtime::{
    InFlightCall, Runtime, ShutdownReport,
    registry::{Entry, Format},
};
use serde_json::Value;

use crate::{builder::HaftBuilder, elsewhere::WorkspaceLocation, host::Host};

/// Runs tool calls for one principal in one workspace. Cheap to clone; clones share everything except
/// the principal.
#[derive(Clone)]
pub struct Haft {
    host: Host,
    principal: Arc<Principal>,
    /// The workspace that was added to the host; the host's own if it was opened with one.
    workspace: Option<Arc<HostedWorkspace>>,
}

impl Haft {
    /// Starts building a Haft whose tools work in this directory: a path, an `Ssh` or a `Container`.
    pub fn open(workspace: impl Into<WorkspaceLocation>) -> HaftBuilder {
        HaftBuilder::new(workspace.into())
    }

    pub(crate) fn new(
        host: Host,
        principal: Arc<Principal>,
        workspace: Option<Arc<HostedWorkspace>>,
    ) -> Self {
        Self {
            host,
            principal,
            workspace,
        }
    }

    /// The host, to work in other workspaces with the same record, rules, tools and servers.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The same Haft for another agent, under that agent's own rules.
    pub fn agent(&self, agent: &str) -> Result<Self, IdentityError> {
        Ok(self.with_principal(Principal {
            agent: AgentId::parse(agent)?,
            ..Principal::clone(&self.principal)
        }))
    }

    /// The same Haft in another conversation.
    pub fn session(&self, session: &str, kind: SessionKind) -> Result<Self, IdentityError> {
        Ok(self.with_principal(Principal {
            session: SessionId::parse(session)?,
            session_kind: kind,
            ..Principal::clone(&self.principal)
        }))
    }

    /// The same Haft for any principal: another tenant, a sub-agent with its parents, a credential
    /// with scopes.
    #[must_use]
    pub fn with_principal(&self, principal: Principal) -> Self {
        Self {
            principal: Arc::new(principal),
            ..self.clone()
        }
    }

    /// Who asks.
    pub fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }

    /// A request by this principal, for callers that set a time limit or keep its id.
    pub fn request(&self, tool: impl Into<String>, arguments: Value) -> CallRequest {
        let request = CallRequest::new(tool, arguments, Arc::clone(&self.principal));
        match &self.workspace {
            Some(workspace) => request.in_workspace(workspace.id().clone()),
            None => request,
        }
    }

    /// Runs one call to its end. Dropping the future stops it.
    pub async fn call(&self, tool: impl Into<String>, arguments: Value) -> Arc<Outcome> {
        self.runtime().call(self.request(tool, arguments)).await
    }

    /// The tools this principal is shown, sorted by name.
    pub fn tools(&self) -> Vec<Arc<Entry>> {
        self.host.tools_for(&self.principal)
    }

    /// The tools this principal is shown, described in a model provider's format.
    pub fn tools_as(&self, format: Format) -> Vec<Value> {
        let tools = self.tools();
        tools
            .iter()
            .map(|entry| entry.rendering(format).clone())
            .collect()
    }

    /// The runtime, to cancel calls, or to add and remove tools.
    pub fn runtime(&self) -> &Runtime {
        self.host.runtime()
    }

    /// The rules in force, and replacing them.
    pub fn policy(&self) -> &HostPolicy {
        self.host.policy()
    }

    /// The record. Read it through [`History`](haft_contract::host::History).
    pub fn ledger(&self) -> &StoredLedger {
        self.host.ledger()
    }

    /// What was found and settled when the record was opened.
    pub fn recovery(&self) -> &Recovery {
        self.host.recovery()
    }

    /// Ends every background process of this principal's conversation, with everything they
    /// started.
    pub async fn end_session(&self) {
        self.runtime().end_session(&self.principal).await;
    }

    /// The calls in flight, of every clone and every principal, the oldest first.
    pub fn in_flight(&self) -> Vec<InFlightCall> {
        self.host.in_flight()
    }

    /// Shuts down: calls of every clone are refused from now on, those in flight are stopped,
    /// awaited and settled, background processes end, and then the record is closed.
    ///
    /// Dropping the last clone writes the record too. It stops nothing that is in flight, because
    /// nothing can be, and it cannot report an error.
    pub async fn close(&self) -> Result<(), LedgerError> {
        self.host.close().await
    }

    /// As [`close`](Self::close), but calls that end within the grace are not stopped. Says what
    /// was.
    ///
    /// ```
    /// # use haft::prelude::*;
    /// # use std::time::Duration;
    /// # async fn stop(haft: Haft) -> Result<(), Box<dyn std::error::Error>> {
    /// for call in haft.in_flight() {
    ///     println!("{} {} is at {} since {:?}", call.call, call.tool, call.stage, call.since);
    /// }
    /// let report = haft.shutdown(Duration::from_secs(10)).await?;
    /// println!("{} ended, {} were stopped", report.finished, report.stopped.len());
    /// # Ok(()) }
    /// ```
    pub async fn shutdown(&self, grace: Duration) -> Result<ShutdownReport, LedgerError> {
        self.host.shutdown(grace).await
    }

    /// Starts a mounted server and accepts everything it currently offers, as `haft mcp accept
    /// --all` does after a person's review. Returns how many definitions were accepted; what
    /// changes later is withheld until it is accepted again.
    #[cfg(feature = "mcp")]
    pub async fn accept_server(&self, id: &str) -> Result<usize, haft_host::HostError> {
        self.host.accept_server(id).await
    }
}

impl std::fmt::Debug for Haft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Haft")
            .field("principal", &self.principal)
            .finish_non_exhaustive()
    }
}
