//! Copies a file: by sharing blocks if the file system can, otherwise inside the kernel, otherwise
//! by reading and writing. The copy is completed under another name before it is put in place, so
//! the destination is complete or untouched.

use std::{
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use haft_contract::{
    ErrorKind, WorkPath,
    ops::{CopyFile, OpsError, Overwrite, WrittenFile},
};
use haft_sandbox::{errno, jail::Jail, pool::blocking};
use rustix::{
    fs::{SeekFrom, Stat, copy_file_range, fstat, fsync, ftruncate, ioctl_ficlone, seek},
    io::{Errno, pread, pwrite},
};
use tokio_util::sync::CancellationToken;

use super::{
    read::open_regular,
    stat::version,
    temporary::{ExistingTarget, Temporary},
    write::{already_there, replaceable},
};
use crate::protected;

/// How often the caller is notified of progress.
const PROGRESS_EVERY: Duration = Duration::from_millis(50);

/// Bytes copied between two checks of the cancel token.
const STEP: usize = 4 * 1024 * 1024;

/// The buffer size when copying by reading and writing.
const BUFFER: usize = 256 * 1024;

/// Copies a regular file.
pub(super) async fn copy(
    jail: Arc<Jail>,
    from: &WorkPath,
    to: &WorkPath,
    copy: CopyFile<'_>,
) -> Result<WrittenFile, OpsError> {
    // Cancelled with the caller's token, and also when the caller stops waiting.
    let stop = copy.cancel.child_token();
    let _stop_when_dropped = stop.clone().drop_guard();
    let copied = Arc::new(AtomicU64::new(0));
    let job = Job {
        from: from.clone(),
        to: to.clone(),
        overwrite: copy.overwrite,
        copied: Arc::clone(&copied),
        stop,
    };
    let work = blocking(move || job.run(&jail));
    tokio::pin!(work);
    let mut told = 0;
    loop {
        tokio::select! {
            result = &mut work => {
                if let Ok(written) = &result {
                    (copy.copied)(written.bytes);
                }
                return result;
            }
            () = tokio::time::sleep(PROGRESS_EVERY) => {
                let now = copied.load(Ordering::Relaxed);
                if now != told {
                    told = now;
                    (copy.copied)(now);
                }
            }
        }
    }
}

/// A copy, owned for the blocking pool.
struct Job {
    from: WorkPath,
    to: WorkPath,
    overwrite: Overwrite,
    copied: Arc<AtomicU64>,
    stop: CancellationToken,
}

impl Job {
    fn run(&self, jail: &Jail) -> Result<WrittenFile, OpsError> {
        let fail = |errno| self.fail(errno);
        let (source, source_stat) = open_regular(jail, &self.from)?;
        let turn = protected::take_turn(jail, &self.to)?;
        let parent = jail.parent_or_make(&self.to)?;
        // A long copy must not block others.
        drop(turn);
        let old = replaceable(jail, &parent, &self.to)?;
        self.check_destination(&source_stat, old.as_ref())?;

        let temporary = Temporary::create(&parent, 0o600).map_err(fail)?;
        let bytes = self
            .fill(source.as_fd(), &source_stat, temporary.file())
            .map_err(fail)?;
        self.check_stop()?;
        temporary.set_mode(source_stat.st_mode).map_err(fail)?;
        if old.is_some() {
            // The old content is about to go, so the new one must be on disk. A new file loses
            // nothing: its source still exists.
            fsync(temporary.file()).map_err(fail)?;
        }

        let _turn = protected::take_turn(jail, &self.to)?;
        let now = replaceable(jail, &parent, &self.to)?;
        self.check_destination(&source_stat, now.as_ref())?;
        let place = match self.overwrite {
            Overwrite::Never => ExistingTarget::Free,
            Overwrite::Replace => ExistingTarget::Replace,
        };
        let file = temporary.place(place).map_err(|errno| match errno {
            Errno::EXIST => already_there(&self.to),
            other => self.fail(other),
        })?;
        if old.is_some() {
            parent.sync().map_err(fail)?;
        }
        let stat = fstat(&file).map_err(fail)?;
        Ok(WrittenFile {
            version: version(&stat),
            bytes,
            created: now.is_none(),
        })
    }

    /// A naive copy of a file onto itself would lose the file; here it is an error, also through a
    /// second hard link.
    fn check_destination(&self, source: &Stat, old: Option<&Stat>) -> Result<(), OpsError> {
        let Some(old) = old else { return Ok(()) };
        if (old.st_dev, old.st_ino) == (source.st_dev, source.st_ino) {
            return Err(OpsError::new(
                ErrorKind::InvalidInput,
                "source and destination are the same file",
            )
            .on(&self.to));
        }
        match self.overwrite {
            Overwrite::Never => Err(already_there(&self.to)),
            Overwrite::Replace => Ok(()),
        }
    }

    /// Fills the new file; returns how many bytes it has then.
    fn fill(&self, from: BorrowedFd<'_>, stat: &Stat, to: BorrowedFd<'_>) -> Result<u64, Errno> {
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if size > 0 && ioctl_ficlone(to, from).is_ok() {
            self.copied.store(size, Ordering::Relaxed);
            return Ok(size);
        }
        let mut way = CopyMethod::Kernel;
        let mut at = 0;
        while at < size && !self.stop.is_cancelled() {
            // Holes are skipped, so a sparse file of an exabyte copies in an instant.
            let Some((begin, end)) = next_data(from, at, size)? else {
                break;
            };
            at = begin;
            while at < end && !self.stop.is_cancelled() {
                let want = usize::try_from(end - at).unwrap_or(STEP).min(STEP);
                let got = way.step(from, to, at, want)?;
                if got == 0 {
                    // It shrank while it was copied.
                    ftruncate(to, at)?;
                    return Ok(at);
                }
                at += got as u64;
                self.copied.store(at, Ordering::Relaxed);
            }
        }
        if size > 0 {
            ftruncate(to, size)?;
            return Ok(size);
        }
        self.fill_unsized(from, to)
    }

    /// Copies a file whose size the kernel does not know, to its end.
    fn fill_unsized(&self, from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<u64, Errno> {
        let mut way = CopyMethod::Buffer(vec![0; BUFFER]);
        let mut at = 0;
        while !self.stop.is_cancelled() {
            match way.step(from, to, at, BUFFER)? {
                0 => break,
                got => at += got as u64,
            }
            self.copied.store(at, Ordering::Relaxed);
        }
        Ok(at)
    }

    fn check_stop(&self) -> Result<(), OpsError> {
        if self.stop.is_cancelled() {
            return Err(OpsError::new(
                ErrorKind::Cancelled,
                "the copy was stopped; the destination is untouched",
            )
            .on(&self.to));
        }
        Ok(())
    }

    fn fail(&self, errno: Errno) -> OpsError {
        errno::on_path(errno, &self.to)
    }
}

/// How bytes are copied.
enum CopyMethod {
    Kernel,
    Buffer(Vec<u8>),
}

impl CopyMethod {
    /// Copies some bytes at an offset, the fastest way that works here. Zero at the end.
    fn step(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        at: u64,
        want: usize,
    ) -> Result<usize, Errno> {
        loop {
            match self {
                Self::Kernel => {
                    let (mut read_at, mut write_at) = (at, at);
                    let copied =
                        copy_file_range(from, Some(&mut read_at), to, Some(&mut write_at), want);
                    match copied {
                        Err(
                            Errno::XDEV
                            | Errno::INVAL
                            | Errno::NOSYS
                            | Errno::OPNOTSUPP
                            | Errno::PERM,
                        ) => *self = Self::Buffer(vec![0; BUFFER]),
                        Err(Errno::INTR) => {}
                        other => return other,
                    }
                }
                Self::Buffer(buffer) => {
                    let room = buffer.len().min(want);
                    let got = pread(from, buffer.get_mut(..room).unwrap_or_default(), at)?;
                    write_all_at(to, buffer.get(..got).unwrap_or_default(), at)?;
                    return Ok(got);
                }
            }
        }
    }
}

fn write_all_at(to: BorrowedFd<'_>, mut bytes: &[u8], mut at: u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match pwrite(to, bytes, at)? {
            0 => return Err(Errno::NOSPC),
            written => {
                at += written as u64;
                bytes = bytes.get(written..).unwrap_or_default();
            }
        }
    }
    Ok(())
}

/// The next range of data at or after an offset; `None` if only holes are left.
fn next_data(file: BorrowedFd<'_>, at: u64, size: u64) -> Result<Option<(u64, u64)>, Errno> {
    let start = match seek(file, SeekFrom::Data(at)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        // A file system without support for holes.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some((at, size))),
        Err(errno) => return Err(errno),
    };
    let end = seek(file, SeekFrom::Hole(start)).unwrap_or(size).min(size);
    Ok((start < end).then_some((start, end)))
}
