//! Makes names and lines from a workspace safe to show. A file name may hold newlines and terminal
//! escapes; shown raw, it could forge a line of output.

use std::borrow::Cow;

/// A name on one line: control characters are escaped, everything else is kept.
pub(crate) fn one_line(name: &str) -> Cow<'_, str> {
    if !name.chars().any(char::is_control) {
        return Cow::Borrowed(name);
    }
    Cow::Owned(
        name.chars()
            .flat_map(|c| {
                let escaped = c.is_control().then(|| c.escape_default());
                let plain = escaped.is_none().then_some(c);
                escaped.into_iter().flatten().chain(plain)
            })
            .collect(),
    )
}

/// The longest prefix of `text` of at most `limit` bytes that ends between characters.
pub(crate) fn start_of(text: &str, limit: usize) -> &str {
    let end = (0..=limit.min(text.len()))
        .rev()
        .find(|&end| text.is_char_boundary(end))
        .unwrap_or(0);
    text.get(..end).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pe_10_control_characters_in_names_are_shown_escaped() {
        assert_eq!(one_line("a\nb\u{1b}[31m"), "a\\nb\\u{1b}[31m");
        assert_eq!(one_line("grün.txt"), "grün.txt");
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        assert_eq!(start_of("aé", 2), "a");
        assert_eq!(start_of("aé", 3), "aé");
        assert_eq!(start_of("", 3), "");
    }
}
