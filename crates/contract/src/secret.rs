//! Secrets of programs that Haft starts: where one is kept, and its value once it was read.
//!
//! A value is never part of a plan, a record or a message. What is stored and shown is the reference.

use std::{
    fmt::{self, Write as _},
    path::{Path, PathBuf},
};

use crate::future::BoxFuture;

/// Stands where a secret was.
pub const REDACTED: &str = "[redacted]";

/// The shortest value that can be kept out of what is stored and shown; removing a shorter one
/// would blank out ordinary words.
pub const MIN_SECRET_BYTES: usize = 6;

/// Where a secret is kept.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SecretReference {
    /// In a variable of Haft's own environment.
    Env(String),
    /// In a file, without its trailing newline.
    File(PathBuf),
}

impl SecretReference {
    /// Parses `env:NAME` or `file:/path`.
    pub fn parse(text: &str) -> Option<Self> {
        let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        match text.split_once(':')? {
            ("env", variable) if !variable.is_empty() && variable.chars().all(name) => {
                Some(Self::Env(variable.to_owned()))
            }
            ("file", path) if Path::new(path).is_absolute() => Some(Self::File(path.into())),
            _ => None,
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

/// The value of a secret. Printing it for debugging shows nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a value; `None` if it is too short to be recognized in other text.
    pub fn new(value: impl Into<String>) -> Option<Self> {
        let value = value.into();
        (value.len() >= MIN_SECRET_BYTES).then_some(Self(value))
    }

    /// The value, for whoever it is meant for.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The value as it is, in hexadecimal, and percent-encoded.
    pub fn forms(&self) -> [String; 3] {
        [self.0.clone(), hex(&self.0), percent(&self.0)]
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

/// Reads secrets where they are kept. Implemented by the host.
pub trait ReadSecret: Send + Sync {
    /// The value, kept out of the record from now on; or why it is not available, in words that
    /// never contain it.
    fn read<'a>(&'a self, reference: &'a SecretReference) -> BoxFuture<'a, Result<Secret, String>>;
}

fn hex(text: &str) -> String {
    let mut hex = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        // Writing to a `String` cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

fn percent(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() * 3);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_names_a_variable_or_an_absolute_path() {
        for good in ["env:API_KEY", "file:/run/secrets/key"] {
            let reference = SecretReference::parse(good).expect(good);
            assert_eq!(reference.to_string(), good);
        }
        for bad in ["env:", "env:A B", "file:relative", "literal", "ENV:A"] {
            assert_eq!(SecretReference::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_secret_is_not_printed() {
        let secret = Secret::new("open sesame").expect("long enough");
        assert_eq!(format!("{secret:?}"), REDACTED);
        assert_eq!(
            secret.forms(),
            ["open sesame", "6f70656e20736573616d65", "open%20sesame"]
        );
        assert_eq!(Secret::new("short"), None);
    }
}
