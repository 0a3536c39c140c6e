//! The local back end: a directory of this machine as a workspace.
//!
//! Sibling folders (`files`, `process`, `search`) implement one operations trait each. Nothing
//! here lowers a tier or follows a path by name; a call that asks for more confinement than a
//! plain child process has is refused.

mod files;
mod pool;
mod walk;

use std::{fmt, path::Path, sync::Arc};

use haft_contract::ops::{BackendId, Operations, Tier};

use self::files::LocalFiles;
use crate::jail::{Jail, Mounts};

/// A workspace on this machine.
#[derive(Clone)]
pub struct LocalBackend {
    jail: Arc<Jail>,
}

/// How a local workspace behaves.
#[derive(Debug, Clone, Default)]
pub struct LocalOptions {
    /// Whether paths may lead onto file systems mounted inside the workspace.
    pub cross_mounts: Mounts,
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
        Ok(Self {
            jail: Arc::new(jail),
        })
    }

    /// Files, processes and search of this workspace.
    pub fn operations(&self) -> Operations {
        Operations {
            backend: BackendId::new("local"),
            root: Arc::from(self.jail.shown()),
            tiers: vec![Tier::Host],
            files: Arc::new(LocalFiles::new(Arc::clone(&self.jail))),
            processes: Arc::new(LocalProcesses),
            search: Arc::new(LocalSearch),
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

struct LocalProcesses;
impl haft_contract::ops::ProcessOps for LocalProcesses {
    fn spawn(
        &self,
        _: haft_contract::ops::Spawn,
    ) -> haft_contract::future::BoxFuture<
        '_,
        Result<Box<dyn haft_contract::ops::ProcessHandle>, haft_contract::ops::OpsError>,
    > {
        Box::pin(async {
            Err(haft_contract::ops::OpsError::new(
                haft_contract::ErrorKind::Unavailable,
                "not yet",
            ))
        })
    }
}
struct LocalSearch;
impl haft_contract::ops::SearchOps for LocalSearch {
    fn grep<'a>(
        &'a self,
        _: haft_contract::ops::GrepQuery<'a>,
    ) -> haft_contract::future::BoxFuture<
        'a,
        Result<haft_contract::ops::GrepResults, haft_contract::ops::OpsError>,
    > {
        Box::pin(async {
            Err(haft_contract::ops::OpsError::new(
                haft_contract::ErrorKind::Unavailable,
                "not yet",
            ))
        })
    }
    fn find<'a>(
        &'a self,
        _: haft_contract::ops::FindQuery<'a>,
    ) -> haft_contract::future::BoxFuture<
        'a,
        Result<haft_contract::ops::FindResults, haft_contract::ops::OpsError>,
    > {
        Box::pin(async {
            Err(haft_contract::ops::OpsError::new(
                haft_contract::ErrorKind::Unavailable,
                "not yet",
            ))
        })
    }
}
