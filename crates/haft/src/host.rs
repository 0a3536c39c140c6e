//! Many workspaces in one program: one record, one policy, one set of tools and mounted servers, and a
//! cheap handle for each principal in each workspace.
//!
//! A handle is a [`Haft`] like that of a single workspace. Nothing is composed here: the host is the
//! one that every other way into Haft uses.

use std::{path::PathBuf, sync::Arc, time::Duration};

use haft_contract::{
    AgentId, CallId, Principal, SessionId, SessionKind, TenantId, UserId, host::LedgerError,
};
use haft_host::{HostError, HostPolicy};
use haft_ledger::{Recovery, StoredLedger};
use haft_runtime::{InFlightCall, Runtime, ShutdownReport, registry::Entry};

use crate::{
    apart::check_apart,
    builder::{HostBuilder, unusable_name},
    elsewhere::{CheckedLocation, WorkspaceLocation},
    embedded::Haft,
};

/// Runs tool calls in many workspaces, each of one tenant. Cheap to clone.
///
/// ```
/// use haft::prelude::*;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// # let (acme, beta, data) = (tempfile::tempdir()?, tempfile::tempdir()?, tempfile::tempdir()?);
/// # std::fs::write(acme.path().join("notes.txt"), "hello")?;
/// let host = Host::builder().data_dir(data.path()).build().await?;
/// let writer = host.workspace(acme.path()).tenant("acme").agent("writer").session("s1").haft()?;
/// let other = host.workspace(beta.path()).tenant("beta").haft()?;
///
/// let notes = json!({"path": "notes.txt"});
/// assert!(writer.call("read", notes.clone()).await.succeeded());
/// assert!(!other.call("read", notes).await.succeeded());
/// # host.close().await?;
/// # Ok(()) })
/// # }
/// ```
#[derive(Clone)]
pub struct Host {
    state: Arc<HostState>,
}

struct HostState {
    host: haft_host::Host,
    data_dir: Option<PathBuf>,
    user: UserId,
    agent: AgentId,
}

impl Host {
    /// Starts building a host without a workspace.
    pub fn builder() -> HostBuilder {
        HostBuilder::for_many()
    }

    pub(crate) fn new(
        host: haft_host::Host,
        data_dir: Option<PathBuf>,
        user: UserId,
        agent: AgentId,
    ) -> Self {
        Self {
            state: Arc::new(HostState {
                host,
                data_dir,
                user,
                agent,
            }),
        }
    }

    /// A directory as a workspace: a path, an `Ssh` or a `Container`. Say whose it is and who calls,
    /// then [`haft`](WorkspaceHandle::haft).
    pub fn workspace(&self, location: impl Into<WorkspaceLocation>) -> WorkspaceHandle {
        WorkspaceHandle {
            host: self.clone(),
            location: location.into(),
            tenant: None,
            user: None,
            agent: None,
            session: None,
            session_kind: SessionKind::Main,
        }
    }

    /// The runtime, to cancel calls, or to add and remove tools.
    pub fn runtime(&self) -> &Runtime {
        self.state.host.runtime()
    }

    /// The rules in force, and replacing them.
    pub fn policy(&self) -> &HostPolicy {
        self.state.host.policy()
    }

    /// The record. Read it through [`History`](haft_contract::host::History).
    pub fn ledger(&self) -> &StoredLedger {
        self.state.host.ledger()
    }

    /// What was found and settled when the record was opened.
    pub fn recovery(&self) -> &Recovery {
        self.state.host.recovery()
    }

    /// The tools that a principal is shown, in any workspace of this host.
    pub fn tools_for(&self, principal: &Principal) -> Vec<Arc<Entry>> {
        self.state.host.tools_for(principal)
    }

    /// The calls in flight, in every workspace, the oldest first.
    pub fn in_flight(&self) -> Vec<InFlightCall> {
        self.runtime().calls_in_flight()
    }

    /// Shuts down: calls are refused from now on, those in flight are stopped, awaited and settled,
    /// background processes end, and then the record is closed.
    pub async fn close(&self) -> Result<(), LedgerError> {
        self.state.host.close().await
    }

