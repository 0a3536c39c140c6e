//! Haft's private directory on this machine for what lives only as long as a process: sockets,
//! bundles, temporary directories of commands. Whatever a crashed Haft left in it is removed by
//! the next one.
//!
//! Processes need no sweeping: each dies with the Haft that started it, whose end its init sees.
//! cgroups have directories of their own (`cgroup/parent.rs`).

use std::{
    fs, io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use haft_contract::WorkPath;
use rustix::{
    fs::{CWD, Mode, OFlags, fstat, mkdirat, openat},
    io::Errno,
    process::geteuid,
};

use super::owner::{Liveness, Owner};
use crate::{
    jail::{Jail, Mounts},
    local::remove_tree,
};

/// Entries looked at when a crashed Haft's are removed, at most.
const MAX_SWEPT: usize = 4096;

/// Tells apart several of one process.
static INSTANCE: AtomicU64 = AtomicU64::new(0);

/// A private directory of this process, gone when it is dropped.
#[derive(Debug)]
pub(crate) struct RuntimeDirectory {
    base: Jail,
    name: String,
    path: PathBuf,
    next: AtomicU64,
}

/// A directory of one command, gone with everything in it when it is dropped.
#[derive(Debug)]
pub(crate) struct PrivateDirectory {
    owner: Arc<RuntimeDirectory>,
    name: String,
    path: PathBuf,
}

/// A runtime directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum RuntimeDirectoryError {
    /// Somebody else could have put something into it.
    #[error(
        "`{}` is not a directory that belongs to this user alone; remove it, or configure another",
        .0.display()
    )]
    NotPrivate(PathBuf),
    /// The operating system refused.
    #[error("`{}` cannot be used as a private directory", .path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

impl RuntimeDirectory {
    /// This user's base in a directory of temporary files.
    pub(crate) fn base(temporary: &Path) -> PathBuf {
        temporary.join(format!("haft-{}", geteuid().as_raw()))
    }

    /// Removes what dead processes left in a base, if there is one.
    pub(crate) fn sweep(base: &Path) {
        if check_private(base).is_ok()
            && let Ok(jail) = Jail::open(base, Mounts::Refuse)
        {
            sweep(&jail, base);
        }
    }

    /// Opens the base, made if it is not there, removes what dead processes left in it, and makes
    /// a directory for this one.
    pub(crate) fn open(base: &Path) -> Result<Arc<Self>, RuntimeDirectoryError> {
        let failed = |source: io::Error| RuntimeDirectoryError::Io {
            path: base.to_owned(),
            source,
        };
        match mkdirat(CWD, base, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed(errno.into())),
        }
        check_private(base)?;
        // Nobody else can rename what is in a directory of ours, nor, with the sticky bit that
        // every shared one has, the directory itself; so its path goes on meaning it.
        let jail = Jail::open(base, Mounts::Refuse).map_err(failed)?;
        sweep(&jail, base);
        let owner = Owner::this_process().map_err(failed)?;
        let instance = INSTANCE.fetch_add(1, Ordering::Relaxed);
        let name = format!("{owner}-{instance}");
        let path = base.join(&name);
        mkdirat(CWD, &path, Mode::RWXU).map_err(|errno| failed(errno.into()))?;
        Ok(Arc::new(Self {
            base: jail,
            name,
            path,
            next: AtomicU64::new(0),
        }))
    }

    /// The directory of this process.
    #[cfg(test)]
    fn path(&self) -> &Path {
        &self.path
    }

    /// A new directory in it.
    pub(crate) fn make(self: &Arc<Self>) -> io::Result<PrivateDirectory> {
        let name = self.next.fetch_add(1, Ordering::Relaxed).to_string();
        let path = self.path.join(&name);
        mkdirat(CWD, &path, Mode::RWXU)?;
        Ok(PrivateDirectory {
            owner: Arc::clone(self),
            name,
            path,
        })
    }
}

impl Drop for RuntimeDirectory {
    fn drop(&mut self) {
        remove(&self.base, &self.name);
    }
}

