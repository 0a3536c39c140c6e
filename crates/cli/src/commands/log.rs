//! `haft log`: the recorded calls and how they ended, newest last; and whether the record is
//! unaltered.

use std::time::Duration;

use clap::{Args, Subcommand};
use haft_contract::{
    CallId, SessionId, TenantId, Terminal,
    host::{CallQuery, History as _, StoredCall, Verification},
};
use haft_host::Record;
use haft_ledger::SqliteLedger;
use serde_json::json;

use super::App;
use crate::{
    exit::Exit,
    stop::Stop,
    terminal::{Format, Page, Style},
    view::{
        call::{CallView, outcome, outcome_style, prefix_length},
        time,
    },
};

/// How often `--follow` polls.
const FOLLOW: Duration = Duration::from_millis(300);

/// The most calls `--follow` reads at once.
const MAX_FOLLOWED: usize = 1_000;

/// List recorded calls, newest last
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub(crate) struct LogArgs {
    #[command(subcommand)]
    command: Option<LogCommand>,
    /// Only calls whose tool, input, paths, commands or output (its ends) hold these words
    search: Vec<String>,
    /// Only calls of this session
    #[arg(long, value_name = "NAME")]
    session: Option<SessionId>,
    /// Only calls with this outcome
    #[arg(long, value_name = "OUTCOME", value_parser = terminal)]
    outcome: Option<Terminal>,
    /// At most this many calls
    #[arg(long, short = 'n', value_name = "NUMBER", default_value_t = 20)]
    limit: usize,
    /// Keep printing calls as they end
    #[arg(long, short = 'f')]
    follow: bool,
}

#[derive(Debug, Subcommand)]
enum LogCommand {
    /// Recompute the chain of hashes and name the first record that is not as it was written
    Verify,
}

/// Runs the command.
pub(crate) async fn run(args: LogArgs, app: &App) -> Result<Exit, Stop> {
    let Record {
        ledger, recovery, ..
    } = Record::open_to_look(&app.places()?).await?;
    app.recovered(&recovery);
    match args.command {
        Some(LogCommand::Verify) => verify(&ledger, app).await,
        None => list(args, &ledger, app).await,
    }
}

async fn verify(ledger: &SqliteLedger, app: &App) -> Result<Exit, Stop> {
    let found = ledger
        .verify(&TenantId::local())
        .await
        .map_err(|error| Stop::ledger(&error))?;
    let json = app.output.format() == Format::Json;
    match found {
        Verification::Intact { records } => {
            if json {
                app.output
                    .json(&json!({"intact": true, "records": records}))?;
            } else {
                let page = Page::new()
                    .styled(Style::Good, "intact")
                    .text(format!(": {records} records are as they were written"));
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
                format!("record {sequence} is not as it was written: {reason}"),
                "everything before it still holds; keep the files and find out who wrote to them",
            ))
        }
    }
}

async fn list(args: LogArgs, ledger: &SqliteLedger, app: &App) -> Result<Exit, Stop> {
    let tenant = TenantId::local();
    let words = args.search.join(" ");
    let mut query = CallQuery {
        session: args.session,
        search: Some(words).filter(|words| !words.trim().is_empty()),
        terminal: args.outcome,
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
            Some(words) => format!("no calls match `{words}`"),
            None => "no calls".to_owned(),
        };
        app.output.note(&Page::new().text(what).end());
    }
    let shown = prefix_length(
        &calls
            .iter()
            .map(|call| call.id.to_string())
            .collect::<Vec<_>>(),
    );
    let mut open: Vec<CallId> = Vec::new();
    for call in &calls {
        if args.follow && call.terminal.is_none() {
            open.push(call.id);
        } else {
            print(call, shown, app)?;
        }
    }
    if !args.follow {
        return Ok(Exit::Ok);
    }
    // Calls recorded from now on, whatever their outcome; each is printed once it has one.
    let wanted = query.terminal.take();
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
        let mut fresh = ledger
            .calls(&tenant, &query)
            .await
            .map_err(|error| Stop::ledger(&error))?;
        fresh.reverse();
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
                Some(call) if wanted.is_none() || call.terminal == wanted => {
                    print(&call, shown, app)?;
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

fn print(call: &StoredCall, shown: usize, app: &App) -> Result<(), Stop> {
    if app.output.format() == Format::Json {
        return app.output.json_line(&CallView::of(call));
    }
    let id: String = call.id.to_string().chars().take(shown).collect();
    let tool = call.tool.as_deref().unwrap_or(&call.asked_tool);
    let tool = tool.strip_prefix("builtin/").unwrap_or(tool);
    let page = Page::new()
        .styled(Style::Strong, id)
        .styled(Style::Dim, format!("  {}  ", time::local(call.opened)))
        .styled(
            outcome_style(call.terminal),
            format!("{:<9}", outcome(call.terminal)),
        )
        .text(format!("  {tool:<8}  {}", call.summary))
        .styled(
            Style::Dim,
            format!("  ({} in {})", call.agent, call.session),
        )
        .end();
    app.output.page(&page)
}

fn terminal(word: &str) -> Result<Terminal, String> {
    Terminal::parse(word).ok_or_else(|| {
        let known: Vec<&str> = Terminal::ALL
            .iter()
            .map(|terminal| terminal.as_str())
            .collect();
        format!("known: {}", known.join(", "))
    })
}
