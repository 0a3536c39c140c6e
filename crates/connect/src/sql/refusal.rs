//! Why a statement was refused, in words for a model.

use std::fmt;

use haft_contract::{ErrorKind, ops::OpsError};
use sqlparser::{parser::ParserError, tokenizer::TokenizerError};

/// A statement that is not run because of what it says or because it is not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedStatement(String);

/// The longest part of a statement that is repeated.
const MAX_SHOWN: usize = 80;

impl RefusedStatement {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    /// A kind of clause or expression that is on no list.
    pub(super) fn unlisted(what: &str) -> Self {
        Self(format!("{what} is not among what statements may use here"))
    }

    pub(super) fn too_long() -> Self {
        Self::new("the statement is too long; pass values as parameters")
    }

    pub(super) fn parse(error: ParserError) -> Self {
        match error {
            ParserError::RecursionLimitExceeded => Self::new("the statement nests too deeply"),
            ParserError::ParserError(said) | ParserError::TokenizerError(said) => {
                Self(format!("the statement is not understood: {}", shown(&said)))
            }
        }
    }

    pub(super) fn token(error: &TokenizerError) -> Self {
        let said = shown(&error.message);
        Self(format!("the statement is not understood: {said}"))
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
        f.write_str(&self.0)
    }
}

impl std::error::Error for RefusedStatement {}

impl From<RefusedStatement> for OpsError {
    fn from(refused: RefusedStatement) -> Self {
        Self::new(ErrorKind::Denied, refused.0)
    }
}
