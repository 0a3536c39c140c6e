//! Tamper evidence: each record's hash covers the one before it, and the end of the chain is signed
//! with a key kept next to the record, so that a truncated tail is detected too.
//!
//! It detects changes to the database. It cannot detect an attacker who also has the key, or who
//! restores an older copy of the whole database.

use haft_contract::{CallId, TenantId, host::Timestamp, host::Verification};
use sha2::{Digest as _, Sha256};

/// A SHA-256 hash.
pub(crate) type Hash = [u8; 32];

/// The hash before the first record of a chain.
pub(crate) const GENESIS: Hash = [0; 32];

/// Names the canonical form below. A different form needs another name.
const FORM: &[u8] = b"haft-ledger-record-1";

/// One record in hashed form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link<'a> {
    pub(crate) tenant: &'a str,
    pub(crate) sequence: u64,
    pub(crate) call: &'a [u8],
    pub(crate) at: i64,
    pub(crate) kind: &'a str,
    pub(crate) body: &'a str,
}

impl Link<'_> {
    /// The hash of this record following `previous`. Every field is length-prefixed, so that no two
    /// different records have the same bytes.
    pub(crate) fn hash(&self, previous: &Hash) -> Hash {
        let mut hasher = Sha256::new();
        hasher.update(previous);
        for field in [
            FORM,
            self.tenant.as_bytes(),
            &self.sequence.to_be_bytes(),
            self.call,
            &self.at.to_be_bytes(),
            self.kind.as_bytes(),
            self.body.as_bytes(),
        ] {
            hasher.update((field.len() as u64).to_be_bytes());
            hasher.update(field);
        }
        hasher.finalize().into()
    }
}

/// A position in a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// The number of the newest record; 0 before the first.
    pub(crate) sequence: u64,
    /// Its hash.
    pub(crate) hash: Hash,
}

impl Head {
    /// Before the first record.
    pub(crate) const START: Self = Self {
        sequence: 0,
        hash: GENESIS,
    };

    /// Appends a record and returns its hash.
    pub(crate) fn advance(
        &mut self,
        tenant: &TenantId,
        call: CallId,
        at: Timestamp,
        kind: &str,
        body: &str,
    ) -> Hash {
        self.sequence += 1;
        self.hash = Link {
            tenant: tenant.as_str(),
            sequence: self.sequence,
            call: call.as_uuid().as_bytes(),
            at: at.0,
            kind,
            body,
        }
        .hash(&self.hash);
        self.hash
    }

    /// Signs this position for a tenant.
    pub(crate) fn sign(&self, tenant: &str, key: &[u8; 32]) -> Hash {
        let mut hasher = blake3::Hasher::new_keyed(key);
        hasher.update(FORM);
        hasher.update(&self.sequence.to_be_bytes());
        hasher.update(&self.hash);
        hasher.update(tenant.as_bytes());
        *hasher.finalize().as_bytes()
    }

    /// Whether `mac` is this position's signature.
    pub(crate) fn is_signed(&self, tenant: &str, key: &[u8; 32], mac: &[u8]) -> bool {
        // `blake3::Hash` compares in constant time.
        <[u8; 32]>::try_from(mac).is_ok_and(|mac| {
            blake3::Hash::from_bytes(mac) == blake3::Hash::from_bytes(self.sign(tenant, key))
        })
    }
}

/// Recomputes a chain record by record.
#[derive(Debug)]
pub(crate) struct Verifier {
    head: Head,
}

impl Verifier {
    /// Starts before the first record.
    pub(crate) fn new() -> Self {
        Self { head: Head::START }
    }

    /// Checks the next record. The error names the first bad one.
    pub(crate) fn next(&mut self, link: &Link<'_>, stored: &[u8]) -> Result<(), Verification> {
        let expected = self.head.sequence + 1;
        if link.sequence < expected {
            return Err(broken(link.sequence, "there are two records in this place"));
        }
        if link.sequence > expected {
            return Err(broken(
                expected,
                format!("it is missing; the next record is {}", link.sequence),
            ));
        }
        let hash = link.hash(&self.head.hash);
        if hash != stored {
            return Err(broken(expected, "it was changed after it was written"));
        }
        self.head = Head {
            sequence: expected,
            hash,
        };
        Ok(())
    }

    /// The position reached.
    pub(crate) fn head(&self) -> Head {
        self.head
    }

