//! What of the user's own home directory a sandboxed command finds in its private one: toolchains
//! and caches at their real place, and git's harmless settings.
//!
//! Only looks at the machine; `mounts.rs` decides what is mounted where. Whatever is added here is
//! read by commands of an agent, so nothing that holds credentials may be in either table.

mod credentials;
mod git_settings;
mod toolchains;

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

pub(crate) use self::{
    git_settings::harmless_git_settings,
    toolchains::{Toolchains, can_read},
};

/// The home directory without symlinks, if it is a directory of this user.
pub(crate) fn real(home: &Path) -> Option<PathBuf> {
    let real = home.canonicalize().ok()?;
    (real.is_dir() && is_own(&real) && real.parent().is_some()).then_some(real)
}

/// Whether a file belongs to this user or to root: nobody else can have put it there.
fn is_own(path: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    std::fs::metadata(path).is_ok_and(|found| found.uid() == user || found.uid() == 0)
}
