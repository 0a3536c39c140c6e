//! What the codes of a font's text stand for where the font only names a known table.

use encoding_rs::{
    BIG5, EUC_JP, EUC_KR, Encoding, GBK, MACINTOSH, SHIFT_JIS, UTF_16BE, WINDOWS_1252,
};

/// A table of 256 signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignTable {
    Standard,
    Windows,
    Macintosh,
    Symbol,
    Dingbats,
}

/// The signs of the standard table from 0xA1 on; `_` is none.
const STANDARD: &str =
    "¡¢£⁄¥ƒ§¤'“«‹›ﬁﬂ_–†‡·_¶•‚„”»…‰_¿_`´ˆ˜¯˘˙¨_˚¸_˝˛ˇ—________________Æ_ª____ŁØŒº_____æ___ı__łøœß";

/// The signs of the table of Greek letters and of mathematics, from 0x20 on.
const SYMBOLS: &str = " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼";

/// The same from 0xA1 on.
const MORE_SYMBOLS: &str = "ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊⟨®©™∑";

impl SignTable {
    /// A table by the name that files give it.
    pub(super) fn named(name: &[u8]) -> Option<Self> {
        match name {
            b"StandardEncoding" => Some(Self::Standard),
            b"WinAnsiEncoding" => Some(Self::Windows),
            b"MacRomanEncoding" => Some(Self::Macintosh),
            _ => None,
        }
    }

    /// The sign of a code.
    pub(super) fn sign(self, code: u8) -> Option<char> {
        match self {
            Self::Standard => match code {
                b'\'' => Some('’'),
                b'`' => Some('‘'),
                b' '..=b'~' => Some(char::from(code)),
                0xa1.. => nth(STANDARD, code - 0xa1).filter(|sign| *sign != '_'),
                _ => None,
            },
            Self::Windows => match code {
                // Where the table has nothing, text shows a bullet.
                0x7f | 0x81 | 0x8d | 0x8f | 0x90 | 0x9d => Some('•'),
                0xad => Some('-'),
                _ => decoded(WINDOWS_1252, code),
            },
            Self::Macintosh => decoded(MACINTOSH, code),
            Self::Symbol => match code {
                b' '..=b'~' => nth(SYMBOLS, code - b' '),
                0xa0 => Some('€'),
                0xa1.. => nth(MORE_SYMBOLS, code - 0xa1),
                _ => None,
            },
            Self::Dingbats => match code {
                b' ' => Some(' '),
                0x25 => Some('☎'),
                0x2a => Some('☛'),
                0x2b => Some('☞'),
                0x48 => Some('★'),
                0x6c => Some('●'),
                0x6e => Some('■'),
                0x73 => Some('▲'),
                0x74 => Some('▼'),
                0x75 => Some('◆'),
                0x77 => Some('◗'),
                0x21..=0x7e => char::from_u32(0x2701 + u32::from(code - 0x21)),
                _ => None,
            },
        }
    }
}

fn nth(signs: &str, index: u8) -> Option<char> {
    signs.chars().nth(usize::from(index))
}

fn decoded(encoding: &'static Encoding, code: u8) -> Option<char> {
    let sign = [code];
    let (text, has_problem) = encoding.decode_without_bom_handling(&sign);
    let sign = text.chars().next().filter(|_| !has_problem)?;
    (!sign.is_control()).then_some(sign)
}

/// The charset of a table for Chinese, Japanese or Korean that files name without having it, and whether
/// it is for lines from top to bottom.
pub(super) fn charset(name: &[u8]) -> Option<(&'static Encoding, bool)> {
    let name = std::str::from_utf8(name).ok()?;
    let (stem, direction) = name.rsplit_once('-').unwrap_or((name, "H"));
    let is_vertical = direction == "V";
    let is = |words: &[&str]| words.iter().any(|word| stem.contains(word));
    let encoding = if is(&["UCS2", "UTF16"]) {
        UTF_16BE
    } else if is(&["RKSJ"]) {
        SHIFT_JIS
    } else if is(&["GBK", "GB-EUC", "GBpc"]) {
        GBK
    } else if is(&["B5", "ETen"]) {
        BIG5
    } else if is(&["KSC"]) {
        EUC_KR
    } else if matches!(name, "EUC-H" | "EUC-V") {
        EUC_JP
    } else {
        return None;
    };
    Some((encoding, is_vertical))
}

/// How many bytes the next code has in a charset.
pub(super) fn code_length(encoding: &'static Encoding, first: u8) -> usize {
    if encoding == UTF_16BE {
        return 2;
    }
    let is_single = if encoding == SHIFT_JIS {
        first < 0x81 || (0xa0..0xe0).contains(&first)
    } else {
        first < 0x81
    };
    if is_single { 1 } else { 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_stand_where_the_tables_have_them() {
        for (table, code, sign) in [
            (SignTable::Standard, 0x27, Some('’')),
            (SignTable::Standard, 0xae, Some('\u{fb01}')),
            (SignTable::Standard, 0xb0, None),
            (SignTable::Standard, 0xd0, Some('—')),
            (SignTable::Standard, 0xe1, Some('Æ')),
            (SignTable::Standard, 0xf1, Some('æ')),
            (SignTable::Standard, 0xfb, Some('ß')),
            (SignTable::Windows, 0x93, Some('“')),
            (SignTable::Windows, 0xe9, Some('é')),
            (SignTable::Macintosh, 0x8e, Some('é')),
            (SignTable::Symbol, b'a', Some('α')),
            (SignTable::Symbol, 0xb7, Some('•')),
            (SignTable::Symbol, 0xe5, Some('∑')),
            (SignTable::Dingbats, 0x34, Some('✔')),
        ] {
            assert_eq!(table.sign(code), sign, "{table:?} {code:#x}");
        }
        assert_eq!(charset(b"UniJIS-UTF16-V").unwrap(), (UTF_16BE, true));
        assert_eq!(charset(b"90ms-RKSJ-H").unwrap().0, SHIFT_JIS);
        assert_eq!(charset(b"Identity-H"), None);
    }
}
