//! Taking a call back: first what it would mean, then what it did.

use std::time::Duration;

use axum::{
    Router,
    extract::{Path, State},
    response::Response,
    routing::get,
};
use maud::html;

use super::{
    call::{changes, has_changes},
    form::ConsoleForm,
    page::{ConsoleView, PageHead, PageProblem, draw, outcome, token},
    text::{seen, short},
};
use crate::{
    Gateway,
    api::{calls::visible, outcome_view::ContentView, streams::recorded, undo::undo_call},
    identify::session::ConsoleUser,
};

/// How long a page waits. What takes longer most likely waits for an answer, perhaps of the same person.
const WAIT: Duration = Duration::from_secs(2);

/// The longest summary in a heading.
const MAX_TITLE: usize = 240;

pub(super) fn routes() -> Router<Gateway> {
    Router::new().route("/calls/{id}/undo", get(ask).post(take_back))
}

async fn ask(
    State(gateway): State<Gateway>,
    user: ConsoleUser,
    Path(id): Path<String>,
) -> Result<Response, PageProblem> {
    let call = visible(&gateway, &user.who, &id).await?;
    let events = recorded(&gateway, &user.who, &call).await?;
    let body = html! {
        h1 { "Take this call back?" }
        p.lead { a href={ "/calls/" (call.id) } { (short(&call.summary, MAX_TITLE)) } }
        @if has_changes(&events) {
            p { "Changed files get the content they had before, removed ones come back, created ones go. What has changed since stays as it is and is named." }
            (changes(&events))
            div.actions {
                form method="post" action={ "/calls/" (call.id) "/undo" } {
                    (token(&user))
                    button.danger type="submit" { "Take it back" }
                }
                a.button href={ "/calls/" (call.id) } { "Leave it" }
            }
        } @else {
            p { "The record knows of nothing that this call changed, so there is nothing to take back." }
            p { a.button href={ "/calls/" (call.id) } { "Back to the call" } }
        }
    };
    draw(
        &gateway,
        &user,
        PageHead::new("Take back", ConsoleView::Calls),
        body,
    )
    .await
}

async fn take_back(
    State(gateway): State<Gateway>,
    Path(id): Path<String>,
    form: ConsoleForm,
) -> Result<Response, PageProblem> {
    let call = visible(&gateway, &form.user.who, &id).await?;
    let undone = undo_call(&gateway, &form.user.who, &id, WAIT).await?;
    let goes_on = undone.calls.is_empty() && !undone.complete;
    let body = html! {
        h1 { @if goes_on { "Not taken back yet" } @else if undone.complete { "Taken back" } @else { "Taken back in part" } }
        p.lead { a href={ "/calls/" (call.id) } { (short(&call.summary, MAX_TITLE)) } }
        @if undone.complete { p { "Everything that is known to have changed is as it was before." } }
        @if !undone.notes.is_empty() && !goes_on {
            ul { @for note in &undone.notes { li { (seen(note)) } } }
        }
        ul.plainlist {
            @for done in &undone.calls {
                li {
                    (outcome(&done.result.outcome)) " "
                    a href={ "/calls/" (done.call) } { "the call that did it" }
                    @if let Some(error) = &done.result.error { " " (seen(&error.message)) }
                    @for content in &done.result.content {
                        @if let ContentView::Text { text } = content { pre { (super::text::block(text)) } }
                    }
                }
            }
        }
        @if goes_on {
            p { "Your rules want a person to see what it changes back. When the question is answered, it goes on by itself." }
            p { a.button.primary href="/approvals" { "Read the question" } }
        } @else {
            p.dim { "To redo it, take back the call that did this." }
        }
    };
    draw(
        &gateway,
        &form.user,
        PageHead::new("Taken back", ConsoleView::Calls),
        body,
    )
    .await
}
