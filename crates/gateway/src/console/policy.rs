//! The rules in force, why they decide as they do, and what other rules would have decided.

use axum::{
    Router,
    extract::{Query, State},
    response::Response,
    routing::get,
};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::{
    form::ConsoleForm,
    page::{ConsoleView, PageHead, PageProblem, draw, nothing, rule, token, verdict},
    text::{count, grouped, seen},
};
use crate::{
    Gateway,
    api::{
        calls::NewCall,
        outcome_view::RuleView,
        policy::{
            ChangeView, ExplanationView, GroupView, NewReplay, PolicyRuleView, PolicyView,
            ReplayView, explain, replay_rules,
        },
    },
    identify::{READ, session::ConsoleUser},
    problem::{Problem, ProblemKind},
};

/// What the field for rules has at first.
const SAMPLE: &str = "[policy]\npreset = \"careful\"\nallow = []\nask = []\ndeny = []\n";

/// The most groups of one change that a page shows.
const MAX_GROUPS: usize = 200;

pub(super) fn routes() -> Router<Gateway> {
    Router::new()
        .route("/policy", get(show))
        .route("/policy/explain", get(explained))
        .route("/policy/replay", get(replay_form).post(replayed))
}

/// The three pages about rules.
fn tabs(current: &str) -> Markup {
    html! {
        nav.tabs aria-label="Policy" {
            @for (path, name) in [("/policy", "Rules in force"), ("/policy/explain", "Explain a call"), ("/policy/replay", "Try other rules")] {
                a href=(path) aria-current=[(path == current).then_some("page")] { (name) }
            }
        }
    }
}

async fn show(State(gateway): State<Gateway>, user: ConsoleUser) -> Result<Response, PageProblem> {
    user.who.needs(READ)?;
    let policy = PolicyView::in_force(&gateway);
    let of = |word: &'static str| policy.rules.iter().filter(move |rule| rule.verdict == word);
    let body = html! {
        h1 { "Policy" }
        (tabs("/policy"))
        @if policy.rules.is_empty() {
            (nothing("No rules of your own", &html! {
                p { "The preset decides about every call. Rules are in " code { "haft.toml" } ", and they are in force when the file is saved:" }
                pre { "[policy]\npreset = \"careful\"\nallow = [\"bash(cargo test *)\"]\ndeny = [\"read(secrets/**)\"]" }
            }))
        } @else {
            @for (word, meaning) in [("deny", "Refused, whatever else says."), ("ask", "A person is asked."), ("allow", "Goes ahead.")] {
                @if of(word).next().is_some() {
                    section {
                        h2 { (verdict(word)) " " span.dim { (meaning) } }
                        ul.rules { @for rule in of(word) { (rule_row(rule)) } }
                    }
                }
            }
        }
        p.dim { "Version " code.version { (policy.version) } ", which every decision names." }
    };
    draw(
        &gateway,
        &user,
        PageHead::new("Policy", ConsoleView::Policy),
        body,
    )
    .await
}

