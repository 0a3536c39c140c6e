//! Which hosts a sandboxed child may reach. Pure: names and ports are matched here; addresses are
//! checked by the proxy, after it has resolved a name once.
//!
//! Deny wins. No rule can allow a metadata address, and none of these rules is consulted for an
//! address that is not public unless it is named exactly.

use std::fmt;

/// The hosts a child may reach.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EgressRules {
    /// What may be reached.
    pub allow: Vec<HostRule>,
    /// What may not, whatever is allowed.
    pub deny: Vec<HostRule>,
}

/// A host and its ports.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostRule {
    host: String,
    port: Option<u16>,
}

/// Ports a rule without one stands for.
pub const DEFAULT_PORTS: [u16; 2] = [80, 443];

/// The text is no host rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRuleError {
    text: String,
    why: &'static str,
}

impl HostRule {
    /// Parses `example.com`, `*.example.com`, `example.com:8443`, `127.0.0.1:3000` or `[::1]:80`.
    pub fn parse(text: &str) -> Result<Self, HostRuleError> {
        let fail = |why| HostRuleError {
            text: text.chars().take(128).collect(),
            why,
        };
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest.split_once(']').ok_or_else(|| fail("`]` is missing"))?;
                match after {
                    "" => (host, None),
                    _ => (
                        host,
                        Some(
                            after
                                .strip_prefix(':')
                                .ok_or_else(|| fail("after `]` comes `:` and a port"))?,
                        ),
                    ),
                }
            }
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let port = match port {
            None => None,
            Some(port) => Some(
                port.parse::<u16>()
                    .ok()
                    .filter(|port| *port != 0)
                    .ok_or_else(|| fail("a port is a number from 1 to 65535"))?,
            ),
        };
        let name = host.strip_prefix("*.").unwrap_or(host);
        let is_address = text.starts_with('[')
            && !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_ascii_hexdigit() || ":.".contains(c));
        let is_name = !name.is_empty() && name.len() <= 253 && name.split('.').all(is_label);
        if !is_address && !is_name {
            return Err(fail(
                "a host is a name such as `docs.rs`, `*.docs.rs` or an address",
            ));
        }
        Ok(Self {
            host: host.to_ascii_lowercase(),
            port,
        })
    }

    /// Whether the rule covers a host and port. The host must be normalised: lower case, no final
    /// dot, no brackets. `*.example.com` covers every name below `example.com`, not itself.
    pub fn covers(&self, host: &str, port: u16) -> bool {
        let port_fits = match self.port {
            Some(only) => only == port,
            None => DEFAULT_PORTS.contains(&port),
        };
        port_fits && self.covers_host(host)
    }

    /// Whether the rule names the host exactly, without a wildcard.
    pub fn names_exactly(&self, host: &str) -> bool {
        self.host == host
    }

    fn covers_host(&self, host: &str) -> bool {
        match self.host.strip_prefix("*.") {
            None => self.host == host,
            Some(parent) => host
                .strip_suffix(parent)
                .is_some_and(|below| below.len() > 1 && below.ends_with('.')),
        }
    }
}

fn is_label(label: &str) -> bool {
    !label.is_empty()
        && label.len() <= 63
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.host.contains(':'), self.port) {
            (true, Some(port)) => write!(f, "[{}]:{port}", self.host),
            (true, None) => write!(f, "[{}]", self.host),
            (false, Some(port)) => write!(f, "{}:{port}", self.host),
            (false, None) => f.write_str(&self.host),
        }
    }
}

impl fmt::Display for HostRuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is no host rule: {}",
            self.text.escape_debug(),
            self.why
        )
    }
}

impl std::error::Error for HostRuleError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: &str, host: &str, port: u16, expect: bool) {
        let rule = HostRule::parse(rule).expect("a rule");
        assert_eq!(rule.covers(host, port), expect, "{rule} {host}:{port}");
    }

    #[test]
    fn ss_16_names_match_whole_or_by_label() {
        check("example.com", "example.com", 443, true);
        check("example.com", "examplexcom", 443, false);
        check("example.com", "example.com.evil", 443, false);
        check("example.com", "evil-example.com", 443, false);
        check("example.com", "a.example.com", 443, false);
        check("*.example.com", "a.example.com", 443, true);
        check("*.example.com", "a.b.example.com", 443, true);
        check("*.example.com", "example.com", 443, false);
        check("*.example.com", "evilexample.com", 443, false);
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
    fn what_is_no_rule_is_refused() {
        for text in [
            "",
            "*",
            "*.",
            "a b",
            "exa_mple..com",
            "x:0",
            "x:70000",
            "[::1",
            "héllo.de",
            "a*.com",
        ] {
            assert!(HostRule::parse(text).is_err(), "{text}");
        }
    }
}
