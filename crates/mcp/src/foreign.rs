//! Makes text from a mounted server safe to put into a sentence of ours: on one line, with nothing
//! that acts on a terminal or hides, and cut to a useful length.

pub use haft_contract::displayed::is_deceptive;

/// The longest foreign text in a message, in characters.
pub const SHOWN_CHARS: usize = 400;

/// A foreign text on one line, escaped and cut at [`SHOWN_CHARS`].
pub fn shown(text: &str) -> String {
    shown_within(text, SHOWN_CHARS)
}

/// The end of a foreign text, for the last lines of output: escaped, cut at the front.
pub fn last_of(text: &str) -> String {
    let text = text.trim();
    let left_out = text.chars().count().saturating_sub(SHOWN_CHARS);
    let tail: String = text.chars().skip(left_out).collect();
    let mark = if left_out > 0 { "…" } else { "" };
    format!("{mark}{}", shown_within(&tail, SHOWN_CHARS))
}

/// A foreign text on one line, escaped and cut.
pub fn shown_within(text: &str, most: usize) -> String {
    let mut shown = String::with_capacity(text.len().min(most));
    let mut letters = text.chars();
    for c in letters.by_ref().take(most) {
        match c {
            // `escape_debug` also escapes quotes, which hide nothing.
            '"' | '\'' => shown.push(c),
            c => shown.extend(c.escape_debug()),
        }
    }
    if letters.next().is_some() {
        shown.push('…');
    }
    shown
}

/// A whole foreign text, line by line. Characters that act or hide are escaped; everything that is
/// read as shown is kept.
pub fn spelt(text: &str) -> String {
    let mut spelt = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' | ' '..='~' => spelt.push(c),
            c if is_deceptive(c) => spelt.extend(c.escape_unicode()),
            // Escaped after a letter, so that a combining mark is not mistaken for one that hides.
            c => spelt.extend(String::from_iter(['a', c]).escape_debug().skip(1)),
        }
    }
    spelt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mc_08_nothing_in_foreign_text_acts_or_hides() {
        let hostile = "a\u{1b}]52;c;eA==\u{7}\u{202e}b\u{200b}c\u{e0041}\r\n\"d'";
        let shown = shown(hostile);
        assert!(shown.is_ascii(), "{shown}");
        assert!(!shown.contains(char::is_control), "{shown}");
        assert!(shown.contains("\"d'"));
    }

    #[test]
    fn mc_08_whole_text_keeps_its_lines_and_letters_and_hides_nothing() {
        let fine = "a\n\t\"b\\' é e\u{301} हिन्दी 漢字";
        assert_eq!(spelt(fine), fine);
        let hostile =
            "a\u{1b}[2J\r\u{202e}b\u{200b}\u{feff}\u{e0041}\u{2066}\u{85}\u{fe0f}\u{e0101}\u{3164}";
        let shown = spelt(hostile);
        assert!(shown.is_ascii(), "{shown}");
        assert!(!shown.contains(char::is_control), "{shown}");
    }

    #[test]
    fn long_text_is_cut_where_it_matters_least() {
        assert_eq!(shown_within("abcdef", 3), "abc…");
        let words = format!("{}the end\n", "x".repeat(SHOWN_CHARS));
        assert!(last_of(&words).starts_with('…'));
        assert!(last_of(&words).ends_with("the end"));
    }
}
