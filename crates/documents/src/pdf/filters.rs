//! The bytes of a stream, unpacked. Only what holds text or tables is; pictures are left as they are.
//! What does not unpack as far as its end is taken as far as it does.

use miniz_oxide::inflate;

use super::{
    file::PdfFile,
    object::{Dictionary, Object, Stream},
};

/// The most bytes that a stream becomes.
const MAX_UNPACKED: usize = 24 * 1024 * 1024;

/// The most filters, one after another.
const MAX_FILTERS: usize = 6;

/// The longest row that is told apart from the one above.
const MAX_ROW: usize = 1024 * 1024;

/// The bytes of a stream; none where it has a filter that is not known.
pub(super) fn unpacked(file: &mut PdfFile<'_>, stream: &Stream) -> Vec<u8> {
    let dictionary = &stream.dictionary;
    let filters = list(file, dictionary, [b"Filter", b"F"]);
    let parameters = list(file, dictionary, [b"DecodeParms", b"DP"]);
    if filters.len() > MAX_FILTERS {
        return Vec::new();
    }
    let raw = file.raw(stream);
    let mut bytes = raw
        .get(..raw.len().min(MAX_UNPACKED))
        .unwrap_or(raw)
        .to_vec();
    for (index, filter) in filters.iter().enumerate() {
        let parameters = parameters.get(index).and_then(Object::dictionary);
        let parameters = parameters.cloned().unwrap_or_default();
        let bytes_in = bytes.len();
        let next = match filter.name() {
            Some(b"FlateDecode" | b"Fl") => unpredicted(inflated(&bytes), &parameters),
            Some(b"LZWDecode" | b"LZW") => {
                let early = parameters.get(b"EarlyChange").and_then(Object::integer);
                unpredicted(lzw(&bytes, early != Some(0)), &parameters)
            }
            Some(b"ASCIIHexDecode" | b"AHx") => hexadecimal(&bytes),
            Some(b"ASCII85Decode" | b"A85") => base85(&bytes),
            Some(b"RunLengthDecode" | b"RL") => run_length(&bytes),
            Some(b"Crypt") => bytes,
            Some(_) | None => return Vec::new(),
        };
        let steps = bytes_in.saturating_add(next.len());
        bytes = next;
        if !file.budget.spend(steps) {
            return Vec::new();
        }
    }
    bytes
}

/// An entry that is one object or a list of them, each behind its reference.
fn list(file: &mut PdfFile<'_>, dictionary: &Dictionary, names: [&[u8]; 2]) -> Vec<Object> {
    let found = names.into_iter().find_map(|name| dictionary.get(name));
    let Some(found) = found else {
        return Vec::new();
    };
    let found = file.resolve(found);
    match &*found {
        Object::Null => Vec::new(),
        Object::Array(items) => {
            let items = items.iter().take(MAX_FILTERS + 1);
            items
                .map(|item| Object::clone(&file.resolve(item)))
                .collect()
        }
        other => vec![other.clone()],
    }
}

fn inflated(bytes: &[u8]) -> Vec<u8> {
    let whole = inflate::decompress_to_vec_zlib_with_limit(bytes, MAX_UNPACKED);
    let part = match whole {
        Ok(unpacked) => return unpacked,
        Err(error) => error.output,
    };
    if !part.is_empty() {
        return part;
    }
    // Some have a broken head, or none.
    let headless = bytes.get(2..).unwrap_or_default();
    [headless, bytes]
        .into_iter()
        .map(|bytes| {
            inflate::decompress_to_vec_with_limit(bytes, MAX_UNPACKED)
                .unwrap_or_else(|error| error.output)
        })
        .find(|unpacked| !unpacked.is_empty())
        .unwrap_or_default()
}

