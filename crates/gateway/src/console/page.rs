//! What every page has: the head, the way to the other pages, and what waits for somebody.

use axum::response::{Html, IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use super::{form::TOKEN, text::seen};
use crate::{
    Gateway, api::approvals, identify::session::ConsoleUser, limits::MAX_PAGE, problem::Problem,
};

/// What htmx does not do here: no style of its own, no pages of problems inside a page.
const HTMX: &str = r#"{"includeIndicatorCSS":false,"history":false,"noSwap":[204,304,"4xx","5xx"],"extensions":"sse"}"#;

/// Has an element with an id load itself again, in place, when calls have changed: `data-on` says when,
/// `data-refresh` from where. The script does it, one request at a time for each element, so that what
/// changes meanwhile is not missed.
pub(super) const ON_CALLS: &str = "calls";
/// The same for questions.
pub(super) const ON_APPROVALS: &str = "approvals";

/// A page of the console that the navigation leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConsoleView {
    Approvals,
    Grants,
    Calls,
    Sessions,
    Policy,
    Tools,
    Usage,
    Audit,
    Keys,
}

impl ConsoleView {
    const ALL: [Self; 9] = [
        Self::Approvals,
        Self::Calls,
        Self::Sessions,
        Self::Policy,
        Self::Tools,
        Self::Usage,
        Self::Audit,
        Self::Grants,
        Self::Keys,
    ];

    fn parts(self) -> (&'static str, &'static str) {
        match self {
            Self::Approvals => ("/approvals", "Approvals"),
            Self::Grants => ("/grants", "Standing approvals"),
            Self::Calls => ("/calls", "Calls"),
            Self::Sessions => ("/sessions", "Sessions"),
            Self::Policy => ("/policy", "Policy"),
            Self::Tools => ("/tools", "Tools"),
            Self::Usage => ("/usage", "Usage"),
            Self::Audit => ("/audit", "Audit"),
            Self::Keys => ("/keys", "Keys"),
        }
    }
}

/// What a page is called and where it belongs.
pub(super) struct PageHead<'a> {
    pub(super) title: &'a str,
    pub(super) view: ConsoleView,
    /// A class of the body, for pages that look different.
    pub(super) class: &'static str,
}

impl<'a> PageHead<'a> {
    pub(super) fn new(title: &'a str, view: ConsoleView) -> Self {
        Self {
            title,
            view,
            class: "plain",
        }
    }
}

/// Draws a page for somebody who is logged in.
pub(super) async fn draw(
    gateway: &Gateway,
    user: &ConsoleUser,
    head: PageHead<'_>,
    body: Markup,
) -> Result<Response, PageProblem> {
    let waiting = approvals::pending(gateway, &user.who, MAX_PAGE)
        .await?
        .len();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (html_head(head.title))
            body class=(head.class) {
                a.skip href="#main" { "Skip to content" }
                div #feed hx-sse:connect="/feed" hidden {}
                header.side {
                    a.brand href="/approvals" { img src="/assets/mark.svg" width="22" height="22" alt=""; "Haft" }
                    nav aria-label="Views" {
                        @for view in ConsoleView::ALL {
                            @let (path, name) = view.parts();
                            a href=(path) aria-current=[(view == head.view).then_some("page")] {
                                span { (name) }
                                @if view == ConsoleView::Approvals { (badge(waiting)) }
                            }
                        }
                    }
                    form.leave method="post" action="/logout" {
                        (token(user))
                        span.user title="You are logged in as" { (seen(user.who.user().as_str())) }
                        button.quiet type="submit" { "Log out" }
                    }
                }
                main #main tabindex="-1" { (body) }
            }
        }
    };
    Ok(Html(page.into_string()).into_response())
}

/// How many questions wait. It refreshes by itself, on every page.
pub(super) fn badge(waiting: usize) -> Markup {
    html! {
        span #waiting.badge data-refresh="/waiting" data-on=(ON_APPROVALS)
            data-waiting=(waiting) {
            @if waiting > 0 {
                (waiting) span.off { " waiting" }
            }
        }
    }
}

/// A page for somebody who is not known yet.
pub(super) fn bare(title: &str, body: &Markup) -> Response {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (html_head(title))
            body.bare {
                main #main {
                    p.brand { img src="/assets/mark.svg" width="28" height="28" alt=""; "Haft" }
                    (body)
                }
            }
        }
    };
    Html(page.into_string()).into_response()
}

fn html_head(title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta name="htmx-config" content=(HTMX);
            title { (title) " · Haft" }
            link rel="icon" href="/assets/mark.svg" type="image/svg+xml";
            link rel="stylesheet" href="/assets/console.css";
            // Ours first: it listens before htmx connects to the feed.
            script src="/assets/console.js" defer {}
            script src="/assets/htmx.js" defer {}
        }
    }
}

/// The token that a form of this session carries.
pub(super) fn token(user: &ConsoleUser) -> Markup {
    html! { input type="hidden" name=(TOKEN) value=(user.token); }
}

/// What is shown where there is nothing yet: what would be here, and how to get it.
pub(super) fn nothing(title: &str, body: &Markup) -> Markup {
    html! {
        div.nothing {
            h2 { (title) }
            (body)
        }
    }
}

/// How a call ended, as a word with a mark: nobody needs to see colours.
pub(super) fn outcome(word: &str) -> Markup {
    let (class, mark) = match word {
        "succeeded" => ("good", "✓"),
        "open" => ("open", "●"),
        "denied" => ("warn", "⊘"),
        "failed" | "timed_out" => ("bad", "✕"),
        "unknown" => ("bad", "?"),
        _ => ("dim", "–"),
    };
    let name = match word {
        "timed_out" => "timed out",
        other => other,
    };
    html! {
        span class={ "outcome " (class) } { span.mark aria-hidden="true" { (mark) } (name) }
    }
}

/// A verdict of the rules.
pub(super) fn verdict(word: &str) -> Markup {
    let class = match word {
        "allow" => "good",
        "deny" => "bad",
        _ => "warn",
    };
    html! { span class={ "verdict " (class) } { (word) } }
}

/// A rule and where it is written.
pub(super) fn rule(rule: &crate::api::outcome_view::RuleView) -> Markup {
    html! {
        code.rule { (seen(&rule.text)) }
        " "
        span.dim.source {
            (seen(&rule.source))
            @if let Some(line) = rule.line { ":" (line) }
        }
    }
}

/// Why there is no page.
pub(super) struct PageProblem(Problem);

impl From<Problem> for PageProblem {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl IntoResponse for PageProblem {
    fn into_response(self) -> Response {
        let words = self.0.words();
        let mut answer = bare(
            words.title,
            &html! {
                h1 { (words.title) }
                @if let Some(detail) = words.detail { p { (seen(detail)) } }
                @if let Some(hint) = words.hint { p.dim { (seen(hint)) } }
                p { a.button href="/approvals" { "Back to approvals" } }
            },
        );
        *answer.status_mut() = words.status;
        answer
    }
}
