//! Attempts on files: reading, writing and changing what is at a given path, including ways that do
//! not open it (its attributes, its handle).
#![expect(unsafe_code, reason = "file handles have no safe wrapper")]

use std::{
    fs::{self, File, OpenOptions},
    io::{Read as _, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use rustix::{
    fs::{AtFlags, CWD, Mode, Timespec, Timestamps, XattrFlags},
    io::Errno,
};

use super::{
    attempt::{Arguments, Attempt, Control, Unusable, Verdict},
    raw::{c_string, call},
};

/// How much of a file is read to show that it is readable.
const SHOWN_BYTES: u64 = 256;

/// The attempts of this family.
pub(super) const ATTEMPTS: &[Attempt] = &[
    Attempt {
        name: "read",
        about: "reads the beginning of a file or device",
        arguments: "PATH",
        control: Control::Anyone,
        run: read,
    },
    Attempt {
        name: "open-write",
        about: "opens what exists for writing and writes nothing",
        arguments: "PATH",
        control: Control::Anyone,
        run: open_write,
    },
    Attempt {
        name: "append",
        about: "writes a text to the end of a file, which need not exist",
        arguments: "PATH TEXT",
        control: Control::Anyone,
        run: append,
    },
    Attempt {
        name: "list",
        about: "lists a directory",
        arguments: "PATH",
        control: Control::Anyone,
        run: list,
    },
    Attempt {
        name: "mkdir",
        about: "makes a directory",
        arguments: "PATH",
        control: Control::Anyone,
        run: |given| {
            let path = given.text(0)?;
            Ok(Verdict::of_io(path, fs::create_dir(path)))
        },
    },
    Attempt {
        name: "remove",
        about: "removes a file",
        arguments: "PATH",
        control: Control::Anyone,
        run: |given| {
            let path = given.text(0)?;
            Ok(Verdict::of_io(path, fs::remove_file(path)))
        },
    },
    Attempt {
        name: "rename",
        about: "renames a file or directory",
        arguments: "FROM TO",
        control: Control::Anyone,
        run: |given| {
            let (from, to) = (given.text(0)?, given.text(1)?);
            Ok(Verdict::of_io(to, fs::rename(from, to)))
        },
    },
    Attempt {
        name: "exchange",
        about: "exchanges two names in one step (renameat2)",
        arguments: "ONE OTHER",
        control: Control::Anyone,
        run: |given| {
            let (one, other) = (given.text(0)?, given.text(1)?);
            let flags = rustix::fs::RenameFlags::EXCHANGE;
            let made = rustix::fs::renameat_with(CWD, one, CWD, other, flags);
            Ok(Verdict::of("renameat2", made))
        },
    },
    Attempt {
        name: "hard-link",
        about: "gives a file a second name",
        arguments: "EXISTING NEW",
        control: Control::Anyone,
        run: |given| {
            let (existing, new) = (given.text(0)?, given.text(1)?);
            Ok(Verdict::of_io(new, fs::hard_link(existing, new)))
        },
    },
    Attempt {
        name: "symlink",
        about: "makes a symbolic link",
        arguments: "TARGET NEW",
        control: Control::Anyone,
        run: |given| {
            let (target, new) = (given.text(0)?, given.text(1)?);
            Ok(Verdict::of_io(new, std::os::unix::fs::symlink(target, new)))
        },
    },
    Attempt {
        name: "mknod-device",
        about: "makes a node for the null device (which holds nothing)",
        arguments: "PATH",
        control: Control::Root,
        run: |given| {
            let path = given.text(0)?;
            let null = rustix::fs::makedev(1, 3);
            let kind = rustix::fs::FileType::CharacterDevice;
            let made = rustix::fs::mknodat(CWD, path, kind, Mode::RUSR, null);
            Ok(Verdict::of("mknod", made))
        },
    },
    Attempt {
        name: "chmod",
        about: "changes the mode of a file, given in octal",
        arguments: "PATH MODE",
        control: Control::Anyone,
        run: chmod,
    },
    Attempt {
        name: "chown",
        about: "gives a file to the user and group that have it already",
        arguments: "PATH",
        control: Control::Anyone,
        run: chown,
    },
    Attempt {
        name: "utimes",
        about: "sets the times of a file to one second after the epoch",
        arguments: "PATH",
        control: Control::Anyone,
        run: utimes,
    },
    Attempt {
        name: "setxattr",
        about: "sets the extended attribute `user.haft` of a file",
        arguments: "PATH",
        control: Control::Anyone,
        run: |given| {
            let path = given.text(0)?;
            let made = rustix::fs::setxattr(path, "user.haft", b"1", XattrFlags::empty());
            Ok(Verdict::of("setxattr", made))
        },
    },
    Attempt {
        name: "set-capability",
        about: "gives a program the capability to trace any process, by extended attribute",
        arguments: "PATH",
        control: Control::OwnNamespace,
        run: set_capability,
    },
    Attempt {
        name: "name-to-handle",
        about: "asks for the handle of a file",
        arguments: "PATH",
        control: Control::Anyone,
        run: |given| {
            let made = handle_of(given.text(0)?)?;
            Ok(Verdict::of("name_to_handle_at", made))
        },
    },
    Attempt {
        name: "open-by-handle",
        about: "opens a file by its handle, without walking to it",
        arguments: "PATH",
        control: Control::Root,
        run: open_by_handle,
    },
];

fn read(given: &Arguments<'_>) -> Result<Verdict, Unusable> {
    let path = given.text(0)?;
    let mut bytes = Vec::new();
    let read = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
        .and_then(|file| file.take(SHOWN_BYTES).read_to_end(&mut bytes));
    Ok(match read {
        Ok(_) => Verdict::succeeded(String::from_utf8_lossy(&bytes)),
        Err(_) => Verdict::of_io(path, read),
    })
}

fn open_write(given: &Arguments<'_>) -> Result<Verdict, Unusable> {
    let path = given.text(0)?;
    let opened = OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path);
    Ok(Verdict::of_io(path, opened))
}

fn append(given: &Arguments<'_>) -> Result<Verdict, Unusable> {
    let (path, text) = (given.text(0)?, given.text(1)?);
    let written = OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    Ok(Verdict::of_io(path, written))
}

fn list(given: &Arguments<'_>) -> Result<Verdict, Unusable> {
    let path = given.text(0)?;
    Ok(match fs::read_dir(path) {
        Ok(entries) => Verdict::succeeded(format!("{} entries", entries.count())),
        Err(error) => Verdict::of_io::<()>(path, Err(error)),
    })
}

fn chmod(given: &Arguments<'_>) -> Result<Verdict, Unusable> {
    let (path, mode) = (given.text(0)?, given.text(1)?);
    let mode = u32::from_str_radix(mode, 8)
        .map_err(|_| Unusable::new(format!("`{mode}` is not a mode in octal")))?;
    let changed = fs::set_permissions(path, fs::Permissions::from_mode(mode));
    Ok(Verdict::of_io("chmod", changed))
}

fn chown(given: &Arguments<'_>) -> Result<Verdict, Unusable> {
    let path = given.text(0)?;
    let made = rustix::fs::stat(path).and_then(|now| {
        let user = rustix::fs::Uid::from_raw(now.st_uid);
        let group = rustix::fs::Gid::from_raw(now.st_gid);
        rustix::fs::chownat(CWD, path, Some(user), Some(group), AtFlags::empty())
    });
    Ok(Verdict::of("chown", made))
}

fn utimes(given: &Arguments<'_>) -> Result<Verdict, Unusable> {
    let path = given.text(0)?;
    let moment = Timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    let times = Timestamps {
        last_access: moment,
        last_modification: moment,
    };
    let made = rustix::fs::utimensat(CWD, path, &times, AtFlags::empty());
    Ok(Verdict::of("utimensat", made))
}

/// `vfs_cap_data` of version 2 with `CAP_SYS_PTRACE` permitted and effective.
const TRACE_ANY_PROCESS: [u8; 20] = [1, 0, 0, 2, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

fn set_capability(given: &Arguments<'_>) -> Result<Verdict, Unusable> {
    let path = given.text(0)?;
    let name = "security.capability";
    let made = rustix::fs::setxattr(path, name, &TRACE_ANY_PROCESS, XattrFlags::empty());
    Ok(Verdict::of("setxattr security.capability", made))
}

/// `struct file_handle` with room for the largest possible handle.
#[repr(C)]
struct Handle {
    bytes: u32,
    kind: i32,
    content: [u8; 128],
}

fn handle_of(path: &str) -> Result<Result<Handle, Errno>, Unusable> {
    let path = c_string(path)?;
    let mut handle = Handle {
        bytes: 128,
        kind: 0,
        content: [0; 128],
    };
    let mut mount: i32 = 0;
    // SAFETY: the path ends with a null byte, the handle says how much room it has, and all three
    // live until the call returns.
    let made = unsafe {
        call(
            libc::SYS_name_to_handle_at,
            [
                libc::AT_FDCWD as usize,
                path.as_ptr() as usize,
                (&raw mut handle) as usize,
                (&raw mut mount) as usize,
                0,
            ],
        )
    };
    Ok(made.map(|_| handle))
}

fn open_by_handle(given: &Arguments<'_>) -> Result<Verdict, Unusable> {
    let path = given.text(0)?;
    let mut handle = match handle_of(path)? {
        Ok(handle) => handle,
        // Without a handle from the kernel, one can still be made up: the attempt goes on.
        Err(_) => Handle {
            bytes: 8,
            kind: 1,
            content: [0; 128],
        },
    };
    let directory = Path::new(path).parent().unwrap_or(Path::new("/"));
    let mount = match File::open(Path::new(".").join(directory)) {
        Ok(mount) => mount,
        Err(error) => return Ok(Verdict::of_io::<()>("the mount", Err(error))),
    };
    // SAFETY: the handle says how long it is and lives until the call returns; a resulting
    // descriptor is left open until this process ends.
    let made = unsafe {
        call(
            libc::SYS_open_by_handle_at,
            [
                std::os::fd::AsRawFd::as_raw_fd(&mount) as usize,
                (&raw mut handle) as usize,
                libc::O_RDONLY as usize,
            ],
        )
    };
    // The kernel looks at a stale or malformed handle only if it lets the caller in.
    let wrong = [Errno::STALE, Errno::INVAL];
    Ok(Verdict::reached("open_by_handle_at", made, &wrong))
}
