//! What a person would want to see of a running call: the latest line of its output, its newest item
//! or what it last said about its progress, whichever came last.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use haft_contract::{
    progress::{ProgressNote, RenderedProgress},
    streamed::{LATEST_LINE_BYTES, LatestLine},
};
use tokio::sync::Notify;

/// The latest report of one call.
#[derive(Default)]
pub(crate) struct LatestReport {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    newest: Newest,
    line: LatestLine,
    said: String,
    steps: Option<(u64, Option<u64>)>,
    remaining: Option<Duration>,
}

/// What came last.
#[derive(Default, Clone, Copy)]
enum Newest {
    #[default]
    Said,
    Line,
}

impl LatestReport {
    /// Takes clean output.
    pub(crate) fn output(&self, text: &str) {
        let mut state = self.state();
        state.line.push(text);
        state.newest = Newest::Line;
        drop(state);
        self.changed.notify_one();
    }

    /// Takes an item, as a person sees it.
    pub(crate) fn item(&self, line: &str) {
        self.says(line, |_| ());
    }

    /// Takes a progress report.
    pub(crate) fn progress(&self, progress: &RenderedProgress) {
        self.says(&progress.status, |state| {
            let counts = progress.step > 0 || progress.total.is_some();
            state.steps = counts.then_some((progress.step, progress.total));
            state.remaining = progress.remaining;
        });
    }

    fn says(&self, line: &str, also: impl FnOnce(&mut State)) {
        let mut state = self.state();
        let end = line.floor_char_boundary(LATEST_LINE_BYTES);
        state.said.clear();
        state.said.push_str(line.get(..end).unwrap_or_default());
        state.newest = Newest::Said;
        also(&mut state);
        drop(state);
        self.changed.notify_one();
    }

    /// Returns when there has been a report since this last returned.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The report as the record keeps it.
    pub(crate) fn note(&self, deadline_in: Duration) -> ProgressNote {
        let state = self.state();
        let message = match state.newest {
            Newest::Said => state.said.clone(),
            Newest::Line => state.line.get().to_owned(),
        };
        ProgressNote {
            steps: state.steps,
            message,
            remaining: state.remaining,
            deadline_in,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
