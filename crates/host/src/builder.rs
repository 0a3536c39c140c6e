//! What a host is made of: from settings, or said in code by an embedder. Nothing is opened before
//! [`Host::open`](crate::Host::open).

use std::{collections::BTreeMap, sync::Arc};

use haft_contract::{
    ProviderId,
    event::EventSink,
    host::{Approver, Ledger},
    ops::{Operations, SandboxMode},
};
use haft_mcp::{client::Clients, upstream::supervise::UnseenServer};
use haft_policy::{CedarPolicy, PolicySource};
use haft_runtime::{Runtime, RuntimeBuilder};
use haft_tools::catalog::undo_tool;

use crate::{
    assembly::{Assembly, problem},
    config::Settings,
    error::{HostError, chain},
    mount::MountPlan,
    own_tools,
    record::RecordOptions,
    suggest::{AfterEdit, Suggest},
    workspace::WorkspaceSource,
};

/// Puts a host together. Every method says one thing; what is wrong with any of it is told by
/// [`Host::open`](crate::Host::open), or by [`assemble`](Self::assemble).
#[must_use = "nothing is opened before `Host::open`"]
pub struct HostBuilder {
    pub(crate) workspace: WorkspaceSource,
    pub(crate) record: RecordOptions,
    pub(crate) mounting: MountOptions,
    pub(crate) parts: AssemblyParts,
    notes: Vec<String>,
}

/// What becomes an [`Assembly`] once there is a workspace to work in.
pub(crate) struct AssemblyParts {
    runtime: RuntimeBuilder,
    policy: Arc<CedarPolicy>,
    mounts: Arc<MountPlan>,
    suggest: Suggest,
    scripts_refused: bool,
}

/// How MCP servers are mounted.
#[derive(Clone)]
pub(crate) struct MountOptions {
    /// Whom their questions go to.
    pub(crate) clients: Arc<Clients>,
    /// Whether a server whose tools nobody knows yet is started to find out.
    pub(crate) unseen: UnseenServer,
    /// Whether tools are there that find and call those that are not listed.
    pub(crate) searchable: bool,
    /// Whether other programs are told how the servers are.
    pub(crate) reported: bool,
}

