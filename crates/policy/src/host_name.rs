//! Hosts in rules: after `domain:`, and without it where a text has the form of a host.

use haft_contract::egress::{Host, carried};

use crate::{
    pattern::{PatternError, PatternScope},
    text_pattern::TextPattern,
};

/// A host as rules compare it, however it was written: an address in its one form, a name in lower
/// case without a final dot. What no host can be stays as it is; nothing connects to it.
pub(crate) fn compared(host: &str) -> String {
    match Host::parse(host) {
        Ok(Host::Address(address)) => address.to_canonical().to_string(),
        Ok(Host::Name(name)) => name,
        Err(_) => host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase(),
    }
}

/// The IPv4 address that an IPv6 address stands for, as rules compare it: a packet to the one ends up at
/// the other. In `deny` and `ask` only: who owns the prefix of some of these forms decides where it ends.
pub(crate) fn carried_by(host: &str) -> Option<String> {
    let address = Host::parse(host).ok()?.address()?;
    carried(address).map(|inner| inner.to_string())
}

/// The host after `domain:`, in which `*` stands for any run of characters. A port never matches:
/// rules are about hosts.
pub(crate) fn after_domain(text: &str) -> Result<TextPattern, PatternError> {
    if matches!(text, "" | ".") {
        return Err(PatternError::Empty);
    }
    if !text.contains('*') {
        // Anything else would match nothing, and a rule in `deny` would allow what it speaks of.
        Host::parse(text).map_err(|_| PatternError::NotAHost)?;
        return Ok(TextPattern::parse(&compared(text)));
    }
    let text = text.strip_suffix('.').unwrap_or(text);
    // Names that lead to such an address would not match, and `10.0.0.evil.com` would.
    if text
        .chars()
        .all(|c| c.is_ascii_digit() || c == '.' || c == '*')
        && text.contains(|c: char| c.is_ascii_digit())
    {
        return Err(PatternError::AddressWildcard);
    }
    let in_names = |c: char| c.is_ascii_alphanumeric() || "-_.*".contains(c);
    if !text.chars().all(in_names) {
        return Err(PatternError::NotAHost);
    }
    Ok(TextPattern::parse(&text.to_ascii_lowercase()))
}

/// The host that a pattern without `domain:` also names: an address, or a name with a dot. `deny`
/// and `ask` also take `*.` before such a name. `production` and `*.rs` name no host: a rule with
/// one of them over a tool that touches only hosts denies the call and says so.
pub(crate) fn in_pattern(text: &str, reach: PatternScope) -> Option<TextPattern> {
    let literal = match reach {
        PatternScope::Exact => text,
        PatternScope::Wide => text.strip_prefix("*.").unwrap_or(text),
    };
    let named = match Host::parse(literal).ok()? {
        Host::Address(_) => literal == text,
        Host::Name(name) => name.contains('.'),
    };
    let host = match text.strip_prefix("*.") {
        Some(parent) => format!("*.{}", compared(parent)),
        None => compared(text),
    };
    named.then(|| TextPattern::parse(&host))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{access_word::AccessWord, pattern::Pattern};

    #[test]
    fn an_address_is_one_host_however_it_is_written() {
        let one = [
            "2001:db8::1",
            "[2001:db8::1]",
            "2001:DB8:0:0:0:0:0:1",
            "[2001:0db8::0001]",
        ];
        for rule in one {
            let patterns = [
                after_domain(rule).unwrap(),
                in_pattern(rule, PatternScope::Exact).unwrap(),
            ];
            for host in one {
                for pattern in &patterns {
                    assert!(pattern.matches(&compared(host)), "{rule}: {host}");
                }
            }
        }
        let mapped = after_domain("10.0.0.1").unwrap();
        assert!(mapped.matches(&compared("::ffff:10.0.0.1")));
        assert!(!mapped.matches(&compared("10.0.0.10")));
    }

    #[test]
    fn an_address_is_denied_in_every_form_and_allowed_in_its_own() {
        let (deny, allow) = (PatternScope::Wide, PatternScope::Exact);
        let matches = |reach, host: &str| {
            let rule = Pattern::of_access(AccessWord::Host, "203.0.114.7", reach).unwrap();
            rule.matches_host(host)
        };
        for host in [
            "::ffff:203.0.114.7",
            "64:ff9b::203.0.114.7",
            "64:ff9b::cb00:7207",
            "2002:cb00:7207::1",
            "2001:db8::5efe:203.0.114.7",
        ] {
            assert!(matches(deny, host), "{host}");
        }
        assert!(!matches(deny, "64:ff9b::203.0.114.8"));
        assert!(matches(allow, "::ffff:203.0.114.7"));
        assert!(!matches(allow, "64:ff9b::203.0.114.7"));
        assert!(!matches(allow, "2001:db8::5efe:203.0.114.7"));
    }

    #[test]
    fn what_no_host_can_be_is_no_rule_about_hosts() {
        for text in [
            "bücher.de",
            "127.1",
            "2130706433",
            "0x7f000001",
            "a@b.c",
            "a..b",
            "a b.c",
            "example.com:443",
            "*.example.com:443",
            "https://docs.rs",
            "*.büro.de",
            "*@b.c",
            "127.0.0.*",
            "10.*",
            "*.0.0.1",
            "10.*.0.1.",
        ] {
            assert!(after_domain(text).is_err(), "{text}");
        }
        for text in [
            "production",
            "*.example.com",
            "*",
            "docs.rs.",
            "*internal*",
            "*.163.com",
            "a_b.c",
        ] {
            assert!(after_domain(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_text_is_a_host_only_if_it_has_the_form_of_one() {
        let is_host = |text: &str, reach| in_pattern(text, reach).is_some();
        for text in ["docs.rs", "prod.example.com.", "10.0.0.1", "::1"] {
            assert!(is_host(text, PatternScope::Exact), "{text}");
            assert!(is_host(text, PatternScope::Wide), "{text}");
        }
        assert!(is_host("*.example.com", PatternScope::Wide));
        // In `allow`, where `*.rs` is every Rust file, a wildcard never names a host.
        assert!(!is_host("*.example.com", PatternScope::Exact));
        for text in [
            "production",
            "*.rs",
            "*",
            "src/**",
            "a.b/c",
            ".env",
            "**/.env",
            "slack:#ops",
            "example.com:443",
            "*.10.0.0.1",
            "a b.c",
        ] {
            assert!(!is_host(text, PatternScope::Exact), "{text}");
            assert!(!is_host(text, PatternScope::Wide), "{text}");
        }
    }
}
