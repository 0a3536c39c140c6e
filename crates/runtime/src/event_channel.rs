//! Events of calls for a listener that reads at its own pace: a bounded channel from the calls to it.
//!
//! A call never waits for the reader. While the channel is full, events are dropped and counted;
//! those that only show a call at work are dropped first. The record misses nothing. Read next:
//! `host_events/`, which reads what was dropped back from the record.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use haft_contract::event::{EventSink, RecordedEvent};
use tokio::sync::mpsc;

/// How many events a channel holds unless its owner says otherwise.
pub const EVENTS_HELD: usize = 1_024;

/// Every how many-th place of a channel is kept for events that tell how a call goes on.
const KEPT_FREE: usize = 4;

/// Makes a channel that holds this many events. Give the queue to
/// [`RuntimeBuilder::events`](crate::RuntimeBuilder::events).
pub fn event_channel(holds: usize) -> (Arc<EventQueue>, EventReceiver) {
    let (queue, receiver) = channel_of(holds);
    (Arc::new(queue), receiver)
}

/// Makes a channel of another kind of event.
pub(crate) fn channel_of<E>(holds: usize) -> (EventQueue<E>, EventReceiver<E>) {
    let holds = holds.max(1);
    let (sender, receiver) = mpsc::channel(holds);
    let missed = Arc::new(AtomicU64::new(0));
    let queue = EventQueue {
        sender,
        kept_free: holds / KEPT_FREE,
        missed: Arc::clone(&missed),
    };
    (queue, EventReceiver { receiver, missed })
}

/// The end of the channel that listens to calls.
#[derive(Debug)]
pub struct EventQueue<E = RecordedEvent> {
    sender: mpsc::Sender<E>,
    kept_free: usize,
    missed: Arc<AtomicU64>,
}

/// The end of the channel that is read.
#[derive(Debug)]
pub struct EventReceiver<E = RecordedEvent> {
    receiver: mpsc::Receiver<E>,
    missed: Arc<AtomicU64>,
}

/// Which places of a channel an event may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventRank {
    /// It only shows a call at work: some places are not for it.
    Shows,
    /// It tells how a call goes on.
    Tells,
}

/// The channel has no place for an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChannelFull;

impl<E> EventReceiver<E> {
    /// The next event; `None` once the runtime is gone. Cancel safe.
    pub async fn next(&mut self) -> Option<E> {
        self.receiver.recv().await
    }

    /// The next event, if it is there already.
    pub(crate) fn try_next(&mut self) -> Option<E> {
        self.receiver.try_recv().ok()
    }

    /// How many events were dropped since this was last asked.
    pub fn missed(&self) -> u64 {
        self.missed.swap(0, Ordering::Relaxed)
    }
}

impl<E> EventQueue<E> {
    /// Puts an event into the channel, made only if there is room. Never waits.
    pub(crate) fn offer(
        &self,
        rank: EventRank,
        make: impl FnOnce() -> E,
    ) -> Result<(), ChannelFull> {
        let needed = match rank {
            EventRank::Shows => self.kept_free,
            EventRank::Tells => 0,
        };
        if self.sender.capacity() <= needed {
            return Err(ChannelFull);
        }
        self.sender.try_send(make()).map_err(|_| ChannelFull)
    }

    /// Counts an event that was dropped.
    pub(crate) fn count_missed(&self) {
        self.missed.fetch_add(1, Ordering::Relaxed);
    }
}

impl EventSink for EventQueue {
    fn happened(&self, happened: &RecordedEvent) {
        let rank = if happened.event.is_live() {
            EventRank::Shows
        } else {
            EventRank::Tells
        };
        if self.offer(rank, || happened.clone()).is_err() {
            self.count_missed();
        }
    }
}

#[cfg(test)]
mod tests {
    use haft_contract::{CallEvent, CallId, host::Timestamp, ops::Stream};

    use super::*;

    fn happened(event: CallEvent) -> RecordedEvent {
        RecordedEvent {
            call: CallId::new(),
            at: Timestamp(0),
            event,
        }
    }

    #[tokio::test]
    async fn a_reader_that_does_not_read_misses_output_and_no_end() {
        let (queue, mut events) = event_channel(8);
        for number in 0..100 {
            queue.happened(&happened(CallEvent::Output {
                stream: Stream::Stdout,
                text: format!("{number}\n"),
            }));
        }
        queue.happened(&happened(CallEvent::RunEnded));
        drop(queue);
        let mut kinds = Vec::new();
        while let Some(happened) = events.next().await {
            kinds.push(happened.event.kind());
        }
        assert_eq!(
            kinds,
            ["output"; 6]
                .into_iter()
                .chain(["run_ended"])
                .collect::<Vec<_>>()
        );
        assert_eq!((events.missed(), events.missed()), (94, 0));
    }
}
