//! Script tools from a folder the operator trusts: a manifest `name.toml` and an executable `name`
//! next to it.
//!
//! Only loads: parsing a manifest is the tool factory's job, and running the program goes through
//! [`haft_contract::ops::ProcessOps`] with the hash computed here. A file that others may write to,
//! or a symlink, is refused: trusting a folder means trusting whoever can change it.

use std::{
    ffi::OsStr,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{CWD, FileType, Mode, OFlags, RawDir, ResolveFlags, Stat, fstat, openat2},
    io::Errno,
};
use sha2::{Digest as _, Sha256};

/// The most script tools one folder may hold.
pub const MAX_SCRIPTS: usize = 256;

/// The largest manifest, in bytes.
pub const MAX_MANIFEST_BYTES: u64 = 64 * 1024;

/// The largest program, in bytes.
pub const MAX_PROGRAM_BYTES: u64 = 64 * 1024 * 1024;

/// The longest first line in which an interpreter is looked for, as in the kernel.
const MAX_INTERPRETER_BYTES: usize = 256;

/// The most folder entries that are read.
const MAX_ENTRIES: usize = 16 * 1024;

/// One script tool, as found on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptFile {
    /// The file name without its extension, which manifest and program share.
    pub name: String,
    /// The text of the manifest.
    pub manifest_text: String,
    /// The absolute path of the program.
    pub program_path: PathBuf,
    /// The SHA-256 of the program's bytes when it was loaded; none if there is no such file.
    pub sha256: Option<[u8; 32]>,
    /// The interpreter that its first line names.
    pub interpreter: Option<String>,
}

/// A script folder, or a file in it, cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("script tool `{file}`: {reason}")]
pub struct ScriptError {
    file: String,
    reason: String,
}

impl ScriptError {
    /// The folder, or the file in it.
    pub fn file(&self) -> &str {
        &self.file
    }
}

/// Loads the script tools of a folder, sorted by name. One bad file fails the whole folder: a tool
/// that silently went missing would be worse. A program that is not there is told by its script.
pub fn load_scripts(folder: &Path) -> Result<Vec<ScriptFile>, ScriptError> {
    let shown = folder.display().to_string();
    let real = std::fs::canonicalize(folder).map_err(|error| fail(&shown, &error.to_string()))?;
    let directory = open(CWD, real.as_os_str(), OFlags::DIRECTORY, Kind::Folder)
        .map_err(|errno| fail(&shown, &errno.to_string()))?;
    let stat = fstat(&directory).map_err(|errno| fail(&shown, &errno.to_string()))?;
    check_owner(&stat).map_err(|reason| fail(&shown, reason))?;
    let mut scripts = manifests(directory.as_fd())
        .map_err(|reason| fail(&shown, &reason))?
        .into_iter()
        .map(|name| load(directory.as_fd(), &real, name))
        .collect::<Result<Vec<_>, _>>()?;
    scripts.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(scripts)
}

/// The names, without their extension, of all manifests in the folder.
fn manifests(directory: BorrowedFd<'_>) -> Result<Vec<String>, String> {
    let mut buffer = Vec::with_capacity(32 * 1024);
    let mut entries = RawDir::new(directory, buffer.spare_capacity_mut());
    let mut names = Vec::new();
    let mut looked = 0;
    while let Some(entry) = entries.next() {
        let entry = entry.map_err(|errno| errno.to_string())?;
        looked += 1;
        if looked > MAX_ENTRIES {
            return Err(format!("it contains more than {MAX_ENTRIES} entries"));
        }
        let Some(name) = entry.file_name().to_bytes().strip_suffix(b".toml") else {
            continue;
        };
        let name = std::str::from_utf8(name)
            .map_err(|_| "it contains a manifest whose name is not UTF-8".to_owned())?;
        if name.is_empty() {
            continue;
        }
        names.push(name.to_owned());
        if names.len() > MAX_SCRIPTS {
            return Err(format!("it contains more than {MAX_SCRIPTS} script tools"));
        }
    }
    Ok(names)
}

