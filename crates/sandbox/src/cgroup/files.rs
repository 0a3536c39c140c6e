//! The files of one cgroup directory: the values written for limits, and how counters are read.
//! Every difference between version 1 and 2 is in this file.

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    io::{self, Read, Write},
    path::Path,
    time::Duration,
};

use super::hierarchy::{Controller, Version};
use crate::limits::Limits;

/// Lists the processes of a group.
pub(super) const PROCS: &str = "cgroup.procs";

/// The file a single-threaded process writes `0` to in order to enter a group. Both versions have
/// [`PROCS`] for this, but moving a whole process waits for every processor, ten milliseconds or
/// more. Moving only the writing thread does not, and version 1 allows it.
pub(super) fn entrance(version: Version) -> &'static str {
    match version {
        Version::V1 => "tasks",
        Version::V2 => PROCS,
    }
}

/// Ends every process of a group (version 2).
pub(super) const KILL: &str = "cgroup.kill";

/// The controllers available in a directory (version 2).
pub(super) const CONTROLLERS: &str = "cgroup.controllers";

/// The controllers enabled for its subdirectories (version 2).
pub(super) const SUBTREE: &str = "cgroup.subtree_control";

/// How many processes a group may have.
pub(super) const PIDS_MAX: &str = "pids.max";

/// The period a quota applies to, in microseconds: the kernel's default.
const PERIOD: u64 = 100_000;

/// Most bytes read from a file: the process ids of a large group, one per line.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// A value to write to a file of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) file: &'static str,
    pub(super) value: String,
    pub(super) need: SettingNeed,
}

/// Whether a command may run without a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SettingNeed {
    /// The command must not run without it.
    Required,
    /// The kernel may have been built without it.
    WhereThere,
    /// Required, unless a group above allows less: version 1 accepts no higher quota.
    OrLessAbove,
}

/// What to write to the files of a group for these limits, in order.
pub(super) fn settings(
    version: Version,
    controllers: &BTreeSet<Controller>,
    limits: &Limits,
) -> Vec<Setting> {
    let mut settings = Vec::new();
    for controller in controllers {
        match (version, controller) {
            (Version::V1, Controller::Memory) => {
                settings.push(required("memory.limit_in_bytes", limits.memory_bytes));
                // Memory and swap together; an equal limit leaves no swap.
                settings.push(where_there(
                    "memory.memsw.limit_in_bytes",
                    limits.memory_bytes,
                ));
            }
            (Version::V2, Controller::Memory) => {
                settings.push(required("memory.max", limits.memory_bytes));
                settings.push(where_there("memory.swap.max", 0));
            }
            (_, Controller::Pids) => {
                settings.push(required(PIDS_MAX, u64::from(limits.processes)));
            }
            (Version::V1, Controller::Cpu) => {
                let shares = u64::from(limits.cpu_weight) * 1024 / 100;
                settings.push(required("cpu.shares", shares.clamp(2, 262_144)));
                if let Some(percent) = limits.cpu_percent {
                    settings.push(required("cpu.cfs_period_us", PERIOD));
                    settings.push(Setting {
                        need: SettingNeed::OrLessAbove,
                        ..required("cpu.cfs_quota_us", quota(percent))
                    });
                }
            }
            (Version::V2, Controller::Cpu) => {
                let weight = u64::from(limits.cpu_weight).clamp(1, 10_000);
                settings.push(required("cpu.weight", weight));
                if let Some(percent) = limits.cpu_percent {
                    settings.push(Setting {
                        file: "cpu.max",
                        value: format!("{} {PERIOD}", quota(percent)),
                        need: SettingNeed::Required,
                    });
                }
            }
            (_, Controller::CpuAccounting) => {}
        }
    }
    settings
}

/// What to write so that a group being killed dies fast: exiting takes processor time too, and a
/// thousand processes with a small share of a busy machine would take seconds.
pub(super) fn for_dying(version: Version, controllers: &BTreeSet<Controller>) -> Vec<Setting> {
    if !controllers.contains(&Controller::Cpu) {
        return Vec::new();
    }
    match version {
        Version::V1 => vec![
            required("cpu.shares", 262_144),
            Setting {
                file: "cpu.cfs_quota_us",
                value: "-1".to_owned(),
                need: SettingNeed::WhereThere,
            },
        ],
        Version::V2 => vec![
            required("cpu.weight", 10_000),
            Setting {
                file: "cpu.max",
                value: "max".to_owned(),
                need: SettingNeed::WhereThere,
            },
        ],
    }
}

fn quota(percent: u32) -> u64 {
    u64::from(percent.max(1)) * PERIOD / 100
}

fn required(file: &'static str, value: u64) -> Setting {
    Setting {
        file,
        value: value.to_string(),
        need: SettingNeed::Required,
    }
}

fn where_there(file: &'static str, value: u64) -> Setting {
    Setting {
        need: SettingNeed::WhereThere,
        ..required(file, value)
    }
}

