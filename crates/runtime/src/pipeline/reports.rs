//! What a running tool reports: its output, its progress and its items. Forwards them at a moderate
//! rate, and keeps a note of the latest on record for a call that takes long.
//!
//! Nobody who watches can slow a call down: a report is handed to listeners, which must not block,
//! and is not waited for.

use std::{
    convert::Infallible,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use haft_contract::{
    BoxFuture, CallEvent, ToolSpec,
    context::{OutputSink, RunLimits, StreamText},
    ops::Stream,
    outcome::DeniedBy,
    progress::{RenderedProgress, ReportProgress},
    streamed::{LATEST_LINE_BYTES, StreamedItem, TakeItems},
};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{capture::Capture, deadline::RunClock, input, limits::Limits};

/// Progress is forwarded at most this often; the newest report always gets through in the end.
const PROGRESS_EVERY: Duration = Duration::from_millis(50);

/// A call that ends sooner leaves no note of its progress on record.
const FIRST_NOTE: Duration = Duration::from_secs(1);

/// The least time between two notes.
const BETWEEN_NOTES: Duration = Duration::from_secs(5);

/// The time between two notes is at least this part of the time the call has run, so that an hour has
/// some fifty of them.
const NOTES_SPREAD: u32 = 8;

/// Which items of a call are forwarded.
#[derive(Debug, Clone, Copy)]
pub(super) struct ItemCaps {
    /// How many; none for a tool that does not say that it streams.
    items: u64,
    /// The largest, in bytes of JSON.
    bytes: usize,
}

impl ItemCaps {
    pub(super) fn of(spec: &ToolSpec, limits: &Limits) -> Self {
        Self {
            items: match spec.streams {
                Some(_) => limits.items as u64,
                None => 0,
            },
            bytes: limits.item_bytes,
        }
    }
}

/// Takes what a running tool reports. Progress and items keep the call from counting as silent.
pub(super) struct RunReports {
    pub(super) capture: Capture,
    pub(super) clock: RunClock,
    /// When progress was last forwarded.
    forwarded: Mutex<Option<Instant>>,
    began: Instant,
    caps: ItemCaps,
    /// How many items there have been.
    items: AtomicU64,
    /// Fires when the caller wants the call to end.
    pub(super) cancel: CancellationToken,
    /// Tells the tool to end, for that reason or because its time is up. Most tools end before they
    /// ask.
    stop: OnceLock<CancellationToken>,
    /// That a person was to be asked, and why nobody was.
    pub(super) not_asked: OnceLock<DeniedBy>,
}

impl RunReports {
    pub(super) fn new(
        capture: Capture,
        clock: RunClock,
        caps: ItemCaps,
        cancel: CancellationToken,
    ) -> Self {
        Self {
            capture,
            clock,
            forwarded: Mutex::new(None),
            began: Instant::now(),
            caps,
            items: AtomicU64::new(0),
            cancel,
            stop: OnceLock::new(),
            not_asked: OnceLock::new(),
        }
    }

    /// Notes the latest report on record now and then, for whoever asks the record about a call that
    /// still runs. Cancel safe.
    pub(super) async fn keep_notes(&self) -> Infallible {
        let mut due = self.began + FIRST_NOTE;
        let latest = self.capture.latest();
        loop {
            latest.changed().await;
            tokio::time::sleep_until(due).await;
            let note = latest.note(self.clock.remaining());
            self.capture.recording().note_progress(note).await;
            let now = Instant::now();
            due = now + BETWEEN_NOTES.max(now.duration_since(self.began) / NOTES_SPREAD);
        }
    }
}

impl OutputSink for RunReports {
    fn push<'a>(&'a self, stream: Stream, bytes: &'a [u8]) -> BoxFuture<'a, ()> {
        self.capture.push(stream, bytes)
    }

    fn apart(&self, stream: Stream) -> BoxFuture<'_, StreamText> {
        self.capture.apart(stream)
    }
}

impl RunLimits for RunReports {
    fn remaining(&self) -> Duration {
        self.clock.remaining()
    }

    fn cancel(&self) -> &CancellationToken {
        self.stop.get_or_init(|| self.cancel.child_token())
    }
}

impl ReportProgress for RunReports {
    fn report(&self, progress: RenderedProgress) {
        self.clock.sign_of_life();
        self.capture.latest().progress(&progress);
        let now = Instant::now();
        let mut last = self
            .forwarded
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let due = last.is_none_or(|last| now.duration_since(last) >= PROGRESS_EVERY);
        // The report that says it is finished is never held back.
        if due || progress.percentage() == Some(100) {
            *last = Some(now);
            drop(last);
            let event = CallEvent::Progress(Box::new(progress));
            self.capture.recording().note(event);
        }
    }
}

impl TakeItems for RunReports {
    /// Items of a call that takes long are wanted even if nobody watches, for the notes on record.
    fn wanted(&self) -> bool {
        self.items.load(Ordering::Relaxed) < self.caps.items
            && (self.capture.recording().is_watched() || self.began.elapsed() >= FIRST_NOTE)
    }

    fn take(&self, mut line: String, value: Value) {
        self.clock.sign_of_life();
        let number = self.items.fetch_add(1, Ordering::Relaxed) + 1;
        if number > self.caps.items {
            return;
        }
        line.truncate(line.floor_char_boundary(LATEST_LINE_BYTES));
        self.capture.latest().item(&line);
        let value = if input::fits_in(&value, self.caps.bytes) {
            value
        } else {
            let bytes = self.caps.bytes;
            json!({ "omitted": format!("the item is larger than {bytes} bytes") })
        };
        let item = StreamedItem {
            number,
            line,
            value,
        };
        let event = CallEvent::Item(Box::new(item));
        self.capture.recording().note(event);
    }
}
