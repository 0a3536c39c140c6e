//! Builds a host, from settings or from an embedder's code. Nothing is opened before
//! [`Host::open`](crate::Host::open).

#[cfg(feature = "settings")]
mod of_settings;
#[cfg(feature = "settings")]
mod servers;

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use haft_contract::{
    event::EventSink,
    host::{Approver, Ledger},
    ops::{DatabaseOps, Operations, SandboxMode},
};
use haft_policy::{CedarPolicy, PolicySource};
use haft_runtime::{OneWorkspace, RulesInForce, Runtime, RuntimeBuilder, Workspace, Workspaces};

#[cfg(feature = "settings")]
use crate::places_apart::PlacesApart;
use crate::{
    assembly::Assembly,
    directory::DirectoryOptions,
    embedded_texts::refuse_backends,
    error::{HostError, chain},
    host_policy::rules_of,
    hosted_workspaces::Hosting,
    mounting::{Configured, MountOptions, MountPlan},
    readiness::{KnownTiers, Readiness},
    record::RecordOptions,
    suggest::{AfterEdit, Suggest},
    web::WebAccess,
    workspace::WorkspaceSource,
};

/// Collects the parts of a host. Mistakes in any of them are reported by
/// [`Host::open`](crate::Host::open) or [`assemble`](Self::assemble).
#[must_use = "nothing is opened before `Host::open`"]
pub struct HostBuilder {
    pub(crate) workspace: WorkspaceSource,
    /// What workspaces on this machine are opened with, beside one that is not.
    pub(crate) beside: Option<Box<DirectoryOptions>>,
    /// The same as settings say, for a host that takes some.
    #[cfg(feature = "settings")]
    local: Option<Box<DirectoryOptions>>,
    /// What lies in no workspace that is added.
    #[cfg(feature = "settings")]
    pub(crate) apart: PlacesApart,
    pub(crate) record: RecordOptions,
    pub(crate) mounting: MountOptions,
    pub(crate) parts: AssemblyParts,
    pub(crate) configured: Configured,
    /// What tools reach of the web.
    pub(crate) web: WebAccess,
    notes: Vec<String>,
}

/// The parts of an [`Assembly`], before there is a workspace.
pub(crate) struct AssemblyParts {
    runtime: RuntimeBuilder,
    policy: Arc<CedarPolicy>,
    pub(crate) mounts: Arc<MountPlan>,
    suggest: Suggest,
    /// What settings say of the runtime's tools, checked once it is built.
    check: Option<RuntimeCheck>,
    /// Whether tools are missing that rules may mention.
    tools_are_missing: bool,
    readiness: Readiness,
    /// The back ends of callers who do not work where the process itself does.
    several: Option<WorkspaceSupplier>,
    /// The configured databases.
    databases: Option<Arc<dyn DatabaseOps>>,
}

/// Fails if a runtime does not fit its settings.
type RuntimeCheck = Box<dyn FnOnce(&Runtime) -> Result<(), HostError> + Send>;

/// Makes the workspaces of a process from its own.
type WorkspaceSupplier = Box<dyn FnOnce(Arc<Workspace>) -> Arc<dyn Workspaces> + Send + Sync>;

impl HostBuilder {
    /// Starts from an embedder's code. The tools are those of the runtime's builder.
    pub fn new(
        runtime: RuntimeBuilder,
        workspace: WorkspaceSource,
        sources: Vec<PolicySource>,
        record: RecordOptions,
    ) -> Result<Self, HostError> {
        refuse_backends(&sources)?;
        let policy = CedarPolicy::load(&sources);
        let policy = policy.map_err(|error| {
            HostError::config(chain(&error), "correct the rules where they are written")
        })?;
        let policy = Arc::new(policy);
        let rules_file = "the configuration".to_owned();
        let after = AfterEdit::Nothing;
        let suggest = Suggest::new(sources, Arc::clone(&policy), rules_file, after);
        let parts = AssemblyParts {
            runtime,
            policy,
            mounts: Arc::new(MountPlan::none()),
            suggest,
            check: None,
            tools_are_missing: false,
            // Code may still be about to say how commands are confined.
            readiness: Readiness {
                tiers: KnownTiers::Elsewhere,
                ..Readiness::default()
            },
            several: None,
            databases: None,
        };
        Ok(Self::of(workspace, record, parts))
    }

    fn of(workspace: WorkspaceSource, record: RecordOptions, parts: AssemblyParts) -> Self {
        Self {
            workspace,
            beside: None,
            #[cfg(feature = "settings")]
            local: None,
            #[cfg(feature = "settings")]
            apart: PlacesApart::default(),
            record,
            mounting: MountOptions::default(),
            parts,
            configured: Configured::default(),
            web: WebAccess::default(),
            notes: Vec::new(),
        }
    }

