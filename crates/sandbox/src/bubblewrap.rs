//! Finds bubblewrap, which makes a plan's namespaces and mounts, and builds its command line.
//! Starts nothing.
//!
//! Only a program that nobody but root can replace counts. It is looked for in fixed places, never
//! through a search path.

use std::{
    ffi::{CString, OsStr},
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::{Path, PathBuf},
};

use rustix::io::Errno;

use crate::{
    helper_flag,
    mounts::{INIT, Mount},
    plan::Namespaces,
    request::Streams,
};

/// Where bubblewrap may be installed.
const PLACES: [&str; 4] = [
    "/usr/bin/bwrap",
    "/usr/local/bin/bwrap",
    "/bin/bwrap",
    "/run/current-system/sw/bin/bwrap",
];

/// Writable by group or others.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Finds a bubblewrap that nobody but root could have installed.
pub(super) fn find() -> Option<PathBuf> {
    roots_own(&PLACES)
}

/// The first of these programs that exists and that nobody but root can replace.
pub(super) fn roots_own(places: &[&str]) -> Option<PathBuf> {
    places
        .iter()
        .filter_map(|place| std::fs::canonicalize(place).ok())
        .find(|place| is_roots_own(place))
}

/// Whether nobody but root can replace a program: root owns it and every directory above it, and
/// nobody else can write to them.
pub(super) fn is_roots_own(program: &Path) -> bool {
    let is_program = rustix::fs::access(program, rustix::fs::Access::EXEC_OK).is_ok();
    is_program
        && program.ancestors().all(|place| {
            std::fs::symlink_metadata(place)
                .is_ok_and(|found| found.uid() == 0 && found.mode() & WRITABLE_BY_OTHERS == 0)
        })
}

/// Which network a sandbox is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NetworkNamespace {
    /// One that nobody else is in.
    Own,
    /// The one bubblewrap is started in, which is a shared loopback.
    Entered,
}

/// The command line that makes these namespaces and runs the init in them. `files` are the
/// descriptor numbers of the plan's generated files, in order; `description` is the number of the
/// init's description.
pub(super) fn arguments(
    namespaces: &Namespaces,
    streams: Streams,
    files: &[i32],
    description: i32,
    network: NetworkNamespace,
) -> Result<Vec<CString>, Errno> {
    let mut line = BubblewrapLine(Vec::with_capacity(256));
    line.words(&[
        "bwrap",
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
        "--disable-userns",
        "--die-with-parent",
        "--as-pid-1",
        "--hostname",
        namespaces.hostname,
        "--chdir",
        "/",
    ])?;
    match network {
        NetworkNamespace::Own => line.words(&["--unshare-net"])?,
        NetworkNamespace::Entered => {}
    }
    match streams {
        Streams::Pipes(_) => line.words(&["--new-session"])?,
        // A new session would take the terminal away.
        Streams::Terminal => {}
    }
    let mut files = files.iter();
    for mount in &namespaces.mounts {
        line.mount(mount, &mut files)?;
    }
    line.words(&[
        "--",
        INIT,
        helper_flag::FLAG,
        "init",
        &description.to_string(),
    ])?;
    Ok(line.0)
}

struct BubblewrapLine(Vec<CString>);

impl BubblewrapLine {
    fn words(&mut self, words: &[&str]) -> Result<(), Errno> {
        words.iter().try_for_each(|word| self.word(word))
    }

    fn word(&mut self, word: impl AsRef<OsStr>) -> Result<(), Errno> {
        let word = CString::new(word.as_ref().as_bytes()).map_err(|_| Errno::INVAL)?;
        self.0.push(word);
        Ok(())
    }

    fn mount<'f>(
        &mut self,
        mount: &Mount,
        files: &mut impl Iterator<Item = &'f i32>,
    ) -> Result<(), Errno> {
        let (flag, first, second) = match mount {
            Mount::ReadOnly { source, at } => ("--ro-bind", source, Some(at)),
            Mount::Writable { source, at } => ("--bind", source, Some(at)),
            Mount::Link { target, at } => ("--symlink", target, Some(at)),
            Mount::Processes { at } => ("--proc", at, None),
            Mount::Devices { at } => ("--dev", at, None),
            Mount::Seal { at } => ("--remount-ro", at, None),
            Mount::Memory { at, bytes, mode } => {
                self.words(&["--perms", &format!("{mode:04o}")])?;
                self.words(&["--size", &bytes.to_string()])?;
                ("--tmpfs", at, None)
            }
            Mount::File { at, .. } => {
                let number = files.next().ok_or(Errno::INVAL)?;
                self.words(&["--perms", "0444", "--file", &number.to_string()])?;
                return self.word(at);
            }
        };
        self.word(flag)?;
        self.word(first)?;
        second.map_or(Ok(()), |second| self.word(second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SB-35: `find` returns only a program that nobody but root could have put there.
    #[test]
    fn sb_35_a_program_that_others_can_replace_does_not_count() {
        let directory = tempfile::tempdir().unwrap();
        let fake = directory.path().join("bwrap");
        std::fs::copy("/bin/true", &fake).unwrap();
        assert!(!is_roots_own(&fake));
        assert!(is_roots_own(Path::new("/usr/bin/env")));
    }
}
