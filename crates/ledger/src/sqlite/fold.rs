//! Folds queued messages into drafts and records, before any transaction begins: conversion and
//! redaction are slow, and other processes wait for a transaction's lock.
//!
//! Nothing is written here. `write.rs` writes a [`Pending`]; it is kept until that succeeds.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use haft_contract::{
    CallEvent, CallId, Principal, ProviderId, TenantId, Terminal,
    event::RecordedEvent,
    host::{ApprovalId, LedgerError, Timestamp},
    ops::FileVersion,
};

use super::{
    accepted::superseded_claim,
    change::Job,
    checked_start::{CheckedStart, Refusal, conflict, is_checked_start, rests_on},
    recover::interrupted,
    write::CommitReport,
};
use crate::{
    convert,
    draft::CallDraft,
    message::{CallHolder, Handle, Message, SeenKey, Waiter},
    queue::{WriteBatch, unavailable},
    redact::Redactor,
    used_marks::UsedMarks,
};

/// How a call ended under a claim that was superseded by then. It is not the outcome.
pub(super) const SETTLED_LATE: &str = "settled_late";

/// One record, ready to be chained.
#[derive(Debug)]
pub(crate) struct Record {
    pub(super) handle: Handle,
    pub(super) tenant: TenantId,
    pub(super) call: CallId,
    pub(super) at: Timestamp,
    pub(super) kind: &'static str,
    pub(super) body: Arc<str>,
    /// The checked start it follows, if any: it is only written together with that.
    pub(super) start: Option<u64>,
}

/// What a transaction does before it writes records, in the order requested.
#[derive(Debug)]
pub(crate) enum Step {
    /// A change to questions or grants.
    Change(Box<dyn Job>),
    /// A start that uses up what it depends on.
    Start(CheckedStart),
}

/// The contents of the next transaction. Kept until it is committed, so that a failed one is
/// repeated.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    pub(super) touched: Vec<Handle>,
    pub(super) records: Vec<Record>,
    pub(super) seen: HashMap<SeenKey, FileVersion>,
    pub(super) steps: Vec<Step>,
    /// Questions whose state the last attempt changed.
    pub(super) woken: Vec<ApprovalId>,
    /// Waiters for the commit.
    pub(crate) waiters: Vec<Waiter>,
    /// How many appends to release.
    pub(crate) appends: usize,
    /// How many bytes to release.
    pub(crate) bytes: usize,
}

/// A call this process has open.
#[derive(Debug)]
pub(super) struct OpenDraft {
    pub(super) draft: CallDraft,
    pub(super) stored: CallInStore,
    pub(super) holder: CallHolder,
}

/// What the store has for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallInStore {
    /// Nothing yet.
    Nothing,
    /// Its row.
    Row { position: i64 },
    /// Its id was taken, or somebody already settled it: it gets no further records.
    Refused,
}

/// The calls this process has open, as folded so far.
#[derive(Debug)]
pub(crate) struct Folder {
    redactor: Arc<Redactor>,
    pub(super) open: HashMap<Handle, OpenDraft>,
    starts: u64,
}

impl Folder {
    pub(crate) fn new(redactor: Arc<Redactor>) -> Self {
        Self {
            redactor,
            open: HashMap::new(),
            starts: 0,
        }
    }

    /// Folds a batch from the queue.
    pub(crate) fn fold(&mut self, taken: WriteBatch) -> Pending {
        let mut pending = Pending {
            seen: taken.seen,
            bytes: taken.bytes,
            ..Pending::default()
        };
        let mut touched = HashSet::new();
        for message in taken.messages {
            let handle = match message {
                Message::Open {
                    handle,
                    request,
                    at,
                    holder,
                } => {
                    let body = convert::opened(&request, &self.redactor);
                    let mut draft = CallDraft::new(&request, &body.value, at);
                    draft.redacted = body.redacted;
                    pending.records.push(Record {
                        handle,
                        tenant: draft.principal.tenant.clone(),
                        call: draft.id,
                        at,
                        kind: "opened",
                        body: body.text.into(),
                        start: None,
                    });
                    let stored = CallInStore::Nothing;
                    let open = OpenDraft {
                        draft,
                        stored,
                        holder,
                    };
                    self.open.insert(handle, open);
                    handle
                }
                Message::TakeUp {
                    handle,
                    draft,
                    position,
                    epoch,
                } => {
                    let open = OpenDraft {
                        draft: *draft,
                        stored: CallInStore::Row { position },
                        holder: CallHolder::Claim(epoch),
                    };
                    self.open.insert(handle, open);
                    continue;
                }
                Message::Append {
                    handle,
                    events,
                    waiter,
                } => {
                    pending.appends += 1;
                    let waits = self.absorb(handle, &events, waiter, &mut pending);
                    pending.waiters.extend(waits);
                    handle
                }
                Message::Change { mut job } => {
                    pending.appends += 1;
                    job.prepare(&self.redactor);
                    pending.steps.push(Step::Change(job));
                    continue;
                }
                Message::Settle { handle, events } => {
                    self.absorb_last(handle, &events, &mut pending);
                    // A settlement without an outcome still ends the call.
                    self.end(handle, &mut pending);
                    handle
                }
                Message::Abandon { handle } => {
                    self.end(handle, &mut pending);
                    handle
                }
                Message::Flush { waiter } => {
                    pending.waiters.push(waiter);
                    continue;
                }
            };
            if touched.insert(handle) {
                pending.touched.push(handle);
            }
        }
        pending
    }

