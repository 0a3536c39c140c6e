//! What waits to be written. Callers push and go on; the one writer takes everything there is.
//!
//! Room for a call's end is reserved when it is opened, so a settlement is never refused. Nothing
//! here converts, hashes or waits for the disk: this is the part of the ledger on the call path.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use haft_contract::{
    AgentId, CallRequest, Principal, SessionId, SessionKind, TenantId, UserId, WorkPath,
    event::Happened,
    host::{LedgerError, LedgerErrorKind, Timestamp},
    ops::FileVersion,
};
use tokio::sync::{Notify, Semaphore, SemaphorePermit, oneshot};

use crate::{
    options::{APPEND_WAIT, LedgerOptions},
    sqlite::{Change, Job, is_claim, job},
};

/// The most noted file versions that wait to be written. Beyond it they are remembered only in
/// memory; after a restart such a file counts as not seen, which is the safe answer.
const MAX_PENDING_SEEN: usize = 16_384;

/// Told when what it waits for is durable, or that it will not be for now.
pub(crate) type Waiter = oneshot::Sender<Result<(), LedgerError>>;

/// Names an open call within this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Handle(u64);

impl Handle {
    /// A handle for a call that another process left open. Counted from the other end, so that it
    /// never meets one of this process's own.
    pub(crate) fn adopted(index: u64) -> Self {
        Self(u64::MAX - index)
    }
}

/// Which file, for whom. Agents that share a session id do not share what they have seen.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SeenKey {
    pub(crate) tenant: TenantId,
    pub(crate) session: SessionId,
    pub(crate) session_kind: SessionKind,
    pub(crate) user: UserId,
    pub(crate) agent: AgentId,
    pub(crate) path: WorkPath,
}

impl SeenKey {
    /// This file, for this principal.
    pub(crate) fn new(principal: &Principal, path: &WorkPath) -> Self {
        Self {
            tenant: principal.tenant.clone(),
            session: principal.session.clone(),
            session_kind: principal.session_kind,
            user: principal.user.clone(),
            agent: principal.agent.clone(),
            path: path.clone(),
        }
    }
}

/// Something for the writer to do.
#[derive(Debug)]
pub(crate) enum Message {
    /// A call was opened.
    Open {
        handle: Handle,
        request: Box<CallRequest>,
        at: Timestamp,
    },
    /// Events happened.
    Append {
        handle: Handle,
        events: Vec<Happened>,
        waiter: Option<Waiter>,
    },
    /// The last events happened, the settlement among them.
    Settle {
        handle: Handle,
        events: Vec<Happened>,
    },
    /// The record of a call was dropped before it was settled.
    Abandon { handle: Handle },
    /// What is kept about questions or grants is to change.
    Change { job: Box<dyn Job> },
    /// Somebody waits for everything before this.
    Flush { waiter: Waiter },
}

/// How soon something must be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// With the next group.
    Queued,
    /// Now, together with whatever is queued.
    Now,
}

/// What the writer takes at once.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) messages: Vec<Message>,
    pub(crate) seen: HashMap<SeenKey, FileVersion>,
}

/// The queue between callers and the writer.
#[derive(Debug)]
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    wake: Notify,
    slots: Semaphore,
    room: Semaphore,
    open_wait: Duration,
    next_handle: AtomicU64,
}

#[derive(Debug)]
struct Inner {
    messages: Vec<Message>,
    seen: HashMap<SeenKey, FileVersion>,
    urgent: bool,
    writer: Writer,
    store: Store,
}

/// What the writer is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer {
    Idle,
    Lingering,
    Busy,
}

/// Whether the store takes anything.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Store {
    Ready,
    Failed(String),
    Closing,
    Closed,
}

impl Queue {
    /// An empty queue.
    pub(crate) fn new(options: &LedgerOptions) -> Self {
        Self {
            inner: Mutex::new(Inner {
                messages: Vec::new(),
                seen: HashMap::new(),
                urgent: false,
                writer: Writer::Busy,
                store: Store::Ready,
            }),
            wake: Notify::new(),
            slots: Semaphore::new(options.max_calls_in_flight.min(Semaphore::MAX_PERMITS)),
            room: Semaphore::new(options.max_queued_appends.min(Semaphore::MAX_PERMITS)),
            open_wait: options.open_wait,
            next_handle: AtomicU64::new(0),
        }
    }

