//! Folds queued messages into the events of open calls, before any transaction begins: encoding and
//! redaction are slow, and other processes wait for a transaction's lock.
//!
//! A call's events stay here until they are due: when it ends, when somebody waits for them, or when
//! it has been open for a while. A call that ends soon is then one row. Nothing is written here;
//! `write.rs` writes what is due.

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use haft_contract::{
    CallEvent, Principal, ProviderId, TenantId, Terminal, UserId,
    event::RecordedEvent,
    host::{ApprovalId, LedgerError},
    ops::FileVersion,
};
use tokio::time::Instant;

use super::{
    checked_start::{CheckedStart, Refusal, rests_on},
    write::CommitReport,
};
use crate::{
    accepted::superseded_claim,
    body::{self, Events},
    change::{Job, conflict},
    convert,
    left_open::interrupted,
    listed::SETTLED_LATE,
    message::{CallHolder, Handle, Message, SeenKey, Waiter, is_checked_start},
    open_call::{CallInStore, CallState, OpenCall},
    options::MAX_BATCH_BYTES,
    queue::unavailable,
    redact::Redactor,
    store::Lock,
    used_marks::UsedMarks,
    write_batch::WriteBatch,
};

/// What a transaction does before it writes rows, in the order requested.
#[derive(Debug)]
pub(crate) enum Step {
    /// A change to questions or grants.
    Change(Box<dyn Job>),
    /// A start that uses up what it depends on.
    Start(Box<CheckedStart>),
}

/// The contents of the next transaction. Kept until it is committed, so that a failed one is
/// repeated.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// The calls whose events are written, in order, each once.
    pub(crate) due: Vec<Handle>,
    pub(crate) seen: HashMap<SeenKey, FileVersion>,
    pub(crate) steps: Vec<Step>,
    /// Questions whose state the last attempt changed.
    pub(crate) woken: Vec<ApprovalId>,
    /// People whose grants the last attempt changed.
    pub(crate) grants_changed: Vec<(TenantId, UserId)>,
    /// Waiters for the commit.
    pub(crate) waiters: Vec<Waiter>,
    /// How many appends to release.
    pub(crate) appends: usize,
}

/// What a commit gives back to the queue.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Released {
    pub(crate) ended: usize,
    pub(crate) bytes: usize,
}

/// The calls this process has open, as folded so far.
#[derive(Debug)]
pub(crate) struct OpenCalls {
    redactor: Arc<Redactor>,
    calls: HashMap<Handle, OpenCall>,
    /// Calls with events that have no row, by when they got the first of those. Some have been
    /// written since.
    waiting: VecDeque<(Instant, Handle)>,
    /// How long such events stay here.
    open_linger: Duration,
    /// How many bytes of events have no row.
    unwritten: usize,
    starts: u64,
}

impl OpenCalls {
    pub(crate) fn new(redactor: Arc<Redactor>, open_linger: Duration) -> Self {
        Self {
            redactor,
            calls: HashMap::new(),
            waiting: VecDeque::new(),
            open_linger,
            unwritten: 0,
            starts: 0,
        }
    }

    pub(crate) fn get(&self, handle: Handle) -> Option<&OpenCall> {
        self.calls.get(&handle)
    }

    /// Whether there are events without a row.
    pub(crate) fn holds_events(&self) -> bool {
        self.unwritten > 0
    }

