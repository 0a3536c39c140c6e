//! From bytes to objects, in files and in what pages draw. Whatever the bytes are, something is read or
//! the end is: nothing here fails.

use std::{collections::BTreeMap, rc::Rc};

use super::{
    object::{Dictionary, Object},
    work::WorkBudget,
};

/// How deep lists and dictionaries may nest. What is deeper is nothing.
const MAX_NESTING: usize = 48;

/// The most objects within one.
const MAX_PARTS: usize = 300_000;

/// How many steps making an object takes.
const OBJECT_STEPS: usize = 8;

/// Reads objects one after another.
#[derive(Debug, Clone)]
pub(super) struct Lexer<'a> {
    bytes: &'a [u8],
    pub(super) at: usize,
    budget: &'a WorkBudget,
    /// How many objects were made.
    pub(super) parts: usize,
    /// Whether `5 0 R` is a reference; in what pages draw there are none.
    has_references: bool,
}

/// The smallest thing that means something.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token<'a> {
    Plain(Object),
    ArrayStart,
    ArrayEnd,
    DictionaryStart,
    DictionaryEnd,
    Keyword(&'a [u8]),
    End,
}

/// An object, or a word that is none.
#[derive(Debug, PartialEq)]
pub(super) enum Item<'a> {
    Object(Object),
    Keyword(&'a [u8]),
    End,
}

impl<'a> Lexer<'a> {
    /// Reads a file from a place in it.
    pub(super) fn of_file(bytes: &'a [u8], at: usize, budget: &'a WorkBudget) -> Self {
        Self {
            bytes,
            at,
            budget,
            parts: 0,
            has_references: true,
        }
    }

    /// Reads what a page draws, or a table of characters.
    pub(super) fn of_content(bytes: &'a [u8], budget: &'a WorkBudget) -> Self {
        Self {
            has_references: false,
            ..Self::of_file(bytes, 0, budget)
        }
    }

