//! The local back end.

use std::{path::Path, sync::Arc};

use haft_backends::LocalBackend;
/// The options of a workspace in a directory.
pub use haft_backends::LocalOptions as DirectoryOptions;
use haft_contract::{ops::Operations, surface::NextStep};
use haft_sandbox::{helper::Helper, reader::ConfinedReader};

use crate::error::{HostError, chain};

/// A directory that holds a workspace.
pub(crate) struct Directory {
    backend: LocalBackend,
    /// The program that reads documents for its tools.
    helper: Helper,
}

impl Directory {
    /// Opens a directory.
    pub(crate) fn open_root(root: &Path, options: DirectoryOptions) -> Result<Self, HostError> {
        let helper = options.sandbox.helper.clone();
        let backend = open(root, options)?;
        Ok(Self { backend, helper })
    }

    /// Opens another one with the same options.
    pub(crate) fn open_beside(&self, root: &Path) -> Result<Self, String> {
        let backend = self.backend.open_beside(root);
        Ok(Self {
            backend: backend.map_err(|error| chain(&error))?,
            helper: self.helper.clone(),
        })
    }

    /// What tools do there.
    pub(crate) fn operations(&self) -> Operations {
        let mut operations = self.backend.operations();
        let root = Path::new(&*operations.root);
        operations.world.documents = Arc::new(ConfinedReader::new(self.helper.clone(), root));
        operations
    }

    /// Which directory it is, whatever its name leads to now.
    pub(crate) fn identity(&self) -> (u64, u64) {
        self.backend.root_identity()
    }

    /// The directories above it.
    pub(crate) fn identities_above(&self) -> Vec<(u64, u64)> {
        self.backend.identities_above()
    }

    /// Whether commands of every workspace see it, or a part of it.
    pub(crate) fn is_shown_to_commands(&self) -> bool {
        self.backend.is_shown_to_commands()
    }
}

/// Opens the back end of a directory.
pub(crate) fn open(root: &Path, options: DirectoryOptions) -> Result<LocalBackend, HostError> {
    LocalBackend::open(root, options)
        .map_err(|error| HostError::config(chain(&error), NextStep::NameWorkspace.words()))
}
