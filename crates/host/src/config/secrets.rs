//! Secrets of mounted servers: references in the configuration, read when a server starts and never
//! repeated in messages.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use crate::state::private;

/// The largest file a secret is read from.
const MAX_SECRET_BYTES: u64 = 64 * 1024;

/// Where a secret is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretReference {
    /// In a variable of Haft's own environment.
    Env(String),
    /// In a file, without its trailing newline.
    File(PathBuf),
}

impl SecretReference {
    /// Parses `env:NAME` or `file:/path`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        match text.split_once(':')? {
            ("env", variable) if !variable.is_empty() && variable.chars().all(name) => {
                Some(Self::Env(variable.to_owned()))
            }
            ("file", path) if Path::new(path).is_absolute() => Some(Self::File(path.into())),
            _ => None,
        }
    }

    /// The secret, or why it is not available. Its value never gets into a message.
    pub fn read(&self) -> Result<String, String> {
        match self {
            Self::Env(variable) => match std::env::var(variable) {
                Ok(secret) if !secret.is_empty() => Ok(secret),
                Ok(_) | Err(_) => Err(format!("the variable `{variable}` is not set")),
            },
            Self::File(path) => {
                let shown = path.display();
                let bytes = private::read_own(path, MAX_SECRET_BYTES)
                    .map_err(|error| format!("`{shown}` cannot be used: {error}"))?
                    .ok_or_else(|| format!("there is no file `{shown}`"))?;
                let text = String::from_utf8(bytes)
                    .map_err(|_| format!("`{shown}` does not hold text"))?;
                let secret = text.trim_end_matches(['\r', '\n']);
                if secret.is_empty() {
                    return Err(format!("`{shown}` is empty"));
                }
                Ok(secret.to_owned())
            }
        }
    }
}

impl fmt::Display for SecretReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(variable) => write!(f, "env:{variable}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

/// The names in a text's `${…}` placeholders.
pub(super) fn placeholders(text: &str) -> impl Iterator<Item = &str> {
    text.split("${")
        .skip(1)
        .filter_map(|rest| rest.split_once('}').map(|(name, _)| name))
}

/// A text with its placeholders filled in.
pub fn filled(text: &str, secrets: &BTreeMap<String, String>) -> String {
    let mut filled = String::new();
    let mut rest = text;
    // In one pass, so that a secret's value is never searched for placeholders.
    while let Some((before, after)) = rest.split_once("${") {
        filled.push_str(before);
        match after.split_once('}') {
            Some((name, more)) if secrets.contains_key(name) => {
                filled.extend(secrets.get(name).map(String::as_str));
                rest = more;
            }
            Some(_) | None => {
                filled.push_str("${");
                rest = after;
            }
        }
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_looked_at_for_other_secrets() {
        let secrets = [("A", "${B}"), ("B", "hidden")];
        let secrets = secrets.map(|(name, secret)| (name.to_owned(), secret.to_owned()));
        let filled = |text| filled(text, &secrets.clone().into());
        assert_eq!(filled("x ${A} ${B} ${C} ${"), "x ${B} hidden ${C} ${");
    }

    #[test]
    fn a_secret_that_is_not_there_is_named_and_nothing_else() {
        let missing = SecretReference::parse("env:HAFT_TEST_NO_SUCH_VARIABLE").unwrap();
        assert_eq!(
            missing.read(),
            Err("the variable `HAFT_TEST_NO_SUCH_VARIABLE` is not set".to_owned())
        );
        for bad in ["env:", "env:A B", "file:relative", "literal", "ENV:A"] {
            assert_eq!(SecretReference::parse(bad), None, "{bad}");
        }
    }
}