    /// Opens a call, holding a place for its end.
    pub(crate) async fn open(
        &self,
        request: &CallRequest,
        at: Timestamp,
    ) -> Result<Handle, LedgerError> {
        let slot = match self.slots.try_acquire() {
            Ok(slot) => slot,
            Err(_) => match tokio::time::timeout(self.open_wait, self.slots.acquire()).await {
                Ok(Ok(slot)) => slot,
                Ok(Err(_)) => return Err(unavailable("it is closed")),
                Err(_) => {
                    return Err(LedgerError::new(
                        LedgerErrorKind::LimitExceeded,
                        "too many calls are open at once; wait for some to end",
                    ));
                }
            },
        };
        let handle = Handle(self.next_handle.fetch_add(1, Ordering::Relaxed));
        let request = Box::new(request.clone());
        let mut inner = self.lock();
        inner.accepts()?;
        inner.messages.push(Message::Open {
            handle,
            request,
            at,
        });
        slot.forget();
        let wake = inner.should_wake(Urgency::Queued);
        drop(inner);
        if wake {
            self.wake.notify_one();
        }
        Ok(handle)
    }

    /// Appends events of an open call.
    pub(crate) async fn append(
        &self,
        handle: Handle,
        events: Vec<Happened>,
        urgency: Urgency,
    ) -> Result<(), LedgerError> {
        let room = self.room().await?;
        match urgency {
            Urgency::Queued => {
                room.forget();
                self.push(
                    Message::Append {
                        handle,
                        events,
                        waiter: None,
                    },
                    urgency,
                );
                Ok(())
            }
            Urgency::Now => {
                let (waiter, durable) = oneshot::channel();
                {
                    // Refused before it is queued: the caller then denies the call, and a start
                    // that was refused must not be recorded later.
                    let mut inner = self.lock();
                    inner.accepts()?;
                    room.forget();
                    inner.messages.push(Message::Append {
                        handle,
                        events,
                        waiter: Some(waiter),
                    });
                    if inner.should_wake(Urgency::Now) {
                        self.wake.notify_one();
                    }
                }
                wait(durable).await
            }
        }
    }

