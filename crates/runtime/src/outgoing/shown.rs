//! The addresses that a session's results have shown it.

use std::{
    collections::HashSet,
    hash::{BuildHasher as _, RandomState},
};

/// How many addresses are remembered before the older half is forgotten. An address that was
/// forgotten counts as the agent's own.
const MAX_REMEMBERED: usize = 2_048;

/// The longest address that is remembered.
const MAX_ADDRESS_BYTES: usize = 2_048;

/// What ends an address in text and Markdown.
const ENDS: [char; 12] = [
    ' ', '\n', '\r', '\t', '"', '\'', '<', '>', ')', ']', '`', '|',
];

/// Marks that belong to the sentence when they are last.
const AFTER: [char; 6] = ['.', ',', ';', ':', '!', '?'];

/// Fingerprints of addresses in two generations; the older one goes when the newer one is full.
#[derive(Default)]
pub(super) struct ShownAddresses {
    hasher: RandomState,
    newer: HashSet<u64>,
    older: HashSet<u64>,
}

impl ShownAddresses {
    /// Remembers every address in a text.
    pub(super) fn note(&mut self, text: &str) {
        let mut rest = text;
        while let Some(at) = rest.find("://") {
            let (before, after) = rest.split_at(at);
            let scheme = if before.ends_with("https") {
                "https"
            } else if before.ends_with("http") {
                "http"
            } else {
                ""
            };
            let end = after.find(ENDS).unwrap_or(after.len());
            let (address, behind) = after.split_at(end);
            if !scheme.is_empty() {
                self.remember(&format!("{scheme}{}", address.trim_end_matches(AFTER)));
            }
            rest = behind;
        }
    }

    /// Whether a text is one of the addresses, whatever its fragment, which is not sent.
    pub(super) fn contains(&self, text: &str) -> bool {
        if self.newer.is_empty() && self.older.is_empty() {
            return false;
        }
        let print = self.print(text.trim());
        self.newer.contains(&print) || self.older.contains(&print)
    }

    fn remember(&mut self, address: &str) {
        if address.len() > MAX_ADDRESS_BYTES {
            return;
        }
        if self.newer.len() >= MAX_REMEMBERED / 2 {
            self.older = std::mem::take(&mut self.newer);
        }
        let print = self.print(address);
        self.newer.insert(print);
    }

    fn print(&self, address: &str) -> u64 {
        let sent = address.split('#').next().unwrap_or_default();
        self.hasher.hash_one(sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(text: &str) -> ShownAddresses {
        let mut shown = ShownAddresses::default();
        shown.note(text);
        shown
    }

    #[test]
    fn addresses_are_found_in_text_and_markdown() {
        let shown = after(
            "See [the book](https://doc.rust-lang.org/book/) or <http://a.example/x?y=1>, \
             https://b.example/z#part. Not ftp://c.example/q",
        );
        for address in [
            "https://doc.rust-lang.org/book/",
            "http://a.example/x?y=1",
            "https://b.example/z",
            "https://b.example/z#other",
            " https://b.example/z ",
        ] {
            assert!(shown.contains(address), "{address}");
        }
        for address in [
            "https://doc.rust-lang.org/book/x",
            "http://a.example/x",
            "https://a.example/x?y=1",
            "ftp://c.example/q",
            "",
        ] {
            assert!(!shown.contains(address), "{address}");
        }
    }

    #[test]
    fn memory_is_bounded_and_the_newest_are_kept() {
        let mut shown = ShownAddresses::default();
        let address = |number: usize| format!("https://a.example/{number}");
        for number in 0..10 * MAX_REMEMBERED {
            shown.note(&address(number));
            assert!(shown.newer.len() + shown.older.len() <= MAX_REMEMBERED);
            assert!(shown.contains(&address(number)));
            let recent = number.saturating_sub(MAX_REMEMBERED / 2 - 1);
            assert!(shown.contains(&address(recent)), "{number}");
        }
        assert!(!shown.contains(&address(0)));
        let long = format!("https://a.example/{}", "x".repeat(MAX_ADDRESS_BYTES));
        shown.note(&long);
        assert!(!shown.contains(&long));
    }
}