    /// When the next events are due, if no message comes before.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let (since, _) = self.waiting.front()?;
        Some(*since + self.open_linger)
    }

    /// Folds a batch from the queue.
    pub(crate) fn fold(&mut self, taken: WriteBatch) -> Pending {
        let mut pending = Pending {
            seen: taken.seen,
            ..Pending::default()
        };
        let now = Instant::now();
        let mut due = DueCalls::default();
        for (message, bytes) in taken.messages {
            match message {
                Message::Open {
                    handle,
                    call,
                    principal,
                    request,
                    at,
                    holder,
                } => {
                    let mut call = OpenCall {
                        id: call,
                        principal,
                        holder,
                        stored: CallInStore::Nothing,
                        left_by: None,
                        state: CallState::new(at),
                        events: Events::default(),
                        bytes: 0,
                    };
                    request.add_to(&mut call.events, at, &self.redactor);
                    self.calls.insert(handle, call);
                    self.grew(handle, 0, bytes, now);
                }
                Message::TakeUp {
                    handle,
                    call,
                    epoch,
                } => {
                    let mut call = *call;
                    call.holder = CallHolder::Claim(epoch);
                    self.calls.insert(handle, call);
                }
                Message::Append {
                    handle,
                    events,
                    waiter,
                } => {
                    pending.appends += 1;
                    if waiter.is_some() || events.iter().any(is_wanted_soon) {
                        due.add(handle);
                    }
                    let waits = self.absorb(handle, &events, bytes, waiter, &mut pending);
                    pending.waiters.extend(waits);
                }
                Message::Change { mut job } => {
                    pending.appends += 1;
                    job.prepare(&self.redactor);
                    pending.steps.push(Step::Change(job));
                }
                Message::Settle { handle, events } => {
                    self.absorb_last(handle, &events, bytes, &mut pending);
                    // A settlement without an outcome still ends the call.
                    self.end(handle);
                    due.add(handle);
                }
                Message::Abandon { handle } => {
                    self.end(handle);
                    due.add(handle);
                }
                Message::Flush { waiter } => {
                    pending.waiters.push(waiter);
                    for (_, handle) in std::mem::take(&mut self.waiting) {
                        if self.place(handle) > 0 {
                            due.add(handle);
                        }
                    }
                }
            }
        }
        let changes = pending
            .steps
            .iter()
            .any(|step| matches!(step, Step::Change(job) if job.is_about_calls()));
        let all = changes || taken.is_full || self.unwritten > MAX_BATCH_BYTES;
        while all || self.next_due().is_some_and(|due| due <= now) {
            let Some((_, handle)) = self.waiting.pop_front() else {
                break;
            };
            if self.place(handle) > 0 {
                due.add(handle);
            }
        }
        pending.due = due.handles;
        pending
    }

    /// Adopts a call that another process left open; it is settled at once.
    pub(crate) fn settle_adopted(&mut self, handle: Handle, call: OpenCall, pending: &mut Pending) {
        self.calls.insert(handle, call);
        self.end(handle);
        pending.due.push(handle);
    }

    /// Applies the results of a committed transaction.
    pub(crate) fn committed(&mut self, pending: &Pending, committed: &CommitReport) -> Released {
        for (handle, stored) in &committed.stored {
            if let Some(call) = self.calls.get_mut(handle) {
                call.stored = *stored;
                call.state.approval = None;
            }
        }
        let mut released = Released::default();
        for handle in &pending.due {
            let Some(call) = self.calls.get_mut(handle) else {
                continue;
            };
            self.unwritten = self.unwritten.saturating_sub(call.events.len());
            call.events = Events::default();
            released.bytes += std::mem::take(&mut call.bytes);
            // A call that was only accepted continues with its claimant.
            if call.state.settled.is_some() || call.holder == CallHolder::Nobody {
                self.calls.remove(handle);
                released.ended += 1;
            }
        }
        released
    }

    /// A call gets no further rows. How it ended under a superseded claim is kept as evidence.
    pub(crate) fn refuse(&mut self, handle: Handle) {
        let Some(call) = self.calls.get_mut(&handle) else {
            return;
        };
        call.stored = CallInStore::Refused;
        let (form, body) = call.events.body();
        let events = body::events(form.number(), call.events.at(), &body).unwrap_or_default();
        self.unwritten = self.unwritten.saturating_sub(call.events.len());
        call.events = Events::default();
        let settled = events.into_iter().find(|event| event.kind == "settled");
        if let Some(settled) = settled
            && call.holder.claim().is_some()
        {
            call.events.push(SETTLED_LATE, settled.at, |bytes| {
                bytes.extend_from_slice(settled.body.to_string().as_bytes());
            });
            self.unwritten += call.events.len();
        }
    }

    /// Folds in an append. Returns the waiter unless the start answers it.
    fn absorb(
        &mut self,
        handle: Handle,
        events: &[RecordedEvent],
        bytes: usize,
        waiter: Option<Waiter>,
        pending: &mut Pending,
    ) -> Option<Waiter> {
        let Some(start) = self.first_start(handle, events) else {
            self.absorb_plain(handle, events, bytes);
            return waiter;
        };
        let (before, from_start) = events.split_at(start);
        self.absorb_plain(handle, before, bytes);
        match self.checked_start(handle, from_start, Refusal::NotRecorded(waiter)) {
            Ok(mut start) => {
                let from = self.place(handle);
                self.absorb_plain(handle, from_start, 0);
                start.range = (from, self.place(handle));
                pending.steps.push(Step::Start(Box::new(start)));
                None
            }
            Err(Refusal::NotRecorded(Some(waiter))) => {
                // The call has ended, or is held by somebody else: nothing may start with it.
                let claim = self.calls.get(&handle).and_then(|call| call.holder.claim());
                let error = claim.map_or_else(|| conflict("the call is over"), superseded_claim);
                let _ = waiter.send(Err(error));
                None
            }
            Err(Refusal::NotRecorded(None) | Refusal::TooLate) => None,
        }
    }

    /// Folds in the last events of a call. A start among them has already happened, whatever it
    /// depends on.
    fn absorb_last(
        &mut self,
        handle: Handle,
        events: &[RecordedEvent],
        bytes: usize,
        pending: &mut Pending,
    ) {
        if let Some(start) = self.first_start(handle, events)
            && let Some(from_start) = events.get(start..)
            && let Ok(start) = self.checked_start(handle, from_start, Refusal::TooLate)
        {
            pending.steps.push(Step::Start(Box::new(start)));
        }
        self.absorb_plain(handle, events, bytes);
    }

    /// The index of a start among these events that must be checked. Every start of a claimed call
    /// depends on the claim.
    fn first_start(&self, handle: Handle, events: &[RecordedEvent]) -> Option<usize> {
        let claimed = self
            .calls
            .get(&handle)
            .is_some_and(|call| call.holder.claim().is_some());
        events.iter().position(|happened| {
            is_checked_start(happened)
                || claimed && matches!(happened.event, CallEvent::Started { .. })
        })
    }

    /// What a start at the beginning of these events depends on; returns the refusal if its call
    /// takes no more events.
    fn checked_start(
        &mut self,
        handle: Handle,
        from_start: &[RecordedEvent],
        refusal: Refusal,
    ) -> Result<CheckedStart, Refusal> {
        let call = self
            .calls
            .get(&handle)
            .filter(|call| call.stored != CallInStore::Refused && call.state.settled.is_none());
        let (Some(call), Some(start)) = (call, from_start.first()) else {
            return Err(refusal);
        };
        self.starts += 1;
        let tool = call.state.tool.as_ref();
        let provider = tool.map(|tool| &tool.provider);
        // Built-in tools do not count as used by a session (`providers.rs`).
        let provider = provider.filter(|provider| **provider != ProviderId::builtin());
        Ok(CheckedStart {
            handle,
            call: call.id,
            principal: Arc::clone(&call.principal),
            rests_on: rests_on(start),
            claim: call.holder.claim(),
            at: start.at,
            provider: provider.map(|provider| provider.as_str().to_owned()),
            is_new_provider: false,
            before: call.state.clone(),
            range: (0, 0),
            number: self.starts,
            refusal,
        })
    }

    fn absorb_plain(&mut self, handle: Handle, events: &[RecordedEvent], bytes: usize) {
        let Some(call) = self.calls.get_mut(&handle) else {
            return;
        };
        let before = call.events.len();
        for happened in events {
            // Nothing follows a settlement.
            if call.state.settled.is_some() {
                break;
            }
            let is_late = call.stored == CallInStore::Refused;
            let ends = matches!(happened.event, CallEvent::Settled { .. });
            // How a call ended under a superseded claim is kept as evidence.
            if is_late && !(ends && call.holder.claim().is_some()) {
                continue;
            }
            let kind = if is_late {
                SETTLED_LATE
            } else {
                happened.event.kind()
            };
            convert::event(&mut call.events, kind, happened, &self.redactor);
            call.state.absorb(happened);
        }
        self.grew(handle, before, bytes, Instant::now());
    }

    /// Counts events that were added, and notes since when the call has some.
    fn grew(&mut self, handle: Handle, before: usize, bytes: usize, now: Instant) {
        let Some(call) = self.calls.get_mut(&handle) else {
            return;
        };
        call.bytes += bytes;
        let after = call.events.len();
        self.unwritten += after.saturating_sub(before);
        if before == 0 && after > 0 {
            self.waiting.push_back((now, handle));
        }
    }

    fn place(&self, handle: Handle) -> usize {
        self.calls.get(&handle).map_or(0, |call| call.events.len())
    }

    fn end(&mut self, handle: Handle) {
        let Some(call) = self.calls.get_mut(&handle) else {
            return;
        };
        if call.state.settled.is_some() {
            return;
        }
        if call.stored == CallInStore::Refused {
            // The call belongs to somebody else; only its slot is released.
            call.state.settled = Some(Terminal::Unknown);
            return;
        }
        let settled = RecordedEvent {
            call: call.id,
            at: call.state.last,
            event: CallEvent::Settled {
                outcome: Arc::new(interrupted(call.id, call.state.started)),
            },
        };
        self.absorb_plain(handle, &[settled], 0);
    }
}

