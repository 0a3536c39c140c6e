//! `haft status`: what waits for a person, what runs, what was denied today, and what agents have left
//! to do.

use clap::Args;
use haft_contract::{
    TenantId, Terminal,
    host::{Approval, CallFilter, CallOutcome, CallQuery, Clock as _, History as _, StoredCall},
    todo::TodoItem,
};
use haft_host::{
    state::running::{self, KeptRules},
    todo_lists::{self, TodoList},
};
use haft_ledger::StoredLedger;
use haft_runtime::SystemClock;
use serde::Serialize;

use super::{
    App, approvals, log,
    scope::{RecordScope, WorkspaceArgs},
};
use crate::{
    exit::Exit,
    stop::Stop,
    terminal::{Format, Page, Style},
    view::{
        call::{CallView, prefix_length},
        moment::Moment,
        question::MAX_LISTED,
        time,
    },
};

/// The most calls of each kind that a person is shown.
const MAX_SHOWN: usize = 10;

/// The most calls of each kind that a program is given.
const MAX_CALLS: usize = 1_000;

/// For how many days a list counts as current after it was set.
const TODO_DAYS: i64 = 7;

/// Show what is waiting, running, denied today and left to do
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    workspaces: WorkspaceArgs,
}

/// The state for programs.
#[derive(Debug, Serialize)]
struct StatusView {
    waits: Vec<approvals::ApprovalView>,
    runs: Vec<CallView>,
    denied_today: Vec<CallView>,
    todo: Vec<TodoView>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    keeps_old_rules: Vec<KeptRulesView>,
}

/// A running Haft whose rules are not those that were trusted last.
#[derive(Debug, Serialize)]
struct KeptRulesView {
    pid: u64,
    why: String,
}

/// A session's list for programs.
#[derive(Debug, Serialize)]
struct TodoView {
    session: String,
    agent: String,
    set: String,
    items: Vec<TodoItemView>,
}

#[derive(Debug, Serialize)]
struct TodoItemView {
    text: String,
    status: &'static str,
}

impl TodoView {
    fn of(list: &TodoList) -> Self {
        let item = |item: &TodoItem| TodoItemView {
            text: item.text.clone(),
            status: item.status.as_str(),
        };
        Self {
            session: list.call.session.to_string(),
            agent: list.call.agent.clone(),
            set: time::rfc3339(list.call.opened),
            items: list.items.iter().map(item).collect(),
        }
    }
}

/// Runs the command.
pub(crate) async fn run(args: &StatusArgs, app: &App) -> Result<Exit, Stop> {
    let (ledger, scope) = app.record_of(args.workspaces).await?;
    let waits = approvals::pending(&ledger, &scope, MAX_LISTED).await?;
    let running = calls(&ledger, scope.filter(), CallOutcome::Open).await?;
    // A call that waits for a person does not run.
    let runs: Vec<StoredCall> = running
        .into_iter()
        .filter(|call| !waits.iter().any(|question| question.call == call.id))
        .collect();
    let today = CallFilter {
        since: Some(Moment::DaysAgo(0).begin(SystemClock.now())),
        ..scope.filter()
    };
    let denied = calls(&ledger, today, CallOutcome::Ended(Terminal::Denied)).await?;
    let lately = CallFilter {
        since: Some(Moment::DaysAgo(TODO_DAYS).begin(SystemClock.now())),
        ..scope.filter()
    };
    let lists = todo_lists::unfinished(&ledger, &TenantId::local(), lately).await;
    let lists = lists.map_err(|error| Stop::ledger(&error))?;
    let kept = running::kept_rules(&app.places()?.data_dir);
    if app.output.format() == Format::Json {
        let view = |call: &StoredCall| {
            CallView::of(call).in_workspace(scope.workspaces.root_of_call(call))
        };
        let mut waiting = Vec::with_capacity(waits.len());
        for question in &waits {
            waiting.push(approvals::view(&ledger, question, &scope).await);
        }
        app.output.json(&StatusView {
            waits: waiting,
            runs: runs.iter().map(view).collect(),
            denied_today: denied.iter().map(view).collect(),
            todo: lists.iter().map(TodoView::of).collect(),
            keeps_old_rules: kept
                .into_iter()
                .map(|KeptRules { pid, why }| KeptRulesView { pid, why })
                .collect(),
        })?;
        return Ok(Exit::Ok);
    }
    let now = SystemClock.now();
    let mut page = kept.iter().fold(Page::new(), |page, kept| {
        page.styled(
            Style::Warn,
            format!(
                "process {} keeps its old rules until it is started again: ",
                kept.pid
            ),
        )
        .text(&kept.why)
        .end()
    });
    page = page.page(heading(&waiting_in_words(&waits), !waits.is_empty()));
    if !waits.is_empty() {
        let shown: Vec<Approval> = waits.iter().take(MAX_SHOWN).cloned().collect();
        page = page.page(approvals::list(&ledger, &shown, &scope, now).await);
        page = page.page(more(waits.len(), "`haft approvals` lists all"));
    }
    page = page.page(part(
        &runs,
        "runs",
        "run",
        "`haft log --outcome open` lists all",
        &scope,
    ));
    let hint = "`haft log --since today --outcome denied` lists all";
    page = page.page(part(
        &denied,
        "was denied today",
        "were denied today",
        hint,
        &scope,
    ));
    page = page.page(todo(&lists));
    app.output.page(&page)?;
    Ok(Exit::Ok)
}

