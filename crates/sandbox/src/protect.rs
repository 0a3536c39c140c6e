//! What a workspace currently has that a command may not change.
//!
//! Only what exists: mounting over something that does not would leave empty files behind. What is
//! created later is refused by name (`init/names.rs`). Symlinks are left alone: their target is
//! either in the workspace and has its own name, or is not shown at all.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use haft_contract::protected::PROTECTED_NAMES;
use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, mkdirat, statat},
    io::Errno,
};

use crate::{
    jail::{FileId, Jail, Lookup},
    linked_trees::{LinkedTree, LinkedTrees},
    request::{ProtectedPlace, ProtectionHold},
};

/// The most submodules, and linked trees that are not released, whose settings are held.
const MAX_MODULES: usize = 256;

/// The most places below the root that are protected by mounts.
const MAX_BELOW: usize = 256;

/// How deep to look for submodules.
const MAX_DEPTH: usize = 4;

/// Parts of a git directory that affect what git runs.
const GIT_DECIDES: [&str; 11] = [
    "branches",
    "commondir",
    "config",
    "config.worktree",
    "gitdir",
    "hooks",
    // What git ignores, which filters it runs on which files, and where it finds objects. No
    // everyday command writes them; `info/sparse-checkout` and `shallow` are left to git.
    "info/attributes",
    "info/exclude",
    "info/grafts",
    "objects/info/alternates",
    "remotes",
];

/// Finds what exists, parents before children.
pub(crate) fn look(jail: &Jail) -> Result<Vec<ProtectedPlace>, Errno> {
    let mut places = Vec::new();
    for name in PROTECTED_NAMES {
        let path: PathBuf = name.components.iter().collect();
        let Some((identity, kind)) = find(jail, &path)? else {
            continue;
        };
        let is_git = name.components == [".git"];
        let hold = match kind {
            FileType::Directory if is_git => ProtectionHold::InPlace,
            FileType::Directory | FileType::RegularFile => ProtectionHold::ReadOnly,
            _ => continue,
        };
        // Moving the parent away would take the protected place along.
        if let Some(parent) = path.parent().filter(|parent| *parent != Path::new("")) {
            hold_in_place(jail, parent, &mut places)?;
        }
        places.push(ProtectedPlace {
            path: path.clone(),
            identity,
            hold,
        });
        if hold == ProtectionHold::InPlace {
            add_git_directory(jail, &path, &mut places)?;
        }
    }
    Ok(places)
}

/// Protects what `found` names below the root. The directories it is in are not held in place,
/// because nothing could be renamed across their boundary; a replacement is recognised afterwards
/// by its identity.
pub(crate) fn hold_below<'p>(
    jail: &Jail,
    found: impl Iterator<Item = &'p str>,
    places: &mut Vec<ProtectedPlace>,
) -> Result<(), Errno> {
    for path in found.take(MAX_BELOW) {
        let path = Path::new(path);
        let Some((identity, FileType::Directory | FileType::RegularFile)) = find(jail, path)?
        else {
            continue;
        };
        if places.iter().any(|place| place.path == path) {
            continue;
        }
        places.push(ProtectedPlace {
            path: path.to_owned(),
            identity,
            hold: ProtectionHold::ReadOnly,
        });
    }
    Ok(())
}

/// Adds what may not be changed in a git directory. A missing `hooks` is created empty: what does
/// not exist cannot be held.
fn add_git_directory(
    jail: &Jail,
    git: &Path,
    places: &mut Vec<ProtectedPlace>,
) -> Result<(), Errno> {
    let hooks = git.join("hooks");
    if find(jail, &hooks)?.is_none() {
        let directory =
            jail.open_bytes(bytes(git), OFlags::PATH | OFlags::DIRECTORY, Lookup::Full)?;
        match mkdirat(&directory, "hooks", Mode::from_raw_mode(0o777)) {
            // Nobody can add hooks to a repository on a read-only disk.
            Ok(()) | Err(Errno::EXIST | Errno::ROFS | Errno::ACCESS) => {}
            Err(errno) => return Err(errno),
        }
    }
    hold_deciding(jail, git, places)?;
    let mut left = MAX_MODULES;
    // Git must be able to remove these; the watch checks what they lead to.
    let trees = LinkedTrees::look(jail).trees.into_iter();
    let plain: BTreeSet<PathBuf> = trees
        .filter(LinkedTree::is_plain)
        .map(|tree| tree.directory)
        .collect();
    for others in ["modules", "worktrees"] {
        add_modules(
            jail,
            &git.join(others),
            MAX_DEPTH,
            &mut left,
            &plain,
            places,
        )?;
    }
    Ok(())
}

