//! Conversations, and one of them as a timeline: what an agent did, in order.

use axum::{
    Router,
    extract::{Query, State},
    response::Response,
    routing::get,
};
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    calls::{CallsFilter, rows},
    page::{ConsoleView, ON_CALLS, PageHead, PageProblem, draw, nothing},
    text::{address, count, moment, seen},
};
use crate::{
    Gateway,
    api::{
        calls::calls_page,
        sessions::{SessionView, recent},
    },
    identify::session::ConsoleUser,
    limits::MAX_PAGE,
};

pub(super) fn routes() -> Router<Gateway> {
    Router::new().route("/sessions", get(show))
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SessionQuery {
    /// One conversation; all of them without it. Ids may have any letters, so it is no part of the path.
    id: String,
    cursor: String,
}

async fn show(
    State(gateway): State<Gateway>,
    user: ConsoleUser,
    Query(query): Query<SessionQuery>,
) -> Result<Response, PageProblem> {
    if query.id.is_empty() {
        return list(&gateway, &user).await;
    }
    timeline(&gateway, &user, query).await
}

async fn list(gateway: &Gateway, user: &ConsoleUser) -> Result<Response, PageProblem> {
    let sessions = recent(gateway, &user.who, MAX_PAGE).await?;
    let body = html! {
        h1 { "Sessions" }
        section #sessions aria-label="Sessions" data-refresh="/sessions" data-on=(ON_CALLS) {
            @if sessions.is_empty() {
                (nothing("No sessions yet", &html! {
                    p { "Calls of one conversation stand together here. A client names its conversation with each call:" }
                    pre { "{\"tool\": \"list\", \"arguments\": {\"path\": \".\"}, \"session\": \"my-first-session\"}" }
                }))
            } @else {
                ol.rows.sessions { @for session in &sessions { (row(session)) } }
            }
        }
    };
    draw(
        gateway,
        user,
        PageHead::new("Sessions", ConsoleView::Sessions),
        body,
    )
    .await
}

fn row(session: &SessionView) -> Markup {
    html! {
        li {
            a.call href=(address("/sessions", &[("id", &session.session)])) {
                span.what { (seen(&session.session)) }
                span.by { (seen(&session.agent)) " · " (session.kind) }
                span.took { (count(session.calls, "call", "calls")) }
                span.when { (moment(&session.last)) }
            }
        }
    }
}

async fn timeline(
    gateway: &Gateway,
    user: &ConsoleUser,
    query: SessionQuery,
) -> Result<Response, PageProblem> {
    let filter = CallsFilter::of_session(query.id.clone(), query.cursor.clone());
    let page = calls_page(gateway, &user.who, filter.query()).await?;
    let at = |cursor: &str| address("/sessions", &[("id", &query.id), ("cursor", cursor)]);
    let refresh = query.cursor.is_empty().then_some(ON_CALLS);
    let title = seen(&query.id);
    let body = html! {
        p.eyebrow { a href="/sessions" { "Sessions" } }
        h1 { span.what { (title) } }
        p.dim { "Newest first. " a href=(filter.address("")) { "Filter these calls" } }
        section #timeline.timeline aria-label="Timeline" data-refresh=(at("")) data-on=[refresh] {
            @if page.items.is_empty() { p.dim { "This session has no calls that you may see." } }
            @else { (rows(&page.items)) }
        }
        nav.pages aria-label="Pages" {
            @if !query.cursor.is_empty() { a.button href=(at("")) { "Newest" } }
            @if let Some(next) = &page.next { a.button rel="next" href=(at(next)) { "Older" } }
        }
    };
    draw(
        gateway,
        user,
        PageHead::new(&title, ConsoleView::Sessions),
        body,
    )
    .await
}