async fn calls(
    ledger: &StoredLedger,
    filter: CallFilter,
    outcome: CallOutcome,
) -> Result<Vec<StoredCall>, Stop> {
    let query = CallQuery {
        filter,
        outcome: Some(outcome),
        limit: MAX_CALLS,
        ..CallQuery::default()
    };
    let calls = ledger.calls(&TenantId::local(), &query).await;
    calls.map_err(|error| Stop::ledger(&error))
}

/// What sessions have left to do.
fn todo(lists: &[TodoList]) -> Page {
    let mut page = Page::new();
    for list in lists.iter().take(MAX_SHOWN) {
        let TodoList { call, items } = list;
        let words = format!(
            "session `{}` of {} has {} of {} things left to do",
            call.session,
            call.agent,
            list.open(),
            items.len()
        );
        page = page.page(heading(&words, true));
        for item in items {
            let style = if item.status.is_open() {
                Style::Plain
            } else {
                Style::Dim
            };
            let text = item.text.replace(char::is_control, " ");
            page = page
                .styled(style, format!("  {} {text}", item.status.mark()))
                .end();
        }
    }
    page.page(more(lists.len(), "`haft status --json` has all"))
}

fn waiting_in_words(waits: &[Approval]) -> String {
    match waits.len() {
        0 => "no questions are waiting".to_owned(),
        1 => "1 question is waiting".to_owned(),
        more => format!("{more} questions are waiting"),
    }
}

/// Calls of one kind, the newest of them listed.
fn part(calls: &[StoredCall], one: &str, several: &str, all: &str, scope: &RecordScope) -> Page {
    let words = match calls.len() {
        0 => format!("no call {one}"),
        1 => format!("1 call {one}"),
        MAX_CALLS => format!("{MAX_CALLS} calls or more {several}"),
        more => format!("{more} calls {several}"),
    };
    let mut page = heading(&words, !calls.is_empty());
    let newest: Vec<StoredCall> = calls.iter().take(MAX_SHOWN).rev().cloned().collect();
    if newest.is_empty() {
        return page;
    }
    let ids: Vec<String> = newest.iter().map(|call| call.id.to_string()).collect();
    page = page.page(log::table(&newest, prefix_length(&ids), scope));
    page.page(more(calls.len(), all))
}

fn heading(words: &str, is_news: bool) -> Page {
    let style = if is_news { Style::Strong } else { Style::Dim };
    Page::new().styled(style, words).end()
}

fn more(count: usize, all: &str) -> Page {
    if count <= MAX_SHOWN {
        return Page::new();
    }
    let text = format!("… and {} more; {all}", count - MAX_SHOWN);
    Page::new().styled(Style::Dim, text).end()
}