impl HostBuilder {
    /// What an embedder says in code: the tools are those of the runtime's builder.
    pub fn new(
        runtime: RuntimeBuilder,
        workspace: WorkspaceSource,
        sources: Vec<PolicySource>,
        record: RecordOptions,
        mounts: MountPlan,
    ) -> Result<Self, HostError> {
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
            scripts_refused: false,
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
            notes: Vec::new(),
        }
    }

    /// What settings say.
    pub fn from_settings(settings: Settings) -> Result<Self, HostError> {
        let after = if settings.rules_go_to == settings.places.project_config {
            AfterEdit::Trust
        } else {
            AfterEdit::Nothing
        };
        let rules_file = settings.rules_file_name();
        let mut notes = settings.notes.clone();
        if settings.sources.is_empty() && notes.is_empty() {
            notes.push(format!(
                "no haft.toml applies in `{}`, so the preset `careful` holds and no rule does; \
                 `haft init` makes it a workspace",
                settings.places.workspace.display()
            ));
        }
        let mounts = Arc::new(MountPlan::of(&settings));
        let (workspace, record) = (WorkspaceSource::of(&settings), RecordOptions::of(&settings));
        let builtins = own_tools::built_in(&settings)?;
        let scripts = own_tools::trusted_scripts(&settings)?;
        notes.extend(scripts.refused.iter().cloned());
        let policy = Arc::new(settings.policy);
        let mut suggest = Suggest::new(settings.sources, Arc::clone(&policy), rules_file, after);
        if let Some(tool) = undo_tool() {
            suggest.know_apart(tool);
        }
        let mut runtime = Runtime::builder()
            .limits(settings.limits)
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
            scripts_refused: !scripts.refused.is_empty(),
        };
        let mut builder = Self::of(workspace, record, parts);
        builder.notes = notes;
        Ok(builder.sandboxes(BTreeMap::new()))
    }

    /// The same in the directory on this machine, wherever the workspace is: for what looks at rules
    /// and tools and touches no file.
    pub fn to_look(settings: Settings) -> Result<Self, HostError> {
        let workspace = WorkspaceSource::local(&settings);
        let mut builder = Self::from_settings(settings)?;
        builder.workspace = workspace;
        Ok(builder)
    }

    /// The confinement that code asks for; where a rule speaks of the same tool the stronger holds.
    pub fn sandboxes(mut self, in_code: BTreeMap<String, SandboxMode>) -> Self {
        let mut modes = in_code;
        for (tool, mode) in self.parts.policy.tool_settings().sandboxes() {
            let said = modes.entry(tool.as_str().to_owned()).or_insert(mode);
            *said = mode.max(*said);
        }
        for (tool, mode) in modes {
            self.parts.runtime = self.parts.runtime.sandbox(tool, mode);
        }
        self
    }

    /// What a person should know.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Finds lines that would allow a call.
    pub fn suggest(&self) -> Suggest {
        self.parts.suggest.clone()
    }

    /// The rules in force.
    pub fn policy(&self) -> &CedarPolicy {
        &self.parts.policy
    }

    /// The MCP servers that are configured.
    pub fn mounts(&self) -> Arc<MountPlan> {
        Arc::clone(&self.parts.mounts)
    }

    /// Adds a listener.
    pub fn events(self, sink: Arc<dyn EventSink>) -> Self {
        self.configure(|runtime| runtime.events(sink))
    }

    /// Adds who is asked.
    pub fn approver(self, approver: impl Approver) -> Self {
        self.configure(|runtime| runtime.approver(approver))
    }

    /// Puts the questions of mounted servers before these clients.
    pub fn clients(mut self, clients: Arc<Clients>) -> Self {
        self.mounting.clients = clients;
        self
    }

    /// Starts servers whose tools nobody knows yet, and tells `haft mcp status` how they are: for
    /// what serves until somebody ends it.
    pub fn serves(mut self) -> Self {
        self.mounting.unseen = UnseenServer::Start;
        self.mounting.reported = true;
        self
    }

    /// Adds the tools with which a model finds and calls tools that are not listed.
    pub fn searchable(mut self) -> Self {
        self.mounting.searchable = true;
        self
    }

    /// Anything else the runtime's builder can do. Operations, policy and record are set by
    /// [`Host::open`](crate::Host::open).
    pub fn configure(mut self, change: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder) -> Self {
        self.parts.runtime = change(self.parts.runtime);
        self
    }

    /// What it comes to, to plan and to look at: nothing is recorded, so nothing runs.
    pub async fn assemble(self) -> Result<Assembly, HostError> {
        let operations = self.workspace.open().await?;
        self.parts.without_record().checked(operations)
    }

    /// The same whatever the rules, for looking at the rules themselves.
    pub async fn assemble_for_lint(self) -> Result<Assembly, HostError> {
        let operations = self.workspace.open().await?;
        self.parts.without_record().on(operations)
    }
}

impl AssemblyParts {
    /// Records calls here.
    pub(crate) fn ledger(mut self, ledger: Arc<dyn Ledger>) -> Self {
        self.runtime = self.runtime.ledger(ledger);
        self
    }

    fn without_record(mut self) -> Self {
        self.runtime = self.runtime.without_record();
        self
    }

    /// Builds the runtime, and holds the rules against the tools there are: a misspelt `deny` must not
    /// pass for no rule.
    pub(crate) fn checked(self, operations: Operations) -> Result<Assembly, HostError> {
        // A rule about a script that is not trusted right now is no mistake.
        let tools_are_missing = self.scripts_refused;
        let assembly = self.on(operations)?;
        match assembly.findings().first() {
            Some(finding) if !tools_are_missing => {
                Err(HostError::config(problem(finding), finding.hint()))
            }
            Some(_) | None => Ok(assembly),
        }
    }

    fn on(self, operations: Operations) -> Result<Assembly, HostError> {
        let built = self
            .runtime
            .operations(operations)
            .policy(Arc::clone(&self.policy) as _)
            .build();
        let runtime = built.map_err(|error| {
            HostError::config(chain(&error), "give every tool a name of its own")
        })?;
        self.suggest.know(runtime.registry());
        Ok(Assembly {
            runtime,
            policy: self.policy,
            mounts: self.mounts,
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
