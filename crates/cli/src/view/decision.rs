//! Why something was allowed, asked about or denied.

use haft_contract::host::{Decision, RuleRef};
use serde::{Deserialize, Serialize};

use crate::terminal::{Page, Style};

/// How many digits of a version a person is shown.
const SHORT_VERSION: usize = 10;

/// A decision. It has the same shape as in the record, so that it parses both.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct DecisionView {
    pub(crate) verdict: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rule: Option<RuleView>,
    pub(crate) reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) access: Option<String>,
    #[serde(default)]
    pub(crate) withheld: Vec<String>,
    pub(crate) policy: String,
}

/// A rule and where it is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RuleView {
    pub(crate) text: String,
    pub(crate) source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<u32>,
}

impl DecisionView {
    /// A decision just made.
    pub(crate) fn of(decision: &Decision) -> Self {
        Self {
            verdict: decision.verdict.as_str().to_owned(),
            rule: decision.rule.as_ref().map(RuleView::of),
            reason: decision.reason.clone(),
            access: decision.access.clone(),
            withheld: decision.withheld.clone(),
            policy: decision.policy.0.clone(),
        }
    }

    /// The decision for a person: verdict, reason, rule, file and line.
    pub(crate) fn page(&self) -> Page {
        let mut page = Page::new()
            .styled(Style::Dim, "decision  ")
            .styled(verdict_style(&self.verdict), &self.verdict)
            .end()
            .field("because", &self.reason);
        page = match &self.rule {
            Some(rule) => page.field("rule", rule.to_string()),
            None => page.field("rule", "none; the preset's default applied"),
        };
        if let Some(access) = &self.access {
            page = page.field("about", access);
        }
        if !self.withheld.is_empty() {
            page = page.field("left out", self.withheld.join(", "));
        }
        page.field("policy", short_version(&self.policy))
    }
}

impl RuleView {
    /// A rule.
    pub(crate) fn of(rule: &RuleRef) -> Self {
        Self {
            text: rule.text.clone(),
            source: rule.source.clone(),
            line: rule.line,
        }
    }
}

impl std::fmt::Display for RuleView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(f, "`{}` at {}:{line}", self.text, self.source),
            None => write!(f, "`{}` ({})", self.text, self.source),
        }
    }
}

/// The version of the rules, as short as a person can still compare. JSON has all of it.
pub(crate) fn short_version(policy: &str) -> String {
    let (kind, hash) = policy.split_once(':').unwrap_or(("", policy));
    let short: String = hash.chars().take(SHORT_VERSION).collect();
    match kind {
        "" => short,
        kind => format!("{kind}:{short}"),
    }
}

/// The style of a verdict.
pub(crate) fn verdict_style(verdict: &str) -> Style {
    match verdict {
        "allow" => Style::Good,
        "ask" => Style::Warn,
        _ => Style::Bad,
    }
}
