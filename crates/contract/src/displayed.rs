//! What characters do on a screen: which of them act or hide, and how wide they are. One list for
//! terminals, for the forms of clients, and for questions that are cleaned before anybody is asked.

/// Whether a character does something other than display.
pub fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            // Direction: marks, embeddings, overrides, isolates.
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // No width: soft hyphen, joiners, invisible operators, byte order mark.
            | '\u{00ad}' | '\u{034f}' | '\u{180e}' | '\u{200b}'..='\u{200d}'
            | '\u{2060}'..='\u{2064}' | '\u{206a}'..='\u{206f}' | '\u{feff}'
            // Blank letters.
            | '\u{115f}' | '\u{1160}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}'
            // Variation selectors, which change how the letter before them looks or hide data.
            | '\u{180b}'..='\u{180d}' | '\u{180f}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}'
            // Vowels and musical marks that are never drawn.
            | '\u{17b4}' | '\u{17b5}' | '\u{1d173}'..='\u{1d17a}'
            // Line and paragraph separators, annotations, tags.
            | '\u{2028}' | '\u{2029}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        )
}

/// The greatest possible width of a character, in columns. None before U+1100 is wide; neither are the
/// symbols of Haft's own margins.
pub fn most_columns(c: char) -> usize {
    match c {
        ..'\u{1100}' | '…' | '│' | '↳' | '⟨' | '⟩' | '⇥' => 1,
        _ => 2,
    }
}
