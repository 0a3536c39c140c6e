//! Opening and reading regular files.
//!
//! A file whose name and pages are cached is opened and read directly on the async thread, without
//! ever waiting: the kernel returns `EAGAIN` where it would have to, and the blocking pool takes
//! over.
#![expect(
    unsafe_code,
    reason = "reading into spare capacity needs libc's preadv2"
)]

use std::{
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use haft_contract::{
    ErrorKind, WorkPath,
    future::BoxFuture,
    ops::{FileReader, FileStat, OpsError},
};
use haft_sandbox::{
    errno,
    jail::{Jail, Lookup},
    pool::blocking,
};
use rustix::{
    fs::{FileType, OFlags, Stat, fstat},
    io::Errno,
};

use super::{rights::AccessList, stat::file_stat};

/// The most bytes copied from the page cache on an async thread before the blocking pool is used.
const MAX_INLINE: usize = 256 * 1024;

/// How much is allocated at a time, so that a huge length costs no more memory than the file has.
const STEP: usize = 1024 * 1024;

/// Opens without waiting for a disk; `None` if that might be needed.
pub(super) fn cached(jail: &Jail, path: &WorkPath) -> Option<Result<LocalReader, OpsError>> {
    match open(jail, path, Lookup::Cached) {
        Err(OpenFailure::Errno(Errno::AGAIN)) => None,
        other => Some(other.map_err(|error| error.on(path))),
    }
}

/// Opens, waiting as long as it takes.
pub(super) fn full(jail: &Jail, path: &WorkPath) -> Result<LocalReader, OpsError> {
    open(jail, path, Lookup::Full).map_err(|error| error.on(path))
}

/// Opens a regular file for reading, for other operations of this back end.
pub(super) fn open_regular(jail: &Jail, path: &WorkPath) -> Result<(OwnedFd, Stat), OpsError> {
    regular(jail, path, Lookup::Full).map_err(|error| error.on(path))
}

/// An open regular file.
#[derive(Debug)]
pub(super) struct LocalReader {
    file: Arc<OwnedFd>,
    stat: FileStat,
    path: WorkPath,
}

impl FileReader for LocalReader {
    fn stat(&self) -> &FileStat {
        &self.stat
    }

    fn own_mode(&self) -> u32 {
        AccessList::of(&*self.file).own_mode(self.stat.mode)
    }

    fn read_at(
        &self,
        offset: u64,
        len: usize,
        mut buffer: Vec<u8>,
    ) -> BoxFuture<'_, Result<Vec<u8>, OpsError>> {
        Box::pin(async move {
            buffer.clear();
            let mut read = Read {
                offset,
                len,
                size: self.stat.size,
                buffer,
            };
            if len <= MAX_INLINE {
                match read.run(self.file.as_fd(), Wait::Never) {
                    Ok(()) => return Ok(read.buffer),
                    Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => {}
                    Err(errno) => return Err(errno::on_path(errno, &self.path)),
                }
            }
            let file = Arc::clone(&self.file);
            let path = self.path.clone();
            blocking(move || match read.run(file.as_fd(), Wait::Allowed) {
                Ok(()) => Ok(read.buffer),
                Err(errno) => Err(errno::on_path(errno, &path)),
            })
            .await
        })
    }
}

/// A read in progress; may start on one thread and end on another.
struct Read {
    offset: u64,
    len: usize,
    size: u64,
    buffer: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Wait {
    Never,
    Allowed,
}

impl Read {
    /// Continues from where the buffer ends until it is full or the file ends.
    fn run(&mut self, file: BorrowedFd<'_>, wait: Wait) -> Result<(), Errno> {
        while self.buffer.len() < self.len {
            let room = (self.len - self.buffer.len()).min(STEP);
            let at = self.offset.saturating_add(self.buffer.len() as u64);
            let got = read_some(file, &mut self.buffer, room, at, wait)?;
            let end = at.saturating_add(got as u64);
            // A short read at or past the size the file had when it was opened is its end; asking
            // again just to get zero would cost a second system call for every small file. Files of
            // size zero may be ones whose size the kernel does not know.
            if got == 0 || (got < room && self.size > 0 && end >= self.size) {
                break;
            }
        }
        Ok(())
    }
}

/// One `preadv2` into the spare capacity of a buffer.
fn read_some(
    file: BorrowedFd<'_>,
    buffer: &mut Vec<u8>,
    room: usize,
    offset: u64,
    wait: Wait,
) -> Result<usize, Errno> {
    let Ok(offset) = libc::off_t::try_from(offset) else {
        return Ok(0);
    };
    let flags = match wait {
        Wait::Never => libc::RWF_NOWAIT,
        Wait::Allowed => 0,
    };
    buffer.reserve(room);
    let spare = buffer.spare_capacity_mut();
    let target = libc::iovec {
        iov_base: spare.as_mut_ptr().cast(),
        iov_len: room.min(spare.len()),
    };
    loop {
        // SAFETY: `target` names `iov_len` writable bytes of the buffer's spare capacity, which
        // outlives the call; the kernel writes at most that many.
        let got = unsafe { libc::preadv2(file.as_raw_fd(), &raw const target, 1, offset, flags) };
        if let Ok(got) = usize::try_from(got) {
            // SAFETY: the kernel has just initialised `got` bytes of the spare capacity.
            unsafe { buffer.set_len(buffer.len() + got) };
            return Ok(got);
        }
        match Errno::from_io_error(&std::io::Error::last_os_error()) {
            Some(Errno::INTR) => {}
            Some(errno) => return Err(errno),
            None => return Err(Errno::IO),
        }
    }
}

/// Why a file was not opened.
enum OpenFailure {
    Errno(Errno),
    Refused(OpsError),
}

impl From<Errno> for OpenFailure {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl OpenFailure {
    fn on(self, path: &WorkPath) -> OpsError {
        match self {
            Self::Errno(errno) => errno::on_path(errno, path),
            Self::Refused(error) => error,
        }
    }
}

fn open(jail: &Jail, path: &WorkPath, lookup: Lookup) -> Result<LocalReader, OpenFailure> {
    let (file, stat) = regular(jail, path, lookup)?;
    Ok(LocalReader {
        file: Arc::new(file),
        stat: file_stat(&stat),
        path: path.clone(),
    })
}

/// Opens with `O_NONBLOCK`, so that a FIFO or a device cannot block the thread, then refuses what
/// is not a regular file.
fn regular(jail: &Jail, path: &WorkPath, lookup: Lookup) -> Result<(OwnedFd, Stat), OpenFailure> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = jail.open_at(path, flags, lookup)?;
    let stat = fstat(&file)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Err(OpenFailure::Errno(Errno::ISDIR)),
        _ => {
            return Err(OpenFailure::Refused(
                OpsError::new(
                    ErrorKind::NotRegularFile,
                    "it is a device, FIFO or socket, not a regular file",
                )
                .on(path),
            ));
        }
    }
    jail.check_links(&stat, path)
        .map_err(OpenFailure::Refused)?;
    Ok((file, stat))
}
