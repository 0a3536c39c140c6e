//! The write queue. Callers push and continue; the single writer takes everything available.
//!
//! Room for a call's end is reserved when it is opened, so a settlement is never refused. The queue
//! is bounded in number and in bytes: when it is full, opening a call waits as long as the store
//! makes progress. This part of the ledger is on the call path: it encodes a request, because a copy
//! of it would take longer, and leaves everything else to the writer.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use haft_contract::{
    CallRequest,
    event::RecordedEvent,
    host::{Epoch, LedgerError, LedgerErrorKind, Timestamp},
    ops::FileVersion,
};
use tokio::{
    sync::{Notify, Semaphore, SemaphorePermit, oneshot},
    time::timeout,
};

use crate::{
    change::{Change, job},
    encoded_request::EncodedRequest,
    message::{CallHolder, Handle, Message, SeenKey, is_checked_start},
    open_call::OpenCall,
    options::{APPEND_WAIT, LedgerOptions, MAX_BATCH_BYTES},
    space::{NoSpace, Space},
    weight,
    write_batch::WriteBatch,
};

/// The most file versions that wait to be written. Beyond this they are kept only in memory; after
/// a restart such a file counts as not seen, which is the safe answer.
const MAX_PENDING_SEEN: usize = 16_384;

/// How many messages the queue has room for when it is empty.
const USUAL_MESSAGES: usize = 1_024;

/// Why a call is not opened when too many are open.
const TOO_MANY: &str = "too many calls are open at once; wait for some to end";

/// Why a call is not opened when the queue is full and nothing is being written.
const NOTHING_WRITTEN: &str = "its queue is full and nothing is being written; the disk does not \
                               respond, or another program has locked the record";

/// A queued message and its counted bytes.
#[derive(Debug)]
struct Queued {
    message: Message,
    bytes: usize,
}

/// How soon something must be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// With the next group.
    Queued,
    /// Now, together with whatever is queued.
    Now,
}

/// The queue between callers and the writer.
#[derive(Debug)]
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    wake: Notify,
    slots: Semaphore,
    room: Semaphore,
    space: Space,
    open_wait: Duration,
    next_handle: AtomicU64,
}

#[derive(Debug)]
struct Inner {
    messages: VecDeque<Queued>,
    /// The total bytes of the queued messages.
    bytes: usize,
    seen: HashMap<SeenKey, FileVersion>,
    urgent: bool,
    writer: Writer,
    /// Whether the writer holds events of open calls that have no row yet.
    holds_events: bool,
    store: Store,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer {
    Idle,
    Lingering,
    Busy,
}

/// Whether the store is accepting writes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Store {
    Ready,
    Failed(String),
    Closing,
    Closed,
}

impl Queue {
    pub(crate) fn new(options: &LedgerOptions) -> Self {
        Self {
            inner: Mutex::new(Inner {
                messages: VecDeque::new(),
                bytes: 0,
                seen: HashMap::new(),
                urgent: false,
                writer: Writer::Busy,
                holds_events: false,
                store: Store::Ready,
            }),
            wake: Notify::new(),
            slots: Semaphore::new(options.max_calls_in_flight.min(Semaphore::MAX_PERMITS)),
            room: Semaphore::new(options.max_queued_appends.min(Semaphore::MAX_PERMITS)),
            space: Space::new(options.max_queued_bytes),
            open_wait: options.open_wait,
            next_handle: AtomicU64::new(0),
        }
    }

    /// Opens a call and reserves room for its end.
    pub(crate) async fn open(
        &self,
        request: &CallRequest,
        at: Timestamp,
        holder: CallHolder,
    ) -> Result<Handle, LedgerError> {
        let bytes = self.space.share_of(weight::request(request));
        // One after the other: nobody holds space while waiting for an open-call slot.
        let slot = self.slot().await?;
        let space = match self.space.now(bytes) {
            Some(space) => space,
            // Boxed, as are the other waits: few calls wait, and all would hold room for it.
            None => Box::pin(self.wait_for_space(bytes)).await?,
        };
        let handle = Handle(self.next_handle.fetch_add(1, Ordering::Relaxed));
        let (call, principal) = (request.id, Arc::clone(&request.principal));
        let request = EncodedRequest::of(request);
        let mut inner = self.lock();
        inner.accepts()?;
        slot.forget();
        space.forget();
        inner.push(
            Message::Open {
                handle,
                call,
                principal,
                request,
                at,
                holder,
            },
            bytes as usize,
        );
        let wake = inner.should_wake(Urgency::Queued);
        drop(inner);
        if wake {
            self.wake.notify_one();
        }
        Ok(handle)
    }

    /// Continues a recorded call that was claimed, and reserves room for its end.
    pub(crate) async fn take_up(
        &self,
        call: OpenCall,
        epoch: Epoch,
    ) -> Result<Handle, LedgerError> {
        let slot = self.slot().await?;
        let handle = Handle(self.next_handle.fetch_add(1, Ordering::Relaxed));
        let mut inner = self.lock();
        inner.accepts()?;
        slot.forget();
        let call = Box::new(call);
        inner.push(
            Message::TakeUp {
                handle,
                call,
                epoch,
            },
            0,
        );
        Ok(handle)
    }

