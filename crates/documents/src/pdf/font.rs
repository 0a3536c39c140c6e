//! A font, as far as text needs it: which codes a string has, what each stands for, and how wide it is.

use std::collections::BTreeMap;

use encoding_rs::Encoding;

use super::{
    cmap::{self, CharacterMap},
    encodings::{self, SignTable},
    file::PdfFile,
    filters, glyph_names,
    object::{Dictionary, Object},
    standard_widths,
};

/// The most widths of a font.
const MAX_WIDTHS: usize = 70_000;

/// How much of a font program is searched for its table of names.
const MAX_PROGRAM: usize = 64 * 1024;

/// A font that says of itself that its codes are its own.
const SYMBOLIC: i64 = 4;

/// A font.
#[derive(Debug)]
pub(super) struct Font {
    codes: CodeTable,
    /// What codes stand for, as the file says.
    to_unicode: CharacterMap,
    widths: BTreeMap<u32, f64>,
    usual_width: f64,
    /// How large a unit of its widths is in text of size 1.
    pub(super) unit: f64,
    /// How tall its signs are in text of size 1, where that is not 1.
    pub(super) height: f64,
    pub(super) is_vertical: bool,
}

#[derive(Debug)]
enum CodeTable {
    /// One byte each.
    Bytes(Vec<Option<String>>),
    /// Two bytes each, which are numbers of signs.
    Identity,
    /// A table in the file.
    Map(CharacterMap),
    Charset(&'static Encoding),
}

/// A code of a string.
#[derive(Debug, Clone, Copy)]
pub(super) struct FontCode<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) code: u32,
}

impl Font {
    pub(super) fn load(file: &mut PdfFile<'_>, dictionary: &Dictionary) -> Self {
        let to_unicode = file.get(dictionary, b"ToUnicode");
        let to_unicode = match to_unicode.stream() {
            Some(stream) => {
                let table = filters::unpacked(file, stream);
                CharacterMap::parse(&table, file.budget)
            }
            None => CharacterMap::default(),
        };
        let kind = file.get(dictionary, b"Subtype");
        if kind.name() == Some(b"Type0") {
            return Self::composite(file, dictionary, to_unicode);
        }
        Self::simple(file, dictionary, to_unicode, kind.name() == Some(b"Type3"))
    }

    fn simple(
        file: &mut PdfFile<'_>,
        dictionary: &Dictionary,
        to_unicode: CharacterMap,
        is_drawn: bool,
    ) -> Self {
        let name = file.get(dictionary, b"BaseFont");
        let name = name.name().unwrap_or_default();
        let descriptor = file.get_dictionary(dictionary, b"FontDescriptor");
        let (mut widths, mut usual_width) = (BTreeMap::new(), 500.0);
        let first = file.get(dictionary, b"FirstChar").size().unwrap_or(0);
        let listed = file.get(dictionary, b"Widths");
        if let Some(listed) = listed.array() {
            usual_width = 0.0;
            if let Some(missing) = file.get(&descriptor, b"MissingWidth").number() {
                usual_width = missing;
            }
            for (code, width) in (first..256).zip(listed) {
                let width = file.resolve(width).number();
                if let (Ok(code), Some(width)) = (u32::try_from(code), width) {
                    widths.insert(code, width);
                }
            }
        } else {
            standard_widths::add(name, &mut widths);
        }
        let (mut unit, mut height) = (0.001, 1.0);
        if is_drawn {
            let matrix = file.get(dictionary, b"FontMatrix");
            let numbers = matrix.array().unwrap_or_default();
            let number = |index: usize| numbers.get(index).and_then(Object::number);
            unit = number(0).unwrap_or(0.001).abs();
            let area = file.get(dictionary, b"FontBBox");
            let edges: Vec<f64> = area
                .array()
                .unwrap_or_default()
                .iter()
                .filter_map(Object::number)
                .collect();
            if let [_, bottom, _, top] = edges[..] {
                let tall = (top - bottom).abs() * number(3).unwrap_or(0.001).abs();
                if tall > 0.1 && tall < 10.0 {
                    height = tall;
                }
            }
        }
        Self {
            codes: CodeTable::Bytes(texts(file, dictionary, &descriptor, name, is_drawn)),
            to_unicode,
            widths,
            usual_width,
            unit,
            height,
            is_vertical: false,
        }
    }

