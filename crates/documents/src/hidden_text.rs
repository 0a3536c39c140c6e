//! Characters that show nothing. They can hide text from a person that a model reads, so they are
//! removed, except those that scripts and emoji need (U+200C, U+200D, marks of direction).

/// Whether a character shows nothing and joins nothing.
pub(crate) fn hides(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{180e}'
        | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}' | '\u{e0100}'..='\u{e01ef}')
        || (c.is_control() && !matches!(c, '\n' | '\t' | '\r'))
}

/// Appends a text without the characters that hide, and counts those.
pub(crate) fn push_shown(to: &mut String, text: &str, hidden: &mut usize) {
    for c in text.chars() {
        if hides(c) {
            *hidden += 1;
        } else {
            to.push(c);
        }
    }
}
