//! How tools touch the world: files, processes and search in the workspace; the network, databases,
//! people and remote tools beyond it. A *back end* implements the first three, and one suite in
//! `testkit` tests them all; a host adds the rest.
//!
//! Output is cleaned and capped above the back ends. Paths are [`WorkPath`]s; a back end resolves
//! them beneath a directory it holds open and follows a symlink only in [`FileOps::resolve`].

mod changes;
mod database;
mod document;
mod empty_workspace;
mod files;
mod net;
mod process;
mod refusal;
mod repository;
mod row_change;
mod row_change_text;
mod search;
mod world;

use std::{fmt, sync::Arc};

pub use changes::*;
pub use database::*;
pub use document::*;
pub use files::*;
pub use net::*;
pub use process::*;
pub use refusal::*;
pub use repository::*;
pub use row_change::*;
pub use row_change_text::*;
pub use search::*;
pub use world::*;

use crate::{
    error::{ErrorKind, ToolError},
    identity::WorkspaceId,
    path::{self, WorkPath},
};

/// The operations of one workspace on one back end.
#[derive(Clone)]
pub struct Operations {
    /// Which back end this is.
    pub backend: BackendId,
    /// The workspace root as an absolute path on that back end, for display and for turning
    /// absolute paths into relative ones. Never used to open anything.
    pub root: Arc<str>,
    /// The tiers available here for child processes.
    pub tiers: Vec<Tier>,
    /// What to do so that there are more tiers, if something here is missing for them and whoever
    /// wrote this program can do it.
    pub tier_remedy: Option<&'static str>,
    /// Files.
    pub files: Arc<dyn FileOps>,
    /// Processes.
    pub processes: Arc<dyn ProcessOps>,
    /// Search.
    pub search: Arc<dyn SearchOps>,
    /// What commands change in the workspace, if the back end can tell.
    pub changes: Option<Arc<dyn WorkspaceChanges>>,
    /// The git repository at the workspace's root, if the back end can put its state back.
    pub repository: Option<Arc<dyn RepositoryOps>>,
    /// What tools reach beyond the workspace.
    pub world: World,
}

impl Operations {
    /// A workspace in which there is nothing: no files, no processes, no network. Its root is only a
    /// name, as an absolute path. For programs whose tools only reach their own services.
    pub fn none(root: &str) -> Self {
        let empty = Arc::new(empty_workspace::EmptyWorkspace);
        Self {
            backend: BackendId::new("none"),
            root: Arc::from(root),
            tiers: Vec::new(),
            tier_remedy: None,
            files: Arc::<empty_workspace::EmptyWorkspace>::clone(&empty),
            processes: Arc::<empty_workspace::EmptyWorkspace>::clone(&empty),
            search: empty,
            changes: None,
            repository: None,
            world: World::none(),
        }
    }

    /// The id of this workspace, for a host that does not keep a list of workspaces.
    pub fn workspace_id(&self) -> WorkspaceId {
        WorkspaceId::of_root(&self.backend, &self.root)
    }
}

impl fmt::Debug for Operations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operations")
            .field("backend", &self.backend)
            .field("root", &self.root)
            .field("tiers", &self.tiers)
            .finish_non_exhaustive()
    }
}

/// Names a back end: `local`, `memory`, `ssh:host`, a worker's name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackendId(Arc<str>);

impl BackendId {
    /// A back end of this name.
    pub fn new(name: &str) -> Self {
        Self(Arc::from(name))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BackendId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How strongly a call is confined. Never silently lowered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// A child process with only its own session and an environment built from empty.
    Host,
    /// Landlock, seccomp and resource limits.
    T1,
    /// Namespaces, Landlock, seccomp and cgroup.
    T2,
    /// gVisor.
    T3,
    /// No child process: file access in this process, through an open directory.
    InProcess,
}

impl Tier {
    /// Every tier, weakest first.
    pub const ALL: [Self; 5] = [Self::Host, Self::T1, Self::T2, Self::T3, Self::InProcess];

    /// The name used in JSON, in the ledger and in documentation.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::T1 => "t1",
            Self::T2 => "t2",
            Self::T3 => "t3",
            Self::InProcess => "in_process",
        }
    }

    /// The tier with this name, if there is one.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tier| tier.as_str() == word)
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The confinement a tool's child processes need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SandboxMode {
    /// None: runs on the host. Only by explicit operator configuration.
    Off,
    /// T1 or stronger.
    Basic,
    /// T2 or stronger.
    Full,
}

impl SandboxMode {
    /// The name used in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Basic => "basic",
            Self::Full => "full",
        }
    }

    /// Whether a tier is strong enough for this mode.
    pub fn accepts(self, tier: Tier) -> bool {
        match self {
            Self::Off => true,
            Self::Basic => tier >= Tier::T1,
            Self::Full => tier >= Tier::T2,
        }
    }
}

/// Why a back end could not do what was asked.
#[derive(Debug, Clone)]
pub struct OpsError {
    kind: ErrorKind,
    message: String,
    path: Option<WorkPath>,
    hint: Option<String>,
}

impl OpsError {
    /// An error of a kind, with a message that names no machine path.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            path: None,
            hint: None,
        }
    }

    /// Says what to do next.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Names the path it is about.
    #[must_use]
    pub fn on(mut self, path: &WorkPath) -> Self {
        self.path = Some(path.clone());
        self
    }

    /// What sort of failure it was.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What happened, without the path.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The path it is about, if there is one.
    pub fn path(&self) -> Option<&WorkPath> {
        self.path.as_ref()
    }

    /// What to do next, if that is known.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for OpsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "`{}`: {}", path::shown(path.as_str()), self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for OpsError {}

impl From<OpsError> for ToolError {
    fn from(error: OpsError) -> Self {
        let told = Self::new(error.kind, error.to_string());
        match error.hint {
            Some(hint) => told.hint(hint),
            None => told,
        }
    }
}
