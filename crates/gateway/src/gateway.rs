//! What the gateway holds: a running host, the workspaces it serves, and what is open right now. Handed
//! to every handler, cheap to clone.

use std::{path::Path, sync::Arc, time::Duration};

use haft_contract::{
    AgentId, CallId, Outcome, Principal, SessionId, TenantId, UserId, WorkspaceId,
    host::{Clock as _, Epoch, History, LedgerError, LedgerErrorKind},
    identity::IdentityError,
};
use haft_host::{
    Host, HostError, HostedWorkspace,
    config::serve::ServeSettings,
    serving::{HttpOptions, McpService, ServedHost},
};
use haft_ledger::StoredLedger;
use haft_runtime::{Runtime, SystemClock};
use tokio::{
    sync::{Mutex, Semaphore},
    task::JoinHandle,
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    limits::{Limits, TENANT_SESSIONS},
    open_streams::OpenStreams,
    request_rates::RequestRates,
};

/// A workspace that is served.
#[derive(Debug, Clone)]
pub(crate) struct GatewayWorkspace {
    /// Whose it is.
    pub(crate) tenant: TenantId,
    /// Its id, which calls name.
    pub(crate) id: WorkspaceId,
    /// What people call it.
    pub(crate) name: String,
    /// Where it is, as its machine sees it.
    pub(crate) root: String,
    /// Keeps it added to the host; the host's own needs no keeping.
    _added: Option<Arc<HostedWorkspace>>,
}

/// Whether other processes that are running now have calls in the same record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordUse {
    /// None that accepts calls for later: what is accepted and has not ended is an earlier process's.
    Own,
    /// Others may be running what is accepted and has not ended.
    Shared,
}

/// A running gateway.
#[derive(Debug, Clone)]
pub struct Gateway(Arc<GatewayState>);

#[derive(Debug)]
struct GatewayState {
    served: ServedHost,
    record: RecordUse,
    mcp: McpService,
    limits: Limits,
    /// The names by which people and programs may call this server, beside those of this machine.
    names: Vec<String>,
    /// A tenant's first one is what a request means that names none.
    workspaces: Vec<GatewayWorkspace>,
    /// Calls that go on after their request has been answered.
    calls: TaskTracker,
    /// Cancelled when serving ends.
    ending: CancellationToken,
    streams: OpenStreams,
    rates: RequestRates,
    /// When what is queued for the record was last written for a reader.
    written: Mutex<Option<Instant>>,
}

/// How often what is queued for the record is written because somebody watches. Thousands of watchers
/// cost as much as one.
const WRITE_EVERY: Duration = Duration::from_millis(25);

/// The most calls that an earlier process accepted and did not end, and that this one takes up at its
/// start. More are left for the next start, and said so.
const MAX_TAKEN_UP: usize = 100_000;

/// How often what has ended is removed from the record.
const SWEEP_EVERY: Duration = Duration::from_hours(1);

/// How many of them run at once.
const TAKEN_UP_AT_ONCE: usize = 64;

/// How long an accepted call waits before it asks for room again.
const ROOM_AGAIN: Duration = Duration::from_millis(200);

impl Gateway {
    /// Opens a gateway in front of a host, whose own workspace people know by this root, and adds the
    /// workspaces to serve. Nothing runs before it is served.
    pub async fn open(
        served: ServedHost,
        own_root: &Path,
        record: RecordUse,
        settings: &ServeSettings,
    ) -> Result<Self, HostError> {
        let workspaces = workspaces(&served, own_root, settings).await?;
        let ending = CancellationToken::new();
        let limits = Limits::of(settings);
        let gateway = Self(Arc::new(GatewayState {
            mcp: served.mcp_service(
                HttpOptions::default().tenant_sessions(TENANT_SESSIONS),
                &ending,
            ),
            served,
            record,
            limits,
            names: settings.names.clone(),
            workspaces,
            calls: TaskTracker::new(),
            ending,
            streams: OpenStreams::new(&limits),
            rates: RequestRates::new(&limits),
            written: Mutex::default(),
        }));
        Ok(gateway)
    }

    /// Has the calls resumed that an earlier process accepted and did not end. One that may have changed
    /// something settles as `unknown`; the others run.
    pub(crate) async fn take_up(&self) {
        let unfinished = match self.ledger().unfinished(MAX_TAKEN_UP).await {
            Ok(unfinished) => unfinished,
            Err(error) => {
                tracing::error!(%error, "accepted calls of an earlier process cannot be taken up");
                return;
            }
        };
        if unfinished.len() == MAX_TAKEN_UP {
            tracing::warn!(
                most = MAX_TAKEN_UP,
                "more calls are left for the next start"
            );
        }
        let gateway = self.clone();
        // Beside serving, and a few at a time: new calls need room, too.
        drop(self.calls().spawn(async move {
            let places = Arc::new(Semaphore::new(TAKEN_UP_AT_ONCE));
            for accepted in unfinished {
                let epoch = match (accepted.epoch, gateway.0.record) {
                    (None, _) => Epoch::FIRST,
                    (Some(epoch), RecordUse::Own) => epoch.next(),
                    // Another process may be running it right now.
                    (Some(_), RecordUse::Shared) => continue,
                };
                let Ok(place) = Arc::clone(&places).acquire_owned().await else {
                    return;
                };
                let running = gateway.resume(accepted.tenant, accepted.call, epoch);
                drop(gateway.calls().spawn(async move {
                    drop(running.await);
                    drop(place);
                }));
            }
        }));
    }

