//! One word of a command: what it expands to, as far as that is known before it runs.
#![cfg_attr(
    not(any(test, feature = "shell")),
    expect(dead_code, reason = "most words come from a parser")
)]

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    /// As written.
    pub(crate) raw: String,
    pub(crate) value: Value,
    /// Whether it contains quotes or backslashes.
    pub(crate) quoted: bool,
}

/// What a word expands to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// Exactly this text.
    Literal(String),
    /// The paths that match this glob, or the glob itself.
    Glob(String),
    /// Whatever a wrapper such as `xargs` inserts here: any number of words, but nothing the shell
    /// would expand again.
    Given,
    /// Something that is known only when it runs.
    Unknown,
}

impl Word {
    /// A literal word.
    pub(crate) fn literal(text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            raw: text.clone(),
            value: Value::Literal(text),
            quoted: false,
        }
    }

    /// A word that is known only when it runs.
    pub(crate) fn unknown(raw: impl Into<String>) -> Self {
        Self {
            raw: raw.into(),
            value: Value::Unknown,
            quoted: false,
        }
    }

    /// Whatever a wrapper inserts here.
    pub(super) fn given() -> Self {
        Self {
            raw: "{}".to_owned(),
            value: Value::Given,
            quoted: false,
        }
    }

    /// Its literal text, if known.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Literal(text) => Some(text),
            Value::Glob(_) | Value::Given | Value::Unknown => None,
        }
    }

    /// Its literal text if known, otherwise as written.
    pub(crate) fn shown(&self) -> &str {
        self.text().unwrap_or(&self.raw)
    }

    /// Whether it can turn out to be an option.
    pub(crate) fn may_be_option(&self) -> bool {
        match &self.value {
            Value::Literal(text) => text.starts_with('-'),
            Value::Glob(glob) => glob.starts_with(['-', '*', '?', '[']),
            Value::Given | Value::Unknown => true,
        }
    }

    /// Parses an unquoted word.
    pub(super) fn bare(raw: &str) -> Self {
        let mut text = String::with_capacity(raw.len());
        let (mut quoted, mut glob, mut braces) = (false, false, false);
        let mut characters = raw.chars();
        while let Some(character) = characters.next() {
            match character {
                '\\' => {
                    quoted = true;
                    match characters.next() {
                        // A line continuation.
                        Some('\n') => {}
                        Some(escaped) => text.push(escaped),
                        None => text.push('\\'),
                    }
                }
                '*' | '?' | '[' => {
                    glob = true;
                    text.push(character);
                }
                '{' => {
                    braces = true;
                    text.push(character);
                }
                '$' | '`' | '\'' | '"' => return Self::unknown(raw),
                other => text.push(other),
            }
        }
        // `{a,b}` and `{1..3}` become several words; `{}` and `HEAD@{1}` stay unchanged.
        let expands = braces && (text.contains(',') || text.contains(".."));
        // A lone `[` is the program of that name, and a bracket that never closes is literal.
        let glob = glob && (text.contains(['*', '?']) || text.contains(']'));
        let value = match (expands, glob) {
            (true, _) => Value::Unknown,
            (false, true) if quoted => Value::Unknown,
            (false, true) => Value::Glob(text),
            (false, false) => Value::Literal(text),
        };
        Self {
            raw: raw.to_owned(),
            value,
            quoted,
        }
    }

    /// Parses the contents of double quotes.
    pub(super) fn double_quoted(raw: &str) -> Self {
        let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
        let mut text = String::with_capacity(inner.len());
        let mut characters = inner.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '\\' => match characters.peek().copied() {
                    Some('\n') => {
                        characters.next();
                    }
                    Some(escaped @ ('$' | '`' | '"' | '\\')) => {
                        characters.next();
                        text.push(escaped);
                    }
                    Some(_) | None => text.push('\\'),
                },
                '`' => return Self::unknown(raw),
                '$' => match characters.peek() {
                    // A dollar before these, or at the end, does not start an expansion.
                    None | Some(' ' | ')' | '|' | '/' | '.' | ',' | ':' | '%') => text.push('$'),
                    Some(_) => return Self::unknown(raw),
                },
                other => text.push(other),
            }
        }
        Self {
            raw: raw.to_owned(),
            value: Value::Literal(text),
            quoted: true,
        }
    }

    /// Parses the contents of single quotes.
    pub(super) fn single_quoted(raw: &str) -> Self {
        let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
        Self {
            raw: raw.to_owned(),
            value: Value::Literal(inner.to_owned()),
            quoted: true,
        }
    }

    /// Joins adjacent pieces into one word.
    pub(super) fn joined(raw: &str, pieces: Vec<Self>) -> Self {
        let mut text = String::new();
        let mut quoted = false;
        let mut glob = false;
        for piece in &pieces {
            quoted |= piece.quoted;
            match &piece.value {
                Value::Literal(piece) => text.push_str(piece),
                Value::Glob(piece) => {
                    glob = true;
                    text.push_str(piece);
                }
                Value::Given | Value::Unknown => return Self::unknown(raw),
            }
        }
        let unquoted: String = pieces
            .iter()
            .filter(|piece| !piece.quoted)
            .map(|piece| piece.raw.as_str())
            .collect();
        // Braces and brackets may open in one piece and close in another.
        let several = unquoted.contains('{') && (text.contains(',') || text.contains(".."));
        let brackets = unquoted.contains('[') && unquoted.contains(']');
        let value = if several || (glob && quoted) {
            Value::Unknown
        } else if glob || brackets {
            if quoted {
                Value::Unknown
            } else {
                Value::Glob(text)
            }
        } else {
            Value::Literal(text)
        };
        Self {
            raw: raw.to_owned(),
            value,
            quoted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_word_is_what_bash_makes_of_it() {
        let literal = |raw: &str| Word::bare(raw).text().map(str::to_owned);
        assert_eq!(literal("touch").as_deref(), Some("touch"));
        assert_eq!(literal(r"to\uch").as_deref(), Some("touch"));
        assert_eq!(literal(r"a\ b").as_deref(), Some("a b"));
        assert_eq!(literal(r"\*").as_deref(), Some("*"));
        assert_eq!(literal("{}").as_deref(), Some("{}"));
        assert_eq!(literal("HEAD@{1}").as_deref(), Some("HEAD@{1}"));
        assert_eq!(literal("{a,b}"), None);
        assert_eq!(literal("{1..3}"), None);
        assert_eq!(literal("*.rs"), None);
        assert_eq!(literal("t?uch"), None);
        assert_eq!(Word::bare("src/*.rs").value, Value::Glob("src/*.rs".into()));
        assert!(!Word::bare("src/*.rs").may_be_option());
        assert!(Word::bare("*.rs").may_be_option());
    }

    #[test]
    fn double_quotes_keep_what_they_do_not_escape() {
        let literal = |raw: &str| Word::double_quoted(raw).text().map(str::to_owned);
        assert_eq!(literal(r#""a && b""#).as_deref(), Some("a && b"));
        assert_eq!(literal(r#""a\"b\n\\""#).as_deref(), Some(r#"a"b\n\"#));
        assert_eq!(literal(r#""\$x""#).as_deref(), Some("$x"));
        assert_eq!(literal(r#""^a$""#).as_deref(), Some("^a$"));
        assert_eq!(literal(r#""$x""#), None);
        assert_eq!(literal(r#""$(x)""#), None);
        assert_eq!(literal(r#""`x`""#), None);
    }
}