fn load(directory: BorrowedFd<'_>, folder: &Path, name: String) -> Result<ScriptFile, ScriptError> {
    let manifest_name = format!("{name}.toml");
    let manifest = read(
        directory,
        &manifest_name,
        MAX_MANIFEST_BYTES,
        Kind::Manifest,
    )?;
    let manifest_text = String::from_utf8(manifest)
        .map_err(|_| fail(&manifest_name, "the manifest is not valid UTF-8"))?;
    let program = read_if_there(directory, &name, MAX_PROGRAM_BYTES, Kind::Program)?;
    Ok(ScriptFile {
        manifest_text,
        program_path: folder.join(&name),
        sha256: program
            .as_ref()
            .map(|program| Sha256::digest(program).into()),
        interpreter: program.as_deref().and_then(interpreter),
        name,
    })
}

/// The interpreter in a program's first line: what `env` looks for, or a path.
fn interpreter(program: &[u8]) -> Option<String> {
    let line = program.strip_prefix(b"#!")?;
    let line = line.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line.get(..MAX_INTERPRETER_BYTES).unwrap_or(line)).ok()?;
    let mut words = line.split_ascii_whitespace();
    let first = words.next()?;
    let named = match first.rsplit('/').next() {
        Some("env") => words.find(|word| !word.starts_with('-') && !word.contains('=')),
        Some(_) | None => Some(first),
    };
    named.map(str::to_owned)
}

/// What a file is for, which decides how it is checked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Folder,
    Manifest,
    Program,
}

fn read(
    directory: BorrowedFd<'_>,
    name: &str,
    limit: u64,
    kind: Kind,
) -> Result<Vec<u8>, ScriptError> {
    read_if_there(directory, name, limit, kind)?.ok_or_else(|| fail(name, "there is no such file"))
}

/// The content of a file; `None` if there is no such file.
fn read_if_there(
    directory: BorrowedFd<'_>,
    name: &str,
    limit: u64,
    kind: Kind,
) -> Result<Option<Vec<u8>>, ScriptError> {
    let opened = open(
        directory,
        OsStr::from_bytes(name.as_bytes()),
        OFlags::empty(),
        kind,
    );
    let file = match opened {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => return Err(fail(name, "it is a symlink; put the file itself there")),
        Err(other) => return Err(fail(name, &other.to_string())),
    };
    let stat = fstat(&file).map_err(|errno| fail(name, &errno.to_string()))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(fail(name, "it is not a regular file"));
    }
    check_owner(&stat).map_err(|reason| fail(name, reason))?;
    if kind == Kind::Program && stat.st_mode & 0o111 == 0 {
        return Err(fail(name, "it is not executable; `chmod +x` it"));
    }
    let bytes = read_all(&file, limit).map_err(|errno| fail(name, &errno.to_string()))?;
    match bytes {
        Some(bytes) => Ok(Some(bytes)),
        None => Err(fail(name, &format!("it is larger than {limit} bytes"))),
    }
}

/// Opens without following any symlink beneath the folder, and without waiting for a FIFO.
fn open(
    directory: BorrowedFd<'_>,
    name: &OsStr,
    flags: OFlags,
    kind: Kind,
) -> Result<OwnedFd, Errno> {
    let resolve = match kind {
        // The operator's own path, already without symlinks.
        Kind::Folder => ResolveFlags::NO_MAGICLINKS,
        Kind::Manifest | Kind::Program => {
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS
        }
    };
    let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    openat2(directory, name, flags, Mode::empty(), resolve)
}

/// Refuses what somebody other than the operator could have written.
fn check_owner(stat: &Stat) -> Result<(), &'static str> {
    let user = rustix::process::geteuid().as_raw();
    if stat.st_uid != user && stat.st_uid != 0 {
        return Err(
            "it belongs to another user; only files of the operator or of root are trusted",
        );
    }
    if stat.st_mode & 0o022 != 0 {
        return Err("its group or everybody may write to it; `chmod go-w` it");
    }
    Ok(())
}

/// The whole content; `None` when it is larger than the limit.
fn read_all(file: &OwnedFd, limit: u64) -> Result<Option<Vec<u8>>, Errno> {
    let mut bytes = Vec::with_capacity(8 * 1024);
    loop {
        if bytes.len() as u64 > limit {
            return Ok(None);
        }
        bytes.reserve(8 * 1024);
        match rustix::io::read(file, rustix::buffer::spare_capacity(&mut bytes)) {
            Ok(0) => return Ok(Some(bytes)),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

fn fail(file: &str, reason: &str) -> ScriptError {
    ScriptError {
        file: file.to_owned(),
        reason: reason.to_owned(),
    }
}
