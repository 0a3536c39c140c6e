//! One call: what it did, where its time went, who allowed it, what it changed and what it put out.

use axum::{
    Router,
    extract::{Path, Query, State},
    response::{IntoResponse as _, Redirect, Response},
    routing::{get, post},
};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::{
    calls::took,
    form::ConsoleForm,
    page::{ConsoleView, ON_CALLS, PageHead, PageProblem, draw, outcome, rule, token, verdict},
    text::{address, block, count, date, grouped, seen, short},
    waterfall::waterfall,
};
use crate::{
    Gateway,
    api::{
        call_view::{CallView, OPEN},
        calls::{result_of, stop, visible},
        outcome_view::{DecisionView, OutcomeView},
        output::{OUTPUT_PAGE, OutputPage, output_page},
        streams::recorded,
    },
    events::EventView,
    identify::{APPROVE, CALL, session::ConsoleUser},
};

/// How much of a file's name or a command a page has in a heading.
const MAX_TITLE: usize = 240;

/// The most lines of an input in JSON that are shown at once.
const MAX_INPUT_LINES: usize = 400;

/// The most entries of a list within a page.
const MAX_LISTED: usize = 200;

pub(super) fn routes() -> Router<Gateway> {
    Router::new()
        .route("/calls/{id}", get(show))
        .route("/calls/{id}/stop", post(stop_it))
}

#[derive(Deserialize)]
struct CallPageQuery {
    /// Where the output that is shown begins.
    #[serde(default)]
    offset: u64,
}

/// Everything that a page about a call shows.
struct CallPage {
    call: CallView,
    result: Option<OutcomeView>,
    events: Vec<EventView>,
    output: Option<OutputPage>,
}

async fn show(
    State(gateway): State<Gateway>,
    user: ConsoleUser,
    Path(id): Path<String>,
    Query(query): Query<CallPageQuery>,
) -> Result<Response, PageProblem> {
    let stored = visible(&gateway, &user.who, &id).await?;
    let page = CallPage {
        call: CallView::of(&stored),
        result: result_of(&gateway, &user.who, &stored).await?,
        events: recorded(&gateway, &user.who, &stored).await?,
        output: match stored.terminal {
            // Output that is not kept any more is no reason to show nothing else.
            Some(_) => output_page(&gateway, &user.who, &id, query.offset, OUTPUT_PAGE)
                .await
                .ok(),
            None => None,
        },
    };
    let title = short(&page.call.summary, MAX_TITLE);
    let head = PageHead::new(&title, ConsoleView::Calls);
    draw(&gateway, &user, head, whole(&user, &page)).await
}

fn whole(user: &ConsoleUser, page: &CallPage) -> Markup {
    let call = &page.call;
    let is_open = call.outcome == OPEN;
    let refresh = is_open.then_some(ON_CALLS);
    let tool = call.tool.strip_prefix("builtin/").unwrap_or(&call.tool);
    html! {
        article #call data-refresh={ "/calls/" (call.call) } data-on=[refresh] {
            header {
                p.eyebrow { (outcome(call.outcome)) " " (date(&call.opened)) }
                h1 { span.tool { (seen(tool)) } " " span.what { (short(&call.summary, MAX_TITLE)) } }
                (facts(page))
                (actions(user, page, is_open))
            }
            @if let Some(error) = page.result.as_ref().and_then(|result| result.error.as_ref()) {
                div.failure {
                    p { b { (seen(&error.message)) } }
                    @if let Some(hint) = &error.hint { p { (seen(hint)) } }
                }
            }
            section { h2 { "Stages" } (waterfall(&page.events)) }
            (decision(page))
            (plan(&page.events))
            (changes(&page.events))
            (output(page))
            (events(&page.events))
        }
    }
}

fn facts(page: &CallPage) -> Markup {
    let call = &page.call;
    let facts = page.result.as_ref().map(|result| &result.facts);
    html! {
        dl.facts {
            div { dt { "Agent" } dd { a href=(address("/calls", &[("agent", &call.agent)])) { (seen(&call.agent)) } } }
            div { dt { "For" } dd { (seen(&call.user)) } }
            div { dt { "Session" } dd { a href=(address("/sessions", &[("id", &call.session)])) { (seen(&call.session)) } " " span.dim { (call.session_kind) } } }
            div { dt { "Workspace" } dd { (seen(&call.workspace)) } }
            @if let Some(took) = took(call) { div { dt { "Took" } dd { (took) } } }
            @if let Some(code) = facts.and_then(|facts| facts.exit_code) { div { dt { "Exit code" } dd { (code) } } }
            @if let Some(tier) = facts.and_then(|facts| facts.tier.as_deref()) { div { dt { "Confinement" } dd { (seen(tier)) } } }
            @if let Some(by) = facts.and_then(|facts| facts.denied_by.as_deref()) { div { dt { "Denied by" } dd { (seen(by)) } } }
            div { dt { "Id" } dd { code { (call.call) } } }
        }
    }
}

