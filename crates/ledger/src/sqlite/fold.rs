//! Folds what was taken from the queue into drafts and records, before any transaction begins:
//! conversion and redaction are slow, and other processes wait for a transaction's lock.
//!
//! Nothing is written here. `write.rs` writes a [`Pending`]; it is kept until that succeeded.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use haft_contract::{
    CallEvent, CallId, TenantId, Terminal, event::Happened, host::Timestamp, ops::FileVersion,
};

use super::{recover::interrupted, write::Committed};
use crate::{
    convert,
    draft::Draft,
    queue::{Handle, Message, SeenKey, Taken, Waiter},
    redact::Redactor,
};

/// One record, ready to be chained.
#[derive(Debug)]
pub(crate) struct Record {
    pub(super) handle: Handle,
    pub(super) tenant: TenantId,
    pub(super) call: CallId,
    pub(super) at: Timestamp,
    pub(super) kind: &'static str,
    pub(super) body: String,
}

/// What the next transaction will hold. Kept until it is committed, so a failed one is repeated.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    pub(super) touched: Vec<Handle>,
    pub(super) records: Vec<Record>,
    pub(super) seen: HashMap<SeenKey, FileVersion>,
    /// Who waits for it.
    pub(crate) waiters: Vec<Waiter>,
    /// How many appends to give the room back for.
    pub(crate) appends: usize,
}

/// A call this process has open.
#[derive(Debug)]
pub(super) struct OpenDraft {
    pub(super) draft: Draft,
    pub(super) stored: Stored,
}

/// What the store knows of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stored {
    /// Nothing yet.
    Nothing,
    /// Its row.
    Row { position: i64 },
    /// Its id was taken, or somebody settled it already: it gets no further records.
    Refused,
}

/// The calls this process has open, as far as they were folded.
#[derive(Debug)]
pub(crate) struct Folder {
    redactor: Arc<Redactor>,
    pub(super) open: HashMap<Handle, OpenDraft>,
}

impl Folder {
    /// No open calls.
    pub(crate) fn new(redactor: Arc<Redactor>) -> Self {
        Self {
            redactor,
            open: HashMap::new(),
        }
    }

    /// Folds what was taken from the queue.
    pub(crate) fn fold(&mut self, taken: Taken) -> Pending {
        let mut pending = Pending {
            seen: taken.seen,
            ..Pending::default()
        };
        let mut touched = HashSet::new();
        for message in taken.messages {
            let handle = match message {
                Message::Open {
                    handle,
                    request,
                    at,
                } => {
                    let body = convert::opened(&request, &self.redactor);
                    let mut draft = Draft::new(&request, &body.value, at);
                    draft.redacted = body.redacted;
                    pending.records.push(Record {
                        handle,
                        tenant: draft.principal.tenant.clone(),
                        call: draft.id,
                        at,
                        kind: CallEvent::Opened.kind(),
                        body: body.text,
                    });
                    let stored = Stored::Nothing;
                    self.open.insert(handle, OpenDraft { draft, stored });
                    handle
                }
                Message::Append {
                    handle,
                    events,
                    waiter,
                } => {
                    pending.appends += 1;
                    pending.waiters.extend(waiter);
                    self.absorb(handle, &events, &mut pending);
                    handle
                }
                Message::Settle { handle, events } => {
                    self.absorb(handle, &events, &mut pending);
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

    /// Takes up a call that another process left open.
    pub(crate) fn adopt(&mut self, handle: Handle, draft: Draft, position: i64) {
        let stored = Stored::Row { position };
        self.open.insert(handle, OpenDraft { draft, stored });
    }

    /// Notes what a committed transaction did; returns how many calls ended with it.
    pub(crate) fn committed(&mut self, pending: &Pending, committed: &Committed) -> usize {
        for (handle, stored) in &committed.stored {
            if let Some(open) = self.open.get_mut(handle) {
                open.stored = *stored;
            }
        }
        let mut ended = 0;
        for handle in &pending.touched {
            if self
                .open
                .get(handle)
                .is_some_and(|open| open.draft.listed.settled.is_some())
            {
                self.open.remove(handle);
                ended += 1;
            }
        }
        ended
    }

    fn absorb(&mut self, handle: Handle, events: &[Happened], pending: &mut Pending) {
        let Some(open) = self.open.get_mut(&handle) else {
            return;
        };
        for happened in events {
            // Nothing follows a settlement.
            if open.stored == Stored::Refused || open.draft.listed.settled.is_some() {
                return;
            }
            let Some(body) = convert::event(&happened.event, &self.redactor) else {
                continue;
            };
            let kind = happened.event.kind();
            open.draft.absorb(kind, happened.at, &body.value);
            pending.records.push(Record {
                handle,
                tenant: open.draft.principal.tenant.clone(),
                call: open.draft.id,
                at: happened.at,
                kind,
                body: body.text,
            });
        }
    }

    fn end(&mut self, handle: Handle, pending: &mut Pending) {
        let Some(open) = self.open.get_mut(&handle) else {
            return;
        };
        if open.stored == Stored::Refused {
            // The call it would end is somebody else's; only its place is given back.
            open.draft.listed.settled = Some((Terminal::Unknown, open.draft.last));
            return;
        }
        if open.draft.listed.settled.is_none() {
            let settled = Happened {
                call: open.draft.id,
                at: open.draft.last,
                event: CallEvent::Settled {
                    outcome: Arc::new(interrupted(&open.draft)),
                },
            };
            self.absorb(handle, &[settled], pending);
        }
    }
}

impl Pending {
    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.touched.is_empty() && self.records.is_empty() && self.seen.is_empty()
    }

    /// Adds the settlement of an adopted call.
    pub(crate) fn settle_adopted(&mut self, folder: &mut Folder, handle: Handle) {
        folder.end(handle, self);
        self.touched.push(handle);
    }
}