    /// As [`close`](Self::close), but calls that end within the grace are not stopped. Says what was.
    pub async fn shutdown(&self, grace: Duration) -> Result<ShutdownReport, LedgerError> {
        self.state.host.shutdown(grace).await
    }

    /// Starts a mounted server and accepts everything it currently offers; see
    /// [`Haft::accept_server`].
    #[cfg(feature = "mcp")]
    pub async fn accept_server(&self, id: &str) -> Result<usize, HostError> {
        self.state.host.accept_server(id).await
    }

    /// Who asks where a handle does not say more.
    pub(crate) fn principal(
        &self,
        agent: Option<&str>,
        session: Option<&str>,
        session_kind: SessionKind,
    ) -> Result<Principal, HostError> {
        let new_session = || CallId::new().to_string();
        let session = session.map_or_else(new_session, str::to_owned);
        let agent = agent.map(AgentId::parse).transpose();
        let agent = agent.map_err(unusable_name)?;
        Ok(Principal {
            session_kind,
            ..Principal::local(
                self.state.user.clone(),
                agent.unwrap_or_else(|| self.state.agent.clone()),
                SessionId::parse(&session).map_err(unusable_name)?,
            )
        })
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host")
            .field("data_dir", &self.state.data_dir)
            .finish_non_exhaustive()
    }
}

/// A workspace of a [`Host`], and who calls in it.
///
/// The directory takes no descriptor and no thread while nothing is called in it: it is opened by a
/// call, and a few that were used last stay open. The host forgets it once the last [`Haft`] of it is
/// dropped. Directories of two tenants are never the same, nor one in the other. One on another
/// machine or in a container is connected to by its first call, and has to be named by its absolute
/// path there, without symlinks.
#[derive(Debug, Clone)]
#[must_use = "nothing can be called before `haft`"]
pub struct WorkspaceHandle {
    host: Host,
    location: WorkspaceLocation,
    tenant: Option<String>,
    user: Option<String>,
    agent: Option<String>,
    session: Option<String>,
    session_kind: SessionKind,
}

impl WorkspaceHandle {
    /// The tenant that the workspace belongs to. Without one it is the machine's own, `local`.
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// The person calls are made for. The default is the host's.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// The agent that makes the calls, under its own rules. The default is the host's.
    pub fn agent(mut self, agent: impl Into<String>) -> Self {
        self.agent = Some(agent.into());
        self
    }

    /// The conversation that calls belong to. The default is a new one.
    pub fn session(mut self, session: impl Into<String>) -> Self {
        self.session = Some(session.into());
        self
    }

    /// What kind of conversation it is. The default is the main one.
    pub fn session_kind(mut self, kind: SessionKind) -> Self {
        self.session_kind = kind;
        self
    }

    /// The handle that calls are made with. Fails if a directory on this machine cannot be opened, or
    /// has the record in it, and if any belongs to another tenant.
    pub fn haft(self) -> Result<Haft, HostError> {
        let host = &self.host;
        let session = self.session.as_deref();
        let mut principal = host.principal(self.agent.as_deref(), session, self.session_kind)?;
        if let Some(tenant) = &self.tenant {
            principal.tenant = TenantId::parse(tenant).map_err(unusable_name)?;
        }
        if let Some(user) = &self.user {
            principal.user = UserId::parse(user).map_err(unusable_name)?;
        }
        let HostState {
            host: of, data_dir, ..
        } = &*host.state;
        let workspace = match self.location.check()? {
            CheckedLocation::Directory(root) => {
                if let Some(data_dir) = data_dir {
                    check_apart(data_dir, &root)?;
                }
                of.add_workspace(&root, &principal.tenant)?
            }
            #[cfg(any(feature = "containers", feature = "ssh"))]
            CheckedLocation::Remote(remote) => {
                of.add_remote_workspace(remote, &principal.tenant)?
            }
        };
        Ok(Haft::new(
            host.clone(),
            Arc::new(principal),
            Some(workspace),
        ))
    }
}
