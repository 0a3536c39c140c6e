//! Tables of characters within a file: which codes a font's text has, and what each stands for.

use super::{
    lexer::{Item, Lexer},
    object::Object,
    work::WorkBudget,
};

/// The most lines of a table.
const MAX_LINES: usize = 70_000;

/// The most UTF-16 units that one sign may stand for. A ligature has four; a sentence behind one sign
/// would be read by nobody but a model.
const MAX_UNITS: usize = 8;

/// The most objects between two words of a table.
const MAX_OPERANDS: usize = 3 * MAX_LINES;

/// How many ranges before the nearest are looked at, since some contain others.
const OVERLAPS: usize = 8;

/// A table.
#[derive(Debug, Default)]
pub(super) struct CharacterMap {
    /// How many bytes codes have that begin between two values: length, first, last.
    spaces: Vec<(usize, u32, u32)>,
    /// Ordered by their first code.
    ranges: Vec<CodeRange>,
    pub(super) is_vertical: bool,
}

/// Codes that follow each other, and what the first of them stands for.
#[derive(Debug)]
struct CodeRange {
    first: u32,
    last: u32,
    target: CodeTarget,
}

#[derive(Debug)]
enum CodeTarget {
    Units(Vec<u16>),
    /// The number of a sign in the font.
    Sign(u32),
}

impl CharacterMap {
    pub(super) fn parse(bytes: &[u8], budget: &WorkBudget) -> Self {
        let (mut map, mut operands) = (Self::default(), Vec::new());
        let mut lexer = Lexer::of_content(bytes, budget);
        loop {
            match lexer.item() {
                Item::End => break,
                Item::Object(object) if operands.len() < MAX_OPERANDS => operands.push(object),
                Item::Object(_) => {}
                Item::Keyword(word) => {
                    map.operator(word, &operands);
                    operands.clear();
                }
            }
        }
        map.ranges.sort_by_key(|range| range.first);
        map
    }

    fn operator(&mut self, word: &[u8], operands: &[Object]) {
        match word {
            b"endcodespacerange" => {
                for pair in operands.chunks_exact(2) {
                    if let [Object::Text(first), Object::Text(last)] = pair
                        && self.spaces.len() < 100
                    {
                        let space = (first.len(), code(first), code(last));
                        self.spaces.push(space);
                    }
                }
            }
            b"endbfchar" => {
                for pair in operands.chunks_exact(2) {
                    if let [Object::Text(from), Object::Text(to)] = pair {
                        self.add(code(from), code(from), CodeTarget::Units(units(to)));
                    }
                }
            }
            b"endbfrange" => {
                for triple in operands.chunks_exact(3) {
                    self.unicode_range(triple);
                }
            }
            b"endcidchar" => {
                for pair in operands.chunks_exact(2) {
                    if let [Object::Text(from), Object::Integer(sign)] = pair {
                        let sign = u32::try_from(*sign).unwrap_or(0);
                        self.add(code(from), code(from), CodeTarget::Sign(sign));
                    }
                }
            }
            b"endcidrange" => {
                for triple in operands.chunks_exact(3) {
                    if let [
                        Object::Text(first),
                        Object::Text(last),
                        Object::Integer(sign),
                    ] = triple
                    {
                        let sign = u32::try_from(*sign).unwrap_or(0);
                        self.add(code(first), code(last), CodeTarget::Sign(sign));
                    }
                }
            }
            b"def" => {
                if let [Object::Name(name), Object::Integer(value)] = operands
                    && name == b"WMode"
                {
                    self.is_vertical = *value == 1;
                }
            }
            _ => {}
        }
    }

