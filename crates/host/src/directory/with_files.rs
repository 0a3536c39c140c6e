//! The local back end.

use std::path::Path;

use haft_backends::LocalBackend;
/// The options of a workspace in a directory.
pub use haft_backends::LocalOptions as DirectoryOptions;
use haft_contract::{ops::Operations, surface::NextStep};

use crate::error::{HostError, chain};

/// A directory that holds a workspace.
pub(crate) struct Directory(LocalBackend);

impl Directory {
    /// Opens a directory.
    pub(crate) fn open_root(root: &Path, options: DirectoryOptions) -> Result<Self, HostError> {
        open(root, options).map(Self)
    }

    /// Opens another one with the same options.
    pub(crate) fn open_beside(&self, root: &Path) -> Result<Self, String> {
        let opened = self.0.open_beside(root);
        opened.map(Self).map_err(|error| chain(&error))
    }

    /// What tools do there.
    pub(crate) fn operations(&self) -> Operations {
        self.0.operations()
    }

    /// Which directory it is, whatever its name leads to now.
    pub(crate) fn identity(&self) -> (u64, u64) {
        self.0.root_identity()
    }
}

/// Opens the back end of a directory.
pub(crate) fn open(root: &Path, options: DirectoryOptions) -> Result<LocalBackend, HostError> {
    LocalBackend::open(root, options)
        .map_err(|error| HostError::config(chain(&error), NextStep::NameWorkspace.words()))
}