/// What a person can do about a call.
fn actions(user: &ConsoleUser, page: &CallPage, is_open: bool) -> Markup {
    let id = &page.call.call;
    let asked = is_open.then(|| open_question(&page.events)).flatten();
    let can_undo = !is_open && user.who.has(APPROVE) && has_changes(&page.events);
    html! {
        div.actions {
            @if let Some(question) = asked { a.button.primary href={ "/approvals/" (seen(question)) } { "Answer its question" } }
            @if is_open && user.who.has(CALL) {
                form method="post" action={ "/calls/" (id) "/stop" } {
                    (token(user))
                    button.danger type="submit" { "Stop" }
                }
            }
            @if can_undo { a.button href={ "/calls/" (id) "/undo" } { "Take back…" } }
        }
    }
}

/// The question that a call waits for.
fn open_question(events: &[EventView]) -> Option<&str> {
    let mut newest = events.iter().rev();
    let asked = newest.find(|event| event.event.starts_with("approval_"))?;
    let id = asked.body.get("id").and_then(Value::as_str);
    id.filter(|_| asked.event == "approval_asked")
}

fn last<'a>(events: &'a [EventView], name: &str) -> Option<&'a EventView> {
    events.iter().rev().find(|event| event.event == name)
}

/// Why it was allowed or denied, and who said so.
fn decision(page: &CallPage) -> Markup {
    use serde::Deserialize as _;
    let settled = page
        .result
        .as_ref()
        .and_then(|result| result.facts.decision.as_ref());
    let recorded =
        last(&page.events, "decided").and_then(|event| DecisionView::deserialize(&event.body).ok());
    let Some(decision) = settled.or(recorded.as_ref()) else {
        return html! {};
    };
    let answered = last(&page.events, "approval_answered");
    html! {
        section {
            h2 { "Decision" }
            p { (verdict(&decision.verdict)) " " (seen(&decision.reason)) }
            @if let Some(found) = &decision.rule { p { (rule(found)) } }
            @if let Some(answered) = answered { (answer(answered)) }
            @if !decision.withheld.is_empty() {
                p { "Left out of the result: " (seen(&decision.withheld.join(", "))) }
            }
        }
    }
}

fn answer(answered: &EventView) -> Markup {
    let field = |name: &str| answered.body.get(name).and_then(Value::as_str);
    html! {
        p {
            b { (seen(&field("answer").unwrap_or("answered").replace('_', " "))) }
            @if let Some(by) = field("by") { " by " (seen(by)) }
            ", " (date(&answered.at))
            @if let Some(reason) = field("reason") { " " q { (seen(reason)) } }
        }
    }
}

/// What it kept to: everything it would touch, and the input.
fn plan(events: &[EventView]) -> Markup {
    let Some(planned) = last(events, "planned") else {
        return html! {};
    };
    let accesses = planned.body.get("accesses").and_then(Value::as_array);
    let accesses = accesses.map(Vec::as_slice).unwrap_or_default();
    let input = planned.body.get("input").unwrap_or(&Value::Null);
    let lines = haft_host::screen_text::visible::json(input);
    html! {
        section {
            h2 { "Plan" }
            @if accesses.is_empty() { p.dim { "It touches nothing." } }
            ul.accesses {
                @for one in accesses.iter().take(MAX_LISTED) {
                    @let (kind, what) = access(one);
                    li { span.kind { (seen(&kind)) } " " code { (seen(&what)) } }
                }
                @if let Some(more) = accesses.len().checked_sub(MAX_LISTED).filter(|more| *more > 0) {
                    li.dim { "and " (more) " more; the events below have all of them" }
                }
            }
            details.more {
                summary { "Input" }
                div.lines {
                    @for line in lines.iter().take(MAX_INPUT_LINES) { div.line { (line) } }
                    @if lines.len() > MAX_INPUT_LINES { div.line.dim { "…" } }
                }
            }
        }
    }
}