    /// Changes what is kept about questions or grants, and says what came of it once that is
    /// durable.
    pub(crate) async fn change<C: Change + 'static>(
        &self,
        change: C,
    ) -> Result<C::Output, LedgerError> {
        let room = self.room().await?;
        let (job, report) = job(change);
        {
            let mut inner = self.lock();
            inner.accepts()?;
            room.forget();
            inner.messages.push(Message::Change { job });
            if inner.should_wake(Urgency::Now) {
                self.wake.notify_one();
            }
        }
        report
            .await
            .unwrap_or_else(|_| Err(unavailable("its writer has stopped")))
    }

    /// Appends the last events of a call. Its room was reserved by [`Queue::open`].
    pub(crate) fn settle(&self, handle: Handle, events: Vec<Happened>) {
        self.push(Message::Settle { handle, events }, Urgency::Queued);
    }

    /// Says that a call will never be settled by its caller.
    pub(crate) fn abandon(&self, handle: Handle) {
        self.push(Message::Abandon { handle }, Urgency::Queued);
    }

    /// Waits until everything pushed so far is durable.
    pub(crate) async fn flush(&self) -> Result<(), LedgerError> {
        let (waiter, durable) = oneshot::channel();
        {
            let mut inner = self.lock();
            inner.accepts()?;
            if inner.is_drained() {
                return Ok(());
            }
            inner.messages.push(Message::Flush { waiter });
            if inner.should_wake(Urgency::Now) {
                self.wake.notify_one();
            }
        }
        wait(durable).await
    }

    /// Notes the version of a file a session saw.
    pub(crate) fn note_seen(&self, key: SeenKey, version: FileVersion) {
        let mut inner = self.lock();
        if inner.seen.len() < MAX_PENDING_SEEN || inner.seen.contains_key(&key) {
            inner.seen.insert(key, version);
        }
        if inner.should_wake(Urgency::Queued) {
            self.wake.notify_one();
        }
    }

    /// Tells the writer to write what is left and stop.
    pub(crate) fn close(&self) {
        let mut inner = self.lock();
        if inner.store != Store::Closed {
            inner.store = Store::Closing;
        }
        drop(inner);
        self.slots.close();
        self.wake.notify_one();
    }

    /// Whether the writer was told to stop.
    pub(crate) fn is_closing(&self) -> bool {
        matches!(self.lock().store, Store::Closing | Store::Closed)
    }

    /// For the writer: the next group, or `None` when everything is written and it should stop.
    pub(crate) async fn take(&self, max: usize, linger: Duration) -> Option<Taken> {
        let mut lingered = false;
        loop {
            let waits = {
                let mut inner = self.lock();
                let empty = inner.messages.is_empty() && inner.seen.is_empty();
                let closing = matches!(inner.store, Store::Closing | Store::Closed);
                if empty && closing {
                    inner.store = Store::Closed;
                    return None;
                }
                if empty {
                    inner.writer = Writer::Idle;
                } else if inner.urgent || closing || lingered || inner.messages.len() >= max {
                    inner.writer = Writer::Busy;
                    return Some(inner.take(max));
                } else {
                    inner.writer = Writer::Lingering;
                }
                inner.writer
            };
            match waits {
                Writer::Idle => self.wake.notified().await,
                Writer::Lingering | Writer::Busy => {
                    // Running out is the ordinary case: nobody was in a hurry.
                    let _ = tokio::time::timeout(linger, self.wake.notified()).await;
                    lingered = true;
                }
            }
        }
    }

    /// For the writer: gives back the room of written appends and the places of ended calls.
    pub(crate) fn release(&self, appends: usize, calls: usize) {
        self.room.add_permits(appends);
        self.slots.add_permits(calls);
    }

    /// For the writer: the store takes nothing now. Everybody who waits is told.
    pub(crate) fn fail(&self, reason: &str) {
        let mut inner = self.lock();
        if inner.store == Store::Ready {
            inner.store = Store::Failed(reason.to_owned());
        }
        let mut waiters = Vec::new();
        let mut jobs = Vec::new();
        for message in std::mem::take(&mut inner.messages) {
            match message {
                Message::Append {
                    handle,
                    mut events,
                    waiter,
                } => {
                    waiters.extend(waiter);
                    // Whoever waited for a start is told that there is none, so it must not use
                    // up later what it rests on.
                    if let Some(start) = events.iter().position(is_claim) {
                        events.truncate(start);
                    }
                    inner.messages.push(Message::Append {
                        handle,
                        events,
                        waiter: None,
                    });
                }
                Message::Change { job } => jobs.push(job),
                Message::Flush { waiter } => waiters.push(waiter),
                kept
                @ (Message::Open { .. } | Message::Settle { .. } | Message::Abandon { .. }) => {
                    inner.messages.push(kept);
                }
            }
        }
        drop(inner);
        self.room.add_permits(jobs.len());
        for job in jobs {
            job.fail(unavailable(reason));
        }
        for waiter in waiters {
            let _ = waiter.send(Err(unavailable(reason)));
        }
    }

    /// For the writer: the store takes appends again.
    pub(crate) fn recover(&self) {
        let mut inner = self.lock();
        if matches!(inner.store, Store::Failed(_)) {
            inner.store = Store::Ready;
        }
    }

    /// For the writer: it has stopped for good.
    pub(crate) fn stopped(&self) {
        self.fail("it is closed");
        self.lock().store = Store::Closed;
        self.slots.close();
        self.room.close();
    }

    async fn room(&self) -> Result<SemaphorePermit<'_>, LedgerError> {
        match self.room.try_acquire() {
            Ok(room) => Ok(room),
            Err(_) => match tokio::time::timeout(APPEND_WAIT, self.room.acquire()).await {
                Ok(Ok(room)) => Ok(room),
                Ok(Err(_)) => Err(unavailable("it is closed")),
                Err(_) => Err(unavailable("it does not keep up")),
            },
        }
    }

    fn push(&self, message: Message, urgency: Urgency) {
        let mut inner = self.lock();
        if inner.store == Store::Closed {
            // The next start settles what is left open.
            return;
        }
        inner.messages.push(message);
        let wake = inner.should_wake(urgency);
        drop(inner);
        if wake {
            self.wake.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics while it is held, and the data would be whole if something did.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn accepts(&self) -> Result<(), LedgerError> {
        match &self.store {
            Store::Ready => Ok(()),
            Store::Failed(reason) => Err(unavailable(reason)),
            Store::Closing | Store::Closed => Err(unavailable("it is closed")),
        }
    }

    fn is_drained(&self) -> bool {
        self.messages.is_empty() && self.seen.is_empty() && self.writer == Writer::Idle
    }

    fn should_wake(&mut self, urgency: Urgency) -> bool {
        self.urgent |= urgency == Urgency::Now;
        match self.writer {
            Writer::Idle => true,
            Writer::Lingering => urgency == Urgency::Now,
            Writer::Busy => false,
        }
    }

    fn take(&mut self, max: usize) -> Taken {
        let messages = if self.messages.len() <= max {
            self.urgent = false;
            std::mem::take(&mut self.messages)
        } else {
            self.messages.drain(..max).collect()
        };
        Taken {
            messages,
            seen: std::mem::take(&mut self.seen),
        }
    }
}

async fn wait(durable: oneshot::Receiver<Result<(), LedgerError>>) -> Result<(), LedgerError> {
    durable
        .await
        .unwrap_or_else(|_| Err(unavailable("its writer has stopped")))
}

/// The record cannot be written.
pub(crate) fn unavailable(reason: &str) -> LedgerError {
    LedgerError::new(
        LedgerErrorKind::Unavailable,
        format!("the record cannot be written: {reason}"),
    )
}
