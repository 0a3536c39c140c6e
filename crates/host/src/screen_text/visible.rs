//! Spells text a person is asked to approve so that nothing in it hides and no two texts look
//! alike.
//!
//! Whatever cannot be seen as it is appears in angle brackets (`⟨ESC⟩`, `⟨U+202E⟩`,
//! `⟨2000 spaces⟩`), and so does a bracket of the text itself. Nothing is left out: a long run of
//! blanks is counted, not drawn, so that nothing can be pushed off the screen behind it.
//! `sanitise.rs` is for text that nobody approves.

use std::{collections::BTreeSet, fmt::Write as _};

use super::sanitise;

/// Runs of at least this many spaces are counted.
const LONG_SPACES: usize = 9;

/// Runs of at least this many empty lines are counted.
const LONG_EMPTY: usize = 4;

/// How a tab looks: visible, and code stays readable.
const TAB: &str = "⇥   ";

/// A text on one line; its line ends are spelt out.
pub fn line(text: &str) -> String {
    let mut seen = String::with_capacity(text.len() + 16);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let run = |rest: &mut std::iter::Peekable<std::str::Chars<'_>>| {
            let mut length = 1_usize;
            while rest.next_if_eq(&c).is_some() {
                length += 1;
            }
            length
        };
        match c {
            ' ' => match run(&mut rest) {
                length if length >= LONG_SPACES => {
                    // Writing to a `String` cannot fail.
                    let _ = write!(seen, "⟨{length} spaces⟩");
                }
                length => seen.extend(std::iter::repeat_n(' ', length)),
            },
            '\n' => match run(&mut rest) {
                1 => seen.push_str("⟨LF⟩"),
                length => {
                    let _ = write!(seen, "⟨{length} LF⟩");
                }
            },
            '\t' => seen.push_str(TAB),
            c if hides(c) => spell(c, &mut seen),
            c => seen.push(c),
        }
    }
    seen
}

/// A JSON value on several lines. The indentation is ours; all else is spelt out.
pub fn json(value: &serde_json::Value) -> Vec<String> {
    // JSON escapes what a terminal could act on; the rest is spelt out here.
    let pretty = serde_json::to_string_pretty(value).unwrap_or_default();
    let pretty = sanitise::json(&pretty);
    pretty
        .lines()
        .map(|one| {
            // No text of the value starts a line: its line ends are escaped.
            let text = one.trim_start_matches(' ');
            let indent = one.get(..one.len() - text.len()).unwrap_or_default();
            format!("{indent}{}", line(text))
        })
        .collect()
}

/// A multi-line text, line by line; many empty lines in a row are counted.
pub fn lines(text: &str) -> Vec<String> {
    let mut seen = Vec::new();
    let mut empty = 0_usize;
    let flush = |empty: &mut usize, seen: &mut Vec<String>| {
        if *empty >= LONG_EMPTY {
            seen.push(format!("⟨{empty} empty lines⟩"));
        } else {
            seen.extend(std::iter::repeat_n(String::new(), *empty));
        }
        *empty = 0;
    };
    for one in text.split('\n') {
        // A line of blanks looks empty, but is not the same text.
        if one.is_empty() {
            empty += 1;
            continue;
        }
        flush(&mut empty, &mut seen);
        seen.push(line(one));
    }
    flush(&mut empty, &mut seen);
    seen
}

/// The non-ASCII letters of a text that are drawn as they are: some look like others.
pub fn letters(text: &str) -> BTreeSet<char> {
    let foreign = |c: &char| !c.is_ascii() && !hides(*c);
    text.chars().filter(foreign).collect()
}

/// Whether a character is invisible, or looks like something else.
fn hides(c: char) -> bool {
    matches!(c, '⟨' | '⟩' | '⇥')
        || sanitise::is_deceptive(c)
        // Blanks other than the space look like it, or like nothing.
        || (c.is_whitespace() && c != ' ')
        // Marks drawn over the letter before them.
        || matches!(
            c,
            '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{1ab0}'..='\u{1aff}'
            | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}' | '\u{fe20}'..='\u{fe2f}'
        )
        // Private letters look like whatever the font makes of them.
        || matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}')
}

