//! Builds a runtime. Whatever guards a call has no default: a back end, a policy and a ledger must
//! be given.

use std::{collections::HashMap, sync::Arc};

use haft_contract::{
    AgentId, ProviderId, ToolKey, WorkspaceId,
    egress::EgressRules,
    erased::{ErasedApprover, ErasedTool, IntoTool},
    event::EventSink,
    host::{Approver, Clock, Hook, Ledger, Policy},
    name::NameError,
    ops::{Operations, SandboxMode},
};

use crate::{
    background::Processes,
    clock::SystemClock,
    contained_listener::ContainedListener,
    engine::Engine,
    host_events::Listeners,
    in_flight::InFlight,
    labels::SessionLabels,
    limits::Limits,
    locks::Locks,
    loops::{LoopGuard, Loops},
    no_record::NoRecord,
    nobody::NobodyToAsk,
    pending_questions::PendingQuestions,
    registry::{Registry, RegistryError, Timeouts},
    rules::{RulesInForce, WorkspaceRules},
    runtime::Runtime,
    workspace::{HostAccess, OneWorkspace, Workspace, WorkspaceBuilder, Workspaces},
};

/// Makes a source of workspaces from the first of them.
type MakeSupplier = Box<dyn FnOnce(Arc<Workspace>) -> Arc<dyn Workspaces> + Send + Sync>;

/// Builds a [`Runtime`].
pub struct RuntimeBuilder {
    workspaces: Option<Arc<dyn Workspaces>>,
    workspace_id: Option<WorkspaceId>,
    operations: Option<Operations>,
    supplied: Option<MakeSupplier>,
    rules: Option<Arc<RulesInForce>>,
    ledger: Option<Arc<dyn Ledger>>,
    approver: Arc<dyn ErasedApprover>,
    clock: Arc<dyn Clock>,
    hooks: Vec<Arc<dyn Hook>>,
    sinks: Vec<Arc<dyn EventSink>>,
    sandbox: HashMap<String, SandboxMode>,
    egress: HostAccess,
    limits: Limits,
    timeouts: Timeouts,
    loop_guard: LoopGuard,
    tools: Vec<(ProviderId, Vec<Arc<dyn ErasedTool>>)>,
    refused: Option<NameError>,
}

/// Why a runtime could not be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Both a single workspace's operations and a source of many workspaces were given.
    #[error("a runtime serves one workspace or many: give operations, or `workspaces`")]
    OneAndMany,
    /// Something that guards a call is missing.
    #[error("a runtime needs {0}")]
    Missing(&'static str),
    /// A tool's name is not valid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Two tools have the same name.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// No model could use a tool, whatever the rules say.
    #[error("no model could use the tool `{tool}`: {reason}")]
    UnusableTool {
        /// The tool.
        tool: ToolKey,
        /// What is wrong with its input.
        reason: String,
    },
}

impl BuildError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::OneAndMany | Self::Missing(_) => "give the builder what it needs, and no more",
            Self::Name(_) | Self::Registry(_) => "give every tool a name of its own",
            Self::UnusableTool { .. } => {
                "make its input a struct, or an enum with a tag (`#[serde(tag = \"action\")]`) \
                 whose variants have fields"
            }
        }
    }
}

impl RuntimeBuilder {
    pub(crate) fn new() -> Self {
        Self {
            workspaces: None,
            workspace_id: None,
            operations: None,
            supplied: None,
            rules: None,
            ledger: None,
            approver: Arc::new(NobodyToAsk::default()),
            clock: Arc::new(SystemClock),
            hooks: Vec::new(),
            sinks: Vec::new(),
            sandbox: HashMap::new(),
            egress: HostAccess::default(),
            limits: Limits::default(),
            timeouts: Timeouts::new(),
            loop_guard: LoopGuard::default(),
            tools: Vec::new(),
            refused: None,
        }
    }

    /// Serves many workspaces. Each then has its own operations, policy, approver, tools,
    /// confinement and hosts, which cannot be set here.
    #[must_use]
    pub fn workspaces(mut self, workspaces: Arc<dyn Workspaces>) -> Self {
        self.workspaces = Some(workspaces);
        self
    }

    /// The id of the only workspace. The default is derived from its root.
    #[must_use]
    pub fn workspace_id(mut self, id: WorkspaceId) -> Self {
        self.workspace_id = Some(id);
        self
    }

    /// The only workspace and its back end.
    #[must_use]
    pub fn operations(mut self, operations: Operations) -> Self {
        self.operations = Some(operations);
        self
    }

    /// Serves others beside the workspace of [`operations`](Self::operations), from a source that
    /// is made from it. [`Workspace::over`] makes one with the same tools and rules.
    #[must_use]
    pub fn supplied_by(
        mut self,
        make: impl FnOnce(Arc<Workspace>) -> Arc<dyn Workspaces> + Send + Sync + 'static,
    ) -> Self {
        self.supplied = Some(Box::new(make));
        self
    }

    /// Who may do what.
    #[must_use]
    pub fn policy(self, policy: Arc<dyn Policy>) -> Self {
        self.rules(Arc::new(RulesInForce::new(WorkspaceRules::new(policy))))
    }

    /// Who may do what, by a host that keeps its rules to replace them.
    #[must_use]
    pub fn rules(mut self, rules: Arc<RulesInForce>) -> Self {
        self.rules = Some(rules);
        self
    }

    /// Where calls are recorded.
    #[must_use]
    pub fn ledger(mut self, ledger: Arc<dyn Ledger>) -> Self {
        self.ledger = Some(ledger);
        self
    }

