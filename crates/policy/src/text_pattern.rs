//! Texts in which `*` stands for any run of characters.

use std::fmt;

/// A text with `*` for any run of characters, `\*` for a star itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TextPattern {
    /// No wildcard: the whole text.
    Literal(String),
    /// The pieces between the wildcards, at least two.
    Wild(Vec<String>),
}

impl TextPattern {
    /// The same pattern for texts without capital letters.
    pub(crate) fn lowercase(&self) -> Self {
        match self {
            Self::Literal(text) => Self::Literal(text.to_lowercase()),
            Self::Wild(pieces) => {
                Self::Wild(pieces.iter().map(|piece| piece.to_lowercase()).collect())
            }
        }
    }

    pub(crate) fn parse(text: &str) -> Self {
        let mut pieces = vec![String::new()];
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '\\' if characters.peek() == Some(&'*') => {
                    characters.next();
                    push(&mut pieces, '*');
                }
                '*' => pieces.push(String::new()),
                other => push(&mut pieces, other),
            }
        }
        match <[String; 1]>::try_from(pieces) {
            Ok([literal]) => Self::Literal(literal),
            Err(pieces) => Self::Wild(pieces),
        }
    }

    /// Whether the whole text matches.
    pub(crate) fn matches(&self, text: &str) -> bool {
        match self {
            Self::Literal(literal) => literal == text,
            Self::Wild(pieces) => matches_pieces(pieces, text),
        }
    }

    /// What every matching text starts with.
    pub(crate) fn prefix(&self) -> &str {
        match self {
            Self::Literal(literal) => literal,
            Self::Wild(pieces) => pieces.first().map_or("", String::as_str),
        }
    }
}

impl fmt::Display for TextPattern {
    /// A star that is meant is shown like one that stands for anything: this is for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(text) => f.write_str(text),
            Self::Wild(pieces) => f.write_str(&pieces.join("*")),
        }
    }
}

fn push(pieces: &mut [String], character: char) {
    if let Some(piece) = pieces.last_mut() {
        piece.push(character);
    }
}

/// The leftmost position of each piece is enough: `*` matches any run, so an earlier match of a
/// middle piece never rules out a later one. Linear in the text for each piece.
fn matches_pieces(pieces: &[String], text: &str) -> bool {
    let [first, middle @ .., last] = pieces else {
        return false;
    };
    let Some(mut rest) = text.strip_prefix(first.as_str()) else {
        return false;
    };
    for piece in middle {
        match rest.split_once(piece.as_str()) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last.as_str())
}
