//! The single writer thread. It takes everything queued, writes it in one transaction, and releases
//! all its waiters: one disk sync serves them all.
//!
//! When the store fails it returns the error to every waiter (what cannot be recorded does not
//! run), keeps what it could not write, and retries with growing pauses until the store works
//! again.

use std::{
    collections::BTreeSet,
    fs::{File, TryLockError},
    sync::{Arc, atomic::Ordering},
    thread::JoinHandle,
    time::Duration,
};

use haft_contract::{TenantId, host::LedgerError};
use sqlx::{Connection as _, SqliteConnection};
use tokio::{runtime::Handle, sync::oneshot};

use super::{
    LedgerCounters, Recovery,
    approvals::waiting::{self, AnswerWaiters},
    connect::{self, OpenError},
    expire,
    fold::{Folder, Pending},
    grants::GrantCache,
    lost, migrate, recover,
    write::{self, Commit, CommitReport, Signing, WriteError},
};
use crate::{
    chain::Head,
    directory::{DirectoryError, PrivateDirectory},
    high_water::HighWater,
    options::LedgerOptions,
    owner::{self, InstanceLock},
    queue::{Queue, unavailable},
    redact::Redactor,
    used_marks::UsedMarks,
};

/// The first pause after a failure.
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How often writing what is left is tried when closing.
const CLOSING_ATTEMPTS: u32 = 5;

/// How long opening waits for another process that is opening the same record.
const OPENING_WAIT: Duration = Duration::from_mins(1);

/// The pause between two checks whether that process is done.
const OPENING_PAUSE: Duration = Duration::from_millis(5);

/// A running writer, and what it found when it started.
pub(crate) struct OpenedWriter {
    pub(crate) queue: Arc<Queue>,
    pub(crate) counting: Arc<LedgerCounters>,
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) shared: WriterState,
    pub(crate) found: OpeningFindings,
    pub(crate) thread: JoinHandle<()>,
    pub(crate) stopped: oneshot::Receiver<Result<(), LedgerError>>,
}

/// What the writer shares with readers.
pub(crate) struct WriterState {
    pub(crate) directory: Arc<PrivateDirectory>,
    pub(crate) key: [u8; 32],
    pub(crate) waiting: Arc<AnswerWaiters>,
    pub(crate) remembered: Arc<GrantCache>,
    pub(crate) mark: Arc<HighWater>,
    pub(crate) used_marks: Arc<UsedMarks>,
    /// The writer's own runtime, which lives as long as the writer.
    pub(crate) runtime: Handle,
}

/// What was found when the record was opened.
pub(crate) struct OpeningFindings {
    pub(crate) recovery: Recovery,
    /// The newest change to a question.
    pub(crate) change: i64,
}

/// Opens the record and starts its writer.
pub(crate) async fn start(options: LedgerOptions) -> Result<OpenedWriter, OpenError> {
    let queue = Arc::new(Queue::new(&options));
    let counting = Arc::new(LedgerCounters::default());
    let redactor = Arc::new(Redactor::new(options.secrets.iter().cloned()));
    let (ready, opened) = oneshot::channel();
    let (stopping, stopped) = oneshot::channel();
    let parts = (
        Arc::clone(&queue),
        Arc::clone(&counting),
        Arc::clone(&redactor),
    );
    // A dedicated thread, because a settlement must be written even while the host's runtime shuts
    // down, and because hashing and JSON do not belong on a runtime's threads.
    let thread = std::thread::Builder::new()
        .name("haft-ledger".to_owned())
        .spawn(move || {
            let (queue, counting, redactor) = parts;
            let _guard = StopGuard(Arc::clone(&queue));
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build();
            match runtime {
                Ok(runtime) => runtime.block_on(async move {
                    match Writer::open(options, queue, counting, redactor).await {
                        Ok((writer, found)) => {
                            let shared = WriterState {
                                directory: Arc::clone(&writer.directory),
                                key: writer.signing.key,
                                waiting: Arc::clone(&writer.waiting),
                                remembered: Arc::clone(&writer.remembered),
                                mark: Arc::clone(&writer.mark),
                                used_marks: Arc::clone(&writer.used_marks),
                                runtime: Handle::current(),
                            };
                            if ready.send(Ok((shared, found))).is_ok() {
                                // An error means that the ledger was dropped without closing.
                                let _ = stopping.send(writer.run().await);
                            }
                        }
                        Err(error) => {
                            let _ = ready.send(Err(error));
                        }
                    }
                }),
                Err(error) => {
                    let _ = ready.send(Err(OpenError::Thread(error)));
                }
            }
        })
        .map_err(OpenError::Thread)?;
    let ended = || OpenError::Thread(std::io::Error::other("it ended while opening"));
    let (shared, found) = opened.await.map_err(|_| ended())??;
    Ok(OpenedWriter {
        queue,
        counting,
        redactor,
        shared,
        found,
        thread,
        stopped,
    })
}

