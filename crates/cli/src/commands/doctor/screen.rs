//! How a person sees the checks of the doctor, with the table of attempted escapes, and how a program
//! reads them.

use haft_contract::ops::Tier;
use haft_host::doctor::{Check, CheckState};
use haft_sandbox::proof::{AttemptOutcome, AttemptVerdict, EscapeAttempt};
use serde::Serialize;

use crate::{
    commands::App,
    stop::Stop,
    terminal::{Format, Page, Style},
};

/// A check as JSON.
#[derive(Debug, Serialize)]
struct CheckView<'a> {
    check: &'static str,
    state: StateWord,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    /// Escapes that were attempted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attempts: Vec<Attempt>,
}

/// How serious a result is, as one word.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum StateWord {
    Ok,
    Absent,
    Warn,
    Fail,
}

/// An attempted escape.
#[derive(Debug, Serialize)]
struct Attempt {
    tier: &'static str,
    layer: &'static str,
    attempted: &'static str,
    result: AttemptWord,
    inside: String,
    outside: String,
}

/// The result of an attempt, as one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum AttemptWord {
    Stopped,
    Unproven,
    Escaped,
    Failed,
}

impl<'a> CheckView<'a> {
    fn of(check: &'a Check) -> Self {
        Self {
            check: check.name,
            state: match check.state {
                CheckState::Ok => StateWord::Ok,
                CheckState::Absent => StateWord::Absent,
                CheckState::Warn => StateWord::Warn,
                CheckState::Fail => StateWord::Fail,
            },
            detail: &check.detail,
            hint: check.hint.as_deref(),
            attempts: attempts(check),
        }
    }
}

/// The escapes that a check attempted.
fn attempts(check: &Check) -> Vec<Attempt> {
    let proofs = check.proof.iter();
    let tried = proofs.flat_map(|proof| proof.tried.iter().map(|tried| (proof.tier, tried)));
    tried
        .map(|(tier, tried)| Attempt::new(tier, tried))
        .collect()
}

impl Attempt {
    fn new(tier: Tier, tried: &EscapeAttempt) -> Self {
        let shown = |answer: &AttemptOutcome| match answer {
            AttemptOutcome::Succeeded => "succeeded".to_owned(),
            AttemptOutcome::Refused(how) => format!("refused: {how}"),
            AttemptOutcome::Failed(why) => format!("failed: {why}"),
        };
        Self {
            tier: tier.as_str(),
            layer: tried.layer,
            attempted: tried.attempted,
            result: match tried.shows() {
                AttemptVerdict::Stopped => AttemptWord::Stopped,
                AttemptVerdict::Nothing => AttemptWord::Unproven,
                AttemptVerdict::Escaped => AttemptWord::Escaped,
                AttemptVerdict::Failed => AttemptWord::Failed,
            },
            inside: shown(&tried.inside),
            outside: shown(&tried.outside),
        }
    }

    /// The last column: the result, and why it proves nothing if it does not.
    fn outcome(&self) -> (Style, String) {
        match self.result {
            AttemptWord::Stopped => (Style::Good, "stopped".to_owned()),
            AttemptWord::Unproven => (
                Style::Dim,
                format!("unproven: outside {} too", self.outside),
            ),
            AttemptWord::Escaped => (Style::Bad, "ESCAPED".to_owned()),
            AttemptWord::Failed => (Style::Bad, self.inside.clone()),
        }
    }
}

/// Prints every check.
pub(super) fn print(checks: &[Check], app: &App) -> Result<(), Stop> {
    if app.output.format() == Format::Json {
        let views: Vec<CheckView<'_>> = checks.iter().map(CheckView::of).collect();
        return app.output.json(&views);
    }
    let mut page = Page::new();
    for check in checks {
        page = page.page(line(check));
    }
    let attempts: Vec<Attempt> = checks.iter().flat_map(attempts).collect();
    if !attempts.is_empty() {
        page = page.end().page(table(&attempts));
    }
    app.output.page(&page)
}

fn line(check: &Check) -> Page {
    let (word, style) = match check.state {
        CheckState::Ok => ("ok", Style::Good),
        CheckState::Absent => ("none", Style::Dim),
        CheckState::Warn => ("look", Style::Warn),
        CheckState::Fail => ("fail", Style::Bad),
    };
    let mut page = Page::new()
        .styled(style, format!("{word:<6}"))
        .styled(Style::Strong, format!("{:<16} ", check.name))
        .block(&check.detail)
        .end();
    if let Some(hint) = &check.hint {
        let mut lead = "      hint: ";
        for line in hint.lines() {
            page = page.styled(Style::Warn, lead).block(line).end();
            lead = "            ";
        }
    }
    page
}

/// Every attempted escape, one per line.
fn table(attempts: &[Attempt]) -> Page {
    let width = |column: fn(&Attempt) -> &str| {
        let widths = attempts.iter().map(|attempt| column(attempt).len());
        widths.max().unwrap_or_default()
    };
    let layer = width(|attempt| attempt.layer);
    let attempted = width(|attempt| attempt.attempted);
    let heading = format!(
        "tier  {:<layer$}  {:<attempted$}  result",
        "layer", "attempted"
    );
    let mut page = Page::new().styled(Style::Strong, heading).end();
    for attempt in attempts {
        let (style, outcome) = attempt.outcome();
        page = page
            .text(format!(
                "{:<4}  {:<layer$}  {:<attempted$}  ",
                attempt.tier, attempt.layer, attempt.attempted
            ))
            .styled(style, outcome)
            .end();
    }
    page
}
