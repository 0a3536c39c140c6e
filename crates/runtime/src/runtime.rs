//! The runtime: everything a call needs, and the ways to make one: a call or a batch here, and in
//! `acceptance.rs` a call that another process accepted.

use std::{collections::HashSet, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use haft_contract::{
    CallEvent, CallId, CallRequest, ErrorKind, Outcome, Principal, ProviderId, TenantId, ToolError,
    WorkspaceId,
    erased::{ErasedApprover, ErasedTool},
    host::{CallRecord, LedgerErrorKind},
    outcome::{DeniedBy, Facts},
    surface::NextStep,
};
use tokio_util::sync::CancellationToken;

use crate::{
    builder::RuntimeBuilder,
    call_stage::StageMark,
    engine::Engine,
    halt::cancelled,
    in_flight::{InFlightCall, ShutdownReport},
    input::RenamedParameters,
    loops::{DidRun, WatchedCall},
    pipeline::{self, CallState, DryRun, HaltedCall, OpenedCall, settle_halt},
    record::{Recording, SettleOnDrop},
    registry::{Entry, Registry, RegistryError, Snapshot},
    workspace::Workspace,
};

/// What a caller keeps of a call that runs: what stops it, who else is asked about it, and the tools it
/// is found among, if they are not those of its workspace.
pub(crate) struct CallerSide {
    cancel: CancellationToken,
    asker: Option<Arc<dyn ErasedApprover>>,
    tools: Option<Arc<Snapshot>>,
}

impl From<CancellationToken> for CallerSide {
    fn from(cancel: CancellationToken) -> Self {
        Self {
            cancel,
            asker: None,
            tools: None,
        }
    }
}

/// Runs tool calls. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Runtime {
    pub(crate) engine: Arc<Engine>,
}

