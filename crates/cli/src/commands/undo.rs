//! `haft undo`: puts back what calls changed. Finds the files in the record and has the runtime put
//! them back, through calls of the tool `undo` that are planned, decided, approved and recorded
//! like any other.

use std::sync::Arc;

use clap::Args;
use haft_contract::{CallRequest, Outcome, ProviderId, WorkPath, host::Verdict, ops::GitPart};
use haft_host::{
    WorkspaceSource,
    selected_calls::SelectedChanges,
    this_workspace::WorkspacesHere,
    undo::{self, UndoRun},
};
use haft_tools::{catalog::undo_tool, undo::RowsOnRecord};

use super::{
    App,
    call::{AskArgs, CallSetup},
    selection::{SelectionArgs, operator},
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
    let changed = args
        .selection
        .of(&principal)
        .find(&ledger, &principal, &among)
        .await?;
    let mut notes = notes(&changed);
    let too_much = undo::git_is_too_much(&changed.folded);
    let is_git_too_much = too_much.is_some();
    notes.extend(too_much);
    app.notes(&notes);
    let left = if is_git_too_much {
        Exit::Failed
    } else {
        Exit::Ok
    };
    let groups = undo::groups(&changed.folded);
    let row_groups = undo::row_groups(&changed.folded);
    let calls = groups.len() + row_groups.len();
    if calls == 0 {
        return Ok(left);
    }
    // The host opens the record itself.
    ledger.close().await.map_err(|error| Stop::ledger(&error))?;
    let operations = here.open(&settings, changed.workspace.as_ref()).await?;
    let workspace = Some(WorkspaceSource::Opened(operations));
    let ready = CallSetup::new(app, settings, workspace, principal, asking, calls).await?;
    register(&ready)?;
    let mut outcomes = Vec::new();
    let mut refused = Vec::new();
    let mut ended = false;
    let mut git_stays = is_git_too_much;
    for mut group in groups {
        let request = |paths: &[&WorkPath], dry_run: bool| {
            let run = if dry_run {
                UndoRun::Dry
            } else {
                UndoRun::ForReal
            };
            let input = undo::input(&changed.happened, paths, run, git_stays);
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
        let ends_here = undo::ends_the_undo(&outcome);
        git_stays |= moves_git && (!outcome.succeeded() || undo::git_was_left(&outcome));
        outcomes.push(outcome);
        if ends_here {
            ended = true;
            break;
        }
    }
    let mut lines: Vec<String> = refused
        .iter()
        .map(|(path, reason): &(WorkPath, String)| {
            let path = path.as_str().escape_debug();
            format!("`{path}` would not be put back: {reason}")
        })
        .collect();
    if !ended {
        let done = put_rows_back(&ready, row_groups, args.dry_run).await;
        outcomes.extend(done.0);
        lines.extend(done.1);
    }
    ready.close().await;
    let exit = match print(&outcomes, args, &ready, app)? {
        Exit::Ok => left,
        exit => exit,
    };
    if lines.is_empty() {
        return Ok(exit);
    }
    app.notes(&lines);
    Ok(if exit == Exit::Ok { Exit::Failed } else { exit })
}

/// Puts rows of databases back, or looks which would be. Returns what came of each group, and in a dry
/// run what the undo would refuse.
async fn put_rows_back(
    ready: &CallSetup,
    groups: Vec<Vec<&RowsOnRecord>>,
    dry_run: bool,
) -> (Vec<Arc<Outcome>>, Vec<String>) {
    let (mut outcomes, mut refused) = (Vec::new(), Vec::new());
    for group in groups {
        let request = |run| {
            let input = undo::row_input(&group, run);
            CallRequest::new("undo", input, Arc::clone(&ready.principal))
        };
        let run = if dry_run {
            refused.extend(refused_rows(ready, &group, request(UndoRun::ForReal)).await);
            UndoRun::Dry
        } else {
            UndoRun::ForReal
        };
        let outcome = ready.call(request(run)).await;
        let ends_here = undo::ends_the_undo(&outcome);
        outcomes.push(outcome);
        if ends_here {
            break;
        }
    }
    (outcomes, refused)
}

/// Why an undo would refuse to put these rows back, if it would.
async fn refused_rows(
    ready: &CallSetup,
    group: &[&RowsOnRecord],
    request: CallRequest,
) -> Option<String> {
    let foreseen = ready.host.runtime().plan(request).await.ok()?;
    let source = group.first()?.source().escape_debug();
    (foreseen.decision.verdict == Verdict::Deny).then(|| {
        let reason = &foreseen.decision.reason;
        format!("rows of `{source}` would not be put back: {reason}")
    })
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
    notes.extend(undo::unknown(&changed.folded));
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
            exit = if outcome.succeeded() && undo::left_over(outcome) {
                Exit::Failed
            } else {
                Exit::of_call(outcome)
            };
        }
    }
    Ok(exit)
}

/// Whether anything was put back, so that there is something to take back.
fn changed_something(outcome: &Outcome) -> bool {
    undo::has_some(outcome, "restored")
        || undo::rows_restored(outcome) > 0
        || undo::git_state(outcome) == Some("put_back")
}
