//! A copy of a program outside every workspace, because a command that can replace the program's file
//! would decide what the next sandbox is set up by, also for other workspaces of the process.
//!
//! The bytes are those of an open file, such as the program that runs, and not of its path. Only the
//! part that is loaded is copied: a debug build is mostly symbols.

use std::{
    fs::{File, Metadata, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
};

use rustix::fs::{StatVfsMountFlags, statvfs};

use crate::orphans::{BaseDirectories, DirectoryPurpose, PrivateDirectory};

/// A copy of a program that sets up sandboxes. It is removed with the last sandbox that uses it.
#[derive(Debug)]
pub(crate) struct HelperCopy {
    path: PathBuf,
    /// Whether it answers as a helper; asked once.
    answers: OnceLock<bool>,
    _directory: PrivateDirectory,
}

/// A program cannot be copied.
#[derive(Debug)]
pub(crate) enum CopyError {
    /// No private directory lets programs start.
    NoPlace,
    /// It cannot be read, or not written.
    Io(io::Error),
}

/// Which program is copied where: its path, its file at that time, and the places for copies.
#[derive(Debug, PartialEq, Eq)]
struct CopyKey {
    program: PathBuf,
    identity: ProgramIdentity,
    places: Vec<PathBuf>,
}

/// The device, the inode and the time of the last change of a program's file.
pub(crate) type ProgramIdentity = (u64, u64, i64, i64);

/// The copies that are in use. A process needs one of each program, however many servers and
/// workspaces it has.
static COPIES: Mutex<Vec<(CopyKey, Weak<HelperCopy>)>> = Mutex::new(Vec::new());

impl HelperCopy {
    /// The copy of an open program, made if there is none. Blocks.
    pub(crate) fn of(
        program: &File,
        at: &Path,
        bases: &BaseDirectories,
    ) -> Result<Arc<Self>, CopyError> {
        let key = CopyKey {
            program: at.to_owned(),
            identity: identity(&program.metadata()?),
            places: bases.places().map(Path::to_owned).collect(),
        };
        // Held while it is made, so that nobody makes a second one.
        let mut copies = COPIES.lock().unwrap_or_else(PoisonError::into_inner);
        copies.retain(|(_, copy)| copy.strong_count() > 0);
        let known = copies.iter().find(|(known, _)| *known == key);
        if let Some(copy) = known.and_then(|(_, copy)| copy.upgrade()) {
            return Ok(copy);
        }
        let copy = Arc::new(Self::make(program, bases)?);
        copies.push((key, Arc::downgrade(&copy)));
        Ok(copy)
    }

    /// Copies a program into a private directory from which programs can be started.
    fn make(program: &File, bases: &BaseDirectories) -> Result<Self, CopyError> {
        for purpose in [DirectoryPurpose::Files, DirectoryPurpose::Control] {
            let opened = bases.open(purpose).map_err(io::Error::other)?;
            let directory = opened.make()?;
            if starts_programs(directory.path()) {
                return Ok(Self {
                    path: copy_to(directory.path(), program)?,
                    answers: OnceLock::new(),
                    _directory: directory,
                });
            }
        }
        Err(CopyError::NoPlace)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it answers as a helper.
    pub(crate) fn answers(&self, ask: impl FnOnce(&Path) -> bool) -> bool {
        *self.answers.get_or_init(|| ask(&self.path))
    }
}

impl From<io::Error> for CopyError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// What tells one version of a program from another.
pub(crate) fn identity(file: &Metadata) -> ProgramIdentity {
    (file.dev(), file.ino(), file.mtime(), file.mtime_nsec())
}

/// Whether programs can be started from a directory: not on a file system mounted `noexec`.
fn starts_programs(directory: &Path) -> bool {
    let mounted = statvfs(directory);
    mounted.is_ok_and(|mounted| !mounted.f_flag.contains(StatVfsMountFlags::NOEXEC))
}

/// The size of the header of a 64-bit ELF file.
const HEADER: usize = 64;

/// Where the header names its program headers: their place, the size of one, and their number.
const PROGRAM_HEADERS: (usize, usize, usize) = (32, 54, 56);

/// Where the header names its section headers: their place, their number, and that of their names.
const SECTION_HEADERS: (usize, usize, usize) = (40, 60, 62);

/// Where a program header names its place in the file and its length there.
const SEGMENT: (usize, usize) = (8, 32);

/// The most program headers that are looked at.
const MAX_SEGMENTS: u64 = 256;

/// Copies a program into a directory, as one that only this user can start.
fn copy_to(directory: &Path, program: &File) -> io::Result<PathBuf> {
    let path = directory.join("haft-helper");
    let mut copy = OpenOptions::new();
    let mut copy = copy.write(true).create_new(true).mode(0o700).open(&path)?;
    let whole = program.metadata()?.len();
    match loaded(program)? {
        Some((length, header)) if length < whole => {
            copy.write_all(&header)?;
            let rest = length.saturating_sub(header.len() as u64);
            let mut source = program;
            io::Seek::seek(&mut source, io::SeekFrom::Start(header.len() as u64))?;
            io::copy(&mut source.take(rest), &mut copy)?;
        }
        Some(_) | None => {
            let mut source = program;
            io::Seek::seek(&mut source, io::SeekFrom::Start(0))?;
            io::copy(&mut source, &mut copy)?;
        }
    }
    Ok(path)
}

/// How much of a 64-bit little-endian ELF file is loaded, and its header without section headers,
/// which name what comes after. `None` for any other file.
fn loaded(program: &File) -> io::Result<Option<(u64, [u8; HEADER])>> {
    let mut header = [0; HEADER];
    if program.metadata()?.len() < header.len() as u64 {
        return Ok(None);
    }
    program.read_exact_at(&mut header, 0)?;
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return Ok(None);
    }
    let (place, size, count) = PROGRAM_HEADERS;
    let (first, size, count) = (
        number::<8>(&header, place),
        number::<2>(&header, size),
        number::<2>(&header, count),
    );
    let mut end = first.saturating_add(size.saturating_mul(count));
    if count == 0 || count > MAX_SEGMENTS {
        return Ok(None);
    }
    for segment in 0..count {
        let mut described = [0; 56];
        let at = first.saturating_add(segment.saturating_mul(size));
        program.read_exact_at(&mut described, at)?;
        let (place, length) = SEGMENT;
        let (place, length) = (
            number::<8>(&described, place),
            number::<8>(&described, length),
        );
        end = end.max(place.saturating_add(length));
    }
    let (place, count, names) = SECTION_HEADERS;
    for (at, bytes) in [(place, 8), (count, 2), (names, 2)] {
        header
            .iter_mut()
            .skip(at)
            .take(bytes)
            .for_each(|byte| *byte = 0);
    }
    Ok(Some((end, header)))
}

/// A little-endian number of this many bytes.
fn number<const BYTES: usize>(from: &[u8], at: usize) -> u64 {
    let bytes = from.iter().skip(at).take(BYTES).rev();
    bytes.fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::helper_flag::RUNNING;

    #[test]
    fn the_copy_of_a_program_runs_without_its_symbols() {
        let place = tempfile::tempdir().unwrap();
        let copy = copy_to(place.path(), &File::open(RUNNING).unwrap()).unwrap();
        // This test's own program, which lists its tests.
        let listed = Command::new(&copy).arg("--list").output().unwrap();
        assert!(listed.status.success(), "{listed:?}");
        let listed = String::from_utf8(listed.stdout).unwrap();
        assert!(listed.contains("the_copy_of_a_program_runs"), "{listed}");
        let whole = std::fs::metadata(RUNNING).unwrap().len();
        assert!(std::fs::metadata(&copy).unwrap().len() < whole);
    }
}
