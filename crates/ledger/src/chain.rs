//! Tamper evidence: each row's hash covers the row its writer wrote before, and the end of the chain is signed
//! with a key kept next to the record, so that a truncated tail is detected too.
//!
//! It detects changes to the database. It cannot detect an attacker who also has the key, or who
//! restores an older copy of the whole database.

use haft_contract::host::Verification;

use crate::seal::Seal;

/// Names the signed form of a position.
const HEAD_FORM: &str = "haft-head-2";

/// A BLAKE3 hash.
pub(crate) type Hash = [u8; 32];

/// The hash before the first row of a chain.
pub(crate) const GENESIS: Hash = [0; 32];

/// Names the canonical form below. A different form needs another name.
const FORM: &[u8] = b"haft-record-2";

/// One row in hashed form, with names in place of the database's numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link<'a> {
    pub(crate) chain: ChainName<'a>,
    pub(crate) sequence: u64,
    pub(crate) call: &'a [u8],
    pub(crate) part: i64,
    pub(crate) listed: i64,
    pub(crate) principal: &'a str,
    pub(crate) at: i64,
    /// Zero while the call is open.
    pub(crate) terminal: i64,
    pub(crate) form: i64,
    pub(crate) body: &'a [u8],
}

/// Whose chain it is: every writer has one for each tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChainName<'a> {
    pub(crate) tenant: &'a str,
    pub(crate) writer: &'a str,
}

impl Link<'_> {
    /// The hash of this row following `previous`. Every field is length-prefixed, so that no two
    /// different rows have the same bytes.
    pub(crate) fn hash(&self, previous: &Hash) -> Hash {
        let mut head = Vec::with_capacity(512);
        head.extend_from_slice(previous);
        for field in [
            FORM,
            self.chain.tenant.as_bytes(),
            self.chain.writer.as_bytes(),
            &self.sequence.to_be_bytes(),
            self.call,
            &self.part.to_be_bytes(),
            &self.listed.to_be_bytes(),
            self.principal.as_bytes(),
            &self.at.to_be_bytes(),
            &self.terminal.to_be_bytes(),
            &self.form.to_be_bytes(),
        ] {
            head.extend_from_slice(&(field.len() as u64).to_be_bytes());
            head.extend_from_slice(field);
        }
        head.extend_from_slice(&(self.body.len() as u64).to_be_bytes());
        let mut hasher = blake3::Hasher::new();
        hasher.update(&head);
        hasher.update(self.body);
        *hasher.finalize().as_bytes()
    }
}

/// A position in a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// The number of the newest row; 0 before the first.
    pub(crate) sequence: u64,
    /// Its hash.
    pub(crate) hash: Hash,
}

impl Head {
    /// Before the first row.
    pub(crate) const START: Self = Self {
        sequence: 0,
        hash: GENESIS,
    };

    /// The place of the next row.
    pub(crate) fn next(&self) -> u64 {
        self.sequence + 1
    }

    /// Appends a row in its place.
    pub(crate) fn advance(&mut self, link: &Link<'_>) {
        self.hash = link.hash(&self.hash);
        self.sequence = link.sequence;
    }

    /// Signs this position of a chain.
    pub(crate) fn sign(&self, chain: ChainName<'_>, key: &[u8; 32]) -> Hash {
        self.seal(chain, key).sign()
    }

    /// Whether `mac` is this position's signature.
    pub(crate) fn is_signed(&self, chain: ChainName<'_>, key: &[u8; 32], mac: &[u8]) -> bool {
        self.seal(chain, key).is(mac)
    }

    fn seal(&self, chain: ChainName<'_>, key: &[u8; 32]) -> Seal {
        Seal::new(HEAD_FORM, key)
            .text(chain.tenant)
            .text(chain.writer)
            .bytes(&self.sequence.to_be_bytes())
            .bytes(&self.hash)
    }
}

/// Recomputes one writer's chain, row by row.
#[derive(Debug)]
pub(crate) struct Verifier {
    head: Head,
    /// Where in the record its newest row is.
    position: u64,
}

impl Verifier {
    /// Starts before the first row.
    pub(crate) fn new() -> Self {
        Self::after(Head::START, 0)
    }

    /// Starts after a row, which is at this position of the record.
    pub(crate) fn after(head: Head, position: u64) -> Self {
        Self { head, position }
    }

    /// Checks the next row, which is at this position of the record. The error names it.
    pub(crate) fn next(
        &mut self,
        position: u64,
        link: &Link<'_>,
        stored: &[u8],
    ) -> Result<(), Verification> {
        let expected = self.head.next();
        if link.sequence < expected {
            return Err(broken(position, "it stands where another row was written"));
        }
        if link.sequence > expected {
            let missing = link.sequence - expected;
            return Err(broken(
                position,
                format!("before it, {missing} of its writer's rows are missing"),
            ));
        }
        let hash = link.hash(&self.head.hash);
        if hash != stored {
            return Err(broken(position, "it was changed after it was written"));
        }
        self.head = Head {
            sequence: expected,
            hash,
        };
        self.position = position;
        Ok(())
    }

    /// The position reached.
    pub(crate) fn head(&self) -> Head {
        self.head
    }

