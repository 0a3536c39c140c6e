//! Folds what calls did to files, event by event, into one change per file: its content before the
//! first call and after the last. What they did to rows of databases is listed as it happened.
//!
//! Pure; shared by `undo` and by the code that shows what calls changed.

use std::collections::{BTreeMap, BTreeSet};

use haft_contract::{
    CallEvent, CallId, WorkPath,
    event::RecordedEvent,
    host::ArtifactId,
    ops::{FileVersion, GitPart},
};

use super::rows::RowsOnRecord;

/// What several calls did to one file together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoldedChange {
    /// Its state before the first change.
    pub before: FileState,
    /// Its state after the last change.
    pub after: FileState,
    /// Whether every change started where the previous one ended.
    pub chain: Chain,
}

/// A file's state at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileState {
    /// There was no file.
    Absent,
    /// There was a file.
    File {
        /// Its version.
        version: FileVersion,
        /// Its bytes; `None` if they were not kept.
        content: Option<ArtifactId>,
        /// Its permission bits; `None` if they were not recorded.
        mode: Option<u32>,
    },
    /// Not recorded.
    Unknown,
}

/// Whether the changes of several calls follow each other without a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chain {
    /// Each started where the previous one ended.
    Whole,
    /// Something else changed the file in between.
    Broken,
}

/// What calls did, file by file, and what is known to be missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoldedChanges {
    /// The changed files.
    pub files: BTreeMap<WorkPath, FoldedChange>,
    /// Files changed by a call that also moved the git repository, as a checkout does. Which of them
    /// belong to it an index says.
    pub with_git: BTreeSet<WorkPath>,
    /// What happened to rows of databases, in order.
    pub rows: Vec<RowsOnRecord>,
    /// What was not recorded, in the record's words.
    pub missed: Vec<String>,
    /// Whether the workspace was compared around a command: what git ignores was left out of it.
    pub compared: bool,
}

impl FoldedChanges {
    /// Folds events in the order they happened.
    pub fn of(happened: &[RecordedEvent]) -> Self {
        let mut folded = Self {
            with_git: changed_with_git(happened),
            ..Self::default()
        };
        // A pre-image counts once its change has happened.
        let mut announced: BTreeMap<&WorkPath, FileState> = BTreeMap::new();
        for event in happened {
            match &event.event {
                CallEvent::PreimageKept {
                    path,
                    artifact,
                    before,
                    mode,
                } => {
                    announced.insert(path, FileState::of(before.as_ref(), *artifact, *mode));
                }
                CallEvent::FileChanged {
                    path,
                    after,
                    artifact,
                } => {
                    let before = announced.remove(path).unwrap_or(FileState::Unknown);
                    let after = FileState::of(after.as_ref(), *artifact, None);
                    folded.change(path, before, after);
                }
                CallEvent::RowsChanged {
                    rows,
                    writes,
                    reads,
                    artifact,
                    missed,
                } => folded.rows.push(RowsOnRecord {
                    call: event.call,
                    rows: *rows,
                    writes: writes.clone(),
                    reads: reads.clone(),
                    content: *artifact,
                    missed: missed.clone(),
                }),
                CallEvent::ChangesScanned { missed, .. } => {
                    folded.compared = true;
                    if let Some(missed) = missed
                        && !folded.missed.contains(missed)
                    {
                        folded.missed.push(missed.clone());
                    }
                }
                _ => {}
            }
        }
        folded
    }

    /// What is known about a file of which no change is on record.
    pub fn unchanged(&self) -> String {
        if !self.missed.is_empty() {
            let missed = self.missed.join("; ");
            return format!("it is not known whether these calls changed it: {missed}");
        }
        if self.compared {
            return "no change of it by these calls is on record; files that git ignores never are"
                .to_owned();
        }
        "these calls did not change it".to_owned()
    }

    fn change(&mut self, path: &WorkPath, before: FileState, after: FileState) {
        if let Some(known) = self.files.get_mut(path) {
            if !known.after.is_same(&before) {
                known.chain = Chain::Broken;
            }
            known.after = after;
            return;
        }
        let change = FoldedChange {
            before,
            after,
            chain: Chain::Whole,
        };
        self.files.insert(path.clone(), change);
    }
}

impl FileState {
    fn of(version: Option<&FileVersion>, content: Option<ArtifactId>, mode: Option<u32>) -> Self {
        match version {
            Some(version) => Self::File {
                version: version.clone(),
                content,
                mode,
            },
            None => Self::Absent,
        }
    }

