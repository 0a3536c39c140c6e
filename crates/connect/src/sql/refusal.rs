//! Why a statement was refused, in words for a model.

use std::fmt;

use haft_contract::{ErrorKind, ops::OpsError};
use sqlparser::{parser::ParserError, tokenizer::TokenizerError};

/// A statement that is not run because of what it says or because it is not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedStatement {
    why: String,
    hint: Option<String>,
}

/// The longest part of a statement that is repeated.
const MAX_SHOWN: usize = 80;

impl RefusedStatement {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            hint: None,
        }
    }

    /// Says what to do next.
    pub(super) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The source takes no changes.
    pub(super) fn read_only(source: &str) -> Self {
        Self::new(format!("the source `{source}` takes no changes")).with_hint(format!(
            "its operator can let it take them: `writable = true` under `[sources.{source}]` in haft.toml"
        ))
    }

    /// A kind of clause or expression that is on no list.
    pub(super) fn unlisted(what: &str) -> Self {
        Self::new(format!("{what} is not among what statements may use here"))
    }

    pub(super) fn too_long() -> Self {
        Self::new("the statement is too long; pass values as parameters")
    }

    pub(super) fn parse(error: ParserError) -> Self {
        match error {
            ParserError::RecursionLimitExceeded => Self::new("the statement nests too deeply"),
            ParserError::ParserError(said) | ParserError::TokenizerError(said) => {
                Self::misunderstood(&said)
            }
        }
    }

    pub(super) fn token(error: &TokenizerError) -> Self {
        Self::misunderstood(&error.message)
    }

    fn misunderstood(said: &str) -> Self {
        Self::new(format!("the statement is not understood: {}", shown(said)))
            .with_hint("correct what stands there; only the database's usual SQL is understood")
    }
}

/// A piece of somebody's text, cut and in one line.
pub(super) fn shown(text: &str) -> String {
    let visible = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut visible: String = visible.take(MAX_SHOWN).collect();
    if text.chars().nth(MAX_SHOWN).is_some() {
        visible.push('…');
    }
    visible
}

impl fmt::Display for RefusedStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for RefusedStatement {}

impl From<RefusedStatement> for OpsError {
    fn from(refused: RefusedStatement) -> Self {
        let error = Self::new(ErrorKind::Denied, refused.why);
        match refused.hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }
}
