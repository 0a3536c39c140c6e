//! The names of mounted tools: `mcp__<server>__<tool>`, at most 64 characters from the set that
//! every model provider accepts. A name that does not fit is cut and gets a hash of the whole name,
//! so it is unique and the same in every run.

use std::fmt;

use haft_contract::{
    ProviderId, ToolName,
    name::{MAX_NAME_CHARS, NameError},
};
use sha2::{Digest as _, Sha256};

/// The part of a name before the server's id.
pub const PREFIX: &str = "mcp";

/// The separator between the parts of a name.
pub const SEPARATOR: &str = "__";

/// The longest server id. Leaves room for the tool's name.
pub const MAX_SERVER_CHARS: usize = 24;

/// How many hexadecimal digits of the hash end a name that was cut.
const HASH_DIGITS: usize = 8;

/// The id that an operator gave a server. Never taken from what the server says about itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(String);

/// Why an id was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerIdError {
    /// It is not a valid name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// It contains the separator, or begins or ends with half of it.
    #[error(
        "the server id `{0}` contains `__`, or begins or ends with `_`, which would make tool names ambiguous"
    )]
    Separator(String),
    /// Too long.
    #[error("the server id `{0}` has more than {MAX_SERVER_CHARS} characters")]
    TooLong(String),
}

impl ServerId {
    /// Parses an id.
    pub fn parse(id: &str) -> Result<Self, ServerIdError> {
        ProviderId::parse(id)?;
        if id.contains(SEPARATOR) || id.starts_with('_') || id.ends_with('_') {
            return Err(ServerIdError::Separator(id.to_owned()));
        }
        if id.len() > MAX_SERVER_CHARS {
            return Err(ServerIdError::TooLong(id.to_owned()));
        }
        Ok(Self(id.to_owned()))
    }

    /// As written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The provider of its tools: `mcp__<id>`, which no built-in tool has.
    pub fn provider(&self) -> Result<ProviderId, NameError> {
        ProviderId::mounted(&self.0)
    }
}

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether the names of a server's tools include its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolNaming {
    /// `mcp__<server>__<tool>`.
    #[default]
    Prefixed,
    /// The server's own names; for a single server. A name that looks like a tool of another server
    /// is prefixed anyway.
    Plain,
}

/// The name of a server's tool. `tool` is the server's own name for it and may hold any characters.
pub fn tool_name(server: &ServerId, tool: &str, naming: ToolNaming) -> Result<ToolName, NameError> {
    let claims_a_server = tool
        .to_ascii_lowercase()
        .starts_with(&format!("{PREFIX}{SEPARATOR}"));
    let whole = match naming {
        ToolNaming::Plain if !claims_a_server => tool.to_owned(),
        ToolNaming::Plain | ToolNaming::Prefixed => {
            format!("{PREFIX}{SEPARATOR}{server}{SEPARATOR}{tool}")
        }
    };
    if let Ok(name) = ToolName::parse(&whole) {
        return Ok(name);
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let plain: String = whole
        .chars()
        .map(|c| if fits(c) { c } else { '_' })
        .take(MAX_NAME_CHARS - HASH_DIGITS - 1)
        .collect();
    let hash = Sha256::digest(whole.as_bytes());
    let digits = hash.iter().take(HASH_DIGITS / 2);
    let digits = digits.fold(String::new(), |digits, byte| format!("{digits}{byte:02x}"));
    ToolName::parse(&format!("{plain}_{digits}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(server: &str, tool: &str) -> String {
        let server = ServerId::parse(server).unwrap();
        let name = tool_name(&server, tool, ToolNaming::Prefixed).unwrap();
        name.as_str().to_owned()
    }

    #[test]
    fn a_name_says_whose_tool_it_is() {
        assert_eq!(name("github", "create_issue"), "mcp__github__create_issue");
    }

    #[test]
    fn a_name_that_does_not_fit_is_cut_and_stays_the_same() {
        let long = name("github", &"a".repeat(100));
        assert_eq!(long.len(), MAX_NAME_CHARS);
        assert_eq!(long, name("github", &"a".repeat(100)));
        assert_ne!(long, name("github", &"a".repeat(101)));
        assert_ne!(name("s", "a.b"), name("s", "a/b"));
        assert_ne!(name("s", "a.b"), name("s", "a_b"));
    }

    #[test]
    fn an_id_cannot_reach_into_the_name_of_a_tool() {
        for id in ["a__b", "_a", "a_", "", "a b", "ｇithub", &"a".repeat(25)] {
            assert!(ServerId::parse(id).is_err(), "{id:?}");
        }
        assert!(ServerId::parse("my-server_2").is_ok());
    }

    #[test]
    fn a_plain_name_is_never_that_of_another_server() {
        let server = ServerId::parse("s").unwrap();
        let plain = |tool| tool_name(&server, tool, ToolNaming::Plain).unwrap();
        assert_eq!(plain("read").as_str(), "read");
        assert_eq!(plain("mcp__github__x").as_str(), "mcp__s__mcp__github__x");
        assert_eq!(plain("MCP__github__x").as_str(), "mcp__s__MCP__github__x");
    }
}
