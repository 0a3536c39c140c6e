//! Runs the tool, under its deadline and its cancel token. The result is always a [`FinishedCall`],
//! whatever happens: a panic, a deadline, a cancel, a tool that does not stop.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::FutureExt as _;
use haft_contract::{
    CallContext, CallEvent, Effects, ErrorKind, ToolError,
    context::CallParts,
    erased::{ErasedTool, ParsedInput, ToolReply},
    ops::World,
    progress::{NoProgress, RenderedProgress, ReportProgress},
    spec::Audience,
};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::{AdmittedCall, PlannedCall, StartedCall};
use crate::{
    capture::Capture,
    change_history::ChangeHistory,
    deadline::RunClock,
    guard::{Guard, changes::ChangeWatch, confinement::Confinement},
    locks::HeldLocks,
    record::Recording,
};

/// Progress is forwarded at most this often; the newest report always gets through in the end.
const PROGRESS_EVERY: Duration = Duration::from_millis(50);

/// A call whose tool has ended, in whatever way.
pub struct FinishedCall {
    pub(super) planned: RunningCall,
    pub(super) reply: Result<ToolReply, ToolError>,
    pub(super) capture: Arc<Capture>,
    /// What the sandbox did to the call's children.
    pub(super) confinement: Arc<Confinement>,
    /// Who the tool is for.
    pub(super) audience: Audience,
    /// Held until the call is settled.
    pub(super) held: HeldLocks,
}

/// What remains of a planned call once its input has been passed to the tool.
pub(super) struct RunningCall {
    pub(super) call: Box<super::CallState>,
    pub(super) plan: Arc<haft_contract::SealedPlan>,
}

/// Runs the tool.
pub async fn run(started: StartedCall) -> FinishedCall {
    let StartedCall {
        admitted: AdmittedCall { planned, held, .. },
    } = started;
    let PlannedCall {
        mut call,
        entry,
        parsed,
        plan,
        ..
    } = planned;
    let engine = Arc::clone(&call.engine);
    let idle = entry.spec().deadline_of(plan.action()).idle;
    let audience = entry.spec().audience;
    let clock = RunClock::start(plan.deadline(), idle);
    let stop = call.cancel.child_token();
    let capture = Arc::new(Capture::new(
        Arc::clone(&call.recording),
        engine.ledger.artifacts(),
        engine.limits.output,
    ));
    let confinement = Arc::new(Confinement::default());
    let guard = Arc::new(Guard {
        engine: Arc::clone(&engine),
        workspace: Arc::clone(&call.workspace),
        plan: Arc::clone(&plan),
        withheld: Arc::clone(&call.withheld),
        principal: Arc::clone(&call.principal),
        recording: Arc::clone(&call.recording),
        confinement: Arc::clone(&confinement),
        changes: ChangeWatch::default(),
        left_out: Arc::clone(&call.left_out),
    });
    let context = CallContext::new(CallParts {
        call: call.id,
        principal: Arc::clone(&call.principal),
        root: Arc::clone(&call.workspace.operations.root),
        tier: plan.tier(),
        files: Arc::<Guard>::clone(&guard),
        processes: Arc::<Guard>::clone(&guard),
        search: Arc::<Guard>::clone(&guard),
        world: guarded_world(&guard),
        spilled: Arc::<Guard>::clone(&guard),
        background: Arc::<Guard>::clone(&guard),
        seen: Arc::<Guard>::clone(&guard),
        past: Arc::new(ChangeHistory::new(
            &engine,
            &call.workspace,
            &call.principal,
        )),
        output: Arc::<Capture>::clone(&capture),
        progress: Arc::new(Throttled::new(&call.recording, &clock)),
        cancel: stop.clone(),
        time_left: Arc::<RunClock>::clone(&clock),
    });
    call.recording.note(CallEvent::Running);
    let began = Instant::now();
    let running = execute(Arc::clone(entry.tool()), parsed, context, plan.effects());
    // Boxed, so that dropping it below stops the tool immediately.
    let mut running = Box::pin(AssertUnwindSafe(running).catch_unwind());
    let stopped = tokio::select! {
        biased;
        reply = &mut running => Err(reply),
        () = clock.expired() => Ok(ToolError::new(
            ErrorKind::TimedOut,
            format!("the call was stopped after {:.1} s", plan.deadline().as_secs_f64()),
        )
        .hint("ask for a longer time, or split the work")),
        () = call.cancel.cancelled() => {
            Ok(ToolError::new(ErrorKind::Cancelled, "the call was cancelled while it ran"))
        }
    };
    let reply = match stopped {
        Err(reply) => reply.unwrap_or_else(|_| Err(panicked())),
        Ok(reason) => {
            stop.cancel();
            // The tool gets a moment to end what it started and to report what it did. Whatever is
            // left then is dropped, which kills its processes.
            match tokio::time::timeout(engine.limits.stop_grace, &mut running).await {
                Ok(Ok(Ok(reply))) => Ok(reply),
                Ok(Ok(Err(error))) => Err(with_output_of(reason, error)),
                Ok(Err(_)) => Err(panicked()),
                Err(_) => Err(reason),
            }
        }
    };
    drop(running);
    guard.look_after_commands().await;
    call.facts.timings.ran = began.elapsed();
    call.recording.note(CallEvent::RunEnded);
    FinishedCall {
        planned: RunningCall { call, plan },
        reply,
        capture,
        confinement,
        audience,
        held,
    }
}

