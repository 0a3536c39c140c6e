//! `haft sessions`: the conversations that made calls, most recently active first.

use clap::Args;
use haft_contract::{
    TenantId,
    host::{History as _, StoredSession},
};
use serde::Serialize;

use super::{
    App,
    scope::{RecordScope, WorkspaceArgs},
};
use crate::{
    exit::Exit,
    stop::Stop,
    terminal::{Format, Page, Style},
    view::{
        table::{self, Cell, Fit},
        time,
    },
};

/// The widest column of a session's name on a terminal.
const MAX_NAME_COLUMNS: usize = 40;

/// List the conversations that made calls
#[derive(Debug, Args)]
pub(crate) struct SessionsArgs {
    #[command(flatten)]
    workspaces: WorkspaceArgs,
    /// At most this many
    #[arg(long, short = 'n', value_name = "NUMBER", default_value_t = 20)]
    limit: usize,
}

/// A session for programs.
#[derive(Debug, Serialize)]
struct SessionView {
    session: String,
    kind: String,
    agent: String,
    workspace: String,
    workspace_id: String,
    first: String,
    last: String,
    calls: u64,
}

/// Runs the command.
pub(crate) async fn run(args: &SessionsArgs, app: &App) -> Result<Exit, Stop> {
    let (ledger, scope) = app.record_of(args.workspaces).await?;
    let sessions = ledger
        .sessions(&TenantId::local(), scope.only(), args.limit)
        .await
        .map_err(|error| Stop::ledger(&error))?;
    if app.output.format() == Format::Json {
        let views: Vec<SessionView> = sessions.iter().map(|one| view(one, &scope)).collect();
        app.output.json_list(&views)?;
        return Ok(Exit::Ok);
    }
    if sessions.is_empty() {
        let text = format!("no sessions {}", scope.in_words());
        app.output.note(&Page::new().text(text).end());
        return Ok(Exit::Ok);
    }
    let lines: Vec<Vec<Cell>> = sessions.iter().map(|one| line(one, &scope)).collect();
    let fits = [
        Fit::Whole,
        Fit::AtMost(MAX_NAME_COLUMNS),
        Fit::Whole,
        Fit::Whole,
        Fit::Rest,
    ];
    app.output
        .page(&table::table(&fits, &lines, table::screen_width()))?;
    Ok(Exit::Ok)
}

fn view(session: &StoredSession, scope: &RecordScope) -> SessionView {
    SessionView {
        session: session.id.to_string(),
        kind: session.kind.to_string(),
        agent: session.agent.clone(),
        workspace: scope.workspaces.root(&session.workspace),
        workspace_id: session.workspace.to_string(),
        first: time::rfc3339(session.first),
        last: time::rfc3339(session.last),
        calls: session.calls,
    }
}

fn line(session: &StoredSession, scope: &RecordScope) -> Vec<Cell> {
    let calls = match session.calls {
        1 => "1 call".to_owned(),
        more => format!("{more} calls"),
    };
    let mut line = vec![
        Cell::new(Style::Dim, time::short(session.last)),
        Cell::new(Style::Strong, session.id.as_str()),
        Cell::new(Style::Plain, format!("{calls:>9}")),
        Cell::new(Style::Plain, &session.agent),
    ];
    line.push(if scope.has_several() {
        Cell::new(Style::Dim, scope.workspaces.name(&session.workspace))
    } else {
        Cell::new(Style::Dim, format!("since {}", time::short(session.first)))
    });
    line
}
