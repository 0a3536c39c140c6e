//! One command's cgroup: entering it, what it exceeded, ending everything in it, removing it.
//!
//! It is one directory per hierarchy in use. Everything about the command is read before the
//! directories go, which is when this is dropped.

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use haft_contract::ops::Limit;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::{
    files,
    hierarchy::{Controller, Version},
    parent::CgroupParent,
};
use crate::limits::{LimitKeeper, LimitKeepers, Limits};

/// Rounds of finding and killing processes where the kernel cannot do it at once. New ones are
/// refused while it lasts, so the second round finds none.
const KILL_ROUNDS: usize = 16;

/// A cgroup for one command.
#[derive(Debug)]
pub struct Cgroup {
    directories: Vec<Directory>,
    /// Where each is entered, opened by us: the command's own view of the machine has none.
    entrances: Vec<OwnedFd>,
    cpu_time: Duration,
    parent: Arc<CgroupParent>,
}

/// A directory of one hierarchy.
#[derive(Debug, Clone)]
pub(super) struct Directory {
    pub(super) path: PathBuf,
    pub(super) version: Version,
    pub(super) controllers: BTreeSet<Controller>,
}

impl Cgroup {
    /// Makes directories of this name below each parent and sets the limits. Nothing is left
    /// behind when one of them cannot be.
    pub(super) fn create(
        parent: Arc<CgroupParent>,
        name: &str,
        limits: &Limits,
    ) -> io::Result<Self> {
        let mut group = Self {
            directories: Vec::new(),
            entrances: Vec::new(),
            cpu_time: limits.cpu_time,
            parent: Arc::clone(&parent),
        };
        for above in parent.directories() {
            let path = above.path.join(name);
            fs::create_dir(&path)?;
            // From here on, dropping the group removes it.
            group.directories.push(Directory {
                path: path.clone(),
                ..above.clone()
            });
            let settings = files::settings(above.version, &above.controllers, limits);
            files::write_all(&path, &settings)?;
            let entrance = OpenOptions::new()
                .write(true)
                .open(path.join(files::entrance(above.version)))?;
            group.entrances.push(entrance.into());
        }
        Ok(group)
    }

    /// Descriptors to write `0` to, each once, in any order: a process of one thread that writes is
    /// in the group from then on, and so is everything it starts. To be written by the command's
    /// own process before it becomes the command, not by its init: the init then can neither be
    /// ended for the command's use of memory nor be refused a process.
    pub fn procs_descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.entrances.iter().map(AsFd::as_fd)
    }

    /// What is limited here, for the whole tree.
    pub fn keepers(&self) -> LimitKeepers {
        let keeper = |controller| {
            let mut directories = self.directories.iter();
            if directories.any(|directory| directory.controllers.contains(&controller)) {
                LimitKeeper::Cgroup
            } else {
                LimitKeeper::Process
            }
        };
        LimitKeepers {
            memory: keeper(Controller::Memory),
            processes: keeper(Controller::Pids),
        }
    }

    /// The limit that the kernel says was exceeded, the most telling one first. To be read when
    /// the command has ended.
    pub fn exceeded(&self) -> Option<Limit> {
        let any = |test: fn(&Directory) -> bool| self.directories.iter().any(test);
        if any(Directory::killed_for_memory) {
            Some(Limit::Memory)
        } else if self.cpu_used().is_some_and(|used| used >= self.cpu_time) {
            Some(Limit::Cpu)
        } else if any(Directory::refused_processes) {
            Some(Limit::Processes)
        } else {
            None
        }
    }

    /// The processor time the whole tree has used, where it is counted.
    pub fn cpu_used(&self) -> Option<Duration> {
        self.directories.iter().find_map(|directory| {
            files::cpu_used(directory.version, &directory.controllers, &directory.path)
        })
    }

    /// Lets what is being killed have all the processor time it needs to end. Nothing but what dies
    /// anyway gets it.
    pub fn hurry(&self) {
        for directory in &self.directories {
            let settings = files::for_dying(directory.version, &directory.controllers);
            // It dies without, only slower.
            let _ = files::write_all(&directory.path, &settings);
        }
    }

    /// Ends every process in the group. Returns when all were told; they are gone soon after.
    pub fn kill(&self) -> io::Result<()> {
        self.hurry();
        for directory in &self.directories {
            match directory.version {
                Version::V2 if directory.path.join(files::KILL).exists() => {
                    return files::write(&directory.path, files::KILL, "1");
                }
                Version::V1 | Version::V2 => {}
            }
        }
        self.refuse_processes();
        self.directories
            .iter()
            .try_for_each(|directory| kill_each(&directory.path))
    }

    /// How many processes are in the group.
    pub fn processes(&self) -> usize {
        let count = |directory: &Directory| processes(&directory.path).map_or(0, |all| all.len());
        self.directories.iter().map(count).max().unwrap_or(0)
    }

    /// From now on nothing in the group can start a process.
    fn refuse_processes(&self) {
        for directory in &self.directories {
            if directory.controllers.contains(&Controller::Pids) {
                // Without it, killing takes more rounds.
                let _ = files::write(&directory.path, files::PIDS_MAX, "0");
            }
        }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        self.entrances.clear();
        for directory in &self.directories {
            self.parent.remove_or_keep(&directory.path);
        }
    }
}