/// Notifies everyone that nothing more will be written, however the thread ends.
struct StopGuard(Arc<Queue>);

impl Drop for StopGuard {
    fn drop(&mut self) {
        self.0.stopped();
    }
}

struct Writer {
    options: LedgerOptions,
    queue: Arc<Queue>,
    counting: Arc<LedgerCounters>,
    directory: Arc<PrivateDirectory>,
    owner: InstanceLock,
    signing: Signing,
    folder: Folder,
    connection: Option<SqliteConnection>,
    tenants: BTreeSet<TenantId>,
    waiting: Arc<AnswerWaiters>,
    remembered: Arc<GrantCache>,
    mark: Arc<HighWater>,
    used_marks: Arc<UsedMarks>,
}

impl Writer {
    async fn open(
        options: LedgerOptions,
        queue: Arc<Queue>,
        counting: Arc<LedgerCounters>,
        redactor: Arc<Redactor>,
    ) -> Result<(Self, OpeningFindings), OpenError> {
        let directory = Arc::new(PrivateDirectory::open(&options.directory)?);
        // One process at a time migrates the schema and settles what others left behind.
        let _turn = opening_turn(&directory).await?;
        connect::prepare(&directory)?;
        let key = directory.signing_key()?;
        let mut connection = connect::writer(directory.path()).await?;
        migrate::migrate(&mut connection).await?;
        let mark = Arc::new(HighWater::open(&directory, key)?);
        let used_marks = Arc::new(UsedMarks::open(&directory)?);
        // Checked before anything is written, which could hide a loss.
        let lost = lost::lost(&mut connection, &mark).await?;
        let owner = InstanceLock::register(&directory)?;
        let signing = Signing {
            owner: owner.id().to_owned(),
            key,
            checkpoint_every: options.checkpoint_every,
        };
        let now = options.clock.now();
        recover::register(&mut connection, owner.id(), now).await?;
        let mut folder = Folder::new(redactor);
        let mut recovery =
            recover::recover(&mut connection, &directory, &mut folder, &signing, now).await?;
        recovery.lost = lost;
        if let Some(retention) = options.retention {
            expire::expire(&mut connection, now, retention).await?;
        }
        let found = OpeningFindings {
            recovery,
            change: waiting::newest_change(&mut connection).await?,
        };
        let writer = Self {
            options,
            queue,
            counting,
            directory,
            owner,
            signing,
            folder,
            connection: Some(connection),
            tenants: BTreeSet::new(),
            waiting: Arc::default(),
            remembered: Arc::default(),
            mark,
            used_marks,
        };
        Ok((writer, found))
    }

    async fn run(mut self) -> Result<(), LedgerError> {
        while let Some(taken) = self
            .queue
            .take(self.options.max_batch.max(1), self.options.linger)
            .await
        {
            let pending = self.folder.fold(taken);
            self.write(pending).await?;
        }
        self.finish()
            .await
            .map_err(|error| unavailable(&reason(&error)))
    }

