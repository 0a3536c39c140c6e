//! Hosts in rules: after `domain:`, and without it where a text has the form of a host.

use haft_contract::egress::Host;

use crate::pattern::{PatternError, PatternScope, TextPattern};

/// The host after `domain:`, in which `*` stands for any run of characters.
pub(crate) fn after_domain(text: &str) -> Result<TextPattern, PatternError> {
    let domain = text.strip_suffix('.').unwrap_or(text);
    if domain.is_empty() {
        return Err(PatternError::Empty);
    }
    let separates = |c: char| c == '/' || c.is_whitespace();
    // A port never matches: rules are about hosts.
    let has_port = domain.contains(':') && Host::parse(domain).is_err();
    if domain.contains(separates) || has_port {
        return Err(PatternError::NotAHost);
    }
    Ok(TextPattern::parse(&domain.to_ascii_lowercase()))
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
    let text = text.strip_suffix('.').unwrap_or(text);
    named.then(|| TextPattern::parse(&text.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

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
