//! One line of the doctor, how it looks to a person, and the table of escapes that were tried.

use haft_sandbox::proof::{AttemptOutcome, AttemptVerdict, EscapeAttempt, Proof};
use serde::Serialize;

use crate::{
    commands::App,
    stop::Stop,
    terminal::{Format, Page, Style},
};

/// One thing that was looked at.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    #[serde(rename = "check")]
    name: &'static str,
    state: State,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// Escapes that were tried.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attempts: Vec<Attempt>,
}

/// One escape that was tried.
#[derive(Debug, Serialize)]
struct Attempt {
    tier: &'static str,
    layer: &'static str,
    attempted: &'static str,
    result: AttemptWord,
    inside: String,
    outside: String,
}

/// What an attempt shows, as a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum AttemptWord {
    Stopped,
    Unproven,
    Escaped,
    Failed,
}

/// How it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// Good.
    Ok,
    /// Not there, and not needed.
    Absent,
    /// Somebody should look.
    Warn,
    /// Calls will fail.
    Fail,
}

impl Check {
    /// Good.
    pub(super) fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self::new(State::Ok, name, detail, None)
    }

    /// Not there, and not needed.
    pub(super) fn absent(
        name: &'static str,
        detail: impl Into<String>,
        hint: Option<String>,
    ) -> Self {
        Self::new(State::Absent, name, detail, hint)
    }

    /// Somebody should look.
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

    /// Something stopped the program from looking.
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

    /// Adds the escapes that were tried.
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

    /// The last column: what came of it, and why that says nothing where it does not.
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

/// Prints everything that was looked at.
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

/// Every escape that was tried, one a line.
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