impl Runtime {
    /// Starts building a runtime.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::new()
    }

    pub(crate) fn new(engine: Engine) -> Self {
        Self {
            engine: Arc::new(engine),
        }
    }

    /// The tools of the only workspace, for a host that has just one, now and as they change. With
    /// several, each [`Workspace`] has its own.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.engine.registry
    }

    /// Opens a workspace for a principal, or finds it open, for example to list its tools. A call
    /// does this itself.
    pub async fn workspace(
        &self,
        principal: &Principal,
        id: &WorkspaceId,
    ) -> Result<Arc<Workspace>, ToolError> {
        let never = CancellationToken::new();
        let workspace = self.engine.workspace(principal, id, &never).await;
        workspace.map_err(HaltedCall::into_error)
    }

    /// The tools that a principal is shown in the only workspace, for a host that has just one: not
    /// quarantined, and not denied for every input.
    pub fn tools_for(&self, principal: &Principal) -> Vec<Arc<Entry>> {
        let workspace = self.only_workspace(principal);
        workspace.map_or_else(Vec::new, |workspace| workspace.tools_for(principal))
    }

    /// Whether a principal is shown a tool in the only workspace, for a host that has just one.
    pub fn shows(&self, principal: &Principal, entry: &Entry) -> bool {
        let workspace = self.only_workspace(principal);
        workspace.is_some_and(|workspace| workspace.shows(principal, entry))
    }

    fn only_workspace(&self, principal: &Principal) -> Option<Arc<Workspace>> {
        let workspaces = &self.engine.workspaces;
        workspaces.opened(principal, &WorkspaceId::local())
    }

    /// Runs one call to its end. Dropping the future stops the call and settles it as cancelled.
    pub async fn call(&self, request: CallRequest) -> Arc<Outcome> {
        self.run(request, CancellationToken::new()).await
    }

    /// Runs one call to its end, or until the token is cancelled.
    pub async fn call_until(
        &self,
        request: CallRequest,
        cancel: CancellationToken,
    ) -> Arc<Outcome> {
        self.run(request, cancel.child_token()).await
    }

    /// As [`call_until`](Self::call_until), for a caller that takes the questions of its call itself:
    /// it is asked beside the workspace's approver, and the first answer counts. So there is somebody
    /// to ask even where the workspace has nobody.
    pub async fn call_asking(
        &self,
        request: CallRequest,
        cancel: CancellationToken,
        asker: Arc<dyn ErasedApprover>,
    ) -> Arc<Outcome> {
        let caller = CallerSide {
            asker: Some(asker),
            ..CallerSide::from(cancel.child_token())
        };
        self.run(request, caller).await
    }

    /// Runs one call of a tool that is in no registry, for what a person does through the host and no
    /// model may: the call takes every stage like any other, and the tool exists for it alone. The
    /// tool counts as built in, and must be called by its name.
    pub async fn call_apart(
        &self,
        request: CallRequest,
        tool: Arc<dyn ErasedTool>,
    ) -> Result<Arc<Outcome>, RegistryError> {
        let apart = Registry::new();
        apart.register(&ProviderId::builtin(), vec![tool])?;
        let caller = CallerSide {
            tools: Some(apart.snapshot()),
            ..CallerSide::from(CancellationToken::new())
        };
        Ok(self.run(request, caller).await)
    }

    /// Runs one call to its end with its own token. Accepts, claims and resumes it in one step,
    /// because no other process could claim it.
    async fn run(&self, mut request: CallRequest, caller: impl Into<CallerSide>) -> Arc<Outcome> {
        let caller = caller.into();
        let (call, cancel) = (request.id, caller.cancel.clone());
        let limits = &self.engine.limits;
        let tenant = &request.principal.tenant;
        // Dropping this future stops whatever the call has started.
        let place = match self.engine.in_flight.take(call, tenant, &cancel, limits) {
            Ok(place) => place,
            Err(refusal) => return Arc::new(settle_halt(call, refusal.halt())),
        };
        let stage = place.describe(&request, self.engine.clock.now());
        let workspace = self.workspace_of(&mut request, &cancel).await;
        let recording = match self.open(&request, stage, &cancel).await {
            Ok(recording) => recording,
            Err(halt) => return Arc::new(settle_halt(call, halt)),
        };
        self.walk(request, workspace, &recording, caller).await
    }

    /// Takes a recorded call that this process holds through every stage to its recorded outcome.
    pub(crate) async fn walk(
        &self,
        request: CallRequest,
        workspace: Result<Arc<Workspace>, HaltedCall>,
        recording: &Arc<Recording>,
        caller: impl Into<CallerSide>,
    ) -> Arc<Outcome> {
        let (call, mut caller) = (request.id, caller.into());
        let _settled = SettleOnDrop(Arc::clone(recording));
        let watched = self.engine.loops.watch(&request);
        let travelled = match workspace.and_then(|workspace| Ok((workspace.take()?, workspace))) {
            Ok((_here, workspace)) => {
                let tools = caller.tools.take();
                let mut opened =
                    self.opened(request, workspace, recording, caller, watched.clone());
                opened.call.apart = tools.is_some();
                opened.tools = tools.unwrap_or(opened.tools);
                AssertUnwindSafe(pipeline::run_call(opened))
                    .catch_unwind()
                    .await
            }
            Err(halt) => Ok(Err(halt)),
        };
        let (ran, mut outcome) = match travelled {
            Ok(Ok(outcome)) => (DidRun::Yes, outcome),
            Ok(Err(halt)) => (DidRun::Not, Arc::new(settle_halt(call, halt))),
            Err(_) => (DidRun::Not, Arc::new(settle_halt(call, broken()))),
        };
        if let Some(watched) = watched {
            // Nobody else has it yet, so this copies nothing.
            let outcome = Arc::make_mut(&mut outcome);
            self.engine.loops.settle(&watched, ran, outcome);
        }
        recording.settle(&outcome);
        self.until_durable(recording).await;
        outcome
    }

    /// Plans a call and decides about it, as [`Runtime::call`] would now, and goes no further:
    /// nothing runs, nothing is recorded, nobody is asked, and no listener is notified. A call that
    /// ends before it is decided has the outcome it would have had.
    pub async fn plan(&self, mut request: CallRequest) -> Result<DryRun, Arc<Outcome>> {
        let (call, cancel) = (request.id, CancellationToken::new());
        let ended = |halt| Arc::new(settle_halt(call, halt));
        let (tenant, limits) = (&request.principal.tenant, &self.engine.limits);
        let taken = self.engine.in_flight.take(call, tenant, &cancel, limits);
        let _place = taken.map_err(|refusal| ended(refusal.halt()))?;
        let workspace = self.workspace_of(&mut request, &cancel).await;
        let workspace = workspace.map_err(ended)?;
        let recording = Recording::of_dry_run(&request, Arc::clone(&self.engine.clock));
        // The loop guard judges this call too; only settled calls count towards its limits.
        let watched = self.engine.loops.watch(&request);
        let opened = self.opened(
            request,
            workspace,
            &Arc::new(recording),
            cancel.into(),
            watched,
        );
        let foreseen = AssertUnwindSafe(pipeline::foresee(opened)).catch_unwind();
        foreseen
            .await
            .unwrap_or_else(|_| Err(broken()))
            .map_err(ended)
    }

    /// Runs calls concurrently, as far as their accesses allow, and returns their outcomes in the
    /// order of the calls. A failing call never stops another.
    pub async fn batch(&self, requests: Vec<CallRequest>) -> Vec<Arc<Outcome>> {
        self.batch_until(requests, CancellationToken::new()).await
    }

    /// Runs a batch to its end, or until the token is cancelled.
    pub async fn batch_until(
        &self,
        requests: Vec<CallRequest>,
        cancel: CancellationToken,
    ) -> Vec<Arc<Outcome>> {
        let mut tasks = tokio::task::JoinSet::new();
        let mut outcomes: Vec<Arc<Outcome>> = Vec::with_capacity(requests.len());
        for (index, request) in requests.into_iter().enumerate() {
            // Replaced below by the actual outcome; stays only if the task itself is lost.
            outcomes.push(Arc::new(settle_halt(request.id, broken())));
            let (runtime, cancel) = (self.clone(), cancel.child_token());
            tasks.spawn(async move { (index, runtime.run(request, cancel).await) });
        }
        while let Some(joined) = tasks.join_next().await {
            if let Ok((index, outcome)) = joined
                && let Some(place) = outcomes.get_mut(index)
            {
                *place = outcome;
            }
        }
        outcomes
    }

    /// Stops a call that is in flight. Returns whether it was.
    pub fn cancel(&self, call: CallId) -> bool {
        self.engine.in_flight.cancel(call)
    }

    /// How many calls are in flight.
    pub fn in_flight(&self) -> usize {
        self.engine.in_flight.len()
    }

    /// Which calls are in flight, the oldest first. A call that is only planned is none.
    pub fn calls_in_flight(&self) -> Vec<InFlightCall> {
        self.engine.in_flight.list()
    }

    /// The workspaces, with whose they are, in which calls are in flight or kept processes run.
    pub fn workspaces_at_work(&self) -> HashSet<(TenantId, WorkspaceId)> {
        let calls = self.engine.in_flight.list().into_iter();
        let calls = calls.map(|call| (call.principal.tenant.clone(), call.workspace));
        calls.chain(self.engine.processes.places()).collect()
    }

    /// How many questions the calls of this process wait on.
    pub fn open_questions(&self) -> usize {
        self.engine.asking.open()
    }

    /// How many kept processes are still running.
    pub fn processes(&self) -> usize {
        self.engine.processes.running()
    }

    /// Ends every process that a session keeps, with everything they started, within two seconds,
    /// and withdraws its open questions and unused approvals. For a host that knows a conversation
    /// is over.
    pub async fn end_session(&self, principal: &Principal) {
        let now = self.engine.clock.now();
        let approvals = self.engine.ledger.approvals();
        let ended = approvals.end_session(&principal.tenant, &principal.session, now);
        if let Err(error) = ended.await {
            tracing::warn!(%error, "open questions of an ended session could not be withdrawn");
        }
        warn_of(self.engine.processes.end_session(principal).await);
    }

    /// Refuses further calls, stops those in flight and waits until they have ended and are
    /// recorded; then ends every process of every session and makes the record durable. For a host
    /// that shuts down: what a call told its caller is then what the record says.
    pub async fn shut_down(&self) -> Result<(), haft_contract::host::LedgerError> {
        let (_, flushed) = self.shut_down_within(Duration::ZERO).await;
        flushed
    }

    /// As [`Self::shut_down`], but calls that end within the grace are not stopped. Says which were,
    /// and whether the record could be made durable.
    pub async fn shut_down_within(
        &self,
        grace: Duration,
    ) -> (ShutdownReport, Result<(), haft_contract::host::LedgerError>) {
        let limits = &self.engine.limits;
        // A stopped tool is dropped after the first limit, waiting for its settlement ends after
        // the second.
        let wait = limits.stop_grace.saturating_add(limits.settle_wait);
        let report = self.engine.in_flight.shut_down(grace, wait).await;
        if report.left > 0 {
            tracing::warn!(left = report.left, "calls did not end in time");
        }
        self.end_processes().await;
        let flushed = self.flush().await;
        (report, flushed)
    }

    /// Ends every process of every session. No more are kept from then on: a host that shuts down
    /// calls this last. Dropping the runtime ends them too, but does not wait.
    pub async fn end_processes(&self) {
        warn_of(self.engine.processes.end_all().await);
    }

    /// Waits until everything recorded so far is durable.
    pub async fn flush(&self) -> Result<(), haft_contract::host::LedgerError> {
        self.engine.ledger.flush().await
    }

    /// Returns the result of a call that changed something once it is recorded. If the store fails
    /// now, the effect is done and the result is still useful; the record then says `unknown`,
    /// which is all it knows.
    async fn until_durable(&self, recording: &Recording) {
        if !recording.changes_something() {
            return;
        }
        match tokio::time::timeout(self.engine.limits.settle_wait, recording.settled()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "a settlement could not be recorded"),
            Err(_) => tracing::error!("a settlement was not recorded in time"),
        }
    }

    /// Opens the call's record, which may wait for earlier writes.
    async fn open(
        &self,
        request: &CallRequest,
        stage: StageMark,
        cancel: &CancellationToken,
    ) -> Result<Arc<Recording>, HaltedCall> {
        let engine = &self.engine;
        let opened = tokio::select! {
            biased;
            opened = engine.ledger.open(request, engine.clock.now()) => opened,
            () = cancel.cancelled() => {
                return Err(HaltedCall::before_anything(cancelled()));
            }
        };
        match opened {
            Ok(record) => Ok(self.recording(request, record, stage)),
            Err(error) => {
                let message = format!("the call cannot be recorded, so it is not run: {error}");
                let hint = match error.kind() {
                    LedgerErrorKind::LimitExceeded => {
                        "repeat the call when fewer are in flight".to_owned()
                    }
                    LedgerErrorKind::Unavailable
                    | LedgerErrorKind::NotFound
                    | LedgerErrorKind::Conflict
                    | LedgerErrorKind::ReadMore
                    | LedgerErrorKind::Superseded
                    | LedgerErrorKind::Over
                    | LedgerErrorKind::Corrupt => NextStep::CheckRecord.text(),
                };
                let error = ToolError::new(ErrorKind::Unavailable, message).hint(hint);
                let mut facts = Facts::default();
                facts.denied_by = Some(DeniedBy::Ledger);
                Err(HaltedCall::new(error, None, facts))
            }
        }
    }

    /// The recording of a call whose record is open.
    pub(crate) fn recording(
        &self,
        request: &CallRequest,
        record: Box<dyn CallRecord>,
        stage: StageMark,
    ) -> Arc<Recording> {
        let engine = &self.engine;
        let (clock, listeners) = (Arc::clone(&engine.clock), Arc::clone(&engine.listeners));
        let recording = Recording::new(request, clock, listeners, record, stage);
        recording.note(CallEvent::Opened {
            workspace: request.workspace.clone(),
        });
        Arc::new(recording)
    }

    /// The workspace a request names. From here on the request contains the id under which
    /// everything is stored, even if it left that to the host.
    pub(crate) async fn workspace_of(
        &self,
        request: &mut CallRequest,
        cancel: &CancellationToken,
    ) -> Result<Arc<Workspace>, HaltedCall> {
        let named = &request.workspace;
        let opened = self.engine.workspace(&request.principal, named, cancel);
        let workspace = opened.await?;
        request.workspace = workspace.id().clone();
        Ok(workspace)
    }

    fn opened(
        &self,
        request: CallRequest,
        workspace: Arc<Workspace>,
        recording: &Arc<Recording>,
        caller: CallerSide,
        watched: Option<Arc<WatchedCall>>,
    ) -> OpenedCall {
        OpenedCall {
            tools: workspace.registry.snapshot(),
            call: Box::new(CallState {
                engine: Arc::clone(&self.engine),
                rules: workspace.rules.current(),
                workspace,
                recording: Arc::clone(recording),
                id: request.id,
                principal: request.principal,
                timeout: request.timeout,
                cancel: caller.cancel,
                asker: caller.asker,
                watched,
                session: None,
                beyond_budget: false,
                left_out: Arc::default(),
                withheld: Arc::default(),
                tool: None,
                apart: false,
                facts: Facts::default(),
                renamed: RenamedParameters::default(),
                notes: Vec::new(),
            }),
            name: request.tool,
            arguments: request.arguments,
        }
    }
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime")
            .field("in_flight", &self.in_flight())
            .finish_non_exhaustive()
    }
}

fn warn_of(left: usize) {
    if left > 0 {
        tracing::warn!(left, "kept processes did not end in time");
    }
}

fn broken() -> HaltedCall {
    let error = ToolError::new(ErrorKind::Internal, "the runtime broke down on this call")
        .hint("this is a fault in Haft; the log has the detail");
    HaltedCall::before_anything(error)
}
