//! What a person sees while waiting: a spinner, or a bar if the tool knows its progress. Only on a
//! terminal, only after a moment, and never while a question is open.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use haft_contract::{
    CallEvent,
    event::{EventSink, RecordedEvent},
    progress::RenderedProgress,
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{Output, sanitise};

/// Work that finishes sooner is not worth a spinner.
const PATIENCE: Duration = Duration::from_millis(400);

/// How often the spinner turns.
const TICK: Duration = Duration::from_millis(100);

/// The most characters shown of a status.
const MAX_STATUS_CHARS: usize = 60;

/// Watches calls and shows their progress.
pub(crate) struct Watcher {
    bar: ProgressBar,
    visible: bool,
    calls: usize,
    settled: AtomicUsize,
    state: Mutex<State>,
}

struct State {
    started: Instant,
    shown: bool,
    questions: usize,
}

/// No spinner is drawn while this lives.
pub(crate) struct SpinnerPause<'w>(&'w Watcher);

impl Watcher {
    /// For a number of calls; `visible` says whether a person sees standard error.
    pub(crate) fn new(calls: usize, visible: bool) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        if visible {
            bar.enable_steady_tick(TICK);
        }
        Self {
            bar,
            visible,
            calls,
            settled: AtomicUsize::new(0),
            state: Mutex::new(State {
                started: Instant::now(),
                shown: false,
                questions: 0,
            }),
        }
    }

    /// Shows the spinner once the work has taken a moment. Call it now and then.
    pub(crate) fn look(&self) {
        let mut state = self.state();
        if self.visible
            && !state.shown
            && state.questions == 0
            && state.started.elapsed() >= PATIENCE
        {
            state.shown = true;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    /// Hides the spinner while a question is open.
    pub(crate) fn quiet(&self) -> SpinnerPause<'_> {
        let mut state = self.state();
        state.questions += 1;
        if state.shown {
            state.shown = false;
            self.bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        SpinnerPause(self)
    }

    /// Removes the spinner for good.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self, progress: &RenderedProgress) {
        if let Some(total) = progress.total
            && self.calls == 1
        {
            self.bar.set_length(total);
            self.bar.set_position(progress.step.min(total));
            if let Ok(style) =
                ProgressStyle::with_template("{spinner} {msg} {wide_bar} {percent:>3}% {eta}")
            {
                self.bar.set_style(style);
            }
        }
        self.say(&progress.status);
    }

    fn say(&self, status: &str) {
        let status: String = sanitise::inline(status)
            .chars()
            .take(MAX_STATUS_CHARS)
            .collect();
        if self.calls > 1 {
            let settled = self.settled.load(Ordering::Relaxed);
            self.bar
                .set_message(format!("{settled} of {} calls done  {status}", self.calls));
        } else {
            self.bar.set_message(status);
        }
    }
}

impl Drop for SpinnerPause<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.questions = state.questions.saturating_sub(1);
        state.started = Instant::now();
    }
}

impl EventSink for Watcher {
    fn happened(&self, happened: &RecordedEvent) {
        let kind = happened.event.kind();
        tracing::debug!(call = %happened.call, event = kind, "call");
        if !self.visible {
            return;
        }
        match &happened.event {
            CallEvent::Progress(progress) => self.report(progress),
            CallEvent::Output { text, .. } => {
                if let Some(line) = text.lines().rev().find(|line| !line.trim().is_empty()) {
                    self.say(line);
                }
            }
            CallEvent::Item(item) => self.say(&item.line),
            CallEvent::Planned { plan } => self.say(plan.tool().tool.as_str()),
            CallEvent::Settled { .. } => {
                self.settled.fetch_add(1, Ordering::Relaxed);
                self.say("");
            }
            CallEvent::Opened { .. }
            | CallEvent::Resolved { .. }
            | CallEvent::Validated { .. }
            | CallEvent::Decided { .. }
            | CallEvent::ApprovalAsked { .. }
            | CallEvent::ApprovalAnswered { .. }
            | CallEvent::Granted { .. }
            | CallEvent::ChangesScanned { .. }
            | CallEvent::Admitted { .. }
            | CallEvent::Started { .. }
            | CallEvent::Running
            | CallEvent::ProgressNoted(_)
            | CallEvent::PreimageKept { .. }
            | CallEvent::FileChanged { .. }
            | CallEvent::RowsChanged { .. }
            | CallEvent::RunEnded => {}
        }
        self.look();
    }
}

/// A bar on standard error, or a spinner without a length; hidden where no person sees it.
pub(crate) fn bar(output: Output, length: Option<u64>, template: &str) -> ProgressBar {
    let target = if output.stderr_is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(length, target);
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