    /// An open-call slot.
    async fn slot(&self) -> Result<SemaphorePermit<'_>, LedgerError> {
        match self.slots.try_acquire() {
            Ok(slot) => Ok(slot),
            Err(_) => Box::pin(self.wait_for_slot()).await,
        }
    }

    /// Appends events of an open call.
    pub(crate) async fn append(
        &self,
        handle: Handle,
        events: Vec<RecordedEvent>,
        urgency: Urgency,
    ) -> Result<(), LedgerError> {
        let room = self.room().await?;
        let bytes = weight::events(&events);
        match urgency {
            Urgency::Queued => {
                room.forget();
                let append = Message::Append {
                    handle,
                    events,
                    waiter: None,
                };
                self.push(append, bytes);
                Ok(())
            }
            Urgency::Now => {
                let (waiter, durable) = oneshot::channel();
                {
                    // Refused before it is queued: the caller then denies the call, and a refused
                    // start must not be recorded later.
                    let mut inner = self.lock();
                    inner.accepts()?;
                    room.forget();
                    self.space.charge(bytes);
                    let waiter = Some(waiter);
                    inner.push(
                        Message::Append {
                            handle,
                            events,
                            waiter,
                        },
                        bytes,
                    );
                    if inner.should_wake(Urgency::Now) {
                        self.wake.notify_one();
                    }
                }
                wait(durable).await
            }
        }
    }

    /// Changes questions or grants, and returns the result once it is durable.
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
            inner.push(Message::Change { job }, 0);
            if inner.should_wake(Urgency::Now) {
                self.wake.notify_one();
            }
        }
        report
            .await
            .unwrap_or_else(|_| Err(unavailable("its writer has stopped")))
    }

    /// Appends the last events of a call, in the room reserved by [`Queue::open`].
    pub(crate) fn settle(&self, handle: Handle, events: Vec<RecordedEvent>) {
        let bytes = weight::events(&events);
        self.push(Message::Settle { handle, events }, bytes);
    }

    /// Reports that a call will never be settled by its caller.
    pub(crate) fn abandon(&self, handle: Handle) {
        self.push(Message::Abandon { handle }, 0);
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
            inner.push(Message::Flush { waiter }, 0);
            if inner.should_wake(Urgency::Now) {
                self.wake.notify_one();
            }
        }
        wait(durable).await
    }

    /// Records the version of a file that a session saw.
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
        self.space.close();
        self.wake.notify_one();
    }

    /// Whether the writer was told to stop.
    pub(crate) fn is_closing(&self) -> bool {
        matches!(self.lock().store, Store::Closing | Store::Closed)
    }

    /// For the writer: the next batch, or `None` when everything is written and it should stop.
    pub(crate) async fn take(&self, max: usize, linger: Duration) -> Option<WriteBatch> {
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
                } else if inner.urgent
                    || closing
                    || lingered
                    || inner.fills_batch(max)
                    || self.space.is_full()
                {
                    inner.writer = Writer::Busy;
                    return Some(inner.take(max, self.space.is_full()));
                } else {
                    inner.writer = Writer::Lingering;
                }
                inner.writer
            };
            match waits {
                Writer::Idle => self.wake.notified().await,
                Writer::Lingering | Writer::Busy => {
                    // A timeout is the normal case: nothing was urgent.
                    let _ = timeout(linger, self.wake.notified()).await;
                    lingered = true;
                }
            }
        }
    }

    /// For the writer, before it takes: whether it holds events that whoever flushes waits for.
    pub(crate) fn note_held_events(&self, holds_events: bool) {
        self.lock().holds_events = holds_events;
    }

    /// For the writer: a batch of nothing, because something that it holds is due.
    pub(crate) fn take_nothing(&self) -> WriteBatch {
        self.lock().writer = Writer::Busy;
        WriteBatch::default()
    }

    /// For the writer, after a transaction: releases the room of written appends, the slots of
    /// ended calls, and the space of the batch.
    pub(crate) fn release(&self, appends: usize, calls: usize, bytes: usize) {
        self.room.add_permits(appends);
        self.slots.add_permits(calls);
        self.space.give_back(bytes);
    }

    /// For the writer: the store fails for now. All waiters get the error.
    pub(crate) fn fail(&self, reason: &str) {
        let mut inner = self.lock();
        if matches!(inner.store, Store::Ready | Store::Failed(_)) {
            inner.store = Store::Failed(reason.to_owned());
        }
        let mut waiters = Vec::new();
        let mut jobs = Vec::new();
        let messages = std::mem::take(&mut inner.messages);
        for Queued { message, bytes } in messages {
            let message = match message {
                Message::Append {
                    handle,
                    mut events,
                    waiter,
                } => {
                    waiters.extend(waiter);
                    // Its waiter learns that there is no start, so the start must not use anything
                    // up later.
                    if let Some(start) = events.iter().position(is_checked_start) {
                        events.truncate(start);
                    }
                    Message::Append {
                        handle,
                        events,
                        waiter: None,
                    }
                }
                Message::Change { job } => {
                    jobs.push(job);
                    continue;
                }
                Message::Flush { waiter } => {
                    waiters.push(waiter);
                    continue;
                }
                kept @ (Message::Open { .. }
                | Message::TakeUp { .. }
                | Message::Settle { .. }
                | Message::Abandon { .. }) => kept,
            };
            inner.messages.push_back(Queued { message, bytes });
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

    /// For the writer: the store works again.
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
        self.space.close();
        self.room.close();
    }

    /// Waits for an open-call slot. Open calls may run for any length of time, so this wait is
    /// bounded whatever the store does.
    async fn wait_for_slot(&self) -> Result<SemaphorePermit<'_>, LedgerError> {
        self.hurry()?;
        match timeout(self.open_wait, self.slots.acquire()).await {
            Ok(slot) => slot.map_err(|_| unavailable("it is closed")),
            Err(_) => Err(LedgerError::new(LedgerErrorKind::LimitExceeded, TOO_MANY)),
        }
    }

    /// Waits for space, in turn, while the store makes progress.
    async fn wait_for_space(&self, bytes: u32) -> Result<SemaphorePermit<'_>, LedgerError> {
        self.hurry()?;
        match self.space.in_turn(bytes, self.open_wait).await {
            Ok(space) => Ok(space),
            Err(NoSpace::Closed) => Err(unavailable("it is closed")),
            Err(NoSpace::NothingWritten) => {
                // If the store reported an error, return that one.
                self.lock().accepts()?;
                Err(unavailable(NOTHING_WRITTEN))
            }
        }
    }

    /// Makes the writer write now: queued messages block a caller.
    fn hurry(&self) -> Result<(), LedgerError> {
        let mut inner = self.lock();
        inner.accepts()?;
        if inner.should_wake(Urgency::Now) {
            self.wake.notify_one();
        }
        Ok(())
    }

    async fn room(&self) -> Result<SemaphorePermit<'_>, LedgerError> {
        match self.room.try_acquire() {
            Ok(room) => Ok(room),
            Err(_) => match Box::pin(timeout(APPEND_WAIT, self.room.acquire())).await {
                Ok(Ok(room)) => Ok(room),
                Ok(Err(_)) => Err(unavailable("it is closed")),
                Err(_) => Err(unavailable("it does not keep up")),
            },
        }
    }

    /// Queues a message of an open call, even if there is no space.
    fn push(&self, message: Message, bytes: usize) {
        let mut inner = self.lock();
        if inner.store == Store::Closed {
            // The next start settles what is still open.
            return;
        }
        self.space.charge(bytes);
        inner.push(message, bytes);
        let wake = inner.should_wake(Urgency::Queued);
        drop(inner);
        if wake {
            self.wake.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics while the lock is held, and the data would be consistent anyway.
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
        self.messages.is_empty()
            && self.seen.is_empty()
            && self.writer == Writer::Idle
            && !self.holds_events
    }

    fn push(&mut self, message: Message, bytes: usize) {
        self.bytes += bytes;
        self.messages.push_back(Queued { message, bytes });
    }

    /// Whether the queue fills one transaction.
    fn fills_batch(&self, max: usize) -> bool {
        self.messages.len() >= max || self.bytes >= MAX_BATCH_BYTES
    }

    fn should_wake(&mut self, urgency: Urgency) -> bool {
        self.urgent |= urgency == Urgency::Now;
        match self.writer {
            Writer::Idle => true,
            // Waiting for more would only let the queue grow.
            Writer::Lingering => urgency == Urgency::Now || self.bytes >= MAX_BATCH_BYTES,
            Writer::Busy => false,
        }
    }

    /// The oldest messages, as many as fit in one transaction, but at least one.
    fn take(&mut self, max: usize, is_full: bool) -> WriteBatch {
        let mut taken = WriteBatch {
            messages: Vec::with_capacity(self.messages.len().min(max)),
            seen: std::mem::take(&mut self.seen),
            is_full,
        };
        let mut taken_bytes = 0;
        while taken.messages.len() < max
            && taken_bytes < MAX_BATCH_BYTES
            && let Some(Queued { message, bytes }) = self.messages.pop_front()
        {
            taken.messages.push((message, bytes));
            taken_bytes += bytes;
        }
        self.bytes -= taken_bytes;
        if self.messages.is_empty() {
            self.urgent = false;
            // Frees the memory of its largest size, except what it takes again at once.
            self.messages.shrink_to(USUAL_MESSAGES);
        }
        taken
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

#[cfg(test)]
mod tests;
