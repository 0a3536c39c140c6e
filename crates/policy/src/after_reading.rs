//! `after = ["mcp:github", "web:*"]` in a rule: conditions on what a session has read from.
//!
//! In `deny` and `ask` it narrows a rule: the rule applies only once the session has read from one
//! of these. In `allow` it widens a pattern over tools of mounted servers: without it such a rule
//! no longer applies once the session has read from another server. A rule that names one tool
//! always applies.

use std::fmt;

use haft_contract::{Label, Labels, ProviderId, host::Verdict};

use crate::rule::{Rule, RuleError, RuleErrorKind, Selector};

/// Every server except the one a call goes to.
const ANY_SERVER: &str = "mcp:*";

/// Every host of the web.
const ANY_SITE: &str = "web:*";

/// A rule's conditions on what was read; empty if it has none.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AfterReading(Vec<Source>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Source {
    AnyServer,
    AnySite,
    Labelled(Label),
}

impl AfterReading {
    /// Parses a rule's list; the error is the first entry that is not a source.
    pub(crate) fn parse<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<Self, &'t str> {
        let mut sources = Vec::new();
        for text in texts {
            sources.push(match Label::parse(text) {
                _ if text == ANY_SERVER => Source::AnyServer,
                _ if text == ANY_SITE => Source::AnySite,
                Ok(label) if !label.is_anything() => Source::Labelled(label),
                Ok(_) | Err(_) => return Err(text),
            });
        }
        sources.sort_unstable();
        sources.dedup();
        Ok(Self(sources))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a session that has read from `labels` has read from one of these, from the point of
    /// view of a tool of `provider`.
    fn is_met(&self, labels: &Labels, provider: &ProviderId) -> bool {
        self.0.iter().any(|source| match source {
            Source::AnyServer => has_read_from_server(labels, provider),
            Source::AnySite => has_read_from_site(labels),
            Source::Labelled(label) => labels.contains(label),
        })
    }

    fn names_any_server(&self) -> bool {
        self.0.contains(&Source::AnyServer)
    }

    fn names_any_site(&self) -> bool {
        self.0.contains(&Source::AnySite)
    }

    /// The entries as Cedar strings.
    fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|source| match source {
            Source::AnyServer => ANY_SERVER,
            Source::AnySite => ANY_SITE,
            Source::Labelled(label) => label.as_str(),
        })
    }
}

impl fmt::Display for AfterReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.texts().collect::<Vec<_>>().join(", "))
    }
}

impl Rule {
    /// Adds conditions on what was read.
    pub(crate) fn after(mut self, after: AfterReading) -> Result<Self, RuleError> {
        if after.is_empty() {
            return Ok(self);
        }
        if self.verdict == Verdict::Allow && !self.is_by_pattern() {
            return Err(RuleError::new(&self.origin.text, RuleErrorKind::AfterName));
        }
        self.origin.text = format!("{} after {after}", self.origin.text);
        self.after = after;
        Ok(self)
    }

    /// Whether it selects tools by more than their names.
    pub(crate) fn is_by_pattern(&self) -> bool {
        self.selector.is_by_pattern()
    }

    /// Whether a deny or ask rule applies in such a session at all.
    pub(crate) fn speaks_after(&self, labels: &Labels, provider: &ProviderId) -> bool {
        self.after.is_empty() || self.after.is_met(labels, provider)
    }

    /// The Cedar condition on what was read; none if the rule has no such condition.
    pub(crate) fn read_condition(&self, literal: impl Fn(&str) -> String) -> Option<String> {
        let list = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|text| literal(text)).collect();
            texts.join(", ")
        };
        let mut texts: Vec<&str> = self.after.texts().collect();
        match self.verdict {
            Verdict::Ask | Verdict::Deny if texts.is_empty() => None,
            Verdict::Ask | Verdict::Deny => {
                let anything = Label::anything();
                texts.push(anything.as_str());
                Some(format!("context.read_from.containsAny([{}])", list(&texts)))
            }
            Verdict::Allow if !self.is_by_pattern() || self.after.names_any_server() => None,
            Verdict::Allow if texts.is_empty() => Some("!context.crosses".to_owned()),
            Verdict::Allow => {
                let others = if self.after.names_any_site() {
                    "other_servers"
                } else {
                    "others"
                };
                Some(format!(
                    "(!context.crosses || [{}].containsAll(context.{others}))",
                    list(&texts)
                ))
            }
        }
    }
}

impl Selector {
    /// Whether it can select tools that nobody named.
    pub(crate) fn is_by_pattern(&self) -> bool {
        match self {
            Self::Like(_) | Self::Group(_) => true,
            Self::Named(_) | Self::Provided(_) | Self::Accesses(_) => false,
        }
    }
}

/// Whether a session has read from a server other than the tool's own.
fn has_read_from_server(labels: &Labels, provider: &ProviderId) -> bool {
    labels.others(provider).any(|label| !label.is_of_host())
}

/// Whether a session has read from a host of the web.
fn has_read_from_site(labels: &Labels) -> bool {
    labels
        .iter()
        .any(|label| label.is_of_host() || label.is_anything())
}

/// What the session has read from, as Cedar sees it for a tool: every label, `mcp:*` if one of them
/// is a server's and not the tool's own, and `web:*` if one of them is a host's.
pub(crate) fn read_from<'l>(labels: &'l Labels, provider: &'l ProviderId) -> Vec<&'l str> {
    let mut texts: Vec<&str> = labels.iter().map(Label::as_str).collect();
    if has_read_from_server(labels, provider) {
        texts.push(ANY_SERVER);
    }
    if has_read_from_site(labels) {
        texts.push(ANY_SITE);
    }
    texts
}
