//! From settings to mounted MCP servers: each has its own back end and profile, or an address, and
//! a supervisor in front.

pub mod accept;
pub mod known_definitions;
mod mounted;
mod owner;
mod remedy;
mod report;
pub mod status;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use haft_backends::{LocalBackend, LocalOptions};
use haft_contract::{
    Deadline, UserId, WorkPath,
    future::BoxFuture,
    ops::{Operations, SandboxMode, Tier},
    surface::NextStep,
};
use haft_egress::SystemResolver;
use haft_mcp::{
    client::Clients,
    mounts::CHANGES_KEPT,
    name::{PREFIX, SEPARATOR, ServerId, ToolNaming},
    pin::{Digest, Origin, Store as _},
    upstream::{
        ClientIntroduction,
        auth::{Credential, CredentialParts, LoginError, OauthOptions},
        connection::{Connect, ConnectError, Connection, LastWords, ProtocolEra},
        http::{HttpConnector, ServerAddress},
        mounted::MountedToolMaker,
        owner::CredentialOwner,
        stdio::{ServerCommand, ServerOutput, StdioConnector},
        supervise::{Fleet, MakeTools, Mount, Options, State, SupervisorDefaults, UnseenServer},
        tool::{GROUP, Hints, ToolMounting},
    },
};
use haft_policy::{Finding, FindingKind};
use haft_runtime::{SystemClock, registry::Registry};
use haft_sandbox::{Profile, SandboxOptions, jail::Mounts};
use serde_json::json;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use url::Url;

pub(crate) use self::report::report;
pub use self::{mounted::MountedServers, owner::LoginOwner};
use crate::{
    config::{
        Settings,
        mcp::{CommandTarget, Idle, ServerSettings, Target},
        oauth::OauthSettings,
        secrets::{filled, read_secret},
    },
    error::HostError,
    readiness::{UnreadyTools, server_lacks},
    state::{failures::Failures, logins::Logins, pins::FilePins, private},
    workspace::sandbox_options,
};

/// CPU time limit of a server. It runs for days, and a limit meant for commands would end it.
const CPU_TIME: Duration = Duration::from_hours(24 * 30);

/// Where servers without a configured directory get theirs, in the data directory.
const OWN_DIRECTORIES: &str = "mcp/servers";

/// The servers to mount, not started yet.
pub struct MountPlan {
    servers: Vec<ServerSettings>,
    defaults: Arc<MountDefaults>,
}

/// Settings shared by every mounted server.
#[derive(Debug, Clone)]
pub struct MountDefaults {
    /// How its process is confined, in addition to what its entry says.
    pub sandbox: SandboxOptions,
    /// Where servers' pins, tokens and directories are kept.
    pub data_dir: PathBuf,
    /// Whose logins to use.
    pub logins: LoginOwner,
}

impl MountDefaults {
    /// Whose credential a server is used with: a login is its user's, and what the operator
    /// configured is for everybody in the tenant.
    fn credential_owner(&self, target: &Target) -> CredentialOwner {
        let LoginOwner { tenant, user } = self.logins.clone();
        if takes_logins(target) {
            CredentialOwner::User { tenant, user }
        } else {
            CredentialOwner::Tenant(tenant)
        }
    }

    /// Where this owner's pins, failures and directories of servers are kept. What one tenant
    /// accepted of a server says nothing about what the same server offers another.
    pub(crate) fn owner_dir(&self) -> PathBuf {
        self.logins.directory(&self.data_dir)
    }
}

/// Why a tool with the name of a mounted tool does not exist, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unknown {
    /// It is not known yet what its server offers.
    Unseen(String),
    /// Its server has no such tool, or there is no such server.
    Other(String),
}

impl MountPlan {
    /// A plan with these servers. Reads nothing and starts nothing.
    pub fn new(servers: Vec<ServerSettings>, defaults: MountDefaults) -> Self {
        Self {
            servers,
            defaults: Arc::new(defaults),
        }
    }