    /// The next object or word.
    pub(super) fn item(&mut self) -> Item<'a> {
        loop {
            let token = self.token();
            match token {
                Token::End => return Item::End,
                Token::Keyword(b"true") => return Item::Object(Object::Boolean(true)),
                Token::Keyword(b"false") => return Item::Object(Object::Boolean(false)),
                Token::Keyword(b"null") => return Item::Object(Object::Null),
                Token::Keyword(word) => return Item::Keyword(word),
                Token::ArrayEnd | Token::DictionaryEnd => {}
                other => return Item::Object(self.object_from(other, 0)),
            }
        }
    }

    /// The next object. A word that is none is left where it is.
    pub(super) fn object(&mut self) -> Object {
        let before = self.at;
        if let Item::Object(object) = self.item() {
            return object;
        }
        self.at = before;
        Object::Null
    }

    /// The next number, if the next thing is one that is not negative.
    pub(super) fn number(&mut self) -> Option<usize> {
        let before = self.at;
        if let Token::Plain(Object::Integer(number)) = self.token()
            && let Ok(number) = usize::try_from(number)
        {
            return Some(number);
        }
        self.at = before;
        None
    }

    /// Whether the next thing is this word, which is then read.
    pub(super) fn takes(&mut self, word: &[u8]) -> bool {
        let before = self.at;
        if self.token() == Token::Keyword(word) {
            return true;
        }
        self.at = before;
        false
    }

    fn object_from(&mut self, token: Token<'a>, depth: usize) -> Object {
        self.parts += 1;
        if !self.budget.spend(OBJECT_STEPS) || self.parts > MAX_PARTS {
            self.at = self.bytes.len();
            return Object::Null;
        }
        match token {
            Token::Plain(Object::Integer(number)) if self.has_references => {
                self.reference(number).unwrap_or(Object::Integer(number))
            }
            Token::Plain(object) => object,
            Token::ArrayStart | Token::DictionaryStart if depth >= MAX_NESTING => Object::Null,
            Token::ArrayStart => self.array(depth + 1),
            Token::DictionaryStart => Object::Dictionary(self.dictionary(depth + 1)),
            Token::Keyword(b"true") => Object::Boolean(true),
            Token::Keyword(b"false") => Object::Boolean(false),
            Token::Keyword(_) | Token::ArrayEnd | Token::DictionaryEnd | Token::End => Object::Null,
        }
    }

    /// What follows a number, if both together are a reference.
    fn reference(&mut self, number: i64) -> Option<Object> {
        let number = u32::try_from(number).ok()?;
        let before = self.at;
        // Nearly all that follows a number and is none is seen by its first letter.
        self.skip_space();
        if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at = before;
            return None;
        }
        if self.number().is_some() {
            self.skip_space();
            if self.peek() == Some(b'R') && self.takes(b"R") {
                return Some(Object::Reference(number));
            }
        }
        self.at = before;
        None
    }

    fn array(&mut self, depth: usize) -> Object {
        let mut items = Vec::new();
        loop {
            match self.token() {
                Token::ArrayEnd | Token::End => return Object::Array(Rc::new(items)),
                // Of a list that has no end, what comes after its object is none of it.
                Token::Keyword(b"endobj" | b"stream") => {
                    self.at = self.at.saturating_sub(6);
                    return Object::Array(Rc::new(items));
                }
                Token::DictionaryEnd => {}
                other => items.push(self.object_from(other, depth)),
            }
        }
    }

    fn dictionary(&mut self, depth: usize) -> Dictionary {
        let mut entries = BTreeMap::new();
        loop {
            match self.token() {
                Token::DictionaryEnd | Token::End => return Dictionary::new(entries),
                Token::Keyword(b"endobj" | b"stream") => {
                    self.at = self.at.saturating_sub(6);
                    return Dictionary::new(entries);
                }
                Token::Plain(Object::Name(name)) => {
                    let before = self.at;
                    match self.token() {
                        Token::DictionaryEnd | Token::End => return Dictionary::new(entries),
                        Token::Keyword(b"endobj" | b"stream") => self.at = before,
                        value => {
                            let value = self.object_from(value, depth);
                            entries.insert(name, value);
                        }
                    }
                }
                // What has no name is nobody's.
                Token::Plain(_)
                | Token::ArrayStart
                | Token::ArrayEnd
                | Token::DictionaryStart
                | Token::Keyword(_) => {}
            }
        }
    }

    pub(super) fn token(&mut self) -> Token<'a> {
        let before = self.at;
        self.skip_space();
        let token = self.token_here();
        if !self.budget.spend(self.at.saturating_sub(before) + 1) {
            self.at = self.bytes.len();
            return Token::End;
        }
        token
    }

    fn token_here(&mut self) -> Token<'a> {
        let Some(first) = self.peek() else {
            return Token::End;
        };
        match first {
            b'(' => Token::Plain(Object::Text(self.literal())),
            b'/' => Token::Plain(Object::Name(self.name())),
            b'<' if self.byte(1) == Some(b'<') => self.punctuation(2, Token::DictionaryStart),
            b'<' => Token::Plain(Object::Text(self.hexadecimal())),
            b'>' if self.byte(1) == Some(b'>') => self.punctuation(2, Token::DictionaryEnd),
            b'[' => self.punctuation(1, Token::ArrayStart),
            b']' => self.punctuation(1, Token::ArrayEnd),
            b'>' | b')' | b'{' | b'}' => {
                let word = self.bytes.get(self.at..=self.at).unwrap_or_default();
                self.punctuation(1, Token::Keyword(word))
            }
            _ => {
                let word = self.regular();
                number(word).map_or(Token::Keyword(word), Token::Plain)
            }
        }
    }

    fn punctuation(&mut self, length: usize, token: Token<'a>) -> Token<'a> {
        self.at += length;
        token
    }

    fn peek(&self) -> Option<u8> {
        self.byte(0)
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn next_byte(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    /// Goes over white space and comments.
    pub(super) fn skip_space(&mut self) {
        while let Some(byte) = self.peek() {
            if byte == b'%' {
                let rest = self.bytes.get(self.at..).unwrap_or_default();
                let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
                self.at += rest.iter().position(is_end).unwrap_or(rest.len());
            } else if is_space(byte) {
                self.at += 1;
            } else {
                return;
            }
        }
    }

    /// The bytes of a word.
    fn regular(&mut self) -> &'a [u8] {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let end = rest.iter().position(|byte| !is_regular(*byte));
        let word = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        self.at += word.len();
        word
    }

    fn name(&mut self) -> Vec<u8> {
        self.at += 1;
        let word = self.regular();
        if !word.contains(&b'#') {
            return word.to_vec();
        }
        let (mut name, mut rest) = (Vec::with_capacity(word.len()), word);
        while let Some((first, after)) = rest.split_first() {
            let code = match after {
                [high, low, ..] if *first == b'#' => digit(*high).zip(digit(*low)),
                _ => None,
            };
            if let Some((high, low)) = code {
                name.push(high << 4 | low);
                rest = after.get(2..).unwrap_or_default();
            } else {
                name.push(*first);
                rest = after;
            }
        }
        name
    }

    fn literal(&mut self) -> Vec<u8> {
        self.at += 1;
        let (mut text, mut depth) = (Vec::new(), 1_usize);
        while let Some(byte) = self.next_byte() {
            match byte {
                b'(' => depth += 1,
                b')' if depth == 1 => return text,
                b')' => depth -= 1,
                b'\\' => {
                    self.escape(&mut text);
                    continue;
                }
                _ => {}
            }
            text.push(byte);
        }
        text
    }

    fn escape(&mut self, text: &mut Vec<u8>) {
        let Some(byte) = self.next_byte() else {
            return;
        };
        match byte {
            b'n' => text.push(b'\n'),
            b'r' => text.push(b'\r'),
            b't' => text.push(b'\t'),
            b'b' => text.push(8),
            b'f' => text.push(12),
            b'\r' => {
                if self.peek() == Some(b'\n') {
                    self.at += 1;
                }
            }
            b'\n' => {}
            b'0'..=b'7' => {
                let mut code = u32::from(byte - b'0');
                for _ in 0..2 {
                    let Some(next @ b'0'..=b'7') = self.peek() else {
                        break;
                    };
                    self.at += 1;
                    code = code * 8 + u32::from(next - b'0');
                }
                text.extend(u8::try_from(code & 0xff));
            }
            other => text.push(other),
        }
    }

    fn hexadecimal(&mut self) -> Vec<u8> {
        self.at += 1;
        let (mut text, mut high) = (Vec::new(), None);
        while let Some(byte) = self.next_byte() {
            if byte == b'>' {
                break;
            }
            let Some(low) = digit(byte) else {
                continue;
            };
            match high.take() {
                Some(high) => text.push(high << 4 | low),
                None => high = Some(low),
            }
        }
        text.extend(high.map(|high: u8| high << 4));
        text
    }

    /// Goes over the bytes of a picture within what a page draws, after its `ID`.
    pub(super) fn skip_picture(&mut self) {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let is_end = |at: usize| {
            let before = at.checked_sub(1).and_then(|at| rest.get(at));
            let after = rest.get(at + 2);
            before.is_some_and(|byte| is_space(*byte))
                && rest.get(at..at + 2) == Some(b"EI")
                && after.is_none_or(|byte| is_space(*byte))
        };
        let end = (1..rest.len()).find(|at| is_end(*at));
        let length = end.map_or(rest.len(), |end| end + 2);
        self.budget.spend(length);
        self.at += length;
    }
}

fn digit(byte: u8) -> Option<u8> {
    let value = char::from(byte).to_digit(16)?;
    u8::try_from(value).ok()
}

pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, 0 | b'\t' | b'\n' | 12 | b'\r' | b' ')
}

