//! Whether a path reaches a directory, by whatever links: for places that commands are shown and
//! that must not be Haft's own.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Whether a path leads into a directory or through it. A link there counts, wherever it points:
/// anybody who can change the directory can change the link.
pub(crate) fn leads_through(path: &Path, directory: &Path) -> bool {
    let lies_in = |step: &Path| {
        let name = step.file_name()?;
        let parent = fs::canonicalize(step.parent()?).ok()?;
        let place = parent.join(name);
        Some(place.starts_with(directory) && place != directory)
    };
    real(path).starts_with(directory)
        || path
            .ancestors()
            .any(|step| lies_in(step).unwrap_or_default())
}

/// The path with symlinks resolved as far as it exists.
pub(crate) fn real(path: &Path) -> PathBuf {
    for ancestor in path.ancestors() {
        if let Ok(real) = fs::canonicalize(ancestor)
            && let Ok(rest) = path.strip_prefix(ancestor)
        {
            return real.join(rest);
        }
    }
    path.to_owned()
}
