//! `haft undo`: puts back what calls changed. Finds the files in the record and has the runtime put
//! them back, through calls of the tool `undo` that are planned, decided, approved and recorded
//! like any other.

use std::sync::Arc;

use clap::Args;
use haft_contract::{
    CallEvent, CallRequest, DeniedBy, ErrorKind, Outcome, ProviderId, WorkPath,
    event::RecordedEvent, host::Verdict, ops::GitPart, preview::MAX_PREVIEW_BYTES,
};
use haft_host::{WorkspaceSource, this_workspace::WorkspacesHere};
use haft_tools::{
    catalog::undo_tool,
    undo::{FileState, FoldedChanges, MAX_UNDO_PATHS},
};
use serde_json::{Value, json};

use super::{
    App,
    call::{AskArgs, CallSetup},
    selection::{SelectedChanges, SelectionArgs, operator},
};
use crate::{
    exit::Exit,
    stop::Stop,
    terminal::{Format, Page, Style},
    view::outcome::OutcomeView,
};

/// Put back what calls changed
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  haft undo
  haft undo --session
  haft undo --since 10m --dry-run
A file that has changed since stays as it is and is shown. Git's branches, tags, stashes, HEAD
and index go back as a whole or not at all. An undo is a call too: undo it to redo.")]
pub(crate) struct UndoArgs {
    #[command(flatten)]
    selection: SelectionArgs,
    /// Only show what would be put back
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    asking: AskArgs,
}

/// Runs the command.
pub(crate) async fn run(args: &UndoArgs, app: &App) -> Result<Exit, Stop> {
    let asking = args.asking.asking()?;
    let settings = app.settings()?;
    let principal = operator(&app.env)?;
    let ledger = app.record().await?;
    let here = WorkspacesHere::find(&settings, &ledger).await?;
    let among = here.ids();
    let changed = args.selection.find(&ledger, &principal, &among).await?;
    let mut notes = notes(&changed);
    let is_git_too_much = git_parts(&changed.folded).len() > MAX_UNDO_PATHS;
    if is_git_too_much {
        notes.push(format!(
            "git's state stays as it is: it goes back as a whole, and these calls changed more than \
             {MAX_UNDO_PATHS} refs and reflogs; take fewer calls back at once, the last ones first"
        ));
    }
    app.notes(&notes);
    let left = if is_git_too_much {
        Exit::Failed
    } else {
        Exit::Ok
    };
    let groups = groups(&changed.folded);
    if groups.is_empty() {
        return Ok(left);
    }
    // The host opens the record itself.
    ledger.close().await.map_err(|error| Stop::ledger(&error))?;
    let operations = here.open(&settings, changed.workspace.as_ref()).await?;
    let workspace = Some(WorkspaceSource::Opened(operations));
    let ready = CallSetup::new(app, settings, workspace, principal, asking, groups.len()).await?;
    register(&ready)?;
    let mut outcomes = Vec::new();
    let mut refused = Vec::new();
    let mut git_stays = is_git_too_much;
    for mut group in groups {
        let request = |paths: &[&WorkPath], dry_run: bool| {
            let input = json!({
                "calls": calls_of(&changed.happened, paths),
                "paths": paths.iter().map(|path| path.as_str()).collect::<Vec<_>>(),
                "dry_run": dry_run,
                // What changed together with git's state stays with it, also in later groups.
                "git_stays": git_stays,
            });
            CallRequest::new("undo", input, Arc::clone(&ready.principal))
        };
        if args.dry_run {
            let foreseen = refusals(&ready, &group, |paths| request(paths, false)).await;
            group.retain(|path| !foreseen.iter().any(|(refused, _)| refused == *path));
            refused.extend(foreseen);
        }
        if group.is_empty() {
            continue;
        }
        let moves_git = group.iter().any(|path| GitPart::of(path).is_some());
        let outcome = ready.call(request(&group, args.dry_run)).await;
        let ends_here = ends_the_undo(&outcome);
        git_stays |= moves_git && (!outcome.succeeded() || git_was_left(&outcome));
        outcomes.push(outcome);
        if ends_here {
            break;
        }
    }
    ready.close().await;
    let exit = match print(&outcomes, args, &ready, app)? {
        Exit::Ok => left,
        exit => exit,
    };
    if refused.is_empty() {
        return Ok(exit);
    }
    let lines = refused.iter().map(|(path, reason)| {
        let path = path.as_str().escape_debug();
        format!("`{path}` would not be put back: {reason}")
    });
    app.notes(&lines.collect::<Vec<_>>());
    Ok(if exit == Exit::Ok { Exit::Failed } else { exit })
}

