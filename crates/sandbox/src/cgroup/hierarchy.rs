//! Which cgroup hierarchies exist and where in them this process is, from what the kernel prints
//! about mounts and about a process. Pure: text in, paths out.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    os::unix::ffi::OsStringExt,
    path::{Component, Path, PathBuf},
};

/// A mounted cgroup file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hierarchy {
    /// Where it is mounted.
    pub(super) mount: PathBuf,
    /// How it behaves.
    pub(super) version: Version,
    /// The controllers it has. In version 2 each directory lists its own.
    pub(super) controllers: BTreeSet<Controller>,
    /// The directory this process is in.
    pub(super) own: PathBuf,
}

/// The two generations of cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// A hierarchy per controller.
    V1,
    /// One hierarchy for all.
    V2,
}

/// What a cgroup can limit or count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Controller {
    /// Memory.
    Memory,
    /// Processes and threads.
    Pids,
    /// Processor shares and quota.
    Cpu,
    /// Counting processor time; part of [`Controller::Cpu`] in version 2.
    CpuAccounting,
}

impl Controller {
    /// Every controller Haft uses.
    pub const ALL: [Self; 4] = [Self::Memory, Self::Pids, Self::Cpu, Self::CpuAccounting];

    /// The kernel's name for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
            Self::CpuAccounting => "cpuacct",
        }
    }

    /// The controller with this kernel name, if Haft uses it.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|controller| controller.as_str() == name)
    }
}

/// The hierarchies in `/proc/self/mountinfo`, with this process's place in each from
/// `/proc/self/cgroup`. One that is mounted twice counts once; hierarchies that Haft does not use
/// are left out.
pub(super) fn parse(mountinfo: &str, places: &str) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = Vec::new();
    for hierarchy in mountinfo
        .lines()
        .filter_map(|line| parse_mount(line, places))
    {
        let seen = found.iter().any(|other| {
            other.version == hierarchy.version && other.controllers == hierarchy.controllers
        });
        if !seen {
            found.push(hierarchy);
        }
    }
    found
}

/// `id parent major:minor root mount-point options [tags…] - type source super-options`
fn parse_mount(line: &str, places: &str) -> Option<Hierarchy> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let (root, point) = (unescape(mount.next()?), unescape(mount.next()?));
    let mut file_system = file_system.split(' ');
    let (version, controllers) = match file_system.next()? {
        "cgroup2" => (Version::V2, BTreeSet::new()),
        "cgroup" => {
            let controllers = known(file_system.nth(1)?);
            if controllers.is_empty() {
                return None;
            }
            (Version::V1, controllers)
        }
        _ => return None,
    };
    let place = places
        .lines()
        .find_map(|line| parse_place(line, version, &controllers))?;
    // In a container the mount may show only part of the hierarchy; a process outside that part is
    // assumed to be at its top.
    let below = Path::new(place)
        .strip_prefix(&root)
        .ok()
        .filter(|below| below.components().all(|part| part != Component::ParentDir))
        .unwrap_or(Path::new(""));
    Some(Hierarchy {
        own: point.join(below),
        mount: point,
        version,
        controllers,
    })
}

/// `id:controllers:path`; returns the path if the line describes that hierarchy.
fn parse_place<'l>(
    line: &'l str,
    version: Version,
    controllers: &BTreeSet<Controller>,
) -> Option<&'l str> {
    let (id, rest) = line.split_once(':')?;
    let (names, path) = rest.split_once(':')?;
    let same = match version {
        Version::V2 => id == "0" && names.is_empty(),
        Version::V1 => known(names) == *controllers,
    };
    same.then_some(path)
}

fn known(names: &str) -> BTreeSet<Controller> {
    names.split(',').filter_map(Controller::parse).collect()
}

/// A path as `mountinfo` prints it: blanks and backslashes as three octal digits.
fn unescape(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let octal = after
            .get(..3)
            .filter(|_| *first == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let Some(byte) = octal {
            bytes.push(byte);
            rest = after.get(3..).unwrap_or_default();
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

/// The deepest directory that contains both paths; both are in the same mount.
pub(super) fn common_ancestor(one: &Path, other: &Path) -> PathBuf {
    one.components()
        .zip(other.components())
        .take_while(|(one, other)| one == other)
        .map(|(component, _)| AsRef::<OsStr>::as_ref(&component).to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mountinfo: &str, places: &str, expect: &[(&str, Version, &[Controller], &str)]) {
        let expect: Vec<Hierarchy> = expect
            .iter()
            .map(|(mount, version, controllers, own)| Hierarchy {
                mount: PathBuf::from(mount),
                version: *version,
                controllers: controllers.iter().copied().collect(),
                own: PathBuf::from(own),
            })
            .collect();
        assert_eq!(parse(mountinfo, places), expect);
    }

    #[test]
    fn a_machine_with_version_2_alone() {
        check(
            "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate",
            "0::/user.slice/user-1000.slice/user@1000.service/app.slice/a.scope\n",
            &[(
                "/sys/fs/cgroup",
                Version::V2,
                &[],
                "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/a.scope",
            )],
        );
    }

    #[test]
    fn a_machine_with_both_and_with_controllers_mounted_together() {
        check(
            "31 30 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
             32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
             33 30 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             34 30 0:30 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n\
             35 30 0:29 / /mnt/memory rw - cgroup cgroup rw,memory",
            "9:name=systemd:/x\n4:memory:/jobs/1\n2:cpu,cpuacct:/\n0::/\n",
            &[
                (
                    "/sys/fs/cgroup/unified",
                    Version::V2,
                    &[],
                    "/sys/fs/cgroup/unified",
                ),
                (
                    "/sys/fs/cgroup/cpu,cpuacct",
                    Version::V1,
                    &[Controller::Cpu, Controller::CpuAccounting],
                    "/sys/fs/cgroup/cpu,cpuacct",
                ),
                (
                    "/sys/fs/cgroup/memory",
                    Version::V1,
                    &[Controller::Memory],
                    "/sys/fs/cgroup/memory/jobs/1",
                ),
            ],
        );
    }

    #[test]
    fn a_container_sees_its_own_part() {
        check(
            "30 25 0:26 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw",
            "0::/docker/abc/init\n",
            &[("/sys/fs/cgroup", Version::V2, &[], "/sys/fs/cgroup/init")],
        );
        check(
            "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw",
            "0::/../other\n",
            &[("/sys/fs/cgroup", Version::V2, &[], "/sys/fs/cgroup")],
        );
    }

    #[test]
    fn what_is_no_mount_of_cgroups_is_passed_over() {
        check(
            "1 2 0:1 / / rw - ext4 /dev/x rw\nnonsense\n1 2 0:1 / /x rw - cgroup cgroup",
            "0::/\n",
            &[],
        );
    }

    #[test]
    fn blanks_in_mount_points_are_read() {
        assert_eq!(unescape("/a\\040b\\134c"), PathBuf::from("/a b\\c"));
        assert_eq!(unescape("/a\\04"), PathBuf::from("/a\\04"));
    }

    #[test]
    fn two_groups_meet_in_one() {
        let meet = |one, other| common_ancestor(Path::new(one), Path::new(other));
        assert_eq!(meet("/c/a/b", "/c/a/d/e"), PathBuf::from("/c/a"));
        assert_eq!(meet("/c/a", "/c/a/d"), PathBuf::from("/c/a"));
        assert_eq!(meet("/c/a", "/c/ab"), PathBuf::from("/c"));
    }
}
