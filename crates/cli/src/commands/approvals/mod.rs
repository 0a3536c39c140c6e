//! `haft approvals`: the questions that wait for a person, as a list or as a live screen.
//! `answer.rs` has `haft approve` and `haft deny`.

mod always;
pub(crate) mod answer;
mod find;

use haft_contract::TenantId;
use std::{io::IsTerminal as _, sync::Arc};

use clap::Args;
use haft_contract::host::{
    Approval, ApprovalStore, Clock as _, History as _, Ledger as _, Timestamp,
};
use haft_host::{Record, ancestry};
use haft_ledger::StoredLedger;
use haft_runtime::SystemClock;
use serde::Serialize;

use super::App;
use crate::{
    exit::Exit,
    stop::Stop,
    terminal::{Format, Page, Style, visible},
    view::{call::prefix_length, question::MAX_LISTED, time},
    watch,
};

/// List the questions that wait for an answer
#[derive(Debug, Args)]
pub(crate) struct ApprovalsArgs {
    /// Follow them on the whole screen, and answer them there
    #[arg(long, short = 'w')]
    watch: bool,
}

/// A question for programs.
#[derive(Debug, Serialize)]
struct ApprovalView {
    question: String,
    call: String,
    state: &'static str,
    asked: String,
    expires: String,
    user: String,
    agent: String,
    session: String,
    summary: String,
    digest: String,
    /// Whether the record has all of it, so that it can be answered away from where it was asked.
    complete: bool,
}

impl ApprovalView {
    fn of(approval: &Approval) -> Self {
        let principal = &approval.principal;
        Self {
            question: approval.id.to_string(),
            call: approval.call.to_string(),
            state: approval.state.as_str(),
            asked: time::rfc3339(approval.asked),
            expires: time::rfc3339(approval.expires),
            user: principal.user.to_string(),
            agent: principal.agent.to_string(),
            session: principal.session.to_string(),
            summary: approval.summary.clone(),
            digest: approval.digest.to_string(),
            complete: approval.form.is_some(),
        }
    }
}

/// The questions in the record.
struct RecordedQuestions {
    ledger: StoredLedger,
    store: Arc<dyn ApprovalStore>,
    /// The name of the person who answers here, for the record.
    name: String,
}

impl RecordedQuestions {
    async fn open(app: &App) -> Result<Self, Stop> {
        let Record {
            ledger, recovery, ..
        } = Record::open_to_look(&app.places()?).await?;
        app.recovered(&recovery);
        let identity = crate::args::IdentityArgs::default();
        let name = identity.principal(&app.env)?.user.to_string();
        Ok(Self {
            store: ledger.approvals(),
            ledger,
            name,
        })
    }

    async fn pending(&self, limit: usize) -> Result<Vec<Approval>, Stop> {
        let tenant = TenantId::local();
        let pending = self.store.pending(&tenant, SystemClock.now(), limit);
        pending.await.map_err(|error| Stop::ledger(&error))
    }

    /// Why a person is asked: the decision of the rules, from the record.
    async fn why(&self, question: &Approval) -> Option<String> {
        let events = self.ledger.events(&TenantId::local(), question.call).await;
        let events = events.ok()?;
        let decided = events.iter().rev().find(|event| event.kind == "decided")?;
        let reason = decided.body.get("reason")?.as_str()?;
        Some(reason.to_owned())
    }

    async fn close(self) {
        if let Err(error) = self.ledger.close().await {
            tracing::error!(%error, "the record could not be closed");
        }
    }
}

/// Runs the command.
pub(crate) async fn run(args: &ApprovalsArgs, app: &App) -> Result<Exit, Stop> {
    if args.watch {
        may_answer()?;
        if !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal()) {
            return Err(Stop::usage(
                "`--watch` needs a terminal, and this is not one",
                "`haft approvals` lists the questions; `haft approve` and `haft deny` answer one",
            ));
        }
        let desk = RecordedQuestions::open(app).await?;
        let store = Arc::clone(&desk.store);
        let (tenant, home) = (TenantId::local(), app.env.home_text());
        let watched = watch::run(store, &desk.ledger, tenant, &desk.name, home, app.output).await;
        desk.close().await;
        return watched;
    }
    let desk = RecordedQuestions::open(app).await?;
    let pending = desk.pending(MAX_LISTED).await?;
    desk.close().await;
    if app.output.format() == Format::Json {
        for approval in &pending {
            app.output.json_line(&ApprovalView::of(approval))?;
        }
        return Ok(Exit::Ok);
    }
    if pending.is_empty() {
        app.output
            .note(&Page::new().text("no question waits").end());
        return Ok(Exit::Ok);
    }
    app.output.page(&list(&pending, SystemClock.now()))?;
    Ok(Exit::Ok)
}

/// Refuses to answer or grant from within a call: an agent would approve itself.
pub(crate) fn may_answer() -> Result<(), Stop> {
    match ancestry::started_by_a_call() {
        None => Ok(()),
        Some(why) => Err(Stop::new(
            Exit::Denied,
            format!(
                "answering, granting and trusting are not allowed from within a call, and {why}"
            ),
            "do it in a terminal of your own",
        )),
    }
}

fn list(pending: &[Approval], now: Timestamp) -> Page {
    let ids: Vec<String> = pending
        .iter()
        .map(|approval| approval.id.to_string())
        .collect();
    let shown = prefix_length(&ids);
    let mut page = Page::new();
    for (approval, id) in pending.iter().zip(ids) {
        let id: String = id.chars().take(shown).collect();
        page = page
            .styled(Style::Strong, id)
            .styled(
                Style::Dim,
                format!("  {:>4}  ", time::rough(now.since(approval.asked))),
            )
            .text(format!(
                "{}  ",
                visible::line(approval.principal.agent.as_str())
            ))
            .text(visible::line(&approval.summary))
            .styled(
                Style::Dim,
                format!("  (lapses in {})", time::rough(approval.expires.since(now))),
            )
            .end();
    }
    if pending.len() >= MAX_LISTED {
        page = page
            .styled(Style::Warn, "there are more; these are the oldest")
            .end();
    }
    page
}
