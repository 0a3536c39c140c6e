//! This process's own directory in each hierarchy, below one that was handed to this user. Commands
//! get their groups in it. It is removed when Haft ends; the next Haft removes what a crashed one
//! left.

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::{
    files,
    group::{Cgroup, Directory, kill_each},
    hierarchy::{self, Controller, Hierarchy, Version, common_ancestor},
};
use crate::{
    limits::Limits,
    owner::{Liveness, Owner},
};

/// The directory used when none is configured, at the top of each hierarchy of version 1.
pub const DEFAULT_PARENT: &str = "haft";

/// The prefix of a Haft process's own directory name.
const PREFIX: &str = "haft-";

/// Most directories kept because they could not be removed yet. The next Haft removes the rest.
const MAX_KEPT: usize = 1024;

/// Most directories looked at when removing what a crashed Haft left.
const MAX_SWEPT: usize = 4096;

/// Distinguishes the directories of several back ends in one process.
static INSTANCE: AtomicU64 = AtomicU64::new(0);

/// Where cgroups may be made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum CgroupSetting {
    /// Nowhere: only limits per process.
    Off,
    /// Wherever this user is allowed to, if anywhere.
    #[default]
    Auto,
    /// Below this directory of each hierarchy; it is an error if that is not possible.
    Below(CgroupName),
}

/// A directory below the top of a hierarchy, such as `haft` or `services/haft`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupName(String);

impl CgroupName {
    /// Names separated by slashes, none of them empty, `.` or `..`.
    pub fn parse(text: &str) -> Option<Self> {
        let good = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(['\0', '\n']);
        text.split('/').all(good).then(|| Self(text.to_owned()))
    }
}

impl fmt::Display for CgroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A cgroup could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CgroupError {
    /// Nothing can be limited below the configured directory.
    #[error(
        "no cgroup can be made below `{0}` by this user; hand it over, for example with \
         `chown -R USER /sys/fs/cgroup/{{memory,pids,cpu,cpuacct}}/{0}`"
    )]
    Parent(CgroupName),
    /// A command's group could not be made or limited.
    #[error("a cgroup for the command cannot be made: {}", .0.kind())]
    Create(io::Error),
}

/// The directories of this Haft process, one for each hierarchy it uses.
#[derive(Debug)]
pub struct CgroupParent {
    directories: Vec<Directory>,
    next: AtomicU64,
    /// Directories of ended commands in which something was still dying.
    kept: Mutex<Vec<PathBuf>>,
}

impl CgroupParent {
    /// Finds what this process may create and makes its own directories. `None` means that only
    /// limits per process are available.
    pub fn detect(setting: &CgroupSetting) -> Result<Option<Arc<Self>>, CgroupError> {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        let found = hierarchy::parse(&text("/proc/self/mountinfo"), &text("/proc/self/cgroup"));
        Self::detect_in(setting, &found)
    }

    fn detect_in(
        setting: &CgroupSetting,
        hierarchies: &[Hierarchy],
    ) -> Result<Option<Arc<Self>>, CgroupError> {
        let configured = match setting {
            CgroupSetting::Off => return Ok(None),
            CgroupSetting::Auto => None,
            CgroupSetting::Below(name) => Some(name),
        };
        let none = || match configured {
            None => Ok(None),
            Some(name) => Err(CgroupError::Parent(name.clone())),
        };
        let Ok(owner) = Owner::this_process() else {
            return none();
        };
        let own = format!(
            "{PREFIX}{owner}-{}",
            INSTANCE.fetch_add(1, Ordering::Relaxed)
        );
        let directories: Vec<Directory> = hierarchies
            .iter()
            .filter_map(|hierarchy| claim(hierarchy, configured, &own))
            .collect();
        let parent = Self::of(directories);
        if parent.controllers().is_empty() {
            return none();
        }
        Ok(Some(Arc::new(parent)))
    }

    fn of(directories: Vec<Directory>) -> Self {
        Self {
            directories,
            next: AtomicU64::new(0),
            kept: Mutex::new(Vec::new()),
        }
    }

    /// What can be limited for a whole tree, and by which version.
    pub fn controllers(&self) -> BTreeMap<Controller, Version> {
        self.directories
            .iter()
            .flat_map(|directory| {
                let version = directory.version;
                directory
                    .controllers
                    .iter()
                    .map(move |controller| (*controller, version))
            })
            .collect()
    }