    /// Checks the signed end after every row was checked.
    pub(crate) fn end(&self, signed: Option<(Head, bool)>) -> Result<(), Verification> {
        let rows = self.head.sequence;
        let after = self.position + 1;
        match signed {
            None if rows == 0 => Ok(()),
            None => Err(broken(
                self.position,
                "the signed end of its chain is missing",
            )),
            Some((end, _)) if end.sequence > rows => Err(broken(
                after,
                format!("{} rows of its writer are missing", end.sequence - rows),
            )),
            Some((end, true)) if end == self.head => Ok(()),
            Some((_, true)) => Err(broken(
                self.position,
                "its chain goes on after the signed end",
            )),
            Some((_, false)) => Err(broken(
                self.position.max(1),
                "the end of its chain is not signed by this ledger",
            )),
        }
    }
}

/// Reports a bad row at this position.
pub(crate) fn broken(position: u64, reason: impl Into<String>) -> Verification {
    Verification::Broken {
        sequence: position,
        reason: reason.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 32] = [1; 32];
    const CHAIN: ChainName<'_> = ChainName {
        tenant: "local",
        writer: "w1",
    };

    fn link(sequence: u64) -> Link<'static> {
        Link {
            chain: CHAIN,
            sequence,
            call: &[7; 16],
            part: 0,
            listed: 4,
            principal: "{}",
            at: 5,
            terminal: 1,
            form: 1,
            body: b"[]",
        }
    }

    /// A verifier that has seen this many rows, at every tenth position.
    fn after(rows: u64) -> Verifier {
        let mut verifier = Verifier::new();
        for sequence in 1..=rows {
            let link = link(sequence);
            let stored = link.hash(&verifier.head.hash);
            assert_eq!(verifier.next(sequence * 10, &link, &stored), Ok(()));
        }
        verifier
    }

    #[test]
    fn every_field_of_a_row_is_in_its_hash_and_none_runs_into_the_next() {
        let whole = link(1);
        let chain = |tenant, writer| ChainName { tenant, writer };
        let other = [
            Link {
                chain: chain("loca", "lw1"),
                ..whole
            },
            Link {
                chain: chain("local", "w2"),
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
            Link { part: 1, ..whole },
            Link { listed: 5, ..whole },
            Link {
                principal: "{ }",
                ..whole
            },
            Link { at: 6, ..whole },
            Link {
                terminal: 2,
                ..whole
            },
            Link { form: 2, ..whole },
            Link {
                body: b"[] ",
                ..whole
            },
        ];
        for link in other {
            assert_ne!(link.hash(&GENESIS), whole.hash(&GENESIS), "{link:?}");
        }
        assert_ne!(whole.hash(&[1; 32]), whole.hash(&GENESIS));
    }

    #[test]
    fn a_signature_is_of_one_place_of_one_chain_with_one_key() {
        let head = after(2).head();
        let mac = head.sign(CHAIN, &KEY);
        assert!(head.is_signed(CHAIN, &KEY, &mac));
        for (tenant, writer) in [("other", "w1"), ("local", "w2"), ("loca", "lw1")] {
            assert!(!head.is_signed(ChainName { tenant, writer }, &KEY, &mac));
        }
        assert!(!head.is_signed(CHAIN, &[2; 32], &mac));
        assert!(!head.is_signed(CHAIN, &KEY, &mac[..31]));
        assert!(!head.is_signed(CHAIN, &KEY, &[]));
        let later = Head {
            sequence: 3,
            ..head
        };
        let other = Head {
            hash: GENESIS,
            ..head
        };
        assert!(!later.is_signed(CHAIN, &KEY, &mac) && !other.is_signed(CHAIN, &KEY, &mac));
    }

    #[test]
    fn the_next_row_is_the_next_as_it_was_written_or_it_is_named() {
        let check = |sequence: u64, stored: Option<Hash>, reason: &str| {
            let mut verifier = after(2);
            let link = link(sequence);
            let stored = stored.unwrap_or_else(|| link.hash(&verifier.head.hash));
            assert_eq!(verifier.next(30, &link, &stored), Err(broken(30, reason)));
            // What is bad is not built upon.
            assert_eq!(verifier.head(), after(2).head());
        };
        check(2, None, "it stands where another row was written");
        check(4, None, "before it, 1 of its writer's rows are missing");
        check(3, Some([9; 32]), "it was changed after it was written");
    }

    #[test]
    fn the_end_is_the_one_that_was_signed_or_it_is_named() {
        let head = |rows| after(rows).head();
        let check = |rows, signed, expect: Result<(), Verification>| {
            assert_eq!(after(rows).end(signed), expect);
        };
        check(0, None, Ok(()));
        check(3, Some((head(3), true)), Ok(()));
        check(
            3,
            None,
            Err(broken(30, "the signed end of its chain is missing")),
        );
        check(
            2,
            Some((head(3), true)),
            Err(broken(21, "1 rows of its writer are missing")),
        );
        let longer = "its chain goes on after the signed end";
        check(3, Some((head(2), true)), Err(broken(30, longer)));
        let unsigned = "the end of its chain is not signed by this ledger";
        check(3, Some((head(3), false)), Err(broken(30, unsigned)));
    }
}