    /// A plan without servers.
    pub fn none() -> Self {
        let defaults = MountDefaults {
            sandbox: SandboxOptions::default(),
            data_dir: PathBuf::new(),
            logins: LoginOwner::local(UserId::local()),
        };
        Self::new(Vec::new(), defaults)
    }

    /// The plan for the servers in the settings.
    pub fn of(settings: &Settings) -> Self {
        let defaults = MountDefaults {
            sandbox: sandbox_options(settings),
            data_dir: settings.places.data_dir.clone(),
            logins: LoginOwner::local(settings.places.user.clone()),
        };
        Self::new(settings.mcp.mounted().cloned().collect(), defaults)
    }

    /// Whether a rule may name a tool that does not exist, because a mounted server might have it.
    pub fn may_know(&self, finding: &Finding) -> bool {
        let text = finding.rule.text.as_str();
        match &finding.kind {
            FindingKind::UnknownTool { .. } => self.servers.iter().any(|server| {
                let begins = format!("{PREFIX}{SEPARATOR}{}{SEPARATOR}", server.id);
                server.naming == ToolNaming::Plain
                    || text.starts_with(&begins)
                    || text.starts_with(&format!("{PREFIX}{SEPARATOR}*"))
            }),
            FindingKind::UnknownGroup { .. } => {
                !self.servers.is_empty() && text.trim_start_matches('@').starts_with(GROUP)
            }
            _ => false,
        }
    }

    /// What to say about a tool that does not exist, if its name is one of a mounted server's.
    pub fn about_unknown(&self, tool: &str) -> Option<Unknown> {
        let rest = tool.strip_prefix(PREFIX)?.strip_prefix(SEPARATOR)?;
        let (id, _) = rest.split_once(SEPARATOR)?;
        let Some(server) = self.servers.iter().find(|one| one.id.as_str() == id) else {
            return Some(Unknown::Other(format!(
                "no server `{id}` is mounted; {}",
                NextStep::ListServers.words()
            )));
        };
        let store = FilePins::new(&self.defaults.owner_dir());
        let seen = store.seen(&server.id, &origin(server));
        Some(match seen {
            Ok(None) => Unknown::Unseen(format!(
                "what the server `{id}` offers is not known yet: {}",
                NextStep::LearnServer(id).words()
            )),
            Ok(Some(_)) | Err(_) => Unknown::Other(NextStep::ReviewServer(id).text()),
        })
    }

    /// What in a server's entry is known to keep it from starting, and what to write instead.
    pub fn remedy(&self, server: &str) -> Option<String> {
        let server = self.servers.iter().find(|one| one.id.as_str() == server)?;
        let own = own_directory(server, &self.defaults);
        remedy::remedy(server, &self.defaults.sandbox.profile, &own)
    }

    /// Stores servers' failures for `haft mcp status`, and forgets those of servers that run.
    pub fn keep_failures(&self, fleet: &Fleet) {
        let failures = Failures::new(&self.defaults.owner_dir());
        for status in fleet.status() {
            let server = self.servers.iter().find(|one| one.id == status.server);
            match (status.state, status.last_error, server) {
                (State::Ready, _, _) => failures.forget(&status.server),
                (State::Down, Some(why), Some(server)) => {
                    failures.keep(&server.id, origin(server).digest(), status.since, &why);
                }
                (
                    State::Known
                    | State::Starting
                    | State::Down
                    | State::LoginNeeded
                    | State::Stopped,
                    _,
                    _,
                ) => {}
            }
        }
    }

    /// Keeps only one server.
    #[must_use]
    pub fn only(mut self, server: &ServerId) -> Self {
        self.servers.retain(|one| one.id == *server);
        self
    }

    /// The servers whose tool names do not include the id.
    pub fn plain(&self) -> Vec<ServerId> {
        let plain = self.servers.iter();
        let plain = plain.filter(|server| server.naming == ToolNaming::Plain);
        plain.map(|server| server.id.clone()).collect()
    }