/// A recorded access in words. One that this version does not know is shown as it was recorded.
fn access(recorded: &Value) -> (String, String) {
    let field = |name: &str| recorded.get(name).and_then(Value::as_str);
    let kind = field("access").unwrap_or("access").replace('_', " ");
    let words = |name: &str| {
        let words = recorded.get(name)?.as_array()?;
        let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
        Some(words.join(" "))
    };
    let pair = |first: &str, between: &str, second: &str| {
        let second = recorded.get(second)?;
        let second = second
            .as_str()
            .map_or_else(|| second.to_string(), str::to_owned);
        Some(format!("{}{between}{second}", field(first)?))
    };
    let what = field("path")
        .or_else(|| field("script"))
        .or_else(|| field("source"))
        .map(str::to_owned)
        .or_else(|| words("argv"))
        .or_else(|| pair("host", ":", "port"))
        .or_else(|| pair("channel", " ", "target"))
        .or_else(|| pair("provider", "/", "tool"))
        .or_else(|| pair("kind", ":", "target"))
        .unwrap_or_else(|| recorded.to_string());
    (kind, what)
}

pub(super) fn has_changes(events: &[EventView]) -> bool {
    events
        .iter()
        .any(|event| matches!(event.event.as_str(), "file_changed" | "rows_changed"))
}

/// What it changed, as far as is known.
pub(super) fn changes(events: &[EventView]) -> Markup {
    let field = |event: &'_ EventView, name: &str| {
        let text = event.body.get(name).and_then(Value::as_str);
        text.map(str::to_owned)
    };
    let existed = |path: &str| {
        events.iter().any(|event| {
            event.event == "preimage_kept"
                && field(event, "path").as_deref() == Some(path)
                && field(event, "before").is_some()
        })
    };
    let changed: Vec<(&str, String)> = events
        .iter()
        .filter_map(|event| match event.event.as_str() {
            "file_changed" => {
                let path = field(event, "path")?;
                let how = match (existed(&path), field(event, "after").is_some()) {
                    (_, false) => "removed",
                    (true, true) => "changed",
                    (false, true) => "created",
                };
                Some((how, path))
            }
            "rows_changed" => {
                let rows = event.body.get("rows").and_then(Value::as_u64).unwrap_or(0);
                Some((
                    "changed",
                    count(rows, "row of a database", "rows of a database"),
                ))
            }
            _ => None,
        })
        .collect();
    if changed.is_empty() {
        return html! {};
    }
    html! {
        section {
            h2 { "Changes" }
            ul.accesses {
                @for (how, what) in changed.iter().take(MAX_LISTED) {
                    li { span.kind { (how) } " " code { (seen(what)) } }
                }
                @if let Some(more) = changed.len().checked_sub(MAX_LISTED).filter(|more| *more > 0) {
                    li.dim { "and " (more) " more" }
                }
            }
        }
    }
}

fn output(page: &CallPage) -> Markup {
    let Some(output) = page
        .output
        .as_ref()
        .filter(|output| !output.text.is_empty())
    else {
        return html! {};
    };
    let id = &page.call.call;
    html! {
        section {
            h2 { "Output" @if let Some(total) = output.total { " " span.dim { (grouped(total)) " bytes" } } }
            pre.output tabindex="0" aria-label="Output" { (block(&output.text)) }
            nav.pages aria-label="Pages of the output" {
                @if output.offset > 0 { a.button href={ "/calls/" (id) } { "From the start" } }
                @if let Some(next) = output.next_offset { a.button rel="next" href={ "/calls/" (id) "?offset=" (next) } { "More" } }
            }
        }
    }
}

/// The record itself, for who wants to see all of it.
fn events(events: &[EventView]) -> Markup {
    html! {
        details.more {
            summary { "Events on record " span.dim { (events.len()) } }
            ol.events {
                @for event in events.iter().take(MAX_LISTED) {
                    li {
                        p { b { (seen(&event.event)) } " " (date(&event.at)) }
                        pre tabindex="0" { (short(&event.body.to_string(), OUTPUT_PAGE)) }
                    }
                }
            }
        }
    }
}

async fn stop_it(
    State(gateway): State<Gateway>,
    Path(id): Path<String>,
    form: ConsoleForm,
) -> Result<Response, PageProblem> {
    let call = stop(&gateway, &form.user.who, &id).await?;
    Ok(Redirect::to(&format!("/calls/{}", call.id)).into_response())
}
