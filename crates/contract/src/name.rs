//! Names of tools and providers, parsed once so that nothing downstream re-checks them.
//!
//! Policy and the ledger key on [`ToolKey`] (provider, tool), never on a display name, so a
//! provider cannot impersonate another by choosing a name.

use std::{
    borrow::{Borrow, Cow},
    fmt,
    sync::Arc,
};

/// The longest tool name every model provider accepts.
pub const MAX_NAME_CHARS: usize = 64;

/// Prefix of a mounted server's provider id.
const MOUNTED: &str = "mcp__";

/// A tool's name: `[A-Za-z0-9_-]{1,64}`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolName(Arc<str>);

/// Where a tool comes from: `builtin`, `script`, an MCP server's configured id, a worker's name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProviderId(Arc<str>);

/// What identifies a tool: its provider and its name there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolKey {
    /// The source of the tool.
    pub provider: ProviderId,
    /// The tool's name at that source.
    pub tool: ToolName,
}

/// The name of an action within a tool (`download` of `browser`). Tools define theirs as constants;
/// a name read back from the record is owned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActionName(Cow<'static, str>);

impl ActionName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&'static str> for ActionName {
    fn from(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }
}

impl From<String> for ActionName {
    fn from(name: String) -> Self {
        Self(Cow::Owned(name))
    }
}

impl fmt::Display for ActionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a name was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The name has no characters.
    #[error("a name must not be empty")]
    Empty,
    /// The name is longer than [`MAX_NAME_CHARS`].
    #[error("the name `{0}` has more than 64 characters")]
    TooLong(String),
    /// A character outside `[A-Za-z0-9_-]`.
    #[error(
        "the name `{name}` contains {character:?}; only A-Z, a-z, 0-9, `_` and `-` are allowed"
    )]
    Character {
        /// The refused name, escaped.
        name: String,
        /// The first character that is not allowed.
        character: char,
    },
}

fn check(name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if let Some(character) = name
        .chars()
        .find(|c| !(c.is_ascii_alphanumeric() || *c == '_' || *c == '-'))
    {
        let name = name
            .chars()
            .take(MAX_NAME_CHARS)
            .flat_map(char::escape_debug)
            .collect();
        return Err(NameError::Character { name, character });
    }
    if name.len() > MAX_NAME_CHARS {
        return Err(NameError::TooLong(
            name.chars().take(MAX_NAME_CHARS).collect(),
        ));
    }
    Ok(())
}

macro_rules! name_type {
    ($type:ident) => {
        impl $type {
            /// Parses a name, refusing anything outside `[A-Za-z0-9_-]{1,64}`.
            pub fn parse(name: &str) -> Result<Self, NameError> {
                check(name)?;
                Ok(Self(Arc::from(name)))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl std::str::FromStr for $type {
            type Err = NameError;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                Self::parse(name)
            }
        }
    };
}

name_type!(ToolName);
name_type!(ProviderId);

impl ProviderId {
    /// The provider of the tools compiled into Haft. No other provider may shadow its names.
    pub fn builtin() -> Self {
        Self(Arc::from("builtin"))
    }

    /// The provider of tools an embedder registers from Rust.
    pub fn embedded() -> Self {
        Self(Arc::from("embedded"))
    }

    /// The provider of script tools from trusted folders.
    pub fn script() -> Self {
        Self(Arc::from("script"))
    }

    /// The provider of a mounted MCP server's tools: `mcp__<id>`, a prefix no other provider has.
    pub fn mounted(server: &str) -> Result<Self, NameError> {
        Self::parse(&format!("{MOUNTED}{server}"))
    }

    /// The MCP server whose tools this provider supplies, if it is a mounted one.
    pub fn mounted_server(&self) -> Option<&str> {
        let server = self.0.strip_prefix(MOUNTED);
        server.filter(|server| !server.is_empty())
    }
}

impl ToolKey {
    /// Joins a provider and a tool name.
    pub fn new(provider: ProviderId, tool: ToolName) -> Self {
        Self { provider, tool }
    }
}

impl fmt::Display for ToolKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.tool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hold_only_the_allowed_characters() {
        assert!(ToolName::parse("read_output-2").is_ok());
        assert_eq!(ToolName::parse(""), Err(NameError::Empty));
        assert!(matches!(
            ToolName::parse("ｂash"),
            Err(NameError::Character {
                character: 'ｂ',
                ..
            })
        ));
        assert!(matches!(
            ToolName::parse(&"a".repeat(65)),
            Err(NameError::TooLong(_))
        ));
        assert!(ToolName::parse(&"a".repeat(64)).is_ok());
    }
}
