//! Which configuration is read, in which order, and how it is merged.
//!
//! 1. `--config FILE` or `HAFT_CONFIG`, if given, is the whole configuration.
//! 2. Otherwise your own `haft/haft.toml` in the configuration directory, and the workspace's
//!    `haft.toml` if it is trusted. They add up; if they contradict each other, the stricter wins.
//!    For caps that is the smaller one. Mounts are crossed only if every file says so. For how long
//!    the record is kept, it is the longest. A host that one file denies is denied.
//! 3. A workspace file that was trusted and has changed stops everything; one that was never
//!    trusted is ignored, with a note.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use haft_contract::{TenantId, UserId};
use haft_ledger::{ObjectStorage, Retention, options::MAX_QUEUED_BYTES};
use haft_policy::{CedarPolicy, LoadError, PolicyFile, PolicySource, load::Problem};
use haft_runtime::Limits;

use super::{
    FILE_NAME,
    backends::{BackendName, Backends},
    catalog::CatalogSettings,
    client_questions::AskingSettings,
    env::Env,
    file::{self, ConfiguredTool},
    file_text::{bytes_of, existing_text_of, own_text_of, text_of, utf8},
    leads_through::{leads_through, real},
    limits::LimitSettings,
    loop_guard::LoopGuardSettings,
    mcp::{McpSettings, Target},
    sandbox::SandboxSettings,
    serve::ServeSettings,
    timeouts::TimeoutSettings,
    trust::{Trust, TrustStore, sha256},
    undo::UndoSettings,
};
use crate::error::HostError;

/// The paths given on the command line.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// `--workspace`.
    pub workspace: Option<PathBuf>,
    /// `--config`.
    pub config: Option<PathBuf>,
    /// `--data-dir`.
    pub data_dir: Option<PathBuf>,
}

impl Overrides {
    /// Where the record and the trust store are; `None` without a home directory.
    pub fn data_dir(&self, env: &Env) -> Option<PathBuf> {
        let named = self.data_dir.as_ref().or(env.data_dir.as_ref());
        let named = named.map(|path| env.current_dir.join(path));
        named.or_else(|| env.data_home.as_ref().map(|home| home.join("haft")))
    }

    /// The only configuration file, if one is named.
    pub fn only_config(&self, env: &Env) -> Option<PathBuf> {
        let named = self.config.as_ref().or(env.config.as_ref());
        named.map(|path| env.current_dir.join(path))
    }
}

/// All paths that matter. Only the trust store has been read.
#[derive(Debug)]
pub struct ConfigPlaces {
    /// The workspace root, absolute.
    pub workspace: PathBuf,
    /// Where the record and the trust store are.
    pub data_dir: PathBuf,
    /// The database of the record, if it is not a file in the data directory.
    pub database: Option<String>,
    /// The storage of artifacts, if they are not files in the data directory.
    pub artifacts: Option<ObjectStorage>,
    /// The only configuration file, if one was named.
    pub only_config: Option<PathBuf>,
    /// The user's own configuration file, which may not exist.
    pub user_config: Option<PathBuf>,
    /// The workspace's configuration file, which may not exist.
    pub project_config: PathBuf,
    /// The tenant the program acts in.
    pub tenant: TenantId,
    /// The user the program runs as.
    pub user: UserId,
    /// The user's home.
    pub home: Option<PathBuf>,
    /// The user's runtime directory.
    pub runtime: Option<PathBuf>,
    /// Where toolchains are, by the variables that name them.
    pub toolchains: BTreeMap<String, PathBuf>,
    /// The pins of trusted files.
    pub trust: TrustStore,
}

