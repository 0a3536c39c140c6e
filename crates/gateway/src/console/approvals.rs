//! Questions that wait for a person: the queue, one question whole, and answering it.

use axum::{
    Router,
    extract::{Path, Query, State},
    response::{Html, IntoResponse as _, Redirect, Response},
    routing::{get, post},
};
use haft_contract::host::{Approval, ApprovalState};
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    form::ConsoleForm,
    page::{ConsoleView, ON_APPROVALS, PageHead, PageProblem, draw, nothing},
    question::{self, entry, pane},
    text::{address, seen},
};
use crate::{
    Gateway,
    api::approvals::{
        AlwaysView, NewAnswer, WholeQuestion, drawn, find, give_answer, pending, person, whole,
    },
    identify::{APPROVE, session::ConsoleUser},
    limits::MAX_PAGE,
    problem::{Problem, ProblemKind},
};

pub(super) fn routes() -> Router<Gateway> {
    Router::new()
        .route("/approvals", get(queue))
        .route("/approvals/{id}", get(one))
        .route("/approvals/{id}/state", get(state))
        .route("/approvals/{id}/answer", post(answer))
}

#[derive(Deserialize)]
struct QueueQuery {
    /// The question that was just answered.
    answered: Option<String>,
}

async fn queue(
    State(gateway): State<Gateway>,
    user: ConsoleUser,
    Query(query): Query<QueueQuery>,
) -> Result<Response, PageProblem> {
    let open = pending(&gateway, &user.who, MAX_PAGE).await?;
    let chosen = match open.first() {
        Some(first) => Some(whole(&gateway, &user.who, &first.id.to_string()).await?),
        None => None,
    };
    let answered = match &query.answered {
        // A link that is older than the record keeps questions only says less.
        Some(id) => find(&gateway, &user.who, id).await.ok(),
        None => None,
    };
    let body = html! {
        @if let Some(answered) = &answered { (told(answered)) }
        (two_panes(&user, &open, chosen.as_ref()))
    };
    let head = PageHead {
        class: "at-queue",
        ..PageHead::new("Approvals", ConsoleView::Approvals)
    };
    draw(&gateway, &user, head, body).await
}

async fn one(
    State(gateway): State<Gateway>,
    user: ConsoleUser,
    Path(id): Path<String>,
) -> Result<Response, PageProblem> {
    let open = pending(&gateway, &user.who, MAX_PAGE).await?;
    let chosen = whole(&gateway, &user.who, &id).await?;
    let title = chosen.drawing.as_ref().map_or_else(
        || seen(&chosen.approval.summary),
        |drawing| drawing.headline.title(),
    );
    let body = two_panes(&user, &open, Some(&chosen));
    let head = PageHead {
        class: "at-question",
        ..PageHead::new(&title, ConsoleView::Approvals)
    };
    draw(&gateway, &user, head, body).await
}

/// The queue beside the question. On a narrow screen one of them is shown.
fn two_panes(user: &ConsoleUser, open: &[Approval], chosen: Option<&WholeQuestion>) -> Markup {
    let may_answer = user.who.has(APPROVE);
    let shown = chosen.map(|chosen| chosen.approval.id);
    // The queue refreshes, and goes on saying which question is beside it.
    let at = shown.map_or_else(|| "/approvals".to_owned(), |id| format!("/approvals/{id}"));
    html! {
        div.panes {
            section #queue aria-label="Waiting" data-refresh=(at) data-on=(ON_APPROVALS) {
                h2 { "Waiting" @if !open.is_empty() { " " span.dim { (open.len()) } } }
                @if open.is_empty() {
                    p.dim { "Nothing waits." }
                } @else {
                    ol.queue {
                        @for one in open {
                            (entry(one, drawn(one, None).as_ref(), Some(one.id) == shown))
                        }
                    }
                    p.keys aria-hidden="true" {
                        kbd { "j" } kbd { "k" } " next, previous  " kbd { "enter" } " open"
                    }
                }
            }
            @match chosen {
                Some(chosen) => {
                    div.chosen {
                        p.back { a href="/approvals" { "← All that wait" } }
                        (pane(user, chosen, may_answer))
                    }
                }
                None => { (all_answered()) }
            }
        }
    }
}