fn spell(c: char, seen: &mut String) {
    let name = match c {
        '\0' => "NUL",
        '\u{7}' => "BEL",
        '\u{8}' => "BS",
        '\r' => "CR",
        '\u{1b}' => "ESC",
        '\u{7f}' => "DEL",
        c => {
            let _ = write!(seen, "⟨U+{:04X}⟩", u32::from(c));
            return;
        }
    };
    let _ = write!(seen, "⟨{name}⟩");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ap_08_indentation_of_json_is_ours_and_everything_in_it_is_spelt() {
        let blanks = " ".repeat(10);
        let value = serde_json::json!({"a": {"b": {"c": {"d": {"e": {"f": blanks}}}}}});
        let seen = json(&value);
        assert_eq!(seen[6], format!("{}\"f\": \"⟨10 spaces⟩\"", " ".repeat(12)));
        let hostile = json(&serde_json::json!({"\u{1b}[2J": "\n\u{202e}"}));
        assert!(hostile.concat().is_ascii(), "{hostile:?}");
    }

    #[test]
    fn ap_08_what_hides_is_spelt() {
        for (text, seen) in [
            ("ls", "ls"),
            ("a\0b", "a⟨NUL⟩b"),
            ("\u{1b}[2Jx", "⟨ESC⟩[2Jx"),
            ("a\rb\u{8}", "a⟨CR⟩b⟨BS⟩"),
            ("\u{202e}txt\u{2066}", "⟨U+202E⟩txt⟨U+2066⟩"),
            ("a\u{200b}b\u{a0}c\u{3000}", "a⟨U+200B⟩b⟨U+00A0⟩c⟨U+3000⟩"),
            ("e\u{301}", "e⟨U+0301⟩"),
            ("a\nb\n\nc", "a⟨LF⟩b⟨2 LF⟩c"),
            ("\tx", "⇥   x"),
            ("grüße", "grüße"),
        ] {
            assert_eq!(line(text), seen);
        }
        let hidden = format!("ls{};rm -rf ~", " ".repeat(2_000));
        assert_eq!(line(&hidden), "ls⟨2000 spaces⟩;rm -rf ~");
        let hidden = format!("ls{}rm -rf ~", "\n".repeat(2_000));
        assert_eq!(lines(&hidden), ["ls", "⟨1999 empty lines⟩", "rm -rf ~"]);
        assert_eq!(lines("a\n\nb\n"), ["a", "", "b", ""]);
    }

    #[test]
    fn ap_08_nothing_but_harmless_characters_is_left() {
        let hostile: String = (0..=0x2_ffff_u32).filter_map(char::from_u32).collect();
        for seen in lines(&hostile).into_iter().chain([line(&hostile)]) {
            assert!(!seen.chars().any(sanitise::is_deceptive));
            assert!(!seen.chars().any(|c| c.is_whitespace() && c != ' '));
        }
    }

    proptest::proptest! {
        /// Two different texts never look alike.
        #[test]
        fn ap_09_texts_that_differ_are_seen_to(
            a in "[a⟨⟩⇥\\\\ \n\t\r0-9\u{1b}LFUspace+]{0,40}",
            b in "[a⟨⟩⇥\\\\ \n\t\r0-9\u{1b}LFUspace+]{0,40}",
        ) {
            proptest::prop_assert_eq!(a == b, line(&a) == line(&b));
            proptest::prop_assert_eq!(a == b, lines(&a) == lines(&b));
        }
    }

    #[test]
    fn letters_that_could_be_taken_for_others_are_named() {
        assert_eq!(letters("cat").len(), 0);
        assert_eq!(
            letters("c\u{430}t \u{202e}")
                .into_iter()
                .collect::<String>(),
            "\u{430}"
        );
    }
}
