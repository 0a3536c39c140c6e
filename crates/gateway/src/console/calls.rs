//! The list of calls, newest first. What is filtered for is in the address, so a view can be kept and sent
//! to somebody.

use axum::{
    Router,
    extract::{Query, State},
    response::Response,
    routing::get,
};
use haft_contract::host::Clock as _;
use haft_host::relative_time::RelativeTime;
use haft_runtime::SystemClock;
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    page::{ConsoleView, ON_CALLS, PageHead, PageProblem, draw, nothing, outcome},
    text::{address, between, length, moment, seen, short},
};
use crate::{
    Gateway,
    api::{
        call_view::CallView,
        calls::{CallsQuery, calls_page},
    },
    identify::session::ConsoleUser,
    time::rfc3339,
};

/// How a call can have ended, as the filter offers it.
const OUTCOMES: [&str; 7] = [
    "open",
    "succeeded",
    "failed",
    "denied",
    "timed_out",
    "cancelled",
    "unknown",
];

/// How far back the filter offers to look.
const SINCE: [(&str, &str); 4] = [
    ("1h", "the last hour"),
    ("24h", "the last day"),
    ("7d", "the last week"),
    ("4w", "the last 4 weeks"),
];

/// The longest summary of a call in a list.
const MAX_SUMMARY: usize = 200;

pub(super) fn routes() -> Router<Gateway> {
    Router::new().route("/calls", get(list))
}

/// What is filtered for, as the form sends it: what was left empty is there, and empty.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct CallsFilter {
    session: String,
    agent: String,
    tool: String,
    outcome: String,
    search: String,
    since: String,
    cursor: String,
}

impl CallsFilter {
    /// The calls of one session.
    pub(super) fn of_session(session: String, cursor: String) -> Self {
        Self {
            session,
            cursor,
            ..Self::default()
        }
    }

    pub(super) fn query(&self) -> CallsQuery {
        let filled = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        CallsQuery {
            cursor: filled(&self.cursor),
            session: filled(&self.session),
            agent: filled(&self.agent),
            tool: filled(&self.tool),
            outcome: filled(&self.outcome),
            search: filled(&self.search),
            // A period as people write it, or a moment as the API takes it.
            since: filled(&self.since).map(|since| match since.parse::<RelativeTime>() {
                Ok(period) => rfc3339(period.before(SystemClock.now())),
                Err(_) => since,
            }),
            ..CallsQuery::default()
        }
    }

    /// The address of this view, from a cursor on.
    pub(super) fn address(&self, cursor: &str) -> String {
        address(
            "/calls",
            &[
                ("session", self.session.trim()),
                ("agent", self.agent.trim()),
                ("tool", self.tool.trim()),
                ("outcome", self.outcome.trim()),
                ("search", self.search.trim()),
                ("since", self.since.trim()),
                ("cursor", cursor),
            ],
        )
    }

    fn is_empty(&self) -> bool {
        self.address("") == "/calls"
    }
}

async fn list(
    State(gateway): State<Gateway>,
    user: ConsoleUser,
    Query(filter): Query<CallsFilter>,
) -> Result<Response, PageProblem> {
    let page = calls_page(&gateway, &user.who, filter.query()).await?;
    let is_first = filter.cursor.is_empty();
    // Older pages do not change; the first one does while somebody looks.
    let refresh = is_first.then_some(ON_CALLS);
    let body = html! {
        h1 { "Calls" @if is_first { " " span.live { "live" } } }
        (form(&filter))
        section #calls aria-label="Calls" data-refresh=(filter.address("")) data-on=[refresh] {
            @if page.items.is_empty() { (no_calls(&filter, is_first)) }
            @else { (rows(&page.items)) }
        }
        nav.pages aria-label="Pages" {
            @if !is_first { a.button href=(filter.address("")) { "Newest" } }
            @if let Some(next) = &page.next { a.button rel="next" href=(filter.address(next)) { "Older" } }
        }
    };
    draw(
        &gateway,
        &user,
        PageHead::new("Calls", ConsoleView::Calls),
        body,
    )
    .await
}

/// Calls, one in a line.
pub(super) fn rows(calls: &[CallView]) -> Markup {
    html! {
        ol.rows {
            @for call in calls {
                li #{ "call-" (call.call) } {
                    a.call href={ "/calls/" (call.call) } {
                        (outcome(call.outcome))
                        span.tool { (seen(call.tool.strip_prefix("builtin/").unwrap_or(&call.tool))) }
                        span.what { (short(&call.summary, MAX_SUMMARY)) }
                        span.by { (seen(&call.agent)) " · " (seen(&call.session)) }
                        span.took { @if let Some(took) = took(call) { (took) } }
                        span.when { (moment(&call.opened)) }
                    }
                }
            }
        }
    }
}

/// How long a call took, once it has ended.
pub(super) fn took(call: &CallView) -> Option<String> {
    between(&call.opened, call.settled.as_deref()?).map(length)
}

fn form(filter: &CallsFilter) -> Markup {
    html! {
        form.filters method="get" action="/calls" role="search" {
            label.wide { span { "Words" }
                input type="search" name="search" value=(filter.search) placeholder="path, command, host, output";
            }
            label { span { "Outcome" }
                select name="outcome" {
                    option value="" { "any" }
                    @for word in OUTCOMES {
                        option value=(word) selected[filter.outcome == word] { (word.replace('_', " ")) }
                    }
                }
            }
            label { span { "Tool" } input name="tool" value=(filter.tool) autocapitalize="off"; }
            label { span { "Agent" } input name="agent" value=(filter.agent) autocapitalize="off"; }
            label { span { "Session" } input name="session" value=(filter.session) autocapitalize="off"; }
            label { span { "Since" }
                select name="since" {
                    option value="" { "ever" }
                    @for (value, words) in SINCE {
                        option value=(value) selected[filter.since == value] { (words) }
                    }
                    @if !filter.since.is_empty() && SINCE.iter().all(|(value, _)| filter.since != *value) {
                        option value=(filter.since) selected { (seen(&filter.since)) }
                    }
                }
            }
            div.go {
                button type="submit" { "Filter" }
                @if !filter.is_empty() { a href="/calls" { "Clear" } }
            }
        }
    }
}

fn no_calls(filter: &CallsFilter, is_first: bool) -> Markup {
    if !is_first {
        return nothing("No more calls", &html! { p { "This was the last page." } });
    }
    if !filter.is_empty() {
        return nothing(
            "No call is like that",
            &html! {
                p { "No call on record fits this filter. Names are whole: " code { "bash" } ", not " code { "ba" } "." }
                p { a.button href="/calls" { "All calls" } }
            },
        );
    }
    nothing(
        "No calls yet",
        &html! {
            p { "Every call that an agent makes is listed here as it happens, with what it did and why it was allowed." }
            p { "To make one:" }
            pre {
                "haft keys create demo --scope call\n"
                "curl http://127.0.0.1:8930/v1/calls \\\n"
                "  -H \"Authorization: Bearer $KEY\" -H 'Content-Type: application/json' \\\n"
                "  -d '{\"tool\": \"list\", \"arguments\": {\"path\": \".\"}}'"
            }
            p.dim { "Agents that speak MCP connect to " code { "/mcp" } " with the same key." }
        },
    )
}