    fn composite(
        file: &mut PdfFile<'_>,
        dictionary: &Dictionary,
        to_unicode: CharacterMap,
    ) -> Self {
        let encoding = file.get(dictionary, b"Encoding");
        let (codes, is_vertical) = match &*encoding {
            Object::Name(name) => match encodings::charset(name) {
                Some((charset, is_vertical)) => (CodeTable::Charset(charset), is_vertical),
                None => (CodeTable::Identity, name.ends_with(b"-V")),
            },
            Object::Stream(stream) => {
                let table = filters::unpacked(file, stream);
                let map = CharacterMap::parse(&table, file.budget);
                let is_vertical = map.is_vertical;
                (CodeTable::Map(map), is_vertical)
            }
            _ => (CodeTable::Identity, false),
        };
        let descendants = file.get(dictionary, b"DescendantFonts");
        let first = descendants.array().and_then(<[Object]>::first);
        let descendant = first.map(|font| file.resolve(font));
        let descendant = descendant.as_deref().and_then(Object::dictionary).cloned();
        let descendant = descendant.unwrap_or_default();
        let usual = file.get(&descendant, b"DW").number();
        let listed = file.get(&descendant, b"W");
        let mut widths = BTreeMap::new();
        if !is_vertical {
            add_listed(file, listed.array().unwrap_or_default(), &mut widths);
        }
        Self {
            codes,
            to_unicode,
            widths,
            usual_width: usual.filter(|_| !is_vertical).unwrap_or(1000.0),
            unit: 0.001,
            height: 1.0,
            is_vertical,
        }
    }

    /// The codes of a string.
    pub(super) fn codes<'a>(&'a self, mut bytes: &'a [u8]) -> impl Iterator<Item = FontCode<'a>> {
        std::iter::from_fn(move || {
            let first = *bytes.first()?;
            let length = match &self.codes {
                CodeTable::Bytes(_) => 1,
                CodeTable::Identity => 2,
                CodeTable::Map(map) => map.code_length(bytes).unwrap_or(2),
                CodeTable::Charset(charset) => encodings::code_length(charset, first),
            };
            let (own, rest) = bytes.split_at(length.min(bytes.len()));
            bytes = rest;
            Some(FontCode {
                bytes: own,
                code: cmap::code(own),
            })
        })
    }

    /// Appends what a code stands for, and says whether that is known.
    pub(super) fn push_text(&self, code: FontCode<'_>, to: &mut String) -> bool {
        let before = to.len();
        if self.to_unicode.push_text(code.code, to) && is_readable(to, before) {
            return true;
        }
        to.truncate(before);
        match &self.codes {
            CodeTable::Bytes(texts) => {
                let index = usize::try_from(code.code).unwrap_or(usize::MAX);
                let Some(Some(text)) = texts.get(index) else {
                    return false;
                };
                to.push_str(text);
            }
            CodeTable::Charset(charset) => {
                let (text, has_problem) = charset.decode_without_bom_handling(code.bytes);
                if has_problem {
                    return false;
                }
                to.push_str(&text);
            }
            CodeTable::Identity | CodeTable::Map(_) => return false,
        }
        is_readable(to, before)
    }

    /// How far a code moves on, in text of size 1.
    pub(super) fn width(&self, code: FontCode<'_>) -> f64 {
        let sign = match &self.codes {
            CodeTable::Map(map) => map.sign(code.code).unwrap_or(code.code),
            CodeTable::Bytes(_) | CodeTable::Identity | CodeTable::Charset(_) => code.code,
        };
        let width = self.widths.get(&sign).copied();
        // How wide signs of a charset are is listed by numbers that only the named table has.
        let is_narrow = matches!(self.codes, CodeTable::Charset(_)) && code.bytes.len() == 1;
        let usual = if is_narrow { 500.0 } else { self.usual_width };
        width.unwrap_or(usual) * self.unit
    }

    /// How much is kept of it.
    pub(super) fn weight(&self) -> usize {
        self.widths.len() + 256 + if self.to_unicode.is_empty() { 0 } else { 4096 }
    }
}

/// Makes what was appended readable: ligatures as their letters, and nothing of a font's own.
fn is_readable(text: &mut String, from: usize) -> bool {
    let added = text.get(from..).unwrap_or_default();
    if added.bytes().all(|byte| (b' '..0x7f).contains(&byte)) {
        return !added.is_empty();
    }
    let mut readable = String::with_capacity(added.len());
    for c in added.chars() {
        match c {
            '\u{fb00}' => readable.push_str("ff"),
            '\u{fb01}' => readable.push_str("fi"),
            '\u{fb02}' => readable.push_str("fl"),
            '\u{fb03}' => readable.push_str("ffi"),
            '\u{fb04}' => readable.push_str("ffl"),
            '\u{fb05}' | '\u{fb06}' => readable.push_str("st"),
            '\u{a0}' | '\t' | '\n' | '\r' => readable.push(' '),
            // The bullets of a font that many word processors use.
            '\u{f0b7}' | '\u{f0a7}' => readable.push('•'),
            '\u{fffd}' | '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}' => {}
            c if c.is_control() => {}
            c => readable.push(c),
        }
    }
    text.truncate(from);
    text.push_str(&readable);
    !readable.is_empty()
}

/// What each of 256 codes stands for.
fn texts(
    file: &mut PdfFile<'_>,
    dictionary: &Dictionary,
    descriptor: &Dictionary,
    name: &[u8],
    is_drawn: bool,
) -> Vec<Option<String>> {
    let encoding = file.get(dictionary, b"Encoding");
    let named = match &*encoding {
        Object::Name(name) => SignTable::named(name),
        Object::Dictionary(dictionary) => {
            let base = file.get(dictionary, b"BaseEncoding");
            base.name().and_then(SignTable::named)
        }
        _ => None,
    };
    let mut texts = match named {
        Some(table) => of_table(table),
        None => of_its_own(file, dictionary, descriptor, name, is_drawn),
    };
    let differences = match encoding.dictionary() {
        Some(encoding) => file.get(encoding, b"Differences"),
        None => super::file::nothing(),
    };
    let mut code = 0_usize;
    for difference in differences.array().unwrap_or_default() {
        match difference {
            Object::Name(name) => {
                if let Some(text) = texts.get_mut(code) {
                    *text = glyph_names::text_of(name);
                }
                code = code.saturating_add(1);
            }
            other => code = other.size().unwrap_or(code),
        }
    }
    texts
}

