//! Attempts to change what is mounted where. Their control runs in its own namespace: on the host
//! itself only root may mount, and root's mounts would affect everybody.
#![expect(unsafe_code, reason = "mounts by system call")]

use rustix::io::Errno;

use super::{
    attempt::{Arguments, Attempt, Control, Unusable, Verdict},
    own_child::in_child,
    raw::{MINUS_ONE, c_string, call},
};

/// The attempts of this family.
pub(super) const ATTEMPTS: &[Attempt] = &[
    Attempt {
        name: "mount-tmpfs",
        about: "mounts an empty file system on a directory",
        arguments: "DIRECTORY",
        control: Control::OwnNamespace,
        run: |given| mount("tmpfs", given.text(0)?, "tmpfs", 0),
    },
    Attempt {
        name: "mount-proc",
        about: "mounts a process file system on a directory",
        arguments: "DIRECTORY",
        control: Control::OwnNamespace,
        run: |given| mount("proc", given.text(0)?, "proc", 0),
    },
    Attempt {
        name: "mount-bind",
        about: "shows a directory at a second place",
        arguments: "FROM DIRECTORY",
        control: Control::OwnNamespace,
        run: |given| {
            mount(
                given.text(0)?,
                given.text(1)?,
                "",
                libc::MS_BIND | libc::MS_REC,
            )
        },
    },
    Attempt {
        name: "remount-writable",
        about: "mounts what is mounted on a directory again, writable",
        arguments: "DIRECTORY",
        control: Control::OwnNamespace,
        run: |given| mount("", given.text(0)?, "", libc::MS_BIND | libc::MS_REMOUNT),
    },
    Attempt {
        name: "umount",
        about: "unmounts what is mounted on a directory; one where nothing is counts as reached",
        arguments: "DIRECTORY",
        control: Control::OwnNamespace,
        run: |given| {
            let place = c_string(given.text(0)?)?;
            let words = [place.as_ptr() as usize, libc::MNT_DETACH as usize];
            // SAFETY: the path ends with a null byte and lives until the call returns.
            let made = unsafe { call(libc::SYS_umount2, words) };
            Ok(Verdict::reached("umount2", made, &[Errno::INVAL]))
        },
    },
    Attempt {
        name: "pivot-root",
        about: "makes a directory the root; one that cannot be counts as reached",
        arguments: "DIRECTORY",
        control: Control::OwnNamespace,
        run: pivot_root,
    },
    Attempt {
        name: "chroot",
        about: "makes a directory the root of a child",
        arguments: "DIRECTORY",
        control: Control::OwnNamespace,
        run: |given| {
            let place = c_string(given.text(0)?)?;
            Ok(in_child(|| {
                // SAFETY: the path ends with a null byte and lives until the call returns; only
                // this attempt's own child is changed.
                let made = unsafe { call(libc::SYS_chroot, [place.as_ptr() as usize]) };
                Verdict::of("chroot", made)
            }))
        },
    },
    Attempt {
        name: "open-tree",
        about: "copies the mounts below a directory",
        arguments: "DIRECTORY",
        control: Control::OwnNamespace,
        run: open_tree,
    },
    Attempt {
        name: "move-mount",
        about: "moves a mount; descriptors that are none count as reached",
        arguments: "",
        control: Control::OwnNamespace,
        run: |_| {
            let empty = c"".as_ptr() as usize;
            let words = [MINUS_ONE, empty, MINUS_ONE, empty, 0x4 | 0x40];
            // SAFETY: both paths are empty and null-terminated, and the descriptors are invalid.
            let made = unsafe { call(libc::SYS_move_mount, words) };
            Ok(Verdict::reached("move_mount", made, &[Errno::BADF]))
        },
    },
    Attempt {
        name: "fsopen",
        about: "opens a file system of a kind to configure it",
        arguments: "KIND",
        control: Control::OwnNamespace,
        run: |given| {
            let kind = c_string(given.text(0)?)?;
            // SAFETY: the name ends with a null byte and lives until the call returns; a resulting
            // descriptor stays open until this process ends.
            let made = unsafe { call(libc::SYS_fsopen, [kind.as_ptr() as usize, 0]) };
            Ok(Verdict::of("fsopen", made))
        },
    },
    Attempt {
        name: "fspick",
        about: "opens the file system mounted on a directory to configure it again",
        arguments: "DIRECTORY",
        control: Control::OwnNamespace,
        run: |given| {
            let place = c_string(given.text(0)?)?;
            let words = [libc::AT_FDCWD as usize, place.as_ptr() as usize, 0];
            // SAFETY: as for `fsopen`.
            let made = unsafe { call(libc::SYS_fspick, words) };
            Ok(Verdict::reached("fspick", made, &[Errno::INVAL]))
        },
    },
    Attempt {
        name: "mount-setattr",
        about: "makes the mount a directory lies on writable",
        arguments: "DIRECTORY",
        control: Control::OwnNamespace,
        run: mount_setattr,
    },
];

fn mount(from: &str, to: &str, kind: &str, flags: libc::c_ulong) -> Result<Verdict, Unusable> {
    let (from, to, kind) = (c_string(from)?, c_string(to)?, c_string(kind)?);
    let flags = usize::try_from(flags).unwrap_or_default();
    let words = [
        from.as_ptr() as usize,
        to.as_ptr() as usize,
        kind.as_ptr() as usize,
        flags,
        0,
    ];
    // SAFETY: all three texts end with a null byte and live until the call returns.
    let made = unsafe { call(libc::SYS_mount, words) };
    Ok(Verdict::of("mount", made))
}

fn pivot_root(given: &Arguments<'_>) -> Result<Verdict, Unusable> {
    let place = c_string(given.text(0)?)?;
    Ok(in_child(|| {
        let place = place.as_ptr() as usize;
        // SAFETY: the path ends with a null byte and lives until the call returns.
        let made = unsafe { call(libc::SYS_pivot_root, [place, place]) };
        Verdict::reached("pivot_root", made, &[Errno::BUSY, Errno::INVAL])
    }))
}

fn open_tree(given: &Arguments<'_>) -> Result<Verdict, Unusable> {
    /// `OPEN_TREE_CLONE` and `AT_RECURSIVE`.
    const COPY_ALL: usize = 1 | 0x8000;
    let place = c_string(given.text(0)?)?;
    let words = [libc::AT_FDCWD as usize, place.as_ptr() as usize, COPY_ALL];
    // SAFETY: the path ends with a null byte and lives until the call returns; a resulting
    // descriptor stays open until this process ends.
    let made = unsafe { call(libc::SYS_open_tree, words) };
    Ok(Verdict::of("open_tree", made))
}

fn mount_setattr(given: &Arguments<'_>) -> Result<Verdict, Unusable> {
    // `struct mount_attr`: set nothing, clear `MOUNT_ATTR_RDONLY`.
    let attributes: [u64; 4] = [0, 1, 0, 0];
    let place = c_string(given.text(0)?)?;
    let words = [
        libc::AT_FDCWD as usize,
        place.as_ptr() as usize,
        0,
        attributes.as_ptr() as usize,
        size_of_val(&attributes),
    ];
    // SAFETY: the path ends with a null byte, the attributes have the size given, and both live
    // until the call returns.
    let made = unsafe { call(libc::SYS_mount_setattr, words) };
    // The kernel looks at a directory that is no mount point only if it lets the caller in.
    Ok(Verdict::reached("mount_setattr", made, &[Errno::INVAL]))
}
