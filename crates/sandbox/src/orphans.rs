//! Haft's private directories on this machine for what lives only as long as a process: sockets,
//! bundles, temporary directories of commands. The next Haft removes whatever a crashed one left in
//! them.
//!
//! Each is in a base that belongs to this user alone. A base is not trusted by its name: in a
//! shared directory anybody may have made it first. A base that is not ours is skipped and another
//! one is made, under a name that nobody could have taken before.
//!
//! Processes need no sweeping: each dies with the Haft that started it, because its init sees Haft
//! end. cgroups have their own directories (`cgroup/parent.rs`).

use std::{
    fs, io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use haft_contract::WorkPath;
use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, chmodat, fstat, mkdirat, openat, unlinkat},
    io::Errno,
    process::geteuid,
    rand::{GetRandomFlags, getrandom},
};

use crate::{
    jail::{Jail, Mounts},
    owner::{Liveness, Owner},
    remove,
};

/// Where everybody has temporary files.
pub(crate) const TEMPORARY: &str = "/tmp";

/// Most entries looked at when removing what a crashed Haft left.
const MAX_SWEPT: usize = 4096;

/// Distinguishes several directories of one process.
static INSTANCE: AtomicU64 = AtomicU64::new(0);

/// Names tried for a new base before giving up.
const ATTEMPTS: usize = 8;

/// What a private directory is for, which decides where it is best placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DirectoryPurpose {
    /// Sockets and descriptions of sandboxes: small, and best where nobody else can create
    /// anything.
    Control,
    /// Files of a command. A user's runtime directory is in memory, and too small for these.
    Files,
}

/// Where bases may be.
#[derive(Debug, Clone)]
pub(crate) struct BaseDirectories {
    /// The user's runtime directory, if it belongs to them alone.
    runtime: Option<PathBuf>,
    /// A directory for temporary files, which everybody may share.
    temporary: PathBuf,
}

/// A private directory of this process, removed on drop.
#[derive(Debug)]
pub(crate) struct RuntimeDirectory {
    base: Jail,
    name: String,
    path: PathBuf,
    next: AtomicU64,
}

/// A directory of one command, removed with everything in it on drop.
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
        /// Its error.
        source: io::Error,
    },
}

impl BaseDirectories {
    /// Ignores a runtime directory that does not belong to this user alone.
    pub(crate) fn new(runtime: Option<&Path>, temporary: &Path) -> Self {
        let runtime = runtime.filter(|path| path.is_absolute() && check_private(path).is_ok());
        Self {
            runtime: runtime.map(Path::to_owned),
            temporary: temporary.to_owned(),
        }
    }

    /// Whether none of them lies in a directory that commands can write to.
    pub(crate) fn lie_apart(&self, open: &Path) -> bool {
        let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let open = real(open);
        self.places().all(|place| !real(place).starts_with(&open))
    }

    /// The directories they are in.
    pub(crate) fn places(&self) -> impl Iterator<Item = &Path> {
        let runtime = self.runtime.as_deref();
        runtime.into_iter().chain([self.temporary.as_path()])
    }

    /// Removes what dead processes left in every base that exists.
    pub(crate) fn sweep(&self) {
        if let Some(runtime) = &self.runtime {
            sweep_base(&runtime.join(base_name()));
        }
        let usual = base_name();
        sweep_base(&self.temporary.join(&usual));
        let Ok(entries) = fs::read_dir(&self.temporary) else {
            return;
        };
        let made_up = format!("{usual}-");
        for entry in entries.flatten().take(MAX_SWEPT) {
            if entry.file_name().as_bytes().starts_with(made_up.as_bytes()) {
                let base = entry.path();
                if sweep_base(&base) {
                    // Another is made when needed; one that is in use is not empty.
                    let _ = unlinkat(CWD, &base, AtFlags::REMOVEDIR);
                }
            }
        }
    }

    /// A directory for this process, in the best base that is ours.
    pub(crate) fn open(
        &self,
        purpose: DirectoryPurpose,
    ) -> Result<Arc<RuntimeDirectory>, RuntimeDirectoryError> {
        if let (DirectoryPurpose::Control, Some(runtime)) = (purpose, &self.runtime)
            && let Ok(opened) = RuntimeDirectory::open(&runtime.join(base_name()))
        {
            return Ok(opened);
        }
        let usual = self.temporary.join(base_name());
        match RuntimeDirectory::open(&usual) {
            Err(RuntimeDirectoryError::NotPrivate(taken)) => {
                tracing::warn!(path = %taken.display(), "it does not belong to this user alone; using another directory");
                self.made_up()
            }
            other => other,
        }
    }

    /// A directory in a new base with an unpredictable name.
    fn made_up(&self) -> Result<Arc<RuntimeDirectory>, RuntimeDirectoryError> {
        let mut last = self.temporary.clone();
        for _ in 0..ATTEMPTS {
            let mut random = [0; 16];
            let drawn = getrandom(&mut random, GetRandomFlags::empty());
            drawn.map_err(|errno| RuntimeDirectoryError::Io {
                path: self.temporary.clone(),
                source: errno.into(),
            })?;
            let random = u128::from_ne_bytes(random);
            let base = self
                .temporary
                .join(format!("{}-{random:032x}", base_name()));
            match make_private(&base) {
                // Another Haft that sweeps may mistake it for a dead one's before it has an entry.
                Ok(()) => match RuntimeDirectory::open(&base) {
                    Ok(opened) => return Ok(opened),
                    Err(_) => last = base,
                },
                Err(Errno::EXIST) => last = base,
                Err(errno) => {
                    return Err(RuntimeDirectoryError::Io {
                        path: base,
                        source: errno.into(),
                    });
                }
            }
        }
        Err(RuntimeDirectoryError::NotPrivate(last))
    }
}