fn rule_row(found: &PolicyRuleView) -> Markup {
    html! {
        li {
            (rule(&found.rule))
            @if let Some(whom) = &found.holds_for { " " span.tag { (seen(whom)) } }
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ExplainQuery {
    tool: String,
    arguments: String,
    workspace: String,
}

/// Explaining changes nothing, so it is a page with an address that can be sent to somebody.
async fn explained(
    State(gateway): State<Gateway>,
    user: ConsoleUser,
    Query(query): Query<ExplainQuery>,
) -> Result<Response, PageProblem> {
    let result = if query.tool.trim().is_empty() {
        None
    } else {
        Some(explanation_of(&gateway, &user, &query).await)
    };
    let body = html! {
        h1 { "Policy" }
        (tabs("/policy/explain"))
        p { "What the rules say about a call, without making it. Nothing runs and nothing is recorded." }
        form.stack method="get" action="/policy/explain" {
            label { "Tool" input name="tool" value=(query.tool) required placeholder="bash" autocapitalize="off"; }
            label { "Input, as JSON"
                textarea name="arguments" rows="4" spellcheck="false" placeholder="{\"command\": \"git push origin main\"}" { (query.arguments) }
            }
            div.actions { button.primary type="submit" { "Explain" } }
        }
        @match &result {
            Some(Ok(found)) => { (explanation(found)) }
            Some(Err(problem)) => { (told(problem)) }
            None => {}
        }
    };
    draw(
        &gateway,
        &user,
        PageHead::new("Explain a call", ConsoleView::Policy),
        body,
    )
    .await
}

async fn explanation_of(
    gateway: &Gateway,
    user: &ConsoleUser,
    query: &ExplainQuery,
) -> Result<ExplanationView, Problem> {
    let arguments = match query.arguments.trim() {
        "" => Value::Null,
        text => serde_json::from_str(text).map_err(|error| {
            Problem::new(
                ProblemKind::BadRequest,
                format!("the input is not JSON: {error}"),
            )
        })?,
    };
    let workspace = Some(query.workspace.trim().to_owned()).filter(|named| !named.is_empty());
    let new = NewCall::of(query.tool.trim().to_owned(), arguments, workspace);
    explain(gateway, &user.who, new).await
}

/// What is wrong with what a person wrote, beside what they wrote.
fn told(problem: &Problem) -> Markup {
    let words = problem.words();
    html! {
        div.failure role="alert" {
            p { b { (seen(words.detail.unwrap_or(words.title))) } }
            @if let Some(hint) = words.hint { p { (seen(hint)) } }
        }
    }
}

fn explanation(found: &ExplanationView) -> Markup {
    html! {
        section aria-label="Explanation" {
            @if let Some(decision) = &found.decision {
                p.lead { (verdict(&decision.verdict)) " " (seen(&decision.reason)) }
                @if let Some(by) = &decision.rule { p { (rule(by)) } }
            }
            @if let Some(ended) = &found.outcome {
                p.lead { "It would end before anything is decided." }
                @if let Some(error) = &ended.error {
                    p { (seen(&error.message)) }
                    @if let Some(hint) = &error.hint { p.dim { (seen(hint)) } }
                }
            }
            @if !found.steps.is_empty() {
                h2 { "Step by step" }
                ol.steps {
                    @for step in &found.steps {
                        li {
                            p {
                                (verdict(step.verdict)) " "
                                @match &step.access {
                                    Some(access) => { code { (seen(access)) } }
                                    None => { "the tool itself" }
                                }
                            }
                            p { (seen(&step.reason)) }
                            @if let Some(by) = &step.rule { p { (rule(by)) } }
                            p.dim { "for " (seen(&step.agent)) ", preset " (step.preset) }
                        }
                    }
                }
            }
        }
    }
}

async fn replay_form(
    State(gateway): State<Gateway>,
    user: ConsoleUser,
) -> Result<Response, PageProblem> {
    user.who.needs(READ)?;
    let body = replay_page(&user, SAMPLE, "recorded", &html! {});
    draw(
        &gateway,
        &user,
        PageHead::new("Try other rules", ConsoleView::Policy),
        body,
    )
    .await
}

fn replay_page(user: &ConsoleUser, rules: &str, against: &str, result: &Markup) -> Markup {
    html! {
        h1 { "Policy" }
        (tabs("/policy/replay"))
        p { "Every call on record is decided again under the rules that you paste. Nothing runs and nothing is written." }
        form.stack method="post" action="/policy/replay" {
            (token(user))
            label { "Rules, as in haft.toml"
                textarea.code name="rules" rows="10" spellcheck="false" required { (rules) }
            }
            label { "Compared with"
                select name="against" {
                    option value="recorded" selected[against == "recorded"] { "what was decided then" }
                    option value="current" selected[against == "current"] { "what the rules in force would decide" }
                }
            }
            div.actions { button.primary type="submit" { "Read what would change" } }
        }
        (result)
    }
}

async fn replayed(
    State(gateway): State<Gateway>,
    form: ConsoleForm,
) -> Result<Response, PageProblem> {
    let rules = form.fields.text("rules").replace("\r\n", "\n");
    let against = form
        .fields
        .filled("against")
        .unwrap_or("recorded")
        .to_owned();
    let new = NewReplay {
        rules: rules.clone(),
        since: None,
        against: Some(against.clone()),
    };
    let result = match replay_rules(&gateway, &form.user.who, new).await {
        Ok(report) => replay(&report),
        Err(problem) => told(&problem),
    };
    let body = replay_page(&form.user, &rules, &against, &result);
    draw(
        &gateway,
        &form.user,
        PageHead::new("Try other rules", ConsoleView::Policy),
        body,
    )
    .await
}

fn replay(report: &ReplayView) -> Markup {
    html! {
        section #result aria-label="What would change" {
            h2 { "What would change" }
            @if report.calls == 0 {
                p { "The record has no calls yet, so there is nothing to compare." }
            } @else if report.changed == 0 {
                p.lead { "Nothing: " (count(report.unchanged, "call", "calls")) " would be decided as before." }
            } @else {
                p.lead { b { (grouped(report.changed)) } " of " (count(report.calls, "call", "calls")) " would be decided differently." }
            }
            @if report.not_decided > 0 {
                p.dim { "Not decided again, because the record has no plan to decide about: " (count(report.not_decided, "call", "calls")) "." }
            }
            @for change in &report.changes { (changed(change)) }
        }
    }
}

fn changed(change: &ChangeView) -> Markup {
    html! {
        section.change {
            h3 { (verdict(change.was)) " → " (verdict(change.now)) " " span.dim { (count(change.calls, "call", "calls")) } }
            ul.groups {
                @for group in change.groups.iter().take(MAX_GROUPS) { (grouped_calls(group)) }
                @if let Some(more) = change.groups.len().checked_sub(MAX_GROUPS).filter(|more| *more > 0) {
                    li.dim { "and " (more) " more groups" }
                }
            }
        }
    }
}

fn grouped_calls(group: &GroupView) -> Markup {
    html! {
        li {
            p {
                b { (seen(&group.tool)) }
                @if let Some(program) = &group.program { " " code { (seen(program)) } }
                " " span.dim { (count(group.calls, "call", "calls")) }
                @if group.refused > 0 { " " span.warn { (count(group.refused, "was refused by a person", "were refused by a person")) } }
            }
            p { (because(group.rule.as_ref())) }
            ul.examples {
                @for example in &group.examples {
                    li { a href={ "/calls/" (example.call) } { (seen(&example.what)) } }
                }
            }
        }
    }
}

fn because(found: Option<&RuleView>) -> Markup {
    found.map_or_else(|| html! { span.dim { "by the preset" } }, rule)
}
