//! One question, whole: what happens, who asks, why, and the ways to answer.
//!
//! What happens is the drawing of `haft_host::question`, line by line, and nothing else: the same as on a
//! terminal. A script may hide and show, but never decides which question is on the page: it is the one
//! whose digest the forms carry.

use std::borrow::Cow;

use haft_contract::host::{Approval, ApprovalState};
use haft_host::{
    question::QuestionDrawing,
    recorded_question::shown_in,
    screen_text::{TextLine, Tone},
};
use maud::{Markup, html};

use super::{
    page::{ON_APPROVALS, token},
    text::{carried, cut, moment, seen, short},
};
use crate::{api::approvals::WholeQuestion, identify::session::ConsoleUser, time::rfc3339};

/// The longest headline of an entry of the queue.
const MAX_ENTRY: usize = 160;

/// The most blanks at the start of a line that are drawn.
const MAX_INDENT: usize = 40;

/// For how long something may be allowed, in words and in milliseconds.
pub(super) const DURATIONS: [(&str, &str); 4] = [
    ("3600000", "1 hour"),
    ("28800000", "8 hours"),
    ("604800000", "7 days"),
    ("", "until somebody ends it"),
];

/// Where something may be allowed.
const SCOPES: [(&str, &str); 3] = [
    ("session", "this session"),
    ("project", "this workspace"),
    ("agent", "this agent, everywhere"),
];

/// An entry of the queue.
pub(super) fn entry(
    approval: &Approval,
    drawing: Option<&QuestionDrawing>,
    is_chosen: bool,
) -> Markup {
    let title = drawing.map(|drawing| drawing.headline.title());
    let id = approval.id.to_string();
    html! {
        li {
            a href={ "/approvals/" (id) } aria-current=[is_chosen.then_some("true")] data-question=(id) {
                span.what { (title.map_or_else(|| short(&approval.summary, MAX_ENTRY), |title| cut(title, MAX_ENTRY))) }
                span.by {
                    (seen(approval.principal.agent.as_str()))
                    " · "
                    (moment(&rfc3339(approval.asked)))
                }
            }
        }
    }
}

/// The question with everything that belongs to it.
pub(super) fn pane(user: &ConsoleUser, question: &WholeQuestion, may_answer: bool) -> Markup {
    let approval = &question.approval;
    let is_open = approval.state == ApprovalState::Pending;
    html! {
        article #question aria-labelledby="headline" data-question=(approval.id) {
            header {
                p.eyebrow { b { (seen(approval.principal.agent.as_str())) } " asks to" }
                h1 #headline {
                    @match &question.drawing {
                        Some(drawing) => {
                            span.tool { (drawing.headline.tool) } " " span.what { (drawing.headline.what) }
                        }
                        None => { (seen(&approval.summary)) }
                    }
                }
                (who(approval))
            }
            (state(approval))
            @match &question.drawing {
                Some(drawing) => {
                    h2.off { "What happens" }
                    (lines(&drawing.effects, "effects"))
                    @if let Some(reason) = &drawing.reason {
                        p.why { span.label { "Asked because" } " " (reason) }
                    }
                }
                None => {
                    p.note { "The record does not have all of this question, because a secret is in it. It can be refused from here, and approved only where it was asked." }
                }
            }
            @if is_open && may_answer {
                (answers(user, question))
            } @else if is_open {
                p.note { "You may read this question. Answering it needs the scope " code { "approve" } "." }
            }
            @if let Some(drawing) = &question.drawing {
                details.more {
                    summary { "Details for an audit" }
                    (lines(&drawing.details, "audit"))
                }
            }
            p.links { a href={ "/calls/" (approval.call) } { "The call" } }
        }
    }
}

/// Who asks, from where, and until when.
fn who(approval: &Approval) -> Markup {
    let asker = &approval.principal;
    html! {
        dl.facts {
            div { dt { "For" } dd { (seen(asker.user.as_str())) } }
            div { dt { "Session" } dd { (seen(asker.session.as_str())) " " span.dim { (asker.session_kind.as_str()) } } }
            @if let Some(workspace) = shown_in(approval) {
                div { dt { "Workspace" } dd { (seen(workspace)) } }
            }
            div { dt { "Asked" } dd { (moment(&rfc3339(approval.asked))) } }
            @if approval.state == ApprovalState::Pending {
                div { dt { "Lapses" } dd { (moment(&rfc3339(approval.expires))) } }
            }
        }
    }
}

/// What has become of a question. It refreshes by itself, so that nobody answers what is over; the rest of
/// the page stays as it was read.
pub(super) fn state(approval: &Approval) -> Markup {
    let refresh = (approval.state == ApprovalState::Pending).then_some(ON_APPROVALS);
    html! {
        div #state data-refresh={ "/approvals/" (approval.id) "/state" } data-on=[refresh] role="status" {
            @match &approval.state {
                ApprovalState::Pending => {}
                ApprovalState::Approved { by, at } => {
                    p.over.good { "Approved by " (seen(by)) ", " (moment(&rfc3339(*at))) "." }
                }
                ApprovalState::Refused { by, at, reason } => {
                    p.over.warn {
                        "Denied by " (seen(by)) ", " (moment(&rfc3339(*at))) "."
                        @if let Some(reason) = reason { " " q { (seen(reason)) } }
                    }
                }
                ApprovalState::Lapsed => { p.over.dim { "Nobody answered in time, so it was denied." } }
                ApprovalState::Withdrawn => { p.over.dim { "The call does not need an answer any more." } }
                ApprovalState::Used { .. } => { p.over.good { "Approved, and the call went on." } }
            }
        }
    }
}

