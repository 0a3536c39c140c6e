//! `in_doubt` of a rule about commands: what happens to a command that is not understood well enough
//! to tell whether the rule applies.

/// Who decides about a command that a rule may apply to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum InDoubt {
    /// A person.
    #[default]
    Ask,
    /// A sandbox without network, where there is one: what the rule is about, it holds anyway. A
    /// person elsewhere.
    Sandbox,
}

impl InDoubt {
    /// Every choice, the stricter first.
    pub(crate) const ALL: [Self; 2] = [Self::Ask, Self::Sandbox];

    /// The word used in configuration.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Sandbox => "sandbox",
        }
    }

    /// The choice this word names, if any.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.as_str() == word)
    }
}
