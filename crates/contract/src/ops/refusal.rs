//! What a sandbox refused, as reported by the mechanism that refused it, never guessed from output.

use std::fmt;

/// One thing a sandbox refused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Refusal {
    /// The mechanism that refused.
    pub layer: Layer,
    /// What was refused, for a person and a model: `connect to example.com:443`, `ptrace`,
    /// `create .bashrc`.
    pub what: String,
    /// Why, or which setting would allow it.
    pub why: String,
}

impl Refusal {
    /// The most refusals reported for one child.
    pub const MAX: usize = 32;
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} refused by {}: {}",
            self.what,
            self.layer.as_str(),
            self.why
        )
    }
}

/// A mechanism of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// The mount, process, network and other namespaces.
    Namespaces,
    /// Landlock.
    Landlock,
    /// The system call filter.
    Seccomp,
    /// The proxy every connection goes through.
    Egress,
    /// The watch over protected names.
    Protected,
    /// Resource limits.
    Limits,
}

impl Layer {
    /// Every layer, in declaration order.
    pub const ALL: [Self; 6] = [
        Self::Namespaces,
        Self::Landlock,
        Self::Seccomp,
        Self::Egress,
        Self::Protected,
        Self::Limits,
    ];

    /// The name used in JSON, in the ledger and in documentation.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Egress => "egress",
            Self::Protected => "protected",
            Self::Limits => "limits",
        }
    }

    /// The layer with this name, if there is one.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|layer| layer.as_str() == word)
    }
}
