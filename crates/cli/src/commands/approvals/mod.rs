//! `haft approvals`: the questions that wait for a person, as a list or as a live screen.
//! `answer.rs` has `haft approve` and `haft deny`.

mod always;
pub(crate) mod answer;
mod find;

use haft_contract::TenantId;
use std::{io::IsTerminal as _, sync::Arc, time::Duration};

use clap::Args;
use haft_contract::host::{Approval, ApprovalStore, Clock as _, Ledger as _, Timestamp};
use haft_host::{
    Record, ancestry,
    recorded_question::{is_about, shown_in, why_asked, workspace_of},
};
use haft_ledger::StoredLedger;
use haft_runtime::SystemClock;
use serde::Serialize;
use tokio::task::JoinHandle;

use super::{
    App,
    scope::{RecordScope, WorkspaceArgs},
};
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
    /// Follow and answer them on the full screen
    #[arg(long, short = 'w')]
    watch: bool,
    #[command(flatten)]
    workspaces: WorkspaceArgs,
}

/// A question for programs.
#[derive(Debug, Serialize)]
pub(crate) struct ApprovalView {
    question: String,
    call: String,
    state: &'static str,
    asked: String,
    expires: String,
    user: String,
    agent: String,
    session: String,
    /// What people know its workspace by.
    workspace: String,
    summary: String,
    digest: String,
    /// Whether the record has all of it, so that it can be answered away from where it was asked.
    complete: bool,
}

impl ApprovalView {
    fn of(approval: &Approval, workspace: String) -> Self {
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
            workspace,
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
        let ledger = app.record().await?;
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
        why_asked(&self.ledger, &TenantId::local(), question.call).await
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
        let scope = app.scope_of(args.workspaces, &desk.ledger).await?;
        let settling = settle_what_is_left(app)?;
        let questions = watch::WatchedQuestions {
            ledger: desk.ledger.clone(),
            store: Arc::clone(&desk.store),
            tenant: TenantId::local(),
            name: desk.name.clone(),
            scope,
        };
        let watched = watch::run(questions, app.env.home_text(), app.output).await;
        settling.abort();
        desk.close().await;
        return watched;
    }
    let desk = RecordedQuestions::open(app).await?;
    let scope = app.scope_of(args.workspaces, &desk.ledger).await?;
    let all = desk.pending(MAX_LISTED).await?.len();
    let pending = pending(&desk.ledger, &scope, MAX_LISTED).await?;
    if app.output.format() == Format::Json {
        let mut views = Vec::with_capacity(pending.len());
        for question in &pending {
            views.push(view(&desk.ledger, question, &scope).await);
        }
        desk.close().await;
        app.output.json_list(&views)?;
        return Ok(Exit::Ok);
    }
    let page = list(&desk.ledger, &pending, &scope, SystemClock.now()).await;
    desk.close().await;
    let elsewhere = all.saturating_sub(pending.len());
    if elsewhere > 0 {
        let text = format!("{elsewhere} more in other workspaces; `--all-workspaces` lists them");
        app.output.note(&Page::new().styled(Style::Dim, text).end());
    }
    if pending.is_empty() {
        let text = format!("no questions are waiting {}", scope.in_words());
        app.output.note(&Page::new().text(text).end());
        return Ok(Exit::Ok);
    }
    app.output.page(&page)?;
    Ok(Exit::Ok)
}

/// How often a screen that stays open looks for processes that are gone.
const SETTLE_EVERY: Duration = Duration::from_secs(5);

/// Settles what processes leave that end while a screen is open, and withdraws their questions: opening the
/// record does that.
fn settle_what_is_left(app: &App) -> Result<JoinHandle<()>, Stop> {
    let places = app.places()?;
    Ok(tokio::spawn(async move {
        loop {
            tokio::time::sleep(SETTLE_EVERY).await;
            match Record::open_to_look(&places).await {
                Ok(record) => {
                    if let Err(error) = record.ledger.close().await {
                        tracing::debug!(%error, "the record could not be closed");
                    }
                }
                Err(error) => tracing::debug!(%error, "the record could not be opened"),
            }
        }
    }))
}

/// The open questions of the workspaces in scope, oldest first.
pub(crate) async fn pending(
    ledger: &StoredLedger,
    scope: &RecordScope,
    limit: usize,
) -> Result<Vec<Approval>, Stop> {
    let store = ledger.approvals();
    let pending = store
        .pending(&TenantId::local(), SystemClock.now(), limit)
        .await
        .map_err(|error| Stop::ledger(&error))?;
    let mut wanted = Vec::with_capacity(pending.len());
    for question in pending {
        if is_about(ledger, &question, scope.only()).await {
            wanted.push(question);
        }
    }
    Ok(wanted)
}

/// What people know the workspace of a question by.
pub(crate) async fn workspace_name(
    ledger: &StoredLedger,
    question: &Approval,
    scope: &RecordScope,
) -> String {
    match (shown_in(question), workspace_of(ledger, question).await) {
        (Some(root), _) => scope.workspaces.below_home(root),
        (None, Some(id)) => scope.workspaces.name(&id),
        (None, None) => String::new(),
    }
}

/// A question for programs.
pub(crate) async fn view(
    ledger: &StoredLedger,
    question: &Approval,
    scope: &RecordScope,
) -> ApprovalView {
    let workspace = match (shown_in(question), workspace_of(ledger, question).await) {
        (Some(root), _) => root.to_owned(),
        (None, Some(id)) => scope.workspaces.root(&id),
        (None, None) => String::new(),
    };
    ApprovalView::of(question, workspace)
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

/// Questions, one on each line.
pub(crate) async fn list(
    ledger: &StoredLedger,
    pending: &[Approval],
    scope: &RecordScope,
    now: Timestamp,
) -> Page {
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
            );
        if scope.has_several() {
            let name = workspace_name(ledger, approval, scope).await;
            page = page.styled(Style::Dim, format!("  {}", visible::line(&name)));
        }
        page = page.end();
    }
    if pending.len() >= MAX_LISTED {
        page = page
            .styled(Style::Warn, "there are more; these are the oldest")
            .end();
    }
    page
}
