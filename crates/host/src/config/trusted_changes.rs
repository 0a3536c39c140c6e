//! What a configuration file says differently from when it was last trusted, as far as it is about
//! rules: policy, and the hosts that commands may never reach.

use std::{collections::BTreeSet, path::Path};

use haft_policy::{PolicyChange, PolicyFile, PolicySource};

use super::{file, trust::TrustStore};

/// How a file compares with what was trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustedChanges {
    /// What differs; nothing if the rules are the same.
    Compared(Vec<PolicyChange>),
    /// What was trusted is not known, or this program no longer understands it.
    Unknown,
}

impl TrustedChanges {
    /// Compares the text of a file with the one that was trusted. Names in messages are `name`.
    pub fn of(store: &TrustStore, path: &Path, name: &str, text: &str) -> Self {
        let Some(before) = store.trusted_text(path) else {
            return Self::Unknown;
        };
        let compared = compare(
            &PolicySource::new(name, before),
            &PolicySource::new(name, text),
        );
        compared.map_or(Self::Unknown, Self::Compared)
    }

    /// Whether something that was denied may no longer be.
    pub fn may_lose_denial(&self) -> bool {
        match self {
            Self::Compared(changes) => changes.iter().any(|change| change.loses_denial),
            Self::Unknown => true,
        }
    }
}

/// The differences; `None` if one of the texts cannot be read.
fn compare(before: &PolicySource, after: &PolicySource) -> Option<Vec<PolicyChange>> {
    let rules = |source: &PolicySource| PolicyFile::parse(source).ok();
    let mut changes = rules(before)?.changes_to(&rules(after)?);
    let (before, after) = (denied_hosts(before)?, denied_hosts(after)?);
    let word = |host: &String| format!("deny {host} for commands");
    changes.extend(before.difference(&after).map(|host| PolicyChange {
        before: Some(word(host)),
        after: None,
        loses_denial: true,
    }));
    changes.extend(after.difference(&before).map(|host| PolicyChange {
        before: None,
        after: Some(word(host)),
        loses_denial: false,
    }));
    Some(changes)
}

/// The hosts under `deny` of `[sandbox.network]`.
fn denied_hosts(source: &PolicySource) -> Option<BTreeSet<String>> {
    let file = file::parse(source).ok()?;
    let network = file.sandbox.network.iter();
    Some(
        network
            .flat_map(|rules| &rules.deny)
            .map(ToString::to_string)
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_are_no_longer_denied_are_a_lost_denial() {
        let network = |hosts: &str| {
            let text = format!("[sandbox.network]\nallow = [\"*.test\"]\ndeny = [{hosts}]\n");
            PolicySource::new("haft.toml", text)
        };
        let (two, one) = (network("\"a.test\", \"b.test\""), network("\"b.test\""));
        let lost = compare(&two, &one).unwrap();
        assert_eq!(lost.len(), 1);
        assert!(lost[0].loses_denial && lost[0].after.is_none());
        let gained = compare(&one, &two).unwrap();
        assert!(gained.iter().all(|change| !change.loses_denial));
        assert_eq!(compare(&one, &one), Some(Vec::new()));
        assert_eq!(compare(&PolicySource::new("haft.toml", "a ="), &one), None);
    }
}
