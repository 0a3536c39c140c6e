//! `haft log`: the recorded calls and how they ended, newest last; and whether the record is
//! unaltered.

use std::{
    fmt::Display,
    io::{ErrorKind, Read},
    path::PathBuf,
    time::Duration,
};

use clap::{Args, Subcommand};
use haft_contract::{
    CallId, SessionId, TenantId, Terminal,
    host::{
        CallFilter, CallOutcome, CallQuery, Clock as _, History as _, LedgerError, StoredCall,
        Timestamp, Verification,
    },
};
use haft_host::{error::chain, record_file, relative_time::RelativeTime};
use haft_ledger::{SignatureCheck, StoredLedger, TransferError};
use haft_runtime::SystemClock;
use serde::Serialize;
use serde_json::json;

use super::{
    App,
    scope::{RecordScope, WorkspaceArgs},
};
use crate::{
    exit::Exit,
    stop::Stop,
    terminal::{Format, Page, Style, bar},
    view::{
        call::{CallView, OPEN, outcome, outcome_style, prefix_length},
        moment::{Moment, moment},
        table::{self, Cell, Fit},
        time,
    },
};

/// How often `--follow` polls.
const FOLLOW: Duration = Duration::from_millis(300);

/// The most calls `--follow` reads at once.
const MAX_FOLLOWED: usize = 1_000;

/// The widest columns of a tool, an agent and a workspace on a terminal.
const MAX_TOOL_COLUMNS: usize = 20;
const MAX_AGENT_COLUMNS: usize = 14;
const MAX_WORKSPACE_COLUMNS: usize = 28;

/// List recorded calls, newest last
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    after_help = "\
Examples:
  haft log --since yesterday --outcome denied
  haft log --tool bash --agent claude-code cargo
  haft log --outcome open
  haft log -C ~/other        the calls of another workspace
  haft log --all-workspaces --jsonl | jq .summary
A time is 2h, 7d, today, yesterday, 2026-11-18, or 2026-11-18T14:30:00Z; a day counts as a whole."
)]
pub(crate) struct LogArgs {
    #[command(subcommand)]
    command: Option<LogCommand>,
    /// Only calls whose tool, input, paths, commands or output (its beginning and end) contain these words
    search: Vec<String>,
    #[command(flatten)]
    calls: CallArgs,
    /// Only calls of this session
    #[arg(long, value_name = "NAME")]
    session: Option<SessionId>,
    /// Only calls with this outcome; `open` for calls that have not ended
    #[arg(long, value_name = "OUTCOME", value_parser = call_outcome)]
    outcome: Option<CallOutcome>,
    /// At most this many calls
    #[arg(long, short = 'n', value_name = "NUMBER", default_value_t = 20)]
    limit: usize,
    /// Keep printing calls as they end
    #[arg(long, short = 'f')]
    follow: bool,
}

/// Which calls are listed or counted.
#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// Only calls made at this time or later
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) since: Option<Moment>,
    /// Only calls made before this time; a day counts to its end
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) until: Option<Moment>,
    /// Only calls of this agent
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Only calls of this tool
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    #[command(flatten)]
    pub(crate) workspaces: WorkspaceArgs,
}

impl CallArgs {
    /// The calls to list.
    pub(crate) fn filter(&self, scope: &RecordScope) -> CallFilter {
        let now = SystemClock.now();
        CallFilter {
            since: self.since.as_ref().map(|since| since.begin(now)),
            until: self.until.as_ref().map(|until| until.end(now)),
            agent: self.agent.clone(),
            tool: self.tool.clone(),
            ..scope.filter()
        }
    }
}

