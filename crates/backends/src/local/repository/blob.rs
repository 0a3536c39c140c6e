//! The id git gives a file's content: a hash over a short header and the bytes, SHA-1 or, in newer
//! repositories, SHA-256.
//!
//! It only recognizes what git has and protects nothing: whoever can make two contents with one id can
//! as well `git add` one of them.

use sha1::Sha1;
use sha2::{Digest, Sha256};

/// How many bytes an id of SHA-1 has.
const SHA1_BYTES: usize = 20;

/// Whether this is the id of a content.
pub(super) fn is_id_of(id: &[u8], content: &[u8]) -> bool {
    if id.len() == SHA1_BYTES {
        hash::<Sha1>(content) == id
    } else {
        hash::<Sha256>(content) == id
    }
}

fn hash<D: Digest>(content: &[u8]) -> Vec<u8> {
    let header = format!("blob {}\0", content.len());
    D::new()
        .chain_update(header)
        .chain_update(content)
        .finalize()
        .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `git hash-object` says, with each kind of hash.
    #[test]
    fn ids_are_those_of_git() {
        let read = |hex: &str| -> Vec<u8> {
            let digits = hex.as_bytes().chunks(2);
            let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
            digits.map(byte).collect()
        };
        for (content, hex) in [
            (&b""[..], "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"),
            (b"hello\n", "ce013625030ba8dba906f756967f9e9ca394464a"),
            (
                b"hello\n",
                "2cf8d83d9ee29543b34a87727421fdecb7e3f3a183d337639025de576db9ebb4",
            ),
        ] {
            let id = read(hex);
            assert!(is_id_of(&id, content), "{hex}");
            assert!(!is_id_of(&id, b"other"), "{hex}");
        }
    }
}