/// Holds a directory so that it can be neither moved nor replaced; at most once.
fn hold_in_place(jail: &Jail, path: &Path, places: &mut Vec<ProtectedPlace>) -> Result<(), Errno> {
    if places.iter().any(|place| place.path == path) {
        return Ok(());
    }
    if let Some((identity, FileType::Directory)) = find(jail, path)? {
        places.push(ProtectedPlace {
            path: path.to_owned(),
            identity,
            hold: ProtectionHold::InPlace,
        });
    }
    Ok(())
}

fn hold_deciding(jail: &Jail, git: &Path, places: &mut Vec<ProtectedPlace>) -> Result<(), Errno> {
    for name in GIT_DECIDES {
        let path = git.join(name);
        if let Some((identity, FileType::Directory | FileType::RegularFile)) = find(jail, &path)? {
            // Otherwise a directory on the way could be moved, and another take its place.
            let above: Vec<&Path> = Path::new(name).ancestors().skip(1).collect();
            for above in above.into_iter().rev().filter(|it| *it != Path::new("")) {
                hold_in_place(jail, &git.join(above), places)?;
            }
            places.push(ProtectedPlace {
                path,
                identity,
                hold: ProtectionHold::ReadOnly,
            });
        }
    }
    Ok(())
}

/// Adds the git directories of submodules, which may themselves be nested by name, except those
/// that are released.
fn add_modules(
    jail: &Jail,
    modules: &Path,
    depth: usize,
    left: &mut usize,
    released: &BTreeSet<PathBuf>,
    places: &mut Vec<ProtectedPlace>,
) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let directory = match jail.open_bytes(bytes(modules), flags, Lookup::Full) {
        Ok(directory) => directory,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
        Err(errno) => return Err(errno),
    };
    if depth == 0 {
        return Ok(());
    }
    hold_in_place(jail, modules, places)?;
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else {
            continue;
        };
        let module = modules.join(name);
        // One that is released uses up nothing of what the others share.
        if matches!(name, "." | "..") || *left == 0 || released.contains(&module) {
            continue;
        }
        *left -= 1;
        let has = |part: &str| {
            let path = format!("{name}/{part}");
            statat(&directory, path, AtFlags::SYMLINK_NOFOLLOW).is_ok()
        };
        if ["HEAD", "config", "commondir", "hooks"]
            .into_iter()
            .any(has)
        {
            hold_in_place(jail, &module, places)?;
            hold_deciding(jail, &module, places)?;
        } else {
            add_modules(jail, &module, depth - 1, left, released, places)?;
        }
    }
    Ok(())
}

/// What is at a path, without following a link on the way or at its end.
fn find(jail: &Jail, path: &Path) -> Result<Option<(FileId, FileType)>, Errno> {
    match jail.open_bytes(bytes(path), OFlags::PATH | OFlags::NOFOLLOW, Lookup::Full) {
        Ok(found) => {
            let stat = fstat(&found)?;
            let identity = FileId {
                device: stat.st_dev,
                inode: stat.st_ino,
            };
            Ok(Some((identity, FileType::from_raw_mode(stat.st_mode))))
        }
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS | Errno::XDEV) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn bytes(path: &Path) -> &[u8] {
    use std::os::unix::ffi::OsStrExt as _;
    path.as_os_str().as_bytes()
}
