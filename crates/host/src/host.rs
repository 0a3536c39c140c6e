//! From settings to a runtime: the one place that knows every crate. Nothing is decided here; each
//! part is made from what configuration says and handed to the next.

use std::{collections::BTreeMap, sync::Arc};

use haft_backends::{
    ChangeOptions, LocalBackend, LocalOptions, Mounts,
    helper::Helper,
    sandbox::{Limits, Profile, SandboxOptions},
    ssh::SshBackend,
};
use haft_contract::{
    ProviderId, ToolName,
    erased::ErasedTool,
    event::EventSink,
    host::{Approver, Clock, Ledger},
    ops::Operations,
};
use haft_ledger::{LedgerOptions, Recovery, Retention, SqliteLedger, options::MAX_QUEUED_BYTES};
use haft_mcp::{
    catalog,
    client::Clients,
    upstream::supervise::{Fleet, Unseen},
};
use haft_policy::{CedarPolicy, Finding};
use haft_runtime::{
    Runtime, RuntimeBuilder, SystemClock,
    registry::{Entry, Registry},
};
use haft_tools::{
    catalog::undo_tool,
    factory::{Factory, ToolEntry},
    script::ScriptTool,
};

use crate::{
    config::{
        Places, Settings,
        file::ConfiguredTool,
        resolve::Scripts,
        sandbox::Home,
        scripts::{self, FoundScript},
    },
    error::{HostError, HostErrorKind, chain},
    mount::MountPlan,
    orphans,
    suggest::{AfterEdit, Suggest},
};

/// Everything but the record and the person.
pub struct Parts {
    builder: RuntimeBuilder,
    policy: Arc<CedarPolicy>,
    suggest: Suggest,
    notes: Vec<String>,
    scripts_refused: bool,
    housekeeping: Housekeeping,
    mounts: Arc<MountPlan>,
}

/// What is left to do once a command has done its work.
#[derive(Debug, Clone)]
pub struct Housekeeping {
    retention: Retention,
}

impl Housekeeping {
    /// Removes what need not be kept any longer and closes the record.
    pub async fn close(&self, ledger: &SqliteLedger) {
        let artifacts = ledger.file_artifacts();
        artifacts
            .expire_daily(SystemClock.now(), self.retention)
            .await;
        if let Err(error) = ledger.close().await {
            tracing::error!(%error, "the record could not be closed");
        }
    }
}

/// A runtime and what commands look at beside it.
pub struct Wired {
    /// Runs calls.
    pub runtime: Runtime,
    /// The rules in force.
    pub policy: Arc<CedarPolicy>,
    /// MCP servers that are not mounted yet.
    pub mounts: Arc<MountPlan>,
}

/// Where the record is, in the data directory.
const RECORD: &str = "record";

/// The record, opened.
pub struct Record {
    /// The record.
    pub ledger: SqliteLedger,
    /// What was found open and settled.
    pub recovery: Recovery,
}

/// Whether anything has been recorded.
pub fn has_record(places: &Places) -> bool {
    places.data_dir.join(RECORD).exists()
}

/// Opens the record for a command that runs calls, and settles what an earlier run left open.
pub async fn open_record_for_calls(settings: &Settings) -> Result<Record, HostError> {
    open_record_with(&settings.places, settings.queue_bytes).await
}

/// Opens the record and settles what an earlier run left open.
pub async fn open_record(places: &Places) -> Result<Record, HostError> {
    open_record_with(places, MAX_QUEUED_BYTES).await
}

async fn open_record_with(places: &Places, max_queued_bytes: usize) -> Result<Record, HostError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let options = LedgerOptions {
        // How long artifacts are kept is in the settings, which may not be readable yet;
        // `Housekeeping` sees to it.
        retention: None,
        max_queued_bytes,
        ..LedgerOptions::new(places.data_dir.join(RECORD), clock)
    };
    match SqliteLedger::open(options).await {
        Ok((ledger, recovery)) => {
            orphans::withdraw(&ledger, &recovery).await;
            Ok(Record { ledger, recovery })
        }
        Err(error) => Err(HostError::new(
            HostErrorKind::Record,
            format!(
                "the record in `{}` cannot be opened: {}",
                places.data_dir.display(),
                chain(&error)
            ),
            "check that the directory is yours and has room, or name another with `--data-dir`",
        )),
    }
}

