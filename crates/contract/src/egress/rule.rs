//! One host rule: a host or everything below a name, and a port.
//!
//! A rule without a port allows the web ports only, but denies every port.

use std::fmt;

use super::host::{Host, HostError};

/// The ports that a rule without a port allows.
pub const WEB_PORTS: [u16; 2] = [80, 443];

/// How much of an invalid rule an error shows.
const SHOWN_CHARACTERS: usize = 128;

/// A host, or everything below a name, and optionally a port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostRule {
    hosts: Hosts,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Hosts {
    /// This host alone.
    Exact(Host),
    /// Every name below this one, but not the name itself.
    Below(String),
}

/// Why a text is not a host rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRuleError {
    text: String,
    fault: RuleFault,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RuleFault {
    Host(HostError),
    Port,
    Bracket,
    Wildcard,
    Page,
}

impl HostRule {
    /// Parses `example.com`, `*.example.com`, `example.com:8443`, `127.0.0.1:3000` or `[::1]:80`.
    pub fn parse(text: &str) -> Result<Self, HostRuleError> {
        read(text).map_err(|fault| HostRuleError {
            text: text.chars().take(SHOWN_CHARACTERS).collect(),
            fault,
        })
    }

    /// A rule for one host and one port.
    pub fn exact(host: Host, port: u16) -> Self {
        Self {
            hosts: Hosts::Exact(host),
            port: Some(port),
        }
    }

    /// Whether the rule, read as an allow rule, covers a host and a port.
    pub fn allows(&self, host: &Host, port: u16) -> bool {
        let port_fits = match self.port {
            Some(only) => only == port,
            None => WEB_PORTS.contains(&port),
        };
        port_fits && self.speaks_of(host)
    }

    /// Whether the rule, read as a deny rule, covers a host and a port.
    pub fn forbids(&self, host: &Host, port: u16) -> bool {
        self.port.is_none_or(|only| only == port) && self.speaks_of(host)
    }

    /// Whether the rule names this host and no other.
    pub fn names(&self, host: &Host) -> bool {
        match &self.hosts {
            Hosts::Exact(named) => named == host,
            Hosts::Below(_) => false,
        }
    }

    /// Whether the rule covers the host on any port.
    pub fn speaks_of(&self, host: &Host) -> bool {
        match (&self.hosts, host) {
            (Hosts::Exact(named), host) => named == host,
            (Hosts::Below(parent), Host::Name(name)) => name
                .strip_suffix(parent.as_str())
                .is_some_and(|below| below.len() > 1 && below.ends_with('.')),
            (Hosts::Below(_), Host::Address(_)) => false,
        }
    }

    /// The one host the rule names, if it names one.
    pub fn host(&self) -> Option<&Host> {
        match &self.hosts {
            Hosts::Exact(host) => Some(host),
            Hosts::Below(_) => None,
        }
    }

    /// The port, if the rule names one.
    pub fn port(&self) -> Option<u16> {
        self.port
    }
}

fn read(text: &str) -> Result<HostRule, RuleFault> {
    if text.contains('/') {
        return Err(RuleFault::Page);
    }
    let (host, port) = split(text)?;
    let port = port.map(parse_port).transpose()?;
    let hosts = match host.strip_prefix("*.") {
        None if host.contains('*') => return Err(RuleFault::Wildcard),
        None => Hosts::Exact(Host::parse(host).map_err(RuleFault::Host)?),
        Some(parent) if parent.contains('*') => return Err(RuleFault::Wildcard),
        Some(parent) => match Host::parse(parent).map_err(RuleFault::Host)? {
            Host::Name(name) => Hosts::Below(name),
            Host::Address(_) => return Err(RuleFault::Wildcard),
        },
    };
    Ok(HostRule { hosts, port })
}

/// Splits the host from the port after the colon. An IPv6 address needs brackets here, because its
/// last group could be read as a port.
fn split(text: &str) -> Result<(&str, Option<&str>), RuleFault> {
    if !text.starts_with('[') {
        return Ok(match text.split_once(':') {
            Some((_, rest)) if rest.contains(':') => return Err(RuleFault::Bracket),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        });
    }
    let end = text.find(']').ok_or(RuleFault::Bracket)?;
    let (host, after) = text.split_at(end + 1);
    match after.strip_prefix(':') {
        Some(port) => Ok((host, Some(port))),
        None if after.is_empty() => Ok((host, None)),
        None => Err(RuleFault::Bracket),
    }
}

fn parse_port(text: &str) -> Result<u16, RuleFault> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let port = text.parse().ok().filter(|port| *port != 0 && digits);
    port.ok_or(RuleFault::Port)
}

impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hosts {
            Hosts::Exact(host) => write!(f, "{host}")?,
            Hosts::Below(parent) => write!(f, "*.{parent}")?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for HostRuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a host rule: ", self.text.escape_debug())?;
        match self.fault {
            RuleFault::Host(error) => write!(f, "{error}"),
            RuleFault::Port => f.write_str("a port is a number from 1 to 65535"),
            RuleFault::Bracket => f.write_str("an IPv6 address is written `[::1]` or `[::1]:443`"),
            RuleFault::Page => f.write_str("name only a host, without scheme or path"),
            RuleFault::Wildcard => f.write_str("`*` must be the whole first label: `*.docs.rs`"),
        }
    }
}

impl std::error::Error for HostRuleError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: &str, host: &str, port: u16, expect: bool) {
        let rule = HostRule::parse(rule).expect("a rule");
        let host = Host::parse(host).expect("a host");
        assert_eq!(rule.allows(&host, port), expect, "{rule} {host}:{port}");
    }

    #[test]
    fn ss_16_names_match_whole_or_by_label() {
        check("example.com", "example.com", 443, true);
        check("example.com", "EXAMPLE.com.", 443, true);
        check("example.com", "examplexcom", 443, false);
        check("example.com", "example.com.evil", 443, false);
        check("example.com", "evil-example.com", 443, false);
        check("example.com", "a.example.com", 443, false);
        check("*.example.com", "a.example.com", 443, true);
        check("*.example.com", "a.b.example.com", 443, true);
        check("*.example.com", "example.com", 443, false);
        check("*.example.com", "evilexample.com", 443, false);
        check("*.example.com", "1.2.3.4", 443, false);
    }

    #[test]
    fn ss_17_a_rule_without_a_port_is_for_the_web_alone() {
        check("example.com", "example.com", 80, true);
        check("example.com", "example.com", 22, false);
        check("example.com:22", "example.com", 22, true);
        check("example.com:22", "example.com", 443, false);
        check("[::1]:8080", "::1", 8080, true);
    }

    #[test]
    fn addresses_match_by_value() {
        check("[0:0::1]:80", "::1", 80, true);
        check("127.0.0.1:80", "127.0.0.1.", 80, true);
        check("127.0.0.1:80", "::ffff:127.0.0.1", 80, false);
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for text in [
            "",
            "*",
            "*.",
            "a b",
            "exa_mple..com",
            "x:0",
            "x:70000",
            "x:+80",
            "x:",
            "[::1",
            "::1",
            "[::1]80",
            "héllo.de",
            "a*.com",
            "*.*.com",
            "*.1.2.3.4",
            "http://x",
            "x/y",
            "127.1",
        ] {
            assert!(HostRule::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rules_read_back_as_they_are_shown() {
        for text in [
            "docs.rs",
            "*.docs.rs:8443",
            "127.0.0.1:5432",
            "[::1]:80",
            "[fd00::1]",
        ] {
            assert_eq!(HostRule::parse(text).expect(text).to_string(), text);
        }
    }
}
