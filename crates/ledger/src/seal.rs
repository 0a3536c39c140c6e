//! Signs the rows behind people's answers with the ledger's key, so that somebody who can only edit
//! the database cannot answer for them.
//!
//! It cannot detect an attacker who also has the key, or who restores an older copy of a row.

/// Collects the fields of a row and signs them.
pub(crate) struct Seal(blake3::Hasher);

impl Seal {
    /// A seal over rows of the named form.
    pub(crate) fn new(form: &str, key: &[u8; 32]) -> Self {
        Self(blake3::Hasher::new_keyed(key)).text(form)
    }

    /// Adds a field. Length-prefixed, so that no two different rows have the same bytes.
    pub(crate) fn bytes(mut self, field: &[u8]) -> Self {
        self.0.update(&(field.len() as u64).to_be_bytes());
        self.0.update(field);
        self
    }

    /// Adds a text.
    pub(crate) fn text(self, field: &str) -> Self {
        self.bytes(field.as_bytes())
    }

    /// Adds a number.
    pub(crate) fn number(self, field: i64) -> Self {
        self.bytes(&field.to_be_bytes())
    }

    /// Adds a field that may be absent, which differs from an empty one.
    pub(crate) fn maybe(self, field: Option<&[u8]>) -> Self {
        match field {
            Some(field) => self.bytes(&[1]).bytes(field),
            None => self.bytes(&[0]),
        }
    }

    /// The signature.
    pub(crate) fn sign(self) -> [u8; 32] {
        *self.0.finalize().as_bytes()
    }

    /// Whether a stored signature is this one.
    pub(crate) fn is(self, stored: &[u8]) -> bool {
        // `blake3::Hash` compares in constant time.
        <[u8; 32]>::try_from(stored)
            .is_ok_and(|stored| blake3::Hash::from_bytes(stored) == self.0.finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seal() -> Seal {
        Seal::new("form", &[1; 32])
    }

    #[test]
    fn a_signature_is_of_these_fields_in_this_order_with_this_key() {
        let signed = seal().text("ab").number(1).maybe(None).sign();
        assert!(seal().text("ab").number(1).maybe(None).is(&signed));
        for other in [
            seal().text("ab").number(2).maybe(None),
            seal().text("a").text("b").number(1).maybe(None),
            seal().number(1).text("ab").maybe(None),
            seal().text("ab").number(1),
            seal().text("ab").number(1).maybe(Some(b"")),
            Seal::new("form", &[2; 32]).text("ab").number(1).maybe(None),
            Seal::new("other", &[1; 32])
                .text("ab")
                .number(1)
                .maybe(None),
        ] {
            assert!(!other.is(&signed));
        }
        assert!(!seal().text("ab").number(1).maybe(None).is(&signed[..31]));
        assert!(!seal().text("ab").number(1).maybe(None).is(&[]));
    }
}
