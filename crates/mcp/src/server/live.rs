//! Calls that run on their own while requests of the protocol wait for them, so that a call can
//! outlive the request that made it: one request after another may wait for a call that waits for a
//! person, or none for a while.
//!
//! Dropping the [`LiveCall`] cancels the call.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use haft_contract::{
    CallEvent, CallId, CallRequest, ErrorKind, Outcome,
    event::{EventSink, RecordedEvent},
    future::BoxFuture,
    outcome::{Facts, Failure, Terminal},
    progress::RenderedProgress,
};
use haft_runtime::Runtime;
use serde_json::Value;
use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    line::{CallLine, ClientInterests, LineQuestion, Listener, Report},
    report::{self, RedactText},
};
use crate::client::{AttachedClient, Client, Clients, QuestionKind};

/// The least time between two reports of progress of one call.
pub const BETWEEN_REPORTS: Duration = Duration::from_millis(20);

/// The least time between a line of output, or an item, and the next report.
const BETWEEN_LINES: Duration = Duration::from_millis(500);

/// How many ended calls that could not ask something are remembered until their requests look.
const LACKING_KEPT: usize = 64;

/// The running calls of the server edge, by id. Listens to the runtime's events and forwards
/// progress to the call's line.
pub struct LiveCalls {
    lines: Mutex<HashMap<CallId, Arc<CallLine>>>,
    clients: Arc<Clients>,
    /// Calls that just ended and could not ask something, for the requests that wait for them.
    lacking: Mutex<VecDeque<(CallId, QuestionKind)>>,
    /// Notified when a call ends.
    ended: Notify,
    /// Removes secrets from what clients are shown of running calls.
    redact: OnceLock<RedactText>,
}

/// A running call, as held by whoever wants its outcome.
pub struct LiveCall {
    id: CallId,
    calls: Arc<LiveCalls>,
    line: Arc<CallLine>,
    listener: Listener,
    /// `None` once it has ended.
    running: Option<CallTask>,
    ended: Option<Arc<Outcome>>,
    /// When the next progress report may be forwarded.
    report_at: Instant,
    cancel: CancellationToken,
}

/// Where a call runs.
enum CallTask {
    /// On its own task.
    Alone(oneshot::Receiver<Arc<Outcome>>),
    /// On the task that waits for it.
    Here(BoxFuture<'static, Arc<Outcome>>),
}

impl CallTask {
    fn alone(call: BoxFuture<'static, Arc<Outcome>>) -> Self {
        let (end, ending) = oneshot::channel();
        tokio::spawn(async move {
            // If this fails, nobody waits for it any more, and the record has it.
            let _ = end.send(call.await);
        });
        Self::Alone(ending)
    }
}

/// The outcome of a call; `None` if its task is gone, or it ended before. Cancel safe.
async fn ended(running: &mut Option<CallTask>) -> Option<Arc<Outcome>> {
    match running {
        Some(CallTask::Alone(ending)) => ending.await.ok(),
        Some(CallTask::Here(call)) => Some(call.await),
        None => None,
    }
}

/// The next thing that a running call does, as its waiter sees it.
#[derive(Debug)]
pub enum Step {
    /// It has its outcome. This is the last step.
    Ended(Arc<Outcome>),
    /// It asks something and waits for the answer.
    Asks(LineQuestion),
    /// It made progress.
    Progress(RenderedProgress),
    /// A mounted server logs something (the parameters of `notifications/message`).
    Log(Value),
}

impl LiveCalls {
    /// Starts without calls. Mounted tools find the clients of calls in `clients`.
    pub fn new(clients: Arc<Clients>) -> Arc<Self> {
        Arc::new(Self {
            lines: Mutex::default(),
            clients,
            lacking: Mutex::default(),
            ended: Notify::new(),
            redact: OnceLock::new(),
        })
    }

