//! The environment variables that Haft knows, read once. All others are ignored.

use std::{collections::BTreeMap, env, ffi::OsString, path::PathBuf};

use haft_contract::{UserId, identity::IdentityError};
use haft_ledger::ObjectStorage;
use haft_sandbox::Profile;

/// The values of the known variables.
#[derive(Debug, Clone, Default)]
pub struct Env {
    /// `HAFT_CONFIG`: a configuration file to use instead of the usual ones.
    pub config: Option<PathBuf>,
    /// `HAFT_DATA_DIR`: where the record and the trust store are kept.
    pub data_dir: Option<PathBuf>,
    /// `HAFT_DATABASE`: a database for the record instead of a file in the data directory.
    pub database: Option<String>,
    /// `HAFT_ARTIFACTS`: object storage for artifacts instead of files in the data directory, with the
    /// variables that say how to reach it.
    pub artifacts: Option<ObjectStorage>,
    /// `HAFT_WORKSPACE`: the workspace root.
    pub workspace: Option<PathBuf>,
    /// `HAFT_AGENT`: which agent makes the calls.
    pub agent: Option<String>,
    /// `HAFT_SESSION`: the conversation they belong to.
    pub session: Option<String>,
    /// `HAFT_SESSION_KIND`: what kind of conversation that is.
    pub session_kind: Option<String>,
    /// `HAFT_CHANNEL`: the channel it came from.
    pub channel: Option<String>,
    /// `HAFT_SCOPES`: the scopes of the caller's credential.
    pub scopes: Vec<String>,
    /// `HAFT_PARENT_AGENTS`: the agents that started the caller, nearest first.
    pub parent_agents: Vec<String>,
    /// `HAFT_LOG`: what is logged to standard error, as a `tracing` filter.
    pub log: Option<String>,
    /// `XDG_CONFIG_HOME`, or `.config` in the home directory.
    pub config_home: Option<PathBuf>,
    /// `XDG_DATA_HOME`, or `.local/share` in the home directory.
    pub data_home: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`.
    pub runtime: Option<PathBuf>,
    /// `DBUS_SESSION_BUS_ADDRESS`, or the bus in the runtime directory: agents pass on little.
    pub session_bus: Option<String>,
    /// `HOME`.
    pub home: Option<PathBuf>,
    /// Where toolchains are, by the variables that name them.
    pub toolchains: BTreeMap<String, PathBuf>,
    /// `USER` or `LOGNAME`.
    pub user: Option<String>,
    /// Whether colours are unwanted: `NO_COLOR` is set, or `TERM` is `dumb`.
    pub no_colour: bool,
    /// The directory the program was started in.
    pub current_dir: PathBuf,
}

/// The variable that names the configuration directory.
pub const CONFIG_HOME: &str = "XDG_CONFIG_HOME";

/// Each variable and its meaning, for the reference.
pub const VARIABLES: &[(&str, &str)] = &[
    ("HAFT_CONFIG", "the same as `--config`"),
    ("HAFT_DATA_DIR", "the same as `--data-dir`"),
    (
        "HAFT_DATABASE",
        "the database that holds the record, as `postgres://user@host/database`; without it, the record is a file in the data directory",
    ),
    (
        "HAFT_ARTIFACTS",
        "object storage for long output and file versions, as `s3://bucket/prefix`; without it, they are files in the data directory. `AWS_ENDPOINT_URL`, `AWS_REGION`, `AWS_ACCESS_KEY_ID` and the like say how to reach it",
    ),
    ("HAFT_WORKSPACE", "the same as `--workspace`"),
    ("HAFT_AGENT", "the same as `--agent`"),
    ("HAFT_SESSION", "the same as `--session`"),
    ("HAFT_SESSION_KIND", "the same as `--session-kind`"),
    ("HAFT_CHANNEL", "the same as `--channel`"),
    (
        "HAFT_SCOPES",
        "the same as `--scope`, for several with commas between them",
    ),
    (
        "HAFT_PARENT_AGENTS",
        "the same as `--parent-agent`, for several with commas between them",
    ),
    (
        "HAFT_LOG",
        "what Haft logs to standard error, such as `debug` (every event of a call) or `warn`",
    ),
    (
        "XDG_CONFIG_HOME",
        "your own configuration is `haft/haft.toml` in it; default `~/.config`",
    ),
    (
        "XDG_DATA_HOME",
        "the record is `haft/` in it; default `~/.local/share`",
    ),
    (
        "XDG_RUNTIME_DIR",
        "the sockets of commands go into it if only you can enter it; otherwise they go into a private directory in `/tmp`",
    ),
    ("NO_COLOR", "turns colours off if set and not empty"),
];

