//! Labels: the sources a session has read from that are written by outsiders.
//!
//! A label says who could have influenced a conversation. It says nothing about which data went
//! where, because there is a model in between. Labels only ever grow. Read next:
//! `docs/adr/0020-*.md`.

use std::{fmt, sync::Arc};

use crate::{egress::Host, name::ProviderId};

/// The most labels one session keeps apart; beyond that it has only [`Label::anything`].
pub const MAX_LABELS: usize = 64;

/// How many providers to ask a record for: those without a label, and one more than the limit on
/// labels. This many or more become [`Label::anything`].
pub const MAX_PROVIDERS: usize = MAX_LABELS + 16;

/// Prefix of a mounted server's label.
const SERVER: &str = "mcp:";

/// Prefix of a host's label.
const SITE: &str = "web:";

/// Recorded in place of a provider where it may be any; no provider has this name.
const ANY_PROVIDER: &str = "*";

/// The label for more sources than are kept apart.
const ANYTHING: &str = "anything";

/// A source, such as `mcp:github` or `web:docs.rs`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(Arc<str>);

/// Why a text is not a label.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{shown}` is not a source: write `mcp:` and the id of a server, or `web:` and a host")]
pub struct LabelError {
    shown: String,
}

impl Label {
    /// The label for what a provider's tools return; `None` for providers whose output is our own
    /// text.
    pub fn of(provider: &ProviderId) -> Option<Self> {
        let server = provider.mounted_server()?;
        Some(Self(format!("{SERVER}{server}").into()))
    }

    /// The label for what a host says.
    pub fn of_host(host: &Host) -> Self {
        Self(format!("{SITE}{host}").into())
    }

    /// Whether this is the label of a host.
    pub fn is_of_host(&self) -> bool {
        self.0.starts_with(SITE)
    }

    /// Whether this is the label of a provider. Does not allocate one.
    pub fn is_of(&self, provider: &ProviderId) -> bool {
        let server = self.0.strip_prefix(SERVER);
        server.is_some() && server == provider.mounted_server()
    }

    /// The label of a session that has read from more sources than are kept apart.
    pub fn anything() -> Self {
        Self(ANYTHING.into())
    }

    /// Parses a label.
    pub fn parse(text: &str) -> Result<Self, LabelError> {
        let server = text.strip_prefix(SERVER);
        let known = text == ANYTHING || server.is_some_and(|id| ProviderId::parse(id).is_ok());
        if known {
            return Ok(Self(text.into()));
        }
        if let Some(host) = text
            .strip_prefix(SITE)
            .and_then(|host| Host::parse(host).ok())
        {
            return Ok(Self::of_host(&host));
        }
        let shown = text.chars().take(64).flat_map(char::escape_debug).collect();
        Err(LabelError { shown })
    }

    /// What a record has in place of the providers of this source: the name that
    /// [`Labels::of_providers`] makes this label of again.
    pub fn recorded_provider(&self) -> String {
        match self.0.strip_prefix(SERVER) {
            // No provider has such a name, so nothing else is recorded like that.
            _ if self.is_of_host() => self.as_str().to_owned(),
            Some(server) => ProviderId::mounted(server).map_or_else(
                |_| ANY_PROVIDER.to_owned(),
                |provider| provider.as_str().to_owned(),
            ),
            None => ANY_PROVIDER.to_owned(),
        }
    }