/// The ways to answer, each a form that works by itself.
fn answers(user: &ConsoleUser, question: &WholeQuestion) -> Markup {
    let approval = &question.approval;
    let action = format!("/approvals/{}/answer", approval.id);
    let hidden = html! {
        (token(user))
        input type="hidden" name="digest" value=(approval.digest);
    };
    html! {
        div.answers {
            form.now method="post" action=(action) {
                (hidden)
                @if question.drawing.is_some() {
                    button.primary type="submit" name="answer" value="approve" data-key="a" { "Approve once" kbd aria-hidden="true" { "a" } }
                }
                button.danger type="submit" name="answer" value="deny" data-key="d" { "Deny" kbd aria-hidden="true" { "d" } }
            }
            details.answer {
                summary data-key="r" { "Deny and say why" kbd aria-hidden="true" { "r" } }
                form method="post" action=(action) {
                    (hidden)
                    label for="reason" { "What the agent should know" }
                    textarea #reason name="reason" rows="3" maxlength="2000" required {}
                    button.danger type="submit" name="answer" value="deny" { "Deny with this reason" }
                }
            }
            @if !question.proposals.is_empty() {
                (always(&action, &hidden, question))
            }
        }
    }
}

fn always(action: &str, hidden: &Markup, question: &WholeQuestion) -> Markup {
    html! {
        details.answer {
            summary data-key="l" { "Always…" kbd aria-hidden="true" { "l" } }
            form method="post" action=(action) {
                (hidden)
                fieldset {
                    legend { "Approve this, and from now on" }
                    @for (index, proposal) in question.proposals.iter().enumerate() {
                        label.choice {
                            input type="radio" name="rules" required checked[index == 0]
                                value=(carried(&proposal.rules));
                            span {
                                (seen(&proposal.meaning))
                                @for rule in &proposal.rules { code.rule { (seen(rule)) } }
                            }
                        }
                    }
                }
                div.pair {
                    label { "In"
                        select name="scope" {
                            @for (value, words) in SCOPES { option value=(value) { (words) } }
                        }
                    }
                    label { "For"
                        select name="for" {
                            @for (value, words) in DURATIONS { option value=(value) selected[words == "8 hours"] { (words) } }
                        }
                    }
                }
                button.primary type="submit" name="answer" value="always" { "Approve, and allow from now on" }
            }
        }
    }
}

/// Lines as they were drawn, each piece in its tone. A changed line is marked as one.
fn lines(drawn: &[TextLine], class: &str) -> Markup {
    html! {
        @if !drawn.is_empty() {
            div.lines.(class) {
                @for line in drawn {
                    div class=(line_class(line)) {
                        @for (tone, piece) in line { (piece_in(*tone, &indented(piece))) }
                    }
                }
            }
        }
    }
}

/// A line of a diff stands behind a margin of ours and begins with its sign.
fn line_class(line: &TextLine) -> &'static str {
    match line.as_slice() {
        [(Tone::Dim, margin), (Tone::Good, text), ..]
            if margin.trim().is_empty() && text.starts_with('+') =>
        {
            "line add"
        }
        [(Tone::Dim, margin), (Tone::Bad, text), ..]
            if margin.trim().is_empty() && text.starts_with('-') =>
        {
            "line del"
        }
        _ => "line",
    }
}

/// A line with the blanks at its start as blanks again. On a terminal a long run of them is counted, so that
/// nothing is pushed off the screen behind it; a page breaks lines, so up to a point it can show them. A
/// bracket of the text itself is always spelt out, so this one is ours.
fn indented(piece: &str) -> Cow<'_, str> {
    let sign = piece.len() - piece.trim_start_matches(['+', '-', ' ']).len();
    let counted = piece
        .split_at_checked(sign.min(2))
        .and_then(|(sign, rest)| {
            let (number, rest) = rest.strip_prefix('⟨')?.split_once(" spaces⟩")?;
            let number: usize = number.parse().ok()?;
            (number <= MAX_INDENT).then(|| format!("{sign}{}{rest}", " ".repeat(number)))
        });
    counted.map_or(Cow::Borrowed(piece), Cow::Owned)
}

fn piece_in(tone: Tone, piece: &str) -> Markup {
    let class = match tone {
        Tone::Plain => return html! { (piece) },
        Tone::Strong => "strong",
        Tone::Dim => "dim",
        Tone::Good => "good",
        Tone::Bad => "bad",
        Tone::Warn => "warn",
    };
    html! { span class=(class) { (piece) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indentation_is_drawn_and_long_runs_are_counted() {
        for (piece, expect) in [
            ("+⟨12 spaces⟩x", "+            x"),
            ("⟨9 spaces⟩x", "         x"),
            ("-⟨2000 spaces⟩x", "-⟨2000 spaces⟩x"),
            ("x⟨12 spaces⟩y", "x⟨12 spaces⟩y"),
            ("+⟨U+27E8⟩12 spaces⟩x", "+⟨U+27E8⟩12 spaces⟩x"),
            ("⟨ESC⟩", "⟨ESC⟩"),
            ("", ""),
        ] {
            assert_eq!(indented(piece), expect);
        }
    }
}
