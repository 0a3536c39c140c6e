//! The ledger on SQLite: one writer thread, a few reading connections.
//!
//! This file wires the parts and implements the contract's traits by delegating. `writer.rs` is the
//! thread that writes, `fold.rs` and `write.rs` are one transaction, `read.rs` has the queries,
//! `verify.rs` checks that the record is as it was written, `recover.rs` settles calls whose
//! process is gone, and `migrate.rs` is the schema.

mod accepted;
mod approvals;
mod calls;
mod change;
mod changes;
mod checked_start;
pub(crate) mod connect;
mod expire;
mod fold;
mod grants;
mod lost;
pub(crate) mod migrate;
mod read;
mod record;
mod recover;
mod replay;
mod rows;
mod verify;
mod write;
mod writer;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use haft_contract::{
    BoxFuture, CallEvent, CallId, CallRequest, Principal, SessionId, TenantId, WorkPath,
    WorkspaceId,
    event::RecordedEvent,
    host::{
        Acceptance, ApprovalStore, ArtifactId, ArtifactStore, CallQuery, CallRecord, ClaimedCall,
        Epoch, GrantStore, History, Ledger, LedgerError, ReplayableCall, StoredCall, StoredEvent,
        StoredSession, Timestamp, Verification,
    },
    ops::FileVersion,
};
use sqlx::SqlitePool;
use tokio::sync::{Semaphore, oneshot};

pub(crate) use change::{Change, Job, job};
pub(crate) use checked_start::is_checked_start;
pub use connect::OpenError;
pub use recover::{InterruptedCall, Recovery};

use self::{
    accepted::{AcceptCall, ClaimCall},
    approvals::Approvals,
    grants::Grants,
};
use crate::{
    artifacts::FileArtifacts,
    high_water::HighWater,
    message::{CallHolder, Handle, SeenKey},
    options::LedgerOptions,
    queue::{Queue, unavailable},
    redact::Redactor,
    used_marks::UsedMarks,
};

/// How many file versions are kept in memory. Beyond this, the cache starts over from the store.
const MAX_SEEN_IN_MEMORY: usize = 16_384;

/// How long a read waits for earlier appends.
const READ_WAIT: Duration = Duration::from_secs(2);

/// How long closing waits for the last commit.
const CLOSE_WAIT: Duration = Duration::from_secs(30);

/// The record in a directory. Clones share it; [`close`](Self::close) it before the process ends,
/// or queued records are lost.
#[derive(Clone)]
pub struct SqliteLedger {
    shared: Arc<LedgerState>,
}

/// What the ledger has counted since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Transactions committed.
    pub commits: u64,
    /// Records written.
    pub records: u64,
    /// Settlements that were ignored because the call had already ended.
    pub second_settlements: u64,
    /// Times the store failed.
    pub failures: u64,
}

/// The counters as the writer and the records keep them.
#[derive(Debug, Default)]
pub(crate) struct LedgerCounters {
    pub(crate) commits: AtomicU64,
    pub(crate) records: AtomicU64,
    pub(crate) second_settlements: AtomicU64,
    pub(crate) failures: AtomicU64,
}

struct LedgerState {
    queue: Arc<Queue>,
    counting: Arc<LedgerCounters>,
    redactor: Arc<Redactor>,
    pool: SqlitePool,
    key: [u8; 32],
    mark: Arc<HighWater>,
    used_marks: Arc<UsedMarks>,
    artifacts: Arc<FileArtifacts>,
    approvals: Arc<Approvals>,
    grants: Arc<Grants>,
    seen: Mutex<SeenHere>,
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
}

