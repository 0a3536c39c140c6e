//! Rules about a tool that touches one kind of thing and no other: `web_fetch` only connects to hosts,
//! `database_query` only queries databases. A pattern of another form (`web_fetch(docs.rs:443)`,
//! `database_query(crm.orders)`) is read as a path and would match nothing.
//!
//! With the tools at hand it is a mistake in every list (`lint.rs`); where a call comes all the same, a
//! rule in `deny` or `ask` denies it (`unmatched.rs`).

use haft_contract::{access::SoleAccess, egress::Host};

use crate::{
    database_pattern::DatabasePattern,
    host_name,
    pattern::{Pattern, PatternKind, PatternScope},
    rule::Selector,
};

/// Whether the pattern says which things of this kind it is about.
pub(crate) fn names(pattern: &Pattern, kind: SoleAccess) -> bool {
    match kind {
        SoleAccess::Hosts => pattern.host.is_some(),
        // Without `db:` only a wildcard could match, and not what is wider than it: `SELECT *`.
        SoleAccess::Databases => pattern.kind() == PatternKind::Database,
        _ => true,
    }
}

/// Whether the text is a place on a server: a URL, or a host with a port. Nobody means a path.
pub(crate) fn is_a_location(pattern: &Pattern) -> bool {
    let text = pattern.text.as_str();
    let with_port = text.rsplit_once(':').is_some_and(|(host, rest)| {
        is_a_port(rest) && host_name::in_pattern(host, PatternScope::Wide).is_some()
    });
    pattern.kind() == PatternKind::Path
        && pattern.host.is_none()
        && (text.contains("://") || with_port)
}

/// How the rule would be written, for a person.
pub(crate) fn form(selector: &Selector, pattern: &Pattern, kind: SoleAccess) -> String {
    let selector = match selector {
        Selector::Like(glob) if glob == "*" => "@all".to_owned(),
        other => other.to_string(),
    };
    let written = match kind {
        SoleAccess::Databases => DatabasePattern::parse(&pattern.text)
            .ok()
            .map(|_| format!("`{selector}(db:{})`", pattern.text)),
        SoleAccess::Hosts => host_in(&pattern.text, pattern.reach).map(|host| {
            format!("`{selector}({host})`: a host has no scheme, port or path in a rule")
        }),
        _ => None,
    };
    let prefix = match kind {
        SoleAccess::Databases => "db:",
        _ => "domain:",
    };
    match written.filter(|_| pattern.kind() == PatternKind::Path && !pattern.is_all()) {
        Some(written) => format!("write {written}"),
        None => format!(
            "write `{selector}({prefix}NAME)`, or `{selector}` without a pattern for every use"
        ),
    }
}

/// The host in a text that says more than that, as a rule names it.
fn host_in(text: &str, reach: PatternScope) -> Option<String> {
    let place = text.split_once("://").map_or(text, |(_, place)| place);
    let place = place.split(['/', '?', '#']).next().unwrap_or_default();
    // An IPv6 address has colons of its own.
    let host = match place.rsplit_once(':') {
        Some((host, port)) if Host::parse(place).is_err() && is_a_port(port) => host,
        Some(_) | None => place,
    };
    if host_name::in_pattern(host, reach).is_some() {
        return Some(host.to_owned());
    }
    let named = !host.is_empty() && host_name::after_domain(host).is_ok();
    named.then(|| format!("domain:{host}"))
}

fn is_a_port(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '*')
}

/// What a tool of this kind touches, for a person.
pub(crate) fn word(kind: SoleAccess) -> &'static str {
    match kind {
        SoleAccess::Hosts => "host",
        SoleAccess::Databases => "database",
        _ => "access",
    }
}
