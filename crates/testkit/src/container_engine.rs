//! The real, rootless Podman that `.ci/container` prepared, and the container that it started, which
//! sees the temporary directory at the same path.

use std::path::PathBuf;

/// The variable with the directory that `.ci/container` made.
const DIRECTORY: &str = "HAFT_TEST_CONTAINERS";

/// The container that it started.
pub const SHARED: &str = "haft-ci";

/// The directory that `.ci/container` made. A machine without one fails here.
#[expect(
    clippy::disallowed_methods,
    reason = "finds what was prepared for tests"
)]
pub fn directory() -> PathBuf {
    let directory = std::env::var_os(DIRECTORY);
    directory
        .unwrap_or_else(|| panic!("{DIRECTORY} is not set: run `.ci/container start` as root"))
        .into()
}

/// The program, which knows where the engine keeps what it has.
pub fn program() -> PathBuf {
    directory().join("podman")
}
