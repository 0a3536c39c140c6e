//! Runs the tool, under its deadline and its cancel token. The result is always a [`FinishedCall`],
//! whatever happens: a panic, a deadline, a cancel, a tool that does not stop.

use std::{
    future::{poll_fn, ready},
    panic::AssertUnwindSafe,
    sync::{Arc, OnceLock},
    task::Poll,
    time::Duration,
};

use futures_util::FutureExt as _;
use haft_contract::{
    BoxFuture, CallContext, CallEvent, Effects, ErrorKind, ToolError,
    context::{CallParts, RunLimits as _},
    erased::{ErasedTool, ParsedInput, ToolReply},
    ops::World,
    progress::NoProgress,
    spec::Audience,
};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::{
    PlannedCall, StartedCall,
    ask_person::PersonOfCall,
    denied_addresses::denied_addresses,
    reports::{ItemCaps, RunReports},
};
use crate::{
    capture::Capture,
    deadline::RunClock,
    guard::{Guard, changes::ChangeWatch, confinement::Confinement},
    locks::HeldLocks,
};

/// A call whose tool has ended, in whatever way.
pub struct FinishedCall {
    pub(super) planned: RunningCall,
    pub(super) reply: Result<ToolReply, ToolError>,
    /// What the tool put out.
    pub(super) reports: Arc<RunReports>,
    /// Knows what the sandbox did to the call's children.
    pub(super) guard: Arc<Guard>,
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
    let StartedCall { planned, held } = started;
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
    let capture = Capture::new(
        Arc::clone(&call.recording),
        engine.ledger.artifacts_of(&call.principal.tenant),
        engine.limits.output,
    );
    let clock = RunClock::start(plan.deadline(), idle);
    let items = ItemCaps::of(entry.spec(), &engine.limits);
    let reports = Arc::new(RunReports::new(capture, clock, items, call.cancel.clone()));
    let guard = Arc::new(Guard {
        engine: Arc::clone(&engine),
        workspace: Arc::clone(&call.workspace),
        plan: Arc::clone(&plan),
        withheld: Arc::clone(&call.withheld),
        denied_addresses: denied_addresses(&call, &entry, &plan),
        principal: Arc::clone(&call.principal),
        recording: Arc::clone(&call.recording),
        session: call.session.clone(),
        confinement: Confinement::default(),
        changes: ChangeWatch::default(),
        left_out: Arc::clone(&call.left_out),
        past: OnceLock::new(),
    });
    let context = CallContext::new(CallParts {
        call: call.id,
        principal: Arc::clone(&call.principal),
        root: Arc::clone(&call.workspace.operations.root),
        tier: plan.tier(),
        files: Arc::<Guard>::clone(&guard),
        processes: Arc::<Guard>::clone(&guard),
        search: Arc::<Guard>::clone(&guard),
        repository: Arc::<Guard>::clone(&guard),
        world: guarded_world(&guard),
        claims: Arc::<Guard>::clone(&guard),
        spilled: Arc::<Guard>::clone(&guard),
        background: Arc::<Guard>::clone(&guard),
        todo: Arc::<Guard>::clone(&guard),
        memory: Arc::<Guard>::clone(&guard),
        person: Arc::new(PersonOfCall::new(&guard, &reports)),
        seen: Arc::<Guard>::clone(&guard),
        past: Arc::<Guard>::clone(&guard),
        output: Arc::<RunReports>::clone(&reports),
        progress: Arc::<RunReports>::clone(&reports),
        items: Arc::<RunReports>::clone(&reports),
        limits: Arc::<RunReports>::clone(&reports),
    });
    call.recording.note(CallEvent::Running);
    let began = Instant::now();
    let running = execute(entry.tool(), parsed, context, plan.effects());
    // Whoever drops it stops the tool.
    let mut running = AssertUnwindSafe(running).catch_unwind();
    let reply = match poll_fn(|cx| Poll::Ready(running.poll_unpin(cx))).await {
        Poll::Ready(reply) => reply.unwrap_or_else(|_| Err(panicked())),
        // A tool that does not wait needs no timer, and does not carry the size of one.
        Poll::Pending => {
            let grace = engine.limits.stop_grace;
            Box::pin(until_stopped(
                &mut running,
                &reports,
                plan.deadline(),
                grace,
            ))
            .await
        }
    };
    drop(running);
    if !guard.changes.is_idle() {
        Box::pin(guard.look_after_commands()).await;
    }
    let asked = reports.clock.held();
    call.facts.timings.asked += asked;
    call.facts.timings.ran = began.elapsed().saturating_sub(asked);
    if let Some(by) = reports.not_asked.get() {
        call.facts.denied_by = Some(*by);
    }
    call.recording.note(CallEvent::RunEnded);
    FinishedCall {
        planned: RunningCall { call, plan },
        reply,
        reports,
        guard,
        audience,
        held,
    }
}

/// Waits for the tool's reply, or until the tool must stop; then it may take as long as the grace
/// time to end.
async fn until_stopped(
    mut running: impl Future<Output = std::thread::Result<Result<ToolReply, ToolError>>> + Unpin,
    reports: &RunReports,
    deadline: Duration,
    grace: Duration,
) -> Result<ToolReply, ToolError> {
    let reason = tokio::select! {
        biased;
        reply = &mut running => return reply.unwrap_or_else(|_| Err(panicked())),
        () = reports.clock.expired() => ToolError::new(
            ErrorKind::TimedOut,
            format!("the call was stopped after {:.1} s", deadline.as_secs_f64()),
        )
        .hint("ask for a longer time, or split the work"),
        () = reports.cancel.cancelled() => {
            ToolError::new(ErrorKind::Cancelled, "the call was cancelled while it ran")
        }
        never = reports.keep_notes() => match never {},
    };
    reports.cancel().cancel();
    // The tool gets a moment to end what it started and to report what it did. Whatever is left then
    // is dropped, which kills its processes.
    match tokio::time::timeout(grace, &mut running).await {
        Ok(Ok(Ok(reply))) => Ok(reply),
        Ok(Ok(Err(error))) => Err(with_output_of(reason, error)),
        Ok(Err(_)) => Err(panicked()),
        Err(_) => Err(reason),
    }
}

/// What a tool reaches beyond its workspace, all of it held to the plan.
fn guarded_world(guard: &Arc<Guard>) -> World {
    World {
        net: Arc::<Guard>::clone(guard),
        documents: Arc::<Guard>::clone(guard),
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
fn execute(
    tool: &Arc<dyn ErasedTool>,
    input: ParsedInput,
    context: CallContext<NoProgress>,
    effects: Effects,
) -> BoxFuture<'_, Result<ToolReply, ToolError>> {
    if !effects.is_mutating() {
        // A tool may panic before it returns its future.
        let running = AssertUnwindSafe(|| tool.run(input, context));
        return std::panic::catch_unwind(running)
            .unwrap_or_else(|_| Box::pin(ready(Err(panicked()))));
    }
    let tool = Arc::clone(tool);
    Box::pin(async move {
        let running = async move { tool.run(input, context).await };
        match AbortOnDropHandle::new(tokio::spawn(running)).await {
            Ok(reply) => reply,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(ToolError::new(ErrorKind::Cancelled, "the call was stopped")),
            },
        }
    })
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
