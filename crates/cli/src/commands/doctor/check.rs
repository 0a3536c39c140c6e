//! One line of the doctor, how a person sees it, and the table of attempted escapes.

use haft_sandbox::proof::{AttemptOutcome, AttemptVerdict, EscapeAttempt, Proof};
use serde::Serialize;

use crate::{
    commands::App,
    stop::Stop,
    terminal::{Format, Page, Style},
};

/// One thing that was checked.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    #[serde(rename = "check")]
    name: &'static str,
    state: State,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// Escapes that were attempted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attempts: Vec<Attempt>,
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

/// How serious a result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// Good.
    Ok,
    /// Missing, and not needed.
    Absent,
    /// Needs attention.
    Warn,
    /// Calls will fail.
    Fail,
}

impl Check {
    /// Good.
    pub(super) fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self::new(State::Ok, name, detail, None)
    }

    /// Missing, and not needed.
    pub(super) fn absent(
        name: &'static str,
        detail: impl Into<String>,
        hint: Option<String>,
    ) -> Self {
        Self::new(State::Absent, name, detail, hint)
    }

    /// Needs attention.
    pub(super) fn warn(
        name: &'static str,
        detail: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self::new(State::Warn, name, detail, Some(hint.into()))
    }

    /// Calls will fail.
    pub(super) fn fail(
        name: &'static str,
        detail: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self::new(State::Fail, name, detail, Some(hint.into()))
    }

    /// Something prevented the check.
    pub(super) fn stopped(name: &'static str, stop: impl Into<Stop>) -> Self {
        let stop = stop.into();
        Self::fail(name, stop.message().unwrap_or_default(), stop.hint())
    }

    fn new(
        state: State,
        name: &'static str,
        detail: impl Into<String>,
        hint: Option<String>,
    ) -> Self {
        Self {
            name,
            state,
            detail: detail.into(),
            hint,
            attempts: Vec::new(),
        }
    }

    /// Adds the attempted escapes.
    pub(super) fn tried(mut self, proof: &Proof) -> Self {
        let tier = proof.tier.as_str();
        self.attempts = proof
            .tried
            .iter()
            .map(|tried| Attempt::new(tier, tried))
            .collect();
        self
    }

    /// Whether calls will fail.
    pub(super) fn has_failed(&self) -> bool {
        self.state == State::Fail
    }
}

impl Attempt {
    fn new(tier: &'static str, tried: &EscapeAttempt) -> Self {
        let shown = |answer: &AttemptOutcome| match answer {
            AttemptOutcome::Succeeded => "succeeded".to_owned(),
            AttemptOutcome::Refused(how) => format!("refused: {how}"),
            AttemptOutcome::Failed(why) => format!("failed: {why}"),
        };
        Self {
            tier,
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
        return app.output.json(&checks);
    }
    let mut page = Page::new();
    for check in checks {
        page = page.page(line(check));
    }
    let attempts: Vec<&Attempt> = checks.iter().flat_map(|check| &check.attempts).collect();
    if !attempts.is_empty() {
        page = page.end().page(table(&attempts));
    }
    app.output.page(&page)
}

fn line(check: &Check) -> Page {
    let (word, style) = match check.state {
        State::Ok => ("ok", Style::Good),
        State::Absent => ("none", Style::Dim),
        State::Warn => ("look", Style::Warn),
        State::Fail => ("fail", Style::Bad),
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
fn table(attempts: &[&Attempt]) -> Page {
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
