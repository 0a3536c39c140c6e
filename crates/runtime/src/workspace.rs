//! An open workspace, and where open workspaces come from.
//!
//! The engine has what all workspaces share: the record, the clock, hooks, listeners, tables. A
//! [`Workspace`] has what differs between them: operations, tools, rules, the approver,
//! confinement, hosts, caps. It holds no task and no buffer, so that one process can keep thousands
//! of them idle. [`Workspaces`] decides which of them a principal may use.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use haft_contract::{
    AgentId, BoxFuture, ErrorKind, Principal, TenantId, ToolError, WorkspaceId,
    egress::EgressRules,
    erased::ErasedApprover,
    host::{Approver, Policy},
    ops::{Operations, SandboxMode, Tier},
    outcome::DeniedBy,
};

use crate::{
    contained_approver::ContainedApprover,
    halt::HaltedCall,
    nobody::NobodyToAsk,
    registry::{Entry, Registry},
    rules::{RulesInForce, WorkspaceRules},
};

/// Supplies open workspaces. The only place that decides whether a principal may use one.
pub trait Workspaces: Send + Sync {
    /// A workspace that is already open and that this principal may use. Called first in every
    /// call, so it must not wait; if it returns `None`, [`Workspaces::open`] is called.
    fn opened(&self, principal: &Principal, workspace: &WorkspaceId) -> Option<Arc<Workspace>> {
        let _ = (principal, workspace);
        None
    }

    /// Opens a workspace for a principal. If it cannot be opened, the call is denied.
    fn open<'a>(
        &'a self,
        principal: &'a Principal,
        workspace: &'a WorkspaceId,
    ) -> BoxFuture<'a, Result<Arc<Workspace>, WorkspaceError>>;
}

/// Why a workspace could not be opened, with a message for the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct WorkspaceError {
    kind: WorkspaceErrorKind,
    message: String,
}

/// Why a workspace could not be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkspaceErrorKind {
    /// There is none with this id, or the principal may not use it. Callers cannot tell which.
    NotFound,
    /// It exists, but cannot be used now.
    Unavailable,
}

impl WorkspaceError {
    /// There is none with this id that the principal may use.
    pub fn not_found(workspace: &WorkspaceId) -> Self {
        Self {
            kind: WorkspaceErrorKind::NotFound,
            message: format!("there is no workspace `{workspace}` here"),
        }
    }

    /// It cannot be used now, for a reason that the caller may read.
    pub fn unavailable(reason: impl Into<String>) -> Self {
        Self {
            kind: WorkspaceErrorKind::Unavailable,
            message: reason.into(),
        }
    }

    /// Why it could not be opened.
    pub fn kind(&self) -> WorkspaceErrorKind {
        self.kind
    }

    /// Ends a call whose workspace could not be opened.
    pub(crate) fn halt(self) -> HaltedCall {
        let (kind, hint) = match self.kind {
            WorkspaceErrorKind::NotFound => (
                ErrorKind::Denied,
                "name a workspace that this credential may use",
            ),
            WorkspaceErrorKind::Unavailable => {
                (ErrorKind::Unavailable, "repeat the call in a while")
            }
        };
        let error = ToolError::new(kind, self.message).hint(hint);
        HaltedCall::before_anything(error).denied_by(DeniedBy::Workspace)
    }
}

/// The local case: a host with one workspace, which every principal may use as far as its rules
/// permit. A request may call it `local`.
pub struct OneWorkspace(Arc<Workspace>);

impl OneWorkspace {
    /// Serves this workspace and no other.
    pub fn new(workspace: Arc<Workspace>) -> Self {
        Self(workspace)
    }
}

impl Workspaces for OneWorkspace {
    fn opened(&self, _: &Principal, workspace: &WorkspaceId) -> Option<Arc<Workspace>> {
        self.0.is_meant_by(workspace).then(|| Arc::clone(&self.0))
    }

    fn open<'a>(
        &'a self,
        principal: &'a Principal,
        workspace: &'a WorkspaceId,
    ) -> BoxFuture<'a, Result<Arc<Workspace>, WorkspaceError>> {
        Box::pin(async move {
            let opened = self.opened(principal, workspace);
            opened.ok_or_else(|| WorkspaceError::not_found(workspace))
        })
    }
}