impl Env {
    /// The home directory as text.
    pub fn home_text(&self) -> Option<String> {
        let home = self.home.as_deref()?;
        home.to_str().map(str::to_owned)
    }

    /// The user the program runs as: by name, or by number if there is no name.
    pub fn user_id(&self) -> Result<UserId, IdentityError> {
        let named = self
            .user
            .as_deref()
            .and_then(|user| UserId::parse(user).ok());
        match named {
            Some(user) => Ok(user),
            None => UserId::parse(&format!("uid-{}", rustix::process::getuid().as_raw())),
        }
    }

    /// Reads the environment.
    pub fn read() -> Self {
        Self::from(value)
    }

    /// The environment of a server that an agent starts with these variables. Some agents pass on
    /// almost nothing of their own, so only the home directory and the user are certain.
    pub fn of_server(given: &BTreeMap<String, String>) -> Self {
        Self::from(|name| match given.get(name) {
            Some(value) => Some(value.into()),
            None if matches!(name, "HOME" | "USER" | "LOGNAME") => value(name),
            None => None,
        })
    }

    fn from(value: impl Fn(&str) -> Option<OsString>) -> Self {
        let set = |name: &str| value(name).filter(|value| !value.is_empty());
        let path = |name: &str| set(name).map(PathBuf::from);
        let text = |name: &str| set(name).map(|value| value.to_string_lossy().into_owned());
        let list = |name: &str| {
            let text = text(name).unwrap_or_default();
            let parts = text.split(',').map(str::trim);
            let named = parts.filter(|part| !part.is_empty());
            named.map(str::to_owned).collect()
        };
        // The XDG specification says that relative paths are to be ignored.
        let absolute = |name: &str| path(name).filter(|path| path.is_absolute());
        let home = path("HOME");
        let beneath_home = |below: &str| home.as_ref().map(|home| home.join(below));
        Self {
            config: path("HAFT_CONFIG"),
            data_dir: path("HAFT_DATA_DIR"),
            database: text("HAFT_DATABASE"),
            artifacts: text("HAFT_ARTIFACTS").map(|address| {
                let settings = ObjectStorage::SETTINGS.into_iter();
                settings
                    .filter_map(|name| Some((name, text(name)?)))
                    .fold(ObjectStorage::new(address), |storage, (name, value)| {
                        storage.setting(name, value)
                    })
            }),
            workspace: path("HAFT_WORKSPACE"),
            agent: text("HAFT_AGENT"),
            session: text("HAFT_SESSION"),
            session_kind: text("HAFT_SESSION_KIND"),
            channel: text("HAFT_CHANNEL"),
            scopes: list("HAFT_SCOPES"),
            parent_agents: list("HAFT_PARENT_AGENTS"),
            log: text("HAFT_LOG"),
            config_home: absolute(CONFIG_HOME).or_else(|| beneath_home(".config")),
            data_home: absolute("XDG_DATA_HOME").or_else(|| beneath_home(".local/share")),
            toolchains: Profile::variables()
                .filter_map(|name| Some((name.to_owned(), absolute(name)?)))
                .collect(),
            runtime: absolute("XDG_RUNTIME_DIR"),
            session_bus: text("DBUS_SESSION_BUS_ADDRESS").or_else(|| {
                let socket = absolute("XDG_RUNTIME_DIR")?.join("bus");
                let address = format!("unix:path={}", socket.display());
                socket.exists().then_some(address)
            }),
            home: home.clone(),
            user: text("USER").or_else(|| text("LOGNAME")),
            no_colour: set("NO_COLOR").is_some() || set("TERM").is_some_and(|term| term == "dumb"),
            current_dir: env::current_dir().unwrap_or_default(),
        }
    }
}

/// The directories that some variables name. Relative paths are ignored, as the XDG specification
/// requires.
pub fn directories<'a>(variables: impl IntoIterator<Item = &'a str>) -> BTreeMap<String, PathBuf> {
    let named = variables.into_iter().filter_map(|name| {
        let path = PathBuf::from(value(name)?);
        path.is_absolute().then(|| (name.to_owned(), path))
    });
    named.collect()
}

/// Where a person's own shell looks for programs: commands search what they are shown of it in the
/// same order, and it tells a person where a program is.
pub fn search_path() -> Vec<PathBuf> {
    let path = value("PATH").unwrap_or_default();
    let places = env::split_paths(&path);
    places.filter(|place| place.is_absolute()).collect()
}

fn value(name: &str) -> Option<OsString> {
    env::var_os(name)
}
