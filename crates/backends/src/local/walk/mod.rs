//! Walks the tree beneath the root, for listings and searches.
//!
//! Every directory and file is opened through the jail, so a walk sees nothing outside the
//! workspace even while directories are swapped for symlinks. Symlinks are reported, never
//! followed. Hidden entries are walked like others; `.git` is left out along with what `.gitignore`
//! leaves out. Ignore files count whether or not the tree is a git repository.

mod directory;
mod globs;
mod ignores;
mod parallel;

pub(crate) use self::{
    directory::DirectoryNames,
    globs::{Globs, PathGlob},
    ignores::{IgnoreFiles, IgnoreNode, Ignores, is_in_build_directory},
    parallel::{EnteredDirectory, Visit, VisitedEntry, walk},
};
use std::fmt::Write as _;

/// A path as text; a name that is not UTF-8 is escaped byte by byte, and the flag is set.
pub(crate) fn shown(path: &[u8]) -> (String, bool) {
    if let Ok(text) = std::str::from_utf8(path) {
        return (text.to_owned(), false);
    }
    let mut text = String::with_capacity(path.len() + 16);
    for chunk in path.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a `String` cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    (text, true)
}
