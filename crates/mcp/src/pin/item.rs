//! A definition of a server that can be accepted.

use std::fmt;

use serde_json::Value;

use super::Digest;

/// The kind of definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A tool, by its name.
    Tool,
    /// A prompt, by its name.
    Prompt,
    /// A resource template, by its `uriTemplate`.
    Template,
    /// The server's instructions; there is at most one.
    Instructions,
    /// A resource, by its URI. Vetted, but not accepted individually, because resources come and
    /// go.
    Resource,
}

impl Kind {
    /// Every kind that can be accepted.
    pub const ALL: [Self; 4] = [Self::Tool, Self::Prompt, Self::Template, Self::Instructions];

    /// Its name in messages and stores.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Template => "template",
            Self::Instructions => "instructions",
            Self::Resource => "resource",
        }
    }

    /// The kind with this name, if it can be accepted.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// The member of a definition that holds its name.
    pub(super) fn named_by(self) -> &'static str {
        match self {
            Self::Tool | Self::Prompt | Self::Instructions => "name",
            Self::Template => "uriTemplate",
            Self::Resource => "uri",
        }
    }
}

/// The key under which a definition is accepted. Another name is another definition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemKey {
    /// The kind of definition.
    pub kind: Kind,
    /// The server's name for it.
    pub name: String,
}

impl ItemKey {
    /// Puts a key together.
    pub fn new(kind: Kind, name: impl Into<String>) -> Self {
        Self {
            kind,
            name: name.into(),
        }
    }
}

impl fmt::Display for ItemKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Instructions => f.write_str("the instructions"),
            kind => write!(f, "{} `{}`", kind.as_str(), self.name),
        }
    }
}

/// A definition as received, and its hash.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// The key it is accepted under.
    pub key: ItemKey,
    /// The hash of `definition`.
    pub digest: Digest,
    /// The definition as received.
    pub definition: Value,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_kept_under_its_word_and_named_by_a_member() {
        for (kind, word, member) in [
            (Kind::Tool, "tool", "name"),
            (Kind::Prompt, "prompt", "name"),
            (Kind::Template, "template", "uriTemplate"),
            (Kind::Instructions, "instructions", "name"),
        ] {
            assert_eq!((kind.as_str(), kind.named_by()), (word, member));
            assert_eq!(Kind::parse(word), Some(kind));
        }
        // Resources are vetted and never accepted.
        assert_eq!(Kind::parse(Kind::Resource.as_str()), None);
        assert_eq!(Kind::Resource.named_by(), "uri");
        let said = |kind| ItemKey::new(kind, "x").to_string();
        assert_eq!(said(Kind::Tool), "tool `x`");
        assert_eq!(said(Kind::Instructions), "the instructions");
    }
}
