//! The ledger on a store: one writer thread, a few reading connections.
//!
//! This file wires the parts and implements the contract's traits by delegating. `writer/` is the
//! thread that writes, `history/` has the queries, `approvals/` and `grants/` what people answered.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::Ordering,
        mpsc::{self, RecvTimeoutError},
    },
    thread::JoinHandle,
    time::Duration,
};

use haft_contract::{
    BoxFuture, CallEvent, CallId, CallRequest, Principal, SessionId, TenantId, WorkPath,
    WorkspaceId,
    event::RecordedEvent,
    host::{
        Acceptance, AgentQuestionStore, ApprovalStore, ArtifactId, ArtifactStore, CallRecord,
        ClaimedCall, Epoch, GrantStore, History, Ledger, LedgerError, MemoryStore, Timestamp,
        Verification,
    },
    ops::FileVersion,
};
use tokio::sync::{Semaphore, oneshot};

use crate::{
    accepted::{self, AcceptCall, AcceptedCall, ClaimCall},
    approvals::{self, Approvals},
    artifacts::{ArtifactBacking, ExpiringArtifacts},
    catch_up::{CatchUp, ROWS_AT_ONCE},
    counters::{Counters, LedgerCounters},
    credentials::Credentials,
    directory::PrivateDirectory,
    grants::Grants,
    high_water::HighWater,
    history::{read, verify},
    left_open::interrupted,
    memories::Memories,
    message::{CallHolder, Handle, SeenKey},
    open_error::OpenError,
    open_record::{HeldClaim, OpenRecord},
    options::LedgerOptions,
    providers,
    queue::{Queue, unavailable},
    reading,
    redact::Redactor,
    request_keys::RequestKeys,
    store::{Scope, Store},
    transfer_row::MigrationSource,
    used_marks::UsedMarks,
    writer::{self, Recovery, import::ImportTarget},
};

/// How many file versions are kept in memory. Beyond this, the cache starts over from the store.
const MAX_SEEN_IN_MEMORY: usize = 16_384;

/// How long a read waits for earlier appends.
const READ_WAIT: Duration = Duration::from_secs(2);

/// How long closing waits for the last commit.
const CLOSE_WAIT: Duration = Duration::from_secs(30);

/// How long dropping the last clone waits for the last commit. It keeps a thread of the host from
/// going on, so it is shorter than what [`StoredLedger::close`] waits.
const DROP_WAIT: Duration = Duration::from_secs(5);

/// The record in a directory. Clones share it. Dropping the last one writes what is queued, as
/// [`close`](Self::close) does, but blocks its thread and cannot say that writing failed. A clone in
/// a `static` is never dropped: close such a record before the process ends.
#[derive(Clone)]
pub struct StoredLedger {
    shared: Arc<LedgerState>,
}

struct LedgerState {
    queue: Arc<Queue>,
    counting: Arc<LedgerCounters>,
    redactor: Arc<Redactor>,
    directory: Arc<PrivateDirectory>,
    names: Arc<PrivateDirectory>,
    writer_name: String,
    store: Arc<dyn Store>,
    key: [u8; 32],
    mark: Arc<HighWater>,
    used_marks: Arc<UsedMarks>,
    artifacts: Arc<dyn ExpiringArtifacts>,
    approvals: Arc<Approvals>,
    grants: Arc<Grants>,
    memories: Arc<Memories>,
    seen: Mutex<SeenHere>,
    /// Held by whoever checks the record: one check takes most of the connections that read.
    verifying: tokio::sync::Mutex<()>,
    writer: Mutex<Option<WriterThread>>,
}

/// File versions seen by this process. They reach the store a little later.
#[derive(Default)]
struct SeenHere {
    versions: HashMap<SeenKey, FileVersion>,
    /// Whether some were dropped, which may not be in the store yet.
    overflowed: bool,
}