    /// Whether the kernel can end a whole group at once (version 2).
    pub fn kills_at_once(&self) -> bool {
        self.directories
            .iter()
            .any(|directory| directory.path.join(files::KILL).exists())
    }

    /// Makes a group for one command.
    pub fn create(self: &Arc<Self>, limits: &Limits) -> Result<Cgroup, CgroupError> {
        self.remove_kept();
        let name = self.next.fetch_add(1, Ordering::Relaxed).to_string();
        Cgroup::create(Arc::clone(self), &name, limits).map_err(CgroupError::Create)
    }

    pub(super) fn directories(&self) -> &[Directory] {
        &self.directories
    }

    /// Removes a group's directory, now or once everything in it has died.
    pub(super) fn remove_or_keep(&self, path: &Path) {
        if removed(path) {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MAX_KEPT {
            kept.push(path.to_owned());
        }
    }

    fn remove_kept(&self) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|path| !removed(path));
    }
}

impl Drop for CgroupParent {
    fn drop(&mut self) {
        self.remove_kept();
        for directory in &self.directories {
            removed(&directory.path);
        }
    }
}

/// Tries to remove a directory; returns whether it is gone.
fn removed(path: &Path) -> bool {
    match fs::remove_dir(path) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Makes this process's own directory in a hierarchy, if it is allowed to.
fn claim(hierarchy: &Hierarchy, configured: Option<&CgroupName>, own: &str) -> Option<Directory> {
    let candidates = match (hierarchy.version, configured) {
        (_, Some(name)) => vec![hierarchy.mount.join(&name.0)],
        (Version::V1, None) => vec![hierarchy.mount.join(DEFAULT_PARENT)],
        // Version 2 lets an unprivileged process move only within a subtree it was handed, so that
        // subtree starts at a directory above its own. Its own cannot limit anything: it has a
        // process in it.
        (Version::V2, None) => hierarchy
            .own
            .ancestors()
            .skip(1)
            .take_while(|above| above.starts_with(&hierarchy.mount))
            .map(Path::to_owned)
            .collect(),
    };
    candidates.iter().find_map(|base| {
        let directory = claim_below(hierarchy, base, own)?;
        if directory.controllers.is_empty() {
            // Entering it has a cost, and nothing would be limited.
            removed(&directory.path);
            return None;
        }
        Some(directory)
    })
}

fn claim_below(hierarchy: &Hierarchy, base: &Path, own: &str) -> Option<Directory> {
    if hierarchy.version == Version::V2 && !may_enter(hierarchy, base) {
        return None;
    }
    // Succeeds for root; anyone else finds it already made and handed over.
    let _ = fs::create_dir(base);
    sweep(base);
    let path = base.join(own);
    let controllers = match hierarchy.version {
        Version::V1 => {
            fs::create_dir(&path).ok()?;
            hierarchy.controllers.clone()
        }
        Version::V2 => {
            enable(base);
            fs::create_dir(&path).ok()?;
            enable(&path);
            files::listed(&files::read(&path, files::SUBTREE).unwrap_or_default())
        }
    };
    Some(Directory {
        path,
        version: hierarchy.version,
        controllers,
    })
}

/// Whether this process may move what it starts below `base`: the kernel requires write access to
/// the closest common ancestor of both places.
fn may_enter(hierarchy: &Hierarchy, base: &Path) -> bool {
    let meet = common_ancestor(&hierarchy.own, base).join(files::PROCS);
    accessat(CWD, meet, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
}

/// Enables a directory's controllers for its subdirectories, as far as possible.
fn enable(directory: &Path) {
    let read = |file| files::listed(&files::read(directory, file).unwrap_or_default());
    let (there, enabled) = (read(files::CONTROLLERS), read(files::SUBTREE));
    for controller in there.difference(&enabled) {
        // One by one, so that one that is not available does not hold back the others. The result
        // is read back, not assumed.
        let _ = files::write(
            directory,
            files::SUBTREE,
            &format!("+{}", controller.as_str()),
        );
    }
}

/// Removes what crashed Haft processes left below a directory, and kills whatever still runs in it.
fn sweep(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else {
        return;
    };
    for entry in entries.flatten().take(MAX_SWEPT) {
        let name = entry.file_name();
        let owner = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.rsplit_once('-'))
            .and_then(|(owner, _)| Owner::parse(owner));
        match owner.map(Owner::liveness) {
            Some(Liveness::Gone) => remove_tree(&entry.path()),
            Some(Liveness::Alive | Liveness::Unknown) | None => {}
        }
    }
}

fn remove_tree(directory: &Path) {
    let groups = fs::read_dir(directory).into_iter().flatten().flatten();
    for group in groups.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        let path = group.path();
        if !removed(&path) {
            let _ = kill_each(&path);
            removed(&path);
        }
    }
    removed(directory);
}

