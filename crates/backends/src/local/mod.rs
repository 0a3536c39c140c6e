//! The local back end: a directory of this machine as a workspace.
//!
//! Sibling folders (`changes`, `files`, `process`, `search`) implement one operations trait each. Nothing
//! here lowers a tier or follows a path by name; a call that asks for more confinement than this
//! machine can hold is refused.

mod changes;
mod files;
pub(crate) mod pool;
pub(crate) mod process;
mod search;
mod walk;

use std::{collections::BTreeMap, fmt, path::Path, sync::Arc};

use haft_contract::ops::{BackendId, Operations, OpsError, Spawn, WorkspaceChanges};

pub use self::changes::ChangeOptions;
pub(crate) use self::files::remove_tree;
pub use self::process::DRAIN_LIMIT;
pub(crate) use self::search::withholds;
use self::{
    changes::LocalChanges, files::LocalFiles, process::LocalProcesses, search::LocalSearch,
};
use crate::{
    jail::{Jail, Mounts},
    sandbox::{Facilities, FileId, Sandbox, SandboxOptions, SandboxPlan},
};

/// A workspace on this machine.
#[derive(Clone)]
pub struct LocalBackend {
    jail: Arc<Jail>,
    options: Arc<LocalOptions>,
    sandbox: Arc<Sandbox>,
    changes: Option<Arc<LocalChanges>>,
}

/// How a local workspace behaves. The default suits nobody's tools and harms nobody: children find
/// the system's programs and no home.
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
    /// How the workspace is compared before and after a command; absent when it is not.
    pub changes: Option<ChangeOptions>,
}

impl Default for LocalOptions {
    fn default() -> Self {
        Self {
            cross_mounts: Mounts::Refuse,
            search_path: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
            home: "/nonexistent".to_owned(),
            temporary: "/tmp".to_owned(),
            user: "haft".to_owned(),
            environment: BTreeMap::new(),
            sandbox: SandboxOptions::default(),
            changes: None,
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
        /// What the operating system said.
        source: std::io::Error,
    },
}

impl LocalBackend {
    /// Opens a directory as a workspace and holds it.
    pub fn open(root: &Path, options: LocalOptions) -> Result<Self, OpenError> {
        let jail = Jail::open(root, options.cross_mounts).map_err(|source| OpenError::Root {
            root: root.display().to_string(),
            source,
        })?;
        process::orphans::sweep_once();
        let sandbox = Sandbox::look(
            &options.sandbox,
            Path::new(jail.shown()),
            Path::new(&options.temporary),
        );
        let jail = Arc::new(jail);
        let changes = options.changes.clone().map(|options| {
            let changes = LocalChanges::new(Arc::clone(&jail), options);
            Arc::new(changes)
        });
        Ok(Self {
            jail,
            changes,
            options: Arc::new(options),
            sandbox: Arc::new(sandbox),
        })
    }

    /// Opens another directory with the same options. What was looked up about this machine is not
    /// looked up again and is held once, so that a process can have thousands of workspaces open.
    pub fn open_beside(&self, root: &Path) -> Result<Self, OpenError> {
        let jail = Jail::open(root, self.options.cross_mounts);
        let jail = jail.map_err(|source| OpenError::Root {
            root: root.display().to_string(),
            source,
        })?;
        let root = Path::new(jail.shown());
        let sandbox = if self.sandbox.serves(root) {
            Arc::clone(&self.sandbox)
        } else {
            let temporary = Path::new(&self.options.temporary);
            Arc::new(Sandbox::look(&self.options.sandbox, root, temporary))
        };
        let jail = Arc::new(jail);
        let changes = self.options.changes.clone();
        let changes =
            changes.map(|options| Arc::new(LocalChanges::new(Arc::clone(&jail), options)));
        Ok(Self {
            jail,
            changes,
            options: Arc::clone(&self.options),
            sandbox,
        })
    }

    /// The device and inode of the root.
    pub(crate) fn root_identity(&self) -> (u64, u64) {
        let FileId { device, inode } = self.jail.identity();
        (device, inode)
    }

    /// What would confine a child, without starting it. Looks at the workspace, so it blocks.
    pub fn plan_sandbox(&self, spawn: &Spawn) -> Result<SandboxPlan, OpsError> {
        process::plan_sandbox(&self.jail, &self.options, &self.sandbox, spawn)
    }

    /// What this machine has for sandboxes.
    pub fn facilities(&self) -> &Facilities {
        self.sandbox.facilities()
    }

    /// Files, processes and search of this workspace.
    pub fn operations(&self) -> Operations {
        Operations {
            backend: BackendId::new("local"),
            root: Arc::from(self.jail.shown()),
            tiers: self.sandbox.facilities().tiers(),
            files: Arc::new(LocalFiles::new(Arc::clone(&self.jail))),
            processes: Arc::new(LocalProcesses::new(
                Arc::clone(&self.jail),
                Arc::clone(&self.options),
                Arc::clone(&self.sandbox),
            )),
            search: Arc::new(LocalSearch::new(Arc::clone(&self.jail))),
            changes: self
                .changes
                .as_ref()
                .map(|changes| Arc::clone(changes) as Arc<dyn WorkspaceChanges>),
        }
    }
}

impl fmt::Debug for LocalBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalBackend")
            .field("root", &self.jail.shown())
            .finish_non_exhaustive()
    }
}
