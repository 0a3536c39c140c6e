//! From bytes to text: the mark at the beginning, what the server said, what the page says about
//! itself, and last what the bytes look like, in this order.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// How far into a page its own word about its charset is looked for.
const META_BYTES: usize = 4096;

/// How much of a document is looked at to guess its charset.
const GUESS_BYTES: usize = 64 * 1024;

/// The longest name of a charset.
const MAX_LABEL: usize = 40;

/// Decodes a document, and names what it was decoded from. Bytes that fit nowhere become U+FFFD.
pub(crate) fn decode(bytes: &[u8], named: Option<&str>, is_html: bool) -> (String, &'static str) {
    if let Some((encoding, mark)) = Encoding::for_bom(bytes) {
        let text = encoding.decode_without_bom_handling(bytes.get(mark..).unwrap_or_default());
        return (text.0.into_owned(), encoding.name());
    }
    let own = || is_html.then(|| in_meta(bytes)).flatten();
    let encoding = named.and_then(label).or_else(own);
    let encoding = encoding.unwrap_or_else(|| guessed(bytes));
    let text = encoding.decode_without_bom_handling(bytes);
    (text.0.into_owned(), encoding.name())
}

fn label(name: &str) -> Option<&'static Encoding> {
    let name = name.trim().trim_matches(['"', '\'']);
    Encoding::for_label(name.get(..name.len().min(MAX_LABEL))?.as_bytes())
}

/// The charset in `<meta charset=…>` or in a `content-type` of the page.
fn in_meta(bytes: &[u8]) -> Option<&'static Encoding> {
    const CHARSET: &[u8] = b"charset";
    let head = bytes.get(..bytes.len().min(META_BYTES))?;
    let lower = head.to_ascii_lowercase();
    let mut from = 0;
    while let Some(at) = find(lower.get(from..)?, CHARSET) {
        from += at + CHARSET.len();
        let rest = lower.get(from..)?.trim_ascii_start();
        let Some(rest) = rest.strip_prefix(b"=") else {
            continue;
        };
        let rest = rest.trim_ascii_start();
        let rest = rest.strip_prefix(b"\"").unwrap_or(rest);
        let rest = rest.strip_prefix(b"'").unwrap_or(rest);
        let is_of_label = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_:.".contains(byte);
        let end = rest
            .iter()
            .take(MAX_LABEL)
            .take_while(|byte| is_of_label(byte));
        if let Some(encoding) = Encoding::for_label(rest.get(..end.count())?) {
            // A page that could be read this far is not UTF-16, whatever it says.
            let is_wide = encoding.output_encoding() != encoding;
            return Some(if is_wide { UTF_8 } else { encoding });
        }
    }
    None
}

fn find(within: &[u8], what: &[u8]) -> Option<usize> {
    within.windows(what.len()).position(|window| window == what)
}

fn guessed(bytes: &[u8]) -> &'static Encoding {
    if std::str::from_utf8(bytes).is_ok() {
        return UTF_8;
    }
    let start = bytes.get(..bytes.len().min(GUESS_BYTES)).unwrap_or(bytes);
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    let saw_other = detector.feed(start, start.len() == bytes.len());
    // Nothing but ASCII so far, and something later that is no UTF-8.
    if !saw_other {
        return WINDOWS_1252;
    }
    detector.guess(None, Utf8Detection::Allow)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], named: Option<&str>, text: &str, charset: &str) {
        assert_eq!(decode(bytes, named, true), (text.to_owned(), charset));
    }

    #[test]
    fn the_mark_wins_then_the_server_then_the_page_then_the_bytes() {
        check(b"\xef\xbb\xbf<p>\xc3\xa9", Some("latin1"), "<p>é", "UTF-8");
        check(b"\xff\xfea\0b\0", Some("utf-8"), "ab", "UTF-16LE");
        check(
            b"<meta charset=utf-8>\xe9",
            Some("iso-8859-1"),
            "<meta charset=utf-8>é",
            "windows-1252",
        );
        let page = b"<meta http-equiv=content-type content='text/html; charset=Shift_JIS'>\x93\xfa\x96\x7b";
        let text = "<meta http-equiv=content-type content='text/html; charset=Shift_JIS'>日本";
        check(page, None, text, "Shift_JIS");
        check("héllo wörld".as_bytes(), None, "héllo wörld", "UTF-8");
    }

    #[test]
    fn a_charset_that_does_not_exist_is_no_charset() {
        check(b"plain", Some("klingon"), "plain", "UTF-8");
        check(
            b"<meta charset=utf-16>caf\xc3\xa9",
            None,
            "<meta charset=utf-16>café",
            "UTF-8",
        );
        let cyrillic = b"\xcf\xf0\xe8\xe2\xe5\xf2, \xea\xe0\xea \xe4\xe5\xeb\xe0? \xd5\xee\xf0\xee\xf8\xee, \xf1\xef\xe0\xf1\xe8\xe1\xee.";
        let (text, charset) = decode(cyrillic, None, false);
        assert_eq!(
            (text.as_str(), charset),
            ("Привет, как дела? Хорошо, спасибо.", "windows-1251")
        );
    }

    #[test]
    fn any_bytes_are_decoded() {
        for named in [
            None,
            Some("utf-8"),
            Some("utf-16"),
            Some("gb18030"),
            Some("\u{0}"),
        ] {
            let bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
            assert!(!decode(&bytes, named, true).0.is_empty());
        }
    }
}