/// Puts together what settings say, on this machine: for what looks at rules and tools and touches
/// no file.
pub fn assemble(settings: Settings) -> Result<Parts, HostError> {
    let operations = workspace(&settings)?.operations();
    assemble_on(settings, operations)
}

/// Puts together what settings say, on the operations of the workspace.
pub fn assemble_on(settings: Settings, operations: Operations) -> Result<Parts, HostError> {
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
    let mounts = Arc::new(MountPlan::new(&settings));
    let builtins = built_in(&settings)?;
    let (scripts, scripts_refused) = script_tools(&settings, &mut notes)?;
    let policy = Arc::new(settings.policy);
    let mut suggest = Suggest::new(settings.sources, Arc::clone(&policy), rules_file, after);
    let mut builder = Runtime::builder()
        .operations(operations)
        .limits(settings.limits)
        .loop_guard(settings.loop_guard.guard());
    for (tool, mode) in policy.tool_settings().sandboxes() {
        builder = builder.sandbox(tool.as_str(), mode);
    }
    if let Some(rules) = &settings.sandbox.network {
        builder = builder.egress(rules.clone());
    }
    for (provider, tools) in [
        (ProviderId::builtin(), builtins),
        (ProviderId::script(), scripts),
    ] {
        builder = builder.provider(provider, tools);
    }
    if let Some(tool) = undo_tool() {
        suggest.know_apart(tool);
    }
    let housekeeping = Housekeeping {
        retention: settings.retention,
    };
    Ok(Parts {
        builder: builder.policy(Arc::clone(&policy) as _),
        policy,
        suggest,
        notes,
        scripts_refused,
        housekeeping,
        mounts,
    })
}

impl Parts {
    /// What a person should know.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Finds lines that would allow a call.
    pub fn suggest(&self) -> Suggest {
        self.suggest.clone()
    }

    /// The MCP servers that are configured.
    pub fn mounts(&self) -> Arc<MountPlan> {
        Arc::clone(&self.mounts)
    }

    /// What is left to do in the end.
    pub fn housekeeping(&self) -> Housekeeping {
        self.housekeeping.clone()
    }

    /// Adds a listener.
    #[must_use]
    pub fn events(mut self, sink: Arc<dyn EventSink>) -> Self {
        self.builder = self.builder.events(sink);
        self
    }

    /// Adds who is asked.
    #[must_use]
    pub fn approver(mut self, approver: impl Approver) -> Self {
        self.builder = self.builder.approver(approver);
        self
    }

    /// Changes the builder itself.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder) -> Self {
        self.builder = change(self.builder);
        self
    }

    /// Builds the runtime on a record, and holds the rules against the tools there are.
    pub fn build(self, ledger: Arc<dyn Ledger>) -> Result<Wired, HostError> {
        // A rule about a script that is not trusted right now is no mistake.
        let tools_are_missing = self.scripts_refused;
        let wired = self.build_for_lint(ledger)?;
        match wired.findings().first() {
            Some(finding) if !tools_are_missing => {
                Err(HostError::config(problem(finding), finding.hint()))
            }
            Some(_) | None => Ok(wired),
        }
    }

    /// Builds the runtime whatever the rules, for looking at the rules themselves.
    pub fn build_for_lint(self, ledger: Arc<dyn Ledger>) -> Result<Wired, HostError> {
        let built = self.builder.ledger(ledger).build();
        let runtime = built.map_err(|error| {
            HostError::config(chain(&error), "give every tool a name of its own")
        })?;
        self.suggest.know(runtime.registry());
        Ok(Wired {
            runtime,
            policy: self.policy,
            mounts: self.mounts,
        })
    }
}

impl Wired {
    /// Registers the tools with which a model finds and calls tools that are not listed.
    pub fn make_searchable(&self) -> Result<(), HostError> {
        self.add_catalog_tools(self.runtime.registry())
    }

    /// The same tools, for whoever counts them and registers none.
    pub fn catalog_tools(&self) -> Vec<Arc<Entry>> {
        let elsewhere = Arc::new(Registry::new());
        if self.add_catalog_tools(&elsewhere).is_err() {
            tracing::error!("the tools that make a catalog searchable cannot be registered");
        }
        let elsewhere = elsewhere.snapshot();
        elsewhere.page(0, elsewhere.len()).to_vec()
    }

