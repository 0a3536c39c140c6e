//! Translates file types of the operating system into those of the contract.

use haft_contract::ops::FileKind;
use rustix::fs::FileType;

/// The contract's kind for a file type.
pub(crate) fn kind_of(file_type: FileType) -> FileKind {
    match file_type {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        _ => FileKind::Other,
    }
}
