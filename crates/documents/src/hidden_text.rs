//! Characters that show nothing. They can carry text past a person to the model that reads it, so they
//! are removed, except where writing needs them: joiners within Arabic and Indic words, and what makes
//! one emoji of several. There each stands once, beside the letters it is for.

/// Appends a text without the characters that hide, and counts those. Separators of lines and the
/// blank of Braille, which look like a line break and a space, become these.
pub(crate) fn push_shown(to: &mut String, text: &str, hidden: &mut usize) {
    // Most text is plain, and need not be looked at letter by letter.
    if text.bytes().all(|byte| (b' '..0x7f).contains(&byte)) {
        to.push_str(text);
        return;
    }
    let mut before = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let shown = match c {
            '\u{2028}' | '\u{2029}' => '\n',
            '\u{2800}' => ' ',
            c if hides(c) && !is_needed(before, c, rest.peek().copied()) => {
                *hidden += 1;
                continue;
            }
            c => c,
        };
        to.push(shown);
        before = Some(shown);
    }
}

/// Whether [`push_shown`] may change a text that has this character.
pub(crate) fn is_suspect(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}' | '\u{2800}') || hides(c)
}

/// Whether a character shows nothing of its own.
fn hides(c: char) -> bool {
    if c.is_ascii() {
        return c.is_control() && !matches!(c, '\n' | '\t' | '\r');
    }
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
        || c.is_control()
}

/// Whether writing needs it here. What stands before it is what was kept, so two in a row are not.
fn is_needed(before: Option<char>, c: char, after: Option<char>) -> bool {
    let is_before = |is: fn(char) -> bool| before.is_some_and(is);
    let is_after = |is: fn(char) -> bool| after.is_some_and(is);
    match c {
        // A heh that is not joined to anything, and half forms of letters, end a word.
        '\u{200d}' => {
            is_before(is_arabic)
                || (is_before(is_indic) && (is_before(is_virama) || is_after(is_virama)))
                || (is_before(is_part_of_emoji) && is_after(is_emoji))
        }
        '\u{200c}' => {
            (is_before(is_arabic) && is_after(is_arabic))
                || (is_before(is_virama) && is_after(is_indic))
        }
        '\u{fe0e}' | '\u{fe0f}' => is_before(is_emoji) || after == Some('\u{20e3}'),
        _ => false,
    }
}

/// Letters of scripts that are written joined from right to left.
fn is_arabic(c: char) -> bool {
    matches!(c, '\u{600}'..='\u{8ff}' | '\u{fb50}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}')
        && c != '\u{61c}'
}

fn is_indic(c: char) -> bool {
    matches!(c, '\u{900}'..='\u{dff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}')
}

/// What takes the vowel from a letter and joins it to the next.
fn is_virama(c: char) -> bool {
    matches!(
        c,
        '\u{94d}'
            | '\u{9cd}'
            | '\u{a4d}'
            | '\u{acd}'
            | '\u{b4d}'
            | '\u{bcd}'
            | '\u{c4d}'
            | '\u{ccd}'
            | '\u{d4d}'
            | '\u{dca}'
            | '\u{1039}'
            | '\u{103a}'
            | '\u{17d2}'
    )
}

fn is_emoji(c: char) -> bool {
    matches!(c,
        '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2190}'..='\u{21ff}'
        | '\u{2300}'..='\u{27bf}' | '\u{2900}'..='\u{297f}' | '\u{2b00}'..='\u{2bff}' | '\u{3030}'
        | '\u{303d}' | '\u{3297}' | '\u{3299}' | '\u{1f000}'..='\u{1faff}')
}

fn is_part_of_emoji(c: char) -> bool {
    c == '\u{fe0f}' || is_emoji(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, shown: &str) {
        let (mut to, mut hidden) = (String::new(), 0);
        push_shown(&mut to, text, &mut hidden);
        assert_eq!(to, shown, "{}", text.escape_unicode());
        let removed = text.chars().count() - shown.chars().count();
        assert_eq!(hidden, removed, "{}", text.escape_unicode());
    }

    #[test]
    fn what_carries_text_unseen_is_removed() {
        for c in [
            '\0',
            '\u{1b}',
            '\u{85}',
            '\u{ad}',
            '\u{34f}',
            '\u{61c}',
            '\u{115f}',
            '\u{17b4}',
            '\u{180b}',
            '\u{180e}',
            '\u{200b}',
            '\u{200c}',
            '\u{200d}',
            '\u{200e}',
            '\u{200f}',
            '\u{202a}',
            '\u{202e}',
            '\u{2060}',
            '\u{2062}',
            '\u{2065}',
            '\u{2066}',
            '\u{206a}',
            '\u{3164}',
            '\u{fe00}',
            '\u{fe0e}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{ffa0}',
            '\u{fff9}',
            '\u{1bca0}',
            '\u{1d173}',
            '\u{e0001}',
            '\u{e0041}',
            '\u{e007f}',
            '\u{e0100}',
            '\u{e01ef}',
        ] {
            check(&format!("a{c}{c}b{c}"), "ab");
            assert!(is_suspect(c), "{c:?}");
        }
        // Data in selectors and joiners behind a sign that takes one of them.
        check("😀\u{fe0f}\u{fe0f}\u{fe00}\u{e0100}\u{e01ef}", "😀\u{fe0f}");
        check("👩\u{200d}\u{200d}\u{200c}👩", "👩👩");
        check("م\u{200c}\u{200d}\u{200c}ن", "م\u{200d}ن");
        check("क\u{200d}\u{200c}क", "कक");
        check("a\u{2028}b\u{2800}c", "a\nb c");
    }

    #[test]
    fn what_writing_needs_stays() {
        for text in [
            "👩\u{200d}❤\u{fe0f}\u{200d}👨 👨\u{200d}👩\u{200d}👧 🏳\u{fe0f}\u{200d}🌈 👍🏽 1\u{fe0f}\u{20e3} ☀\u{fe0e}",
            "نمی\u{200c}خواهم کتاب\u{200c}ها ه\u{200d}.",
            "שלום עולם، مرحبا بالعالم",
            "क्\u{200d}ष र्\u{200d}य",
            "র\u{200d}্য ක්\u{200d}ර ക്\u{200d}",
            "क्\u{200c}ष",
            "e\u{301} ä 漢字 한국어 ไทย",
        ] {
            check(text, text);
        }
    }
}