    fn unicode_range(&mut self, triple: &[Object]) {
        match triple {
            [Object::Text(first), Object::Text(last), Object::Text(to)] => {
                self.add(code(first), code(last), CodeTarget::Units(units(to)));
            }
            [Object::Text(first), Object::Text(_), Object::Array(targets)] => {
                let mut code = code(first);
                for target in targets.iter() {
                    if let Object::Text(to) = target {
                        self.add(code, code, CodeTarget::Units(units(to)));
                    }
                    code = code.saturating_add(1);
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, first: u32, last: u32, target: CodeTarget) {
        let is_nothing = matches!(&target, CodeTarget::Units(units) if units.is_empty());
        if self.ranges.len() < MAX_LINES && first <= last && !is_nothing {
            self.ranges.push(CodeRange {
                first,
                last,
                target,
            });
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many bytes the next code has.
    pub(super) fn code_length(&self, bytes: &[u8]) -> Option<usize> {
        (1..=4).find(|length| {
            let code = bytes.get(..*length).map(code);
            let fits = |space: &&(usize, u32, u32)| {
                space.0 == *length && code.is_some_and(|code| space.1 <= code && code <= space.2)
            };
            self.spaces.iter().any(|space| fits(&space))
        })
    }

    fn range(&self, code: u32) -> Option<&CodeRange> {
        let after = self.ranges.partition_point(|range| range.first <= code);
        let before = self.ranges.get(after.saturating_sub(OVERLAPS)..after)?;
        before.iter().rev().find(|range| code <= range.last)
    }

    /// Appends what a code stands for, and says whether that is known.
    pub(super) fn push_text(&self, code: u32, to: &mut String) -> bool {
        let Some((range, CodeTarget::Units(units))) =
            self.range(code).map(|range| (range, &range.target))
        else {
            return false;
        };
        let ahead = u16::try_from(code - range.first).unwrap_or(u16::MAX);
        let last = units.len().saturating_sub(1);
        let units = units.iter().enumerate();
        let units = units.map(|(index, unit)| {
            if index == last {
                unit.wrapping_add(ahead)
            } else {
                *unit
            }
        });
        let before = to.len();
        to.extend(char::decode_utf16(units).filter_map(Result::ok));
        to.len() > before
    }

    /// The number of the sign that a code shows.
    pub(super) fn sign(&self, code: u32) -> Option<u32> {
        let range = self.range(code)?;
        if let CodeTarget::Sign(first) = range.target {
            return Some(first.saturating_add(code - range.first));
        }
        None
    }
}

/// A code as a number.
pub(super) fn code(bytes: &[u8]) -> u32 {
    let bytes = bytes.iter().take(4);
    bytes.fold(0, |code, byte| code << 8 | u32::from(*byte))
}

fn units(bytes: &[u8]) -> Vec<u16> {
    // Some write one byte where it is below 256.
    if let [byte] = bytes {
        return vec![u16::from(*byte)];
    }
    let pairs = bytes.chunks_exact(2).take(MAX_UNITS);
    pairs
        .map(|pair| match pair {
            [high, low] => u16::from_be_bytes([*high, *low]),
            _ => 0,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_from_characters_ranges_and_lists() {
        let table = b"/CIDInit /ProcSet findresource begin 1 begincodespacerange <0000> <FFFF>
            endcodespacerange 2 beginbfchar <0003> <0020> <0041> <00660069> endbfchar
            2 beginbfrange <0010> <0012> <65E5> <0020> <0021> [<D83DDE00> <0042>] endbfrange";
        let map = CharacterMap::parse(table, &WorkBudget::default());
        let text = |code: u32| {
            let mut text = String::new();
            map.push_text(code, &mut text).then_some(text)
        };
        assert_eq!(text(3).as_deref(), Some(" "));
        assert_eq!(text(0x41).as_deref(), Some("fi"));
        assert_eq!(text(0x12).as_deref(), Some("\u{65e7}"));
        assert_eq!(text(0x20).as_deref(), Some("\u{1f600}"));
        assert_eq!(text(0x21).as_deref(), Some("B"));
        assert_eq!(text(0x22), None);
        assert_eq!(map.code_length(b"\0\x03"), Some(2));
        let long = format!("1 beginbfchar <01> <{}> endbfchar", "0041".repeat(300));
        let map = CharacterMap::parse(long.as_bytes(), &WorkBudget::default());
        let mut text = String::new();
        assert!(map.push_text(1, &mut text) && text == "AAAAAAAA");
    }
}
