//! The files that git's index names, and whether a file on disk holds what the index says.
//!
//! A comparison of the workspace always covers these files, and believes an ignore file only if git
//! has it. An agent can write an index, so its paths are taken only in their plain form.

use super::{blob, index};

/// The bits of a mode that say what an entry is, and their values for files and symlinks. Others
/// stand for another repository, or a whole directory.
const FILE_TYPE: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;

/// The longest object id.
const MAX_ID_BYTES: usize = 32;

/// The files of an index, sorted by path.
#[derive(Debug, Default)]
pub(crate) struct TrackedFiles {
    paths: Vec<u8>,
    files: Vec<TrackedFile>,
}

#[derive(Debug)]
struct TrackedFile {
    start: usize,
    end: usize,
    id: [u8; MAX_ID_BYTES],
    id_bytes: usize,
}

impl TrackedFiles {
    /// Reads an index; `None` if it cannot be read, or its paths are longer than any that git writes.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        let mut tracked = index::collect(bytes, |found: &mut Self, entry| {
            let mode = entry.mode.try_into().map_or(0, u32::from_be_bytes);
            let is_file = matches!(mode & FILE_TYPE, REGULAR | SYMLINK);
            let mut id = [0; MAX_ID_BYTES];
            if !is_file || !is_plain(entry.path) {
                return;
            }
            if let Some(start) = id.get_mut(..entry.id.len()) {
                start.copy_from_slice(entry.id);
            }
            let start = found.paths.len();
            found.paths.extend_from_slice(entry.path);
            found.files.push(TrackedFile {
                start,
                end: found.paths.len(),
                id,
                id_bytes: entry.id.len(),
            });
        })?;
        // A file in conflict has several entries, and an index that git did not write any order.
        let Self { paths, files } = &mut tracked;
        let path = |file: &TrackedFile| paths.get(file.start..file.end);
        if !files.is_sorted_by(|a, b| path(a) < path(b)) {
            files.sort_by(|a, b| path(a).cmp(&path(b)));
            files.dedup_by(|a, b| path(a) == path(b));
        }
        Some(tracked)
    }

    /// The paths, relative to the workspace.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &[u8]> {
        self.files.iter().map(|file| self.path(file))
    }

    /// Whether git has a file at this path.
    pub(crate) fn has(&self, path: &[u8]) -> bool {
        self.find(path).is_some()
    }

    /// Whether git has this content at this path.
    pub(crate) fn confirms(&self, path: &[u8], content: &[u8]) -> bool {
        self.find(path).is_some_and(|file| {
            let id = file.id.get(..file.id_bytes).unwrap_or_default();
            blob::is_id_of(id, content)
        })
    }

    fn find(&self, path: &[u8]) -> Option<&TrackedFile> {
        let found = self
            .files
            .binary_search_by(|file| self.path(file).cmp(path));
        found.ok().and_then(|at| self.files.get(at))
    }

    fn path(&self, file: &TrackedFile) -> &[u8] {
        self.paths.get(file.start..file.end).unwrap_or_default()
    }
}

/// Whether a path has one spelling, stays in the workspace and does not lead into `.git`.
fn is_plain(path: &[u8]) -> bool {
    let mut names = path.split(|byte| *byte == b'/');
    !path.contains(&0)
        && names
            .all(|name| !matches!(name, b"" | b"." | b"..") && !name.eq_ignore_ascii_case(b".git"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_another_spelling_is_not_taken() {
        for path in [&b"a"[..], b"a/b", b"a/.gitignore", b"..a/b.."] {
            assert!(is_plain(path), "{}", path.escape_ascii());
        }
        for path in [
            &b""[..],
            b"/a",
            b"a/",
            b"a//b",
            b"./a",
            b"a/../b",
            b"..",
            b".git/config",
            b"a/.GIT/config",
            b"a\0b",
        ] {
            assert!(!is_plain(path), "{}", path.escape_ascii());
        }
    }
}