fn of_table(table: SignTable) -> Vec<Option<String>> {
    (0..=255_u8)
        .map(|code| table.sign(code).map(String::from))
        .collect()
}

/// What codes stand for where no table is named: what the font program says, or else what is usual.
fn of_its_own(
    file: &mut PdfFile<'_>,
    dictionary: &Dictionary,
    descriptor: &Dictionary,
    name: &[u8],
    is_drawn: bool,
) -> Vec<Option<String>> {
    if is_drawn {
        return vec![None; 256];
    }
    let program = file.get(descriptor, b"FontFile");
    if let Some(stream) = program.stream() {
        let program = filters::unpacked(file, stream);
        if let Some(texts) = of_program(&program) {
            return texts;
        }
    }
    let is = |wanted: &[u8]| super::tables::find(name, wanted).is_some();
    if is(b"Symbol") {
        return of_table(SignTable::Symbol);
    }
    if is(b"Dingbats") {
        return of_table(SignTable::Dingbats);
    }
    let kind = file.get(dictionary, b"Subtype");
    let flags = file.get(descriptor, b"Flags").integer().unwrap_or(0);
    let is_true_type = kind.name() == Some(b"TrueType");
    let is_embedded = [&b"FontFile2"[..], b"FontFile3"]
        .iter()
        .any(|name| descriptor.get(name).is_some());
    if is_embedded && flags & SYMBOLIC != 0 && is_math(name) {
        return vec![None; 256];
    }
    of_table(if is_true_type {
        SignTable::Windows
    } else {
        SignTable::Standard
    })
}

/// Fonts whose letters are not those of their codes.
fn is_math(name: &[u8]) -> bool {
    let name = name.rsplit(|byte| *byte == b'+').next().unwrap_or(name);
    [
        &b"CMMI"[..],
        b"CMSY",
        b"CMEX",
        b"MSAM",
        b"MSBM",
        b"Wingdings",
        b"Webdings",
    ]
    .iter()
    .any(|start| name.starts_with(start))
}

/// The table of names in the readable part of a font program: `dup 65 /A put`.
fn of_program(program: &[u8]) -> Option<Vec<Option<String>>> {
    let program = program.get(..program.len().min(MAX_PROGRAM))?;
    let start = super::tables::find(program, b"/Encoding")?;
    let rest = program.get(start..)?;
    let end = super::tables::find(rest, b"readonly def").unwrap_or(rest.len());
    let words = rest.get(..end)?.split(u8::is_ascii_whitespace);
    let words: Vec<&[u8]> = words.filter(|word| !word.is_empty()).take(2000).collect();
    let mut texts: Vec<Option<String>> = vec![None; 256];
    let mut is_any = false;
    for four in words.windows(4) {
        let [b"dup", code, name, b"put"] = four else {
            continue;
        };
        let code = std::str::from_utf8(code)
            .ok()
            .and_then(|code| code.parse::<usize>().ok());
        let name = name.strip_prefix(b"/");
        if let (Some(code), Some(name)) = (code, name)
            && let Some(text) = texts.get_mut(code)
        {
            *text = glyph_names::text_of(name);
            is_any = true;
        }
    }
    is_any.then_some(texts)
}

/// The widths of a list: `first [w w w]` or `first last w`.
fn add_listed(file: &mut PdfFile<'_>, listed: &[Object], widths: &mut BTreeMap<u32, f64>) {
    let mut rest = listed;
    while let [first, second, after @ ..] = rest {
        let first = file
            .resolve(first)
            .size()
            .filter(|first| *first <= MAX_WIDTHS);
        let second = file.resolve(second);
        let (Some(first), true) = (first, file.budget.spend(8) && widths.len() < MAX_WIDTHS) else {
            return;
        };
        let mut add = |sign: usize, width: Option<f64>| {
            if let (Ok(sign), Some(width)) = (u32::try_from(sign), width) {
                widths.insert(sign, width);
            }
        };
        if let Some(items) = second.array() {
            for (sign, width) in (first..).zip(items.iter().take(MAX_WIDTHS)) {
                add(sign, width.number());
            }
            rest = after;
            continue;
        }
        let [width, after @ ..] = after else {
            return;
        };
        let width = file.resolve(width).number();
        let last = second
            .size()
            .unwrap_or(0)
            .min(first.saturating_add(MAX_WIDTHS));
        if !file.budget.spend(last.saturating_sub(first)) {
            return;
        }
        for sign in first..=last {
            add(sign, width);
        }
        rest = after;
    }
}