    /// Whether nothing is mounted.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// Starts supervising.
    pub fn start(
        &self,
        registry: &Arc<Registry>,
        clients: &Arc<Clients>,
        unseen: UnseenServer,
    ) -> Result<Fleet, HostError> {
        let shared = SupervisorDefaults {
            store: Arc::new(FilePins::new(&self.defaults.owner_dir())),
            registry: Arc::clone(registry),
            clock: Arc::new(SystemClock),
            changes: broadcast::channel(CHANGES_KEPT).0,
        };
        let mounts = self
            .servers
            .iter()
            .map(|server| mount(server.clone(), &self.defaults, clients))
            .collect();
        Fleet::start(mounts, &shared, unseen).map_err(|error| {
            HostError::config(error.to_string(), "give every server an id of its own")
        })
    }
}

fn mount(settings: ServerSettings, defaults: &Arc<MountDefaults>, clients: &Arc<Clients>) -> Mount {
    let usual = Options::default();
    let options = Options {
        start_timeout: settings.start_timeout.unwrap_or(usual.start_timeout),
        call_timeout: settings.call_timeout.unwrap_or(usual.call_timeout),
        concurrency: settings.concurrency.unwrap_or(usual.concurrency),
        idle: match settings.idle {
            None => usual.idle,
            Some(Idle::Never) => None,
            Some(Idle::For(idle)) => Some(idle),
        },
        ..usual
    };
    let make: Arc<dyn MakeTools> =
        Arc::new(MountedToolMaker(mounting(&settings, &options, clients)));
    let make = match server_lacks(&settings, &defaults.sandbox.profile) {
        None => make,
        Some(why) => Arc::new(UnreadyTools { make, why }),
    };
    Mount {
        origin: origin(&settings),
        owner: defaults.credential_owner(&settings.target),
        make,
        server: settings.id.clone(),
        naming: settings.naming,
        filter: settings.tools.clone(),
        connect: Arc::new(WhenNeeded {
            settings: Arc::new(settings),
            defaults: Arc::clone(defaults),
            era: Mutex::new(None),
            printed: ServerOutput::default(),
        }),
        options,
    }
}

fn mounting(settings: &ServerSettings, options: &Options, clients: &Arc<Clients>) -> ToolMounting {
    let longest = options.call_timeout;
    let usual = ToolMounting::new(Arc::clone(clients));
    // A configured limit also applies to calls that set no deadline.
    let default = match settings.call_timeout {
        Some(longest) => longest,
        None => usual.deadline.default.min(longest),
    };
    ToolMounting {
        naming: settings.naming,
        hints: if settings.trust_annotations {
            Hints::Believed
        } else {
            Hints::Ignored
        },
        deadline: Deadline::new(default, longest),
        ..usual
    }
}

/// Who answers under a server's id: everything in its entry that decides which program runs and
/// whether it is confined, or where requests go. The operator may change what else it can see or
/// reach without reviewing definitions again. Secrets are included by name, variables by a hash:
/// some of them decide what a program loads, and none needs to be readable here.
pub fn origin(settings: &ServerSettings) -> Origin {
    let secrets: Vec<&String> = settings.secrets.keys().collect();
    Origin::new(match &settings.target {
        Target::Command(command) => json!({
            "command": command.argv,
            "cwd": command.cwd,
            "env": command.env.keys().collect::<Vec<_>>(),
            "env_sha256": Digest::of_bytes(json!(command.env).to_string().as_bytes()).to_string(),
            "sandbox": command.mode.as_str(),
            "secrets": secrets,
            "sha256": command.sha256.map(|bytes| Digest::from_bytes(bytes).to_string()),
        }),
        Target::Url { url, headers, .. } => json!({
            "headers": headers.keys().collect::<Vec<_>>(),
            "secrets": secrets,
            "url": url,
        }),
    })
}