/// The pane when nothing waits. The first question that comes takes its place.
fn all_answered() -> Markup {
    html! {
        div #empty.chosen.empty data-refresh="/approvals" data-on=(ON_APPROVALS) data-select=".chosen" {
            (nothing("Nothing waits for an answer", &html! {
                p { "A call that your rules want a person to see stops here: you read what would happen, and say yes or no. This page shows it by itself." }
                p { "To see one, have a program ask to change a file:" }
                pre {
                    "haft keys create demo --scope call\n"
                    "curl http://127.0.0.1:8930/v1/calls \\\n"
                    "  -H \"Authorization: Bearer $KEY\" -H 'Content-Type: application/json' \\\n"
                    "  -d '{\"tool\": \"write\", \"arguments\": {\"path\": \"hello.txt\", \"content\": \"hello\\n\"}}'"
                }
            }))
        }
    }
}

/// What became of the question that was just answered.
fn told(answered: &Approval) -> Markup {
    let (class, word) = match answered.state {
        ApprovalState::Approved { .. } | ApprovalState::Used { .. } => ("good", "Approved"),
        ApprovalState::Refused { .. } => ("warn", "Denied"),
        ApprovalState::Pending | ApprovalState::Lapsed | ApprovalState::Withdrawn => {
            return html! {};
        }
    };
    let title = drawn(answered, None).map(|drawing| drawing.headline.title());
    html! {
        p.told.(class) role="status" {
            b { (word) } " "
            a href={ "/calls/" (answered.call) } { (title.unwrap_or_else(|| seen(&answered.summary))) }
        }
    }
}

async fn state(
    State(gateway): State<Gateway>,
    user: ConsoleUser,
    Path(id): Path<String>,
) -> Result<Html<String>, PageProblem> {
    let approval = find(&gateway, &user.who, &id).await?;
    Ok(Html(question::state(&approval).into_string()))
}

async fn answer(
    State(gateway): State<Gateway>,
    Path(id): Path<String>,
    form: ConsoleForm,
) -> Result<Response, PageProblem> {
    let new = new_answer(&form)?;
    let who = &form.user.who;
    match give_answer(&gateway, who, &id, person(who), new).await {
        Ok(answered) => {
            let to = address("/approvals", &[("answered", &answered.question)]);
            Ok(Redirect::to(&to).into_response())
        }
        // Somebody was faster. The question says who, and what they said.
        Err(problem) if problem.kind() == ProblemKind::NotOpen => {
            let to = format!("/approvals/{}", find(&gateway, who, &id).await?.id);
            Ok(Redirect::to(&to).into_response())
        }
        Err(problem) => Err(problem.into()),
    }
}

fn new_answer(form: &ConsoleForm) -> Result<NewAnswer, Problem> {
    let fields = &form.fields;
    let digest = fields.text("digest").to_owned();
    match fields.text("answer") {
        "approve" => Ok(NewAnswer::approve(digest, None)),
        "deny" => {
            // Browsers send line ends as CR LF, and count them as one towards the most there may be.
            let reason = fields
                .filled("reason")
                .map(|reason| reason.replace("\r\n", "\n"));
            Ok(NewAnswer::refuse(digest, reason))
        }
        "always" => {
            let odd = || Problem::new(ProblemKind::BadRequest, "the form has no rules to allow");
            let rules = serde_json::from_str(fields.text("rules")).map_err(|_| odd())?;
            let for_ms = match fields.filled("for").map(str::parse) {
                None => None,
                Some(Ok(millis)) => Some(millis),
                Some(Err(_)) => {
                    return Err(Problem::new(ProblemKind::BadRequest, "`for` is not a time"));
                }
            };
            let scope = fields.text("scope").to_owned();
            let always = AlwaysView::new(rules, scope, for_ms);
            Ok(NewAnswer::approve(digest, Some(always)))
        }
        _ => Err(Problem::new(
            ProblemKind::BadRequest,
            "the answer is `approve`, `deny` or `always`",
        )),
    }
}
