//! A directory without its files: what calls in it are recorded under.

use std::{os::unix::fs::MetadataExt as _, path::Path};

use haft_contract::{ops::Operations, surface::NextStep};

use crate::error::HostError;

/// There are none.
#[derive(Debug, Clone, Default)]
pub struct DirectoryOptions {
    _none: (),
}

/// A directory that names a workspace.
pub(crate) struct Directory {
    root: String,
    identity: (u64, u64),
    above: Vec<(u64, u64)>,
}

impl Directory {
    /// Finds a directory.
    pub(crate) fn open_root(root: &Path, _: DirectoryOptions) -> Result<Self, HostError> {
        find(root).map_err(|why| HostError::config(why, NextStep::NameWorkspace.words()))
    }

    /// Finds another one.
    #[expect(
        clippy::unused_self,
        reason = "the other kind opens it with its own options"
    )]
    pub(crate) fn open_beside(&self, root: &Path) -> Result<Self, String> {
        find(root)
    }

    /// What tools do there: nothing.
    pub(crate) fn operations(&self) -> Operations {
        Operations::none(&self.root)
    }

    /// Which directory it is, whatever its name leads to now.
    pub(crate) fn identity(&self) -> (u64, u64) {
        self.identity
    }

    /// The directories above it.
    pub(crate) fn identities_above(&self) -> Vec<(u64, u64)> {
        self.above.clone()
    }

    /// There are no commands that could see it.
    #[expect(clippy::unused_self, reason = "the other kind has commands")]
    pub(crate) fn is_shown_to_commands(&self) -> bool {
        false
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "learns which directory an embedder named; no tool reaches anything in it"
)]
fn find(root: &Path) -> Result<Directory, String> {
    let found = std::fs::canonicalize(root);
    let found = found.and_then(|real| std::fs::read_dir(&real).map(|_| real));
    let found = found.and_then(|real| Ok((std::fs::metadata(&real)?, real)));
    let (metadata, real) = found.map_err(|error| {
        let root = root.display();
        format!("the workspace root `{root}` cannot be opened as a directory: {error}")
    })?;
    let root = real.to_str().map(str::to_owned).ok_or_else(|| {
        let root = real.display();
        format!("the workspace root `{root}` is not text")
    })?;
    let above = Path::new(&root).ancestors().skip(1);
    let above = above.filter_map(|directory| std::fs::metadata(directory).ok());
    Ok(Directory {
        identity: (metadata.dev(), metadata.ino()),
        above: above.map(|found| (found.dev(), found.ino())).collect(),
        root,
    })
}
