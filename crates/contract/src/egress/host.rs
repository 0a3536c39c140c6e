//! A host as a program may name it. Rules, proxies and headers share this one strict parser, so
//! that no two places can read the same text as different hosts.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// The longest host, in bytes: the limit of the domain name system.
pub const MAX_HOST_BYTES: usize = 253;

/// The longest label of a name, in bytes.
const MAX_LABEL_BYTES: usize = 63;

/// A name or an address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// A name in lower case, without a final dot. Never a disguised address.
    Name(String),
    /// An address.
    Address(IpAddr),
}

/// Why a text is not a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostError {
    /// It is empty.
    Empty,
    /// It is longer than [`MAX_HOST_BYTES`].
    TooLong,
    /// A character that no host contains: NUL, a space, `%`, `@`, `\`, or one that is not ASCII. A
    /// name in another script is written in its `xn--` form.
    Character(char),
    /// Two dots in a row, a label that is too long, or a hyphen at either end of one.
    Label,
    /// It ends in a number but is not four decimal numbers: `127.1`, `0x7f000001`, `2130706433`.
    /// Programs disagree about what these mean.
    Number,
    /// Brackets without an IPv6 address between them.
    Brackets,
}

impl Host {
    /// Parses a name (`docs.rs`), an IPv4 address, or an IPv6 address with or without brackets.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        if text.is_empty() {
            return Err(HostError::Empty);
        }
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or(HostError::Brackets)?;
            return parse_v6(inner);
        }
        if text.contains(':') {
            return parse_v6(text);
        }
        if let Some(odd) = text.chars().find(|c| !is_name_character(*c)) {
            return Err(HostError::Character(odd));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        if name.len() > MAX_HOST_BYTES {
            return Err(HostError::TooLong);
        }
        if let Ok(address) = name.parse::<Ipv4Addr>() {
            return Ok(Self::Address(address.into()));
        }
        if !name.split('.').all(is_label) {
            return Err(HostError::Label);
        }
        if name.rsplit('.').next().is_some_and(is_number) {
            return Err(HostError::Number);
        }
        Ok(Self::Name(name.to_ascii_lowercase()))
    }

    /// The address, if this is one.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Name(_) => None,
            Self::Address(address) => Some(*address),
        }
    }
}

fn parse_v6(text: &str) -> Result<Host, HostError> {
    if let Some(odd) = text
        .chars()
        .find(|c| !c.is_ascii_hexdigit() && !":.".contains(*c))
    {
        return Err(HostError::Character(odd));
    }
    let address: Ipv6Addr = text.parse().map_err(|_| HostError::Brackets)?;
    Ok(Host::Address(address.into()))
}

fn is_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.".contains(c)
}

fn is_label(label: &str) -> bool {
    !label.is_empty()
        && label.len() <= MAX_LABEL_BYTES
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Whether a resolver might read this last label as a number, and so the whole host as an address.
fn is_number(label: &str) -> bool {
    let hexadecimal = label
        .strip_prefix("0x")
        .or_else(|| label.strip_prefix("0X"))
        .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    hexadecimal || label.bytes().all(|byte| byte.is_ascii_digit())
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the host is missing"),
            Self::TooLong => write!(f, "a host has at most {MAX_HOST_BYTES} bytes"),
            Self::Character(c) => write!(f, "`{}` is not allowed in a host", c.escape_debug()),
            Self::Label => f.write_str("each label must have 1 to 63 letters, digits or hyphens"),
            Self::Number => f.write_str("an IPv4 address must be four decimal numbers"),
            Self::Brackets => f.write_str("the brackets must contain an IPv6 address"),
        }
    }
}

impl std::error::Error for HostError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &str) {
        let host = Host::parse(text).expect(text);
        assert_eq!(host.to_string(), expect, "{text}");
        assert_eq!(Host::parse(expect), Ok(host), "{text} read again");
    }

    #[test]
    fn hosts_are_normalised() {
        check("Docs.RS.", "docs.rs");
        check("127.0.0.1", "127.0.0.1");
        check("127.0.0.1.", "127.0.0.1");
        check("::1", "[::1]");
        check("[0:0:0:0:0:FFFF:7f00:1]", "[::ffff:127.0.0.1]");
        check("xn--bcher-kva.example", "xn--bcher-kva.example");
        check("_dmarc.example.com", "_dmarc.example.com");
        check("1password.com", "1password.com");
        check("4chan", "4chan");
    }

    #[test]
    fn ss_03_numbers_that_are_no_dotted_quad_are_refused() {
        for text in [
            "2130706433",
            "0x7f000001",
            "017700000001",
            "0177.0.0.1",
            "0x7f.1",
            "127.0.1",
            "127.1",
            "0",
            "1.2.3.4.5",
            "256.0.0.1",
            "127.0.0.01",
            "127.0.0.0x1",
            "127.0.0.1.0x",
        ] {
            assert_eq!(Host::parse(text), Err(HostError::Number), "{text}");
        }
    }

    #[test]
    fn ss_14_what_other_parsers_disagree_on_is_refused() {
        let cases = [
            ("evil\0.allowed.com", HostError::Character('\0')),
            ("good@evil", HostError::Character('@')),
            ("good\\@evil", HostError::Character('\\')),
            ("a\tb", HostError::Character('\t')),
            ("a\r\nb", HostError::Character('\r')),
            ("a b", HostError::Character(' ')),
            ("a/b", HostError::Character('/')),
            ("a#b", HostError::Character('#')),
            ("%31", HostError::Character('%')),
            ("１２７.0.0.1", HostError::Character('１')),
            ("ex\u{430}mple.com", HostError::Character('\u{430}')),
            ("a\u{3002}com", HostError::Character('\u{3002}')),
            ("fe80::1%lo", HostError::Character('%')),
            ("", HostError::Empty),
            (".", HostError::Label),
            ("a..b", HostError::Label),
            ("a..", HostError::Label),
            ("-a.com", HostError::Label),
            ("[::1", HostError::Brackets),
            ("[1.2.3.4]", HostError::Brackets),
            ("1:2", HostError::Brackets),
        ];
        for (text, expect) in cases {
            assert_eq!(Host::parse(text), Err(expect), "{text:?}");
        }
        let long = format!("{}.com", "a.".repeat(200));
        assert_eq!(
            Host::parse(&long.replace("..", ".")),
            Err(HostError::TooLong)
        );
        let label = "a".repeat(64);
        assert_eq!(Host::parse(&label), Err(HostError::Label));
    }
}
