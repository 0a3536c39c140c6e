//! Makes text harmless for a terminal: control characters, C1, direction overrides and characters
//! without width are shown as escapes, so that the text reads as what it is.
//!
//! This is for people. `--json` gives programs the exact text.

use std::fmt::Write as _;

// One list of deceptive characters, for text on a terminal and in a client's form.
pub use haft_contract::displayed::is_deceptive;

/// Multi-line text: line ends and tabs stay, everything else that is not what it looks like is
/// escaped.
pub fn block(text: &str) -> String {
    escape(text, |c| c == '\n' || c == '\t')
}

/// Text that must stay on its line.
pub fn inline(text: &str) -> String {
    escape(text, |_| false)
}

/// Replaces what a terminal could act on in JSON text with JSON escapes. The value stays the same;
/// only its spelling changes.
pub fn json(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\n' || !is_deceptive(c) {
            safe.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(safe, "\\u{unit:04x}");
            }
        }
    }
    safe
}

fn escape(text: &str, keep: fn(char) -> bool) -> String {
    if !text.chars().any(is_deceptive) {
        return text.to_owned();
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if keep(c) || !is_deceptive(c) => safe.push(c),
            '\n' => safe.push_str("\\n"),
            '\r' => safe.push_str("\\r"),
            '\t' => safe.push_str("\\t"),
            // Writing to a `String` cannot fail.
            c if u32::from(c) <= 0xff => {
                let _ = write!(safe, "\\x{:02x}", u32::from(c));
            }
            c => {
                let _ = write!(safe, "\\u{{{:x}}}", u32::from(c));
            }
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn au_09_all_256_values_are_seen_or_escaped() {
        let mut golden = String::new();
        for value in 0..=255_u8 {
            let c = char::from(value);
            let _ = writeln!(golden, "{value:02x} {}", inline(&c.to_string()));
        }
        insta::assert_snapshot!("au_09_golden", golden);
    }

    #[test]
    fn au_09_what_is_left_does_nothing_to_a_terminal() {
        let hostile: String = (0..=0x2_ffff_u32).filter_map(char::from_u32).collect();
        for safe in [inline(&hostile), block(&hostile), json(&hostile)] {
            assert!(
                !safe
                    .chars()
                    .any(|c| c.is_control() && c != '\n' && c != '\t')
            );
            assert!(!safe.contains(['\u{202e}', '\u{200b}', '\u{2066}', '\u{feff}']));
        }
    }

    #[test]
    fn au_09_characters_that_are_not_drawn_are_escaped() {
        for c in [
            '\u{2800}',
            '\u{fe00}',
            '\u{fe0f}',
            '\u{e0100}',
            '\u{e01ef}',
            '\u{180b}',
            '\u{17b4}',
            '\u{1d173}',
        ] {
            let expected = format!("a\\u{{{:x}}}b", u32::from(c));
            assert_eq!(inline(&format!("a{c}b")), expected);
            assert_eq!(block(&format!("a{c}b")), expected);
        }
    }

    #[test]
    fn lines_stay_lines_and_json_keeps_its_value() {
        assert_eq!(block("a\n\tb\u{1b}[31m"), "a\n\tb\\x1b[31m");
        assert_eq!(inline("a\nb"), "a\\nb");
        assert_eq!(
            inline("gr\u{fc}\u{df}e \u{1f980} \u{4f60}\u{597d}"),
            "grüße 🦀 你好"
        );
        let value = serde_json::json!({"a": "\u{9b}31m\u{202e}\u{e0041}\u{7f}\n"});
        let text = json(&value.to_string());
        assert!(text.is_ascii());
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).unwrap(),
            value
        );
    }
}