    /// Removes secrets with this function from what clients are shown of running calls. Only the first
    /// counts.
    pub fn redact_with(&self, redact: impl Fn(&str) -> String + Send + Sync + 'static) {
        let _ = self.redact.set(Box::new(redact));
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<CallId, Arc<CallLine>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The line of a call; `None` if the call came another way, or is over.
    pub fn line(&self, call: CallId) -> Option<Arc<CallLine>> {
        self.lines().get(&call).cloned()
    }

    /// What a call that just ended could not ask its client. Returned only once.
    pub(super) fn lacked(&self, call: CallId) -> Option<QuestionKind> {
        let mut lacking = self.lacking.lock().unwrap_or_else(PoisonError::into_inner);
        let at = lacking.iter().position(|(lacked, _)| *lacked == call)?;
        lacking.remove(at).map(|(_, kind)| kind)
    }

    fn note_lacking(&self, call: CallId, kind: QuestionKind) {
        let mut lacking = self.lacking.lock().unwrap_or_else(PoisonError::into_inner);
        // Forget the oldest: its request left without looking.
        if lacking.len() >= LACKING_KEPT {
            lacking.pop_front();
        }
        lacking.push_back((call, kind));
    }

    /// How many calls are running.
    pub fn len(&self) -> usize {
        self.lines().len()
    }

    /// Whether no call is running.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until no call is running.
    pub(super) async fn until_none_runs(&self) {
        loop {
            // Registers before checking, so that an end in between is not missed.
            let mut ended = std::pin::pin!(self.ended.notified());
            ended.as_mut().enable();
            if self.is_empty() {
                return;
            }
            ended.await;
        }
    }

    /// Starts a call on its own task. The runtime caps how many are in flight.
    #[must_use]
    pub fn start(
        self: &Arc<Self>,
        runtime: &Runtime,
        request: CallRequest,
        hears: ClientInterests,
    ) -> LiveCall {
        let mut live = self.start_here(runtime, request, hears);
        live.goes_on_alone();
        live
    }

    /// Starts a call that runs only while it is waited for, until it is moved to its own task. For
    /// a client that receives nothing in the meantime: a separate task would gain its request
    /// nothing.
    #[must_use]
    pub(super) fn start_here(
        self: &Arc<Self>,
        runtime: &Runtime,
        request: CallRequest,
        hears: ClientInterests,
    ) -> LiveCall {
        let id = request.id;
        let (line, listener) = CallLine::open(hears);
        let line = Arc::new(line);
        let listed = ListedLine::new(self, id, &line);
        let cancel = CancellationToken::new();
        let (runtime, stop) = (runtime.clone(), cancel.clone());
        let call = async move {
            let outcome = runtime.call_until(request, stop).await;
            drop(listed);
            outcome
        };
        LiveCall {
            id,
            calls: Arc::clone(self),
            line,
            listener,
            running: Some(CallTask::Here(Box::pin(call))),
            ended: None,
            report_at: Instant::now(),
            cancel,
        }
    }
}

impl LiveCall {
    /// The call's id.
    pub fn id(&self) -> CallId {
        self.id
    }

    /// Its line, for setting what the current client receives.
    pub fn line(&self) -> &Arc<CallLine> {
        &self.line
    }

    /// Moves it to its own task.
    pub(super) fn goes_on_alone(&mut self) {
        self.running = match self.running.take() {
            Some(CallTask::Here(call)) => Some(CallTask::alone(call)),
            running => running,
        };
    }