impl SqliteLedger {
    /// Opens the record, migrates its schema, and settles the calls of processes that are gone.
    /// Safe while other processes use the same record.
    pub async fn open(options: LedgerOptions) -> Result<(Self, Recovery), OpenError> {
        let clock = Arc::clone(&options.clock);
        let retention = options.retention;
        let opening = writer::start(options).await?;
        let shared = opening.shared;
        let artifacts = FileArtifacts::open(&shared.directory)?;
        if let Some(retention) = retention {
            artifacts.expire_daily(clock.now(), retention).await;
        }
        let pool = connect::readers(shared.directory.path());
        shared.runtime.spawn(approvals::waiting::poll(
            Arc::clone(&shared.waiting),
            pool.clone(),
            Arc::clone(&clock),
            opening.found.change,
        ));
        let shared = LedgerState {
            approvals: Arc::new(Approvals {
                queue: Arc::clone(&opening.queue),
                pool: pool.clone(),
                key: shared.key,
                clock,
                waiting: shared.waiting,
                looks: Semaphore::new(approvals::LOOKS),
            }),
            grants: Arc::new(Grants {
                queue: Arc::clone(&opening.queue),
                pool: pool.clone(),
                key: shared.key,
                remembered: shared.remembered,
            }),
            pool,
            queue: opening.queue,
            counting: opening.counting,
            redactor: opening.redactor,
            key: shared.key,
            mark: shared.mark,
            used_marks: shared.used_marks,
            artifacts: Arc::new(artifacts),
            seen: Mutex::new(SeenHere::default()),
            writer: Mutex::new(Some(WriterThread {
                thread: opening.thread,
                stopped: opening.stopped,
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
        let stopped = match tokio::time::timeout(CLOSE_WAIT, running.stopped).await {
            Ok(stopped) => stopped.unwrap_or_else(|_| Err(unavailable("its writer has stopped"))),
            Err(_) => return Err(unavailable("it took too long to close")),
        };
        // The writer reported that it is done; joining only waits for the thread to return.
        let _ = running.thread.join();
        self.shared.pool.close().await;
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
        }
    }

    /// The artifact files, with retention.
    pub fn file_artifacts(&self) -> Arc<FileArtifacts> {
        Arc::clone(&self.shared.artifacts)
    }

    /// Removes secrets from what is stored. Add values to it as they become known.
    pub fn redactor(&self) -> Arc<Redactor> {
        Arc::clone(&self.shared.redactor)
    }

    fn record(&self, handle: Handle) -> record::OpenRecord {
        let (queue, counting) = (&self.shared.queue, &self.shared.counting);
        record::OpenRecord::new(handle, Arc::clone(queue), Arc::clone(counting))
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
        // The writer ends by itself; call `close` to wait for it.
        self.queue.close();
    }
}

impl Ledger for SqliteLedger {
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
            let handle = match claimed.row {
                None => queue.open(&request, at, CallHolder::Claim(epoch)).await?,
                Some(row) => {
                    if claimed.in_doubt {
                        lost = Some(recover::interrupted(&row.draft));
                    }
                    queue.take_up(row.draft, row.position, epoch).await?
                }
            };
            let record = self.record(handle).by_claim(record::HeldClaim {
                pool: self.shared.pool.clone(),
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

    fn approvals(&self) -> Arc<dyn ApprovalStore> {
        self.shared.approvals.clone()
    }

    fn grants(&self) -> Arc<dyn GrantStore> {
        self.shared.grants.clone()
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
            read::last_seen(&self.shared.pool, &key).await
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
            read::spilled(&self.shared.pool, principal, workspace, call).await
        })
    }

    fn providers_used<'a>(
        &'a self,
        tenant: &'a TenantId,
        session: &'a SessionId,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<String>, LedgerError>> {
        Box::pin(async move {
            let used = read::providers_used(&self.shared.pool, tenant, session, limit).await;
            used.map_err(read::failed)
        })
    }

    fn used_mark(&self, tenant: &TenantId, session: &SessionId) -> Option<u64> {
        self.shared.used_marks.of(tenant, session)
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(self.shared.queue.flush())
    }
}

impl History for SqliteLedger {
    fn call<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
    ) -> BoxFuture<'a, Result<Option<StoredCall>, LedgerError>> {
        Box::pin(async move {
            self.settle_down().await;
            read::call(&self.shared.pool, tenant, id).await
        })
    }

    fn calls<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: &'a CallQuery,
    ) -> BoxFuture<'a, Result<Vec<StoredCall>, LedgerError>> {
        Box::pin(async move {
            self.settle_down().await;
            read::calls(&self.shared.pool, tenant, query).await
        })
    }

    fn events<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, LedgerError>> {
        Box::pin(async move {
            self.settle_down().await;
            read::events(&self.shared.pool, tenant, id).await
        })
    }

    fn replayable<'a>(
        &'a self,
        tenant: &'a TenantId,
        since: Timestamp,
        after: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<ReplayableCall>, LedgerError>> {
        Box::pin(async move {
            self.settle_down().await;
            replay::replayable(&self.shared.pool, tenant, since, after, limit).await
        })
    }

    fn changes<'a>(
        &'a self,
        tenant: &'a TenantId,
        calls: &'a [CallId],
    ) -> BoxFuture<'a, Result<Vec<RecordedEvent>, LedgerError>> {
        Box::pin(async move {
            self.settle_down().await;
            changes::changes(&self.shared.pool, tenant, calls).await
        })
    }

    fn sessions<'a>(
        &'a self,
        tenant: &'a TenantId,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredSession>, LedgerError>> {
        Box::pin(async move {
            self.settle_down().await;
            read::sessions(&self.shared.pool, tenant, limit).await
        })
    }

    fn verify<'a>(
        &'a self,
        tenant: &'a TenantId,
    ) -> BoxFuture<'a, Result<Verification, LedgerError>> {
        Box::pin(async move {
            self.settle_down().await;
            let shared = &self.shared;
            verify::verify(&shared.pool, tenant, &shared.key, &shared.mark).await
        })
    }
}

impl LedgerState {
    fn seen(&self) -> MutexGuard<'_, SeenHere> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for SqliteLedger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteLedger")
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}
