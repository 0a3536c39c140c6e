//! What tier T3 needs below the root of a workspace. In T2 the init refuses calls that name
//! something protected, or that set a set-user-id bit; in T3 gVisor's kernel answers all calls, and
//! nobody refuses them by name. So mounts protect what already exists, and a scan of the whole
//! workspace after the command has ended finds what appeared.

use std::{
    collections::{BTreeMap, BTreeSet},
    os::fd::{AsRawFd as _, OwnedFd},
};

use haft_contract::{
    ops::{Layer, Refusal},
    protected::protected_name,
};
use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, chmodat, fstat, statat},
    io::Errno,
};

use crate::jail::{Jail, Lookup};

/// The most entries of a workspace that are scanned.
const MAX_LOOKED_AT: usize = 200_000;

/// The bits that make a program run as its owner or group.
const SET_ID: u32 = 0o6000;

/// Where git keeps the repositories of submodules.
const MODULES: &str = ".git/modules/";

/// Parts of a submodule's repository that affect what git runs.
const IN_MODULE: [&str; 5] = ["branches", "config", "config.worktree", "hooks", "remotes"];

const IN_MODULE_REASON: &str = "git runs programs named in files here";

/// What a workspace has, below its root, that a command may not create.
#[derive(Debug, Default)]
pub(crate) struct Deep {
    /// Protected paths, and what is there.
    protected: BTreeMap<String, Protected>,
    /// Files with a set-user-id or set-group-id bit.
    special: BTreeSet<String>,
    /// Whether the scan reached everything.
    whole: bool,
}

/// Something at a protected path.
#[derive(Debug, Clone, Copy)]
struct Protected {
    reason: &'static str,
    /// Device and inode.
    identity: (u64, u64),
}

impl Deep {
    /// Scans everything below the root. Does not look into what is protected.
    pub(crate) fn look(jail: &Jail) -> Self {
        let mut deep = Self {
            whole: true,
            ..Self::default()
        };
        let mut left = MAX_LOOKED_AT;
        let mut directories = vec![String::new(), ".git/modules".to_owned()];
        while let Some(directory) = directories.pop() {
            match deep.look_into(jail, &directory, &mut left) {
                Ok(found) => directories.extend(found),
                // Gone meanwhile, or never there.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(_) => deep.whole = false,
            }
        }
        deep
    }

    /// Scans one directory; returns those below it.
    fn look_into(
        &mut self,
        jail: &Jail,
        directory: &str,
        left: &mut usize,
    ) -> Result<Vec<String>, Errno> {
        let path = if directory.is_empty() { "." } else { directory };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let held: OwnedFd = jail.open_bytes(path.as_bytes(), flags, Lookup::Full)?;
        let mut below = Vec::new();
        for entry in Dir::read_from(&held)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let (Ok(text), Some(fewer)) = (name.to_str(), left.checked_sub(1)) else {
                self.whole = false;
                continue;
            };
            *left = fewer;
            let path = match directory {
                "" => text.to_owned(),
                directory => format!("{directory}/{text}"),
            };
            let Ok(stat) = statat(&held, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            if let Some(reason) = reason(&path) {
                // At the root the watch sees it.
                if path.contains('/') {
                    let identity = (stat.st_dev, stat.st_ino);
                    self.protected.insert(path, Protected { reason, identity });
                }
                continue;
            }
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => below.push(path),
                FileType::RegularFile if stat.st_mode & SET_ID != 0 => {
                    self.special.insert(path);
                }
                _ => {}
            }
        }
        Ok(below)
    }

    /// The protected paths.
    pub(crate) fn protected(&self) -> impl Iterator<Item = &str> {
        self.protected.keys().map(String::as_str)
    }

    /// What is protected now and did not exist before, each with the reason.
    pub(super) fn appeared(&self, now: &Self) -> Vec<(String, &'static str)> {
        let new = now.protected.iter().filter(|(path, now)| {
            let before = self.protected.get(*path);
            before.is_none_or(|before| before.identity != now.identity)
        });
        new.map(|(path, now)| (path.clone(), now.reason)).collect()
    }

    /// Clears these bits on files that had none before, and reports which.
    pub(super) fn clear(&self, jail: &Jail, now: &Self) -> Vec<Refusal> {
        let new = now.special.difference(&self.special);
        let told = new.map(|path| {
            let fate = match clear(jail, path) {
                Ok(()) => "it was cleared",
                Err(_) => "it cannot be cleared; run `chmod a-s` on it",
            };
            Refusal {
                layer: Layer::Protected,
                what: format!("set the set-user-id or set-group-id bit of {path}"),
                why: format!("another account could run it as you; {fate}"),
            }
        });
        told.collect()
    }

    /// The refusal to report if the scan did not reach everything.
    pub(super) fn missed(&self) -> Option<Refusal> {
        (!self.whole).then(|| Refusal {
            layer: Layer::Protected,
            what: "look for protected names below the root of the workspace".to_owned(),
            why: format!(
                "it has more than {MAX_LOOKED_AT} files or directories that cannot be read, so what \
                 appeared there was not moved away"
            ),
        })
    }
}

/// Why a path is protected.
fn reason(path: &str) -> Option<&'static str> {
    if let Some(module) = path.strip_prefix(MODULES) {
        let name = module.rsplit('/').next().unwrap_or_default();
        return IN_MODULE.contains(&name).then_some(IN_MODULE_REASON);
    }
    protected_name(path).map(|name| name.reason)
}

fn clear(jail: &Jail, path: &str) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    let held = jail.open_bytes(path.as_bytes(), flags, Lookup::Full)?;
    let stat = fstat(&held)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(());
    }
    let by_descriptor = format!("/proc/self/fd/{}", held.as_raw_fd());
    let mode = Mode::from_raw_mode(stat.st_mode & 0o7777 & !SET_ID);
    chmodat(CWD, by_descriptor, mode, AtFlags::empty())
}
