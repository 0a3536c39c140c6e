//! The runtime: everything a call needs, and the two ways in, one call or a batch.

use std::{collections::HashMap, panic::AssertUnwindSafe, sync::Arc};

use futures::FutureExt as _;
use haft_contract::{
    AgentId, CallEvent, CallId, CallRequest, ErrorKind, Outcome, Principal, ToolError, WorkspaceId,
    egress::EgressRules,
    erased::ErasedApprover,
    event::EventSink,
    host::{Clock, Executor, Hook, Ledger, LedgerErrorKind, Policy},
    ops::{Operations, SandboxMode, Tier},
    outcome::{DeniedBy, Facts},
};
use tokio_util::sync::CancellationToken;

use crate::{
    asking::Asking,
    background::Processes,
    builder::RuntimeBuilder,
    in_flight::InFlight,
    labels::Sessions,
    limits::Limits,
    locks::Locks,
    loops::{Loops, Ran, Watched},
    pipeline::{self, DryRun, Halt, Luggage, Opened, settle_halt},
    record::{Recording, SettleOnDrop},
    registry::{Entry, Registry},
};

/// Runs tool calls. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Runtime {
    inner: Arc<Inner>,
}

/// What all clones of a runtime share.
pub(crate) struct Inner {
    pub(crate) registry: Arc<Registry>,
    pub(crate) workspace_id: WorkspaceId,
    pub(crate) operations: Operations,
    pub(crate) policy: Arc<dyn Policy>,
    pub(crate) approver: Arc<dyn ErasedApprover>,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) hooks: Vec<Arc<dyn Hook>>,
    pub(crate) sinks: Arc<[Arc<dyn EventSink>]>,
    pub(crate) sandbox: HashMap<String, SandboxMode>,
    pub(crate) egress: Egress,
    pub(crate) limits: Limits,
    pub(crate) locks: Locks,
    pub(crate) loops: Loops,
    pub(crate) sessions: Sessions,
    pub(crate) processes: Processes,
    pub(crate) asking: Asking,
    pub(crate) in_flight: InFlight,
}

/// Which hosts sandboxed children may reach.
#[derive(Default)]
pub(crate) struct Egress {
    pub(crate) of_all: Option<Arc<EgressRules>>,
    pub(crate) of_agents: HashMap<AgentId, Arc<EgressRules>>,
}

impl Inner {
    /// Whether a request names this workspace; one that names none in particular does from now on.
    fn names_this(&self, request: &mut CallRequest) -> Result<(), Halt> {
        if request.workspace == WorkspaceId::local() {
            request.workspace = self.workspace_id.clone();
        }
        if request.workspace == self.workspace_id {
            return Ok(());
        }
        let message = format!("there is no workspace `{}` here", request.workspace);
        let error = ToolError::new(ErrorKind::Denied, message);
        Err(Halt::new(error, None, Facts::default()).denied_by(DeniedBy::Workspace))
    }

    /// The confinement a tool's processes need: what the operator configured, or the tool's own
    /// default.
    pub(crate) fn sandbox_mode(&self, entry: &Entry) -> SandboxMode {
        let configured = self.sandbox.get(entry.key().tool.as_str());
        configured.copied().unwrap_or(entry.spec().sandbox)
    }

    /// The hosts a child of this principal may reach. None on the host, where nothing could keep it
    /// to them, and none in T1, which has no network.
    pub(crate) fn egress_of(&self, principal: &Principal, tier: Tier) -> Option<Arc<EgressRules>> {
        match tier {
            Tier::T2 | Tier::T3 => self
                .egress
                .of_agents
                .get(&principal.agent)
                .or(self.egress.of_all.as_ref())
                .cloned(),
            Tier::Host | Tier::T1 | Tier::InProcess => None,
        }
    }
}