    /// Adopts a call that another process left open.
    pub(crate) fn adopt(&mut self, handle: Handle, draft: CallDraft, position: i64) {
        let open = OpenDraft {
            draft,
            stored: CallInStore::Row { position },
            holder: CallHolder::ThisProcess,
        };
        self.open.insert(handle, open);
    }

    /// Applies the results of a committed transaction; returns how many calls ended with it.
    pub(crate) fn committed(&mut self, pending: &Pending, committed: &CommitReport) -> usize {
        for (handle, stored) in &committed.stored {
            if let Some(open) = self.open.get_mut(handle) {
                open.stored = *stored;
            }
        }
        let mut ended = 0;
        for handle in &pending.touched {
            // A call that was only accepted continues with its claimant.
            if self.open.get(handle).is_some_and(|open| {
                open.draft.listed.settled.is_some() || open.holder == CallHolder::Nobody
            }) {
                self.open.remove(handle);
                ended += 1;
            }
        }
        ended
    }

    /// Folds in an append. Returns the waiter unless the start answers it.
    fn absorb(
        &mut self,
        handle: Handle,
        events: &[RecordedEvent],
        waiter: Option<Waiter>,
        pending: &mut Pending,
    ) -> Option<Waiter> {
        let Some(start) = self.first_start(handle, events) else {
            self.absorb_plain(handle, events, None, pending);
            return waiter;
        };
        let (before, from_start) = events.split_at(start);
        self.absorb_plain(handle, before, None, pending);
        match self.checked_start(handle, from_start, Refusal::NotRecorded(waiter)) {
            Ok(start) => {
                self.absorb_plain(handle, from_start, Some(start.number), pending);
                pending.steps.push(Step::Start(start));
                None
            }
            Err(Refusal::NotRecorded(Some(waiter))) => {
                // The call has ended, or is held by somebody else: nothing may start with it.
                let claim = self.open.get(&handle).and_then(|open| open.holder.claim());
                let error = claim.map_or_else(|| conflict("the call is over"), superseded_claim);
                let _ = waiter.send(Err(error));
                None
            }
            Err(Refusal::NotRecorded(None) | Refusal::TooLate) => None,
        }
    }

    /// Folds in the last events of a call. A start among them has already happened, whatever it
    /// depends on.
    fn absorb_last(&mut self, handle: Handle, events: &[RecordedEvent], pending: &mut Pending) {
        if let Some(start) = self.first_start(handle, events)
            && let Some(from_start) = events.get(start..)
            && let Ok(start) = self.checked_start(handle, from_start, Refusal::TooLate)
        {
            pending.steps.push(Step::Start(start));
        }
        self.absorb_plain(handle, events, None, pending);
    }

    /// The index of a start among these events that must be checked. Every start of a claimed call
    /// depends on the claim.
    fn first_start(&self, handle: Handle, events: &[RecordedEvent]) -> Option<usize> {
        let claimed = self
            .open
            .get(&handle)
            .is_some_and(|open| open.holder.claim().is_some());
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
        let open = self.open.get(&handle).filter(|open| {
            open.stored != CallInStore::Refused && open.draft.listed.settled.is_none()
        });
        let (Some(open), Some(start)) = (open, from_start.first()) else {
            return Err(refusal);
        };
        self.starts += 1;
        let tool = open.draft.listed.tool.as_deref();
        let provider = tool.and_then(|tool| tool.split_once('/'));
        // Built-in tools do not count as used by a session (`read::providers_used`).
        let provider = provider.filter(|(provider, _)| *provider != ProviderId::builtin().as_str());
        Ok(CheckedStart {
            handle,
            rests_on: rests_on(start),
            claim: open.holder.claim(),
            at: start.at,
            provider: provider.map(|(provider, _)| provider.to_owned()),
            is_new_provider: false,
            before: Box::new(open.draft.clone()),
            number: self.starts,
            refusal,
        })
    }

