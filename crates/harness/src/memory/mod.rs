//! The reference back end: files, processes and search over one in-memory tree.
//!
//! It exists so that tools and the runtime can be tested without a disk, and so that the suites
//! have an implementation that is easy to read. It touches nothing outside its tree.
//!
//! Read next: `tree` for the one piece of state, [`crate::suite`] for what it must obey.

mod files;
mod glob;
mod input;
mod process;
mod script;
mod search;
mod shell;
mod tree;

use std::sync::Arc;

use haft_contract::ops::{BackendId, Operations, Tier, World};

pub use tree::{MAX_FILE_BYTES, MAX_LINKS, MemoryTree};

/// The root every in-memory workspace shows.
pub const ROOT: &str = "/workspace";

/// Operations over a fresh, empty tree, and the tree itself, for setup and for checks behind the
/// tool's back.
pub fn operations() -> (Operations, MemoryTree) {
    let tree = MemoryTree::new();
    (tree.operations(), tree)
}

impl MemoryTree {
    /// Operations over this tree.
    pub fn operations(&self) -> Operations {
        Operations {
            backend: BackendId::new("memory"),
            root: Arc::from(ROOT),
            tiers: vec![Tier::Host],
            tier_remedy: None,
            files: Arc::new(files::MemoryFiles::new(self.clone())),
            processes: Arc::new(process::MemoryProcesses::new(self.clone())),
            search: Arc::new(search::MemorySearch::new(self.clone())),
            changes: None,
            repository: None,
            world: World::none(),
        }
    }
}
