//! Collects what a comparison did not cover, and describes it in one text.

use std::{collections::BTreeMap, fmt::Write as _};

use super::picture::OmissionReason;
use crate::local::{repository::RepositoryGap, walk::shown};

/// How many paths are named for each reason.
const NAMED: usize = 3;

/// Why something is not covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    /// More files than the limit.
    TooManyFiles(usize),
    /// The scan took too long.
    TooLate,
    /// Changed, but not among the files scanned before.
    NotLookedAt,
    /// The earlier content of a changed file is not kept.
    NoPreImage(GapCause),
    /// The later content of a changed file is not kept.
    NoPostImage(GapCause),
    /// A directory that cannot be read.
    UnreadableDirectory,
    /// Left out by an ignore file that the command made.
    IgnoredByNew,
    /// A symlink was made, changed or removed.
    Symlink,
    /// A FIFO, socket or device was made or removed.
    Special,
    /// Only permissions changed.
    Mode,
    /// The name is not UTF-8.
    Name,
    /// Another command ran at the same time.
    Together,
    /// What git did cannot be taken back, or is not covered.
    Repository(RepositoryGap),
}

/// Why content is not kept, in the order it is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum GapCause {
    TooLarge,
    Unreadable,
    OutOfBytes,
    OutOfTime,
    Changing,
    Store,
    /// It was kept but no longer is.
    Expired,
}

impl From<OmissionReason> for GapCause {
    fn from(why: OmissionReason) -> Self {
        match why {
            OmissionReason::TooLarge => Self::TooLarge,
            OmissionReason::Unreadable | OmissionReason::NotAFile => Self::Unreadable,
            OmissionReason::OutOfBytes => Self::OutOfBytes,
            OmissionReason::OutOfTime => Self::OutOfTime,
            OmissionReason::Changing => Self::Changing,
            OmissionReason::Store => Self::Store,
        }
    }
}

/// What a comparison did not cover.
#[derive(Debug, Default)]
pub(super) struct CoverageGaps {
    reasons: BTreeMap<Reason, Paths>,
}

#[derive(Debug, Default)]
struct Paths {
    count: u64,
    named: Vec<String>,
}

impl CoverageGaps {
    /// Records a path.
    pub(super) fn add(&mut self, reason: Reason, path: &[u8]) {
        let paths = self.reasons.entry(reason).or_default();
        paths.count += 1;
        if paths.named.len() < NAMED {
            paths.named.push(named(path));
        }
    }

    /// Records something that concerns no path.
    pub(super) fn add_plain(&mut self, reason: Reason) {
        self.reasons.entry(reason).or_default();
    }

    pub(super) fn append(&mut self, other: Self) {
        for (reason, more) in other.reasons {
            let paths = self.reasons.entry(reason).or_default();
            // The same directory may be found before and after.
            let known = more.named.iter().all(|name| paths.named.contains(name));
            if !more.named.is_empty() && known {
                paths.count = paths.count.max(more.count);
                continue;
            }
            paths.count += more.count;
            paths.named.extend(more.named);
            paths.named.truncate(NAMED);
        }
    }

    /// Whether a directory could not be read.
    pub(super) fn has_unreadable(&self) -> bool {
        self.reasons.contains_key(&Reason::UnreadableDirectory)
    }

    /// Everything as one text; `None` if everything was covered.
    pub(super) fn text(&self) -> Option<String> {
        let mut text = String::new();
        for (reason, paths) in &self.reasons {
            if !text.is_empty() {
                text.push_str("; ");
            }
            text.push_str(&reason.text());
            if paths.count == 0 {
                continue;
            }
            // Writing to a `String` cannot fail.
            let _ = write!(text, " ({}: ", paths.count);
            for (at, name) in paths.named.iter().enumerate() {
                let comma = if at == 0 { "" } else { ", " };
                let _ = write!(text, "{comma}`{name}`");
            }
            text.push_str(if paths.count > paths.named.len() as u64 {
                ", …)"
            } else {
                ")"
            });
        }
        (!text.is_empty()).then_some(text)
    }
}

/// A path for a message: a name can neither forge a line nor control a terminal.
fn named(path: &[u8]) -> String {
    let mut name = String::new();
    for character in shown(path).0.chars() {
        if character.is_control() {
            name.extend(character.escape_default());
        } else {
            name.push(character);
        }
    }
    if name.is_empty() {
        ".".to_owned()
    } else {
        name
    }
}

impl Reason {
    fn text(self) -> String {
        let text = match self {
            Self::TooManyFiles(most) => {
                return format!(
                    "the workspace has more than {most} files; the rest were not checked"
                );
            }
            Self::NoPreImage(cause) => {
                return format!(
                    "the earlier content of changed files is not kept: {}",
                    cause.text()
                );
            }
            Self::NoPostImage(cause) => {
                return format!(
                    "the new content of changed files is not kept: {}",
                    cause.text()
                );
            }
            Self::TooLate => "looking at all files took too long",
            Self::NotLookedAt => "files changed that were not looked at before",
            Self::UnreadableDirectory => "directories cannot be read",
            Self::IgnoredByNew => "ignore files that were not there before leave things out",
            Self::Symlink => "symlinks changed, which are not captured",
            Self::Special => "FIFOs, sockets or devices changed, which are not captured",
            Self::Mode => "permissions changed, which are not captured",
            Self::Name => "files changed whose names are not text, or too long",
            Self::Repository(gap) => repository_text(gap),
            Self::Together => "another command ran at the same time; changes of both are listed",
        };
        text.to_owned()
    }
}

fn repository_text(gap: RepositoryGap) -> &'static str {
    match gap {
        RepositoryGap::Pushed => "git pushed; what the remote got stays there",
        RepositoryGap::Fetched => {
            "git noted what a remote has, by a fetch or a push; that stays as it is"
        }
        RepositoryGap::ObjectsGone => {
            "git removed objects, as `git gc` and `git prune` do; what only they held is gone"
        }
        RepositoryGap::Unfinished => {
            "git was in the middle of something, whose own files are not kept"
        }
        RepositoryGap::MadeUnfinished => {
            "the command left git in the middle of something, which must end before git's state can \
             be put back"
        }
        RepositoryGap::MadeLock => {
            "the command left locks of git behind, which must go before git's state can be put back"
        }
        RepositoryGap::LinkedTree => {
            "linked work trees changed, whose `HEAD` and index are not kept"
        }
        RepositoryGap::Unread => "parts of git's state changed that are too large or not readable",
        RepositoryGap::TooManyRefs => "git has too many refs, or moved too many, to keep them",
        RepositoryGap::RefsUnread => {
            "git's `packed-refs` is too large or not readable; no ref is kept"
        }
        RepositoryGap::TooManyLogs => "git has too many reflogs to keep them",
        RepositoryGap::Reftable => "git's refs are in a reftable, which is not read",
        RepositoryGap::Elsewhere => {
            "the git repository of this work tree is outside the workspace; its refs are not on \
             record"
        }
        RepositoryGap::Unreadable => "the git repository cannot be read",
    }
}

impl GapCause {
    fn text(self) -> &'static str {
        match self {
            Self::TooLarge => "they are too large",
            Self::Unreadable => "they cannot be read",
            Self::OutOfBytes => "all files together are too large",
            Self::OutOfTime => "reading all files takes too long",
            Self::Changing => "they were being changed",
            Self::Store => "the artifact store failed",
            Self::Expired => "it has expired",
        }
    }
}