/// What the calls of a workspace are planned, judged and run with.
pub struct Workspace {
    id: WorkspaceId,
    owner: Option<TenantId>,
    pub(crate) operations: Operations,
    pub(crate) registry: Arc<Registry>,
    pub(crate) rules: Arc<RulesInForce>,
    pub(crate) approver: ContainedApprover,
    sandbox: Arc<HashMap<String, SandboxMode>>,
    egress: Arc<HostAccess>,
    calls_in_flight: Option<usize>,
    in_flight: AtomicUsize,
}

/// Which hosts sandboxed children may reach. Workspaces with the same rules share one.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct HostAccess {
    /// For every agent without separate rules; `None` means no network.
    pub of_all: Option<Arc<EgressRules>>,
    /// For these agents, instead of the general rules.
    pub of_agents: HashMap<AgentId, Arc<EgressRules>>,
}

impl Workspace {
    /// Starts building a workspace over these operations, under these rules.
    pub fn builder(operations: Operations, policy: Arc<dyn Policy>) -> WorkspaceBuilder {
        let rules = RulesInForce::new(WorkspaceRules::new(policy));
        WorkspaceBuilder::new(operations, Arc::new(rules))
    }

    /// A workspace over other operations, with the same tools, rules, approver, confinement, hosts
    /// and caps. Its id is derived from its root.
    #[must_use]
    pub fn over(&self, operations: Operations) -> Arc<Self> {
        self.like_this(operations, self.owner.clone())
    }

    /// As [`Self::over`], for a workspace that belongs to this tenant.
    #[must_use]
    pub fn over_for(&self, operations: Operations, owner: TenantId) -> Arc<Self> {
        self.like_this(operations, Some(owner))
    }

    fn like_this(&self, operations: Operations, owner: Option<TenantId>) -> Arc<Self> {
        Arc::new(Self {
            id: operations.workspace_id(),
            owner,
            operations,
            registry: Arc::clone(&self.registry),
            rules: Arc::clone(&self.rules),
            approver: self.approver.clone(),
            sandbox: Arc::clone(&self.sandbox),
            egress: Arc::clone(&self.egress),
            calls_in_flight: self.calls_in_flight,
            in_flight: AtomicUsize::new(0),
        })
    }

    /// Whether a request that names this workspace means this one: by its id, or as `local`, the
    /// one that the host decides.
    pub fn is_meant_by(&self, named: &WorkspaceId) -> bool {
        *named == self.id || *named == WorkspaceId::local()
    }

    /// Its id.
    pub fn id(&self) -> &WorkspaceId {
        &self.id
    }

    /// The tenant it belongs to; `None` if it belongs to the host itself.
    pub fn owner(&self) -> Option<&TenantId> {
        self.owner.as_ref()
    }

    /// Its tools, now and as they change.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Its rules, now and as they change.
    pub fn rules(&self) -> &Arc<RulesInForce> {
        &self.rules
    }

    /// The tools that a principal is shown: not quarantined, and not denied for every input.
    pub fn tools_for(&self, principal: &Principal) -> Vec<Arc<Entry>> {
        let tools = self.registry.snapshot();
        let tools = tools.page(0, tools.len()).iter();
        let rules = self.rules.current();
        let shown = tools.filter(|entry| rules.shows(principal, entry));
        let shown = shown.filter(|entry| self.has_who_it_needs(principal, entry));
        shown.map(Arc::clone).collect()
    }

    /// Whether a principal is shown a tool: not quarantined, and not denied for every input.
    pub fn shows(&self, principal: &Principal, entry: &Entry) -> bool {
        self.rules.current().shows(principal, entry) && self.has_who_it_needs(principal, entry)
    }

    /// Whether somebody can be asked, for a tool that asks.
    fn has_who_it_needs(&self, principal: &Principal, entry: &Entry) -> bool {
        !entry.needs_person() || self.approver.cannot_put(principal).is_none()
    }

    /// Whether it belongs to this principal's tenant. The supplier has already checked this; this
    /// is a second check in case it is wrong.
    pub(crate) fn is_open_to(&self, principal: &Principal) -> bool {
        self.owner
            .as_ref()
            .is_none_or(|owner| *owner == principal.tenant)
    }

    /// The confinement a tool's processes need: the stronger of what these rules and the host's
    /// code say, or the tool's own default.
    pub(crate) fn sandbox_mode(&self, rules: &WorkspaceRules, entry: &Entry) -> SandboxMode {
        let in_code = self.sandbox.get(entry.key().tool.as_str()).copied();
        let configured = in_code.max(rules.sandbox_of(entry));
        configured.unwrap_or(entry.spec().sandbox)
    }

