//! `haft show`: everything on record about one call, told in order.

use clap::Args;
use haft_contract::{
    TenantId,
    host::{History as _, Ledger as _},
};
use haft_host::call_lookup;
use haft_tools::undo::{FoldedChanges, git_lines};
use serde::Serialize;

use super::{App, diff, scope::WorkspaceArgs};
use crate::{
    exit::Exit,
    stop::Stop,
    terminal::Format,
    view::{
        call::{CallView, EventView},
        story,
    },
};

/// Show everything recorded about one call
#[derive(Debug, Args)]
#[command(after_help = "`--json` has every field of every event, as it was recorded.")]
pub(crate) struct ShowArgs {
    /// The call's id, the beginning of it, or `last`
    #[arg(default_value = "last")]
    id: String,
    #[command(flatten)]
    workspaces: WorkspaceArgs,
}

/// Everything about a call, for programs.
#[derive(Debug, Serialize)]
struct ShowView {
    #[serde(flatten)]
    call: CallView,
    /// What it did to the git repository.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    git: Vec<String>,
    events: Vec<EventView>,
}

/// Runs the command.
pub(crate) async fn run(args: &ShowArgs, app: &App) -> Result<Exit, Stop> {
    let (ledger, scope) = app.record_of(args.workspaces).await?;
    let tenant = TenantId::local();
    let failed = |error| Stop::ledger(&error);
    let call = call_lookup::call(&ledger, &args.id, scope.filter()).await?;
    let events = ledger.events(&tenant, call.id).await.map_err(failed)?;
    let changes = ledger.changes(&tenant, &[call.id]).await.map_err(failed)?;
    let folded = FoldedChanges::of(&changes);
    let git = git_lines(&folded);
    let view = CallView::of(&call);
    if app.output.format() == Format::Json {
        let view = view.in_workspace(scope.workspaces.root_of_call(&call));
        let events = events.iter().map(EventView::of).collect();
        app.output.json(&ShowView {
            call: view,
            git,
            events,
        })?;
        return Ok(Exit::Ok);
    }
    let artifacts = ledger.artifacts();
    let mut diffs = Vec::new();
    for (path, change) in &folded.files {
        diffs.extend(diff::show(&*artifacts, path, change).await?);
    }
    let view = view.in_workspace(scope.workspaces.of_call(&call));
    app.output
        .page(&story::tell(&call, &view, &events, &git, &diffs))?;
    Ok(Exit::Ok)
}
