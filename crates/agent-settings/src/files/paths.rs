//! Where programs and files are: what an agent's file has to name, and whether two names are one place.

use std::{
    fs,
    path::{Path, PathBuf},
};

use haft_host::HostError;

/// The running program, by a path that another program can start.
pub fn this_program() -> Result<PathBuf, HostError> {
    std::env::current_exe()
        .ok()
        .filter(|path| path.is_absolute() && path.to_str().is_some() && path.is_file())
        .ok_or_else(|| {
            HostError::config(
                "the path of this program cannot be determined",
                "start it again from where it is installed",
            )
        })
}

/// Whether two paths lead to the same place. Missing paths are compared by name.
pub fn same_place(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    real(one) == real(other)
}

/// Resolves a path, if its directory exists.
pub fn real_directory(path: &Path) -> Option<PathBuf> {
    let existing = path.ancestors().skip(1).find(|path| path.exists())?;
    fs::canonicalize(existing).ok()
}
