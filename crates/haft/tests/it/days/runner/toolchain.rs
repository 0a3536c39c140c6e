//! The Rust toolchain that commands of the sandbox are shown.

use std::{env, path::PathBuf, process::Command};

/// Where the Rust toolchain is: a copy of root's that anybody can read, or the one of this user.
pub(crate) fn toolchain() -> PathBuf {
    let copied = env::var("HAFT_ATTACK_FIXTURES")
        .map(|fixtures| PathBuf::from(fixtures).join("toolchain"))
        .ok()
        .filter(|path| path.join("bin/cargo").is_file());
    let own = || {
        let output = Command::new("rustc").args(["--print", "sysroot"]).output();
        let sysroot = String::from_utf8(output.ok()?.stdout).ok()?;
        Some(PathBuf::from(sysroot.trim())).filter(|path| path.join("bin/cargo").is_file())
    };
    copied.or_else(own).expect(
        "a Rust toolchain this user can read: put one on PATH, or name a directory that holds a \
         copy as `toolchain` in HAFT_ATTACK_FIXTURES",
    )
}