    fn absorb_plain(
        &mut self,
        handle: Handle,
        events: &[RecordedEvent],
        start: Option<u64>,
        pending: &mut Pending,
    ) {
        let Some(open) = self.open.get_mut(&handle) else {
            return;
        };
        for happened in events {
            // Nothing follows a settlement.
            if open.draft.listed.settled.is_some() {
                return;
            }
            let is_late = open.stored == CallInStore::Refused;
            let ends = matches!(happened.event, CallEvent::Settled { .. });
            // How a call ended under a superseded claim is kept as evidence.
            if is_late && !(ends && open.holder.claim().is_some()) {
                continue;
            }
            let Some(body) = convert::event(&happened.event, &self.redactor) else {
                continue;
            };
            let kind = if is_late {
                SETTLED_LATE
            } else {
                happened.event.kind()
            };
            open.draft.absorb(kind, happened.at, &body.value);
            pending.records.push(Record {
                handle,
                tenant: open.draft.principal.tenant.clone(),
                call: open.draft.id,
                at: happened.at,
                kind,
                body: body.text.into(),
                start,
            });
        }
    }

    fn end(&mut self, handle: Handle, pending: &mut Pending) {
        let Some(open) = self.open.get_mut(&handle) else {
            return;
        };
        if open.stored == CallInStore::Refused {
            // The call belongs to somebody else; only its slot is released.
            open.draft.listed.settled = Some((Terminal::Unknown, open.draft.last));
            return;
        }
        if open.draft.listed.settled.is_none() {
            let settled = RecordedEvent {
                call: open.draft.id,
                at: open.draft.last,
                event: CallEvent::Settled {
                    outcome: Arc::new(interrupted(&open.draft)),
                },
            };
            self.absorb_plain(handle, &[settled], None, pending);
        }
    }
}

impl Pending {
    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.touched.is_empty()
            && self.records.is_empty()
            && self.seen.is_empty()
            && self.steps.is_empty()
    }

    /// Starts of calls that get no records: they must not happen.
    pub(super) fn starts_of_refused(
        &self,
        stored: &[(Handle, CallInStore)],
    ) -> impl Iterator<Item = (u64, LedgerError)> {
        let starts = self.steps.iter().filter_map(|step| match step {
            Step::Start(start) => Some(start),
            Step::Change(_) => None,
        });
        starts.filter_map(|start| {
            let refused = stored.contains(&(start.handle, CallInStore::Refused))
                && matches!(start.refusal, Refusal::NotRecorded(_));
            refused.then(|| (start.number, conflict("the call is over")))
        })
    }

    /// Removes refused starts, and notifies their waiters.
    pub(crate) fn refuse(&mut self, folder: &mut Folder, refused: Vec<(u64, LedgerError)>) {
        // Newest first: an older start's draft does not include a newer one.
        for (number, error) in refused.into_iter().rev() {
            let is_refused =
                |step: &mut Step| matches!(step, Step::Start(start) if start.number == number);
            for step in self.steps.extract_if(.., is_refused) {
                if let Step::Start(start) = step {
                    void(start, error.clone(), &mut self.records, folder);
                }
            }
        }
    }

    /// After a failure: drops changes, and starts that depend on something, and notifies their
    /// waiters. Everything else is written once the store works again.
    pub(crate) fn fail(&mut self, folder: &mut Folder, error: &LedgerError) {
        for waiter in self.waiters.drain(..) {
            let _ = waiter.send(Err(error.clone()));
        }
        for step in std::mem::take(&mut self.steps).into_iter().rev() {
            match step {
                Step::Change(job) => job.fail(error.clone()),
                Step::Start(start) => match start.refusal {
                    Refusal::NotRecorded(_) => {
                        void(start, error.clone(), &mut self.records, folder);
                    }
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
            } = &*start.before.principal;
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

    /// Adds the settlement of an adopted call.
    pub(crate) fn settle_adopted(&mut self, folder: &mut Folder, handle: Handle) {
        folder.end(handle, self);
        self.touched.push(handle);
    }
}

/// Removes a start from what is pending, with what followed it in its append: the call goes back to
/// its state before, plus what was recorded since.
fn void(start: CheckedStart, error: LedgerError, records: &mut Vec<Record>, folder: &mut Folder) {
    let CheckedStart {
        handle,
        before,
        number,
        refusal,
        ..
    } = start;
    let rests_on_it = |record: &Record| record.start == Some(number);
    let since = records
        .iter()
        .position(rests_on_it)
        .unwrap_or(records.len());
    records.retain(|record| !rests_on_it(record));
    if let Some(open) = folder.open.get_mut(&handle) {
        open.draft = *before;
        let later = records.iter().skip(since);
        for record in later.filter(|record| record.handle == handle) {
            // It was valid JSON when it was folded first.
            let body = serde_json::from_str(&record.body).unwrap_or_default();
            open.draft.absorb(record.kind, record.at, &body);
        }
    }
    if let Refusal::NotRecorded(Some(waiter)) = refusal {
        // An error only means that nobody waits any more.
        let _ = waiter.send(Err(error));
    }
}
