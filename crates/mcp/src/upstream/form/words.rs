//! Splits text into words as a reader would: lowercased, names such as `apiKey` and `api_key` split
//! into parts, lookalike letters replaced by the letters they resemble, and hidden characters
//! removed.

use crate::foreign::is_deceptive;

/// The most characters of one text that are examined. What a person reads is cut off long before.
const MAX_CHARS: usize = 8 * 1024;

/// Words or phrases to look for, separated by a comma and a space.
#[derive(Debug, Clone, Copy)]
pub(super) struct List(pub(super) &'static str);

impl List {
    fn iter(self) -> impl Iterator<Item = &'static str> {
        self.0.split(", ")
    }

    fn has(self, word: &str) -> bool {
        self.iter().any(|one| one == word)
    }
}

/// The words of a text, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Words {
    words: Vec<Word>,
    /// The text itself, lowercased.
    plain: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    text: String,
    /// Whether all of it is in capitals.
    is_capitals: bool,
}

/// Takes a text apart.
pub(super) fn words(text: &str) -> Words {
    let letters: Vec<char> = text
        .chars()
        .take(MAX_CHARS)
        .filter(|c| !is_deceptive(*c) || c.is_whitespace())
        .filter(|c| !is_mark(*c))
        .map(seen_as)
        .collect();
    let mut split = Vec::new();
    let mut word = String::new();
    let mut before: Option<char> = None;
    for (at, c) in letters.iter().copied().enumerate() {
        let next_is_small = letters.get(at + 1).is_some_and(|c| c.is_lowercase());
        let begins = before.is_some_and(|before| {
            c.is_uppercase() && (before.is_lowercase() || (before.is_uppercase() && next_is_small))
        });
        if (begins || !c.is_alphanumeric()) && !word.is_empty() {
            split.push(std::mem::take(&mut word));
        }
        if c.is_alphanumeric() {
            word.push(c);
        }
        before = Some(c);
    }
    split.push(word);
    split.retain(|word| !word.is_empty());
    Words {
        words: joined(split).into_iter().map(Word::new).collect(),
        plain: letters.iter().flat_map(|c| c.to_lowercase()).collect(),
    }
}

impl Word {
    fn new(text: String) -> Self {
        let is_capitals = text.chars().count() > 1 && text.chars().all(char::is_uppercase);
        let small = text.to_lowercase();
        // Digits in place of letters: `p4ssw0rd`. A number is not a word.
        let is_number = small.chars().all(|c| c.is_ascii_digit());
        let has_digit_within = small.chars().any(|c| c.is_ascii_digit());
        let text = if is_number || !has_digit_within || KEPT.contains(&small.as_str()) {
            small
        } else {
            small.chars().map(letter_for).collect()
        };
        Self { text, is_capitals }
    }
}

/// Words that contain digits.
const KEPT: [&str; 4] = ["2fa", "cvv2", "s3", "i18n"];

impl Words {
    /// Whether the text contains one of these words.
    pub(super) fn has_any(&self, any: List) -> bool {
        let mut words = self.words.iter();
        words.any(|word| any.has(&word.text) || is_within(&word.text, any))
    }

    /// Whether the text contains one of these phrases, word after word.
    pub(super) fn has_phrase(&self, phrases: List) -> bool {
        phrases.iter().any(|phrase| {
            let mut windows = self.words.windows(phrase.split(' ').count());
            windows.any(|window| window.iter().map(|word| &*word.text).eq(phrase.split(' ')))
        })
    }

    /// Whether one of these is followed by *code*.
    pub(super) fn has_code(&self, kinds: List) -> bool {
        let mut pairs = self.words.iter().zip(self.words.iter().skip(1));
        pairs.any(|(kind, code)| ["code", "codes"].contains(&&*code.text) && kinds.has(&kind.text))
    }

    /// Whether the text contains a word in capitals but is not all capitals.
    pub(super) fn has_capitals(&self, word: &str) -> bool {
        let is_it = |one: &&Word| one.is_capitals && one.text.eq_ignore_ascii_case(word);
        let found = self.words.iter().filter(is_it).count();
        found > 0 && (self.words.len() == found || self.words.iter().any(|one| !one.is_capitals))
    }

    /// Whether one of these follows a word that asks for it, and no word next to it gives it
    /// another meaning.
    pub(super) fn has_any_after(
        &self,
        any: List,
        asks: List,
        within: usize,
        harmless: List,
    ) -> bool {
        let is_in = |at: Option<usize>, list: List| {
            let word = at.and_then(|at| self.words.get(at));
            word.is_some_and(|word| list.has(&word.text))
        };
        self.words.iter().enumerate().any(|(at, word)| {
            any.has(&word.text)
                && !is_in(at.checked_sub(1), harmless)
                && !is_in(at.checked_add(1), harmless)
                && (1..=within).any(|back| is_in(at.checked_sub(back), asks))
        })
    }

    /// Whether the text is just one of these, with at most an article.
    pub(super) fn is_just(&self, any: List) -> bool {
        let words = self.words.iter().map(|word| &*word.text);
        let mut words = words.filter(|word| !["the", "a", "your"].contains(word));
        words.next().is_some_and(|word| any.has(word)) && words.next().is_none()
    }