impl Directory {
    fn killed_for_memory(&self) -> bool {
        self.controllers.contains(&Controller::Memory)
            && files::killed_for_memory(self.version, &self.path).is_ok_and(|count| count > 0)
    }

    fn refused_processes(&self) -> bool {
        self.controllers.contains(&Controller::Pids)
            && files::refused_processes(&self.path).is_ok_and(|count| count > 0)
    }
}

/// Kills the processes of a directory one by one, until none is left.
pub(super) fn kill_each(directory: &Path) -> io::Result<()> {
    for _ in 0..KILL_ROUNDS {
        let found = processes(directory)?;
        if found.is_empty() {
            break;
        }
        for pid in found {
            kill_one(directory, pid)?;
        }
    }
    Ok(())
}

/// Kills a process if it is still in the group once it is held: an id can come round again.
fn kill_one(directory: &Path, pid: Pid) -> io::Result<()> {
    let Ok(held) = pidfd_open(pid, PidfdFlags::empty()) else {
        return Ok(());
    };
    if processes(directory)?.contains(&pid) {
        // It may have ended by itself.
        let _ = pidfd_send_signal(held, Signal::KILL);
    }
    Ok(())
}

fn processes(directory: &Path) -> io::Result<Vec<Pid>> {
    Ok(files::read(directory, files::PROCS)?
        .lines()
        .filter_map(|line| Pid::from_raw(line.trim().parse().ok()?))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::CgroupSetting;

    /// Version 2 with controllers is not to be had where this was written, so its files are
    /// checked in a plain directory; those of version 1 are the kernel's own in `tests.rs`.
    fn check(files: &[(&str, &str)], expect: Option<Limit>) {
        let directory = tempfile::tempdir().expect("a directory");
        for (name, text) in files {
            fs::write(directory.path().join(name), text).expect("written");
        }
        let path = directory.path().to_owned();
        let (version, controllers) = (Version::V2, Controller::ALL.into_iter().collect());
        let group = Cgroup {
            directories: vec![Directory {
                path,
                version,
                controllers,
            }],
            entrances: Vec::new(),
            cpu_time: Duration::from_secs(10),
            parent: CgroupParent::empty(),
        };
        assert_eq!(group.exceeded(), expect, "{files:?}");
        assert!(CgroupParent::detect(&CgroupSetting::Off).is_ok_and(|none| none.is_none()));
    }

    #[test]
    fn version_2_says_which_limit_was_exceeded() {
        let quiet = [
            ("memory.events", "max 9\noom 0\noom_kill 0\n"),
            ("pids.events", "max 0\n"),
            ("cpu.stat", "usage_usec 9999999\nuser_usec 1\n"),
        ];
        let with = |name: &str, text: &'static str| {
            quiet.map(|(file, old)| (file, if file == name { text } else { old }))
        };
        check(&quiet, None);
        check(
            &with("memory.events", "oom 1\noom_kill 1\n"),
            Some(Limit::Memory),
        );
        check(&with("pids.events", "max 3\n"), Some(Limit::Processes));
        check(&with("cpu.stat", "usage_usec 10000000\n"), Some(Limit::Cpu));
        check(&[], None);
    }
}
