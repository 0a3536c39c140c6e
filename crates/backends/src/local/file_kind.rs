//! What the operating system calls a thing, in the words of the contract.

use haft_contract::ops::FileKind;
use rustix::fs::FileType;

/// The sort of thing a file type is.
pub(crate) fn kind_of(file_type: FileType) -> FileKind {
    match file_type {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        _ => FileKind::Other,
    }
}
