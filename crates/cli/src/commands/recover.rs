//! `haft recover`: what an interrupted run left behind. Opening the record settles it, whatever the
//! command; this one reports what was settled and can run read-only calls again.

use std::sync::Arc;

use clap::Args;
use haft_contract::CallId;
use haft_host::Record;
use serde_json::json;

use super::{
    App,
    call::{AskArgs, CallSetup, request},
};
use crate::{
    exit::Exit,
    stop::Stop,
    terminal::{Format, Page},
    view::outcome::OutcomeView,
};

/// Settle calls that an interrupted run left open
#[derive(Debug, Args)]
pub(crate) struct RecoverArgs {
    /// Run those that only read again, as new calls
    #[arg(long)]
    rerun_read_only: bool,
}

/// Runs the command.
pub(crate) async fn run(args: &RecoverArgs, app: &App) -> Result<Exit, Stop> {
    let settings = app.settings()?;
    let Record {
        ledger, recovery, ..
    } = Record::open_to_look(&settings.places).await?;
    let ids = |ids: &[CallId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
    let (unknown, never) = (ids(&recovery.settled_unknown), ids(&recovery.never_started));
    if app.output.format() == Format::Json {
        app.output.json_line(&json!({
            "unknown": unknown,
            "never_started": never,
            "lost": recovery.lost,
            "can_run_again": recovery.rerunnable.iter().map(|call| call.id.to_string()).collect::<Vec<_>>(),
        }))?;
    } else {
        let mut page = Page::new();
        for (id, word) in unknown
            .iter()
            .map(|id| (id, "unknown"))
            .chain(never.iter().map(|id| (id, "never started")))
        {
            page = page.text(format!("{id}  {word}")).end();
        }
        for lost in &recovery.lost {
            page = page.text(lost).end();
        }
        if recovery.is_empty() {
            page = page.text("nothing was left open").end();
        }
        app.output.page(&page)?;
    }
    ledger.close().await.map_err(|error| Stop::ledger(&error))?;
    let calls = recovery.rerunnable;
    let Some(first) = calls.first().filter(|_| args.rerun_read_only) else {
        return Ok(Exit::Ok);
    };
    let principal = Arc::clone(&first.principal);
    let asking = AskArgs::default().asking()?;
    let ready = CallSetup::new(app, settings, None, principal, asking, calls.len()).await?;
    let requests = calls
        .into_iter()
        .map(|call| request(call.tool, call.arguments, &call.principal, None))
        .collect();
    let outcomes = ready.batch(requests).await;
    ready.close().await;
    let mut exit = Exit::Ok;
    for outcome in &outcomes {
        app.output.json_line(&OutcomeView::of(outcome))?;
        if exit == Exit::Ok {
            exit = Exit::of_call(outcome);
        }
    }
    Ok(exit)
}
