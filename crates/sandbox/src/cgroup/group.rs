//! One command's cgroup: entering it, finding what it exceeded, killing everything in it, removing
//! it.
//!
//! A cgroup has one directory per hierarchy in use. Read everything about the command before
//! dropping it, which removes the directories.

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

/// Rounds of finding and killing processes where the kernel cannot kill the group at once. New
/// processes are refused meanwhile, so the second round finds none.
const KILL_ROUNDS: usize = 16;

/// The cgroup of one command, removed on drop.
#[derive(Debug)]
pub struct Cgroup {
    directories: Vec<Directory>,
    /// Opened by us, because the command's own view of the machine has no cgroups.
    entrances: Vec<OwnedFd>,
    cpu_time: Duration,
    parent: Arc<CgroupParent>,
}

/// The group's directory in one hierarchy.
#[derive(Debug, Clone)]
pub(super) struct Directory {
    pub(super) path: PathBuf,
    pub(super) version: Version,
    pub(super) controllers: BTreeSet<Controller>,
}

impl Cgroup {
    /// Makes a directory of this name below each parent and sets the limits. If one of them fails,
    /// nothing is left behind.
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

    /// Descriptors to write `0` to, each once, in any order: a single-threaded process that does so
    /// is in the group from then on, and so is everything it starts. The command's own process must
    /// write them before it becomes the command, and its init must not: that way the init can
    /// neither be killed for the command's memory use nor be refused a process.
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

    /// The limit that the kernel says was exceeded, the most telling one first. Read it after the
    /// command has ended.
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

    /// The processor time the whole tree has used, if it is counted.
    pub fn cpu_used(&self) -> Option<Duration> {
        self.directories.iter().find_map(|directory| {
            files::cpu_used(directory.version, &directory.controllers, &directory.path)
        })
    }

    /// Gives processes that are being killed all the processor time they need to exit. Only dying
    /// processes get it.
    pub fn hurry(&self) {
        for directory in &self.directories {
            let settings = files::for_dying(directory.version, &directory.controllers);
            // They die without it, only slower.
            let _ = files::write_all(&directory.path, &settings);
        }
    }

    /// Kills every process in the group. Returns once all are signalled; they are gone soon after.
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

    /// Keeps everything in the group from starting another process.
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

/// Kills a process if it is still in the group once we hold it: ids are reused.
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

    /// The files of version 2 in a plain directory, with what the kernel would write only after a
    /// command of that size; the kernel's own are in `tests/version_2.rs`.
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
