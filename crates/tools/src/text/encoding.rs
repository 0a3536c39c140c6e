//! Decodes bytes as text and writes changes back.
//!
//! INVARIANT: [`DecodedText::splice`] changes only the bytes of the ranges it is given. Encodings
//! that cannot promise that for a file (stateful ones, or bytes that do not survive a round trip)
//! are refused, never approximated. Byte-order mark, line endings and the final newline survive
//! because they are never part of a range that nobody named.

use std::{borrow::Cow, ops::Range, sync::Arc};

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

const UTF_8_MARK: &[u8] = b"\xef\xbb\xbf";
const UTF_16_MARK_BYTES: usize = 2;

/// How many bytes decide whether a file is text.
pub(crate) const SNIFF_BYTES: usize = 8 * 1024;

/// Text that remembers how its bytes encoded it.
pub(crate) struct DecodedText<'b> {
    bytes: &'b [u8],
    text: Cow<'b, str>,
    spelling: Spelling,
}

/// A change to a text: a range of it and the text that replaces it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Replacement {
    /// Byte range of the decoded text.
    pub(crate) range: Range<usize>,
    /// The new text; shared, because the same text may go into a million places.
    pub(crate) text: Arc<str>,
}

/// A change cannot be represented in the file's encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotSpellable {
    /// The file's encoding.
    pub(crate) encoding: &'static str,
}

#[derive(Debug)]
enum Spelling {
    /// UTF-8 behind a mark of this many bytes.
    Utf8 { mark: usize },
    /// UTF-8 with stray bytes, each run shown as U+FFFD.
    LossyUtf8 { strays: Vec<StrayBytes> },
    /// Another encoding behind a mark of this many bytes.
    Other {
        encoding: &'static Encoding,
        mark: usize,
    },
}

/// The position of a run of invalid UTF-8, in the text and in the bytes.
#[derive(Debug)]
struct StrayBytes {
    text_end: usize,
    byte_end: usize,
    text_start: usize,
    byte_start: usize,
}

/// Whether these first bytes of a file are not text: a NUL without a UTF-16 mark.
pub(crate) fn is_binary(start: &[u8]) -> bool {
    utf16(start).is_none() && memchr::memchr(0, start.get(..SNIFF_BYTES).unwrap_or(start)).is_some()
}

/// The UTF-16 encoding that a byte-order mark at the start announces.
pub(crate) fn utf16(start: &[u8]) -> Option<&'static Encoding> {
    match Encoding::for_bom(start) {
        Some((encoding, _)) if encoding == UTF_16LE || encoding == UTF_16BE => Some(encoding),
        _ => None,
    }
}

impl<'b> DecodedText<'b> {
    /// Decodes bytes: by byte-order mark, else as UTF-8, else by the most likely encoding.
    pub(crate) fn decode(bytes: &'b [u8]) -> Self {
        if let Some(encoding) = utf16(bytes) {
            let body = bytes.get(UTF_16_MARK_BYTES..).unwrap_or_default();
            return Self {
                bytes,
                text: encoding.decode_without_bom_handling(body).0,
                spelling: Spelling::Other {
                    encoding,
                    mark: UTF_16_MARK_BYTES,
                },
            };
        }
        let (mark, body) = match bytes.strip_prefix(UTF_8_MARK) {
            Some(body) => (UTF_8_MARK.len(), body),
            None => (0, bytes),
        };
        if let Ok(text) = std::str::from_utf8(body) {
            return Self {
                bytes,
                text: Cow::Borrowed(text),
                spelling: Spelling::Utf8 { mark },
            };
        }
        let lossy = decode_lossy(body, mark);
        if mark > 0 || lossy.mostly_utf8 {
            return Self {
                bytes,
                text: Cow::Owned(lossy.text),
                spelling: Spelling::LossyUtf8 {
                    strays: lossy.strays,
                },
            };
        }
        let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
        detector.feed(bytes, true);
        let encoding = detector.guess(None, Utf8Detection::Deny);
        Self {
            bytes,
            text: encoding.decode_without_bom_handling(bytes).0,
            spelling: Spelling::Other { encoding, mark: 0 },
        }
    }

