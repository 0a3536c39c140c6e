//! The local back end: a directory of this machine as a workspace.
//!
//! Sibling folders (`changes`, `files`, `repository`, `search`) implement one operations trait each; processes
//! come from `haft-sandbox`. Nothing here lowers a tier or follows a path by name.

mod changes;
mod file_kind;
mod files;
mod repository;
mod search;
mod walk;

use std::{collections::BTreeMap, fmt, os::unix::fs::MetadataExt as _, path::Path, sync::Arc};

use haft_contract::ops::{
    BackendId, Operations, OpsError, ProcessOps, Spawn, WorkspaceChanges, World,
};
use haft_sandbox::{
    Facilities, FileId, SandboxOptions, SandboxPlan,
    jail::{Jail, Mounts},
    process::{LocalProcesses, ProcessOptions},
};

pub use self::changes::ChangeOptions;
pub(crate) use self::search::withholds;
use self::{
    changes::LocalChanges, files::LocalFiles, repository::LocalRepository, search::LocalSearch,
};

/// A workspace on this machine.
#[derive(Clone)]
pub struct LocalBackend {
    jail: Arc<Jail>,
    options: Arc<LocalOptions>,
    processes: Arc<LocalProcesses>,
    changes: Option<Arc<LocalChanges>>,
}

/// How a local workspace behaves. The default is safe but rarely useful: children find the system's
/// programs and have no home.
#[derive(Debug, Clone)]
pub struct LocalOptions {
    /// Whether paths may lead onto file systems mounted inside the workspace.
    pub cross_mounts: Mounts,
    /// `PATH` of every child; also where programs named without a slash are looked for.
    pub search_path: String,
    /// `HOME` of every child. Must not be the workspace: files there would configure programs.
    pub home: String,
    /// `TMPDIR` of every child.
    pub temporary: String,
    /// `USER` and `LOGNAME` of every child.
    pub user: String,
    /// More variables of every child, from the operator. Any name is allowed; the ones above win.
    pub environment: BTreeMap<String, String>,
    /// How children are confined in tiers above `host`.
    pub sandbox: SandboxOptions,
    /// How the workspace is compared before and after a command; `None` turns that off.
    pub changes: Option<ChangeOptions>,
}

impl Default for LocalOptions {
    fn default() -> Self {
        let ProcessOptions {
            search_path,
            home,
            temporary,
            user,
            environment,
            sandbox,
        } = ProcessOptions::default();
        Self {
            cross_mounts: Mounts::Refuse,
            search_path,
            home,
            temporary,
            user,
            environment,
            sandbox,
            changes: None,
        }
    }
}

impl LocalOptions {
    /// The options that concern children.
    fn of_processes(&self) -> ProcessOptions {
        ProcessOptions {
            search_path: self.search_path.clone(),
            home: self.home.clone(),
            temporary: self.temporary.clone(),
            user: self.user.clone(),
            environment: self.environment.clone(),
            sandbox: self.sandbox.clone(),
        }
    }
}

/// A workspace could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The root cannot be opened as a directory.
    #[error("the workspace root `{root}` cannot be opened as a directory")]
    Root {
        /// The root as given.
        root: String,
        /// The operating system's error.
        source: std::io::Error,
    },
}

impl LocalBackend {
    /// Opens a directory as a workspace and holds it.
    pub fn open(root: &Path, options: LocalOptions) -> Result<Self, OpenError> {
        let jail = hold(root, options.cross_mounts)?;
        let processes = LocalProcesses::open(Arc::clone(&jail), options.of_processes());
        Ok(Self::with(jail, Arc::new(options), processes))
    }

    /// Opens another directory with the same options. What is known about this machine is shared,
    /// not looked up again, so that a process can have thousands of workspaces open.
    pub fn open_beside(&self, root: &Path) -> Result<Self, OpenError> {
        let jail = hold(root, self.options.cross_mounts)?;
        let processes = self.processes.open_beside(Arc::clone(&jail));
        Ok(Self::with(jail, Arc::clone(&self.options), processes))
    }

    fn with(jail: Arc<Jail>, options: Arc<LocalOptions>, processes: LocalProcesses) -> Self {
        let changes = options.changes.clone();
        let changes =
            changes.map(|options| Arc::new(LocalChanges::new(Arc::clone(&jail), options)));
        Self {
            jail,
            options,
            processes: Arc::new(processes),
            changes,
        }
    }

    /// The device and inode of the root.
    pub fn root_identity(&self) -> (u64, u64) {
        let FileId { device, inode } = self.jail.identity();
        (device, inode)
    }

    /// The device and inode of every directory above the root, the nearest first.
    pub fn identities_above(&self) -> Vec<(u64, u64)> {
        let above = Path::new(self.jail.shown()).ancestors().skip(1);
        let found = above.filter_map(|directory| std::fs::metadata(directory).ok());
        found.map(|found| (found.dev(), found.ino())).collect()
    }

    /// Whether sandboxed commands of every workspace see the root, something above it, or something
    /// below it.
    pub fn is_shown_to_commands(&self) -> bool {
        self.processes.shows_root()
    }

    /// What would confine a child, without starting it. Reads the workspace, so it blocks.
    pub fn plan_sandbox(&self, spawn: &Spawn) -> Result<SandboxPlan, OpsError> {
        self.processes.plan_sandbox(spawn)
    }

    /// What this machine has for sandboxes.
    pub fn facilities(&self) -> &Facilities {
        self.processes.facilities()
    }

    /// Files, processes and search of this workspace.
    pub fn operations(&self) -> Operations {
        Operations {
            backend: BackendId::new("local"),
            root: Arc::from(self.jail.shown()),
            tiers: self.processes.facilities().tiers(),
            tier_remedy: self.processes.facilities().programs_remedy(),
            files: Arc::new(LocalFiles::new(Arc::clone(&self.jail))),
            processes: Arc::clone(&self.processes) as Arc<dyn ProcessOps>,
            search: Arc::new(LocalSearch::new(Arc::clone(&self.jail))),
            changes: self
                .changes
                .as_ref()
                .map(|changes| Arc::clone(changes) as Arc<dyn WorkspaceChanges>),
            repository: Some(Arc::new(LocalRepository::new(Arc::clone(&self.jail)))),
            world: World::none(),
        }
    }
}

fn hold(root: &Path, mounts: Mounts) -> Result<Arc<Jail>, OpenError> {
    let jail = Jail::open(root, mounts).map_err(|source| OpenError::Root {
        root: root.display().to_string(),
        source,
    })?;
    Ok(Arc::new(jail))
}

impl fmt::Debug for LocalBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalBackend")
            .field("root", &self.jail.shown())
            .finish_non_exhaustive()
    }
}
