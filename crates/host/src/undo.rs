//! Taking back what calls changed: in which parts, and by which calls of the tool `undo`. Reads only
//! the record, and changes nothing but by calls that are planned, decided, approved and recorded like
//! any other.

use std::{collections::BTreeSet, sync::Arc};

use haft_contract::{
    CallEvent, CallId, CallRequest, DeniedBy, ErrorKind, Outcome, TenantId, WorkPath,
    event::RecordedEvent,
    host::{History, LedgerError},
    ops::GitPart,
    preview::MAX_PREVIEW_BYTES,
};
use haft_runtime::Runtime;
use haft_tools::{
    catalog::undo_tool,
    undo::{FileState, FoldedChanges, MAX_UNDO_PATHS, RowsOnRecord},
};
use serde_json::{Value, json};

/// The most changes of rows that one call takes back.
const MAX_UNDO_CHANGES: usize = 500;

/// The agent under whose name a person's own calls are recorded and judged: rules for them alone are
/// in `[agents.person]`.
pub const PERSON: &str = "person";

/// What an undo did, by one call for each part of it.
#[derive(Debug, Clone, Default)]
pub struct Undone {
    outcomes: Vec<Arc<Outcome>>,
    notes: Vec<String>,
}

impl Undone {
    /// The outcomes of its calls; none if nothing is on record that could be taken back. To redo
    /// what was undone, undo these calls.
    pub fn outcomes(&self) -> &[Arc<Outcome>] {
        &self.outcomes
    }

    /// What is not known about the calls, or could not be taken back at all, in sentences.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether everything that is known to have changed is as it was before.
    pub fn is_complete(&self) -> bool {
        let whole = |outcome: &Arc<Outcome>| outcome.succeeded() && !left_over(outcome);
        self.notes.is_empty() && !self.outcomes.is_empty() && self.outcomes.iter().all(whole)
    }
}

/// Takes back what these calls changed. The principal of the requests decides which calls it may
/// know, and the rules and the approver whether it may do so.
pub async fn undo(
    runtime: &Runtime,
    history: &dyn History,
    tenant: &TenantId,
    calls: &[CallId],
    request: impl Fn(Value) -> CallRequest,
) -> Result<Undone, LedgerError> {
    let happened = history.changes(tenant, calls).await?;
    let folded = FoldedChanges::of(&happened);
    let mut undone = Undone {
        notes: unknown(&folded),
        ..Undone::default()
    };
    let too_much = git_is_too_much(&folded);
    let mut git_stays = too_much.is_some();
    undone.notes.extend(too_much);
    let groups = groups(&folded);
    let row_groups = row_groups(&folded);
    if groups.is_empty() && row_groups.is_empty() && undone.notes.is_empty() {
        undone.notes.push(nothing_on_record(&folded).to_owned());
    }
    for group in groups {
        let Some(tool) = undo_tool() else {
            break;
        };
        let moves_git = group.iter().any(|path| GitPart::of(path).is_some());
        let input = input(&happened, &group, UndoRun::ForReal, git_stays);
        let outcome = match runtime.call_apart(request(input), tool).await {
            Ok(outcome) => outcome,
            Err(error) => {
                undone.notes.push(error.to_string());
                break;
            }
        };
        let ends_here = ends_the_undo(&outcome);
        git_stays |= moves_git && (!outcome.succeeded() || git_was_left(&outcome));
        undone.outcomes.push(outcome);
        if ends_here {
            return Ok(undone);
        }
    }
    for group in row_groups {
        let Some(tool) = undo_tool() else {
            break;
        };
        let input = row_input(&group, UndoRun::ForReal);
        match runtime.call_apart(request(input), tool).await {
            Ok(outcome) => {
                let ends_here = ends_the_undo(&outcome);
                undone.outcomes.push(outcome);
                if ends_here {
                    break;
                }
            }
            Err(error) => {
                undone.notes.push(error.to_string());
                break;
            }
        }
    }
    Ok(undone)
}

/// What is not known about what calls changed, and what cannot be taken back of it.
pub fn unknown(folded: &FoldedChanges) -> Vec<String> {
    let missed = folded.missed.iter().cloned();
    let rows = folded.rows.iter().filter_map(|change| {
        let why = change.missed.as_ref()?;
        Some(format!("{}: {why}", change.line()))
    });
    missed
        .chain(rows)
        .map(|missed| format!("not everything can be taken back: {missed}"))
        .collect()
}

