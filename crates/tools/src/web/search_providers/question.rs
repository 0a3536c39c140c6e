//! What is searched for, in words that every provider has words for.

use haft_contract::{ToolError, egress::Host};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The longest query, in characters. Brave and Tavily take no longer one.
pub(in crate::web) const MAX_QUERY: usize = 400;

/// The most results that can be asked for. Brave and Tavily give no more.
pub(in crate::web) const MAX_COUNT: usize = 20;

/// The last page. Brave has no more.
pub(in crate::web) const MAX_PAGE: usize = 10;

/// The most domains that results can be limited to, and the most that can be left out.
pub(in crate::web) const MAX_DOMAINS: usize = 20;

/// How much of a domain an error shows.
const SHOWN: usize = 80;

/// What is searched for.
#[derive(Debug, Clone)]
pub(in crate::web) struct SearchQuestion<'q> {
    pub(in crate::web) query: &'q str,
    pub(in crate::web) count: usize,
    /// From 1.
    pub(in crate::web) page: usize,
    pub(in crate::web) time_range: Option<SearchTimeRange>,
    /// Only results of these; of any, if there are none.
    pub(in crate::web) allowed: Vec<Domain>,
    /// No results of these.
    pub(in crate::web) blocked: Vec<Domain>,
}

/// How new results should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
#[expect(
    missing_docs,
    reason = "the words say it, and models read every description"
)]
pub enum SearchTimeRange {
    Day,
    Week,
    Month,
    Year,
}

impl SearchTimeRange {
    /// The word that SearXNG and Tavily have for it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }
}

/// A domain with everything below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::web) struct Domain(String);

impl Domain {
    /// Reads a domain as somebody wrote it: `docs.rs`, or `*.docs.rs`, which is the same here.
    pub(in crate::web) fn parse(text: &str, pointer: &str) -> Result<Self, ToolError> {
        let name = text.trim();
        let name = name.strip_prefix("*.").unwrap_or(name);
        match Host::parse(name) {
            Ok(Host::Name(name)) if name.contains('.') => Ok(Self(name)),
            _ => {
                let shown: String = text
                    .chars()
                    .take(SHOWN)
                    .flat_map(char::escape_debug)
                    .collect();
                let message = format!("`{shown}` is not a domain");
                Err(ToolError::invalid_input(message)
                    .at(pointer)
                    .hint("write a name such as `docs.rs`, without `https://` and without a path"))
            }
        }
    }

    /// Whether a host is this domain or below it.
    pub(in crate::web) fn has(&self, host: &Host) -> bool {
        match host {
            Host::Name(name) => name
                .strip_suffix(self.0.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.')),
            Host::Address(_) => false,
        }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl SearchQuestion<'_> {
    /// The query with the operators that most search engines have for domains. They are asked for what
    /// is wanted, so that a page is not made of what is left out afterwards; what comes back is
    /// looked at in any case. `None` without domains.
    pub(super) fn query_with_sites(&self) -> Option<String> {
        if self.allowed.is_empty() && self.blocked.is_empty() {
            return None;
        }
        let mut query = self.query.to_owned();
        let sites = self.allowed.iter().map(|site| format!("site:{}", site.0));
        match sites.collect::<Vec<_>>().as_slice() {
            [] => {}
            [site] => {
                query.push(' ');
                query.push_str(site);
            }
            sites => {
                query.push_str(" (");
                query.push_str(&sites.join(" OR "));
                query.push(')');
            }
        }
        for site in &self.blocked {
            query.push_str(" -site:");
            query.push_str(&site.0);
        }
        Some(query)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_has_what_is_below_it_and_nothing_else() {
        let domain = Domain::parse("*.Docs.rs", "/").unwrap();
        for (host, has) in [
            ("docs.rs", true),
            ("a.docs.rs", true),
            ("evildocs.rs", false),
            ("docs.rs.evil.net", false),
            ("rs", false),
        ] {
            assert_eq!(domain.has(&Host::parse(host).unwrap()), has, "{host}");
        }
        for wrong in [
            "https://docs.rs",
            "docs.rs/x",
            "docs",
            "",
            "127.0.0.1",
            "a b.c",
            "docs.rs:443",
            "x.y) OR (site:z.w",
        ] {
            assert!(Domain::parse(wrong, "/").is_err(), "{wrong}");
        }
    }
}