/// How a server is reached, built anew each time it starts: its secrets are read then and kept only
/// while it runs. Whatever prevents that (a missing secret, a sandbox that this machine does not
/// have) is reported to the caller and tried again next time.
struct WhenNeeded {
    settings: Arc<ServerSettings>,
    defaults: Arc<MountDefaults>,
    /// The era it last spoke, so that an old server is not probed twice.
    era: Mutex<Option<ProtocolEra>>,
    printed: ServerOutput,
}

impl WhenNeeded {
    /// Reads files, so it must not run on a thread that others wait for.
    async fn made(&self) -> Result<Arc<dyn Connect>, String> {
        let (settings, defaults) = (Arc::clone(&self.settings), Arc::clone(&self.defaults));
        let printed = self.printed.clone();
        let era = *self.era.lock().unwrap_or_else(PoisonError::into_inner);
        let made = tokio::task::spawn_blocking(move || match &settings.target {
            Target::Command(command) => {
                let connector = process(&settings, command, &defaults)?;
                let connector = connector.knowing(era).printing(printed);
                Ok(Arc::new(connector) as Arc<dyn Connect>)
            }
            Target::Url {
                url,
                headers,
                oauth,
            } => {
                let connector = address(&settings, url, headers, oauth, &defaults)?;
                Ok(Arc::new(connector.knowing(era)) as Arc<dyn Connect>)
            }
        });
        made.await
            .unwrap_or_else(|_| Err("its connection could not be set up".to_owned()))
    }
}

impl Connect for WhenNeeded {
    fn connect<'a>(
        &'a self,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Arc<dyn Connection>, ConnectError>> {
        Box::pin(async move {
            let connect = self.made().await.map_err(ConnectError::Unreachable)?;
            let opened = connect.connect(cancel).await;
            *self.era.lock().unwrap_or_else(PoisonError::into_inner) = connect.known_era();
            opened
        })
    }

    fn last_words(&self) -> LastWords {
        self.printed.last_words()
    }
}

fn secrets(server: &ServerSettings) -> Result<BTreeMap<String, String>, String> {
    let read = server.secrets.iter().map(|(name, reference)| {
        let secret = read_secret(reference);
        let secret = secret.map_err(|why| format!("its secret `{name}` is missing: {why}"))?;
        Ok((name.clone(), secret))
    });
    read.collect()
}

fn process(
    server: &ServerSettings,
    command: &CommandTarget,
    defaults: &MountDefaults,
) -> Result<StdioConnector, String> {
    let mut environment = command.env.clone();
    environment.extend(secrets(server)?);
    let root = root(server, command, defaults)?;
    let base = defaults.sandbox.clone();
    let mut limits = base.limits;
    limits.cpu_time = limits.cpu_time.max(CPU_TIME);
    let options = LocalOptions {
        cross_mounts: Mounts::Refuse,
        sandbox: SandboxOptions {
            profile: Profile {
                read_only: command.read_only.clone(),
                writable: command.writable.clone(),
                ..base.profile
            },
            limits,
            network_setting: Some(format!(
                "`sandbox.network` of the server `{}` in haft.toml",
                server.id
            )),
            ..base
        },
        changes: None,
        ..LocalOptions::default()
    };
    let backend = LocalBackend::open(&root, options)
        .map_err(|error| format!("its directory cannot be used: {error}"))?;
    let operations = backend.operations();
    let tier = tier(command.mode, &operations)?;
    let command = ServerCommand {
        argv: command.argv.clone(),
        cwd: WorkPath::root(),
        environment,
        tier,
        egress: command.network.clone().map(Arc::new),
        pinned: command.sha256,
    };
    let introduction = introduction(server);
    let connector = StdioConnector::new(operations.processes, command, introduction);
    Ok(connector)
}

/// How Haft introduces itself, with the patience set in the server's entry.
fn introduction(server: &ServerSettings) -> ClientIntroduction {
    let usual = ClientIntroduction::default();
    ClientIntroduction {
        patience: server.start_timeout.unwrap_or(usual.patience),
        ..usual
    }
}

