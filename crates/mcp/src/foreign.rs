//! Text that a mounted server wrote, made fit to stand inside a sentence of ours: one line, nothing
//! in it that acts on a terminal or hides, and no longer than it is worth.

/// The longest foreign text in a message, in characters.
pub const SHOWN_CHARS: usize = 400;

/// A foreign text on one line, escaped and cut at [`SHOWN_CHARS`].
pub fn shown(text: &str) -> String {
    shown_within(text, SHOWN_CHARS)
}

/// The end of a foreign text, for what was printed last: escaped, cut at the front.
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
            // The standard escape spells quotes too, which hide nothing.
            '"' | '\'' => shown.push(c),
            c => shown.extend(c.escape_debug()),
        }
    }
    if letters.next().is_some() {
        shown.push('…');
    }
    shown
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
    fn long_text_is_cut_where_it_matters_least() {
        assert_eq!(shown_within("abcdef", 3), "abc…");
        let words = format!("{}the end\n", "x".repeat(SHOWN_CHARS));
        assert!(last_of(&words).starts_with('…'));
        assert!(last_of(&words).ends_with("the end"));
    }
}
