//! What was used: calls by day, tool, agent or workspace.

use axum::{
    Router,
    extract::{Query, State},
    response::Response,
    routing::get,
};
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    chart::{MAX_DAYS, by_day},
    page::{ConsoleView, PageHead, PageProblem, draw, nothing},
    text::{grouped, length, seen},
};
use crate::{
    Gateway,
    api::stats::{UsageView, count},
    identify::session::ConsoleUser,
};

/// What calls are counted by, and what a row then is.
const GROUPS: [(&str, &str); 4] = [
    ("day", "Day"),
    ("tool", "Tool"),
    ("agent", "Agent"),
    ("workspace", "Workspace"),
];

pub(super) fn routes() -> Router<Gateway> {
    Router::new().route("/usage", get(show))
}

#[derive(Deserialize)]
struct UsagePageQuery {
    by: Option<String>,
}

async fn show(
    State(gateway): State<Gateway>,
    user: ConsoleUser,
    Query(query): Query<UsagePageQuery>,
) -> Result<Response, PageProblem> {
    let asked = query.by.as_deref().unwrap_or("day");
    let group = GROUPS.iter().find(|(word, _)| *word == asked);
    let (by, name) = group.copied().unwrap_or(("day", "Day"));
    let rows = count(&gateway, &user.who, Some(by)).await?;
    let body = html! {
        h1 { "Usage" }
        nav.tabs aria-label="Counted by" {
            @for (word, name) in GROUPS {
                a href={ "/usage?by=" (word) } aria-current=[(word == by).then_some("page")] { "By " (name.to_lowercase()) }
            }
        }
        @if rows.is_empty() {
            (nothing("Nothing was used yet", &html! {
                p { "Calls are counted here by day, tool, agent and workspace as soon as there are some. " a href="/calls" { "Calls" } " says how to make one." }
            }))
        } @else {
            @if by == "day" { (by_day(&rows)) }
            (table(name, &rows))
            @if by == "day" && rows.len() > MAX_DAYS { p.dim { "The chart has the last " (MAX_DAYS) " days. Days are in UTC." } }
            @else if by == "day" { p.dim { "Days are in UTC." } }
        }
    };
    draw(
        &gateway,
        &user,
        PageHead::new("Usage", ConsoleView::Usage),
        body,
    )
    .await
}

fn table(name: &str, rows: &[UsageView]) -> Markup {
    let millis = |millis: u64| length(std::time::Duration::from_millis(millis));
    html! {
        div.scroll tabindex="0" role="group" aria-label="Numbers" {
            table.numbers {
                thead {
                    tr {
                        th scope="col" { (name) }
                        @for word in ["Calls", "Asked", "Denied", "Failed", "Ran", "Waited for people", "Output"] {
                            th.number scope="col" { (word) }
                        }
                    }
                }
                tbody {
                    @for row in rows {
                        tr {
                            th scope="row" { (seen(&row.group)) }
                            @for number in [row.calls, row.asked, row.denied, row.failed] { td.number { (grouped(number)) } }
                            @for time in [row.ran_ms, row.waited_ms] { td.number { (millis(time)) } }
                            td.number { (bytes(row.bytes)) }
                        }
                    }
                }
            }
        }
    }
}

/// A size as people read it.
fn bytes(bytes: u64) -> String {
    match bytes {
        0..1_024 => format!("{bytes} B"),
        1_024..1_048_576 => format!("{} KiB", bytes / 1_024),
        _ => format!("{} MiB", grouped(bytes / 1_048_576)),
    }
}
