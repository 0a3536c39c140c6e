//! Mutates known inputs: flips bits; cuts, repeats, moves and swaps parts; inserts words of the
//! format, numbers at the edges of their ranges, long runs, and bytes that are not text.

/// The most accepted inputs that are mutated further, in addition to the known ones.
const LEARNT: usize = 256;

/// The most changes to one input.
const MAX_CHANGES: usize = 8;

/// Bytes that parsers treat specially.
const SPECIAL: &[u8] = b"\0\t\n\r \"'\\/:;,.=-+*#@$`(){}[]<>|&!?~^%_\x7f\x80\xff";

/// Invalid UTF-8: stray, cut off, overlong, a surrogate, beyond the last character. Then valid
/// characters that are invisible or easily mishandled.
const ODD_TEXT: &[&[u8]] = &[
    b"\xff",
    b"\xc3",
    b"\xc3\x28",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    "\u{feff}".as_bytes(),
    "\u{202e}".as_bytes(),
    "\u{2028}".as_bytes(),
    "\u{85}".as_bytes(),
    "é".as_bytes(),
    "İ".as_bytes(),
];

/// Numbers at which counting goes wrong.
const EDGES: &[u64] = &[
    0,
    1,
    2,
    3,
    4,
    8,
    9,
    16,
    63,
    64,
    127,
    128,
    255,
    256,
    1023,
    1024,
    4096,
    16_384,
    32_767,
    32_768,
    65_535,
    65_536,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_ffff,
];

/// The same as digits, and beyond every range.
const WRITTEN: &[&str] = &[
    "0",
    "-1",
    "1",
    "255",
    "256",
    "65535",
    "65536",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999",
    "1e999",
];

/// Makes inputs; the same seed gives the same ones.
pub(super) struct Mutator<'f> {
    numbers: Numbers,
    seeds: &'f [Vec<u8>],
    words: &'f [Vec<u8>],
    learnt: Vec<Vec<u8>>,
    longest: usize,
}

impl<'f> Mutator<'f> {
    pub(super) fn new(
        seed: u64,
        seeds: &'f [Vec<u8>],
        words: &'f [Vec<u8>],
        longest: usize,
    ) -> Self {
        Self {
            numbers: Numbers(seed),
            seeds,
            words,
            learnt: Vec::new(),
            longest,
        }
    }

    /// The next input.
    pub(super) fn next_input(&mut self) -> Vec<u8> {
        let mut bytes = self.known();
        // Mostly one or two: after many, hardly anything is accepted.
        for _ in 0..MAX_CHANGES {
            self.change(&mut bytes);
            if self.numbers.below(2) == 0 {
                break;
            }
        }
        bytes.truncate(self.longest);
        bytes
    }

    /// Keeps an input to be mutated further.
    pub(super) fn learn(&mut self, input: Vec<u8>) {
        if self.learnt.len() < LEARNT {
            self.learnt.push(input);
        } else {
            let at = self.numbers.below(LEARNT);
            self.learnt[at] = input;
        }
    }

    /// A known input, or one that was accepted.
    fn known(&mut self) -> Vec<u8> {
        if !self.learnt.is_empty() && self.numbers.below(3) == 0 {
            return self.numbers.pick(&self.learnt).clone();
        }
        self.numbers.pick(self.seeds).clone()
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        let at = self.numbers.below(bytes.len() + 1);
        match self.numbers.below(16) {
            0 if at < bytes.len() => bytes[at] ^= 1 << self.numbers.below(8),
            1 if at < bytes.len() => bytes[at] = *self.numbers.pick(SPECIAL),
            2 => bytes.insert(at, *self.numbers.pick(SPECIAL)),
            3 => drop(bytes.drain(self.numbers.range(bytes.len()))),
            4 => bytes.truncate(at),
            5 => self.repeat(bytes),
            6 => {
                // The front of one input and the back of another.
                let other = self.known();
                let from = self.numbers.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            7 => {
                let other = self.known();
                let part = self.numbers.range(other.len());
                bytes.splice(at..at, other[part].iter().copied());
            }
            8 | 12 => self.edge(bytes),
            9 => {
                let odd = *self.numbers.pick(ODD_TEXT);
                bytes.splice(at..at, odd.iter().copied());
            }
            10 => self.line(bytes),
            11 if self.words.is_empty() => bytes.truncate(at),
            // Words of the format lead deepest.
            _ => self.word(bytes),
        }
    }

    /// Inserts a word, or replaces something with it.
    fn word(&mut self, bytes: &mut Vec<u8>) {
        if self.words.is_empty() {
            return;
        }
        let word = self.numbers.pick(self.words).clone();
        let place = if self.numbers.below(2) == 0 {
            self.numbers.range(bytes.len())
        } else {
            let at = self.numbers.below(bytes.len() + 1);
            at..at
        };
        bytes.splice(place, word);
    }

    /// Repeats a part, sometimes until the input has its maximum length.
    fn repeat(&mut self, bytes: &mut Vec<u8>) {
        let range = self.numbers.range(bytes.len());
        let part = bytes[range.clone()].to_vec();
        if part.is_empty() {
            return;
        }
        let room = self.longest.saturating_sub(bytes.len()) / part.len();
        let most = if self.numbers.below(8) == 0 {
            room
        } else {
            room.min(8)
        };
        let count = self.numbers.below(most + 1);
        bytes.splice(range.end..range.end, part.repeat(count));
    }

    /// Inserts an edge number: as digits in place of digits, else as bytes.
    fn edge(&mut self, bytes: &mut Vec<u8>) {
        let starts = |at: &usize| {
            bytes[*at].is_ascii_digit() && (*at == 0 || !bytes[at - 1].is_ascii_digit())
        };
        let places: Vec<usize> = (0..bytes.len()).filter(starts).collect();
        if !places.is_empty() && self.numbers.below(4) > 0 {
            let at = *self.numbers.pick(&places);
            let count = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit());
            let end = at + count.count();
            let number = self.numbers.pick(WRITTEN);
            bytes.splice(at..end, number.bytes());
            return;
        }
        let width = *self.numbers.pick(&[1, 2, 4, 8]);
        let at = self.numbers.below(bytes.len() + 1);
        let end = (at + width).min(bytes.len());
        let number = self.numbers.pick(EDGES).to_be_bytes();
        bytes.splice(at..end, number[8 - width..].iter().copied());
    }

    /// Copies a line to another place, or removes it.
    fn line(&mut self, bytes: &mut Vec<u8>) {
        let mut lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        if lines.is_empty() {
            return;
        }
        let from = self.numbers.below(lines.len());
        if self.numbers.below(3) == 0 {
            lines.remove(from);
        } else {
            let to = self.numbers.below(lines.len() + 1);
            lines.insert(to, lines[from]);
        }
        *bytes = lines.concat();
    }
}

/// Pseudo-random numbers, the same from the same seed (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which must not be 0.
    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap()
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// A range within this length, more often a short one.
    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        let most = if self.below(2) == 0 { 8 } else { length };
        let end = start + self.below((length - start).min(most) + 1);
        start..end
    }
}