    /// The label as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it means every source.
    pub fn is_anything(&self) -> bool {
        self.as_str() == ANYTHING
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

impl std::str::FromStr for Label {
    type Err = LabelError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

/// Everything a session has read from: each source once, in order. Cheap to clone, and allocates
/// nothing when empty.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Labels(Option<Arc<[Label]>>);

impl Labels {
    /// No labels.
    pub const NONE: Self = Self(None);

    /// The labels of recorded providers. A name that is no provider, or one too many, may be any
    /// source.
    pub fn of_providers(providers: &[String]) -> Self {
        if providers.len() >= MAX_PROVIDERS {
            return Self::NONE.with(Label::anything());
        }
        let label = |provider: &String| match ProviderId::parse(provider) {
            Ok(provider) => Label::of(&provider),
            Err(_) => Some(match Self::site(provider) {
                Some(site) => site,
                None => Label::anything(),
            }),
        };
        providers.iter().filter_map(label).collect()
    }

    /// The label of a host as it is recorded.
    fn site(recorded: &str) -> Option<Label> {
        let label = Label::parse(recorded).ok()?;
        (label.is_of_host() && label.as_str() == recorded).then_some(label)
    }

    /// Whether there are no labels.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The labels, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Label> {
        self.0.as_deref().unwrap_or_default().iter()
    }

    /// Whether a source is, or may be, among them.
    pub fn contains(&self, label: &Label) -> bool {
        self.iter()
            .any(|known| known == label || known.is_anything())
    }

    /// The labels of other providers: sources other than the one a call goes to.
    pub fn others<'a>(&'a self, provider: &'a ProviderId) -> impl Iterator<Item = &'a Label> {
        self.iter().filter(|label| !label.is_of(provider))
    }

    /// These labels and one more.
    #[must_use]
    pub fn with(&self, label: Label) -> Self {
        if self.contains(&label) {
            return self.clone();
        }
        let mut labels: Vec<Label> = self.iter().cloned().collect();
        if label.is_anything() || labels.len() >= MAX_LABELS {
            return Self(Some(Arc::from([Label::anything()])));
        }
        let at = labels.partition_point(|known| *known < label);
        labels.insert(at, label);
        Self(Some(labels.into()))
    }
}

impl FromIterator<Label> for Labels {
    fn from_iter<I: IntoIterator<Item = Label>>(labels: I) -> Self {
        labels
            .into_iter()
            .fold(Self::NONE, |known, label| known.with(label))
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, label) in self.iter().enumerate() {
            if number > 0 {
                f.write_str(", ")?;
            }
            label.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(text: &str) -> Label {
        Label::parse(text).unwrap()
    }

    #[test]
    fn a_label_is_of_a_mounted_server_and_of_nothing_else() {
        let of = |provider: &str| Label::of(&ProviderId::parse(provider).unwrap());
        assert_eq!(of("mcp__git-hub_2"), Some(label("mcp:git-hub_2")));
        for ours in ["builtin", "embedded", "script", "mcp", "mcp__", "xmcp__a"] {
            assert_eq!(of(ours), None, "{ours}");
        }
        for none in [
            "", "mcp:", "mcp:a b", "mcp:*", "web:", "web:*", "web:a/b", "web:1", "mcp", "Anything",
            "mcp:a:b",
        ] {
            assert!(Label::parse(none).is_err(), "{none}");
        }
    }

    #[test]
    fn a_label_of_a_host_is_of_no_provider() {
        let site = label("web:Docs.RS.");
        assert_eq!(site.as_str(), "web:docs.rs");
        assert!(site.is_of_host() && !label("mcp:docs").is_of_host());
        assert_eq!(site, Label::of_host(&Host::parse("docs.rs").unwrap()));
        assert!(!site.is_of(&ProviderId::builtin()));
    }

    #[test]
    fn labels_are_a_set_in_order() {
        let labels: Labels = ["mcp:b", "mcp:a", "mcp:b"].map(label).into_iter().collect();
        assert_eq!(labels.to_string(), "mcp:a, mcp:b");
        assert_eq!(labels, labels.with(label("mcp:a")));
        let b = ProviderId::mounted("b").unwrap();
        let others: Vec<&Label> = labels.others(&b).collect();
        assert_eq!(others, [&label("mcp:a")]);
        assert!(Labels::NONE.is_empty() && !Labels::NONE.contains(&label("mcp:a")));
    }

    #[test]
    fn providers_on_record_become_labels_and_what_is_none_may_be_any() {
        let of = |providers: &[&str]| {
            let providers: Vec<String> = providers.iter().map(ToString::to_string).collect();
            Labels::of_providers(&providers).to_string()
        };
        assert_eq!(of(&[]), "");
        assert_eq!(of(&["builtin", "script", "embedded"]), "");
        assert_eq!(of(&["mcp__b", "builtin", "mcp__a"]), "mcp:a, mcp:b");
        assert_eq!(of(&["mcp__a", "[redacted]"]), "anything");
        assert_eq!(of(&["web:docs.rs", "mcp__a"]), "mcp:a, web:docs.rs");
        assert_eq!(
            of(&["web:Docs.RS"]),
            "anything",
            "it was not recorded like that"
        );
        for known in [
            label("mcp:a"),
            label("web:docs.rs"),
            label("web:[::1]"),
            Label::anything(),
        ] {
            let recorded = known.recorded_provider();
            assert_eq!(of(&[&recorded]), known.as_str());
        }
        let many: Vec<String> = (0..MAX_PROVIDERS).map(|n| format!("p{n}")).collect();
        assert_eq!(Labels::of_providers(&many).to_string(), "anything");
    }

    #[test]
    fn more_labels_than_are_kept_apart_are_anything() {
        let of = |number: usize| label(&format!("mcp:s{number}"));
        let most: Labels = (0..MAX_LABELS).map(of).collect();
        assert_eq!(most.iter().count(), MAX_LABELS);
        assert!(!most.contains(&label("mcp:other")));
        let more = most.with(of(MAX_LABELS));
        assert_eq!(more.to_string(), "anything");
        assert!(more.contains(&label("mcp:other")));
        assert_eq!(more.with(label("mcp:other")), more, "it never shrinks");
        assert_eq!(more.others(&ProviderId::mounted("s1").unwrap()).count(), 1);
    }
}
