//! Compares two pictures of a workspace: which files changed.
//!
//! A file counts as changed if its content did. One that was only touched is left out; one with
//! only new permissions is reported as not captured. A symlink, FIFO, socket or device is no file:
//! where one replaces a file, the file counts as removed.

use std::{cmp::Ordering, iter::Peekable};

use haft_contract::{
    WorkPath,
    ops::{ChangedFile, FileKind, KeptVersion},
};

use super::{
    missed::{CoverageGaps, GapCause, Reason},
    picture::{Content, Directory, Entry, FileSystemTime, WorkspacePicture},
};

/// The two pictures to compare.
pub(super) struct Comparison<'a> {
    pub(super) before: &'a WorkspacePicture,
    pub(super) after: &'a WorkspacePicture,
    /// When the earlier scan ended.
    pub(super) began: FileSystemTime,
    /// Whether a file missing from the earlier scan did not exist then.
    pub(super) before_is_whole: bool,
}

/// The same name before and after.
#[derive(Clone, Copy)]
struct EntryPair<'a> {
    directory: &'a Directory,
    before: Option<&'a Entry>,
    after: Option<&'a Entry>,
}

impl Comparison<'_> {
    /// The changed files, sorted by path.
    pub(super) fn run(&self, missed: &mut CoverageGaps) -> Vec<ChangedFile> {
        let mut changed = Vec::new();
        let before = self.before.directories().iter().peekable();
        let after = self.after.directories().iter().peekable();
        let nothing = Directory::default();
        for (old, new) in side_by_side(before, after, |a, b| a.path.cmp(&b.path)) {
            let old = old.unwrap_or(&nothing);
            let new = new.unwrap_or(&nothing);
            let pairs = side_by_side(
                old.entries.iter().peekable(),
                new.entries.iter().peekable(),
                |a, b| old.name(a).cmp(new.name(b)),
            );
            for (before, after) in pairs {
                let directory = if after.is_some() { new } else { old };
                let both = EntryPair {
                    directory,
                    before,
                    after,
                };
                changed.extend(self.judge(both, missed));
            }
        }
        changed.sort_by(|a, b| a.path.cmp(&b.path));
        changed
    }

    fn judge(&self, both: EntryPair<'_>, missed: &mut CoverageGaps) -> Option<ChangedFile> {
        if let (Some(before), Some(after)) = (both.before, both.after)
            && before.identity == after.identity
            && before.content == after.content
        {
            return None;
        }
        both.note_others(missed);
        let before = both.before.filter(|entry| is_file(entry));
        let after = both.after.filter(|entry| is_file(entry));
        match (before, after) {
            (None, None) => None,
            (Some(before), Some(after)) => {
                if !differ(before, after) {
                    if before.identity.mode != after.identity.mode {
                        missed.add(Reason::Mode, &both.path());
                    }
                    return None;
                }
                both.changed(Some(before), Some(after), missed)
            }
            (Some(before), None) => both.changed(Some(before), None, missed),
            (None, Some(after)) => {
                if both.before.is_none() && !self.before_is_whole {
                    // It may have existed: if it counted as new, undo would remove it.
                    if after.identity.changed_since(self.began) {
                        missed.add(Reason::NotLookedAt, &both.path());
                    }
                    return None;
                }
                both.changed(None, Some(after), missed)
            }
        }
    }
}

impl EntryPair<'_> {
    fn path(&self) -> Vec<u8> {
        let entry = self.after.or(self.before);
        entry.map_or_else(Vec::new, |entry| self.directory.path_of(entry))
    }

    /// Records what happened to symlinks and special files under this name.
    fn note_others(&self, missed: &mut CoverageGaps) {
        let kinds = [self.before, self.after].map(|entry| entry.map(|entry| entry.identity.kind()));
        let is = |kind: FileKind| kinds.contains(&Some(kind));
        let same_kind = kinds[0] == kinds[1];
        if is(FileKind::Symlink) && !(same_kind && self.same_content()) {
            missed.add(Reason::Symlink, &self.path());
        }
        let same_thing = same_kind
            && self.before.map(|entry| entry.identity.inode)
                == self.after.map(|entry| entry.identity.inode);
        if is(FileKind::Other) && !same_thing {
            missed.add(Reason::Special, &self.path());
        }
    }

    fn same_content(&self) -> bool {
        self.before.map(|entry| entry.content) == self.after.map(|entry| entry.content)
    }

    fn changed(
        &self,
        before: Option<&Entry>,
        after: Option<&Entry>,
        missed: &mut CoverageGaps,
    ) -> Option<ChangedFile> {
        let bytes = self.path();
        let path = std::str::from_utf8(&bytes)
            .ok()
            .and_then(|text| WorkPath::relative(text).ok());
        let Some(path) = path else {
            missed.add(Reason::Name, &bytes);
            return None;
        };
        if let Some(cause) = before.and_then(cause) {
            missed.add(Reason::NoPreImage(cause), &bytes);
        }
        if let Some(cause) = after.and_then(cause) {
            missed.add(Reason::NoPostImage(cause), &bytes);
        }
        Some(ChangedFile {
            path,
            before: before.map(kept_version),
            after: after.map(kept_version),
        })
    }
}

fn is_file(entry: &Entry) -> bool {
    entry.identity.kind() == FileKind::File
}

fn kept_version(entry: &Entry) -> KeptVersion {
    KeptVersion {
        version: entry.identity.version(),
        artifact: entry.artifact(),
        mode: match entry.content {
            Content::Kept { mode, .. } => mode,
            Content::Unread | Content::Link(_) | Content::NotKept(_) | Content::Gone => {
                entry.identity.mode & 0o7777
            }
        },
    }
}

/// Whether two states of a file hold different bytes, as far as is known.
fn differ(before: &Entry, after: &Entry) -> bool {
    match (before.content, after.content) {
        (Content::Kept { hash: old, .. }, Content::Kept { hash: new, .. }) => old != new,
        _ => before.identity != after.identity,
    }
}

/// Why the content of a file is not kept.
fn cause(entry: &Entry) -> Option<GapCause> {
    match entry.content {
        Content::Kept { .. } | Content::Link(_) | Content::Gone => None,
        Content::NotKept(why) => Some(why.into()),
        // `keep.rs` never leaves one in this state; if it did, it would be because time ran out.
        Content::Unread => Some(GapCause::OutOfTime),
    }
}

/// Iterates over two sorted sequences in parallel.
fn side_by_side<'a, T: 'a, I: Iterator<Item = &'a T>>(
    mut left: Peekable<I>,
    mut right: Peekable<I>,
    order: impl Fn(&T, &T) -> Ordering,
) -> impl Iterator<Item = (Option<&'a T>, Option<&'a T>)> {
    std::iter::from_fn(move || {
        let which = match (left.peek(), right.peek()) {
            (None, None) => return None,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(a), Some(b)) => order(a, b),
        };
        Some(match which {
            Ordering::Less => (left.next(), None),
            Ordering::Greater => (None, right.next()),
            Ordering::Equal => (left.next(), right.next()),
        })
    })
}
