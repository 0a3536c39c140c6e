//! Accesses of kinds that Haft does not know, which a tool declares: a payment, a door, a robot's
//! arm. Rules name them by kind and target, people see both, and a running tool claims them
//! ([`CallContext::claim`](crate::CallContext::claim)).

use std::{fmt, sync::Arc};

use crate::{
    displayed::is_deceptive,
    error::{ErrorKind, ToolError},
};

/// The longest name of a kind, in bytes.
pub const MAX_KIND_BYTES: usize = 32;

/// The longest target, in bytes.
pub const MAX_TARGET_BYTES: usize = 1024;

/// Words that rules, plans and records use for something else.
const TAKEN: [&str; 20] = [
    "action",
    "command",
    "connect",
    "custom",
    "database",
    "db",
    "domain",
    "future",
    "host",
    "mcp",
    "message",
    "path",
    "process",
    "read",
    "remote_tool",
    "tool",
    "use",
    "write",
    "http",
    "https",
];

/// An access of a tool's own kind: `payment:eur/120 to acme`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomAccess {
    kind: CustomKind,
    target: CustomTarget,
}

/// What kind of access it is: `[a-z][a-z0-9_]*`, at most [`MAX_KIND_BYTES`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CustomKind(Arc<str>);

/// What is touched, in one line of at most [`MAX_TARGET_BYTES`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CustomTarget(Arc<str>);

/// Why an access of a tool's own kind was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CustomAccessError {
    /// The kind is no name.
    #[error("an access's kind is 1 to 32 of a-z, 0-9 and `_`, beginning with a letter")]
    Kind,
    /// The kind is a word that means something else in a rule.
    #[error("an access's kind cannot be `{0}`, which rules use for something else")]
    Taken(String),
    /// The target is empty.
    #[error("an access's target must not be empty")]
    NoTarget,
    /// The target is longer than [`MAX_TARGET_BYTES`].
    #[error("an access's target has more than 1024 bytes")]
    LongTarget,
    /// The target begins or ends with a space, or has a character that acts or hides on a screen.
    #[error(
        "an access's target has a character that would not be seen, or a space at one of its ends"
    )]
    HiddenCharacter,
}

impl CustomKind {
    /// Parses the name of a kind.
    pub fn parse(text: &str) -> Result<Self, CustomAccessError> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let begins = text.starts_with(|c: char| c.is_ascii_lowercase());
        if !begins || text.len() > MAX_KIND_BYTES || !text.chars().all(plain) {
            return Err(CustomAccessError::Kind);
        }
        if TAKEN.contains(&text) {
            return Err(CustomAccessError::Taken(text.to_owned()));
        }
        Ok(Self(Arc::from(text)))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl CustomTarget {
    /// Parses a target, which people and rules read as it is.
    pub fn parse(text: &str) -> Result<Self, CustomAccessError> {
        if text.is_empty() {
            return Err(CustomAccessError::NoTarget);
        }
        if text.len() > MAX_TARGET_BYTES {
            return Err(CustomAccessError::LongTarget);
        }
        if text.trim() != text || text.chars().any(is_deceptive) {
            return Err(CustomAccessError::HiddenCharacter);
        }
        Ok(Self(Arc::from(text)))
    }

    /// The target as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl CustomAccess {
    /// An access of this kind to this target.
    pub fn new(kind: &str, target: &str) -> Result<Self, CustomAccessError> {
        Ok(Self {
            kind: CustomKind::parse(kind)?,
            target: CustomTarget::parse(target)?,
        })
    }

    /// The kind.
    pub fn kind(&self) -> &CustomKind {
        &self.kind
    }

    /// The target.
    pub fn target(&self) -> &CustomTarget {
        &self.target
    }
}

/// As rules name it: `payment:eur/120 to acme`.
impl fmt::Display for CustomAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.as_str(), self.target.as_str())
    }
}

impl From<CustomAccessError> for ToolError {
    /// A kind is the tool's own mistake, a target usually comes from its input.
    fn from(error: CustomAccessError) -> Self {
        let kind = match error {
            CustomAccessError::Kind | CustomAccessError::Taken(_) => ErrorKind::Internal,
            CustomAccessError::NoTarget
            | CustomAccessError::LongTarget
            | CustomAccessError::HiddenCharacter => ErrorKind::InvalidInput,
        };
        Self::new(kind, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_a_plain_name_that_means_nothing_else() {
        for kind in ["payment", "door_2", "a"] {
            assert!(CustomAccess::new(kind, "x").is_ok(), "{kind}");
        }
        let long = "a".repeat(MAX_KIND_BYTES + 1);
        for kind in ["", "Payment", "2nd", "a-b", "a:b", "zahlung…", &long] {
            let refused = CustomAccess::new(kind, "x");
            assert_eq!(refused, Err(CustomAccessError::Kind), "{kind}");
        }
        for kind in TAKEN {
            let refused = CustomAccess::new(kind, "x");
            assert_eq!(refused, Err(CustomAccessError::Taken(kind.to_owned())));
        }
    }

    #[test]
    fn a_target_is_one_short_line_that_shows_whole() {
        for target in [
            "eur/120 to acme",
            "*",
            "Tür 3",
            &"x".repeat(MAX_TARGET_BYTES),
        ] {
            assert!(CustomAccess::new("payment", target).is_ok(), "{target}");
        }
        let refused = |target: &str| CustomAccess::new("payment", target).unwrap_err();
        assert_eq!(refused(""), CustomAccessError::NoTarget);
        let long = "x".repeat(MAX_TARGET_BYTES + 1);
        assert_eq!(refused(&long), CustomAccessError::LongTarget);
        for target in [" a", "a ", "a\nb", "a\u{202e}b", "a\u{200b}b", "\u{1b}[1m"] {
            assert_eq!(refused(target), CustomAccessError::HiddenCharacter);
        }
    }
}
