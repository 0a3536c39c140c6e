//! One kept process: the state shared by everyone who uses it.
//!
//! The child itself belongs to its owner (`owner.rs`); this module has its log, its state and its
//! controls. Only [`BackgroundChild::wait`] waits for the child, and it has a limit.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use haft_contract::{
    ErrorKind, ToolError,
    access::{ProcessAct, RunningCommand},
    background::{KeptProcess, LogPage, LogStart, ProcessId, ProcessState},
    context::OutputSink,
    ops::{ChildExit, OutputChunk, ProcessControls, TerminalSize},
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::log::Log;

/// How often to check whether a process waits for input.
const LOOK_AGAIN: Duration = Duration::from_millis(150);

/// How long output must have been silent before it is returned, so that a line is not torn.
const QUIET: Duration = Duration::from_millis(80);

/// How long to wait for a process that keeps printing to fall silent.
const SETTLE: Duration = Duration::from_millis(800);

/// The time limit for checking whether a process waits for input.
const LOOK_LIMIT: Duration = Duration::from_secs(2);

pub(crate) struct BackgroundChild {
    pub(super) id: ProcessId,
    running: RunningCommand,
    terminal: Mutex<Option<TerminalSize>>,
    controls: Arc<dyn ProcessControls>,
    log: Mutex<Log>,
    /// Receives its output in addition to the log. Locked while a chunk goes to both.
    attached: tokio::sync::Mutex<Option<Arc<dyn OutputSink>>>,
    is_attached: AtomicBool,
    /// Changes with every output and at the end.
    news: watch::Sender<ProcessNews>,
    started: Instant,
    /// When it was last used.
    asked: Mutex<Instant>,
    /// Fires when it must end.
    pub(crate) stop: CancellationToken,
}

#[derive(Debug, Clone, Default)]
struct ProcessNews {
    log_end: u64,
    ended: Option<ProcessEnd>,
}

#[derive(Debug, Clone)]
struct ProcessEnd {
    exit: Option<ChildExit>,
    ran: Duration,
}

pub(super) struct ProcessDescription {
    pub(super) id: ProcessId,
    pub(super) running: RunningCommand,
    pub(super) terminal: Option<TerminalSize>,
    pub(super) output: Option<Arc<dyn OutputSink>>,
    pub(super) log_bytes: usize,
}

impl BackgroundChild {
    pub(super) fn new(
        about: ProcessDescription,
        controls: Arc<dyn ProcessControls>,
        stop: CancellationToken,
    ) -> Self {
        let now = Instant::now();
        Self {
            id: about.id,
            running: about.running,
            terminal: Mutex::new(about.terminal),
            controls,
            log: Mutex::new(Log::new(about.log_bytes)),
            is_attached: AtomicBool::new(about.output.is_some()),
            attached: tokio::sync::Mutex::new(about.output),
            news: watch::Sender::new(ProcessNews::default()),
            started: now,
            asked: Mutex::new(now),
            stop,
        }
    }

    /// What it runs.
    pub(crate) fn running(&self) -> &RunningCommand {
        &self.running
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.news.borrow().ended.is_some()
    }

    /// When it was last used.
    pub(super) fn last_asked(&self) -> Instant {
        *lock(&self.asked)
    }

    /// Notes that it was used.
    pub(super) fn note_asked(&self) {
        *lock(&self.asked) = Instant::now();
    }

    /// Writes output to the log, and to the call it is still attached to.
    pub(super) async fn take(&self, chunk: OutputChunk) {
        let attached = self.attached.lock().await;
        let log_end = {
            let mut log = lock(&self.log);
            log.push(chunk.stream, &chunk.bytes);
            log.end()
        };
        self.news.send_modify(|news| news.log_end = log_end);
        if let Some(output) = &*attached {
            output.push(chunk.stream, &chunk.bytes).await;
        }
    }

    /// Notes its end.
    pub(super) fn note_end(&self, exit: Option<ChildExit>) {
        let log_end = {
            let mut log = lock(&self.log);
            log.finish();
            log.end()
        };
        let ran = self.started.elapsed();
        self.news.send_modify(|news| {
            news.log_end = log_end;
            news.ended = Some(ProcessEnd { exit, ran });
        });
    }

    /// Whether its output still goes to the call that started it.
    pub(crate) fn is_attached(&self) -> bool {
        self.is_attached.load(Ordering::Acquire)
    }

