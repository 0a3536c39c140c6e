//! Converts between the contract's types and those of the wire, both ways.
//!
//! What comes from the wire is checked here and nowhere else: an unknown word, an impossible path
//! or a number that does not fit is a [`MalformedMessage`], and ends the connection or the call.

mod opening;
mod process;

use haft_contract::{
    ErrorKind, WorkPath,
    ops::{
        Entry, Expected, FileKind, FileStat, FileVersion, FindQuery, FindResults, FindSort,
        GrepFile, GrepLine, GrepMode, GrepQuery, GrepResults, Listing, OpsError, Overwrite,
        ProcessSignal, RemoveScope, ResolvedPath, Tier, WrittenFile,
    },
};

pub(crate) use self::opening::{open_to_wire, options_from_wire};
pub(crate) use self::process::{chunk_from_wire, chunk_to_wire, spawn_from_wire, spawn_to_wire};
use super::wire;

/// The other side sent something invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the other side sent a {0} that has no meaning here")]
pub(crate) struct MalformedMessage(pub(crate) &'static str);

impl From<MalformedMessage> for OpsError {
    fn from(garbled: MalformedMessage) -> Self {
        Self::new(ErrorKind::Internal, garbled.to_string())
    }
}

/// A number from the wire as a `usize`.
pub(crate) fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// A path from the wire.
pub(crate) fn path(text: &str) -> Result<WorkPath, MalformedMessage> {
    let path = WorkPath::relative(text).map_err(|_| MalformedMessage("path"))?;
    // One spelling per path: a normalised path is unchanged by parsing.
    if path.as_str() == text {
        Ok(path)
    } else {
        Err(MalformedMessage("path"))
    }
}

/// A tier from the wire.
pub(crate) fn tier(word: &str) -> Result<Tier, MalformedMessage> {
    Tier::parse(word).ok_or(MalformedMessage("tier"))
}

/// A signal from the wire.
pub(crate) fn signal(word: &str) -> Result<ProcessSignal, MalformedMessage> {
    ProcessSignal::ALL
        .into_iter()
        .find(|signal| signal.as_str() == word)
        .ok_or(MalformedMessage("signal"))
}

impl From<&OpsError> for wire::Failure {
    fn from(error: &OpsError) -> Self {
        Self {
            kind: error.kind().as_str().to_owned(),
            message: error.message().to_owned(),
            path: error.path().map(|path| path.as_str().to_owned()),
        }
    }
}

impl From<wire::Failure> for OpsError {
    fn from(failure: wire::Failure) -> Self {
        let Some(kind) = ErrorKind::parse(&failure.kind) else {
            return MalformedMessage("failure").into();
        };
        let error = Self::new(kind, failure.message);
        match failure.path.as_deref().map(path) {
            None => error,
            Some(Ok(path)) => error.on(&path),
            Some(Err(garbled)) => garbled.into(),
        }
    }
}

impl From<Expected<'_>> for wire::Expected {
    fn from(expected: Expected<'_>) -> Self {
        match expected {
            Expected::Anything => Self::Anything,
            Expected::Absent => Self::Absent,
            Expected::Version(version) => Self::Version(version.as_str().to_owned()),
        }
    }
}

impl From<RemoveScope> for wire::RemoveScope {
    fn from(scope: RemoveScope) -> Self {
        match scope {
            RemoveScope::File => Self::File,
            RemoveScope::Tree => Self::Tree,
        }
    }
}

impl From<wire::RemoveScope> for RemoveScope {
    fn from(scope: wire::RemoveScope) -> Self {
        match scope {
            wire::RemoveScope::File => Self::File,
            wire::RemoveScope::Tree => Self::Tree,
        }
    }
}

impl From<Overwrite> for wire::Overwrite {
    fn from(overwrite: Overwrite) -> Self {
        match overwrite {
            Overwrite::Never => Self::Never,
            Overwrite::Replace => Self::Replace,
        }
    }
}

impl From<wire::Overwrite> for Overwrite {
    fn from(overwrite: wire::Overwrite) -> Self {
        match overwrite {
            wire::Overwrite::Never => Self::Never,
            wire::Overwrite::Replace => Self::Replace,
        }
    }
}

impl From<FileKind> for wire::FileKind {
    fn from(kind: FileKind) -> Self {
        match kind {
            FileKind::File => Self::File,
            FileKind::Directory => Self::Directory,
            FileKind::Symlink => Self::Symlink,
            FileKind::Other => Self::Other,
        }
    }
}

impl From<wire::FileKind> for FileKind {
    fn from(kind: wire::FileKind) -> Self {
        match kind {
            wire::FileKind::File => Self::File,
            wire::FileKind::Directory => Self::Directory,
            wire::FileKind::Symlink => Self::Symlink,
            wire::FileKind::Other => Self::Other,
        }
    }
}

impl From<FileStat> for wire::FileStat {
    fn from(stat: FileStat) -> Self {
        Self {
            kind: stat.kind.into(),
            size: stat.size,
            mode: stat.mode,
            version: stat.version.as_str().to_owned(),
            modified_ms: stat.modified_ms,
        }
    }
}

impl From<wire::FileStat> for FileStat {
    fn from(stat: wire::FileStat) -> Self {
        Self {
            kind: stat.kind.into(),
            size: stat.size,
            mode: stat.mode,
            version: FileVersion::new(stat.version),
            modified_ms: stat.modified_ms,
        }
    }
}

impl From<ResolvedPath> for wire::WireResolvedPath {
    fn from(resolved: ResolvedPath) -> Self {
        Self {
            path: resolved.path.as_str().to_owned(),
            stat: resolved.stat.map(Into::into),
            protected: resolved.protected,
        }
    }
}