/// What a tool reaches beyond its workspace, all of it held to the plan.
fn guarded_world(guard: &Arc<Guard>) -> World {
    World {
        net: Arc::<Guard>::clone(guard),
        databases: Arc::<Guard>::clone(guard),
        messages: Arc::<Guard>::clone(guard),
        remote_tools: Arc::<Guard>::clone(guard),
    }
}

/// Runs the tool's own code. Dropping the future stops it at its next await.
///
/// A call that changes something gets a separate task: a tool that computes without ever awaiting
/// would otherwise block the clock that must stop it. Calls that only read run in the caller's
/// task, because a task costs more than a small read; their long computations belong on a pool of
/// the back end or the tool.
async fn execute(
    tool: Arc<dyn ErasedTool>,
    input: ParsedInput,
    context: CallContext<NoProgress>,
    effects: Effects,
) -> Result<ToolReply, ToolError> {
    let running = async move { tool.run(input, context).await };
    if !effects.is_mutating() {
        return running.await;
    }
    match AbortOnDropHandle::new(tokio::spawn(running)).await {
        Ok(reply) => reply,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(ToolError::new(ErrorKind::Cancelled, "the call was stopped")),
        },
    }
}

fn panicked() -> ToolError {
    ToolError::new(ErrorKind::Internal, "the tool panicked")
        .hint("this is a fault in the tool; the log has the detail")
}

/// The reason a call was stopped, with what the tool still managed to return.
fn with_output_of(mut reason: ToolError, mut error: ToolError) -> ToolError {
    let (content, structured) = error.take_output();
    for piece in content {
        reason = reason.with_content(piece);
    }
    match structured {
        Some(structured) => reason.with_structured(structured),
        None => reason,
    }
}

/// Forwards progress at a moderate rate, and keeps the call from counting as silent.
struct Throttled {
    recording: Arc<Recording>,
    clock: Arc<RunClock>,
    last: Mutex<Option<Instant>>,
}

impl Throttled {
    fn new(recording: &Arc<Recording>, clock: &Arc<RunClock>) -> Self {
        Self {
            recording: Arc::clone(recording),
            clock: Arc::clone(clock),
            last: Mutex::new(None),
        }
    }
}

impl ReportProgress for Throttled {
    fn report(&self, progress: RenderedProgress) {
        self.clock.sign_of_life();
        let now = Instant::now();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let due = last.is_none_or(|last| now.duration_since(last) >= PROGRESS_EVERY);
        // The report that says it is finished is never held back.
        if due || progress.percentage() == Some(100) {
            *last = Some(now);
            drop(last);
            self.recording.note(CallEvent::Progress(progress));
        }
    }
}