/// Everything that configuration decides.
#[derive(Debug)]
pub struct Settings {
    /// All paths that matter.
    pub places: ConfigPlaces,
    /// The files that were read, in the form policy uses.
    pub sources: Vec<PolicySource>,
    /// The file that rules should be added to.
    pub rules_go_to: PathBuf,
    /// The policy in force.
    pub policy: CedarPolicy,
    /// The caps.
    pub limits: Limits,
    /// The caps that the files set.
    pub limits_set: LimitSettings,
    /// How long calls run that ask for no other time.
    pub timeouts: TimeoutSettings,
    /// When to intervene in a session that repeats itself.
    pub loop_guard: LoopGuardSettings,
    /// How clients over MCP are asked.
    pub asking: AskingSettings,
    /// How many tools are listed over MCP.
    pub catalog: CatalogSettings,
    /// How long artifacts are kept.
    pub retention: Retention,
    /// How many bytes may wait to be written to the record.
    pub queue_bytes: usize,
    /// Whether paths may lead onto mounted file systems.
    pub cross_mounts: bool,
    /// How commands are confined.
    pub sandbox: SandboxSettings,
    /// Workspaces on other machines and in containers, and who works there.
    pub backends: Backends,
    /// The back end in force: that of everybody who names none, until these settings are
    /// [`used_by`](Self::used_by) somebody.
    pub(crate) backend: BackendName,
    /// Whether calls in one process may work on several back ends.
    pub(crate) varies: bool,
    /// What `haft serve` serves.
    pub serve: ServeSettings,
    /// How changes made by commands are kept for undo.
    pub undo: UndoSettings,
    /// Folders with script tools, absolute.
    pub script_folders: Vec<PathBuf>,
    /// Tools built from configuration, each with the directory of its file.
    pub tools: Vec<(PathBuf, ConfiguredTool)>,
    /// Which scripts become tools.
    pub scripts: Scripts,
    /// The MCP servers to mount.
    pub mcp: McpSettings,
    /// The databases that tools reach by name.
    #[cfg(feature = "databases")]
    pub databases: Vec<haft_connect::settings::SourceSettings>,
    /// Notes for a person, such as about a file that was not read.
    pub notes: Vec<String>,
}

/// Which scripts become tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scripts {
    /// Those that have not changed since they were trusted.
    Trusted,
    /// All of them, for looking at rules about them; nothing is run.
    AsFound,
}

impl ConfigPlaces {
    /// Finds all paths.
    pub fn find(env: &Env, overrides: &Overrides) -> Result<Self, HostError> {
        let absolute = |path: &Path| env.current_dir.join(path);
        let data_dir = overrides.data_dir(env).ok_or_else(|| {
            HostError::config(
                "there is no home directory to keep the record in",
                "set HOME, or name a directory with `--data-dir`",
            )
        })?;
        let trust = TrustStore::open(&data_dir)?;
        let named = overrides.workspace.as_ref().or(env.workspace.as_ref());
        let workspace = match named {
            Some(named) => canonical(&absolute(named))?,
            None => nearest_workspace(&canonical(&env.current_dir)?, &trust),
        };
        let user = env
            .user_id()
            .map_err(|error| HostError::config(error.to_string(), "set USER to a plain name"))?;
        let config_home = env.config_home.as_ref();
        let places = Self {
            project_config: workspace.join(FILE_NAME),
            workspace,
            data_dir,
            database: env.database.clone(),
            artifacts: env.artifacts.clone(),
            only_config: overrides.only_config(env),
            user_config: config_home.map(|home| home.join("haft").join(FILE_NAME)),
            tenant: TenantId::local(),
            user,
            home: env.home.clone(),
            runtime: env.runtime.clone(),
            toolchains: env.toolchains.clone(),
            trust,
        };
        places.keep_apart()?;
        Ok(places)
    }

    /// Checks that tools cannot write the record or the trust store: one that could would be able
    /// to allow itself anything.
    fn keep_apart(&self) -> Result<(), HostError> {
        if let Some(only) = &self.only_config
            && leads_through(only, &self.workspace)
        {
            return Err(HostError::config(
                format!(
                    "the configuration `{}` is inside the workspace `{}`, where tools could change it",
                    only.display(),
                    self.workspace.display()
                ),
                "keep it outside; the workspace's own haft.toml needs no `--config`, only `haft trust`",
            ));
        }
        let own = [Some(&self.data_dir), self.user_config.as_ref()];
        for path in own.into_iter().flatten() {
            if leads_through(path, &self.workspace) {
                return Err(HostError::config(
                    format!(
                        "the workspace `{}` contains Haft's own files (`{}`), which no tool may reach",
                        self.workspace.display(),
                        path.display()
                    ),
                    "work in a directory below it, or name one with `--workspace`",
                ));
            }
        }
        Ok(())
    }