/// The weakest tier that is strong enough; never weaker than requested.
fn tier(mode: SandboxMode, operations: &Operations) -> Result<Tier, String> {
    if mode == SandboxMode::Off {
        return Ok(Tier::Host);
    }
    let children = operations
        .tiers
        .iter()
        .copied()
        .filter(|tier| *tier != Tier::InProcess);
    children
        .filter(|tier| mode.accepts(*tier))
        .min()
        .ok_or_else(|| {
            format!(
                "it needs the sandbox `{}`, which this machine does not have; {}",
                mode.as_str(),
                NextStep::CheckSandbox(operations.tier_remedy).words()
            )
        })
}

/// The directory for a server without a configured one.
fn own_directory(server: &ServerSettings, defaults: &MountDefaults) -> PathBuf {
    let own = defaults.owner_dir().join(OWN_DIRECTORIES);
    own.join(server.id.as_str())
}

/// The directory a server starts in: the configured one, or an empty one of its own.
fn root(
    server: &ServerSettings,
    command: &CommandTarget,
    defaults: &MountDefaults,
) -> Result<PathBuf, String> {
    if let Some(cwd) = &command.cwd {
        return Ok(cwd.clone());
    }
    let own = own_directory(server, defaults);
    private::make_directory(&own)
        .map_err(|error| format!("its directory `{}` cannot be made: {error}", own.display()))?;
    Ok(own)
}

fn address(
    server: &ServerSettings,
    url: &str,
    headers: &BTreeMap<String, String>,
    oauth: &OauthSettings,
    defaults: &MountDefaults,
) -> Result<HttpConnector, String> {
    let secrets = secrets(server)?;
    let mut address = ServerAddress::parse(url).map_err(|error| error.to_string())?;
    for (name, value) in headers {
        address = address
            .header(name, &filled(value, &secrets))
            .map_err(|error| error.to_string())?;
    }
    if takes_logins(&server.target) {
        let options = oauth.options(&secrets);
        // If logging in is not possible (plain HTTP over a network), a server that requires it
        // stays unavailable, and `haft mcp login` says why.
        let (data_dir, owner) = (&defaults.data_dir, &defaults.logins);
        if let Ok(credential) = login_to(address.url().clone(), options, data_dir, owner) {
            address = address.authorize(Arc::new(credential));
        }
    }
    HttpConnector::new(address, introduction(server)).map_err(|error| error.to_string())
}

/// Whether somebody can log in to a server: it has an address, and its entry does not already set
/// an authorization.
pub fn takes_logins(target: &Target) -> bool {
    let given = |name: &String| name.eq_ignore_ascii_case("authorization");
    match target {
        Target::Command(_) => false,
        Target::Url { headers, .. } => !headers.keys().any(given),
    }
}

/// A user's credential for a server.
pub fn credential(
    server: &ServerSettings,
    data_dir: &Path,
    owner: &LoginOwner,
) -> Result<Option<Credential>, String> {
    let Target::Url { url, oauth, .. } = &server.target else {
        return Ok(None);
    };
    if !takes_logins(&server.target) {
        return Ok(None);
    }
    let options = oauth.options(&secrets(server)?);
    let address = ServerAddress::parse(url).map_err(|error| error.to_string())?;
    let credential = login_to(address.url().clone(), options, data_dir, owner);
    credential.map(Some).map_err(|error| error.to_string())
}

fn login_to(
    server: Url,
    options: OauthOptions,
    data_dir: &Path,
    owner: &LoginOwner,
) -> Result<Credential, LoginError> {
    Credential::new(CredentialParts {
        server,
        tenant: owner.tenant.clone(),
        user: owner.user.clone(),
        options,
        vault: Arc::new(Logins::of(data_dir)),
        resolver: Arc::new(SystemResolver::default()),
        clock: Arc::new(SystemClock),
        person: None,
    })
}