    /// Checks the signed end after every record was checked.
    pub(crate) fn end(&self, signed: Option<(Head, bool)>) -> Verification {
        let records = self.head.sequence;
        match signed {
            None if records == 0 => Verification::Intact { records },
            None => broken(records, "the signed end of the chain is missing"),
            Some((end, _)) if end.sequence > records => broken(
                records + 1,
                format!("it is missing; {} records were written", end.sequence),
            ),
            Some((end, true)) if end == self.head => Verification::Intact { records },
            Some((end, signed)) => broken(
                end.sequence.max(1),
                if signed {
                    "the chain goes on after its signed end"
                } else {
                    "the end of the chain is not signed by this ledger"
                },
            ),
        }
    }
}

/// Reports a bad record at this position.
pub(crate) fn broken(sequence: u64, reason: impl Into<String>) -> Verification {
    Verification::Broken {
        sequence,
        reason: reason.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 32] = [1; 32];

    fn link(sequence: u64) -> Link<'static> {
        Link {
            tenant: "local",
            sequence,
            call: &[7; 16],
            at: 5,
            kind: "opened",
            body: "{}",
        }
    }

    /// A verifier that has seen this many records.
    fn after(records: u64) -> Verifier {
        let mut verifier = Verifier::new();
        for sequence in 1..=records {
            let link = link(sequence);
            let stored = link.hash(&verifier.head.hash);
            assert_eq!(verifier.next(&link, &stored), Ok(()));
        }
        verifier
    }

    #[test]
    fn every_field_of_a_record_is_in_its_hash_and_none_runs_into_the_next() {
        let whole = link(1);
        let other = [
            Link {
                tenant: "loca",
                kind: "lopened",
                ..whole
            },
            Link {
                sequence: 2,
                ..whole
            },
            Link {
                call: &[8; 16],
                ..whole
            },
            Link { at: 6, ..whole },
            Link {
                kind: "opene",
                body: "d{}",
                ..whole
            },
            Link {
                body: "{} ",
                ..whole
            },
        ];
        for link in other {
            assert_ne!(link.hash(&GENESIS), whole.hash(&GENESIS), "{link:?}");
        }
        assert_ne!(whole.hash(&[1; 32]), whole.hash(&GENESIS));
    }

    #[test]
    fn a_signature_is_of_one_place_of_one_tenant_with_one_key() {
        let head = after(2).head();
        let mac = head.sign("local", &KEY);
        assert!(head.is_signed("local", &KEY, &mac));
        assert!(!head.is_signed("other", &KEY, &mac));
        assert!(!head.is_signed("local", &[2; 32], &mac));
        assert!(!head.is_signed("local", &KEY, &mac[..31]));
        assert!(!head.is_signed("local", &KEY, &[]));
        assert!(
            !Head {
                sequence: 3,
                ..head
            }
            .is_signed("local", &KEY, &mac)
        );
        assert!(
            !Head {
                hash: GENESIS,
                ..head
            }
            .is_signed("local", &KEY, &mac)
        );
    }

    #[test]
    fn the_next_record_is_the_next_as_it_was_written_or_it_is_named() {
        let check = |sequence: u64, stored: Option<Hash>, expect: Verification| {
            let mut verifier = after(2);
            let link = link(sequence);
            let stored = stored.unwrap_or_else(|| link.hash(&verifier.head.hash));
            assert_eq!(verifier.next(&link, &stored), Err(expect));
            // What is bad is not built upon.
            assert_eq!(verifier.head(), after(2).head());
        };
        check(2, None, broken(2, "there are two records in this place"));
        check(4, None, broken(3, "it is missing; the next record is 4"));
        let changed = broken(3, "it was changed after it was written");
        check(3, Some([9; 32]), changed);
    }

    #[test]
    fn a_chain_ends_where_it_was_signed() {
        let check = |records: u64, signed: Option<(Head, bool)>, expect: Verification| {
            assert_eq!(after(records).end(signed), expect);
        };
        let end = |records: u64| after(records).head();
        check(0, None, Verification::Intact { records: 0 });
        check(3, Some((end(3), true)), Verification::Intact { records: 3 });
        let missing = "the signed end of the chain is missing";
        check(3, None, broken(3, missing));
        let cut = "it is missing; 5 records were written";
        check(3, Some((end(5), true)), broken(4, cut));
        check(3, Some((end(5), false)), broken(4, cut));
        // Anybody can compute hashes, and so go on with a chain; only the key signs its end.
        let longer = "the chain goes on after its signed end";
        check(3, Some((end(2), true)), broken(2, longer));
        check(3, Some((Head::START, true)), broken(1, longer));
        let unsigned = "the end of the chain is not signed by this ledger";
        check(3, Some((end(3), false)), broken(3, unsigned));
        let replaced = Head {
            hash: [9; 32],
            ..end(3)
        };
        check(3, Some((replaced, true)), broken(3, longer));
    }
}
