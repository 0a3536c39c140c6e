//! The open record of one call: what is appended to it, and its one settlement.

use std::sync::Arc;

use haft_contract::{
    BoxFuture, CallId, TenantId,
    event::{CallEvent, RecordedEvent},
    host::{CallRecord, Durability, Epoch, LedgerError},
};
use tokio::sync::watch;

use super::{MemoryLedger, State, accepted, record};

pub(super) struct OpenCall {
    ledger: MemoryLedger,
    tenant: String,
    call: CallId,
    settled: watch::Sender<bool>,
    /// The claim that holds it, if it was claimed.
    pub(super) claim: Option<Epoch>,
}

impl OpenCall {
    pub(super) fn new(ledger: &MemoryLedger, tenant: &TenantId, call: CallId) -> Self {
        Self {
            ledger: ledger.clone(),
            tenant: tenant.to_string(),
            call,
            settled: watch::Sender::new(false),
            claim: None,
        }
    }

    /// Whether writes for the call still count.
    fn holds(&self, state: &State) -> Result<(), LedgerError> {
        match self.claim {
            Some(epoch) if !state.accepted.holds(&self.tenant, self.call, epoch) => {
                Err(accepted::superseded(epoch))
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl CallRecord for OpenCall {
    fn append(
        &self,
        events: Vec<RecordedEvent>,
        durability: Durability,
    ) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move {
            self.ledger.reachable()?;
            {
                let mut state = self.ledger.lock();
                self.holds(&state)?;
                let mut calls = state.calls.iter();
                let open = calls.find(|call| call.id == self.call && !call.settled);
                if let Some(principal) = open.map(|call| Arc::clone(&call.principal)) {
                    let start = events
                        .iter()
                        .position(is_checked_start)
                        .unwrap_or(events.len());
                    let (before, from_start) = events.split_at(start);
                    state.append(&self.tenant, before);
                    state.use_up(&principal, from_start)?;
                    state.append(&self.tenant, from_start);
                }
            }
            match durability {
                Durability::Queued => Ok(()),
                Durability::Durable => self.ledger.commit(),
            }
        })
    }

    fn settle(&self, events: Vec<RecordedEvent>) {
        let mut state = self.ledger.lock();
        if self.holds(&state).is_err() {
            for happened in &events {
                if let CallEvent::Settled { .. } = &happened.event {
                    let body = record::body(&happened.event);
                    state.push(&self.tenant, self.call, happened.at, "settled_late", body);
                }
            }
            self.settled.send_replace(true);
            return;
        }
        let mut open = state
            .calls
            .iter_mut()
            .filter(|call| call.id == self.call && !call.settled);
        if let Some(call) = open.next() {
            call.settled = true;
            let principal = Arc::clone(&call.principal);
            // A start among the last events has happened, whatever it depended on.
            let _ = state.use_up(&principal, &events);
            state.append(&self.tenant, &events);
        }
        self.settled.send_replace(true);
    }

    fn settled(&self) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move {
            let mut settled = self.settled.subscribe();
            // The sender lives in `self`, so only a settlement ends the wait.
            let _ = settled.wait_for(|settled| *settled).await;
            self.ledger.commit()?;
            self.holds(&self.ledger.lock())
        })
    }
}

/// Whether an event is a start that depends on an approval, on grants or on what was read.
fn is_checked_start(happened: &RecordedEvent) -> bool {
    match &happened.event {
        CallEvent::Started {
            approval,
            grants,
            read_from,
            ..
        } => approval.is_some() || !grants.is_empty() || read_from.is_some(),
        _ => false,
    }
}
