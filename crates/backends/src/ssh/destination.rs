//! Where to connect to, parsed once into something that cannot be mistaken for an option or, by a
//! `ProxyCommand` that a shell runs, for a command.

use std::fmt;

/// The longest destination.
const MAX_BYTES: usize = 512;

/// `host` or `user@host`; the host may be an alias from the user's own configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    text: String,
    /// The index at which the host begins.
    host: usize,
}

/// The text is not a valid destination.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not an SSH destination: {why}", .text.escape_debug())]
pub struct DestinationError {
    text: String,
    why: &'static str,
}

impl Destination {
    /// Parses `host` or `user@host`.
    pub fn parse(text: &str) -> Result<Self, DestinationError> {
        let fail = |why| DestinationError {
            text: text.chars().take(128).collect(),
            why,
        };
        if text.len() > MAX_BYTES {
            return Err(fail("it is too long"));
        }
        let (user, host) = match text.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, text),
        };
        if !is_plain(host, "._-:%[]") {
            return Err(fail(
                "a host is a name, an address or an alias of letters, digits and `._-:%`",
            ));
        }
        if user.is_some_and(|user| !is_plain(user, "._-+@")) {
            return Err(fail("a user is a name of letters, digits and `._-+`"));
        }
        Ok(Self {
            text: text.to_owned(),
            host: text.len() - host.len(),
        })
    }

    /// The host alone.
    pub fn host(&self) -> &str {
        self.text.get(self.host..).unwrap_or_default()
    }

    /// In the form the `ssh` program takes.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Not empty, no leading dash, and nothing that has a meaning for a shell or an option parser.
fn is_plain(text: &str, also: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || also.contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Option<&str>) {
        let host = Destination::parse(text)
            .ok()
            .map(|destination| destination.host().to_owned());
        assert_eq!(host.as_deref(), expect, "{text}");
    }

    #[test]
    fn hosts_with_and_without_a_user() {
        check("build", Some("build"));
        check("me@build.example.com", Some("build.example.com"));
        check("me@127.0.0.1", Some("127.0.0.1"));
        check("me@fe80::1%eth0", Some("fe80::1%eth0"));
        check("first.last@corp@bastion", Some("bastion"));
    }

    #[test]
    fn nothing_that_an_option_parser_or_a_shell_would_obey() {
        for text in [
            "",
            "-oProxyCommand=x",
            "me@-oProxyCommand=x",
            "-x@host",
            "me@",
            "@host",
            "a b",
            "host;id",
            "`id`@host",
            "$(id)@host",
            "host\nx",
            "host'",
            "ho\u{e4}st",
        ] {
            check(text, None);
        }
    }
}