#[cfg(test)]
impl CgroupParent {
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let path = |directory: &Directory| directory.path.clone();
        self.directories.iter().map(path).collect()
    }

    /// A parent without directories.
    pub(super) fn empty() -> Arc<Self> {
        Arc::new(Self::of(Vec::new()))
    }

    /// A parent in the version 2 hierarchy, even if that has no controllers.
    pub(super) fn of_version_2(name: &str) -> Arc<Self> {
        let text = |path| fs::read_to_string(path).expect("read");
        let found = hierarchy::parse(&text("/proc/self/mountinfo"), &text("/proc/self/cgroup"));
        let unified = found.iter().find(|one| one.version == Version::V2);
        let unified = unified.expect("version 2 is mounted");
        let own = format!("test-{}", std::process::id());
        let directory = claim_below(unified, &unified.mount.join(name), &own);
        Arc::new(Self::of(vec![directory.expect("handed over; see .ci/run")]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(directory: &Path, name: &str, text: &str) {
        fs::write(directory.join(name), text).expect("written");
    }

    #[test]
    fn names_cannot_lead_out_of_a_hierarchy() {
        for name in ["", "/haft", "a//b", "../x", "a/..", "a/", "a\nb"] {
            assert_eq!(CgroupName::parse(name), None, "{name:?}");
        }
        assert!(CgroupName::parse("services/haft-ci").is_some());
    }

    #[test]
    fn version_2_hands_down_only_what_is_missing() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        file(path, files::CONTROLLERS, "cpuset cpu io memory pids\n");
        file(path, files::SUBTREE, "memory pids\n");
        enable(path);
        // A plain file keeps the first bytes as written; the kernel treats each write as a command.
        assert_eq!(
            files::read(path, files::SUBTREE).expect("read"),
            "+cpury pids\n"
        );
    }

    #[test]
    fn version_2_needs_the_right_to_move_a_process() {
        let mount = tempfile::tempdir().expect("a directory");
        let part = mount.path().join("part");
        let own = part.join("run");
        fs::create_dir_all(&own).expect("made");
        let hierarchy = Hierarchy {
            mount: mount.path().to_owned(),
            version: Version::V2,
            controllers: std::collections::BTreeSet::new(),
            own,
        };
        assert!(!may_enter(&hierarchy, &part), "no such file");
        file(&part, files::PROCS, "");
        assert!(may_enter(&hierarchy, &part));
        assert!(!may_enter(&hierarchy, &mount.path().join("elsewhere")));
    }

    #[test]
    fn only_the_directories_of_the_dead_are_swept() {
        let base = tempfile::tempdir().expect("a directory");
        let alive = Owner::this_process().expect("an owner").to_string();
        let namespace = alive.split('-').next().expect("a namespace");
        let gone = format!("haft-{namespace}-{}-1-0", std::process::id());
        let alive = format!("haft-{alive}-0");
        for name in [gone.as_str(), &alive, "haft-1-2-3-0", "other", "haft-x"] {
            fs::create_dir_all(base.path().join(name).join("0")).expect("made");
        }
        sweep(base.path());
        let mut left: Vec<String> = fs::read_dir(base.path())
            .expect("listed")
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .into_string()
                    .expect("text")
            })
            .collect();
        left.sort();
        let mut expect = vec![
            alive,
            "haft-1-2-3-0".into(),
            "haft-x".into(),
            "other".into(),
        ];
        expect.sort();
        assert_eq!(left, expect);
    }
}