impl PrivateDirectory {
    /// Makes these directories in it.
    pub(crate) fn make(&self, names: &[&str]) -> Result<(), Errno> {
        let mut paths = names.iter().map(|name| self.path.join(name));
        paths.try_for_each(|path| mkdirat(CWD, path, Mode::RWXU))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        remove(
            &self.owner.base,
            &format!("{}/{}", self.owner.name, self.name),
        );
    }
}

/// Fails unless a path is itself a directory that only this user can do anything in.
fn check_private(path: &Path) -> Result<OwnedFd, RuntimeDirectoryError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let not_private = || RuntimeDirectoryError::NotPrivate(path.to_owned());
    let held = openat(CWD, path, flags, Mode::empty()).map_err(|_| not_private())?;
    let stat = fstat(&held).map_err(|_| not_private())?;
    let others = Mode::RWXG | Mode::RWXO;
    let open_to_others = Mode::from_raw_mode(stat.st_mode).intersects(others);
    if stat.st_uid == geteuid().as_raw() && !open_to_others {
        Ok(held)
    } else {
        Err(not_private())
    }
}

/// Removes what dead processes left.
fn sweep(base: &Jail, path: &Path) {
    let Ok(entries) = fs::read_dir(path) else {
        return;
    };
    for entry in entries.flatten().take(MAX_SWEPT) {
        let name = entry.file_name();
        let Some(name) = name.to_str() else {
            continue;
        };
        let owner = name
            .rsplit_once('-')
            .and_then(|(owner, _)| Owner::parse(owner));
        match owner.map(Owner::liveness) {
            Some(Liveness::Gone) => remove(base, name),
            Some(Liveness::Alive | Liveness::Unknown) | None => {}
        }
    }
}

/// Removes a tree, as far as it can be. What is left is tried again by the next Haft.
fn remove(base: &Jail, path: &str) {
    if let Ok(path) = WorkPath::relative(path)
        && let Err(error) = remove_tree(base, &path)
    {
        tracing::warn!(%error, "a private directory cannot be removed");
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn base() -> (tempfile::TempDir, PathBuf) {
        let above = tempfile::tempdir().expect("a directory");
        let base = above.path().join("haft");
        (above, base)
    }

    #[test]
    fn everything_goes_with_its_owner() {
        let (_above, base) = base();
        let runtime = RuntimeDirectory::open(&base).expect("opened");
        let one = runtime.make().expect("made");
        let two = runtime.make().expect("made");
        fs::create_dir_all(one.path().join("deep/er")).expect("made");
        fs::write(two.path().join("file"), "x").expect("written");
        let mode = fs::metadata(one.path())
            .expect("there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o700);
        let gone = one.path().to_owned();
        drop(one);
        assert!(!gone.exists() && two.path().exists());
        drop(two);
        drop(runtime);
        assert_eq!(fs::read_dir(&base).expect("listed").count(), 0);
    }

    #[test]
    fn what_the_dead_left_is_removed_and_nothing_else() {
        let (_above, base) = base();
        let alive = RuntimeDirectory::open(&base).expect("opened");
        let namespace = alive.name.split('-').next().expect("a namespace");
        let gone = base.join(format!("{namespace}-{}-1-0", std::process::id()));
        fs::create_dir_all(gone.join("0/tmp")).expect("made");
        let others = ["1-2-3-0", "quarantine", "notes.txt"];
        for other in others {
            fs::create_dir(base.join(other)).expect("made");
        }
        let next = RuntimeDirectory::open(&base).expect("opened");
        assert!(!gone.exists());
        assert!(alive.path().exists() && next.path().exists());
        assert!(others.iter().all(|other| base.join(other).exists()));
    }

    #[test]
    fn sl_13_a_link_or_a_directory_open_to_others_is_refused() {
        let (above, base) = base();
        symlink(above.path(), &base).expect("linked");
        let refused = |path: &Path| match RuntimeDirectory::open(path) {
            Err(RuntimeDirectoryError::NotPrivate(_)) => true,
            Err(RuntimeDirectoryError::Io { .. }) | Ok(_) => false,
        };
        assert!(refused(&base));
        let open = above.path().join("open");
        fs::create_dir(&open).expect("made");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o770)).expect("opened");
        assert!(refused(&open));
        assert!(refused(Path::new("/tmp")));
        assert_eq!(fs::read_dir(above.path()).expect("listed").count(), 2);
    }
}
