//! Labels: which sources a session has read from, that others than its people write.
//!
//! A label says who had a word in a conversation. It says nothing about which data went where, since
//! there is a model in between. Labels only ever grow. Read next: `docs/adr/0020-*.md`.

use std::{fmt, sync::Arc};

use crate::name::ProviderId;

/// The most labels one session has; with more it has [`Label::anything`] alone.
pub const MAX_LABELS: usize = 64;

/// How many providers a record is asked for: those without a label, and one more than there may be
/// labels. So many or more are [`Label::anything`].
pub const MAX_PROVIDERS: usize = MAX_LABELS + 16;

/// What the label of a mounted server starts with.
const SERVER: &str = "mcp:";

/// The word for more labels than are kept apart.
const ANYTHING: &str = "anything";

/// A source, such as `mcp:github`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(Arc<str>);

/// A text that is no label.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{shown}` is not a source: write `mcp:` and the id of a server")]
pub struct LabelError {
    shown: String,
}

impl Label {
    /// The label of what a provider's tools return; none for those whose words are our own.
    pub fn of(provider: &ProviderId) -> Option<Self> {
        let server = provider.mounted_server()?;
        Some(Self(format!("{SERVER}{server}").into()))
    }

    /// Whether this is the label of a provider, without making one.
    pub fn is_of(&self, provider: &ProviderId) -> bool {
        let server = self.0.strip_prefix(SERVER);
        server.is_some() && server == provider.mounted_server()
    }

    /// The label of a session that has read from more sources than are kept apart.
    pub fn anything() -> Self {
        Self(ANYTHING.into())
    }

    /// Reads a label.
    pub fn parse(text: &str) -> Result<Self, LabelError> {
        let server = text.strip_prefix(SERVER);
        let known = text == ANYTHING || server.is_some_and(|id| ProviderId::parse(id).is_ok());
        if known {
            return Ok(Self(text.into()));
        }
        let shown = text.chars().take(64).flat_map(char::escape_debug).collect();
        Err(LabelError { shown })
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it stands for every source there is.
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

/// Everything a session has read from: each once, in order. Cheap to clone, and nothing at all where
/// there is none.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Labels(Option<Arc<[Label]>>);

impl Labels {
    /// None.
    pub const NONE: Self = Self(None);

    /// The labels of providers as they are recorded. What is no provider, or one too many, may be
    /// any.
    pub fn of_providers(providers: &[String]) -> Self {
        if providers.len() >= MAX_PROVIDERS {
            return Self::NONE.with(Label::anything());
        }
        let label = |provider: &String| match ProviderId::parse(provider) {
            Ok(provider) => Label::of(&provider),
            Err(_) => Some(Label::anything()),
        };
        providers.iter().filter_map(label).collect()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Each of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Label> {
        self.0.as_deref().unwrap_or_default().iter()
    }

    /// Whether a source is among them, or may be.
    pub fn contains(&self, label: &Label) -> bool {
        self.iter()
            .any(|known| known == label || known.is_anything())
    }

    /// Those that are not of this provider: sources other than the one a call goes to.
    pub fn others<'a>(&'a self, provider: &'a ProviderId) -> impl Iterator<Item = &'a Label> {
        self.iter().filter(|label| !label.is_of(provider))
    }

    /// These and one more.
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
            "", "mcp:", "mcp:a b", "mcp:*", "web:x", "mcp", "Anything", "mcp:a:b",
        ] {
            assert!(Label::parse(none).is_err(), "{none}");
        }
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