/// Codes of growing width, each a text that was seen before.
fn lzw(bytes: &[u8], is_early: bool) -> Vec<u8> {
    const CLEAR: usize = 256;
    const END: usize = 257;
    let mut unpacked: Vec<u8> = Vec::new();
    // Where in what is unpacked each entry is, and how long.
    let mut table: Vec<(usize, usize)> = Vec::new();
    let (mut width, mut bits, mut count) = (9, 0_u32, 0);
    let mut before: Option<(usize, usize)> = None;
    for byte in bytes {
        bits = bits << 8 | u32::from(*byte);
        count += 8;
        if count < width {
            continue;
        }
        count -= width;
        let code = usize::try_from(bits >> count & ((1 << width) - 1)).unwrap_or(END);
        bits &= (1 << count) - 1;
        match code {
            CLEAR => {
                table.clear();
                (width, before) = (9, None);
                continue;
            }
            END => break,
            _ => {}
        }
        let start = unpacked.len();
        if let Ok(byte) = u8::try_from(code) {
            unpacked.push(byte);
        } else if let Some((at, length)) = table.get(code - 258).copied() {
            unpacked.extend_from_within(at..at + length);
        } else if let Some((at, length)) = before.filter(|_| code - 258 == table.len()) {
            unpacked.extend_from_within(at..at + length);
            unpacked.extend(unpacked.get(at).copied());
        } else {
            break;
        }
        if let Some((at, length)) = before
            && table.len() < 4096 - 258
        {
            // What was there before, and the first byte of this, which follows it.
            table.push((at, length + 1));
        }
        before = Some((start, unpacked.len() - start));
        let next = table.len() + 258 + usize::from(is_early) + usize::from(before.is_some());
        width = match next {
            0..=512 => 9,
            513..=1024 => 10,
            1025..=2048 => 11,
            _ => 12,
        };
        if unpacked.len() >= MAX_UNPACKED {
            break;
        }
    }
    unpacked
}

fn hexadecimal(bytes: &[u8]) -> Vec<u8> {
    let digits = bytes.iter().take_while(|byte| **byte != b'>');
    let digits = digits.filter_map(|byte| char::from(*byte).to_digit(16));
    let digits: Vec<u8> = digits
        .filter_map(|digit| u8::try_from(digit).ok())
        .collect();
    let pair = |pair: &[u8]| match pair {
        [high, low] => high << 4 | low,
        [high] => high << 4,
        _ => 0,
    };
    digits.chunks(2).map(pair).collect()
}

fn base85(bytes: &[u8]) -> Vec<u8> {
    let mut unpacked = Vec::new();
    let (mut value, mut count) = (0_u32, 0_usize);
    for byte in bytes {
        match byte {
            b'~' => break,
            b'z' if count == 0 => unpacked.extend([0; 4]),
            b'!'..=b'u' => {
                value = value.wrapping_mul(85).wrapping_add(u32::from(byte - b'!'));
                count += 1;
                if count == 5 {
                    unpacked.extend(value.to_be_bytes());
                    (value, count) = (0, 0);
                }
            }
            _ => {}
        }
    }
    if count > 1 {
        for _ in count..5 {
            value = value.wrapping_mul(85).wrapping_add(84);
        }
        unpacked.extend(value.to_be_bytes().iter().take(count - 1));
    }
    unpacked
}

fn run_length(bytes: &[u8]) -> Vec<u8> {
    let (mut unpacked, mut rest) = (Vec::new(), bytes);
    while let Some((length, after)) = rest.split_first() {
        rest = after;
        match length {
            128 => break,
            0..=127 => {
                let (plain, after) = rest.split_at(rest.len().min(usize::from(*length) + 1));
                unpacked.extend_from_slice(plain);
                rest = after;
            }
            129..=255 => {
                let Some((byte, after)) = rest.split_first() else {
                    break;
                };
                unpacked.extend(std::iter::repeat_n(*byte, 257 - usize::from(*length)));
                rest = after;
            }
        }
        if unpacked.len() >= MAX_UNPACKED {
            break;
        }
    }
    unpacked
}

