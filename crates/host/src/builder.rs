//! Builds a host, from settings or from an embedder's code. Nothing is opened before
//! [`Host::open`](crate::Host::open).

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use haft_contract::{
    ProviderId,
    event::EventSink,
    host::{Approver, Ledger},
    ops::{DatabaseOps, Operations, SandboxMode},
    secret::ReadSecret,
};
use haft_mcp::{client::Clients, upstream::supervise::UnseenServer};
use haft_policy::{CedarPolicy, PolicySource};
use haft_runtime::{RulesInForce, Runtime, RuntimeBuilder, Workspaces};
use haft_tools::catalog::undo_tool;

use crate::{
    assembly::Assembly,
    config::{Settings, backends::refuse_backends, timeouts::TimeoutSettings},
    error::{HostError, chain},
    follow_trust::FollowedFile,
    host_policy::rules_of,
    hosted_workspaces::Hosting,
    mount::MountPlan,
    own_tools,
    readiness::{KnownTiers, Readiness},
    record::RecordOptions,
    script_secrets::ScriptSecrets,
    suggest::{AfterEdit, Suggest},
    workspace::{WorkspaceSource, sandbox_options},
    workspaces_by_caller::SeveralBackends,
};

/// Collects the parts of a host. Mistakes in any of them are reported by
/// [`Host::open`](crate::Host::open) or [`assemble`](Self::assemble).
#[must_use = "nothing is opened before `Host::open`"]
pub struct HostBuilder {
    pub(crate) workspace: WorkspaceSource,
    pub(crate) record: RecordOptions,
    pub(crate) mounting: MountOptions,
    pub(crate) parts: AssemblyParts,
    pub(crate) script_secrets: ScriptSecrets,
    notes: Vec<String>,
    pub(crate) followed: Option<FollowedFile>,
}

/// The parts of an [`Assembly`], before there is a workspace.
pub(crate) struct AssemblyParts {
    runtime: RuntimeBuilder,
    policy: Arc<CedarPolicy>,
    mounts: Arc<MountPlan>,
    suggest: Suggest,
    timeouts: TimeoutSettings,
    scripts_refused: bool,
    readiness: Readiness,
    /// The back ends of callers who do not work where the process itself does.
    several: Option<SeveralBackends>,
    /// The configured databases.
    databases: Option<Arc<dyn DatabaseOps>>,
}

#[derive(Clone)]
pub(crate) struct MountOptions {
    /// Who gets the servers' questions.
    pub(crate) clients: Arc<Clients>,
    /// Whether to start a server whose tools are not known yet, to learn them.
    pub(crate) unseen: UnseenServer,
    /// Whether to register the tools that find and call unlisted tools.
    pub(crate) searchable: bool,
    /// Whether other programs can see the state of the servers.
    pub(crate) reported: bool,
}