    /// Whether something in the text begins this way.
    pub(super) fn is_beginning(&self, beginning: &str) -> bool {
        self.plain.match_indices(beginning).any(|(at, _)| {
            let before = self
                .plain
                .get(..at)
                .and_then(|text| text.chars().next_back());
            before.is_none_or(|c| !c.is_alphanumeric())
        })
    }

    /// The words joined by single spaces.
    pub(super) fn text(&self) -> String {
        let words: Vec<&str> = self.words.iter().map(|word| word.text.as_str()).collect();
        words.join(" ")
    }
}

/// Joins single letters into a word: `p a s s w o r d`, `P.I.N.`.
fn joined(split: Vec<String>) -> Vec<String> {
    let mut joined: Vec<String> = Vec::with_capacity(split.len());
    let mut run = Vec::new();
    let is_letter = |word: &String| word.chars().count() == 1;
    for word in split {
        if is_letter(&word) {
            run.push(word);
            continue;
        }
        end_run(&mut run, &mut joined);
        joined.push(word);
    }
    end_run(&mut run, &mut joined);
    joined
}

/// Two single letters in a row stay separate (`a b`); three or more are a word.
fn end_run(run: &mut Vec<String>, joined: &mut Vec<String>) {
    if run.len() > 2 {
        joined.push(run.concat());
        run.clear();
    }
    joined.append(run);
}

/// Scripts without spaces have words inside words.
fn is_within(word: &str, any: List) -> bool {
    let is_ideographic = |text: &&str| text.chars().all(|c| c >= '\u{2e80}');
    any.iter()
        .filter(is_ideographic)
        .any(|one| word.contains(one))
}

/// Combining accents above and below letters.
fn is_mark(c: char) -> bool {
    matches!(c, '\u{0300}'..='\u{036f}')
}

/// The letter a person would read this one as. Covers only lookalikes of letters in this module's
/// words.
fn seen_as(c: char) -> char {
    match c {
        'а' | 'ɑ' | 'α' | 'á' | 'à' | 'â' | 'ä' | 'ã' | 'å' | 'ą' | '@' => 'a',
        'А' | 'Α' | 'Á' | 'À' | 'Â' | 'Ä' | 'Ã' | 'Å' => 'A',
        'В' | 'Β' => 'B',
        'с' | 'ϲ' | 'ç' | 'ć' => 'c',
        'С' | 'Ϲ' | 'Ç' => 'C',
        'ԁ' | 'ɗ' => 'd',
        'е' | 'ё' | 'є' | 'é' | 'è' | 'ê' | 'ë' | 'ε' | 'ę' => 'e',
        'Е' | 'Ε' | 'É' | 'È' | 'Ê' | 'Ë' => 'E',
        'ɡ' => 'g',
        'һ' => 'h',
        'Н' | 'Η' => 'H',
        'і' | 'ı' | 'ι' | 'í' | 'ì' | 'î' | 'ï' | 'ӏ' => 'i',
        'І' | 'Ι' | 'Í' | 'Ì' | 'Î' | 'Ï' => 'I',
        'к' | 'κ' => 'k',
        'К' | 'Κ' => 'K',
        'ł' | 'ⅼ' => 'l',
        'М' | 'Μ' => 'M',
        'ñ' | 'ń' | 'ո' => 'n',
        'Ñ' | 'Ν' => 'N',
        'о' | 'ο' | 'ó' | 'ò' | 'ô' | 'ö' | 'õ' | 'ø' => 'o',
        'О' | 'Ο' | 'Ó' | 'Ò' | 'Ô' | 'Ö' | 'Õ' => 'O',
        'р' | 'ρ' => 'p',
        'Р' | 'Ρ' => 'P',
        'ѕ' | 'ś' | 'š' | '$' => 's',
        'Ѕ' => 'S',
        'т' | 'τ' => 't',
        'Т' | 'Τ' => 'T',
        'υ' | 'ú' | 'ù' | 'û' | 'ü' => 'u',
        'ν' | 'ѵ' => 'v',
        'ԝ' | 'ω' => 'w',
        'х' | 'χ' => 'x',
        'у' | 'γ' | 'ý' => 'y',
        'У' | 'Υ' => 'Y',
        // Full-width forms of ASCII.
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
        c => c,
    }
}

/// The letter that a digit replaces.
fn letter_for(c: char) -> char {
    match c {
        '0' => 'o',
        '1' => 'i',
        '3' => 'e',
        '4' => 'a',
        '5' => 's',
        '7' => 't',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_as_a_person_reads_it() {
        for (text, read) in [
            ("apiKey", "api key"),
            ("APIKey_2", "api key 2"),
            ("one-time code", "one time code"),
            ("p4ssw0rd", "password"),
            ("pa$$word", "password"),
            ("p\u{430}ssw\u{43e}rd", "password"),
            ("pass\u{200b}word", "password"),
            ("ｐａｓｓｗｏｒｄ", "password"),
            ("P a s s w o r d:", "password"),
            ("P.I.N.", "pin"),
            ("a b", "a b"),
            ("Contraseña", "contrasena"),
            ("12 files", "12 files"),
            ("", ""),
        ] {
            assert_eq!(words(text).text(), read, "{text}");
        }
    }
}
