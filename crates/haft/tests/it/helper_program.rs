//! The program that sets up sandboxes for tests of this crate: a test executable has no `main` of
//! its own that could. It is a binary of the back ends' crate and lies beside the test's own.

use std::path::PathBuf;

use haft::LocalOptions;
use haft_backends::helper::Helper;

/// A local workspace whose commands are sandboxed as they would be by the `haft` program.
pub(crate) fn sandboxed() -> LocalOptions {
    let mut options = LocalOptions::default();
    options.sandbox.helper = Helper::Path(helper_program());
    options
}

/// Where the helper is. Not there is a failure: without it nothing here is sandboxed.
pub(crate) fn helper_program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test
        .ancestors()
        .nth(2)
        .expect("a target directory")
        .join("haft-helper");
    assert!(
        program.exists(),
        "{} is missing: build it with `cargo build -p haft-backends`",
        program.display()
    );
    program
}
