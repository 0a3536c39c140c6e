//! The open record of one call: a handle into the queue. Everything slow happens in the writer.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use haft_contract::{
    BoxFuture,
    event::Happened,
    host::{CallRecord, Durability, LedgerError},
};
use tokio::sync::Notify;

use super::{Counting, claim::is_claim};
use crate::{
    message::Handle,
    queue::{Queue, Urgency},
};

/// The open record of one call.
pub(crate) struct OpenRecord {
    handle: Handle,
    queue: Arc<Queue>,
    counting: Arc<Counting>,
    settled: AtomicBool,
    settling: Notify,
}

impl OpenRecord {
    /// A record whose place in the queue is reserved.
    pub(crate) fn new(handle: Handle, queue: Arc<Queue>, counting: Arc<Counting>) -> Self {
        Self {
            handle,
            queue,
            counting,
            settled: AtomicBool::new(false),
            settling: Notify::new(),
        }
    }
}

impl CallRecord for OpenRecord {
    fn append(
        &self,
        events: Vec<Happened>,
        durability: Durability,
    ) -> BoxFuture<'_, Result<(), LedgerError>> {
        let urgency = match durability {
            // Only whoever waits can be told that it was refused.
            Durability::Queued if events.iter().any(is_claim) => Urgency::Now,
            Durability::Queued => Urgency::Queued,
            Durability::Durable => Urgency::Now,
        };
        Box::pin(self.queue.append(self.handle, events, urgency))
    }

    fn settle(&self, events: Vec<Happened>) {
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
            // Listening before looking, so that a settlement in between is not missed.
            let mut settling = std::pin::pin!(self.settling.notified());
            settling.as_mut().enable();
            if !self.settled.load(Ordering::Acquire) {
                settling.await;
            }
            self.queue.flush().await
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