impl Runtime {
    /// Starts building a runtime.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::new()
    }

    pub(crate) fn new(inner: Inner) -> Self {
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The tools, as they are now and as they change.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.inner.registry
    }

    /// The tools that a principal is shown: not quarantined, and not denied whatever the input.
    pub fn tools_for(&self, principal: &Principal) -> Vec<Arc<Entry>> {
        let tools = self.inner.registry.snapshot();
        let tools = tools.page(0, tools.len()).iter();
        let shown = tools.filter(|entry| self.shows(principal, entry));
        shown.map(Arc::clone).collect()
    }

    /// Whether a principal is shown a tool: not quarantined, and not denied whatever the input.
    pub fn shows(&self, principal: &Principal, entry: &Entry) -> bool {
        entry.is_shown_to(principal, &*self.inner.policy)
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

    /// Runs one call to its end with a token of its own.
    async fn run(&self, mut request: CallRequest, cancel: CancellationToken) -> Arc<Outcome> {
        let call = request.id;
        let limit = self.inner.limits.calls_in_flight;
        let _place = match self.inner.in_flight.take(call, &cancel, limit) {
            Ok(place) => place,
            Err(refusal) => return Arc::new(settle_halt(call, refusal.halt())),
        };
        // Dropping this future stops whatever the call has started.
        let _stop = cancel.clone().drop_guard();
        let here = self.inner.names_this(&mut request);
        let recording = match self.open(&request, &cancel).await {
            Ok(recording) => recording,
            Err(halt) => return Arc::new(settle_halt(call, halt)),
        };
        let _settled = SettleOnDrop(Arc::clone(&recording));
        let watched = self.inner.loops.watch(&request);
        let opened = self.opened(request, &recording, cancel, watched.clone());
        let travelled = match here {
            Ok(()) => {
                AssertUnwindSafe(pipeline::travel(opened))
                    .catch_unwind()
                    .await
            }
            Err(halt) => Ok(Err(halt)),
        };
        let (ran, mut outcome) = match travelled {
            Ok(Ok(outcome)) => (Ran::Yes, outcome),
            Ok(Err(halt)) => (Ran::Not, settle_halt(call, halt)),
            Err(_) => (Ran::Not, settle_halt(call, broken())),
        };
        if let Some(watched) = watched {
            self.inner.loops.settle(&watched, ran, &mut outcome);
        }
        let outcome = Arc::new(outcome);
        recording.settle(&outcome);
        self.until_durable(&recording).await;
        outcome
    }

    /// Plans a call and decides about it, as [`Runtime::call`] would now, and goes no further:
    /// nothing runs, nothing is recorded, nobody is asked, and no listener hears of it. A call that
    /// ends before it is decided has the outcome it would have had.
    pub async fn plan(&self, mut request: CallRequest) -> Result<DryRun, Arc<Outcome>> {
        let (call, cancel) = (request.id, CancellationToken::new());
        let ended = |halt| Arc::new(settle_halt(call, halt));
        let limit = self.inner.limits.calls_in_flight;
        let taken = self.inner.in_flight.take(call, &cancel, limit);
        let _place = taken.map_err(|refusal| ended(refusal.halt()))?;
        self.inner.names_this(&mut request).map_err(ended)?;
        let recording = Recording::of_dry_run(call, Arc::clone(&self.inner.clock));
        // The loop guard judges this call too; only a call that is settled counts for it.
        let watched = self.inner.loops.watch(&request);
        let opened = self.opened(request, &Arc::new(recording), cancel, watched);
        let foreseen = AssertUnwindSafe(pipeline::foresee(opened)).catch_unwind();
        foreseen
            .await
            .unwrap_or_else(|_| Err(broken()))
            .map_err(ended)
    }

    /// Runs calls side by side, as far as what they touch lets them, and returns their outcomes in
    /// the order of the calls. One that fails never stops another.
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
            // Replaced below by what really happened; stands only if the task itself is lost.
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

    /// Stops a call that is in flight. Whether there was one.
    pub fn cancel(&self, call: CallId) -> bool {
        self.inner.in_flight.cancel(call)
    }

    /// How many calls are in flight.
    pub fn in_flight(&self) -> usize {
        self.inner.in_flight.len()
    }

    /// How many questions calls of this process wait on.
    pub fn open_questions(&self) -> usize {
        self.inner.asking.open()
    }

    /// How many processes sessions keep that have not ended.
    pub fn processes(&self) -> usize {
        self.inner.processes.running()
    }

    /// Ends every process that a session keeps, with everything they started, within two seconds,
    /// and takes back its open questions and unused approvals. For whoever knows that a
    /// conversation is over.
    pub async fn end_session(&self, principal: &Principal) {
        let now = self.inner.clock.now();
        let approvals = self.inner.ledger.approvals();
        let ended = approvals.end_session(&principal.tenant, &principal.session, now);
        if let Err(error) = ended.await {
            tracing::warn!(%error, "open questions of an ended session could not be taken back");
        }
        warn_of(self.inner.processes.end_session(principal).await);
    }

    /// Refuses further calls, stops those in flight and waits until they have ended and are on
    /// record; then ends every process of every session and makes the record durable. For a host
    /// that goes away: what a call says to its caller is then what the record says.
    pub async fn shut_down(&self) -> Result<(), haft_contract::host::LedgerError> {
        let limits = &self.inner.limits;
        // A stopped tool is dropped after the one, its settlement given up after the other.
        let wait = limits.stop_grace.saturating_add(limits.settle_wait);
        let left = self.inner.in_flight.shut_down(wait).await;
        if left > 0 {
            tracing::warn!(left, "calls did not end in time");
        }
        self.end_processes().await;
        self.flush().await
    }

    /// Ends every process of every session. No more are kept from then on: a runtime whose host
    /// goes away calls this last. Dropping the runtime ends them too, and does not wait for it.
    pub async fn end_processes(&self) {
        warn_of(self.inner.processes.end_all().await);
    }

    /// Waits until everything recorded so far is durable.
    pub async fn flush(&self) -> Result<(), haft_contract::host::LedgerError> {
        self.inner.ledger.flush().await
    }

    /// The result of a call that changed something is given back once it is on record. If the
    /// store fails now, the effect is done and the result is still worth having; the record then
    /// says `unknown`, which is what it knows.
    async fn until_durable(&self, recording: &Recording) {
        if !recording.changes_something() {
            return;
        }
        match tokio::time::timeout(self.inner.limits.settle_wait, recording.settled()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "a settlement could not be recorded"),
            Err(_) => tracing::error!("a settlement was not recorded in time"),
        }
    }

    /// Takes the call into the record, which may wait for what is to be written before it.
    async fn open(
        &self,
        request: &CallRequest,
        cancel: &CancellationToken,
    ) -> Result<Arc<Recording>, Halt> {
        let inner = &self.inner;
        let opened = tokio::select! {
            biased;
            opened = inner.ledger.open(request, inner.clock.now()) => opened,
            () = cancel.cancelled() => {
                return Err(Halt::new(pipeline::cancelled(), None, Facts::default()));
            }
        };
        match opened {
            Ok(record) => {
                let recording = Recording::new(
                    request.id,
                    Arc::clone(&inner.clock),
                    Arc::clone(&inner.sinks),
                    record,
                );
                recording.note(CallEvent::Opened {
                    workspace: request.workspace.clone(),
                });
                Ok(Arc::new(recording))
            }
            Err(error) => {
                let message = format!("the call cannot be recorded, so it is not run: {error}");
                let hint = match error.kind() {
                    LedgerErrorKind::LimitExceeded => "repeat the call when fewer are in flight",
                    LedgerErrorKind::Unavailable
                    | LedgerErrorKind::NotFound
                    | LedgerErrorKind::Conflict
                    | LedgerErrorKind::ReadMore
                    | LedgerErrorKind::Corrupt => "`haft doctor` checks the ledger",
                };
                let error = ToolError::new(ErrorKind::Unavailable, message).hint(hint);
                let facts = Facts {
                    denied_by: Some(DeniedBy::Ledger),
                    ..Facts::default()
                };
                Err(Halt::new(error, None, facts))
            }
        }
    }

    fn opened(
        &self,
        request: CallRequest,
        recording: &Arc<Recording>,
        cancel: CancellationToken,
        watched: Option<Arc<Watched>>,
    ) -> Opened {
        Opened {
            luggage: Box::new(Luggage {
                runtime: Arc::clone(&self.inner),
                recording: Arc::clone(recording),
                call: request.id,
                principal: request.principal,
                timeout: request.timeout,
                cancel,
                watched,
                session: None,
                left_out: Arc::default(),
                tool: None,
                facts: Facts::default(),
                notes: Vec::new(),
            }),
            tools: self.inner.registry.snapshot(),
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

fn broken() -> Halt {
    let error = ToolError::new(ErrorKind::Internal, "the runtime broke down on this call")
        .hint("this is a fault in Haft; the log has the detail");
    Halt::new(error, None, Facts::default())
}
