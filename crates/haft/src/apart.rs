//! Keeps the record out of workspaces.

use std::path::{Path, PathBuf};

use haft_host::HostError;

/// Refuses a record inside a workspace.
pub(crate) fn check_apart(data_dir: &Path, workspace: &Path) -> Result<(), HostError> {
    if lies_inside(data_dir, workspace) {
        return Err(HostError::config(
            "the data directory lies inside the workspace, where tools could reach the record",
            "keep it outside the workspace, or use the platform's default",
        ));
    }
    Ok(())
}

/// Whether the record would lie where tools can write, with symlinks followed. This catches a
/// configuration mistake and is not a boundary: the back end confines tools.
fn lies_inside(data_dir: &Path, workspace: &Path) -> bool {
    real(workspace).is_some_and(|workspace| {
        real(data_dir).is_some_and(|data_dir| data_dir.starts_with(workspace))
    })
}

/// The path with symlinks followed, as far as it exists.
#[expect(
    clippy::disallowed_methods,
    reason = "compares two directories of the operator; nothing is opened by the result"
)]
fn real(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    path.ancestors().find_map(|ancestor| {
        let rest = path.strip_prefix(ancestor).ok()?;
        Some(std::fs::canonicalize(ancestor).ok()?.join(rest))
    })
}