/// The paths of a group that an undo would refuse, each with the reason: a dry run only reads, so
/// what keeps a path from being written has to be asked for.
async fn refusals(
    ready: &CallSetup,
    group: &[&WorkPath],
    request: impl Fn(&[&WorkPath]) -> CallRequest,
) -> Vec<(WorkPath, String)> {
    let runtime = ready.host.runtime();
    let planned: Vec<WorkPath> = match runtime.plan(request(group)).await {
        Ok(foreseen) if foreseen.decision.verdict == Verdict::Deny => Vec::new(),
        Ok(foreseen) => {
            let paths = foreseen.plan.path_accesses();
            paths.map(|access| access.path.clone()).collect()
        }
        Err(_) => Vec::new(),
    };
    let mut refused = Vec::new();
    for path in group.iter().filter(|path| !planned.contains(path)) {
        let reason = match runtime.plan(request(&[*path])).await {
            Ok(foreseen) if foreseen.decision.verdict == Verdict::Deny => {
                foreseen.decision.reason.clone()
            }
            Ok(_) => continue,
            Err(outcome) => match &outcome.error {
                Some(error) => error.message.clone(),
                None => continue,
            },
        };
        refused.push(((*path).clone(), reason));
    }
    refused
}

/// `undo` is for people: it is registered only while this command runs.
fn register(ready: &CallSetup) -> Result<(), Stop> {
    let registry = ready.host.runtime().registry();
    let tools = undo_tool().into_iter().collect();
    registry
        .register(&ProviderId::builtin(), tools)
        .map_err(|error| {
            Stop::config(
                error.to_string(),
                "give the tool that is called `undo` another name",
            )
        })
}

/// What a person should know about the selected calls.
pub(super) fn notes(changed: &SelectedChanges) -> Vec<String> {
    let mut notes: Vec<String> = changed.meant.iter().cloned().collect();
    let missed = changed.folded.missed.iter();
    notes.extend(missed.map(|missed| format!("not everything can be taken back: {missed}")));
    match changed.elsewhere {
        0 => {}
        1 => notes.push("1 of these calls worked in another workspace and is left out".to_owned()),
        more => notes.push(format!(
            "{more} of these calls worked in another workspace and are left out"
        )),
    }
    notes.extend(changed.nothing().map(str::to_owned));
    notes
}

/// The files, in groups small enough to show in full to a person who is asked. Git's state comes first
/// and in one group, because it goes back as a whole; if it is too much for one call, it is in none.
fn groups(folded: &FoldedChanges) -> Vec<Vec<&WorkPath>> {
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

fn print(
    outcomes: &[Arc<Outcome>],
    args: &UndoArgs,
    ready: &CallSetup,
    app: &App,
) -> Result<Exit, Stop> {
    let mut exit = Exit::Ok;
    for outcome in outcomes {
        if app.output.format() == Format::Json {
            app.output.json_line(&OutcomeView::of(outcome))?;
        } else if outcome.succeeded() {
            app.output.content(&outcome.text())?;
            if !args.dry_run && changed_something(outcome) {
                let back = format!("`haft undo {}` takes this back", outcome.call);
                app.output.note(&Page::new().styled(Style::Dim, back).end());
            }
        } else {
            let view = OutcomeView::of(outcome).hinting(ready.hint("undo", outcome));
            app.output
                .note(&view.epilogue(app.output.stderr_is_terminal()));
        }
        if exit == Exit::Ok {
            exit = if outcome.succeeded() && left_over(outcome) {
                Exit::Failed
            } else {
                Exit::of_call(outcome)
            };
        }
    }
    Ok(exit)
}

/// Whether the remaining groups are left alone: a person refused or stopped it, nobody can be
/// asked, or nothing can be recorded or reached. A group that failed because of its content says
/// nothing about the others.
fn ends_the_undo(outcome: &Outcome) -> bool {
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

/// Whether a file that should have been put back was not.
fn left_over(outcome: &Outcome) -> bool {
    has_some(outcome, "conflicts") || has_some(outcome, "impossible")
}

/// Whether anything was put back, so that there is something to take back.
fn changed_something(outcome: &Outcome) -> bool {
    has_some(outcome, "restored") || git_state(outcome) == Some("put_back")
}

fn git_was_left(outcome: &Outcome) -> bool {
    git_state(outcome) == Some("left_alone")
}

fn git_state(outcome: &Outcome) -> Option<&str> {
    outcome.structured.as_ref()?.get("git_state")?.as_str()
}

fn has_some(outcome: &Outcome, key: &str) -> bool {
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