    /// Checks that commands cannot see the record or the trust store. One that could read them
    /// would see every other agent's secrets, and one that could write them could allow itself
    /// anything.
    fn keep_hidden(&self, sandbox: &SandboxSettings, mcp: &McpSettings) -> Result<(), HostError> {
        let shown = sandbox.read_only.iter().chain(&sandbox.writable);
        self.keep_hidden_from("[sandbox] shows commands", shown)?;
        for server in &mcp.servers {
            let Target::Command(command) = &server.target else {
                continue;
            };
            let shown = command.read_only.iter().chain(&command.writable);
            let whom = format!("the mounted server `{}` would see", server.id);
            self.keep_hidden_from(&whom, shown.chain(&command.cwd))?;
        }
        Ok(())
    }

    fn keep_hidden_from<'p>(
        &self,
        whom: &str,
        shown: impl Iterator<Item = &'p PathBuf> + Clone,
    ) -> Result<(), HostError> {
        let own = [Some(&self.data_dir), self.user_config.as_ref()];
        for own in own.into_iter().flatten() {
            let touches = |place: &&PathBuf| {
                leads_through(own, place)
                    || leads_through(own, &real(place))
                    || leads_through(place, own)
            };
            if let Some(place) = shown.clone().find(touches) {
                return Err(HostError::config(
                    format!(
                        "{whom} `{}`, which contains Haft's own files or is inside them (`{}`)",
                        place.display(),
                        own.display()
                    ),
                    "show a directory that has nothing to do with them",
                ));
            }
        }
        Ok(())
    }

    /// Reads the configuration.
    pub fn settings(self) -> Result<Settings, HostError> {
        let (read, notes) = self.read()?;
        let rules_go_to = match (&self.only_config, self.trust.knows(&self.project_config)) {
            (Some(only), _) => only.clone(),
            (None, true) => self.project_config.clone(),
            (None, false) => self
                .user_config
                .clone()
                .unwrap_or_else(|| self.project_config.clone()),
        };
        Settings::from_texts(self, read, rules_go_to, notes)
    }

    /// Reads one file as the whole configuration, trusted or not, for looking at it.
    pub fn settings_of(self, file: PathBuf) -> Result<Settings, HostError> {
        let text = existing_text_of(&file)?;
        let mut settings =
            Settings::from_texts(self, vec![(file.clone(), text)], file, Vec::new())?;
        settings.scripts = Scripts::AsFound;
        Ok(settings)
    }

    /// The configuration texts, unparsed.
    pub fn sources(&self) -> Result<Vec<PolicySource>, HostError> {
        let (read, _) = self.read()?;
        let sources = read.into_iter();
        Ok(sources
            .map(|(path, text)| PolicySource::new(self.name_of(&path), text))
            .collect())
    }

    /// The text of one file, trusted or not, unparsed.
    pub fn sources_of(&self, file: &Path) -> Result<Vec<PolicySource>, HostError> {
        let text = existing_text_of(file)?;
        Ok(vec![PolicySource::new(self.name_of(file), text)])
    }

    /// Reads the files that apply, and returns notes for a person about the others.
    fn read(&self) -> Result<(Vec<TextOf>, Vec<String>), HostError> {
        let mut read: Vec<TextOf> = Vec::new();
        let mut notes = Vec::new();
        if let Some(only) = &self.only_config {
            let text = text_of(only)?.ok_or_else(|| {
                HostError::config(
                    format!("there is no configuration file `{}`", only.display()),
                    "check `--config` and `HAFT_CONFIG`",
                )
            })?;
            read.push((only.clone(), text));
        } else {
            if let Some(user) = &self.user_config
                && let Some(text) = own_text_of(user)?
            {
                read.push((user.clone(), text));
            }
            self.read_project(&mut read, &mut notes)?;
        }
        Ok((read, notes))
    }

    fn read_project(
        &self,
        read: &mut Vec<(PathBuf, String)>,
        notes: &mut Vec<String>,
    ) -> Result<(), HostError> {
        let path = &self.project_config;
        let Some(bytes) = bytes_of(path)? else {
            if self.trust.knows(path) {
                return Err(HostError::config(
                    format!(
                        "`{}` was trusted but no longer exists, so its rules are missing",
                        path.display()
                    ),
                    "restore it, or forget it with `haft trust --forget`",
                ));
            }
            return Ok(());
        };
        match self.trust.of(path, sha256(&bytes)) {
            Trust::Trusted => read.push((path.clone(), utf8(path, bytes)?)),
            Trust::Changed => {
                return Err(HostError::config(
                    format!("`{}` has changed since it was trusted", path.display()),
                    "read it, then run `haft trust`",
                ));
            }
            Trust::Never => notes.push(format!(
                "`{}` is not read, because you have not trusted it; read it, then run `haft trust`",
                path.display()
            )),
        }
        Ok(())
    }
}

