//! The single writer thread. It takes everything queued, writes it in one transaction, and releases
//! all its waiters: one disk sync serves them all.
//!
//! When the store fails it returns the error to every waiter (what cannot be recorded does not
//! run), keeps what it could not write, and retries with growing pauses until the store works
//! again.

mod chains;
mod checked_start;
mod expire;
mod fold;
pub(crate) mod import;
mod recover;
mod write;

use std::{
    collections::HashSet,
    convert::Infallible,
    fs::{File, TryLockError},
    sync::{Arc, atomic::Ordering, mpsc},
    thread::JoinHandle,
    time::Duration,
};

use haft_contract::{
    TenantId,
    host::{LedgerError, Timestamp},
};
use tokio::{runtime::Handle, sync::oneshot, time::Instant};

pub use self::recover::{InterruptedCall, Recovery};
use self::{
    chains::Chains,
    fold::{OpenCalls, Pending, Step},
    write::{Commit, CommitReport, WriteError, WriterMemory},
};
use crate::{
    approvals::waiting::{self, AnswerWaiters},
    artifacts::ObjectStorage,
    catch_up::{CatchUp, ROWS_WHILE_IDLE},
    chain::Head,
    change::job,
    checkpoint::{self, CheckpointBy},
    counters::LedgerCounters,
    directory::{DirectoryError, PrivateDirectory},
    grants::GrantCache,
    high_water::HighWater,
    key_check, lost,
    names::Names,
    open_error::OpenError,
    open_store::{self, open_store},
    options::LedgerOptions,
    owner::{self, WriterLock},
    queue::{Queue, unavailable},
    redact::Redactor,
    store::{Connection, Scope, Store, StoreError},
    used_marks::UsedMarks,
    write_batch::WriteBatch,
};

/// How long nothing must have come before there is time to catch up.
const IDLE: Duration = Duration::from_secs(1);

/// How often a process that stays does for the database what opening it does.
const UPKEEP_EVERY: Duration = Duration::from_hours(24);

/// The first pause after a failure.
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How often a transaction that met another one is tried before that counts as a failure.
const BUSY_ATTEMPTS: u32 = 20;

/// How often writing what is left is tried when closing.
const CLOSING_ATTEMPTS: u32 = 5;

/// How long opening waits for another process that is opening the same record.
const OPENING_WAIT: Duration = Duration::from_mins(1);

/// How long opening waits for the connection of the process that had its name before to end.
const NAME_WAIT: Duration = Duration::from_secs(10);

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
    pub(crate) ended: mpsc::Receiver<Infallible>,
}