    /// The text, without a byte-order mark.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The bytes it was decoded from.
    pub(crate) fn bytes(&self) -> &'b [u8] {
        self.bytes
    }

    /// The encoding, unless it is plain UTF-8.
    pub(crate) fn unusual_encoding(&self) -> Option<&'static str> {
        match &self.spelling {
            Spelling::Utf8 { .. } => None,
            Spelling::LossyUtf8 { .. } | Spelling::Other { .. } => Some(self.spelled()),
        }
    }

    /// How the text is encoded, for people.
    pub(crate) fn spelled(&self) -> &'static str {
        match &self.spelling {
            Spelling::Utf8 { mark: 0 } => "UTF-8",
            Spelling::Utf8 { .. } => "UTF-8 with a byte-order mark",
            Spelling::LossyUtf8 { .. } => "UTF-8 with invalid bytes",
            Spelling::Other { encoding, .. } => encoding.name(),
        }
    }

    /// The text itself, borrowed if the bytes are UTF-8.
    pub(crate) fn into_text(self) -> Cow<'b, str> {
        self.text
    }

    /// The file's bytes with the replacements made. Replacements must be sorted and must not
    /// overlap.
    pub(crate) fn splice(&self, replacements: &[Replacement]) -> Result<Vec<u8>, NotSpellable> {
        match &self.spelling {
            Spelling::Utf8 { mark } => Ok(self.splice_bytes(replacements, |at| at + mark)),
            Spelling::LossyUtf8 { strays } => {
                Ok(self.splice_bytes(replacements, |at| byte_position(strays, self.bytes, at)))
            }
            Spelling::Other { encoding, mark } => {
                self.splice_encoded(replacements, encoding, *mark)
            }
        }
    }

    fn splice_bytes(
        &self,
        replacements: &[Replacement],
        byte_at: impl Fn(usize) -> usize,
    ) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes.len());
        let mut kept_from = 0;
        for replacement in replacements {
            let start = byte_at(replacement.range.start);
            out.extend_from_slice(self.bytes.get(kept_from..start).unwrap_or_default());
            out.extend_from_slice(replacement.text.as_bytes());
            kept_from = byte_at(replacement.range.end);
        }
        out.extend_from_slice(self.bytes.get(kept_from..).unwrap_or_default());
        out
    }

    /// Encodes piece by piece and checks that the original's pieces, encoded the same way, give
    /// back the original bytes. Only then do untouched pieces keep their bytes.
    fn splice_encoded(
        &self,
        replacements: &[Replacement],
        encoding: &'static Encoding,
        mark: usize,
    ) -> Result<Vec<u8>, NotSpellable> {
        let refused = NotSpellable {
            encoding: encoding.name(),
        };
        let start_mark = self.bytes.get(..mark).unwrap_or_default();
        let mut original = start_mark.to_vec();
        let mut out = start_mark.to_vec();
        let mut kept_from = 0;
        for replacement in replacements {
            let kept = self.text.get(kept_from..replacement.range.start);
            let kept = encode(kept.ok_or(refused)?, encoding).ok_or(refused)?;
            let removed = self.text.get(replacement.range.clone()).ok_or(refused)?;
            original.extend_from_slice(&kept);
            original.extend_from_slice(&encode(removed, encoding).ok_or(refused)?);
            out.extend_from_slice(&kept);
            out.extend_from_slice(&encode(&replacement.text, encoding).ok_or(refused)?);
            kept_from = replacement.range.end;
        }
        let rest = self.text.get(kept_from..).ok_or(refused)?;
        let rest = encode(rest, encoding).ok_or(refused)?;
        original.extend_from_slice(&rest);
        out.extend_from_slice(&rest);
        if original == self.bytes {
            Ok(out)
        } else {
            Err(refused)
        }
    }
}

/// The line ending a text uses: that of its first line.
pub(crate) fn line_end(text: &str) -> &'static str {
    match text.split_once('\n') {
        Some((first, _)) if first.ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

/// `text` with every bare newline written as `line_end`.
pub(crate) fn with_line_end<'t>(text: &'t str, line_end: &str) -> Cow<'t, str> {
    if line_end == "\n" || !text.contains('\n') {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace("\r\n", "\n").replace('\n', line_end))
}

fn encode(text: &str, encoding: &'static Encoding) -> Option<Vec<u8>> {
    if encoding == UTF_16LE {
        return Some(text.encode_utf16().flat_map(u16::to_le_bytes).collect());
    }
    if encoding == UTF_16BE {
        return Some(text.encode_utf16().flat_map(u16::to_be_bytes).collect());
    }
    let (bytes, used, unmappable) = encoding.encode(text);
    (!unmappable && (used == encoding || used == UTF_8)).then(|| bytes.into_owned())
}