    /// Removes credentials that have ended and keys of requests that are not remembered any more, now and
    /// then, until serving ends.
    pub(crate) fn sweep_now_and_then(&self) {
        let gateway = self.clone();
        drop(self.calls().spawn(async move {
            loop {
                let (credentials, keys) = (gateway.credentials(), gateway.ledger().request_keys());
                let swept = credentials.sweep(SystemClock.now()).await;
                let swept = swept.and(keys.sweep(SystemClock.now()).await);
                if let Err(error) = swept {
                    tracing::warn!(%error, "what has ended stays in the record for now");
                }
                tokio::select! {
                    () = gateway.ending().cancelled() => return,
                    () = tokio::time::sleep(SWEEP_EVERY) => {}
                }
            }
        }));
    }

    /// Takes an accepted call through the stages, whoever waits for it.
    pub(crate) fn resume(
        &self,
        tenant: TenantId,
        call: CallId,
        epoch: Epoch,
    ) -> JoinHandle<Result<Arc<Outcome>, LedgerError>> {
        let (runtime, ending) = (self.runtime().clone(), self.ending().clone());
        self.calls().spawn(async move {
            loop {
                let cancel = CancellationToken::new();
                let resumed = runtime.resume(&tenant, call, epoch, cancel).await;
                match resumed {
                    // It is on record, and runs once there is room: here, or on the next start.
                    Err(error)
                        if error.kind() == LedgerErrorKind::LimitExceeded
                            && !ending.is_cancelled() =>
                    {
                        tokio::time::sleep(ROOM_AGAIN).await;
                    }
                    resumed => return resumed,
                }
            }
        })
    }

    /// Ends: calls in flight may go on for the grace and are stopped then, and everything is recorded.
    pub async fn close(&self, grace: Duration) -> Result<(), LedgerError> {
        self.0.ending.cancel();
        self.0.calls.close();
        self.host().shutdown(grace).await.map(drop)
    }

    /// The API keys, sessions and login codes of its record.
    pub fn credentials(&self) -> haft_ledger::Credentials {
        self.ledger().credentials()
    }

    pub(crate) fn host(&self) -> &Host {
        self.0.served.host()
    }

    pub(crate) fn mcp(&self) -> &McpService {
        &self.0.mcp
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        self.host().runtime()
    }

    pub(crate) fn ledger(&self) -> &StoredLedger {
        self.host().ledger()
    }

    pub(crate) fn history(&self) -> &dyn History {
        self.host().ledger()
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.0.limits
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.0.names
    }

    pub(crate) fn calls(&self) -> &TaskTracker {
        &self.0.calls
    }

    /// Cancelled when serving ends.
    pub(crate) fn ending(&self) -> &CancellationToken {
        &self.0.ending
    }

    pub(crate) fn streams(&self) -> &OpenStreams {
        &self.0.streams
    }

    pub(crate) fn rates(&self) -> &RequestRates {
        &self.0.rates
    }

    /// Has what calls have said so far written to the record, so that somebody who watches them can read
    /// it there.
    pub(crate) async fn write_queued(&self) -> Result<(), LedgerError> {
        let mut written = self.0.written.lock().await;
        if written.is_some_and(|at| at.elapsed() < WRITE_EVERY) {
            return Ok(());
        }
        self.runtime().flush().await?;
        *written = Some(Instant::now());
        Ok(())
    }

    /// The workspaces of a tenant.
    pub(crate) fn workspaces_of<'a>(
        &'a self,
        tenant: &'a TenantId,
    ) -> impl Iterator<Item = &'a GatewayWorkspace> {
        let all = self.0.workspaces.iter();
        all.filter(move |workspace| workspace.tenant == *tenant)
    }
}

/// The host's own workspace and those that the settings name.
async fn workspaces(
    served: &ServedHost,
    own_root: &Path,
    settings: &ServeSettings,
) -> Result<Vec<GatewayWorkspace>, HostError> {
    let mut workspaces = Vec::new();
    let tenant = served.host().tenant();
    let root = own_root.display().to_string();
    workspaces.push(GatewayWorkspace {
        tenant: tenant.clone(),
        id: own_id(served).await?,
        name: root.rsplit('/').next().unwrap_or(&root).to_owned(),
        root,
        _added: None,
    });
    for directory in &settings.workspaces {
        let added = served
            .host()
            .add_workspace(&directory.path, &directory.tenant)?;
        workspaces.push(GatewayWorkspace {
            tenant: directory.tenant.clone(),
            id: added.id().clone(),
            name: directory.name.clone(),
            root: added.root().display().to_string(),
            _added: Some(added),
        });
    }
    Ok(workspaces)
}

/// The id of the host's own workspace.
async fn own_id(served: &ServedHost) -> Result<WorkspaceId, HostError> {
    let unusable = |error: IdentityError| {
        HostError::config(error.to_string(), "this is a mistake in Haft; report it")
    };
    let agent = AgentId::parse("serve").map_err(unusable)?;
    let session = SessionId::parse("serve").map_err(unusable)?;
    let mut principal = Principal::local(UserId::local(), agent, session);
    principal.tenant = served.host().tenant().clone();
    let runtime = served.host().runtime();
    let opened = runtime.workspace(&principal, &WorkspaceId::local()).await;
    let opened = opened.map_err(|error| {
        HostError::config(
            format!("the workspace cannot be opened: {error:?}"),
            "check that its directory is there and yours",
        )
    })?;
    Ok(opened.id().clone())
}
