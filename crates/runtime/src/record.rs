//! The only way out for a call's events, and the guarantee that it settles exactly once.
//!
//! Events go to listeners at once and to the ledger in groups: everything up to the start in one
//! append, the settlement in another. If the caller drops the call, [`SettleOnDrop`] settles it;
//! room for that was reserved on opening.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haft_contract::{
    BoxFuture, CallEvent, CallId, CallRequest, ErrorKind, Outcome, Terminal, ToolKey,
    event::{CallOrigin, RecordedEvent},
    host::{CallRecord, Clock, Durability, LedgerError, LedgerErrorKind},
    outcome::{Facts, Failure},
    progress::ProgressNote,
};

use crate::{call_stage::StageMark, host_events::Listeners};

/// Collects the events of one call and passes them on.
pub(crate) struct Recording {
    call: CallId,
    clock: Arc<dyn Clock>,
    origin: CallOrigin,
    listeners: Arc<Listeners>,
    record: Box<dyn CallRecord>,
    stage: StageMark,
    state: Mutex<State>,
}

/// How many events a call notes that is allowed without asking, up to its start.
const EXPECTED_EVENTS: usize = 7;

struct State {
    pending: Vec<RecordedEvent>,
    tool: Option<ToolKey>,
    mutating: bool,
    started: bool,
    settled: bool,
}

impl Recording {
    pub(crate) fn new(
        request: &CallRequest,
        clock: Arc<dyn Clock>,
        listeners: Arc<Listeners>,
        record: Box<dyn CallRecord>,
        stage: StageMark,
    ) -> Self {
        Self {
            call: request.id,
            clock,
            origin: CallOrigin {
                principal: Arc::clone(&request.principal),
                workspace: request.workspace.clone(),
                model_call: request.model_call.clone(),
            },
            listeners,
            record,
            stage,
            state: Mutex::new(State {
                pending: Vec::with_capacity(EXPECTED_EVENTS),
                tool: None,
                mutating: false,
                started: false,
                settled: false,
            }),
        }
    }

    /// The recording of a call that is only planned: no listener sees it, nothing is kept, and it
    /// cannot be started.
    pub(crate) fn of_dry_run(request: &CallRequest, clock: Arc<dyn Clock>) -> Self {
        let record = Box::new(NothingRecorded);
        Self::new(request, clock, Arc::default(), record, StageMark::default())
    }

    /// The call that is recorded.
    pub(crate) fn call(&self) -> CallId {
        self.call
    }

    /// Whether anybody listens to events as they happen.
    pub(crate) fn is_watched(&self) -> bool {
        self.listeners.watch(self.call, &self.origin)
    }

    /// Whether the call was started and may have changed something.
    pub(crate) fn changes_something(&self) -> bool {
        let state = self.state();
        state.mutating && state.started
    }

    /// Sends an event to listeners now, and to the ledger with the next group.
    pub(crate) fn note(&self, event: CallEvent) {
        self.stage.follow(&event);
        let (recorded, watched) = (event.is_recorded(), self.is_watched());
        if !recorded && !watched {
            return;
        }
        let happened = RecordedEvent {
            call: self.call,
            at: self.clock.now(),
            event,
        };
        {
            let mut state = self.state();
            // A tool that was left behind may still report events; nothing follows a settlement.
            if state.settled {
                return;
            }
            match &happened.event {
                CallEvent::Resolved { tool } => state.tool = Some(tool.clone()),
                CallEvent::Planned { plan } => state.mutating = plan.effects().is_mutating(),
                _ => {}
            }
            if !watched {
                state.pending.push(happened);
                return;
            }
            if recorded {
                state.pending.push(happened.clone());
            }
        }
        self.listeners.tell(&self.origin, &happened);
    }

    /// Appends everything noted so far to the ledger.
    pub(crate) async fn commit(&self, durability: Durability) -> Result<(), LedgerError> {
        let events = std::mem::take(&mut self.state().pending);
        if events.is_empty() && durability == Durability::Queued {
            return Ok(());
        }
        self.record.append(events, durability).await
    }