#[derive(Debug, Subcommand)]
enum LogCommand {
    /// Recompute the chain of hashes and name the first record that fails
    Verify {
        /// Check this export instead of the record
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        #[command(flatten)]
        key: KeyArgs,
    },
    /// Write the record as text, which can be checked and imported elsewhere
    Export {
        /// Only calls made within this time: 90s, 10m, 2h, 7d, 4w [default: all of them]
        #[arg(long, value_name = "TIME")]
        since: Option<RelativeTime>,
        /// Write to this new file [default: standard output]
        #[arg(long, short = 'o', value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Read an export into the record: all of it, or nothing if anything is wrong with it
    Import {
        /// The export
        file: PathBuf,
        #[command(flatten)]
        key: KeyArgs,
    },
}

#[derive(Debug, Args)]
struct KeyArgs {
    /// The key of the record that was exported (`record/checkpoint.key` in its data directory)
    /// [default: this record's own]
    #[arg(long, value_name = "FILE", requires = "file")]
    key: Option<PathBuf>,
    /// Accept an export whose signatures cannot be checked
    #[arg(long, conflicts_with = "key", requires = "file")]
    without_key: bool,
}

impl KeyArgs {
    fn signature(&self) -> Result<SignatureCheck, Stop> {
        let signature = record_file::signature(self.key.as_deref(), self.without_key);
        signature.map_err(|error| transfer(&error))
    }
}

/// Runs the command.
pub(crate) async fn run(args: LogArgs, app: &App) -> Result<Exit, Stop> {
    let ledger = app.record().await?;
    match args.command {
        Some(LogCommand::Verify { file: None, .. }) => verify(&ledger, app).await,
        Some(LogCommand::Verify {
            file: Some(file),
            key,
        }) => {
            let (file, length) = record_file::open(&file).map_err(|error| transfer(&error))?;
            let checked = ledger.check_export(watched(app, file, length), key.signature()?);
            report(app, checked.await)
        }
        Some(LogCommand::Export { since, out }) => {
            let since = since.map(|since| since.before(SystemClock.now()));
            export(since, out, &ledger, app).await
        }
        Some(LogCommand::Import { file, key }) => {
            let (tenant, signature) = (TenantId::local(), key.signature()?);
            let watched = |file, length| watched(app, file, length);
            let imported =
                record_file::import_from(&file, &ledger, &tenant, signature, watched).await;
            report(app, imported)
        }
        None => list(args, &ledger, app).await,
    }
}

async fn verify(ledger: &StoredLedger, app: &App) -> Result<Exit, Stop> {
    // What the lists are compared with; in a long record it takes longer than the check.
    if let Err(error) = catch_up(ledger, app).await {
        tracing::debug!(%error, "the lists have not caught up");
    }
    let bar = bar(
        app.output,
        None,
        "checking the record {wide_bar} {percent} %",
    );
    let found = ledger
        .verify_with(&TenantId::local(), &|reached, newest| {
            bar.set_length(newest);
            bar.set_position(reached);
        })
        .await
        .map_err(|error| Stop::ledger(&error))?;
    bar.finish_and_clear();
    let json = app.output.format() == Format::Json;
    match found {
        Verification::Intact { records } => {
            if json {
                app.output
                    .json(&json!({"intact": true, "records": records}))?;
            } else {
                let page = Page::new()
                    .styled(Style::Good, "intact")
                    .text(format!(": {records} records verified"));
                app.output.page(&page.end())?;
            }
            Ok(Exit::Ok)
        }
        Verification::Broken { sequence, reason } => {
            if json {
                app.output
                    .json(&json!({"intact": false, "first_bad": sequence, "reason": reason}))?;
                return Ok(Exit::Ledger);
            }
            Err(Stop::new(
                Exit::Ledger,
                format!("record {sequence} fails verification: {reason}"),
                "everything before it is intact; keep the files and find out who wrote to them",
            ))
        }
    }
}

async fn export(
    since: Option<Timestamp>,
    out: Option<PathBuf>,
    ledger: &StoredLedger,
    app: &App,
) -> Result<Exit, Stop> {
    let tenant = TenantId::local();
    let bar = bar(app.output, None, "exporting {wide_bar} {percent} %");
    let progress = |reached, newest| {
        bar.set_length(newest);
        bar.set_position(reached);
    };
    if let Some(path) = out {
        let exported = record_file::export_to(&path, ledger, &tenant, since, &progress).await;
        bar.finish_and_clear();
        return report(app, exported);
    }
    let out = Box::new(std::io::stdout());
    let exported = ledger.export(&tenant, since, out, &progress).await;
    bar.finish_and_clear();
    exported.map_err(|error| transfer(&error))?;
    Ok(Exit::Ok)
}

/// Says what was read or written.
fn report<T: Serialize + Display>(app: &App, done: Result<T, TransferError>) -> Result<Exit, Stop> {
    let done = done.map_err(|error| transfer(&error))?;
    if app.output.format() == Format::Json {
        app.output.json(&done)?;
    } else {
        let page = Page::new().styled(Style::Good, "done");
        app.output.page(&page.text(format!(": {done}")).end())?;
    }
    Ok(Exit::Ok)
}

/// Shows how far a file has been read.
fn watched(app: &App, file: std::fs::File, length: u64) -> Box<dyn Read + Send> {
    let bar = bar(app.output, Some(length), "reading {wide_bar} {percent} %");
    Box::new(bar.wrap_read(file))
}

pub(crate) fn transfer(error: &TransferError) -> Stop {
    match error {
        TransferError::Write(gone) if gone.kind() == ErrorKind::BrokenPipe => Stop::reader_gone(),
        _ => Stop::new(Exit::Ledger, chain(error), error.hint()),
    }
}

/// Makes searchable what was recorded since the last search. In a long record that takes a while.
pub(crate) async fn catch_up(ledger: &StoredLedger, app: &App) -> Result<(), LedgerError> {
    let mut left = ledger.catch_up().await?;
    if left == 0 {
        return Ok(());
    }
    let all = left;
    let template = "making the record searchable {wide_bar} {percent} %";
    let bar = bar(app.output, Some(all), template);
    while left > 0 {
        left = ledger.catch_up().await?;
        bar.set_position(all.saturating_sub(left));
    }
    bar.finish_and_clear();
    Ok(())
}

async fn list(args: LogArgs, ledger: &StoredLedger, app: &App) -> Result<Exit, Stop> {
    let tenant = TenantId::local();
    let words = args.search.join(" ");
    let scope = app.scope_of(args.calls.workspaces, ledger).await?;
    let filter = args.calls.filter(&scope);
    let is_narrowed = filter != scope.filter() || args.session.is_some() || args.outcome.is_some();
    let mut query = CallQuery {
        filter,
        session: args.session,
        search: Some(words).filter(|words| !words.trim().is_empty()),
        outcome: args.outcome,
        before: None,
        after: None,
        limit: args.limit,
    };
    let mut calls = ledger
        .calls(&tenant, &query)
        .await
        .map_err(|error| Stop::ledger(&error))?;
    calls.reverse();
    if calls.is_empty() && !args.follow && app.output.format() == Format::Text {
        let what = match &query.search {
            Some(words) => format!("no calls match `{words}` {}", scope.in_words()),
            None if is_narrowed => format!("no calls {} match these options", scope.in_words()),
            None => format!("no calls {}", scope.in_words()),
        };
        app.output.note(&Page::new().text(what).end());
    }
    let mut open: Vec<CallId> = Vec::new();
    if args.follow {
        let running = calls.iter().filter(|call| call.terminal.is_none());
        open.extend(running.map(|call| call.id));
        calls.retain(|call| call.terminal.is_some());
    }
    let shown = prefix_length(
        &calls
            .iter()
            .map(|call| call.id.to_string())
            .collect::<Vec<_>>(),
    );
    let lines = |calls: &[StoredCall]| match app.output.format() {
        Format::Json => {
            let views: Vec<CallView> = calls.iter().map(|call| view(call, &scope)).collect();
            if args.follow {
                // An array would have no end.
                return views.iter().try_for_each(|view| app.output.json_line(view));
            }
            app.output.json_list(&views)
        }
        Format::Text => app.output.page(&table(calls, shown, &scope)),
    };
    if !(args.follow && calls.is_empty()) {
        lines(&calls)?;
    }
    if !args.follow {
        return Ok(Exit::Ok);
    }
    // Calls recorded from now on, whatever their outcome; each is printed once it has one.
    let wanted = query.outcome.take();
    let newest = ledger
        .calls(
            &tenant,
            &CallQuery {
                limit: 1,
                ..CallQuery::default()
            },
        )
        .await
        .map_err(|error| Stop::ledger(&error))?;
    query.after = Some(newest.first().map_or(0, |call| call.position));
    query.limit = MAX_FOLLOWED;
    loop {
        let fresh = ledger
            .calls(&tenant, &query)
            .await
            .map_err(|error| Stop::ledger(&error))?;
        if let Some(newest) = fresh.last() {
            query.after = Some(newest.position);
        }
        open.extend(fresh.iter().map(|call| call.id));
        let mut still_open = Vec::new();
        for id in open {
            match ledger
                .call(&tenant, id)
                .await
                .map_err(|error| Stop::ledger(&error))?
            {
                Some(call) if call.terminal.is_none() => still_open.push(id),
                Some(call) if wanted.is_none_or(|wanted| wanted.wants(call.terminal)) => {
                    lines(&[call])?;
                }
                Some(_) | None => {}
            }
        }
        open = still_open;
        tokio::select! {
            () = tokio::time::sleep(FOLLOW) => {}
            _ = tokio::signal::ctrl_c() => return Ok(Exit::Ok),
        }
    }
}

/// A call for programs, with the name of its workspace.
fn view(call: &StoredCall, scope: &RecordScope) -> CallView {
    CallView::of(call).in_workspace(scope.workspaces.root_of_call(call))
}

/// Calls as lines that fit the terminal.
pub(crate) fn table(calls: &[StoredCall], shown: usize, scope: &RecordScope) -> Page {
    let lines: Vec<Vec<Cell>> = calls.iter().map(|call| line(call, shown, scope)).collect();
    let fits = [
        Fit::Whole,
        Fit::Whole,
        Fit::Whole,
        Fit::AtMost(MAX_TOOL_COLUMNS),
        Fit::Rest,
        Fit::AtMost(MAX_AGENT_COLUMNS),
        Fit::EndOf(MAX_WORKSPACE_COLUMNS),
    ];
    let columns = fits.len() - usize::from(!scope.has_several());
    let fits = fits.get(..columns).unwrap_or_default();
    table::table(fits, &lines, table::screen_width())
}

fn line(call: &StoredCall, shown: usize, scope: &RecordScope) -> Vec<Cell> {
    let id: String = call.id.to_string().chars().take(shown).collect();
    let tool = call.tool.as_deref().unwrap_or(&call.asked_tool);
    let tool = tool.strip_prefix("builtin/").unwrap_or(tool);
    let mut line = vec![
        Cell::new(Style::Strong, id),
        Cell::new(Style::Dim, time::short(call.opened)),
        Cell::new(outcome_style(call.terminal), outcome(call.terminal)),
        Cell::new(Style::Plain, tool),
        Cell::new(Style::Plain, &call.summary),
        Cell::new(Style::Dim, &call.agent),
    ];
    if let Some(workspace) = scope.said_of(call) {
        line.push(Cell::new(Style::Dim, workspace));
    }
    line
}

fn call_outcome(word: &str) -> Result<CallOutcome, String> {
    if word == OPEN {
        return Ok(CallOutcome::Open);
    }
    Terminal::parse(word)
        .map(CallOutcome::Ended)
        .ok_or_else(|| {
            let known = Terminal::ALL.iter().map(|terminal| terminal.as_str());
            let known: Vec<&str> = [OPEN].into_iter().chain(known).collect();
            format!("known: {}", known.join(", "))
        })
}
