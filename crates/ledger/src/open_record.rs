//! The open record of one call: a handle into the queue. All slow work happens in the writer.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use haft_contract::{
    BoxFuture, CallEvent, CallId, TenantId,
    event::RecordedEvent,
    host::{CallRecord, Durability, Epoch, LedgerError},
};
use tokio::sync::Notify;

use crate::{
    accepted,
    counters::LedgerCounters,
    message::{Handle, is_checked_start},
    queue::{Queue, Urgency},
    reading,
    store::{Scope, Store},
};

/// One call's handle into the queue.
pub(crate) struct OpenRecord {
    handle: Handle,
    queue: Arc<Queue>,
    counting: Arc<LedgerCounters>,
    settled: AtomicBool,
    settling: Notify,
    claim: Option<HeldClaim>,
}

/// The claim that holds a call, and how to check that it still does.
pub(crate) struct HeldClaim {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) tenant: TenantId,
    pub(crate) call: CallId,
    pub(crate) epoch: Epoch,
}

impl HeldClaim {
    /// Whether what was written so far counts. Asked after the write: a claim that holds then also
    /// held before, because no claim comes back.
    async fn holds(&self) -> Result<(), LedgerError> {
        let scope = [self.tenant.as_str()];
        let reader = self.store.reader(Scope::Tenants(&scope));
        let mut reader = reader.await.map_err(reading::failed)?;
        let held = accepted::holds(&mut *reader, &self.tenant, self.call, self.epoch).await;
        if held.map_err(reading::failed)? {
            Ok(())
        } else {
            Err(accepted::superseded_claim(self.epoch))
        }
    }
}

impl OpenRecord {
    /// A record whose slot in the queue is reserved.
    pub(crate) fn new(handle: Handle, queue: Arc<Queue>, counting: Arc<LedgerCounters>) -> Self {
        Self {
            handle,
            queue,
            counting,
            settled: AtomicBool::new(false),
            settling: Notify::new(),
            claim: None,
        }
    }

    /// The same for a call that a claim holds.
    pub(crate) fn by_claim(mut self, claim: HeldClaim) -> Self {
        self.claim = Some(claim);
        self
    }
}

impl CallRecord for OpenRecord {
    fn append(
        &self,
        events: Vec<RecordedEvent>,
        durability: Durability,
    ) -> BoxFuture<'_, Result<(), LedgerError>> {
        let is_start =
            |happened: &RecordedEvent| matches!(happened.event, CallEvent::Started { .. });
        let urgency = match durability {
            // Only a waiting caller can learn that it was refused.
            Durability::Queued if events.iter().any(is_checked_start) => Urgency::Now,
            Durability::Queued if self.claim.is_some() && events.iter().any(is_start) => {
                Urgency::Now
            }
            Durability::Queued => Urgency::Queued,
            Durability::Durable => Urgency::Now,
        };
        let append = self.queue.append(self.handle, events, urgency);
        let Some(claim) = &self.claim else {
            return Box::pin(append);
        };
        Box::pin(async move {
            append.await?;
            match durability {
                Durability::Durable => claim.holds().await,
                Durability::Queued => Ok(()),
            }
        })
    }

    fn settle(&self, events: Vec<RecordedEvent>) {
        if self.settled.swap(true, Ordering::AcqRel) {
            self.counting
                .second_settlements
                .fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.queue.settle(self.handle, events);
        self.settling.notify_waiters();
    }

    fn settled(&self) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move {
            // Listens before looking, so that a settlement in between is not missed.
            let mut settling = std::pin::pin!(self.settling.notified());
            settling.as_mut().enable();
            if !self.settled.load(Ordering::Acquire) {
                settling.await;
            }
            self.queue.flush().await?;
            match &self.claim {
                Some(claim) => claim.holds().await,
                None => Ok(()),
            }
        })
    }
}

impl Drop for OpenRecord {
    fn drop(&mut self) {
        if !self.settled.load(Ordering::Acquire) {
            self.queue.abandon(self.handle);
        }
    }
}