    /// Tells listeners and the ledger how far the call has got. Leaves what is noted for the next group
    /// to that group: taking it here would let a durable append return before it is written.
    pub(crate) async fn note_progress(&self, note: ProgressNote) {
        if self.is_settled() {
            return;
        }
        let happened = RecordedEvent {
            call: self.call,
            at: self.clock.now(),
            event: CallEvent::ProgressNoted(Box::new(note)),
        };
        self.listeners.tell(&self.origin, &happened);
        let noted = self.record.append(vec![happened], Durability::Queued);
        if let Err(error) = noted.await {
            tracing::debug!(%error, "the progress of a call could not be noted");
        }
    }

    /// Records that the call starts, with everything noted so far. The call has started only once
    /// this returns `Ok`: listeners never see a start that the ledger refuses.
    pub(crate) async fn start(
        &self,
        started: CallEvent,
        durability: Durability,
    ) -> Result<(), LedgerError> {
        let happened = RecordedEvent {
            call: self.call,
            at: self.clock.now(),
            event: started,
        };
        let mut events = std::mem::take(&mut self.state().pending);
        // Boxed, because it would otherwise take room in every call that starts.
        let told = self.is_watched().then(|| Box::new(happened.clone()));
        events.push(happened);
        self.record.append(events, durability).await?;
        self.state().started = true;
        self.stage.set_running();
        if let Some(happened) = told {
            self.listeners.tell(&self.origin, &happened);
        }
        Ok(())
    }

    /// Settles the call. Only the first settlement counts.
    pub(crate) fn settle(&self, outcome: &Arc<Outcome>) {
        let mut events = {
            let mut state = self.state();
            if std::mem::replace(&mut state.settled, true) {
                return;
            }
            std::mem::take(&mut state.pending)
        };
        let event = CallEvent::Settled {
            outcome: Arc::clone(outcome),
        };
        let happened = RecordedEvent {
            call: self.call,
            at: self.clock.now(),
            event,
        };
        self.listeners.tell(&self.origin, &happened);
        events.reserve_exact(1);
        events.push(happened);
        self.record.settle(events);
    }

    /// Waits until the settlement is durable.
    pub(crate) async fn settled(&self) -> Result<(), LedgerError> {
        self.record.settled().await
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Settles a call whose caller is gone, when it is dropped. Held by the caller's own future, so
/// that a tool that is slow to stop cannot delay the settlement.
pub(crate) struct SettleOnDrop(pub(crate) Arc<Recording>);

impl Drop for SettleOnDrop {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

impl Recording {
    /// Whether the call has its outcome.
    pub(crate) fn is_settled(&self) -> bool {
        self.state().settled
    }

    /// Settles the call as cancelled, unless it is already settled.
    fn abandon(&self) {
        let (started, tool) = {
            let state = self.state();
            if state.settled {
                return;
            }
            (state.started, state.tool.clone())
        };
        let message = if started {
            "the caller went away while the call ran; it was stopped, and what it had already done stays done"
        } else {
            "the caller went away before the call was started; nothing happened"
        };
        self.settle(&Arc::new(Outcome {
            call: self.call,
            tool,
            terminal: Terminal::Cancelled,
            content: Vec::new(),
            structured: None,
            error: Some(Failure {
                kind: ErrorKind::Cancelled,
                message: message.to_owned(),
                at: None,
                hint: None,
            }),
            facts: Facts::default(),
        }));
    }
}

/// The record of a dry run. It refuses every append, so no call can start with it.
struct NothingRecorded;

impl CallRecord for NothingRecorded {
    fn append(
        &self,
        _: Vec<RecordedEvent>,
        _: Durability,
    ) -> BoxFuture<'_, Result<(), LedgerError>> {
        let message = "a call that is only planned is not recorded, so it cannot be started";
        Box::pin(async move { Err(LedgerError::new(LedgerErrorKind::Unavailable, message)) })
    }

    fn settle(&self, _: Vec<RecordedEvent>) {}

    fn settled(&self) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async { Ok(()) })
    }
}