/// Writes settings into a group's directory.
pub(super) fn write_all(directory: &Path, settings: &[Setting]) -> io::Result<()> {
    for setting in settings {
        match (write(directory, setting.file, &setting.value), setting.need) {
            (Ok(()), _) => {}
            (Err(error), SettingNeed::WhereThere) if error.kind() == io::ErrorKind::NotFound => {}
            (Err(error), SettingNeed::OrLessAbove)
                if error.kind() == io::ErrorKind::InvalidInput => {}
            (Err(error), _) => return Err(error),
        }
    }
    Ok(())
}

/// Writes one file. It must exist: the kernel creates them all.
pub(super) fn write(directory: &Path, file: &str, value: &str) -> io::Result<()> {
    OpenOptions::new()
        .write(true)
        .open(directory.join(file))?
        .write_all(value.as_bytes())
}

pub(super) fn read(directory: &Path, file: &str) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(directory.join(file))?
        .take(MAX_FILE_BYTES)
        .read_to_string(&mut text)?;
    Ok(text)
}

/// How many processes the kernel killed because the group ran out of memory.
pub(super) fn killed_for_memory(version: Version, directory: &Path) -> io::Result<u64> {
    let file = match version {
        Version::V1 => "memory.oom_control",
        Version::V2 => "memory.events",
    };
    Ok(counter(&read(directory, file)?, "oom_kill"))
}

/// How often a new process was refused because the group was at its limit.
pub(super) fn refused_processes(directory: &Path) -> io::Result<u64> {
    Ok(counter(&read(directory, "pids.events")?, "max"))
}

/// The processor time the group's processes have used, if this directory counts it.
pub(super) fn cpu_used(
    version: Version,
    controllers: &BTreeSet<Controller>,
    directory: &Path,
) -> Option<Duration> {
    match version {
        Version::V1 => {
            if !controllers.contains(&Controller::CpuAccounting) {
                return None;
            }
            let nanoseconds = read(directory, "cpuacct.usage").ok()?;
            nanoseconds.trim().parse().ok().map(Duration::from_nanos)
        }
        // Counted in every directory, even without the controller.
        Version::V2 => {
            let stat = read(directory, "cpu.stat").ok()?;
            Some(Duration::from_micros(counter(&stat, "usage_usec")))
        }
    }
}

/// The controllers named in a list in the format of `cgroup.controllers`.
pub(super) fn listed(text: &str) -> BTreeSet<Controller> {
    text.split_ascii_whitespace()
        .filter_map(Controller::parse)
        .collect()
}

/// The number after a name in a file of `name number` lines; 0 if the name is missing.
fn counter(text: &str, name: &str) -> u64 {
    text.lines()
        .find_map(|line| {
            let (key, value) = line.split_once(' ')?;
            (key == name).then(|| value.trim().parse().ok())?
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(version: Version, limits: &Limits, expect: &[(&str, &str)]) {
        let all = Controller::ALL.into_iter().collect();
        let settings = settings(version, &all, limits);
        let found: Vec<(&str, &str)> = settings
            .iter()
            .map(|setting| (setting.file, setting.value.as_str()))
            .collect();
        assert_eq!(found, expect);
    }

    fn limits() -> Limits {
        Limits {
            processes: 64,
            memory_bytes: 1 << 20,
            cpu_weight: 50,
            cpu_percent: Some(150),
            ..Limits::default()
        }
    }

    #[test]
    fn limits_become_files_of_version_1() {
        check(
            Version::V1,
            &limits(),
            &[
                ("memory.limit_in_bytes", "1048576"),
                ("memory.memsw.limit_in_bytes", "1048576"),
                ("pids.max", "64"),
                ("cpu.shares", "512"),
                ("cpu.cfs_period_us", "100000"),
                ("cpu.cfs_quota_us", "150000"),
            ],
        );
    }

    #[test]
    fn limits_become_files_of_version_2() {
        check(
            Version::V2,
            &limits(),
            &[
                ("memory.max", "1048576"),
                ("memory.swap.max", "0"),
                ("pids.max", "64"),
                ("cpu.weight", "50"),
                ("cpu.max", "150000 100000"),
            ],
        );
    }

    #[test]
    fn the_dying_have_every_processor() {
        let all = Controller::ALL.into_iter().collect();
        for (version, quota) in [(Version::V1, "-1"), (Version::V2, "max")] {
            let settings = for_dying(version, &all);
            assert!(settings.iter().any(|setting| setting.value == quota));
        }
        assert_eq!(for_dying(Version::V1, &BTreeSet::new()), []);
    }

    #[test]
    fn without_a_quota_every_processor_may_be_used() {
        let limits = Limits {
            cpu_percent: None,
            ..limits()
        };
        let all = Controller::ALL.into_iter().collect();
        for version in [Version::V1, Version::V2] {
            let settings = settings(version, &all, &limits);
            assert!(settings.iter().all(|setting| setting.file != "cpu.max"));
            assert!(settings.iter().all(|setting| !setting.file.contains("cfs")));
        }
    }

    #[test]
    fn counters_are_read_by_their_whole_name() {
        let events = "low 1\nhigh 2\nmax 3\noom 4\noom_kill 5\noom_group_kill 6\n";
        assert_eq!(counter(events, "oom_kill"), 5);
        assert_eq!(counter(events, "oom"), 4);
        assert_eq!(counter(events, "kill"), 0);
        assert_eq!(counter("", "max"), 0);
    }
}