struct WriterThread {
    thread: JoinHandle<()>,
    stopped: oneshot::Receiver<Result<(), LedgerError>>,
    /// Disconnected once everything is written, for whoever waits without a runtime.
    ended: mpsc::Receiver<Infallible>,
}

impl StoredLedger {
    /// Opens the record, migrates its schema, and settles the calls of processes that are gone.
    /// Safe while other processes use the same record.
    pub async fn open(options: LedgerOptions) -> Result<(Self, Recovery), OpenError> {
        let clock = Arc::clone(&options.clock);
        let (retention, max_grants) = (options.retention, options.max_grants);
        let artifacts = ArtifactBacking::of(&options)?;
        let opening = writer::start(options).await?;
        let shared = opening.shared;
        let is_remote = artifacts.is_remote();
        let artifacts = artifacts.open(&shared.directory)?;
        if let Some(retention) = retention {
            let (swept, now) = (Arc::clone(&artifacts), clock.now());
            let sweep = async move { swept.expire_daily(now, retention).await };
            if is_remote {
                // A start waits for no other machine.
                tokio::spawn(sweep);
            } else {
                sweep.await;
            }
        }
        let store = shared.store;
        shared.runtime.spawn(approvals::waiting::poll(
            Arc::clone(&shared.waiting),
            Arc::clone(&store),
            Arc::clone(&clock),
            opening.found.change,
        ));
        let shared = LedgerState {
            approvals: Arc::new(Approvals {
                queue: Arc::clone(&opening.queue),
                store: Arc::clone(&store),
                key: shared.key,
                clock,
                waiting: shared.waiting,
                looks: Semaphore::new(approvals::LOOKS),
            }),
            grants: Arc::new(Grants {
                queue: Arc::clone(&opening.queue),
                store: Arc::clone(&store),
                key: shared.key,
                cache: shared.grants,
                counting: Arc::clone(&opening.counting),
                most: max_grants,
            }),
            memories: Arc::new(Memories {
                queue: Arc::clone(&opening.queue),
                store: Arc::clone(&store),
                key: shared.key,
                used_marks: Arc::clone(&shared.used_marks),
            }),
            store,
            queue: opening.queue,
            counting: opening.counting,
            redactor: opening.redactor,
            directory: shared.directory,
            names: shared.names,
            writer_name: shared.writer,
            key: shared.key,
            mark: shared.mark,
            used_marks: shared.used_marks,
            artifacts,
            seen: Mutex::new(SeenHere::default()),
            verifying: tokio::sync::Mutex::new(()),
            writer: Mutex::new(Some(WriterThread {
                thread: opening.thread,
                stopped: opening.stopped,
                ended: opening.ended,
            })),
        };
        let ledger = Self {
            shared: Arc::new(shared),
        };
        Ok((ledger, opening.found.recovery))
    }

    /// Writes what is left, signs the end of the record, and stops. Other clones refuse everything
    /// from then on. The next start settles calls that are still open.
    pub async fn close(&self) -> Result<(), LedgerError> {
        let running = self
            .shared
            .writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(running) = running else {
            return Ok(());
        };
        self.shared.queue.close();
        // Before the writer's connection: the last one tidies up, and these may not write.
        self.shared.store.close();
        let stopped = match tokio::time::timeout(CLOSE_WAIT, running.stopped).await {
            Ok(stopped) => stopped.unwrap_or_else(|_| Err(unavailable("its writer has stopped"))),
            Err(_) => return Err(unavailable("it took too long to close")),
        };
        // The writer reported that it is done; joining only waits for the thread to return.
        let _ = running.thread.join();
        stopped
    }

    /// The counters since the ledger was opened.
    pub fn counters(&self) -> Counters {
        let counting = &self.shared.counting;
        Counters {
            commits: counting.commits.load(Ordering::Relaxed),
            records: counting.records.load(Ordering::Relaxed),
            second_settlements: counting.second_settlements.load(Ordering::Relaxed),
            failures: counting.failures.load(Ordering::Relaxed),
            grants_read: counting.grants_read.load(Ordering::Relaxed),
        }
    }