    /// Stops the call, which then ends as cancelled.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Waits for the next step. Progress comes at most once every [`BETWEEN_REPORTS`], and the last
    /// report always comes before the end. Cancel safe.
    pub async fn next(&mut self) -> Step {
        loop {
            if let Some(ended) = &self.ended {
                let ended = Arc::clone(ended);
                return self.left_over().unwrap_or(Step::Ended(ended));
            }
            let Listener {
                questions,
                logs,
                progress,
            } = &mut self.listener;
            let report_at = self.report_at;
            let further = async move {
                tokio::time::sleep_until(report_at).await;
                match progress.changed().await {
                    Ok(()) => progress.borrow_and_update().clone(),
                    Err(_) => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(asks) = questions.recv() => return Step::Asks(asks),
                Some(message) = logs.recv() => return Step::Log(message),
                report = further => {
                    let wait = match report {
                        Some(Report::Line(_)) => BETWEEN_LINES,
                        Some(Report::Own(_)) | None => BETWEEN_REPORTS,
                    };
                    self.report_at = Instant::now() + wait;
                    if let Some(report) = report {
                        return Step::Progress(self.shown(report));
                    }
                }
                ended = ended(&mut self.running) => {
                    self.running = None;
                    self.ended = Some(ended.unwrap_or_else(|| Arc::new(lost(self.id))));
                }
            }
        }
    }

    /// What was sent before the end and not yet returned.
    fn left_over(&mut self) -> Option<Step> {
        if let Ok(message) = self.listener.logs.try_recv() {
            return Some(Step::Log(message));
        }
        if !self.listener.progress.has_changed().unwrap_or(false) {
            return None;
        }
        let report = self.listener.progress.borrow_and_update().clone();
        report.map(|report| Step::Progress(self.shown(report)))
    }

    /// A report as the client shows it.
    fn shown(&self, report: Report) -> RenderedProgress {
        let (left, redact) = (self.line.time_left(), self.calls.redact.get());
        match report {
            Report::Own(progress) => report::of_tool(progress, left, redact),
            Report::Line(progress) => report::of_line(progress, left, redact),
        }
    }
}

impl Drop for LiveCall {
    /// Nobody wants the call any more. It is cancelled but still runs to its end, so that the end
    /// is recorded.
    fn drop(&mut self) {
        self.cancel.cancel();
        if tokio::runtime::Handle::try_current().is_ok() {
            self.goes_on_alone();
        }
    }
}

/// The outcome of a call whose task is gone, which only a bug in Haft can cause.
fn lost(call: CallId) -> Outcome {
    Outcome {
        call,
        tool: None,
        terminal: Terminal::Unknown,
        content: Vec::new(),
        structured: None,
        error: Some(Failure {
            kind: ErrorKind::Internal,
            message: "the call was lost".to_owned(),
            at: None,
            hint: Some("this is a fault in Haft; the log has the detail".to_owned()),
        }),
        facts: Facts::default(),
    }
}

impl EventSink for LiveCalls {
    fn happened(&self, happened: &RecordedEvent) {
        // Looked up only for what is shown: most events are not.
        let line = || self.line(happened.call);
        match &happened.event {
            CallEvent::Planned { plan } => {
                line().inspect(|line| line.planned(plan.deadline()));
            }
            CallEvent::Running => {
                line().inspect(|line| line.runs());
            }
            CallEvent::Progress(progress) => {
                line().inspect(|line| line.report(progress));
            }
            CallEvent::Output { text, .. } => {
                line().inspect(|line| line.output(text));
            }
            CallEvent::Item(item) => {
                line().inspect(|line| line.item(&item.line));
            }
            CallEvent::Opened { .. }
            | CallEvent::Resolved { .. }
            | CallEvent::Validated { .. }
            | CallEvent::Decided { .. }
            | CallEvent::ApprovalAsked { .. }
            | CallEvent::ApprovalAnswered { .. }
            | CallEvent::Granted { .. }
            | CallEvent::Admitted { .. }
            | CallEvent::Started { .. }
            | CallEvent::ProgressNoted(_)
            | CallEvent::PreimageKept { .. }
            | CallEvent::FileChanged { .. }
            | CallEvent::RowsChanged { .. }
            | CallEvent::ChangesScanned { .. }
            | CallEvent::RunEnded
            | CallEvent::Settled { .. } => {}
        }
    }
}

/// Keeps the line of a call registered while it runs.
struct ListedLine {
    calls: Arc<LiveCalls>,
    call: CallId,
    _attached: AttachedClient,
}

impl ListedLine {
    fn new(calls: &Arc<LiveCalls>, call: CallId, line: &Arc<CallLine>) -> Self {
        calls.lines().insert(call, Arc::clone(line));
        let client: Arc<dyn Client> = Arc::clone(line) as _;
        Self {
            _attached: calls.clients.attach(call, client),
            calls: Arc::clone(calls),
            call,
        }
    }
}

impl Drop for ListedLine {
    fn drop(&mut self) {
        let line = self.calls.lines().remove(&self.call);
        if let Some(kind) = line.and_then(|line| line.lacking()) {
            self.calls.note_lacking(self.call, kind);
        }
        self.calls.ended.notify_waiters();
    }
}

impl fmt::Debug for LiveCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveCalls")
            .field("calls", &self.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for LiveCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveCall")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
