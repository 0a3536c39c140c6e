//! Which hosts may be reached, by a sandboxed child or by a request whose host came from outside.
//! Pure: it matches names and ports and classifies addresses. The code that connects resolves a
//! name once and checks each of its addresses.
//!
//! Deny wins. No rule can allow a metadata address, and an address that is not public is reached
//! only if a rule names it. Read next: `host.rs` for what a host is, `rule.rs` for how a rule
//! matches one, `address.rs` for what an address is for.

mod address;
mod host;
mod resolve;
mod rule;

pub use address::{AddressClass, carried, classify, is_metadata_name, is_private_name};
pub use host::{Host, HostError, MAX_HOST_BYTES};
pub use resolve::{MAX_ADDRESSES, Resolve};
pub use rule::{HostRule, HostRuleError, WEB_PORTS};

/// The hosts a child may reach.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EgressRules {
    /// What may be reached.
    pub allow: Vec<HostRule>,
    /// What may not be reached, even if it is allowed. A rule without a port denies every port.
    pub deny: Vec<HostRule>,
}

/// What the rules say about a host and a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ruling<'a> {
    /// A rule names exactly this host.
    Named,
    /// A wildcard covers it.
    Covered,
    /// A rule denies it.
    Denied(&'a HostRule),
    /// The host is allowed, the port is not.
    OtherPort(&'a HostRule),
    /// No rule mentions it.
    Silent,
}

impl EgressRules {
    /// Judges a host and a port. Deny wins; an exact rule takes precedence over a wildcard.
    pub fn judge(&self, host: &Host, port: u16) -> Ruling<'_> {
        if let Some(rule) = self.deny.iter().find(|rule| rule.forbids(host, port)) {
            return Ruling::Denied(rule);
        }
        let covering = || self.allow.iter().filter(|rule| rule.allows(host, port));
        if covering().any(|rule| rule.names(host)) {
            return Ruling::Named;
        }
        if covering().next().is_some() {
            return Ruling::Covered;
        }
        match self.allow.iter().find(|rule| rule.speaks_of(host)) {
            Some(rule) => Ruling::OtherPort(rule),
            None => Ruling::Silent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(allow: &[&str], deny: &[&str]) -> EgressRules {
        let parse = |texts: &[&str]| {
            let rules = texts.iter().map(|text| HostRule::parse(text));
            rules.collect::<Result<_, _>>().expect("rules")
        };
        EgressRules {
            allow: parse(allow),
            deny: parse(deny),
        }
    }

    #[test]
    fn deny_wins_on_every_port() {
        let rules = rules(
            &["*.example.com", "bad.example.com:22"],
            &["bad.example.com"],
        );
        let bad = Host::parse("bad.example.com").expect("a host");
        for port in [22, 80, 443, 8080] {
            assert!(matches!(rules.judge(&bad, port), Ruling::Denied(_)));
        }
        let good = Host::parse("good.example.com").expect("a host");
        assert_eq!(rules.judge(&good, 443), Ruling::Covered);
        assert!(matches!(rules.judge(&good, 22), Ruling::OtherPort(_)));
    }

    #[test]
    fn a_name_and_a_wildcard_are_told_apart() {
        let rules = rules(&["*.example.com", "a.example.com"], &[]);
        let judge = |host| rules.judge(&Host::parse(host).expect("a host"), 443);
        assert_eq!(judge("a.example.com"), Ruling::Named);
        assert_eq!(judge("b.example.com"), Ruling::Covered);
        assert_eq!(judge("example.com"), Ruling::Silent);
    }
}