struct LossyText {
    text: String,
    strays: Vec<StrayBytes>,
    mostly_utf8: bool,
}

fn decode_lossy(body: &[u8], mark: usize) -> LossyText {
    let mut text = String::with_capacity(body.len());
    let mut strays = Vec::new();
    let mut byte = mark;
    let mut multibyte = 0_usize;
    for chunk in body.utf8_chunks() {
        multibyte += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        text.push_str(chunk.valid());
        byte += chunk.valid().len();
        if !chunk.invalid().is_empty() {
            let text_start = text.len();
            text.push(char::REPLACEMENT_CHARACTER);
            strays.push(StrayBytes {
                text_start,
                byte_start: byte,
                text_end: text.len(),
                byte_end: byte + chunk.invalid().len(),
            });
            byte += chunk.invalid().len();
        }
    }
    LossyText {
        mostly_utf8: multibyte >= strays.len(),
        text,
        strays,
    }
}

/// The byte a text position came from, counted from the last stray run before it.
fn byte_position(strays: &[StrayBytes], bytes: &[u8], at: usize) -> usize {
    let before = strays.partition_point(|stray| stray.text_end <= at);
    match before.checked_sub(1).and_then(|index| strays.get(index)) {
        Some(stray) => stray.byte_end + (at - stray.text_end),
        None => match strays.first() {
            // Before the first stray run, text and bytes differ only by the byte-order mark.
            Some(first) => (first.byte_start + at).saturating_sub(first.text_start),
            None => at.min(bytes.len()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], from: &str, to: &str, expect: &[u8]) {
        let decoded = DecodedText::decode(bytes);
        let start = decoded.text().find(from).expect("the text is there");
        let replacement = Replacement {
            range: start..start + from.len(),
            text: to.into(),
        };
        let spliced = decoded.splice(&[replacement]).expect("can be spelled");
        assert_eq!(spliced, expect);
    }

    #[test]
    fn a_byte_order_mark_and_line_ends_stay() {
        check(
            b"\xef\xbb\xbfone\r\ntwo",
            "one",
            "1",
            b"\xef\xbb\xbf1\r\ntwo",
        );
    }

    #[test]
    fn utf_16_stays_utf_16() {
        check(
            b"\xff\xfea\0b\0\n\0",
            "b",
            "\u{e9}",
            b"\xff\xfea\0\xe9\0\n\0",
        );
        check(b"\xfe\xff\0a\0b", "a", "c", b"\xfe\xff\0c\0b");
    }

    #[test]
    fn a_legacy_encoding_is_kept() {
        let bytes = "Die Größe der Tür ist schön und natürlich überall gleich.".to_owned();
        let (latin, _, _) = encoding_rs::WINDOWS_1252.encode(&bytes);
        let decoded = DecodedText::decode(&latin);
        assert!(decoded.unusual_encoding().is_some());
        let expect = bytes.replace("Tür", "Türen");
        let (expect, _, _) = encoding_rs::WINDOWS_1252.encode(&expect);
        check(&latin, "Tür", "Türen", &expect);
    }

    /// Mistake 11 of requirements.md: strict UTF-8.
    #[test]
    fn mistake_11_a_stray_byte_neither_stops_nor_changes() {
        check(
            "é\n"
                .bytes()
                .chain(*b"\xff a b\n")
                .collect::<Vec<_>>()
                .as_slice(),
            "b",
            "c",
            "é\n"
                .bytes()
                .chain(*b"\xff a c\n")
                .collect::<Vec<_>>()
                .as_slice(),
        );
        check(b"\xef\xbb\xbfx\xffy", "x", "z", b"\xef\xbb\xbfz\xffy");
    }

    #[test]
    fn what_the_encoding_cannot_hold_is_refused() {
        let (latin, _, _) = encoding_rs::WINDOWS_1252.encode("schöne Grüße aus der Küche");
        let decoded = DecodedText::decode(&latin);
        let replacement = Replacement {
            range: 0..1,
            text: "漢".into(),
        };
        assert!(decoded.splice(&[replacement]).is_err());
    }

    #[test]
    fn binary_is_told_by_a_nul() {
        assert!(is_binary(b"\x7fELF\0\0"));
        assert!(!is_binary(b"\xff\xfea\0"));
        assert!(!is_binary(b"plain"));
    }
}