    /// Sends output only to the log from now on. Returns the length of the log at that point.
    pub(crate) async fn release(&self) -> u64 {
        // A chunk on its way to the call gets there first. So what the call shows and what the log
        // has from the returned offset on are everything: no output is missing from both.
        let mut attached = self.attached.lock().await;
        *attached = None;
        self.is_attached.store(false, Ordering::Release);
        let mut log = lock(&self.log);
        let end = log.end();
        log.note_shown(end);
        end
    }

    pub(crate) fn page(&self, from: LogStart, most: usize) -> LogPage {
        let mut log = lock(&self.log);
        let page = log.page(from, most);
        log.note_shown(page.next());
        page
    }

    /// A snapshot of the process.
    pub(super) fn look(&self, waits_for_input: bool) -> KeptProcess {
        let ended = self.news.borrow().ended.clone();
        let log = lock(&self.log);
        KeptProcess {
            id: self.id,
            command: self.running.command.clone(),
            cwd: self.running.cwd.clone(),
            tier: self.running.tier,
            terminal: *lock(&self.terminal),
            ran: ended
                .as_ref()
                .map_or_else(|| self.started.elapsed(), |ended| ended.ran),
            state: match ended {
                None => ProcessState::Running { waits_for_input },
                Some(ProcessEnd {
                    exit: Some(exit), ..
                }) => ProcessState::Ended(exit),
                Some(ProcessEnd { exit: None, .. }) => ProcessState::Lost,
            },
            log_start: log.start(),
            log_end: log.end(),
        }
    }

    /// A snapshot that includes whether it waits for input.
    pub(crate) async fn look_closely(&self) -> KeptProcess {
        let waits = !self.has_ended()
            && tokio::time::timeout(LOOK_LIMIT, self.waits_for_input())
                .await
                .unwrap_or(false);
        self.look(waits)
    }

    /// Waits for output to read, for the process to end, or until it waits for input.
    pub(crate) async fn wait(&self, from: LogStart, until: Instant) -> KeptProcess {
        let after = match from {
            LogStart::At(offset) => offset,
            LogStart::Unread => lock(&self.log).shown(),
            LogStart::End => lock(&self.log).end(),
        };
        let mut news = self.news.subscribe();
        let mut looks = 0_u8;
        loop {
            {
                let now = news.borrow_and_update();
                if now.ended.is_some() || now.log_end > after {
                    break;
                }
            }
            tokio::select! {
                biased;
                changed = news.changed() => {
                    looks = 0;
                    if changed.is_err() {
                        break;
                    }
                }
                () = tokio::time::sleep_until(until) => break,
                () = sleep(LOOK_AGAIN) => {
                    // Twice, because a program that reads in a loop is sometimes caught reading.
                    looks = if self.waits_for_input().await { looks + 1 } else { 0 };
                    if looks >= 2 {
                        return self.look(true);
                    }
                }
            }
        }
        let until = until.min(Instant::now() + SETTLE);
        while !self.has_ended() && Instant::now() < until {
            let quiet = (Instant::now() + QUIET).min(until);
            if timeout_at(quiet, news.changed()).await.is_err() {
                break;
            }
        }
        self.look_closely().await
    }

    /// Waits for it to end.
    pub(crate) async fn ended(&self) {
        let mut news = self.news.subscribe();
        let _ = news.wait_for(|news| news.ended.is_some()).await;
    }

    /// Acts on it.
    pub(crate) async fn act(&self, act: &ProcessAct) -> Result<(), ToolError> {
        if self.has_ended() {
            return match act {
                ProcessAct::Kill => Ok(()),
                ProcessAct::Write(_)
                | ProcessAct::CloseInput
                | ProcessAct::Resize(_)
                | ProcessAct::Signal(_) => Err(ToolError::new(
                    ErrorKind::Conflict,
                    format!("process `{}` has ended", self.id),
                )
                .hint("read the rest of its log with `log`")),
            };
        }
        match act {
            ProcessAct::Write(text) => self.controls.write(text.as_bytes()).await?,
            ProcessAct::CloseInput => self.controls.close_input().await?,
            ProcessAct::Resize(size) => {
                self.controls.resize(*size).await?;
                *lock(&self.terminal) = Some(*size);
            }
            ProcessAct::Signal(signal) => self.controls.signal(*signal).await?,
            ProcessAct::Kill => {
                self.stop.cancel();
                self.ended().await;
            }
        }
        Ok(())
    }

    async fn waits_for_input(&self) -> bool {
        self.controls.waits_for_input().await.unwrap_or(false)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