    /// Whether two states are equal: the same version, or the same bytes.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Absent, Self::Absent) => true,
            (
                Self::File {
                    version, content, ..
                },
                Self::File {
                    version: other_version,
                    content: other_content,
                    ..
                },
            ) => version == other_version || (content.is_some() && content == other_content),
            _ => false,
        }
    }

    /// Its bytes, if they were kept.
    pub fn content(&self) -> Option<ArtifactId> {
        match self {
            Self::File { content, .. } => *content,
            Self::Absent | Self::Unknown => None,
        }
    }

    /// Its permission bits, if they were recorded.
    pub fn mode(&self) -> Option<u32> {
        match self {
            Self::File { mode, .. } => *mode,
            Self::Absent | Self::Unknown => None,
        }
    }
}

/// The files that were changed by calls which also changed an essential part of git's state.
fn changed_with_git(happened: &[RecordedEvent]) -> BTreeSet<WorkPath> {
    let changed = |event: &RecordedEvent| match &event.event {
        CallEvent::FileChanged { path, .. } => Some((event.call, path.clone())),
        _ => None,
    };
    let is_essential = |path: &WorkPath| GitPart::of(path).is_some_and(GitPart::is_essential);
    let moving: BTreeSet<CallId> = happened
        .iter()
        .filter_map(changed)
        .filter(|(_, path)| is_essential(path))
        .map(|(call, _)| call)
        .collect();
    happened
        .iter()
        .filter_map(changed)
        .filter(|(call, path)| moving.contains(call) && GitPart::of(path).is_none())
        .map(|(_, path)| path)
        .collect()
}

#[cfg(test)]
mod tests {
    use haft_contract::{CallId, host::Timestamp};

    use super::*;

    fn path() -> WorkPath {
        WorkPath::relative("a").unwrap()
    }

    fn content(byte: u8) -> ArtifactId {
        ArtifactId {
            hash: [byte; 32],
            bytes: 1,
        }
    }

    fn kept(version: Option<u8>) -> CallEvent {
        CallEvent::PreimageKept {
            path: path(),
            artifact: version.map(content),
            before: version.map(|version| FileVersion::new(version.to_string())),
            mode: version.map(|_| 0o600),
        }
    }

    fn changed(version: Option<u8>) -> CallEvent {
        CallEvent::FileChanged {
            path: path(),
            after: version.map(|version| FileVersion::new(version.to_string())),
            artifact: version.map(content),
        }
    }

    fn check(events: Vec<CallEvent>, expected: Option<(Option<u8>, Option<u8>, Chain)>) {
        let happened: Vec<RecordedEvent> = events
            .into_iter()
            .map(|event| RecordedEvent {
                call: CallId::new(),
                at: Timestamp(0),
                event,
            })
            .collect();
        let state = |state: &FileState| state.content().map(|content| content.hash[0]);
        let found = FoldedChanges::of(&happened)
            .files
            .get(&path())
            .map(|change| (state(&change.before), state(&change.after), change.chain));
        assert_eq!(found, expected);
    }

    #[test]
    fn many_changes_are_one_from_the_first_to_the_last() {
        check(
            vec![
                kept(None),
                changed(Some(1)),
                kept(Some(1)),
                changed(Some(2)),
            ],
            Some((None, Some(2), Chain::Whole)),
        );
    }

    #[test]
    fn what_somebody_else_did_in_between_is_noticed() {
        check(
            vec![
                kept(Some(1)),
                changed(Some(2)),
                kept(Some(3)),
                changed(Some(4)),
            ],
            Some((Some(1), Some(4), Chain::Broken)),
        );
    }

    #[test]
    fn files_of_a_call_that_moved_git_are_known() {
        let (checkout, edit) = (CallId::new(), CallId::new());
        let event = |call, path: &str| RecordedEvent {
            call,
            at: Timestamp(0),
            event: CallEvent::FileChanged {
                path: WorkPath::relative(path).unwrap(),
                after: None,
                artifact: None,
            },
        };
        let happened = [
            event(checkout, "a"),
            event(checkout, ".git/HEAD"),
            event(edit, "b"),
            event(edit, ".git/logs/HEAD"),
        ];
        let found = FoldedChanges::of(&happened).with_git;
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [path()]);
    }

    #[test]
    fn a_change_that_was_only_announced_is_none() {
        check(vec![kept(Some(1))], None);
    }
}