    /// The hosts a child of this principal may reach. `None` on the host, where nothing could
    /// enforce them, and `None` in T1, which has no network.
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

    /// Reserves one of the slots for calls in flight here, if one is free.
    pub(crate) fn take(self: &Arc<Self>) -> Result<InWorkspace, HaltedCall> {
        let before = self.in_flight.fetch_add(1, Ordering::Relaxed);
        // Made first, so that it is released even if there is no room.
        let place = InWorkspace(Arc::clone(self));
        match self.calls_in_flight {
            Some(most) if before >= most => {
                let message =
                    format!("this workspace already has {most} calls in flight, its limit");
                let error = ToolError::new(ErrorKind::Unavailable, message)
                    .hint("repeat the call when fewer are in flight");
                Err(HaltedCall::before_anything(error))
            }
            _ => Ok(place),
        }
    }
}

impl std::fmt::Debug for Workspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workspace")
            .field("id", &self.id)
            .field("owner", &self.owner)
            .field("operations", &self.operations)
            .finish_non_exhaustive()
    }
}

/// A call's slot in its workspace, released when dropped.
pub(crate) struct InWorkspace(Arc<Workspace>);

impl Drop for InWorkspace {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Builds a [`Workspace`].
pub struct WorkspaceBuilder {
    id: Option<WorkspaceId>,
    workspace: Workspace,
}

impl WorkspaceBuilder {
    pub(crate) fn new(operations: Operations, rules: Arc<RulesInForce>) -> Self {
        Self {
            id: None,
            workspace: Workspace {
                id: WorkspaceId::local(),
                owner: None,
                operations,
                registry: Arc::new(Registry::new()),
                rules,
                approver: ContainedApprover::new(Arc::new(NobodyToAsk::default())),
                sandbox: Arc::default(),
                egress: Arc::default(),
                calls_in_flight: None,
                in_flight: AtomicUsize::new(0),
            },
        }
    }

    /// The id that a host with a list of workspaces assigned. The default is derived from its root.
    #[must_use]
    pub fn id(mut self, id: WorkspaceId) -> Self {
        self.id = Some(id);
        self
    }

    /// The tenant it belongs to. Calls of any other are denied.
    #[must_use]
    pub fn owner(mut self, tenant: TenantId) -> Self {
        self.workspace.owner = Some(tenant);
        self
    }

    /// Its rules, where they can be replaced or are shared with other workspaces.
    #[must_use]
    pub fn rules(mut self, rules: Arc<RulesInForce>) -> Self {
        self.workspace.rules = rules;
        self
    }

    /// Its tools. Workspaces with the same tools share one.
    #[must_use]
    pub fn registry(mut self, registry: Arc<Registry>) -> Self {
        self.workspace.registry = registry;
        self
    }

    /// Who is asked. Without an approver, every call that would ask is denied.
    #[must_use]
    pub fn approver(self, approver: impl Approver) -> Self {
        self.shared_approver(Arc::new(approver))
    }

    /// An approver that several workspaces share.
    #[must_use]
    pub fn shared_approver(mut self, approver: Arc<dyn ErasedApprover>) -> Self {
        self.workspace.approver = ContainedApprover::new(approver);
        self
    }

    /// The confinement of tools' child processes, by the tool's name.
    #[must_use]
    pub fn sandbox(mut self, modes: Arc<HashMap<String, SandboxMode>>) -> Self {
        self.workspace.sandbox = modes;
        self
    }

    /// The hosts that sandboxed child processes may reach. Without this they have no network.
    #[must_use]
    pub fn egress(mut self, hosts: Arc<HostAccess>) -> Self {
        self.workspace.egress = hosts;
        self
    }

    /// How many of its calls may be in flight at once; the next is refused as overloaded.
    #[must_use]
    pub fn calls_in_flight(mut self, most: usize) -> Self {
        self.workspace.calls_in_flight = Some(most);
        self
    }

    /// Builds the workspace.
    pub fn build(self) -> Arc<Workspace> {
        let Self { id, mut workspace } = self;
        workspace.id = id.unwrap_or_else(|| workspace.operations.workspace_id());
        Arc::new(workspace)
    }
}

impl std::fmt::Debug for WorkspaceBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkspaceBuilder").finish_non_exhaustive()
    }
}