    fn add_catalog_tools(&self, registry: &Arc<Registry>) -> Result<(), HostError> {
        let taken = |why: String| {
            HostError::config(
                why,
                "give your own tool another name, or list every tool: catalog = \"full\" under [mcp]",
            )
        };
        let tools = catalog::tools(registry, Arc::clone(&self.policy) as _);
        let tools = tools.map_err(|error| taken(chain(&error)))?;
        registry
            .register(&ProviderId::builtin(), tools)
            .map_err(|error| taken(chain(&error)))
    }

    /// Mounts the MCP servers that are configured. They end with what is returned.
    pub fn mount(&self, clients: &Arc<Clients>, unseen: Unseen) -> Result<Fleet, HostError> {
        self.mounts.start(self.runtime.registry(), clients, unseen)
    }

    /// Registers what the servers offered last, for a command that looks at tools and runs none.
    pub fn mount_to_look(&self) -> Result<(), HostError> {
        // Nothing is started, so there is nothing to keep alive.
        self.mount(&Arc::default(), Unseen::Leave).map(drop)
    }

    /// Rules that do nothing, given the tools there are.
    pub fn findings(&self) -> Vec<Finding> {
        self.findings_in(&self.policy)
    }

    /// The same for other rules.
    pub fn findings_in(&self, policy: &CedarPolicy) -> Vec<Finding> {
        let tools = self.runtime.registry().snapshot();
        // `undo` is registered by its command alone, the tools of large catalogs by `haft mcp`; rules
        // may speak of them all the same.
        let elsewhere = Arc::new(Registry::new());
        let undo = undo_tool().into_iter().collect();
        if elsewhere.register(&ProviderId::builtin(), undo).is_err()
            || self.add_catalog_tools(&elsewhere).is_err()
        {
            tracing::error!("the tools that only some commands have cannot be registered");
        }
        let elsewhere = elsewhere.snapshot();
        let elsewhere = elsewhere.page(0, elsewhere.len()).iter();
        let unknown = elsewhere.filter(|entry| !tools.exists(entry.key().tool.as_str()));
        let entries = tools.page(0, tools.len()).iter().chain(unknown);
        let facts: Vec<_> = entries.map(|entry| entry.facts()).collect();
        let mut findings = policy.lint(&facts);
        findings.retain(|finding| !self.mounts.may_know(finding));
        findings
    }
}

/// A finding and where it is.
pub fn problem(finding: &Finding) -> String {
    match finding.rule.line {
        Some(line) => format!("{}:{line}: {finding}", finding.rule.source),
        None => format!("{}: {finding}", finding.rule.source),
    }
}

/// The operations of the workspace, wherever it is.
pub async fn operations(settings: &Settings) -> Result<Operations, HostError> {
    let Some(ssh) = &settings.ssh else {
        return Ok(workspace(settings)?.operations());
    };
    let options = ssh.options(&settings.sandbox, cross_mounts(settings));
    SshBackend::connect(options, &ssh.root)
        .await
        .map_err(|error| {
            let hint = error
                .hint_text()
                .unwrap_or("correct [ssh] in haft.toml, or try again");
            HostError::new(HostErrorKind::Unavailable, error.message(), hint)
        })
}

fn cross_mounts(settings: &Settings) -> Mounts {
    if settings.cross_mounts {
        Mounts::Cross
    } else {
        Mounts::Refuse
    }
}

/// The workspace on this machine, whose commands are confined as the settings say.
pub fn workspace(settings: &Settings) -> Result<LocalBackend, HostError> {
    let options = LocalOptions {
        cross_mounts: cross_mounts(settings),
        sandbox: sandbox(settings),
        changes: settings
            .undo
            .options(ChangeOptions::new(&settings.places.data_dir)),
        ..LocalOptions::default()
    };
    LocalBackend::open(&settings.places.workspace, options).map_err(|error| {
        HostError::config(
            chain(&error),
            "name an existing directory with `--workspace`",
        )
    })
}