impl TryFrom<wire::WireResolvedPath> for ResolvedPath {
    type Error = MalformedMessage;

    fn try_from(resolved: wire::WireResolvedPath) -> Result<Self, MalformedMessage> {
        Ok(Self {
            path: path(&resolved.path)?,
            stat: resolved.stat.map(Into::into),
            protected: resolved.protected,
        })
    }
}

impl From<WrittenFile> for wire::WireWrittenFile {
    fn from(written: WrittenFile) -> Self {
        Self {
            version: written.version.as_str().to_owned(),
            bytes: written.bytes,
            created: written.created,
        }
    }
}

impl From<wire::WireWrittenFile> for WrittenFile {
    fn from(written: wire::WireWrittenFile) -> Self {
        Self {
            version: FileVersion::new(written.version),
            bytes: written.bytes,
            created: written.created,
        }
    }
}

impl From<Entry> for wire::Entry {
    fn from(entry: Entry) -> Self {
        Self {
            path: entry.path,
            escaped: entry.escaped,
            kind: entry.kind.into(),
            size: entry.size,
            modified_ms: entry.modified_ms,
        }
    }
}

impl From<wire::Entry> for Entry {
    fn from(entry: wire::Entry) -> Self {
        Self {
            path: entry.path,
            escaped: entry.escaped,
            kind: entry.kind.into(),
            size: entry.size,
            modified_ms: entry.modified_ms,
        }
    }
}

impl From<Listing> for wire::Listing {
    fn from(listing: Listing) -> Self {
        Self {
            entries: listing.entries.into_iter().map(Into::into).collect(),
            omitted: listing.omitted,
        }
    }
}

impl From<wire::Listing> for Listing {
    fn from(listing: wire::Listing) -> Self {
        Self {
            entries: listing.entries.into_iter().map(Into::into).collect(),
            omitted: listing.omitted,
        }
    }
}

impl From<FindResults> for wire::FindResults {
    fn from(results: FindResults) -> Self {
        Self {
            entries: results.entries.into_iter().map(Into::into).collect(),
            total: results.total,
        }
    }
}

impl From<wire::FindResults> for FindResults {
    fn from(results: wire::FindResults) -> Self {
        Self {
            entries: results.entries.into_iter().map(Into::into).collect(),
            total: results.total,
        }
    }
}

impl From<GrepResults> for wire::GrepResults {
    fn from(results: GrepResults) -> Self {
        let line = |line: GrepLine| wire::GrepLine {
            path: line.path,
            number: line.number,
            text: line.text,
            matched: line.matched,
            cut: line.cut,
        };
        let file = |file: GrepFile| wire::GrepFile {
            path: file.path,
            count: file.count,
        };
        Self {
            lines: results.lines.into_iter().map(line).collect(),
            files: results.files.into_iter().map(file).collect(),
            more: results.more,
            searched: results.searched,
        }
    }
}

impl From<wire::GrepResults> for GrepResults {
    fn from(results: wire::GrepResults) -> Self {
        let line = |line: wire::GrepLine| GrepLine {
            path: line.path,
            number: line.number,
            text: line.text,
            matched: line.matched,
            cut: line.cut,
        };
        let file = |file: wire::GrepFile| GrepFile {
            path: file.path,
            count: file.count,
        };
        Self {
            lines: results.lines.into_iter().map(line).collect(),
            files: results.files.into_iter().map(file).collect(),
            more: results.more,
            searched: results.searched,
        }
    }
}

impl From<GrepMode> for wire::GrepMode {
    fn from(mode: GrepMode) -> Self {
        match mode {
            GrepMode::Content => Self::Content,
            GrepMode::Files => Self::Files,
            GrepMode::Count => Self::Count,
        }
    }
}

impl From<wire::GrepMode> for GrepMode {
    fn from(mode: wire::GrepMode) -> Self {
        match mode {
            wire::GrepMode::Content => Self::Content,
            wire::GrepMode::Files => Self::Files,
            wire::GrepMode::Count => Self::Count,
        }
    }
}

impl From<FindSort> for wire::FindSort {
    fn from(sort: FindSort) -> Self {
        match sort {
            FindSort::Path => Self::Path,
            FindSort::Modified => Self::Modified,
            FindSort::Size => Self::Size,
        }
    }
}

impl From<wire::FindSort> for FindSort {
    fn from(sort: wire::FindSort) -> Self {
        match sort {
            wire::FindSort::Path => Self::Path,
            wire::FindSort::Modified => Self::Modified,
            wire::FindSort::Size => Self::Size,
        }
    }
}

impl From<&GrepQuery<'_>> for wire::Grep {
    fn from(query: &GrepQuery<'_>) -> Self {
        Self {
            pattern: query.pattern.to_owned(),
            path: query.path.as_str().to_owned(),
            glob: query.glob.map(str::to_owned),
            file_type: query.file_type.map(str::to_owned),
            mode: query.mode.into(),
            before: query.before as u64,
            after: query.after as u64,
            ignore_case: query.ignore_case,
            fixed: query.fixed,
            multiline: query.multiline,
            limit: query.limit as u64,
            offset: query.offset as u64,
            max_line_bytes: query.max_line_bytes as u64,
            withheld: query.withheld.to_vec(),
        }
    }
}

impl From<&FindQuery<'_>> for wire::Find {
    fn from(query: &FindQuery<'_>) -> Self {
        Self {
            pattern: query.pattern.to_owned(),
            path: query.path.as_str().to_owned(),
            kind: query.kind.map(Into::into),
            sort: query.sort.into(),
            respect_ignores: query.respect_ignores,
            limit: query.limit as u64,
            offset: query.offset as u64,
            withheld: query.withheld.to_vec(),
        }
    }
}
