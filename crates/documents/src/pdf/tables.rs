//! Where the objects of a file are: from its tables of either form, newest first, or, where they are
//! wrong, from the objects themselves.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    file::PdfFile,
    filters,
    lexer::{Lexer, is_space},
    object::{Dictionary, Object},
};

/// The most tables of a file: one for each time it was saved.
const MAX_TABLES: usize = 512;

/// The most objects whose places are kept.
const MAX_ENTRIES: usize = 500_000;

/// How far from its end a file says where its tables are.
const TAIL: usize = 2048;

/// The most streams of objects that are opened to see what is in them.
const MAX_STREAMS: usize = 10_000;

/// Where an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    At(usize),
    /// In a stream of objects.
    Packed {
        stream: u32,
        index: usize,
    },
}

/// Reads the tables of a file.
pub(super) fn load(file: &mut PdfFile<'_>) {
    let tail = file.bytes.len().saturating_sub(TAIL);
    let Some(at) = find_last(file.bytes.get(tail..).unwrap_or_default(), b"startxref") else {
        return;
    };
    let mut lexer = Lexer::of_file(file.bytes, tail + at + b"startxref".len(), file.budget);
    let (mut next, mut visited) = (Vec::from_iter(lexer.number()), BTreeSet::new());
    while let Some(at) = next.pop() {
        if visited.len() >= MAX_TABLES || !visited.insert(at) {
            break;
        }
        let Some(trailer) = table(file, at) else {
            break;
        };
        // The older one is looked at last: what is known already stays.
        next.extend(trailer.get(b"Prev").and_then(Object::size));
        next.extend(trailer.get(b"XRefStm").and_then(Object::size));
        file.trailer.fill(&trailer);
    }
}

/// Reads one table, and returns what stands with it.
fn table(file: &mut PdfFile<'_>, at: usize) -> Option<Dictionary> {
    let mut lexer = Lexer::of_file(file.bytes, at, file.budget);
    if !lexer.takes(b"xref") {
        let (object, _) = file.object_at(at, None)?;
        let stream = object.stream()?.clone();
        let bytes = filters::unpacked(file, &stream);
        packed_table(file, &stream.dictionary, &bytes)?;
        return Some(stream.dictionary);
    }
    while let Some(first) = lexer.number() {
        let count = lexer.number()?;
        for number in (first..).take(count) {
            let place = lexer.number()?;
            lexer.number()?;
            if lexer.takes(b"n") {
                add(&mut file.entries, number, Entry::At(place));
            } else if !lexer.takes(b"f") {
                return None;
            }
        }
    }
    if !lexer.takes(b"trailer") {
        return None;
    }
    lexer.object().dictionary().cloned()
}

/// Reads a table that is a stream.
fn packed_table(file: &mut PdfFile<'_>, dictionary: &Dictionary, bytes: &[u8]) -> Option<()> {
    let widths = dictionary.get(b"W")?.array()?;
    let widths: Vec<usize> = widths.iter().filter_map(Object::size).collect();
    let [kind_width, first_width, second_width] = widths[..] else {
        return None;
    };
    let width = kind_width
        .checked_add(first_width)?
        .checked_add(second_width)?;
    if width == 0 || width > 24 {
        return None;
    }
    let size = dictionary.get(b"Size").and_then(Object::size).unwrap_or(0);
    let index = dictionary.get(b"Index").and_then(Object::array);
    let ranges: Vec<usize> = index.map_or_else(
        || vec![0, size],
        |index| index.iter().filter_map(Object::size).collect(),
    );
    let mut rows = bytes.chunks_exact(width);
    for range in ranges.chunks_exact(2) {
        let [first, count] = *range else {
            continue;
        };
        // Before the rows, so that none is taken for nothing.
        for number in (first..).take(count) {
            let Some(row) = rows.next() else {
                return Some(());
            };
            file.budget.spend(8);
            let (kind, rest) = row.split_at_checked(kind_width)?;
            let (one, other) = rest.split_at_checked(first_width)?;
            let kind = if kind.is_empty() { 1 } else { big_endian(kind) };
            let (one, other) = (big_endian(one), big_endian(other));
            match (kind, u32::try_from(one)) {
                (1, _) => add(&mut file.entries, number, Entry::At(one)),
                (2, Ok(stream)) => {
                    let entry = Entry::Packed {
                        stream,
                        index: other,
                    };
                    add(&mut file.entries, number, entry);
                }
                _ => {}
            }
        }
    }
    Some(())
}

fn big_endian(bytes: &[u8]) -> usize {
    bytes.iter().fold(0_usize, |value, byte| {
        value.saturating_mul(256).saturating_add(usize::from(*byte))
    })
}

