//! A running Haft: a runtime with its record, and the servers mounted next to its tools. The one
//! composition: `haft call`, `haft mcp` and an embedded Haft differ only in what they give the
//! builder.

use std::{path::Path, sync::Arc, time::Duration};

use haft_contract::{
    Principal, TenantId,
    host::{Ledger, LedgerError},
};
use haft_ledger::{Recovery, StoredLedger};
use haft_mcp::upstream::supervise::Fleet;
use haft_runtime::{Runtime, ShutdownReport, registry::Entry};
use tokio_util::sync::CancellationToken;

use crate::{
    assembly::Assembly,
    builder::{HostBuilder, MountOptions},
    config::{Env, resolve::Overrides},
    error::{HostError, HostErrorKind},
    follow_trust::{FollowedFile, follow},
    host_policy::HostPolicy,
    hosted_workspaces::HostedWorkspace,
    mount::{MountPlan, accept, report},
    record::Record,
};

/// A runtime with its record and its mounted servers.
pub struct Host {
    assembly: Assembly,
    policy: Arc<HostPolicy>,
    followed: Option<FollowedFile>,
    record: Record,
    servers: Arc<Fleet>,
    reporting: CancellationToken,
}

impl Host {
    /// Opens everything: the workspace, the record (settling what a dead process left open), the
    /// runtime with its rules checked against its tools, and the mounted servers.
    pub async fn open(builder: HostBuilder) -> Result<Self, HostError> {
        let HostBuilder {
            workspace,
            record,
            mounting,
            parts,
            script_secrets,
            followed,
            web,
            ..
        } = builder;
        let (operations, hosting) = Box::pin(workspace.open_to_host(web)).await?;
        // Kept out of the future, which callers hold on their stacks.
        let record = Box::pin(Record::open(record)).await?;
        script_secrets.keep_out_of(record.ledger.redactor());
        let ledger: Arc<dyn Ledger> = Arc::new(record.ledger.clone());
        let assembled = parts.ledger(ledger).checked(operations, hosting);
        let mounted = assembled.and_then(|assembly| {
            let servers = mount(&assembly, &mounting)?;
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
        let reporting = CancellationToken::new();
        if mounting.reported {
            let (plan, fleet) = (Arc::clone(&assembly.mounts), Arc::clone(&servers));
            let policy = Arc::clone(&policy);
            tokio::spawn(report(plan, fleet, policy, reporting.clone()));
        }
        Ok(Self {
            assembly,
            policy,
            followed,
            record,
            servers,
            reporting,
        })
    }

    /// The runtime, which runs calls.
    pub fn runtime(&self) -> &Runtime {
        &self.assembly.runtime
    }

    /// Adds a directory as a workspace of this tenant, or finds it, for as long as the handle is kept.
    /// It shares everything of this host, and is opened when a call works in it.
    pub fn add_workspace(
        &self,
        root: &Path,
        tenant: &TenantId,
    ) -> Result<Arc<HostedWorkspace>, HostError> {
        let hosted = self.assembly.hosted.as_ref().ok_or_else(|| {
            HostError::new(
                HostErrorKind::Refused,
                "a host whose workspace is on another back end has no other workspaces",
                "open a host without a workspace, and add local ones to it",
            )
        })?;
        hosted.add(root, tenant)
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

    /// Replaces the rules whenever `haft trust` accepts another text of the workspace's
    /// configuration file, found as it was at the start. Until this host is closed.
    pub fn follow_trust(&self, env: &Env, overrides: &Overrides) {
        if let Some(file) = self.followed.clone() {
            let (env, overrides) = (env.clone(), overrides.clone());
            let (policy, cancel) = (Arc::clone(&self.policy), self.reporting.clone());
            tokio::spawn(follow(file, env, overrides, policy, cancel));
        }
    }

    /// The configured MCP servers.
    pub fn mounts(&self) -> &Arc<MountPlan> {
        &self.assembly.mounts
    }

    /// The MCP servers and their states.
    pub fn servers(&self) -> &Arc<Fleet> {
        &self.servers
    }

    /// The record.
    pub fn ledger(&self) -> &StoredLedger {
        &self.record.ledger
    }

    /// What was settled when the record was opened.
    pub fn recovery(&self) -> &Recovery {
        &self.record.recovery
    }

    /// Starts a mounted server and accepts everything it offers now. Returns how many definitions
    /// were newly accepted.
    pub async fn accept_server(&self, id: &str) -> Result<usize, HostError> {
        accept::everything(self.mounts(), &self.servers, id).await
    }

    /// Shuts down: refuses new calls, stops those in flight and waits until they are settled, ends
    /// background work and mounted servers, and then closes the record.
    pub async fn close(&self) -> Result<(), LedgerError> {
        self.shutdown(Duration::ZERO).await.map(drop)
    }

    /// As [`Self::close`], but calls that end within the grace are not stopped. Says what was.
    pub async fn shutdown(&self, grace: Duration) -> Result<ShutdownReport, LedgerError> {
        let (report, flushed) = self.runtime().shut_down_within(grace).await;
        self.reporting.cancel();
        self.mounts().keep_failures(&self.servers);
        self.servers.stop().await;
        self.record.close().await.and(flushed).map(|()| report)
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").finish_non_exhaustive()
    }
}

/// Registers what servers offer. The search tools are registered first, so that no server takes one
/// of their names.
fn mount(assembly: &Assembly, mounting: &MountOptions) -> Result<Arc<Fleet>, HostError> {
    if mounting.searchable {
        assembly.make_searchable()?;
    }
    let servers = assembly.mount(&mounting.clients, mounting.unseen)?;
    Ok(Arc::new(servers))
}