/// What the writer shares with readers.
pub(crate) struct WriterState {
    pub(crate) directory: Arc<PrivateDirectory>,
    /// Where the names of writers are.
    pub(crate) names: Arc<PrivateDirectory>,
    /// The name of this one.
    pub(crate) writer: String,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) key: [u8; 32],
    pub(crate) waiting: Arc<AnswerWaiters>,
    pub(crate) grants: Arc<GrantCache>,
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
    let secrets = options.secrets.iter().cloned();
    let secrets = secrets.chain(open_store::password(&options));
    let storage = options.artifacts.iter();
    let secrets = secrets.chain(storage.flat_map(ObjectStorage::secrets));
    let redactor = Arc::new(Redactor::new(secrets));
    let (ready, opened) = oneshot::channel();
    let (stopping, stopped) = oneshot::channel();
    let (ending, ended) = mpsc::sync_channel(1);
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
            // Dropped last, when nothing of this thread is left to write.
            let _ending = ending;
            let _guard = StopGuard(Arc::clone(&queue));
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            match runtime {
                Ok(runtime) => runtime.block_on(async move {
                    match Writer::open(options, queue, counting, redactor).await {
                        Ok((writer, found)) => {
                            let shared = WriterState {
                                directory: Arc::clone(&writer.directory),
                                names: Arc::clone(&writer.names),
                                writer: writer.lock.name().to_owned(),
                                store: Arc::clone(&writer.store),
                                key: writer.memory.key,
                                waiting: Arc::clone(&writer.waiting),
                                grants: Arc::clone(&writer.grants),
                                mark: Arc::clone(&writer.mark),
                                used_marks: Arc::clone(&writer.used_marks),
                                runtime: Handle::current(),
                            };
                            if ready.send(Ok((shared, found))).is_ok() {
                                // An error means that nobody waits in a runtime: the ledger was
                                // dropped.
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
    let no_answer = || OpenError::Thread(std::io::Error::other("it ended while opening"));
    let (shared, found) = opened.await.map_err(|_| no_answer())??;
    Ok(OpenedWriter {
        queue,
        counting,
        redactor,
        shared,
        found,
        thread,
        stopped,
        ended,
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
    names: Arc<PrivateDirectory>,
    lock: WriterLock,
    memory: WriterMemory,
    open: OpenCalls,
    store: Arc<dyn Store>,
    connection: Option<Box<dyn Connection>>,
    waiting: Arc<AnswerWaiters>,
    grants: Arc<GrantCache>,
    mark: Arc<HighWater>,
    used_marks: Arc<UsedMarks>,
    /// Whether rows were written that cannot be searched for yet.
    is_behind: bool,
    /// When the database last got what it needs every day; opening it is the first time.
    kept_up_at: Timestamp,
}

impl Writer {
    async fn open(
        options: LedgerOptions,
        queue: Arc<Queue>,
        counting: Arc<LedgerCounters>,
        redactor: Arc<Redactor>,
    ) -> Result<(Self, OpeningFindings), OpenError> {
        let directory = Arc::new(open_store::open_directory(&options)?);
        // One process at a time migrates the schema and settles what others left behind.
        let _turn = opening_turn(&directory).await?;
        let store = open_store(&options, &directory)?;
        let names = open_store::names_directory(&options, &directory)?;
        let key = directory.signing_key()?;
        let mut opened = store.open().await?;
        let connection = &mut *opened;
        connection.act_for(Scope::Every).await?;
        key_check::check(connection, &key).await?;
        let mark = Arc::new(HighWater::open(&names, key)?);
        let used_marks = Arc::new(UsedMarks::open(&names)?);
        // Checked before anything is written, which could hide a loss.
        let lost = lost::lost(connection, &mark).await?;
        let now = options.clock.now();
        let mut free = owner::free_writers(&names)?;
        let mut numbers = Vec::with_capacity(free.len());
        for writer in &free {
            numbers.push(recover::register(connection, writer.name(), now).await?);
        }
        let lock = free.swap_remove(0);
        let number = numbers.first().copied().unwrap_or_default();
        let mut memory = WriterMemory {
            key,
            chains: Chains::new(lock.name().to_owned(), number, options.checkpoint_every),
            names: Names::default(),
            providers: HashSet::new(),
        };
        hold_own_name(connection, number).await?;
        // Those on other machines; what is free on this one is known already.
        let mut abandoned = connection.hold_abandoned_writers().await?;
        abandoned.retain(|writer| !numbers.contains(writer));
        numbers.extend(&abandoned);
        let mut open = OpenCalls::new(redactor, options.open_linger);
        let mut recovery =
            recover::recover(connection, &numbers, &mut open, &mut memory, now).await?;
        for writer in numbers.into_iter().skip(1) {
            connection.let_writer_go(writer).await?;
        }
        recovery.lost = lost;
        if let Some(retention) = options.retention {
            expire::expire(connection, now, retention).await?;
        }
        connection.act_for(Scope::Every).await?;
        let found = OpeningFindings {
            recovery,
            change: waiting::newest_change(connection).await?,
        };
        let writer = Self {
            options,
            queue,
            counting,
            directory,
            names,
            lock,
            memory,
            open,
            store,
            connection: Some(opened),
            waiting: Arc::default(),
            grants: Arc::default(),
            mark,
            used_marks,
            is_behind: true,
            kept_up_at: now,
        };
        // What recovery wrote counts too.
        writer.raise_mark(&writer.memory.chains.heads());
        Ok((writer, found))
    }

    async fn run(mut self) -> Result<(), LedgerError> {
        while let Some(taken) = self.next_batch().await {
            let nothing_came = taken.messages.is_empty() && taken.seen.is_empty();
            let pending = self.open.fold(taken);
            if !pending.is_empty() || !pending.waiters.is_empty() {
                self.write(pending).await?;
            } else if nothing_came && self.is_behind && self.open.next_due().is_none() {
                self.catch_up().await?;
            } else {
                // Everything stays with its open call for now.
                self.queue.release(pending.appends, 0, 0);
            }
        }
        let rest = self.open.fold(WriteBatch {
            is_full: true,
            ..WriteBatch::default()
        });
        self.write(rest).await?;
        self.finish()
            .await
            .map_err(|error| unavailable(&reason(&error)))
    }

    /// What is queued next. An empty batch when events of an open call have been here long enough,
    /// and when there is time to catch up.
    async fn next_batch(&self) -> Option<WriteBatch> {
        self.queue.note_held_events(self.open.holds_events());
        let next = self
            .queue
            .take(self.options.max_batch.max(1), self.options.linger);
        let idle = self.is_behind.then(|| Instant::now() + IDLE);
        let until = match (self.open.next_due(), idle) {
            (Some(due), Some(idle)) => Some(due.min(idle)),
            (due, idle) => due.or(idle),
        };
        match until {
            Some(until) => match tokio::time::timeout_at(until, next).await {
                Ok(taken) => taken,
                Err(_) => Some(self.queue.take_nothing()),
            },
            None => next.await,
        }
    }

    /// Makes a little more of the record searchable, because nobody wants anything else.
    async fn catch_up(&mut self) -> Result<(), LedgerError> {
        let (job, mut report) = job(CatchUp {
            rows: ROWS_WHILE_IDLE,
        });
        let mut pending = Pending::default();
        pending.steps.push(Step::Change(job));
        self.write(pending).await?;
        // Without an answer it failed, and is tried after the next row that is written.
        self.is_behind = matches!(report.try_recv(), Ok(Ok(left)) if left > 0);
        Ok(())
    }

    /// Writes what is pending, however long the store fails; gives up only when closing.
    async fn write(&mut self, mut pending: Pending) -> Result<(), LedgerError> {
        let mut pause = FIRST_PAUSE;
        let mut closing_attempts = 0;
        let mut busy_attempts = 0;
        loop {
            match self.try_write(&mut pending).await {
                Ok(Commit::Done(committed)) => {
                    self.written(&mut pending, &committed);
                    return Ok(());
                }
                Ok(Commit::RefusedStarts(refused)) => {
                    // Each round has fewer starts.
                    self.memory.undo();
                    self.doubt_grants(&pending, &refused);
                    pending.refuse(&mut self.open, refused);
                }
                Ok(Commit::RefusedCalls(refused)) => {
                    // Each round has fewer calls.
                    self.memory.undo();
                    let starts = pending.starts_of(&refused);
                    pending.refuse(&mut self.open, starts);
                    for handle in refused {
                        self.open.refuse(handle);
                    }
                }
                Err(WriteError::Database(StoreError::Busy(why)))
                    if busy_attempts < BUSY_ATTEMPTS =>
                {
                    // Nobody is told: the same transaction is tried again at once, from its beginning.
                    tracing::debug!(%why, "another transaction was running");
                    busy_attempts += 1;
                    self.memory.undo();
                    if let Some(connection) = &mut self.connection
                        && connection.rollback().await.is_err()
                    {
                        self.connection = None;
                    }
                }
                Err(error) => {
                    let reason = reason(&error);
                    tracing::error!(%reason, "the record could not be written");
                    self.counting.failures.fetch_add(1, Ordering::Relaxed);
                    self.connection = None;
                    self.memory.undo();
                    self.queue.fail(&reason);
                    pending.fail(&mut self.open, &unavailable(&reason));
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
            none => none.insert(reconnect(&*self.store, self.memory.chains.writer()).await?),
        };
        let now = self.options.clock.now();
        if now >= self.kept_up_at.after(UPKEEP_EVERY) {
            self.kept_up_at = now;
            if let Err(error) = connection.daily_upkeep().await {
                tracing::warn!(%error, "what the record's database needs every day was not done");
            }
        }
        let commit = write::commit_group(
            &mut **connection,
            pending,
            &self.open,
            &mut self.memory,
            now,
        )
        .await?;
        if matches!(commit, Commit::Done(_)) {
            self.counting.commits.fetch_add(1, Ordering::Relaxed);
        }
        Ok(commit)
    }

    /// Has the grants of refused starts read again: they were not what the decisions took them for.
    fn doubt_grants(&self, pending: &Pending, refused: &[(u64, LedgerError)]) {
        for step in &pending.steps {
            if let Step::Start(start) = step
                && refused.iter().any(|(number, _)| *number == start.number)
            {
                self.grants.doubt(&start.principal, &start.rests_on.grants);
            }
        }
    }

    fn written(&mut self, pending: &mut Pending, committed: &CommitReport) {
        self.memory.chains.committed(&committed.heads);
        self.is_behind |= committed.rows > 0;
        let released = self.open.committed(pending, committed);
        self.raise_mark(&committed.heads);
        self.counting
            .records
            .fetch_add(committed.rows, Ordering::Relaxed);
        self.queue.recover();
        self.queue
            .release(pending.appends, released.ended, released.bytes);
        pending.mark_used(&self.used_marks);
        self.grants.changed(&pending.grants_changed);
        if pending.changed_answers() {
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
        if let Err(error) = self.mark.raise(self.lock.name(), heads) {
            tracing::warn!(%error, "the record's high-water mark could not be written");
        }
    }

    /// Signs the ends of the chains together. The name is free for the next process once this one
    /// lets go of its lock.
    async fn finish(mut self) -> Result<(), WriteError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.store.writer().await?,
        };
        let connection = &mut *connection;
        connection.begin().await?;
        connection.act_for(Scope::Every).await?;
        let chains = &self.memory.chains;
        for tenant in chains.tenants() {
            let writer = (chains.name(), chains.writer());
            let by = CheckpointBy { writer, tenant };
            checkpoint::write(connection, by, &self.memory.key).await?;
        }
        connection.commit().await?;
        connection
            .let_writer_go(self.memory.chains.writer())
            .await?;
        Ok(())
    }
}

/// Takes the name this process has locked. A server may need a moment to notice that the process before
/// it is gone.
async fn hold_own_name(connection: &mut dyn Connection, writer: i64) -> Result<(), OpenError> {
    let until = Instant::now() + NAME_WAIT;
    while !connection.hold_writer(writer).await? {
        if Instant::now() >= until {
            return Err(OpenError::Busy);
        }
        tokio::time::sleep(OPENING_PAUSE).await;
    }
    Ok(())
}

/// A new connection for a writer whose last one failed.
async fn reconnect(store: &dyn Store, writer: i64) -> Result<Box<dyn Connection>, StoreError> {
    let mut connection = store.writer().await?;
    if connection.hold_writer(writer).await? {
        return Ok(connection);
    }
    let why = "another process is settling what this one left open when its connection failed";
    Err(StoreError::Unreachable(why.to_owned()))
}

/// The error for callers: the database's own words, without paths or statements.
fn reason(error: &WriteError) -> String {
    match error {
        WriteError::Database(
            StoreError::Refused(why) | StoreError::Unreachable(why) | StoreError::Busy(why),
        ) => why.clone(),
        WriteError::Database(StoreError::Unreadable(_)) => {
            "the database cannot be reached".to_owned()
        }
        WriteError::Tampered => error.to_string(),
    }
}

/// Waits for this process's turn to open the record, which lasts until the file is dropped.
pub(crate) async fn opening_turn(directory: &PrivateDirectory) -> Result<File, OpenError> {
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