impl HostBuilder {
    /// Starts from an embedder's code. The tools are those of the runtime's builder.
    pub fn new(
        runtime: RuntimeBuilder,
        workspace: WorkspaceSource,
        sources: Vec<PolicySource>,
        record: RecordOptions,
        mounts: MountPlan,
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
            mounts: Arc::new(mounts),
            suggest,
            timeouts: TimeoutSettings::default(),
            scripts_refused: false,
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
            record,
            mounting: MountOptions {
                clients: Arc::default(),
                unseen: UnseenServer::Leave,
                searchable: false,
                reported: false,
            },
            parts,
            script_secrets: ScriptSecrets::default(),
            notes: Vec::new(),
            followed: None,
        }
    }

    /// Starts from settings.
    pub fn from_settings(settings: Settings) -> Result<Self, HostError> {
        let after = if settings.rules_go_to == settings.places.project_config {
            AfterEdit::Trust
        } else {
            AfterEdit::Nothing
        };
        let rules_file = settings.rules_file_name();
        let followed = FollowedFile::of(&settings.places);
        let mut notes = settings.notes.clone();
        if settings.sources.is_empty() && notes.is_empty() {
            notes.push(format!(
                "no haft.toml applies in `{}`, so only the preset `careful` applies; \
                 `haft init` makes it a workspace",
                settings.places.workspace.display()
            ));
        }
        let mounts = Arc::new(MountPlan::of(&settings));
        let (workspace, record) = (WorkspaceSource::of(&settings), RecordOptions::of(&settings));
        let several = SeveralBackends::of(&settings);
        #[cfg_attr(
            not(feature = "databases"),
            expect(unused_mut, reason = "nothing adds a tool without databases")
        )]
        let mut builtins = own_tools::built_in(&settings)?;
        let script_secrets = ScriptSecrets::of(&settings);
        let reader: Arc<dyn ReadSecret> = Arc::new(script_secrets.clone());
        #[cfg(feature = "databases")]
        let databases = crate::databases::DatabaseTools::of(&settings, &reader)?;
        #[cfg(feature = "databases")]
        let databases = databases.map(|databases| {
            builtins.extend(databases.tool);
            databases.operations
        });
        #[cfg(not(feature = "databases"))]
        let databases = None;
        let scripts = own_tools::trusted_scripts(&settings, &reader)?;
        notes.extend(scripts.refused.iter().cloned());
        let mut readiness = Readiness::of(&settings, sandbox_options(&settings).profile);
        let modes = settings.policy.tool_settings().sandboxes();
        readiness.modes = modes
            .map(|(tool, mode)| (tool.as_str().to_owned(), mode))
            .collect();
        let policy = Arc::new(settings.policy);
        let mut suggest = Suggest::new(settings.sources, Arc::clone(&policy), rules_file, after);
        if let Some(tool) = undo_tool() {
            suggest.know_apart(tool);
        }
        let mut runtime = Runtime::builder()
            .limits(settings.limits)
            .timeouts(settings.timeouts.timeouts())
            .loop_guard(settings.loop_guard.guard())
            .provider(ProviderId::builtin(), builtins)
            .provider(ProviderId::script(), scripts.tools);
        if let Some(rules) = &settings.sandbox.network {
            runtime = runtime.egress(rules.clone());
        }
        let parts = AssemblyParts {
            runtime,
            policy,
            mounts,
            suggest,
            timeouts: settings.timeouts,
            scripts_refused: !scripts.refused.is_empty(),
            readiness,
            several,
            databases,
        };
        let mut builder = Self::of(workspace, record, parts);
        builder.notes = notes;
        builder.script_secrets = script_secrets;
        builder.followed = followed;
        Ok(builder)
    }

    /// As [`Self::from_settings`], but in the directory on this machine, wherever the workspace is.
    /// For commands that look at rules and tools and touch no files.
    pub fn to_look(settings: Settings) -> Result<Self, HostError> {
        let workspace = WorkspaceSource::local(&settings);
        let tiers = match settings.elsewhere() {
            Some(_) => KnownTiers::Elsewhere,
            None => KnownTiers::OfWorkspace,
        };
        let mut builder = Self::from_settings(settings)?.workspace(workspace);
        builder.parts.readiness.tiers = tiers;
        Ok(builder)
    }

    /// Works in this workspace and no other instead of those in the settings, for example because
    /// it is already open.
    pub fn workspace(mut self, workspace: WorkspaceSource) -> Self {
        self.workspace = workspace;
        self.parts.several = None;
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

    /// The configured MCP servers.
    pub fn mounts(&self) -> Arc<MountPlan> {
        Arc::clone(&self.parts.mounts)
    }

    /// Adds a listener.
    pub fn events(self, sink: Arc<dyn EventSink>) -> Self {
        self.configure(|runtime| runtime.events(sink))
    }

    /// Adds an approver.
    pub fn approver(self, approver: impl Approver) -> Self {
        self.configure(|runtime| runtime.approver(approver))
    }

    /// Sends the questions of mounted servers to these clients.
    pub fn clients(mut self, clients: Arc<Clients>) -> Self {
        self.mounting.clients = clients;
        self
    }

    /// Starts servers whose tools are not known yet, and shows their state in `haft mcp status`.
    /// For programs that serve until they are stopped.
    pub fn serves(mut self) -> Self {
        self.mounting.unseen = UnseenServer::Start;
        self.mounting.reported = true;
        self
    }

    /// Adds the tools with which a model finds and calls unlisted tools.
    pub fn searchable(mut self) -> Self {
        self.mounting.searchable = true;
        self
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
        if let Some(databases) = self.databases {
            operations.world.databases = databases;
        }
        let tiers = operations.tiers.clone();
        let rules = Arc::new(RulesInForce::new(rules_of(&self.policy)));
        let mut runtime = self
            .runtime
            .operations(operations)
            .rules(Arc::clone(&rules));
        let hosted = Arc::new(OnceLock::new());
        if let Some(several) = self.several {
            runtime = runtime.supplied_by(move |own| several.beside(own));
        } else if let Some(hosting) = hosting {
            let hosted = Arc::clone(&hosted);
            runtime = runtime.supplied_by(move |own| {
                let made = hosted.get_or_init(|| hosting.beside(own));
                Arc::clone(made) as Arc<dyn Workspaces>
            });
        }
        let built = runtime.build();
        let runtime = built.map_err(|error| HostError::config(chain(&error), error.hint()))?;
        self.timeouts.check(&runtime, self.scripts_refused)?;
        self.readiness.apply(runtime.registry(), &tiers);
        self.suggest.know(runtime.registry());
        Ok(Assembly {
            runtime,
            policy: self.policy,
            rules,
            tools_are_missing: self.scripts_refused,
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