/// A file and its text.
type TextOf = (PathBuf, String);

impl Settings {
    fn from_texts(
        places: ConfigPlaces,
        read: Vec<(PathBuf, String)>,
        rules_go_to: PathBuf,
        notes: Vec<String>,
    ) -> Result<Self, HostError> {
        let sources: Vec<PolicySource> = read
            .iter()
            .map(|(path, text)| PolicySource::new(places.name_of(path), text.clone()))
            .collect();
        let mut problems: Vec<Problem> = Vec::new();
        let mut limits_set = LimitSettings::default();
        let mut timeouts = TimeoutSettings::default();
        let mut loop_guard = LoopGuardSettings::default();
        let mut asking = AskingSettings::default();
        let mut catalog = CatalogSettings::default();
        let (mut days, mut bytes, mut queue_bytes) = (None, None, None);
        let mut cross_mounts = !read.is_empty();
        let mut sandbox = SandboxSettings::default();
        let mut backends = Backends::default();
        let mut serve = ServeSettings::default();
        let mut undo = UndoSettings::default();
        let mut script_folders = Vec::new();
        let mut tools = Vec::new();
        let mut mcp = McpSettings::default();
        #[cfg(feature = "databases")]
        let mut databases = Vec::new();
        for (source, (path, _)) in sources.iter().zip(&read) {
            match file::parse(source) {
                Ok(file) => {
                    limits_set.join(&file.limits);
                    timeouts.join(file.timeouts);
                    loop_guard.join(file.loop_guard);
                    asking.join(file.asking);
                    catalog.join(file.catalog);
                    days = days.max(file.artifact_days);
                    bytes = bytes.max(file.artifact_bytes);
                    // It is a cap, so the smaller value wins.
                    queue_bytes = queue_bytes.into_iter().chain(file.queue_bytes).min();
                    cross_mounts &= file.cross_mounts == Some(true);
                    sandbox.join(file.sandbox);
                    backends.join(file.backends)?;
                    places.join_serve(&mut serve, file.serve, path)?;
                    undo.join(file.undo);
                    #[cfg(feature = "databases")]
                    super::sources::join(&mut databases, file.databases);
                    let beside = path.parent().unwrap_or(Path::new("/"));
                    script_folders.extend(file.script_folders.iter().map(|name| beside.join(name)));
                    tools.extend(file.tools.into_iter().map(|tool| (beside.to_owned(), tool)));
                    mcp.join(file.mcp, beside).map_err(|why| {
                        HostError::config(why, "give every server its own id in one of the files")
                    })?;
                }
                Err(found) => problems.extend(found),
            }
        }
        let policy = match PolicyFile::parse_all(&sources).and_then(PolicyFile::build) {
            Ok(policy) if problems.is_empty() => policy,
            Ok(_) => return Err(mistakes(&problems, &read)),
            Err(error) => return Err(mistakes(&merged(problems, &error), &read)),
        };
        #[cfg(feature = "databases")]
        check_database_rules(&policy, &databases, &read)?;
        backends.check()?;
        let backend = backends.default_backend();
        let here = backend == BackendName::Local;
        sandbox.expand_home(places.home.as_deref().filter(|_| here))?;
        places.keep_hidden(&sandbox, &mcp)?;
        let mut limits = Limits::default();
        limits_set.apply(&mut limits);
        Ok(Self {
            places,
            sources,
            rules_go_to,
            policy,
            limits,
            limits_set,
            timeouts,
            loop_guard,
            asking,
            catalog,
            retention: retention(days, bytes),
            queue_bytes: queue_bytes.map_or(MAX_QUEUED_BYTES, |bytes| {
                usize::try_from(bytes).unwrap_or(usize::MAX)
            }),
            cross_mounts,
            sandbox,
            varies: backends.may_vary(),
            backends,
            backend,
            serve,
            undo,
            script_folders,
            tools,
            scripts: Scripts::Trusted,
            mcp,
            #[cfg(feature = "databases")]
            databases,
            notes,
        })
    }

