//! A running Haft: a runtime with its record, and the servers mounted next to its tools. The one
//! composition: `haft call`, `haft mcp` and an embedded Haft differ only in what they give the
//! builder.

use std::{path::Path, sync::Arc, time::Duration};

use haft_contract::{
    Principal, TenantId,
    host::{Ledger, LedgerError},
};
use haft_ledger::{Recovery, StoredLedger};
use haft_runtime::{Runtime, ShutdownReport, registry::Entry};
use tokio_util::sync::CancellationToken;

#[cfg(feature = "settings")]
use crate::places_apart::PlacesApart;
use crate::{
    assembly::Assembly,
    builder::HostBuilder,
    error::{HostError, HostErrorKind},
    host_policy::HostPolicy,
    hosted_workspaces::{HostedWorkspace, HostedWorkspaces},
    mounting::MountedFleet,
    record::Record,
};

/// A runtime with its record and its mounted servers.
pub struct Host {
    pub(crate) assembly: Assembly,
    pub(crate) policy: Arc<HostPolicy>,
    record: Record,
    /// Whose the workspace is that it was opened with.
    tenant: TenantId,
    #[cfg(feature = "settings")]
    apart: PlacesApart,
    pub(crate) servers: MountedFleet,
    /// Cancelled when the host is closed.
    pub(crate) closed: CancellationToken,
}

impl Host {
    /// Opens everything: the workspace, the record (settling what a dead process left open), the
    /// runtime with its rules checked against its tools, and the mounted servers.
    pub async fn open(builder: HostBuilder) -> Result<Self, HostError> {
        let HostBuilder {
            workspace,
            beside,
            record,
            mounting,
            parts,
            configured,
            web,
            #[cfg(feature = "settings")]
            apart,
            ..
        } = builder;
        let tenant = record.tenant().clone();
        let opened = workspace.open_to_host(beside, record.tenant(), web);
        let (operations, hosting) = Box::pin(opened).await?;
        // Kept out of the future, which callers hold on their stacks.
        let record = Box::pin(Record::open(record)).await?;
        configured.keep_out_of(record.ledger.redactor());
        let ledger: Arc<dyn Ledger> = Arc::new(record.ledger.clone());
        let assembled = parts.ledger(ledger).checked(operations, hosting);
        let mounted = assembled.and_then(|assembly| {
            let servers = MountedFleet::start(&assembly, &mounting, configured)?;
            Ok((assembly, servers))
        });
        let (assembly, servers) = match mounted {
            Ok(mounted) => mounted,
            Err(error) => {
                // Nothing was recorded yet, and the first error is the one worth reporting.
                let _ = record.ledger.close().await;
                return Err(error);
            }
        };
        let policy = Arc::new(HostPolicy::new(assembly.clone()));
        let closed = CancellationToken::new();
        servers.report(&mounting, &policy, &closed);
        Ok(Self {
            assembly,
            policy,
            record,
            tenant,
            #[cfg(feature = "settings")]
            apart,
            servers,
            closed,
        })
    }

    /// The runtime, which runs calls.
    pub fn runtime(&self) -> &Runtime {
        &self.assembly.runtime
    }

    /// The host's own tenant: whose the workspace is that it was opened with, and the servers and
    /// databases that its settings name.
    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// Adds a directory as a workspace of this tenant, or finds it, for as long as the handle is kept.
    /// It shares everything of this host, and is opened when a call works in it. Configured databases
    /// and mounted servers are for the host's own tenant alone.
    pub fn add_workspace(
        &self,
        root: &Path,
        tenant: &TenantId,
    ) -> Result<Arc<HostedWorkspace>, HostError> {
        #[cfg(feature = "settings")]
        self.apart.check(root)?;
        self.hosted()?
            .add(root, tenant, || self.runtime().workspaces_at_work())
    }

    /// As [`Self::add_workspace`], for a directory that is not on this machine. It is connected to
    /// when a call works in it, and has to be named by its absolute path there, without symlinks.
    #[cfg(feature = "sandbox")]
    pub fn add_remote_workspace(
        &self,
        remote: crate::RemoteWorkspace,
        tenant: &TenantId,
    ) -> Result<Arc<HostedWorkspace>, HostError> {
        self.hosted()?
            .add_remote(remote, tenant, || self.runtime().workspaces_at_work())
    }

    /// The workspaces of a tenant that were added and whose handles are kept.
    pub fn workspaces_of(&self, tenant: &TenantId) -> Vec<Arc<HostedWorkspace>> {
        let hosted = self.assembly.hosted.as_ref();
        hosted.map_or_else(Vec::new, |hosted| hosted.of_tenant(tenant))
    }

    fn hosted(&self) -> Result<&Arc<HostedWorkspaces>, HostError> {
        self.assembly.hosted.as_ref().ok_or_else(|| {
            HostError::new(
                HostErrorKind::Refused,
                "a host that was given an open back end has no other workspaces",
                "open a host without a workspace, and add workspaces to it",
            )
        })
    }

    /// The tools that a principal is shown, in any workspace of this host.
    pub fn tools_for(&self, principal: &Principal) -> Vec<Arc<Entry>> {
        match &self.assembly.hosted {
            Some(hosted) => hosted.like().tools_for(principal),
            None => self.runtime().tools_for(principal),
        }
    }

    /// The rules in force, and replacing them.
    pub fn policy(&self) -> &HostPolicy {
        &self.policy
    }

    /// The record.
    pub fn ledger(&self) -> &StoredLedger {
        &self.record.ledger
    }

    /// What was settled when the record was opened.
    pub fn recovery(&self) -> &Recovery {
        &self.record.recovery
    }

    /// Shuts down: refuses new calls, stops those in flight and waits until they are settled, ends
    /// background work and mounted servers, and then closes the record.
    pub async fn close(&self) -> Result<(), LedgerError> {
        self.shutdown(Duration::ZERO).await.map(drop)
    }

    /// As [`Self::close`], but calls that end within the grace are not stopped. Says what was.
    pub async fn shutdown(&self, grace: Duration) -> Result<ShutdownReport, LedgerError> {
        let (report, flushed) = self.runtime().shut_down_within(grace).await;
        self.closed.cancel();
        self.servers.stop().await;
        self.record.close().await.and(flushed).map(|()| report)
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").finish_non_exhaustive()
    }
}
