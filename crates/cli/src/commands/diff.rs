//! `haft diff`: everything calls changed, as one unified diff: each file before the first of the
//! calls and after the last. Uses the record only: no file of the workspace is read, and where
//! there is only one it is opened to know which one it is.

use clap::Args;
use haft_contract::{
    WorkPath,
    host::{ArtifactStore, Ledger as _, LedgerErrorKind},
    ops::GitPart,
};
use haft_host::this_workspace::WorkspacesHere;
use haft_tools::{
    change::{FileChange, ShownChange},
    undo::{FileState, FoldedChange, git_lines},
};
use serde_json::json;

use super::{
    App,
    selection::{SelectionArgs, operator},
    undo::notes,
};
use crate::{
    exit::Exit,
    stop::Stop,
    terminal::{Format, Page, Style},
};

/// The largest content compared line by line.
const MAX_COMPARED_BYTES: u64 = 32 * 1024 * 1024;

/// How much of an artifact is read at once.
const CHUNK_BYTES: usize = 1024 * 1024;

/// Show everything calls changed, as one diff
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  haft diff
  haft diff --session
  haft diff --since 1h --stat
  haft diff --session | less")]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    selection: SelectionArgs,
    /// Only how many lines changed in each file
    #[arg(long)]
    stat: bool,
}

/// Runs the command.
pub(crate) async fn run(args: &DiffArgs, app: &App) -> Result<Exit, Stop> {
    let settings = app.settings()?;
    let ledger = app.record().await?;
    let principal = operator(&app.env)?;
    let here = WorkspacesHere::find(&settings, &ledger).await?.ids();
    let changed = args
        .selection
        .of(&principal)
        .find(&ledger, &principal, &here)
        .await?;
    let artifacts = ledger.artifacts();
    let (mut added, mut removed, mut files) = (0, 0, 0_u64);
    let files_only = |path: &WorkPath| GitPart::of(path).is_none();
    let in_order = changed.folded.files.iter();
    for (path, change) in in_order.filter(|(path, _)| files_only(path)) {
        let Some(shown) = show(&*artifacts, path, change).await? else {
            continue;
        };
        files += 1;
        added += shown.added;
        removed += shown.removed;
        print(&shown, args, app)?;
    }
    for line in git_lines(&changed.folded) {
        match app.output.format() {
            Format::Json => app.output.json_line(&json!({ "git": line }))?,
            Format::Text => app
                .output
                .page(&Page::new().text(format!("git: {line}")).end())?,
        }
    }
    for change in &changed.folded.rows {
        let line = change.line();
        match app.output.format() {
            Format::Json => app.output.json_line(&json!({ "rows": line }))?,
            Format::Text => app
                .output
                .page(&Page::new().text(format!("rows: {line}")).end())?,
        }
    }
    if args.stat && app.output.format() == Format::Text {
        let (file, line) = (plural(files, "file"), plural(added, "line"));
        let total = format!("{file}, {line} added, {removed} removed");
        app.output
            .page(&Page::new().styled(Style::Strong, total).end())?;
    }
    app.notes(&notes(&changed));
    Ok(Exit::Ok)
}

fn print(shown: &ShownChange, args: &DiffArgs, app: &App) -> Result<(), Stop> {
    let diff = &shown.diff;
    if app.output.format() == Format::Json {
        return app.output.json_line(&json!({
            "path": diff.path.as_str(),
            "change": diff.change.as_str(),
            "added": shown.added,
            "removed": shown.removed,
            "note": diff.note,
            "diff": if args.stat { None } else { Some(&diff.text) },
        }));
    }
    if args.stat {
        let page = Page::new()
            .styled(Style::Good, format!("{:>6}", format!("+{}", shown.added)))
            .styled(Style::Bad, format!(" {:>6}", format!("-{}", shown.removed)))
            .text(format!("  {} {}", diff.change.as_str(), diff.path))
            .end();
        return app.output.page(&page);
    }
    app.output.content(&diff.text)?;
    match &diff.note {
        Some(note) => {
            let line = format!("{} {}: {note}", diff.change.as_str(), diff.path);
            app.output.page(&Page::new().text(line).end())
        }
        None => Ok(()),
    }
}

/// One file's change; `None` if it ends with the content it started with.
pub(crate) async fn show(
    artifacts: &dyn ArtifactStore,
    path: &WorkPath,
    change: &FoldedChange,
) -> Result<Option<ShownChange>, Stop> {
    if change.before.is_same(&change.after) {
        return Ok(None);
    }
    let before = held(artifacts, &change.before).await?;
    let after = held(artifacts, &change.after).await?;
    let there = |held: &HeldContent| match held {
        HeldContent::Nothing => None,
        HeldContent::Bytes(bytes) => Some(bytes.clone()),
        // Shown as present and empty; the note says that the content is unknown.
        HeldContent::NotKept => Some(Vec::new()),
    };
    let (old, new) = (there(&before), there(&after));
    let file = FileChange {
        path,
        to: None,
        before: old.as_deref(),
        after: new.as_deref(),
    };
    let mut shown = file.show();
    if matches!(before, HeldContent::NotKept) || matches!(after, HeldContent::NotKept) {
        shown.diff.text = String::new();
        shown.diff.note = Some("its content is not kept".to_owned());
        (shown.added, shown.removed) = (0, 0);
    }
    Ok(Some(shown))
}

enum HeldContent {
    Nothing,
    Bytes(Vec<u8>),
    NotKept,
}

async fn held(artifacts: &dyn ArtifactStore, state: &FileState) -> Result<HeldContent, Stop> {
    let content = match state {
        FileState::Absent => return Ok(HeldContent::Nothing),
        FileState::File {
            content: Some(content),
            ..
        } if content.bytes <= MAX_COMPARED_BYTES => *content,
        FileState::File { .. } | FileState::Unknown => return Ok(HeldContent::NotKept),
    };
    let artifact = match artifacts.open(content).await {
        Ok(artifact) => artifact,
        Err(error) => {
            return match error.kind() {
                LedgerErrorKind::NotFound | LedgerErrorKind::Corrupt => Ok(HeldContent::NotKept),
                _ => Err(Stop::ledger(&error)),
            };
        }
    };
    let mut bytes = Vec::new();
    loop {
        let chunk = artifact
            .read_at(bytes.len() as u64, CHUNK_BYTES)
            .await
            .map_err(|error| Stop::ledger(&error))?;
        if chunk.is_empty() {
            return Ok(HeldContent::Bytes(bytes));
        }
        bytes.extend_from_slice(&chunk);
    }
}

/// So many of something, in words.
fn plural(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        more => format!("{more} {what}s"),
    }
}