    /// Writes what is pending, however long the store fails; gives up only when closing.
    async fn write(&mut self, mut pending: Pending) -> Result<(), LedgerError> {
        let mut pause = FIRST_PAUSE;
        let mut closing_attempts = 0;
        loop {
            match self.try_write(&mut pending).await {
                Ok(Commit::Done(committed)) => {
                    self.written(&mut pending, &committed);
                    return Ok(());
                }
                Ok(Commit::Refused(refused)) => {
                    // Each round has fewer starts.
                    self.remembered.forget();
                    pending.refuse(&mut self.folder, refused);
                }
                Err(error) => {
                    let reason = reason(&error);
                    tracing::error!(%reason, "the record could not be written");
                    self.counting.failures.fetch_add(1, Ordering::Relaxed);
                    self.connection = None;
                    self.queue.fail(&reason);
                    pending.fail(&mut self.folder, &unavailable(&reason));
                    if self.queue.is_closing() {
                        closing_attempts += 1;
                        if closing_attempts >= CLOSING_ATTEMPTS {
                            return Err(unavailable(&reason));
                        }
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    async fn try_write(&mut self, pending: &mut Pending) -> Result<Commit, WriteError> {
        if pending.is_empty() {
            return Ok(Commit::Done(CommitReport::default()));
        }
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(connect::writer(self.directory.path()).await?),
        };
        let now = self.options.clock.now();
        let commit =
            write::commit_group(connection, pending, &self.folder, &self.signing, now).await?;
        if matches!(commit, Commit::Done(_)) {
            self.counting.commits.fetch_add(1, Ordering::Relaxed);
        }
        Ok(commit)
    }

    fn written(&mut self, pending: &mut Pending, committed: &CommitReport) {
        let ended = self.folder.committed(pending, committed);
        let tenants = committed.heads.iter().map(|(tenant, _)| tenant.clone());
        self.tenants.extend(tenants);
        self.raise_mark(&committed.heads);
        self.counting
            .records
            .fetch_add(committed.records, Ordering::Relaxed);
        self.queue.recover();
        self.queue.release(pending.appends, ended, pending.bytes);
        pending.mark_used(&self.used_marks);
        if pending.changed_answers() {
            self.remembered.forget();
            self.waiting.wake(&pending.woken);
        }
        pending.report();
    }

    /// Raises the mark to the record's end. The record is already on disk, so a mark that lags
    /// behind is not an error.
    fn raise_mark(&self, heads: &[(TenantId, Head)]) {
        if heads.is_empty() {
            return;
        }
        if let Err(error) = self.mark.raise(heads) {
            tracing::warn!(%error, "the record's high-water mark could not be written");
        }
    }

    /// Signs the ends of the chains and unregisters the owner, if it holds no open call.
    async fn finish(mut self) -> Result<(), WriteError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect::writer(self.directory.path()).await?,
        };
        for tenant in &self.tenants {
            write::checkpoint(&mut connection, tenant, &self.signing.key).await?;
        }
        if recover::unregister(&mut connection, self.owner.id()).await? {
            owner::forget(&self.directory, self.owner.id());
        }
        connection.close().await?;
        Ok(())
    }
}

/// The error for callers: SQLite's message, without paths or queries.
fn reason(error: &WriteError) -> String {
    match error {
        WriteError::Database(sqlx::Error::Database(error)) => error.message().to_owned(),
        WriteError::Database(sqlx::Error::Io(error)) => error.to_string(),
        WriteError::Database(_) => "the database cannot be reached".to_owned(),
        WriteError::Tampered => error.to_string(),
    }
}

/// Waits for this process's turn to open the record, which lasts until the file is dropped.
async fn opening_turn(directory: &PrivateDirectory) -> Result<File, OpenError> {
    const NAME: &str = "opening.lock";
    let failed = |source| DirectoryError::Io {
        path: directory.path().join(NAME),
        source,
    };
    let turn = directory.open_or_create(NAME).map_err(failed)?;
    let taking = async {
        loop {
            match turn.try_lock() {
                Ok(()) => return Ok(()),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(OPENING_PAUSE).await,
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
        }
    };
    match tokio::time::timeout(OPENING_WAIT, taking).await {
        Ok(taken) => taken?,
        Err(_) => return Err(OpenError::Busy),
    }
    Ok(turn)
}