    /// The name in messages of the file that rules should be added to.
    pub fn rules_file_name(&self) -> String {
        self.places.name_of(&self.rules_go_to)
    }
}

/// Fails if a rule is about a database that is not configured.
#[cfg(feature = "databases")]
fn check_database_rules(
    policy: &CedarPolicy,
    databases: &[haft_connect::settings::SourceSettings],
    read: &[TextOf],
) -> Result<(), HostError> {
    let unmatched = super::sources::unmatched_rules(policy, databases);
    if unmatched.is_empty() {
        Ok(())
    } else {
        Err(mistakes(&unmatched, read))
    }
}

/// How long artifacts are kept, and how many bytes of them.
fn retention(days: Option<u64>, bytes: Option<u64>) -> Retention {
    let mut retention = Retention::default();
    if let Some(days) = days {
        retention.kept_for = Duration::from_hours(days.saturating_mul(24));
    }
    retention.max_total_bytes = bytes.unwrap_or(retention.max_total_bytes);
    retention
}

impl ConfigPlaces {
    /// The name of a configuration file in messages: short if it is in the workspace.
    pub fn name_of(&self, path: &Path) -> String {
        path.strip_prefix(&self.workspace)
            .unwrap_or(path)
            .display()
            .to_string()
    }
}

/// Checks a configuration text as a whole, before it is trusted.
pub fn check(name: &str, path: &Path, text: &str) -> Result<(), HostError> {
    let source = PolicySource::new(name, text);
    let read = [(path.to_owned(), String::new())];
    let problems = file::parse(&source).err().unwrap_or_default();
    match CedarPolicy::load(std::slice::from_ref(&source)) {
        Ok(_) if problems.is_empty() => Ok(()),
        Ok(_) => Err(mistakes(&problems, &read)),
        Err(error) => Err(mistakes(&merged(problems, &error), &read)),
    }
}

/// The problems of both readers, by line. Both report a file that is not TOML, so one report is
/// dropped.
fn merged(mut problems: Vec<Problem>, error: &LoadError) -> Vec<Problem> {
    for problem in error.problems() {
        let known =
            |other: &Problem| (&other.source, other.line) == (&problem.source, problem.line);
        if !problems.iter().any(known) {
            problems.push(problem.clone());
        }
    }
    problems.sort_by(|a, b| (&a.source, a.line, a.column).cmp(&(&b.source, b.line, b.column)));
    problems
}

fn mistakes(problems: &[Problem], read: &[(PathBuf, String)]) -> HostError {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let what = match problems.len() {
        1 => "a mistake in the configuration".to_owned(),
        several => format!("{several} mistakes in the configuration"),
    };
    // Name the file, because an edited file is not read until it is trusted again.
    let faulty = problems.first().and_then(|problem| {
        let ends = |(path, _): &&(PathBuf, String)| path.ends_with(&problem.source);
        read.iter().find(ends)
    });
    let file = faulty.map_or_else(String::new, |(path, _)| format!(" {}", path.display()));
    HostError::config(
        format!("{what}\n{}", lines.join("\n")),
        format!("correct it; `haft policy lint{file}` checks it again"),
    )
}

/// The nearest parent directory with a trusted configuration, or else the directory itself.
fn nearest_workspace(current: &Path, trust: &TrustStore) -> PathBuf {
    current
        .ancestors()
        .find(|directory| trust.knows(&directory.join(FILE_NAME)))
        .unwrap_or(current)
        .to_owned()
}

fn canonical(path: &Path) -> Result<PathBuf, HostError> {
    fs::canonicalize(path).map_err(|error| {
        HostError::config(
            format!(
                "the workspace `{}` cannot be opened: {error}",
                path.display()
            ),
            "name an existing directory with `--workspace`",
        )
    })
}
