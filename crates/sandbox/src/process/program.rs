//! Which file a command executes. Never found through the parent's `PATH`.

use std::{
    ffi::{CStr, CString},
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
};

use haft_contract::{ErrorKind, access::Command, ops::OpsError};
use rustix::{
    fs::{
        Access, AtFlags, CWD, FileType, MemfdFlags, Mode, OFlags, SealFlags, accessat,
        fcntl_add_seals, fstat, memfd_create, open, openat,
    },
    io::Errno,
};
use sha2::{Digest as _, Sha256};

use crate::errno;

/// Where bash may be installed.
const SHELLS: [&str; 2] = ["/bin/bash", "/usr/bin/bash"];

/// The largest program that can be pinned by hash, in bytes.
const MAX_PINNED_BYTES: u64 = 256 * 1024 * 1024;

/// A program and its arguments, ready to execute.
pub(super) struct Program {
    /// The path to execute.
    pub(super) path: CString,
    /// The arguments, starting with the program's name.
    pub(super) arguments: Vec<CString>,
    /// The checked copy of a pinned program; the child needs it as the descriptor number given to
    /// [`find`].
    pub(super) pinned: Option<OwnedFd>,
}

/// Finds the program of a command. `descriptor` is the number a pinned program will have in the
/// child.
pub(super) fn find(
    command: &Command,
    pinned: Option<[u8; 32]>,
    search_path: &str,
    descriptor: usize,
) -> Result<Program, OpsError> {
    match (command, pinned) {
        (Command::Shell(_), Some(_)) => Err(OpsError::new(
            ErrorKind::InvalidInput,
            "a shell script cannot be pinned by hash; pin a program",
        )),
        (Command::Shell(script), None) => shell(script),
        (Command::Argv(argv), pinned) => {
            let Some(name) = argv.first() else {
                return Err(OpsError::new(
                    ErrorKind::InvalidInput,
                    "the command is empty",
                ));
            };
            let arguments = argv
                .iter()
                .map(|word| c_string(word))
                .collect::<Result<_, _>>()?;
            match pinned {
                Some(hash) => checked(name, hash, arguments, descriptor),
                None => Ok(Program {
                    path: c_string(&locate(name, search_path)?)?,
                    arguments,
                    pinned: None,
                }),
            }
        }
    }
}

/// `bash -c`, without any start-up file. `--` makes sure that a script that begins with a dash
/// stays a script.
fn shell(script: &str) -> Result<Program, OpsError> {
    let path = SHELLS
        .into_iter()
        .find(|path| accessat(CWD, *path, Access::EXEC_OK, AtFlags::empty()).is_ok())
        .ok_or_else(|| {
            OpsError::new(
                ErrorKind::Unavailable,
                "bash is not installed here; install it, or run programs without a shell",
            )
        })?;
    let arguments = ["bash", "--noprofile", "--norc", "-c", "--", script]
        .into_iter()
        .map(c_string)
        .collect::<Result<_, _>>()?;
    Ok(Program {
        path: c_string(path)?,
        arguments,
        pinned: None,
    })
}

/// A name with a slash is a path, relative to the child's directory; one without is looked for in
/// the child's search path.
fn locate(name: &str, search_path: &str) -> Result<String, OpsError> {
    if name.contains('/') {
        return Ok(name.to_owned());
    }
    search_path
        .split(':')
        .filter(|directory| directory.starts_with('/'))
        .map(|directory| format!("{directory}/{name}"))
        .find(|path| {
            let is_file = rustix::fs::stat(path.as_str())
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
            is_file && accessat(CWD, path.as_str(), Access::EXEC_OK, AtFlags::empty()).is_ok()
        })
        .ok_or_else(|| {
            OpsError::new(
                ErrorKind::NotFound,
                format!("there is no program `{name}` in the search path"),
            )
        })
}

/// Refuses a program that lies in the workspace: anything could have put it there, and on the host
/// nothing would confine it. A program pinned by its hash is exempt.
pub(super) fn check_outside(
    path: &CStr,
    directory: BorrowedFd<'_>,
    root: &str,
) -> Result<(), OpsError> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let Ok(program) = openat(directory, path, flags, Mode::empty()) else {
        // Starting it will report what is wrong.
        return Ok(());
    };
    let real = std::fs::read_link(format!("/proc/self/fd/{}", program.as_raw_fd()));
    match real {
        Ok(real) if !real.starts_with(root) => Ok(()),
        Ok(_) | Err(_) => Err(OpsError::new(
            ErrorKind::AccessDenied,
            "a program in the workspace may not run on the host; run it in a sandbox",
        )),
    }
}

/// Copies a program into sealed memory while hashing it, so that what was checked is what runs,
/// even if somebody writes to the file in between. A script with a `#!` line is read by its
/// interpreter from the same copy.
fn checked(
    name: &str,
    hash: [u8; 32],
    arguments: Vec<CString>,
    descriptor: usize,
) -> Result<Program, OpsError> {
    let fail = |errno| pinned_error(name, errno);
    if !name.starts_with('/') {
        return Err(OpsError::new(
            ErrorKind::InvalidInput,
            "a program pinned by hash needs its absolute path",
        ));
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(CWD, name, flags, Mode::empty()).map_err(fail)?;
    let stat = fstat(&file).map_err(fail)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(fail(Errno::NXIO));
    }
    let copy = memfd_create(
        "haft-program",
        MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
    )
    .map_err(fail)?;
    let found = copy_and_hash(&file, &copy).map_err(fail)?;
    if found != hash {
        let message = format!(
            "the program changed since it was trusted: its SHA-256 is {}, and {} was trusted; look at \
             it and trust it again",
            hexadecimal(found),
            hexadecimal(hash),
        );
        return Err(OpsError::new(ErrorKind::AccessDenied, message));
    }
    fcntl_add_seals(
        &copy,
        SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL,
    )
    .map_err(fail)?;
    // A file that is open for writing cannot be executed.
    let readable = open(
        format!("/proc/self/fd/{}", copy.as_raw_fd()),
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map_err(fail)?;
    drop(copy);
    Ok(Program {
        path: c_string(&format!("/proc/self/fd/{descriptor}"))?,
        arguments,
        pinned: Some(readable),
    })
}

fn hexadecimal(hash: [u8; 32]) -> String {
    hash.iter()
        .fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

fn copy_and_hash(from: &OwnedFd, to: &OwnedFd) -> Result<[u8; 32], Errno> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0_u8; 64 * 1024];
    let mut total = 0;
    loop {
        let got = match rustix::io::read(from, &mut *buffer) {
            Ok(0) => return Ok(hash.finalize().into()),
            Err(Errno::INTR) => continue,
            other => other?,
        };
        total += got as u64;
        if total > MAX_PINNED_BYTES {
            return Err(Errno::FBIG);
        }
        let mut rest = buffer.get(..got).unwrap_or_default();
        hash.update(rest);
        while !rest.is_empty() {
            let written = rustix::io::write(to, rest)?;
            rest = rest.get(written..).unwrap_or_default();
        }
    }
}

/// Names the program by its last component only; its directory is for the operator alone.
fn pinned_error(name: &str, errno: Errno) -> OpsError {
    let shown = name.rsplit('/').next().unwrap_or(name);
    let error = errno::error(errno);
    OpsError::new(
        error.kind(),
        format!("the program `{shown}` cannot be read: {error}"),
    )
}

fn c_string(text: &str) -> Result<CString, OpsError> {
    CString::new(text).map_err(|_| {
        OpsError::new(
            ErrorKind::InvalidInput,
            "the command contains a NUL byte; remove it",
        )
    })
}