/// Bytes that were told by how they differ from those beside or above them.
fn unpredicted(bytes: Vec<u8>, parameters: &Dictionary) -> Vec<u8> {
    let entry = |name: &[u8], usual: usize| {
        let value = parameters.get(name).and_then(Object::size);
        value.unwrap_or(usual)
    };
    let predictor = entry(b"Predictor", 1);
    let bits = entry(b"BitsPerComponent", 8).saturating_mul(entry(b"Colors", 1));
    let pixel = bits.div_ceil(8).max(1);
    let row = bits.saturating_mul(entry(b"Columns", 1)).div_ceil(8).max(1);
    if predictor < 2 || row > MAX_ROW || pixel > row {
        return bytes;
    }
    if predictor == 2 {
        return differences(bytes, row, pixel);
    }
    let mut unpacked = Vec::with_capacity(bytes.len());
    let (mut above, mut here) = (vec![0_u8; row], vec![0_u8; row]);
    for line in bytes.chunks(row + 1) {
        let Some((kind, line)) = line.split_first() else {
            break;
        };
        here.fill(0);
        for (to, from) in here.iter_mut().zip(line) {
            *to = *from;
        }
        for index in 0..row {
            let left = index.checked_sub(pixel);
            let of = |row: &[u8], index: Option<usize>| {
                let byte = index.and_then(|index| row.get(index));
                byte.copied().unwrap_or(0)
            };
            let (up, corner) = (of(&above, Some(index)), of(&above, left));
            let left = of(&here, left);
            let add = match kind {
                1 => left,
                2 => up,
                3 => u8::midpoint(left, up),
                4 => paeth(left, up, corner),
                _ => 0,
            };
            if let Some(byte) = here.get_mut(index) {
                *byte = byte.wrapping_add(add);
            }
        }
        unpacked.extend_from_slice(&here);
        std::mem::swap(&mut above, &mut here);
    }
    unpacked
}

fn differences(mut bytes: Vec<u8>, row: usize, pixel: usize) -> Vec<u8> {
    for line in bytes.chunks_mut(row) {
        for index in pixel..line.len() {
            let left = line.get(index - pixel).copied().unwrap_or(0);
            if let Some(byte) = line.get_mut(index) {
                *byte = byte.wrapping_add(left);
            }
        }
    }
    bytes
}

/// Which of three bytes is nearest to what they foretell together.
fn paeth(left: u8, up: u8, corner: u8) -> u8 {
    let [a, b, c] = [left, up, corner].map(i16::from);
    let guess = a + b - c;
    let (far_a, far_b, far_c) = ((guess - a).abs(), (guess - b).abs(), (guess - c).abs());
    if far_a <= far_b && far_a <= far_c {
        left
    } else if far_b <= far_c {
        up
    } else {
        corner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_filter_unpacks() {
        assert_eq!(hexadecimal(b"48 65 6C6c 6F7>zz"), b"Hellop");
        assert_eq!(base85(b"87cURD_*#TDfTZ)~>x"), b"Hello, world");
        assert_eq!(
            run_length(&[2, b'a', b'b', b'c', 254, b'x', 128, 9]),
            b"abcxxx"
        );
        let packed = [0x80, 0x0b, 0x60, 0x50, 0x22, 0x0c, 0x0c, 0x85, 0x01];
        let unpacked = [45, 45, 45, 45, 45, 65, 45, 45, 45, 66];
        assert_eq!(lzw(&packed, true), unpacked);
    }

    #[test]
    fn rows_that_differ_from_those_above() {
        let parameters = |predictor: i64| {
            let entry = |name: &[u8], value: i64| (name.to_vec(), Object::Integer(value));
            let entries = [entry(b"Predictor", predictor), entry(b"Columns", 3)];
            Dictionary::new(entries.into_iter().collect())
        };
        let rows = vec![2, 1, 2, 3, 2, 1, 1, 1, 1, 5, 1, 1];
        assert_eq!(
            unpredicted(rows, &parameters(12)),
            [1, 2, 3, 2, 3, 4, 5, 6, 7]
        );
        assert_eq!(
            unpredicted(vec![1, 1, 1, 2, 1, 1], &parameters(2)),
            [1, 2, 3, 2, 3, 4]
        );
        assert_eq!(unpredicted(vec![7; 4], &parameters(1)), [7; 4]);
    }
}
