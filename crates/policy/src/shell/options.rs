//! Tells options from operands, given which options a program has. An option that is not listed,
//! an abbreviation of one, or a word that is known only at run time where an option could stand,
//! is not guessed at.

use super::word::{Value, Word};

/// The options of a program, as far as they are listed. One character each in `short` and
/// `short_values`; names without dashes, separated by blanks, elsewhere.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Options<'t> {
    /// `-a`.
    pub(super) short: &'t str,
    /// `-n 5` and `-n5`.
    pub(super) short_values: &'t str,
    /// `--all`.
    pub(super) long: &'t str,
    /// `--lines=5` and `--lines 5`.
    pub(super) long_values: &'t str,
    /// `-name` alone.
    pub(super) dash: &'t str,
    /// `-name value`.
    pub(super) dash_values: &'t str,
    /// `-20` as a number.
    pub(super) numbers: bool,
    /// Whether options may follow operands.
    pub(super) anywhere: bool,
}

/// What the words of a command are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Scanned {
    /// The places of the operands.
    pub(super) operands: Vec<usize>,
    /// The options that were given, without dashes, each with the place of its value.
    pub(super) given: Vec<(String, Option<usize>)>,
    /// The first word that does not fit.
    pub(super) odd: Option<usize>,
}

impl Options<'_> {
    /// Scans the words from `start` on. Stops at what does not fit.
    pub(super) fn scan(&self, words: &[Word], start: usize) -> Scanned {
        let mut scanned = Scanned::default();
        let mut place = start;
        while let Some(word) = words.get(place) {
            let here = place;
            place += 1;
            let text = match &word.value {
                Value::Literal(text) => text.as_str(),
                Value::Glob(_) | Value::Given | Value::Unknown if word.may_be_option() => {
                    scanned.odd = Some(here);
                    return scanned;
                }
                Value::Glob(glob) => glob.as_str(),
                Value::Given | Value::Unknown => "",
            };
            if text == "--" {
                scanned.operands.extend(place..words.len());
                return scanned;
            }
            if !text.starts_with('-') || text == "-" {
                if !self.anywhere {
                    scanned.operands.extend(here..words.len());
                    return scanned;
                }
                scanned.operands.push(here);
                continue;
            }
            match self.option(text, words.get(place)) {
                Some(Taken::Alone) => scanned.given.push((name_of(text), None)),
                Some(Taken::Inside) => scanned.given.push((name_of(text), Some(here))),
                Some(Taken::Next) => {
                    scanned.given.push((name_of(text), Some(place)));
                    place += 1;
                }
                None => {
                    scanned.odd = Some(here);
                    return scanned;
                }
            }
        }
        scanned
    }

    fn option(&self, text: &str, next: Option<&Word>) -> Option<Taken> {
        let following = || next.map(|_| Taken::Next);
        if let Some(long) = text.strip_prefix("--") {
            return match long.split_once('=') {
                Some((name, _)) => has(self.long_values, name).then_some(Taken::Inside),
                None if has(self.long, long) => Some(Taken::Alone),
                None if has(self.long_values, long) => following(),
                None => None,
            };
        }
        let name = text.strip_prefix('-')?;
        let bare = name.split_once('=').map_or(name, |(name, _)| name);
        if has(self.dash, name) {
            return Some(Taken::Alone);
        }
        if has(self.dash_values, name) {
            return following();
        }
        if bare != name && has(self.dash_values, bare) {
            return Some(Taken::Inside);
        }
        if self.numbers && name.bytes().all(|byte| byte.is_ascii_digit()) {
            return Some(Taken::Alone);
        }
        let mut letters = name.chars();
        while let Some(letter) = letters.next() {
            if self.short_values.contains(letter) {
                return if letters.as_str().is_empty() {
                    following()
                } else {
                    Some(Taken::Inside)
                };
            }
            if !self.short.contains(letter) {
                return None;
            }
        }
        Some(Taken::Alone)
    }
}

enum Taken {
    Alone,
    Inside,
    Next,
}

fn name_of(text: &str) -> String {
    let name = text.trim_start_matches('-');
    let name = name.split_once('=').map_or(name, |(name, _)| name);
    name.to_owned()
}

/// Whether a name is in a list separated by blanks.
pub(super) fn has(list: &str, name: &str) -> bool {
    !name.is_empty() && list.split_ascii_whitespace().any(|known| known == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SORT: Options<'static> = Options {
        short: "nru",
        short_values: "kt",
        long: "numeric-sort reverse",
        long_values: "key",
        dash: "",
        dash_values: "",
        numbers: false,
        anywhere: true,
    };

    fn scan(text: &str) -> Scanned {
        let words: Vec<Word> = text.split(' ').map(Word::bare).collect();
        SORT.scan(&words, 1)
    }

    #[test]
    fn listed_options_fit_in_every_spelling() {
        for text in [
            "sort -nr f",
            "sort -k2 f",
            "sort -k 2 f",
            "sort -rk2 f",
            "sort --key=2 f",
        ] {
            let scanned = scan(text);
            assert_eq!(scanned.odd, None, "{text}");
            assert_eq!(scanned.operands.len(), 1, "{text}");
        }
        assert_eq!(scan("sort f -n -- -o").operands, [1, 4]);
    }

    #[test]
    fn what_is_not_listed_does_not_fit() {
        for text in [
            "sort -o f",
            "sort -noP",
            "sort --rev",
            "sort --output=f",
            "sort -k",
            "sort *",
            "sort -S1k -oP",
        ] {
            assert!(scan(text).odd.is_some(), "{text}");
        }
        assert_eq!(scan("sort a/*").odd, None);
    }
}