    /// The artifacts, with retention.
    pub fn expiring_artifacts(&self) -> Arc<dyn ExpiringArtifacts> {
        Arc::clone(&self.shared.artifacts)
    }

    /// Who may use a gateway to this record.
    pub fn credentials(&self) -> Credentials {
        let shared = &self.shared;
        Credentials {
            queue: Arc::clone(&shared.queue),
            store: Arc::clone(&shared.store),
            key: shared.key,
        }
    }

    /// The keys of requests that a gateway has had before.
    pub fn request_keys(&self) -> RequestKeys {
        RequestKeys {
            queue: Arc::clone(&self.shared.queue),
            key: self.shared.key,
        }
    }

    /// Calls of every tenant that were accepted and have no outcome, oldest first, so that a process that
    /// starts again can claim each in the epoch after the one it is held in. Those that a live process
    /// is running are among them, and claiming one takes it from that process: whoever shares a record
    /// must know first that the holder is gone.
    pub async fn unfinished(&self, limit: usize) -> Result<Vec<AcceptedCall>, LedgerError> {
        // A settlement that is on its way counts.
        let (store, key) = self.settled_store().await;
        let mut reader = store.reader(Scope::Every).await.map_err(reading::failed)?;
        let unfinished = accepted::unfinished(&mut *reader, &key, limit).await;
        unfinished.map_err(reading::failed)
    }

    /// Removes secrets from what is stored. Add values to it as they become known.
    pub fn redactor(&self) -> Arc<Redactor> {
        Arc::clone(&self.shared.redactor)
    }

    /// Checks the record like [`verify`](History::verify), and tells how far it is: the position
    /// reached, and the newest.
    pub async fn verify_with(
        &self,
        tenant: &TenantId,
        progress: &(dyn Fn(u64, u64) + Send + Sync),
    ) -> Result<Verification, LedgerError> {
        self.settle_down().await;
        let shared = &self.shared;
        // What is derived from the rows is compared with them, so it must have caught up.
        if let Err(error) = self.catch_up_with_all().await {
            tracing::warn!(%error, "the list of sessions is not compared");
        }
        let _turn = shared.verifying.lock().await;
        verify::verify(&shared.store, tenant, &shared.key, &shared.mark, progress).await
    }

    /// The store and the key, once everything that was appended before can be read.
    pub(crate) async fn settled_store(&self) -> (Arc<dyn Store>, [u8; 32]) {
        self.settle_down().await;
        (Arc::clone(&self.shared.store), self.shared.key)
    }

    /// What keeps others from this record while it is carried elsewhere.
    pub(crate) fn migration_source(&self) -> MigrationSource {
        let shared = &self.shared;
        MigrationSource {
            store: Arc::clone(&shared.store),
            directory: Arc::clone(&shared.directory),
            names: Arc::clone(&shared.names),
            writer: shared.writer_name.clone(),
            key: shared.key,
        }
    }

    /// Where rows of another record are written.
    pub(crate) fn import_target(&self) -> ImportTarget {
        let shared = &self.shared;
        ImportTarget {
            store: Arc::clone(&shared.store),
            directory: Arc::clone(&shared.names),
            key: shared.key,
            mark: Arc::clone(&shared.mark),
            used_marks: Arc::clone(&shared.used_marks),
            redactor: Arc::clone(&shared.redactor),
            now: shared.approvals.clock.now(),
        }
    }

    fn record(&self, handle: Handle) -> OpenRecord {
        let (queue, counting) = (&self.shared.queue, &self.shared.counting);
        OpenRecord::new(handle, Arc::clone(queue), Arc::clone(counting))
    }

