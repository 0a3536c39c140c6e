//! The id git gives a file's content: SHA-1 over a short header and the bytes.
//!
//! Written out because it is all that Haft needs of SHA-1, and only to recognize what git has. It
//! protects nothing: whoever can make two contents with one id can as well `git add` one of them.

/// How many bytes of an id.
pub(super) const SHA1_BYTES: usize = 20;

/// How many bytes are mixed at a time.
const BLOCK_BYTES: usize = 64;

/// What git hashes before a file's content.
pub(super) fn header(content: &[u8]) -> String {
    format!("blob {}\0", content.len())
}

/// SHA-1 of several pieces in a row (RFC 3174).
pub(super) fn sha1(pieces: &[&[u8]]) -> [u8; SHA1_BYTES] {
    let mut message = pieces.concat();
    let bits = (message.len() as u64).wrapping_mul(8);
    message.push(0x80);
    while message.len() % BLOCK_BYTES != BLOCK_BYTES - 8 {
        message.push(0);
    }
    message.extend_from_slice(&bits.to_be_bytes());
    let mut state: [u32; 5] = [
        0x6745_2301,
        0xefcd_ab89,
        0x98ba_dcfe,
        0x1032_5476,
        0xc3d2_e1f0,
    ];
    for block in message.chunks_exact(BLOCK_BYTES) {
        state = mix(state, block);
    }
    let mut id = [0; SHA1_BYTES];
    for (to, word) in id.chunks_exact_mut(4).zip(state) {
        to.copy_from_slice(&word.to_be_bytes());
    }
    id
}

fn mix(state: [u32; 5], block: &[u8]) -> [u32; 5] {
    // The last sixteen words; the next one follows from them.
    let mut words = std::collections::VecDeque::with_capacity(17);
    for word in block.chunks_exact(4) {
        words.push_back(word.try_into().map_or(0, u32::from_be_bytes));
    }
    let [mut one, mut two, mut three, mut four, mut five] = state;
    for round in 0..80 {
        let word: u32 = words.front().copied().unwrap_or_default();
        let at = |index: usize| words.get(index).copied().unwrap_or_default();
        let next: u32 = (at(13) ^ at(8) ^ at(2) ^ at(0)).rotate_left(1);
        words.push_back(next);
        words.pop_front();
        let (mixed, constant) = match round {
            0..20 => ((two & three) | (!two & four), 0x5a82_7999),
            20..40 => (two ^ three ^ four, 0x6ed9_eba1),
            40..60 => (
                (two & three) | (two & four) | (three & four),
                0x8f1b_bcdc_u32,
            ),
            _ => (two ^ three ^ four, 0xca62_c1d6),
        };
        let sum = one
            .rotate_left(5)
            .wrapping_add(mixed)
            .wrapping_add(five)
            .wrapping_add(word)
            .wrapping_add(constant);
        (one, two, three, four, five) = (sum, one, two.rotate_left(30), three, four);
    }
    let mut after = state;
    for (word, more) in after.iter_mut().zip([one, two, three, four, five]) {
        *word = word.wrapping_add(more);
    }
    after
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    fn check(pieces: &[&[u8]], expected: &str) {
        let mut shown = String::new();
        for byte in sha1(pieces) {
            write!(shown, "{byte:02x}").unwrap();
        }
        assert_eq!(shown, expected);
    }

    /// The examples of the RFC, and what `git hash-object` says of an empty file and of one line.
    #[test]
    fn ids_are_those_of_git() {
        check(&[b"abc"], "a9993e364706816aba3e25717850c26c9cd0d89d");
        check(
            &[
                b"abcdbcdecdefdefgefghfghighijhi",
                b"jkijkljklmklmnlmnomnopnopq",
            ],
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1",
        );
        let million = vec![b'a'; 1_000_000];
        check(&[&million], "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
        check(
            &[header(b"").as_bytes()],
            "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
        );
        check(
            &[header(b"hello\n").as_bytes(), b"hello\n"],
            "ce013625030ba8dba906f756967f9e9ca394464a",
        );
    }
}