/// Keeps where an object is, unless a newer table said so already.
fn add(entries: &mut BTreeMap<u32, Entry>, number: usize, entry: Entry) {
    let has_room = entries.len() < MAX_ENTRIES;
    if let (Ok(number), true) = (u32::try_from(number), has_room) {
        entries.entry(number).or_insert(entry);
    }
}

/// Finds the objects of a file whose tables are wrong. The last of two with a number is the newer.
pub(super) fn rebuild(file: &mut PdfFile<'_>) {
    file.entries.clear();
    file.budget.spend(file.bytes.len() / 2);
    let (bytes, mut from) = (file.bytes, 0);
    while let Some(at) = find(bytes.get(from..).unwrap_or_default(), b"obj") {
        let at = from + at;
        from = at + 3;
        if let Some((number, start)) = header_before(bytes, at)
            && file.entries.len() < MAX_ENTRIES
        {
            file.entries.insert(number, Entry::At(start));
        }
    }
    trailers(file);
    let places: Vec<(u32, Entry)> = file.entries.iter().map(|(n, entry)| (*n, *entry)).collect();
    let mut streams = Vec::new();
    for (number, entry) in places {
        let Entry::At(at) = entry else { continue };
        if file.budget.is_spent() {
            return;
        }
        let Some((object, _)) = file.object_at(at, Some(number)) else {
            continue;
        };
        let Some(dictionary) = object.dictionary() else {
            continue;
        };
        if dictionary.is_named(b"Type", b"ObjStm") && streams.len() < MAX_STREAMS {
            streams.push(number);
        }
        // Of a file without tables, the object itself says that it is the first.
        let is_catalog = dictionary.is_named(b"Type", b"Catalog");
        if is_catalog && file.trailer.get(b"Root").is_none() {
            let root = Object::Reference(number);
            file.trailer.set(b"Root", root);
        }
        if dictionary.is_named(b"Type", b"XRef") {
            for name in [&b"Root"[..], b"Info", b"Encrypt"] {
                if let Some(value) = dictionary.get(name) {
                    file.trailer.set(name, value.clone());
                }
            }
        }
    }
    for stream in streams {
        for (index, number) in file.packed_numbers(stream).into_iter().enumerate() {
            let number = usize::try_from(number).unwrap_or(usize::MAX);
            add(&mut file.entries, number, Entry::Packed { stream, index });
        }
    }
    if file.catalog().dictionary().is_none() {
        let numbers: Vec<u32> = file.entries.keys().copied().collect();
        let is_catalog = |number: &u32| {
            let object = file.object(*number);
            let dictionary = object.dictionary();
            dictionary.is_some_and(|dictionary| dictionary.is_named(b"Type", b"Catalog"))
        };
        if let Some(number) = numbers.into_iter().find(is_catalog) {
            let root = Object::Reference(number);
            file.trailer.set(b"Root", root);
        }
    }
}

/// What stands after each word `trailer`; the last one counts.
fn trailers(file: &mut PdfFile<'_>) {
    let (bytes, mut from) = (file.bytes, 0);
    while let Some(at) = find(bytes.get(from..).unwrap_or_default(), b"trailer") {
        from += at + b"trailer".len();
        if let Some(mut newer) = file.dictionary_at(from) {
            newer.fill(&file.trailer);
            file.trailer = newer;
        }
        if file.budget.is_spent() {
            return;
        }
    }
}

/// The number in `12 0 obj`, and where it begins; `at` is where `obj` is.
fn header_before(bytes: &[u8], at: usize) -> Option<(u32, usize)> {
    let before = bytes.get(at.saturating_sub(32)..at)?;
    let (rest, generation) = number_at_end(before.trim_ascii_end())?;
    let has_gap = rest.last().is_some_and(|byte| is_space(*byte));
    if !has_gap || generation > 65_535 {
        return None;
    }
    let trimmed = rest.trim_ascii_end();
    let (rest, number) = number_at_end(trimmed)?;
    let start = at - (before.len() - rest.len());
    Some((number, start))
}

/// The digits at the end of bytes as a number, and what stands before.
fn number_at_end(bytes: &[u8]) -> Option<(&[u8], u32)> {
    let digits = bytes.iter().rev().take_while(|byte| byte.is_ascii_digit());
    let split = bytes.len() - digits.count();
    let (rest, digits) = bytes.split_at_checked(split)?;
    let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some((rest, number))
}

/// Where some bytes begin in others.
pub(super) fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    let first = *wanted.first()?;
    let mut from = 0;
    loop {
        let rest = bytes.get(from..)?;
        let at = from + rest.iter().position(|byte| *byte == first)?;
        if bytes.get(at..)?.starts_with(wanted) {
            return Some(at);
        }
        from = at + 1;
    }
}

fn find_last(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    (0..bytes.len()).rev().find(|at| {
        bytes
            .get(*at..)
            .is_some_and(|rest| rest.starts_with(wanted))
    })
}