impl RuntimeDirectory {
    /// Opens a base, making it if necessary, removes what dead processes left in it, and makes a
    /// directory for this one.
    fn open(base: &Path) -> Result<Arc<Self>, RuntimeDirectoryError> {
        let failed = |source: io::Error| RuntimeDirectoryError::Io {
            path: base.to_owned(),
            source,
        };
        match make_private(base) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed(errno.into())),
        }
        check_private(base)?;
        // Nobody else can rename what is in a directory of ours, nor the directory itself, thanks
        // to the sticky bit that every shared one has; so its path keeps referring to it.
        let jail = Jail::open(base, Mounts::Refuse).map_err(failed)?;
        sweep(&jail, base);
        let owner = Owner::this_process().map_err(failed)?;
        let instance = INSTANCE.fetch_add(1, Ordering::Relaxed);
        let name = format!("{owner}-{instance}");
        let path = base.join(&name);
        make_private(&path).map_err(|errno| failed(errno.into()))?;
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
        make_private(&path)?;
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
        paths.try_for_each(|path| make_private(&path))
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

/// The name of this user's base in a directory that others may share.
fn base_name() -> String {
    format!("haft-{}", geteuid().as_raw())
}

/// Makes a directory for this user alone, whatever the umask, which can only have removed bits.
/// Nobody else can replace it meanwhile: its parent is ours or has the sticky bit.
fn make_private(path: &Path) -> Result<(), Errno> {
    mkdirat(CWD, path, Mode::RWXU)?;
    chmodat(CWD, path, Mode::RWXU, AtFlags::empty())
}

/// Removes what dead processes left in a base, if it exists and is ours; returns whether it is.
fn sweep_base(base: &Path) -> bool {
    if check_private(base).is_ok()
        && let Ok(jail) = Jail::open(base, Mounts::Refuse)
    {
        sweep(&jail, base);
        return true;
    }
    false
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

/// Removes a tree, as far as possible. The next Haft tries again to remove what is left.
fn remove(base: &Jail, path: &str) {
    if let Ok(path) = WorkPath::relative(path)
        && let Err(error) = remove::tree(base, &path)
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

    fn mode(path: &Path) -> u32 {
        let metadata = fs::metadata(path).expect("there");
        metadata.permissions().mode() & 0o7777
    }

    /// Whatever is at the usual name, a command gets a directory of our own.
    #[test]
    fn un_05_a_name_that_somebody_took_first_is_passed_over() {
        for taken in ["open to others", "a link", "a file"] {
            let above = tempfile::tempdir().expect("a directory");
            let usual = above.path().join(base_name());
            match taken {
                "open to others" => {
                    fs::create_dir(&usual).expect("made");
                    let open = fs::Permissions::from_mode(0o777);
                    fs::set_permissions(&usual, open).expect("opened");
                }
                "a link" => symlink("/", &usual).expect("linked"),
                _ => fs::write(&usual, "x").expect("written"),
            }
            let bases = BaseDirectories::new(None, above.path());
            let opened = bases.open(DirectoryPurpose::Files).expect("opened");
            let base = opened.path().parent().expect("a base").to_owned();
            assert_ne!(base, usual, "{taken}");
            assert_eq!((mode(&base), mode(opened.path())), (0o700, 0o700));
            let private = opened.make().expect("made");
            assert_eq!(mode(private.path()), 0o700);

            // One that is in use is not swept; the next Haft removes all of it.
            bases.sweep();
            assert!(private.path().exists(), "{taken}");
            drop((private, opened));
            bases.sweep();
            assert!(!base.exists(), "{taken}");
            assert!(usual.symlink_metadata().is_ok(), "{taken}");
        }
    }

    #[test]
    fn un_05_what_the_dead_left_under_a_made_up_name_is_removed() {
        let above = tempfile::tempdir().expect("a directory");
        let bases = BaseDirectories::new(None, above.path());
        let alive = bases.open(DirectoryPurpose::Files).expect("opened");
        let namespace = alive.name.split('-').next().expect("a namespace");
        let base = above.path().join(format!("{}-{:032x}", base_name(), 7));
        make_private(&base).expect("made");
        let gone = base.join(format!("{namespace}-{}-1-0", std::process::id()));
        fs::create_dir_all(gone.join("0/tmp")).expect("made");
        bases.sweep();
        assert!(!base.exists() && alive.path().exists());
    }

    #[test]
    fn un_05_a_runtime_directory_is_used_if_it_is_this_users_alone() {
        let above = tempfile::tempdir().expect("a directory");
        let (runtime, temporary) = (above.path().join("run"), above.path().join("tmp"));
        make_private(&runtime).expect("made");
        fs::create_dir(&temporary).expect("made");
        let place = |purpose| {
            let opened = BaseDirectories::new(Some(&runtime), &temporary).open(purpose);
            opened.expect("opened").path().to_owned()
        };
        assert!(place(DirectoryPurpose::Control).starts_with(runtime.join(base_name())));
        assert!(place(DirectoryPurpose::Files).starts_with(&temporary));
        fs::set_permissions(&runtime, fs::Permissions::from_mode(0o755)).expect("opened");
        assert!(place(DirectoryPurpose::Control).starts_with(&temporary));
        fs::remove_dir_all(&runtime).expect("removed");
        symlink(&temporary, &runtime).expect("linked");
        assert!(place(DirectoryPurpose::Control).starts_with(&temporary));
    }
}