/// Whether it belongs into the next transaction: people look at what they are asked about at once,
/// from another process, and undoing needs what was kept of a file that is about to change.
fn is_wanted_soon(happened: &RecordedEvent) -> bool {
    matches!(
        happened.event,
        CallEvent::ApprovalAsked { .. }
            | CallEvent::PreimageKept { .. }
            | CallEvent::FileChanged { .. }
            | CallEvent::RowsChanged { .. }
    )
}

/// Handles in the order they became due, each once.
#[derive(Default)]
struct DueCalls {
    handles: Vec<Handle>,
    known: HashSet<Handle>,
}

impl DueCalls {
    fn add(&mut self, handle: Handle) {
        if self.known.insert(handle) {
            self.handles.push(handle);
        }
    }
}

impl Pending {
    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.due.is_empty() && self.seen.is_empty() && self.steps.is_empty()
    }

    /// What the transaction must hold, in the order in which everybody takes it.
    pub(crate) fn locks(&self) -> BTreeSet<Lock> {
        let locks = self.steps.iter().filter_map(|step| match step {
            Step::Change(job) => job.lock(),
            Step::Start(start) => start.rests_on.approval.map(|_| Lock::Answers),
        });
        locks.collect()
    }

    /// Removes refused starts, and notifies their waiters.
    pub(crate) fn refuse(&mut self, open: &mut OpenCalls, refused: Vec<(u64, LedgerError)>) {
        // Newest first: taking out a newer start does not move an older one.
        for (number, error) in refused.into_iter().rev() {
            let is_refused =
                |step: &mut Step| matches!(step, Step::Start(start) if start.number == number);
            for step in self.steps.extract_if(.., is_refused) {
                if let Step::Start(start) = step {
                    void(start, error.clone(), open);
                }
            }
        }
    }

    /// Starts of calls that get no rows: they must not happen.
    pub(crate) fn starts_of(&self, refused: &[Handle]) -> Vec<(u64, LedgerError)> {
        let starts = self.steps.iter().filter_map(|step| match step {
            Step::Start(start) if refused.contains(&start.handle) => Some(start),
            Step::Start(_) | Step::Change(_) => None,
        });
        starts
            .filter(|start| matches!(start.refusal, Refusal::NotRecorded(_)))
            .map(|start| {
                let error = start
                    .claim
                    .map_or_else(|| conflict("the call is over"), superseded_claim);
                (start.number, error)
            })
            .collect()
    }

    /// After a failure: drops changes, and starts that depend on something, and notifies their
    /// waiters. Everything else is written once the store works again.
    pub(crate) fn fail(&mut self, open: &mut OpenCalls, error: &LedgerError) {
        for waiter in self.waiters.drain(..) {
            let _ = waiter.send(Err(error.clone()));
        }
        for step in std::mem::take(&mut self.steps).into_iter().rev() {
            match step {
                Step::Change(job) => job.fail(error.clone()),
                Step::Start(start) => match start.refusal {
                    Refusal::NotRecorded(_) => void(start, error.clone(), open),
                    Refusal::TooLate => self.steps.push(Step::Start(start)),
                },
            }
        }
    }

    /// Whether it changed a question or a grant.
    pub(crate) fn changed_answers(&self) -> bool {
        self.steps.iter().any(|step| match step {
            Step::Change(_) => true,
            Step::Start(start) => start.rests_on.uses_up(),
        })
    }

    /// Changes the mark of sessions that used one more provider, so that every process reads the
    /// record again. If others cannot be notified, the start is recorded but must not be used.
    pub(crate) fn mark_used(&mut self, marks: &UsedMarks) {
        for step in &mut self.steps {
            let Step::Start(start) = step else { continue };
            let Principal {
                tenant, session, ..
            } = &*start.principal;
            if start.is_new_provider
                && let Err(error) = marks.change(tenant, session)
            {
                tracing::error!(%error, "other processes cannot be told what a session has read");
                if let Refusal::NotRecorded(waiter) = &mut start.refusal
                    && let Some(waiter) = waiter.take()
                {
                    let why = "other processes cannot be told what the session reads from";
                    let _ = waiter.send(Err(unavailable(why)));
                }
            }
        }
    }

    /// Notifies all waiters that it is durable.
    pub(crate) fn report(&mut self) {
        for waiter in self.waiters.drain(..) {
            // An error only means that nobody waits any more.
            let _ = waiter.send(Ok(()));
        }
        for step in self.steps.drain(..) {
            match step {
                Step::Change(job) => job.report(),
                Step::Start(start) => {
                    if let Refusal::NotRecorded(Some(waiter)) = start.refusal {
                        let _ = waiter.send(Ok(()));
                    }
                }
            }
        }
    }
}

/// Removes a start from its call's events, with what followed it in its append. What was recorded
/// since stays.
fn void(start: Box<CheckedStart>, error: LedgerError, open: &mut OpenCalls) {
    let CheckedStart {
        handle,
        before,
        range: (from, to),
        refusal,
        ..
    } = *start;
    if let Some(call) = open.calls.get_mut(&handle) {
        let length = call.events.len();
        call.events.remove(from, to);
        open.unwritten = open.unwritten.saturating_sub(length - call.events.len());
        call.state.started = before.started;
        call.state.approval = before.approval;
    }
    if let Refusal::NotRecorded(Some(waiter)) = refusal {
        // An error only means that nobody waits any more.
        let _ = waiter.send(Err(error));
    }
}
