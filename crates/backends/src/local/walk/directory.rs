//! The names in one directory, read into one reused buffer.

use std::{
    ffi::CStr,
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd},
};

use haft_contract::ops::FileKind;
use rustix::{
    fs::{AtFlags, FileType, RawDir, statat},
    io::Errno,
};

use crate::local::file_kind::kind_of;

/// Buffer size for directory entries per system call.
const BUFFER: usize = 32 * 1024;

/// The names of one directory, sorted. Reused from directory to directory, so that a walk does not
/// allocate per entry.
pub(crate) struct DirectoryNames {
    /// The names, each with its final NUL.
    bytes: Vec<u8>,
    entries: Vec<Name>,
    buffer: Vec<MaybeUninit<u8>>,
}

#[derive(Clone, Copy)]
struct Name {
    start: usize,
    end: usize,
    kind: FileKind,
}

impl DirectoryNames {
    pub(crate) fn new() -> Self {
        Self {
            bytes: Vec::new(),
            entries: Vec::new(),
            buffer: Vec::new(),
        }
    }

    /// Reads all names of a directory, sorted by name.
    pub(crate) fn read(&mut self, directory: BorrowedFd<'_>) -> Result<(), Errno> {
        self.bytes.clear();
        self.entries.clear();
        self.buffer.resize(BUFFER, MaybeUninit::uninit());
        let mut raw = RawDir::new(directory, &mut self.buffer);
        while let Some(entry) = raw.next() {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let kind = match entry.file_type() {
                // A file system whose listings have no types.
                FileType::Unknown => {
                    match statat(directory.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW) {
                        Ok(stat) => kind_of(FileType::from_raw_mode(stat.st_mode)),
                        Err(_) => continue,
                    }
                }
                known => kind_of(known),
            };
            let start = self.bytes.len();
            self.bytes.extend_from_slice(name.to_bytes_with_nul());
            self.entries.push(Name {
                start,
                end: self.bytes.len(),
                kind,
            });
        }
        let bytes = &self.bytes;
        self.entries
            .sort_unstable_by(|a, b| slice(bytes, a).cmp(slice(bytes, b)));
        Ok(())
    }

    /// How many names there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The names and the kind of each, sorted.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&CStr, FileKind)> {
        self.part(0, usize::MAX)
    }

    /// Like `iter`, for a range of positions.
    pub(crate) fn part(
        &self,
        from: usize,
        to: usize,
    ) -> impl DoubleEndedIterator<Item = (&CStr, FileKind)> {
        let part = self.entries.get(from..to.min(self.entries.len()));
        part.unwrap_or_default().iter().filter_map(|entry| {
            let name = CStr::from_bytes_with_nul(slice(&self.bytes, entry)).ok()?;
            Some((name, entry.kind))
        })
    }

    /// Whether a name is present.
    pub(crate) fn has(&self, name: &[u8]) -> bool {
        self.entries
            .binary_search_by(|entry| {
                let own = slice(&self.bytes, entry);
                own.strip_suffix(b"\0").unwrap_or(own).cmp(name)
            })
            .is_ok()
    }
}

fn slice<'b>(bytes: &'b [u8], name: &Name) -> &'b [u8] {
    bytes.get(name.start..name.end).unwrap_or_default()
}