/// How commands are confined.
pub fn sandbox(settings: &Settings) -> SandboxOptions {
    let mut limits = Limits::for_this_machine();
    settings.sandbox.apply(&mut limits);
    let (home, toolchain_homes) = match &settings.sandbox.home {
        Some(Home::Off) => (None, BTreeMap::new()),
        Some(Home::At(home)) => (Some(home.clone()), BTreeMap::new()),
        None => (
            settings.places.home.clone(),
            settings.places.toolchains.clone(),
        ),
    };
    SandboxOptions {
        helper: Helper::CurrentExecutable,
        profile: Profile {
            home,
            toolchain_homes,
            read_only: settings.sandbox.read_only.clone(),
            writable: settings.sandbox.writable.clone(),
        },
        limits,
        cgroup: settings.sandbox.cgroup.clone().unwrap_or_default(),
        quarantine: Some(settings.places.data_dir.join("quarantine")),
        runtime: settings.places.runtime.clone(),
        ..SandboxOptions::default()
    }
}

/// The built-in tools; one that is configured under its own name takes the place of the default.
fn built_in(settings: &Settings) -> Result<Vec<Arc<dyn ErasedTool>>, HostError> {
    let mut tools = haft_tools::builtins();
    let factory = Factory::builtin();
    for (_, configured) in settings
        .tools
        .iter()
        .filter(|(_, tool)| tool.kind != SCRIPT)
    {
        let tool = factory.build(&entry(configured)).map_err(|error| {
            HostError::config(
                format!("{}: {error}", configured.place),
                "`haft tools` lists the tools there are",
            )
        })?;
        if configured.kind == configured.name {
            tools.retain(|known| known.name() != tool.name());
        }
        tools.push(tool);
    }
    Ok(tools)
}

/// The type of a configured tool that is a script.
const SCRIPT: &str = "script";

fn entry(configured: &ConfiguredTool) -> ToolEntry {
    ToolEntry {
        kind: configured.kind.clone(),
        name: configured.name.clone(),
        config: configured.config.as_object().cloned().unwrap_or_default(),
    }
}

/// The scripts that are trusted; what is said about the others goes to the notes.
fn script_tools(
    settings: &Settings,
    notes: &mut Vec<String>,
) -> Result<(Vec<Arc<dyn ErasedTool>>, bool), HostError> {
    let mut tools = Vec::new();
    let mut refused = false;
    for (script, name) in scripts(settings)? {
        let manifest = script.manifest_path().display().to_string();
        let source = match settings.scripts {
            Scripts::Trusted => script.trusted(&settings.places.trust),
            Scripts::AsFound => Ok(script.unchecked()),
        };
        let tool =
            source.and_then(|source| ScriptTool::new(source).map_err(|error| error.to_string()));
        match (tool, name) {
            (Ok(tool), Some(name)) => tools.push(tool.named(name).erased()),
            (Ok(tool), None) => tools.push(tool.erased()),
            (Err(why), _) => {
                refused = true;
                notes.push(format!(
                    "the script `{manifest}` is not offered: {why}; read it, then run `haft trust`"
                ));
            }
        }
    }
    Ok((tools, refused))
}

/// The scripts of the configured folders, and those that are configured one by one under a name.
pub fn scripts(settings: &Settings) -> Result<Vec<(FoundScript, Option<ToolName>)>, HostError> {
    let mut found = Vec::new();
    for folder in &settings.script_folders {
        let scripts = scripts::find(folder).map_err(|why| {
            HostError::config(
                format!(
                    "the script folder `{}` cannot be used: {why}",
                    folder.display()
                ),
                "correct it, or take the folder out of `folders` under [scripts]",
            )
        })?;
        found.extend(scripts.into_iter().map(|script| (script, None)));
    }
    for (beside, tool) in settings
        .tools
        .iter()
        .filter(|(_, tool)| tool.kind == SCRIPT)
    {
        let wrong = |why: String| {
            HostError::config(
                format!("{}: {why}", tool.place),
                "write name = \"…\" and config = { manifest = \"tools/NAME.toml\" }",
            )
        };
        let name = ToolName::parse(&tool.name).map_err(|error| wrong(error.to_string()))?;
        let manifest = tool.config.get("manifest").and_then(|path| path.as_str());
        let manifest =
            manifest.ok_or_else(|| wrong("a script needs the path of its manifest".to_owned()))?;
        found.push((
            scripts::find_one(&beside.join(manifest)).map_err(wrong)?,
            Some(name),
        ));
    }
    Ok(found)
}