    /// Makes all that was recorded so far searchable, and its sessions listed.
    async fn catch_up_with_all(&self) -> Result<(), LedgerError> {
        let mut left = self.catch_up_with_some().await?;
        // What is recorded meanwhile is not waited for: it may come faster than this goes.
        let rows = u64::try_from(ROWS_AT_ONCE).unwrap_or(1);
        let mut rounds = left.div_ceil(rows);
        while left > 0 && rounds > 0 {
            left = self.catch_up_with_some().await?;
            rounds -= 1;
        }
        Ok(())
    }

    /// The store, once what was recorded so far is listed, counted and searchable.
    pub(crate) async fn caught_up_store(&self) -> Result<Arc<dyn Store>, LedgerError> {
        self.settle_down().await;
        self.catch_up_with_all().await?;
        Ok(Arc::clone(&self.shared.store))
    }

    pub(crate) async fn catch_up_with_some(&self) -> Result<u64, LedgerError> {
        let some = CatchUp { rows: ROWS_AT_ONCE };
        self.shared.queue.change(some).await
    }

    /// Makes reads see what this process appended before, unless the store is down or slow.
    async fn settle_down(&self) {
        if let Ok(Err(error)) = tokio::time::timeout(READ_WAIT, self.shared.queue.flush()).await {
            tracing::debug!(%error, "reading a record that is behind");
        }
    }
}

impl Drop for LedgerState {
    fn drop(&mut self) {
        self.queue.close();
        let running = self.writer.get_mut();
        let Some(running) = running.unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        self.store.close();
        if running.thread.thread().id() == std::thread::current().id() {
            return;
        }
        // The process may end right after this, and its threads with it. The writer needs nobody
        // else's thread to go on, so this cannot wait for itself.
        if running.ended.recv_timeout(DROP_WAIT) == Err(RecvTimeoutError::Timeout) {
            tracing::error!("the record was dropped before everything was written");
        }
    }
}