fn is_regular(byte: u8) -> bool {
    !is_space(byte) && !b"()<>[]{}/%".contains(&byte)
}

/// A number, as files write it and as some write it wrongly: `-.5`, `--7`, `12-3`.
fn number(word: &[u8]) -> Option<Object> {
    let signs = word.iter().take_while(|byte| matches!(byte, b'+' | b'-'));
    let signs = signs.count();
    let is_negative = word.first() == Some(&b'-');
    let rest = word.get(signs..)?;
    if !rest
        .first()
        .is_some_and(|byte| byte.is_ascii_digit() || *byte == b'.')
    {
        return None;
    }
    let (mut whole, mut is_real, mut value, mut unit) = (0_i64, false, 0.0_f64, 1.0_f64);
    let mut digits = 0;
    for byte in rest {
        match byte {
            b'0'..=b'9' => {
                digits += 1;
                let digit = byte - b'0';
                if is_real {
                    unit /= 10.0;
                    value += f64::from(digit) * unit;
                } else {
                    whole = whole.saturating_mul(10).saturating_add(i64::from(digit));
                    value = value * 10.0 + f64::from(digit);
                }
            }
            b'.' if !is_real => is_real = true,
            // `12-3` is 12, as others read it.
            b'-' if digits > 0 => break,
            _ => return None,
        }
    }
    if digits == 0 && rest.len() > 1 {
        return None;
    }
    Some(match (is_real, is_negative) {
        (false, false) => Object::Integer(whole),
        (false, true) => Object::Integer(-whole),
        (true, false) => Object::Real(value),
        (true, true) => Object::Real(-value),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Object {
        Lexer::of_file(text.as_bytes(), 0, &WorkBudget::default()).object()
    }

    #[test]
    fn objects_are_read_as_files_write_them() {
        let name = |name: &str| Object::Name(name.as_bytes().to_vec());
        let text = |text: &[u8]| Object::Text(text.to_vec());
        for (written, expected) in [
            ("12", Object::Integer(12)),
            ("-.5", Object::Real(-0.5)),
            ("+7.", Object::Real(7.0)),
            ("--3", Object::Integer(-3)),
            ("/A#20b#", name("A b#")),
            ("(a(b)\\)\\101\\\r\nc\\n)", text(b"a(b))Ac\n")),
            ("(open", text(b"open")),
            ("<48 6 5 7>", text(b"Hep")),
            ("% comment\n true", Object::Boolean(true)),
            ("5 0 R", Object::Reference(5)),
            (
                "[1 0 R 2 0 obj]",
                Object::Array(Rc::new(vec![
                    Object::Reference(1),
                    Object::Integer(2),
                    Object::Integer(0),
                    Object::Null,
                ])),
            ),
        ] {
            assert_eq!(read(written), expected, "{written}");
        }
        let nested = read("<</A<</B[1 2]>>/C/D>>");
        let nested = nested.dictionary().unwrap();
        assert!(nested.is_named(b"C", b"D"));
        let inner = nested.get(b"A").and_then(Object::dictionary).unwrap();
        assert_eq!(inner.get(b"B").and_then(Object::array).unwrap().len(), 2);
    }

    #[test]
    fn what_nests_or_repeats_without_end_is_cut() {
        read(&"[".repeat(1_000_000));
        read(&"<</A ".repeat(300_000));
        let long = read(&format!("[{}", "1 ".repeat(400_000)));
        assert!(long.array().unwrap().len() <= MAX_PARTS + 1);
    }
}
