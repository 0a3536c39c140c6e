//! Where the program is that sets up sandboxes: a test executable has no `main` of its own that
//! could.

use std::{env, path::PathBuf};

/// The program that sets up sandboxes from inside and makes attempts to get out of them.
///
/// It is a program of another package, so cargo does not name it for this one; it lies two
/// directories above this test, where it is built with the workspace's tests.
pub fn helper_program() -> PathBuf {
    let test = env::current_exe().unwrap();
    let found = test
        .ancestors()
        .skip(1)
        .take(2)
        .map(|directory| directory.join("haft-helper"))
        .find(|path| path.is_file());
    found.unwrap_or_else(|| {
        panic!(
            "there is no `haft-helper` beside {}: build it with `cargo build -p haft-backends \
             --bin haft-helper`, or run the tests of the whole workspace",
            test.display()
        )
    })
}