    /// Keeps no record, for hosts that only plan calls and list tools: a call that cannot be
    /// recorded does not run.
    #[must_use]
    pub fn without_record(self) -> Self {
        self.ledger(Arc::new(NoRecord))
    }

    /// Who is asked. Without an approver, every call that would ask is denied.
    #[must_use]
    pub fn approver(mut self, approver: impl Approver) -> Self {
        self.approver = Arc::new(approver);
        self
    }

    /// Replaces the machine's clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Adds a hook. Hooks are called in the order they were added.
    #[must_use]
    pub fn hook(mut self, hook: Arc<dyn Hook>) -> Self {
        self.hooks.push(hook);
        self
    }

    /// Adds a listener that sees every event of every call as it happens. One that panics is logged
    /// once and gets no further events; no call ends otherwise because of it.
    #[must_use]
    pub fn events(mut self, sink: Arc<dyn EventSink>) -> Self {
        self.sinks.push(Arc::new(ContainedListener::new(sink)));
        self
    }

    /// Sets the confinement of a tool's child processes.
    #[must_use]
    pub fn sandbox(mut self, tool: impl Into<String>, mode: SandboxMode) -> Self {
        self.sandbox.insert(tool.into(), mode);
        self
    }

    /// Lets sandboxed child processes reach some hosts. Without this they have no network.
    #[must_use]
    pub fn egress(mut self, rules: EgressRules) -> Self {
        self.egress.of_all = Some(Arc::new(rules));
        self
    }

    /// Lets the child processes of one agent reach these hosts, instead of the general ones.
    #[must_use]
    pub fn egress_for(mut self, agent: AgentId, rules: EgressRules) -> Self {
        self.egress.of_agents.insert(agent, Arc::new(rules));
        self
    }

    /// Sets the caps.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets how long calls run that ask for no other time, instead of what their tools say.
    #[must_use]
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// Sets after how many repetitions a session is warned and a person is asked.
    #[must_use]
    pub fn loop_guard(mut self, loop_guard: LoopGuard) -> Self {
        self.loop_guard = loop_guard;
        self
    }

    /// Adds one of the embedder's own tools.
    #[must_use]
    pub fn tool(mut self, tool: impl IntoTool) -> Self {
        match tool.into_tool() {
            Ok(tool) => self.tools.push((ProviderId::embedded(), vec![tool])),
            Err(error) => self.refused = Some(error),
        }
        self
    }

    /// Adds a provider's tools.
    #[must_use]
    pub fn provider(mut self, provider: ProviderId, tools: Vec<Arc<dyn ErasedTool>>) -> Self {
        self.tools.push((provider, tools));
        self
    }

    /// Checks that nothing is missing, and builds the runtime.
    pub fn build(self) -> Result<Runtime, BuildError> {
        if let Some(error) = self.refused {
            return Err(error.into());
        }
        let registry = Registry::with_timeouts(self.timeouts);
        for (provider, tools) in self.tools {
            registry.register(&provider, tools)?;
        }
        refuse_unusable(&registry)?;
        let registry = Arc::new(registry);
        let workspaces: Arc<dyn Workspaces> = match (self.workspaces, self.operations) {
            (Some(_), Some(_)) => return Err(BuildError::OneAndMany),
            (Some(_), None) if self.supplied.is_some() => return Err(BuildError::OneAndMany),
            (Some(workspaces), None) => workspaces,
            (None, None) => return Err(BuildError::Missing("the operations of a workspace")),
            (None, Some(operations)) => {
                let rules = self.rules.ok_or(BuildError::Missing("a policy"))?;
                let mut workspace = WorkspaceBuilder::new(operations, rules)
                    .registry(Arc::clone(&registry))
                    .shared_approver(self.approver)
                    .sandbox(Arc::new(self.sandbox))
                    .egress(Arc::new(self.egress));
                if let Some(id) = self.workspace_id {
                    workspace = workspace.id(id);
                }
                let first = workspace.build();
                match self.supplied {
                    Some(make) => make(first),
                    None => Arc::new(OneWorkspace::new(first)),
                }
            }
        };
        Ok(Runtime::new(Engine {
            workspaces,
            registry,
            ledger: self.ledger.ok_or(BuildError::Missing("a ledger"))?,
            clock: self.clock,
            hooks: self.hooks,
            listeners: Arc::new(Listeners::new(self.sinks)),
            limits: self.limits,
            locks: Locks::default(),
            loops: Loops::new(self.loop_guard),
            sessions: SessionLabels::default(),
            processes: Processes::new(self.limits.processes),
            asking: PendingQuestions::default(),
            in_flight: InFlight::default(),
        }))
    }
}

/// A tool that the program adds itself and no model could use is a mistake to correct now. What
/// scripts, servers and other providers bring is withheld one by one: a bad one must not keep the
/// program from starting.
fn refuse_unusable(registry: &Registry) -> Result<(), BuildError> {
    let (tools, own) = (registry.snapshot(), ProviderId::embedded());
    let entries = tools.page(0, tools.len()).iter();
    for entry in entries.filter(|entry| entry.key().provider == own) {
        if let Some(reason) = entry.fault() {
            return Err(BuildError::UnusableTool {
                tool: entry.key().clone(),
                reason: reason.to_owned(),
            });
        }
    }
    Ok(())
}

impl std::fmt::Debug for RuntimeBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuntimeBuilder").finish_non_exhaustive()
    }
}
