//! Where the program is that sets up sandboxes: a test executable has no `main` that could do it.

use std::{env, path::PathBuf};

/// The program that sets up sandboxes from inside and tries to escape from them.
///
/// It belongs to another package, so cargo does not name it for this one. It lies two directories
/// above this test, where the workspace's tests build it.
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