/// The changes of rows that were kept, in groups for one call each: those of one source, in the order
/// they happened, the last group first.
pub fn row_groups(folded: &FoldedChanges) -> Vec<Vec<&RowsOnRecord>> {
    let mut groups: Vec<Vec<&RowsOnRecord>> = Vec::new();
    for change in folded.rows.iter().filter(|change| change.content.is_some()) {
        let same_source = |group: &&mut Vec<&RowsOnRecord>| {
            let first = group.first();
            first.is_some_and(|first| first.source() == change.source())
        };
        // All changes of one call stay together: a group is named by its calls.
        let has_room = |group: &&mut Vec<&RowsOnRecord>| {
            let last = group.last();
            group.len() < MAX_UNDO_CHANGES || last.is_some_and(|last| last.call == change.call)
        };
        match groups.iter_mut().rfind(same_source).filter(has_room) {
            Some(group) => group.push(change),
            None => groups.push(vec![change]),
        }
    }
    groups.reverse();
    groups
}

/// The input of the call that puts the rows of these changes back.
pub fn row_input(group: &[&RowsOnRecord], run: UndoRun) -> Value {
    let listed = |of: fn(&RowsOnRecord) -> &[String]| {
        let columns = group.iter().flat_map(|change| of(change));
        columns.collect::<BTreeSet<&String>>()
    };
    let calls: BTreeSet<String> = group.iter().map(|change| change.call.to_string()).collect();
    json!({
        "calls": calls,
        "columns": listed(|change| &change.writes),
        "columns_read": listed(|change| &change.reads),
        "dry_run": run == UndoRun::Dry,
    })
}

/// What is known of calls that changed no file on record.
pub fn nothing_on_record(folded: &FoldedChanges) -> &'static str {
    if folded.compared {
        "these calls changed no file on record in this workspace; files that git ignores are not on \
         record"
    } else {
        "these calls changed no file on record in this workspace"
    }
}

/// Why git's state stays, if it is too much for one call.
pub fn git_is_too_much(folded: &FoldedChanges) -> Option<String> {
    (git_parts(folded).len() > MAX_UNDO_PATHS).then(|| {
        format!(
            "git's state stays as it is: it goes back as a whole, and these calls changed more than \
             {MAX_UNDO_PATHS} refs and reflogs; take fewer calls back at once, the last ones first"
        )
    })
}

/// Whether a call of `undo` puts something back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndoRun {
    /// It does.
    ForReal,
    /// It only shows what would be put back.
    Dry,
}

/// The input of the call that puts these files back. What changed together with git's state stays
/// with it, also in later groups.
pub fn input(
    happened: &[RecordedEvent],
    paths: &[&WorkPath],
    run: UndoRun,
    git_stays: bool,
) -> Value {
    json!({
        "calls": calls_of(happened, paths),
        "paths": paths.iter().map(|path| path.as_str()).collect::<Vec<_>>(),
        "dry_run": run == UndoRun::Dry,
        "git_stays": git_stays,
    })
}

/// The files, in groups small enough to show in full to a person who is asked. Git's state comes first
/// and in one group, because it goes back as a whole; if it is too much for one call, it is in none.
pub fn groups(folded: &FoldedChanges) -> Vec<Vec<&WorkPath>> {
    let parts = git_parts(folded);
    let mut groups = Vec::new();
    let mut room = MAX_PREVIEW_BYTES;
    if !parts.is_empty() && parts.len() <= MAX_UNDO_PATHS {
        let shown: usize = parts.iter().map(|path| path.as_str().len() * 2 + 256).sum();
        room = room.saturating_sub(shown);
        groups.push(parts);
    }
    let files = folded.files.iter();
    let files = files.filter(|(path, _)| GitPart::of(path).is_none());
    for (path, change) in files {
        let size = |state: &FileState| state.content().map_or(0, |content| content.bytes);
        let content = size(&change.before).saturating_add(size(&change.after));
        let content = usize::try_from(content).unwrap_or(usize::MAX);
        // At worst every line is empty and costs its sign; large content is shown by its size.
        let shown = content.min(MAX_PREVIEW_BYTES / 4) * 2 + path.as_str().len() * 2 + 256;
        match groups.last_mut() {
            Some(group) if shown <= room && group.len() < MAX_UNDO_PATHS => {
                group.push(path);
                room -= shown;
            }
            _ => {
                groups.push(vec![path]);
                room = MAX_PREVIEW_BYTES.saturating_sub(shown);
            }
        }
    }
    groups
}

