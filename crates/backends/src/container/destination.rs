//! Which container, and as whom: parsed once into something that cannot be mistaken for an option.

use std::fmt;

/// The longest name or user.
const MAX_BYTES: usize = 255;

/// The name or the id of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerName(String);

/// A user in a container: a name or a number, and perhaps a group after a colon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerUser(String);

/// The text names no container or user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not {what}", .text.escape_debug())]
pub struct ContainerNameError {
    text: String,
    what: &'static str,
}

impl ContainerName {
    /// Parses a name or an id, as Docker and Podman accept them.
    pub fn parse(text: &str) -> Result<Self, ContainerNameError> {
        plain(text, "a container: a name has letters, digits and `._-`").map(Self)
    }

    /// In the form the program takes.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ContainerUser {
    /// Parses `name`, `1000`, `name:group` or `1000:1000`.
    pub fn parse(text: &str) -> Result<Self, ContainerNameError> {
        const WHAT: &str = "a user: write a name or a number, and perhaps a group after a colon";
        match text.split_once(':') {
            None => plain(text, WHAT).map(Self),
            Some((user, group)) => {
                let failed = |_| error(text, WHAT);
                plain(user, WHAT).map_err(failed)?;
                plain(group, WHAT).map_err(failed)?;
                Ok(Self(text.to_owned()))
            }
        }
    }

    /// In the form the program takes.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ContainerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for ContainerUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Begins with a letter or a digit, and has nothing that an option parser or a path would obey.
fn plain(text: &str, what: &'static str) -> Result<String, ContainerNameError> {
    let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let rest = text
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    if begins && rest && text.len() <= MAX_BYTES {
        Ok(text.to_owned())
    } else {
        Err(error(text, what))
    }
}

fn error(text: &str, what: &'static str) -> ContainerNameError {
    ContainerNameError {
        text: text.chars().take(128).collect(),
        what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_ids_and_users() {
        for text in ["web", "app_db-1", "shop.web.1", "61c49eac3acf", "_x"] {
            assert_eq!(ContainerName::parse(text).unwrap().as_str(), text);
        }
        for text in ["dev", "1000", "dev:staff", "1000:1000", "_apt"] {
            assert_eq!(ContainerUser::parse(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn nothing_that_an_option_parser_would_obey() {
        let long = "x".repeat(MAX_BYTES + 1);
        for text in [
            "",
            "-x",
            "--privileged",
            "a b",
            "a/b",
            "a:b",
            "a\nb",
            "$x",
            "h\u{e4}",
            &long,
        ] {
            assert!(ContainerName::parse(text).is_err(), "{text}");
        }
        for text in ["", "-u", "a:", ":a", "a:b:c", "a:-b", "a b", "~"] {
            assert!(ContainerUser::parse(text).is_err(), "{text}");
        }
    }
}