impl Ledger for StoredLedger {
    fn open<'a>(
        &'a self,
        request: &'a CallRequest,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<Box<dyn CallRecord>, LedgerError>> {
        Box::pin(async move {
            let shared = &self.shared;
            let handle = shared
                .queue
                .open(request, at, CallHolder::ThisProcess)
                .await?;
            Ok(Box::new(self.record(handle)) as Box<dyn CallRecord>)
        })
    }

    fn accept<'a>(
        &'a self,
        request: &'a CallRequest,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<Acceptance, LedgerError>> {
        Box::pin(async move {
            let queue = &self.shared.queue;
            let acceptance = queue.change(AcceptCall::new(request, at)?).await??;
            if acceptance == Acceptance::Accepted {
                // If this process ends here, the claimant lists the call.
                queue.open(request, at, CallHolder::Nobody).await?;
                queue.flush().await?;
            }
            Ok(acceptance)
        })
    }

    fn claim<'a>(
        &'a self,
        tenant: &'a TenantId,
        call: CallId,
        epoch: Epoch,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<ClaimedCall, LedgerError>> {
        Box::pin(async move {
            let queue = &self.shared.queue;
            let claim = ClaimCall {
                tenant: tenant.clone(),
                call,
                epoch,
            };
            let claimed = queue.change(claim).await??;
            let request = claimed.request;
            let mut lost = None;
            let handle = match claimed.call {
                None => queue.open(&request, at, CallHolder::Claim(epoch)).await?,
                Some(open) => {
                    if claimed.in_doubt {
                        lost = Some(interrupted(open.id, open.state.started));
                    }
                    queue.take_up(open, epoch).await?
                }
            };
            let record = self.record(handle).by_claim(HeldClaim {
                store: Arc::clone(&self.shared.store),
                tenant: tenant.clone(),
                call,
                epoch,
            });
            if let Some(outcome) = lost {
                record.settle(vec![RecordedEvent {
                    call,
                    at,
                    event: CallEvent::Settled {
                        outcome: Arc::new(outcome),
                    },
                }]);
                record.settled().await?;
                return Err(accepted::over());
            }
            Ok(ClaimedCall {
                request,
                record: Box::new(record),
            })
        })
    }

    fn artifacts(&self) -> Arc<dyn ArtifactStore> {
        self.shared.artifacts.clone()
    }

    fn artifacts_of(&self, tenant: &TenantId) -> Arc<dyn ArtifactStore> {
        let own = self.shared.artifacts.of_tenant(tenant);
        own.unwrap_or_else(|| self.artifacts())
    }

    fn approvals(&self) -> Arc<dyn ApprovalStore> {
        self.shared.approvals.clone()
    }

    fn agent_questions(&self) -> Arc<dyn AgentQuestionStore> {
        self.shared.approvals.clone()
    }

    fn grants(&self) -> Arc<dyn GrantStore> {
        self.shared.grants.clone()
    }

    fn memories(&self) -> Arc<dyn MemoryStore> {
        self.shared.memories.clone()
    }

    fn history(&self) -> Option<Arc<dyn History>> {
        Some(Arc::new(self.clone()))
    }

    fn last_seen<'a>(
        &'a self,
        principal: &'a Principal,
        workspace: &'a WorkspaceId,
        path: &'a WorkPath,
    ) -> BoxFuture<'a, Result<Option<FileVersion>, LedgerError>> {
        Box::pin(async move {
            let key = SeenKey::new(principal, workspace, path);
            let (version, overflowed) = {
                let seen = self.shared.seen();
                (seen.versions.get(&key).cloned(), seen.overflowed)
            };
            if version.is_some() {
                return Ok(version);
            }
            // Does not wait for the disk: this process remembers what it saw, and what another
            // process of the session saw is in the store.
            if overflowed {
                self.settle_down().await;
            }
            read::last_seen(&*self.shared.store, &key).await
        })
    }

    fn note_seen(
        &self,
        principal: &Principal,
        workspace: &WorkspaceId,
        path: &WorkPath,
        version: &FileVersion,
    ) {
        let key = SeenKey::new(principal, workspace, path);
        let mut seen = self.shared.seen();
        if seen.versions.get(&key) == Some(version) {
            // On its way to the store already, or there.
            return;
        }
        if seen.versions.len() >= MAX_SEEN_IN_MEMORY {
            seen.versions.clear();
            seen.overflowed = true;
        }
        seen.versions.insert(key.clone(), version.clone());
        drop(seen);
        self.shared.queue.note_seen(key, version.clone());
    }

    fn spilled<'a>(
        &'a self,
        principal: &'a Principal,
        workspace: &'a WorkspaceId,
        call: CallId,
    ) -> BoxFuture<'a, Result<Option<ArtifactId>, LedgerError>> {
        Box::pin(async move {
            self.settle_down().await;
            read::spilled(&*self.shared.store, principal, workspace, call).await
        })
    }

    fn providers_used<'a>(
        &'a self,
        tenant: &'a TenantId,
        session: &'a SessionId,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<String>, LedgerError>> {
        Box::pin(async move {
            let scope = [tenant.as_str()];
            let reader = self.shared.store.reader(Scope::Tenants(&scope));
            let mut reader = reader.await.map_err(reading::failed)?;
            let used = providers::providers_used(&mut *reader, tenant, session, limit).await;
            used.map_err(reading::failed)
        })
    }

    fn used_mark(&self, tenant: &TenantId, session: &SessionId) -> Option<u64> {
        if self.shared.store.is_for_many_machines() {
            // The numbers are in a file of this machine.
            return None;
        }
        self.shared.used_marks.of(tenant, session)
    }

    fn holds_secret(&self, text: &str) -> bool {
        self.redactor().holds_secret(text)
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(self.shared.queue.flush())
    }
}

impl LedgerState {
    fn seen(&self) -> MutexGuard<'_, SeenHere> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for StoredLedger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredLedger")
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}
