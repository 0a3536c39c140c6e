//! One definition of a server that can be accepted.

use std::fmt;

use serde_json::Value;

use super::Digest;

/// What sort of definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A tool, by its name.
    Tool,
    /// A prompt, by its name.
    Prompt,
    /// A template of resources, by its `uriTemplate`.
    Template,
    /// What the server says about its use; there is one.
    Instructions,
    /// A resource, by its URI. Vetted, but not accepted one by one: resources come and go.
    Resource,
}

impl Kind {
    /// Every kind that is accepted.
    pub const ALL: [Self; 4] = [Self::Tool, Self::Prompt, Self::Template, Self::Instructions];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Template => "template",
            Self::Instructions => "instructions",
            Self::Resource => "resource",
        }
    }

    /// The kind of a word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// The member of a definition that names it.
    pub(super) fn named_by(self) -> &'static str {
        match self {
            Self::Tool | Self::Prompt | Self::Instructions => "name",
            Self::Template => "uriTemplate",
            Self::Resource => "uri",
        }
    }
}

/// What a definition is accepted under. Another name is another definition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemKey {
    /// What sort.
    pub kind: Kind,
    /// The server's name for it.
    pub name: String,
}

impl ItemKey {
    /// A key.
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

/// A definition, as it came, and its hash.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// What it is accepted under.
    pub key: ItemKey,
    /// Its hash.
    pub digest: Digest,
    /// As it came.
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