/// The parts of git's state that were changed.
fn git_parts(folded: &FoldedChanges) -> Vec<&WorkPath> {
    let paths = folded.files.keys();
    paths.filter(|path| GitPart::of(path).is_some()).collect()
}

/// The calls that touched these files.
fn calls_of(happened: &[RecordedEvent], paths: &[&WorkPath]) -> Vec<String> {
    let mut calls: Vec<String> = happened
        .iter()
        .filter(|change| match &change.event {
            CallEvent::PreimageKept { path, .. } | CallEvent::FileChanged { path, .. } => {
                paths.contains(&path)
            }
            _ => false,
        })
        .map(|change| change.call.to_string())
        .collect();
    calls.sort_unstable();
    calls.dedup();
    calls
}

/// Whether the remaining groups are left alone: a person refused or stopped it, nobody can be
/// asked, or nothing can be recorded or reached. A group that failed because of its content says
/// nothing about the others.
pub fn ends_the_undo(outcome: &Outcome) -> bool {
    let Some(failure) = &outcome.error else {
        return false;
    };
    match outcome.facts.denied_by {
        Some(
            DeniedBy::Person
            | DeniedBy::NobodyToAsk
            | DeniedBy::Approver
            | DeniedBy::Expired
            | DeniedBy::Ledger
            | DeniedBy::Workspace,
        ) => true,
        Some(DeniedBy::Policy | DeniedBy::Sandbox) => false,
        None => matches!(
            failure.kind,
            ErrorKind::Cancelled
                | ErrorKind::Lost
                | ErrorKind::Unavailable
                | ErrorKind::WorkspaceMoved
        ),
    }
}

/// Whether a file or a row that should have been put back was not.
pub fn left_over(outcome: &Outcome) -> bool {
    let lists = ["conflicts", "row_conflicts", "impossible"];
    lists.iter().any(|list| has_some(outcome, list))
}

/// Whether git's state was not put back.
pub fn git_was_left(outcome: &Outcome) -> bool {
    git_state(outcome) == Some("left_alone")
}

/// What became of git's state, if the calls changed it.
pub fn git_state(outcome: &Outcome) -> Option<&str> {
    outcome.structured.as_ref()?.get("git_state")?.as_str()
}

/// How many rows of databases went back.
pub fn rows_restored(outcome: &Outcome) -> u64 {
    let output = outcome.structured.as_ref();
    let restored = output.and_then(|output| output.get("rows_restored"));
    restored.and_then(Value::as_u64).unwrap_or_default()
}

/// Whether a list of an undo's output names something.
pub fn has_some(outcome: &Outcome, key: &str) -> bool {
    let list = outcome
        .structured
        .as_ref()
        .and_then(|output| output.get(key));
    list.and_then(Value::as_array)
        .is_some_and(|list| !list.is_empty())
}

#[cfg(test)]
mod tests {
    use haft_tools::undo::{Chain, FoldedChange};

    use super::*;

    /// So many refs that came, and one file.
    fn refs_and_a_file(refs: usize) -> FoldedChanges {
        let change = FoldedChange {
            before: FileState::Absent,
            after: FileState::Unknown,
            chain: Chain::Whole,
        };
        let refs = (0..refs).map(|number| format!(".git/refs/heads/b{number}"));
        let paths = refs.chain(["file".to_owned()]);
        let paths = paths.map(|path| WorkPath::relative(&path).unwrap());
        FoldedChanges {
            files: paths.map(|path| (path, change.clone())).collect(),
            ..FoldedChanges::default()
        }
    }

    /// The sizes of the groups, and whether the first has git's state.
    fn grouped(folded: &FoldedChanges) -> (Vec<usize>, bool) {
        let groups = groups(folded);
        let has_git = groups[0].iter().any(|path| GitPart::of(path).is_some());
        (groups.iter().map(Vec::len).collect(), has_git)
    }

    #[test]
    fn git_goes_back_in_one_group_or_in_none() {
        let some = refs_and_a_file(2);
        assert_eq!(grouped(&some), (vec![3], true));
        let most = refs_and_a_file(MAX_UNDO_PATHS);
        assert_eq!(grouped(&most), (vec![MAX_UNDO_PATHS, 1], true));
        let too_many = refs_and_a_file(MAX_UNDO_PATHS + 1);
        assert_eq!(grouped(&too_many), (vec![1], false));
        assert_eq!(git_parts(&too_many).len(), MAX_UNDO_PATHS + 1);
    }
}
