//! One part of the repository's state: its bytes, and the version that says what it holds.

use haft_contract::{
    ErrorKind, WorkPath,
    ops::{GitPart, OpsError, RepositoryPart, part_version},
};
use haft_sandbox::{errno, jail::Jail};

use super::{
    file::{self, GitFileLookup},
    index::{self, IndexReading},
    refs::{self, PackedRefs, PackedValue},
};

/// The most bytes of the index.
pub(super) const MAX_INDEX_BYTES: u64 = 16 << 20;

/// The most bytes of a reflog.
pub(super) const MAX_LOG_BYTES: u64 = 4 << 20;

/// The most bytes of any other file.
pub(super) const MAX_NOTE_BYTES: u64 = 256 << 10;

/// How much of a hash tells two contents apart.
const HASH_CHARS: usize = 32;

/// How many bytes of this part are read at most.
pub(super) fn max_bytes(part: GitPart) -> u64 {
    match part {
        GitPart::Head | GitPart::Ref => refs::MAX_REF_BYTES,
        GitPart::Index => MAX_INDEX_BYTES,
        GitPart::Log | GitPart::StashLog => MAX_LOG_BYTES,
        GitPart::Mark | GitPart::Note => MAX_NOTE_BYTES,
    }
}

/// Reads a part.
pub(super) fn read(jail: &Jail, path: &WorkPath) -> Result<Option<RepositoryPart>, OpsError> {
    let fail = |errno| errno::on_path(errno, path);
    let Some(part) = GitPart::of(path) else {
        return Err(OpsError::new(
            ErrorKind::Protected,
            "this is not a part of git's state that can be put back",
        )
        .on(path));
    };
    match file::read(jail, path.as_str(), max_bytes(part)).map_err(fail)? {
        GitFileLookup::File(file) => {
            let holds = holds(part, &file.bytes).ok_or_else(|| unreadable(path))?;
            Ok(Some(RepositoryPart {
                version: part_version(&holds),
                bytes: file.bytes,
                mode: file.mode,
            }))
        }
        GitFileLookup::Unread(_) => Err(unreadable(path)),
        GitFileLookup::Absent if part == GitPart::Ref => {
            let packed = PackedRefs::read(jail).map_err(fail)?;
            let packed = packed.ok_or_else(|| unreadable(path))?;
            match packed.get(path.as_str()) {
                Some(PackedValue::Id(id)) => Ok(Some(RepositoryPart {
                    version: part_version(&id),
                    bytes: loose(&id),
                    mode: packed.mode,
                })),
                Some(PackedValue::Ambiguous) => Err(unreadable(path)),
                None => Ok(None),
            }
        }
        GitFileLookup::Absent => Ok(None),
    }
}

/// What a loose ref of this value holds.
pub(super) fn loose(value: &str) -> Vec<u8> {
    format!("{value}\n").into_bytes()
}

/// What a part with these bytes holds, as its version says it; `None` if it cannot be put back.
pub(super) fn holds(part: GitPart, bytes: &[u8]) -> Option<String> {
    let hash = |hash: blake3::Hash| hash.to_hex().chars().take(HASH_CHARS).collect::<String>();
    match part {
        GitPart::Head | GitPart::Ref => refs::value_of(bytes),
        GitPart::Index => match index::read(bytes) {
            IndexReading::Entries {
                count,
                hash: entries,
            } => Some(format!("{count} {}", hash(entries))),
            IndexReading::Split => None,
            IndexReading::Unknown => Some(format!("? {}", hash(blake3::hash(bytes)))),
        },
        GitPart::Log | GitPart::StashLog => {
            let lines = bytes.split(|byte| *byte == b'\n').count() - 1;
            Some(format!("{lines} {}", hash(blake3::hash(bytes))))
        }
        GitPart::Mark | GitPart::Note => Some(hash(blake3::hash(bytes))),
    }
}

fn unreadable(path: &WorkPath) -> OpsError {
    OpsError::new(
        ErrorKind::NotRegularFile,
        "it is too large, or in a form that Haft does not read",
    )
    .on(path)
}