    /// Works in this workspace and no other instead of those in the settings, for example because
    /// it is already open.
    pub fn workspace(mut self, workspace: WorkspaceSource) -> Self {
        self.workspace = workspace;
        self.parts.several = None;
        self
    }

    /// Lets a program add workspaces where the host's own is on another machine or in a container:
    /// those on this machine are opened with these options.
    pub fn beside(mut self, options: Box<DirectoryOptions>) -> Self {
        self.beside = Some(options);
        self
    }

    /// Sets the confinement that code asks for. If a rule covers the same tool, the stronger one
    /// applies.
    pub fn sandboxes(mut self, in_code: BTreeMap<String, SandboxMode>) -> Self {
        for (tool, mode) in in_code {
            let known = self.parts.readiness.modes.entry(tool.clone());
            let known = known.or_insert(mode);
            *known = mode.max(*known);
            self.parts.runtime = self.parts.runtime.sandbox(tool, mode);
        }
        self
    }

    /// Notes for a person.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// For finding rules that would allow a call.
    pub fn suggest(&self) -> Suggest {
        self.parts.suggest.clone()
    }

    /// The rules in force.
    pub fn policy(&self) -> &CedarPolicy {
        &self.parts.policy
    }

    /// Adds a listener.
    pub fn events(self, sink: Arc<dyn EventSink>) -> Self {
        self.configure(|runtime| runtime.events(sink))
    }

    /// Adds an approver.
    pub fn approver(self, approver: impl Approver) -> Self {
        self.configure(|runtime| runtime.approver(approver))
    }

    /// Changes anything else on the runtime's builder. Operations, policy and record are set by
    /// [`Host::open`](crate::Host::open).
    pub fn configure(mut self, change: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder) -> Self {
        self.parts.runtime = change(self.parts.runtime);
        self
    }

    /// Assembles it for planning and looking: nothing is recorded, so nothing runs.
    pub async fn assemble(self) -> Result<Assembly, HostError> {
        let operations = self.workspace.open().await?;
        self.parts.without_record().checked(operations, None)
    }

    /// As [`Self::assemble`], but without checking the rules, for looking at the rules themselves.
    pub async fn assemble_for_lint(self) -> Result<Assembly, HostError> {
        let operations = self.workspace.open().await?;
        self.parts.without_record().on(operations, None)
    }
}

impl AssemblyParts {
    /// Sets the record.
    pub(crate) fn ledger(mut self, ledger: Arc<dyn Ledger>) -> Self {
        self.runtime = self.runtime.ledger(ledger);
        self
    }

    fn without_record(mut self) -> Self {
        self.runtime = self.runtime.without_record();
        self
    }

    /// Builds the runtime and checks the rules against its tools.
    pub(crate) fn checked(
        self,
        operations: Operations,
        hosting: Option<Hosting>,
    ) -> Result<Assembly, HostError> {
        let assembly = self.on(operations, hosting)?;
        assembly.check(&assembly.policy)?;
        Ok(assembly)
    }

    fn on(
        self,
        mut operations: Operations,
        hosting: Option<Hosting>,
    ) -> Result<Assembly, HostError> {
        if let Some(databases) = &self.databases {
            operations.world.databases = Arc::clone(databases);
        }
        let tiers = operations.tiers.clone();
        let rules = Arc::new(RulesInForce::new(rules_of(&self.policy)));
        let mut runtime = self
            .runtime
            .operations(operations)
            .rules(Arc::clone(&rules));
        let hosted = Arc::new(OnceLock::new());
        let several = self.several;
        if let Some(hosting) = hosting {
            let (hosted, databases) = (Arc::clone(&hosted), self.databases);
            runtime = runtime.supplied_by(move |first| {
                let own = match several {
                    Some(several) => several(Arc::clone(&first)),
                    None => Arc::new(OneWorkspace::new(Arc::clone(&first))),
                };
                let made = hosted.get_or_init(|| hosting.beside(first, own, databases));
                Arc::clone(made) as Arc<dyn Workspaces>
            });
        } else if let Some(several) = several {
            runtime = runtime.supplied_by(several);
        }
        let built = runtime.build();
        let runtime = built.map_err(|error| HostError::config(chain(&error), error.hint()))?;
        if let Some(check) = self.check {
            check(&runtime)?;
        }
        self.readiness.apply(runtime.registry(), &tiers);
        self.suggest.know(runtime.registry());
        Ok(Assembly {
            runtime,
            policy: self.policy,
            rules,
            tools_are_missing: self.tools_are_missing,
            mounts: self.mounts,
            hosted: hosted.get().cloned(),
        })
    }
}

impl std::fmt::Debug for HostBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostBuilder")
            .field("workspace", &self.workspace)
            .field("record", &self.record)
            .finish_non_exhaustive()
    }
}
