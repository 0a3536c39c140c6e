//! Separates options from operands, given a program's options. An unlisted option, an abbreviation
//! of one, or a word known only at run time where an option could be, is not guessed at.

use super::word::{Value, Word};

/// The listed options of a program. One character each in `short` and `short_values`; elsewhere
/// names without dashes, separated by blanks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Options<'t> {
    /// `-a`.
    pub(super) short: &'t str,
    /// `-n 5` and `-n5`.
    pub(super) short_values: &'t str,
    /// `-i` and `-iX`: a value is attached to the option, or there is none.
    pub(super) short_maybe: &'t str,
    /// `--all`. A name that is also in `long_values` takes a value only after `=`.
    pub(super) long: &'t str,
    /// `--lines=5` and `--lines 5`.
    pub(super) long_values: &'t str,
    /// `-name` alone.
    pub(super) dash: &'t str,
    /// `-name value`.
    pub(super) dash_values: &'t str,
    /// `-20` as a number.
    pub(super) numbers: bool,
    /// Whether `--` does not end options, and is not one.
    pub(super) no_end: bool,
    /// Whether options may follow operands.
    pub(super) anywhere: bool,
}

/// The classified words of a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Scanned {
    /// The indexes of the operands.
    pub(super) operands: Vec<usize>,
    /// The options that were given.
    pub(super) given: Vec<GivenOption>,
    /// The first word that does not fit.
    pub(super) odd: Option<usize>,
}

/// The classified words of a command in which some do not fit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SortedWords {
    /// The indexes of the operands.
    pub(super) operands: Vec<usize>,
    /// The indexes of the words that do not fit.
    pub(super) odd: Vec<usize>,
    /// The options with a value: the letter or name, and the value.
    pub(super) values: Vec<(String, String)>,
}

/// A word that is an option, or several in a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GivenOption {
    /// As written, without dashes and anything after `=`.
    pub(super) name: String,
    /// The one that takes the value: the letter, wherever it is in a cluster, or the name.
    pub(super) key: String,
    /// The index of its value.
    pub(super) value: Option<usize>,
    /// The value, if it is attached to the option.
    pub(super) attached: Option<String>,
}

impl GivenOption {
    /// The value, as shown.
    pub(super) fn value_in<'w>(&'w self, words: &'w [Word]) -> Option<&'w str> {
        let following = || self.value.and_then(|place| words.get(place));
        self.attached
            .as_deref()
            .or_else(|| following().map(Word::shown))
    }
}

impl Options<'_> {
    /// Scans the words from `start` on. Stops at the first that does not fit.
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
            if text == "--" && !self.no_end {
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
            let Some(taken) = self.option(text, words.get(place)) else {
                scanned.odd = Some(here);
                return scanned;
            };
            let (key, value, attached) = match taken {
                OptionValue::Alone(key) => (key, None, None),
                OptionValue::Inside(key, value) => (key, Some(here), Some(value.to_owned())),
                OptionValue::Next(key) => {
                    place += 1;
                    (key, Some(place - 1), None)
                }
            };
            scanned.given.push(GivenOption {
                name: name_of(text),
                key: key.to_owned(),
                value,
                attached,
            });
        }
        scanned
    }

    /// Sorts all words from `start` on into operands and words that do not fit. Whether a word that
    /// does not fit takes the next one is unknown, so from there on no word counts as a value, and
    /// `--` ends nothing.
    pub(super) fn sort(&self, words: &[Word], start: usize) -> SortedWords {
        let mut sorted = SortedWords::default();
        let mut place = start;
        while let Some(word) = words.get(place) {
            let here = place;
            place += 1;
            let lost = !sorted.odd.is_empty();
            let text = match &word.value {
                Value::Literal(text) => text.as_str(),
                Value::Glob(_) | Value::Given | Value::Unknown if word.may_be_option() => {
                    sorted.odd.push(here);
                    continue;
                }
                Value::Glob(_) | Value::Given | Value::Unknown => "",
            };
            if !text.starts_with('-') || text == "-" {
                sorted.operands.push(here);
                if !self.anywhere && !lost {
                    sorted.operands.extend(place..words.len());
                    return sorted;
                }
                continue;
            }
            if text == "--" && !self.no_end {
                if !lost {
                    sorted.operands.extend(place..words.len());
                    return sorted;
                }
                continue;
            }
            match self.option(text, words.get(place)) {
                Some(OptionValue::Next(key)) if !lost => {
                    let value = words.get(place).map(Word::shown).unwrap_or_default();
                    sorted.values.push((key.to_owned(), value.to_owned()));
                    place += 1;
                }
                Some(OptionValue::Inside(key, value)) => {
                    sorted.values.push((key.to_owned(), value.to_owned()));
                }
                Some(OptionValue::Alone(_) | OptionValue::Next(_)) => {}
                None => sorted.odd.push(here),
            }
        }
        sorted
    }

    fn option<'w>(&self, text: &'w str, next: Option<&Word>) -> Option<OptionValue<'w>> {
        // A program that takes its value only attached would read an option here as an option, so
        // it is not consumed as a value.
        let following = |key| {
            let value = next.filter(|next| !is_like_option(next));
            value.map(|_| OptionValue::Next(key))
        };
        if let Some(long) = text.strip_prefix("--") {
            return match long.split_once('=') {
                Some((name, value)) => {
                    has(self.long_values, name).then_some(OptionValue::Inside(name, value))
                }
                None if has(self.long, long) => Some(OptionValue::Alone(long)),
                None if has(self.long_values, long) => following(long),
                None => None,
            };
        }
        let name = text.strip_prefix('-')?;
        if has(self.dash, name) {
            return Some(OptionValue::Alone(name));
        }
        if has(self.dash_values, name) {
            return following(name);
        }
        if let Some((bare, value)) = name.split_once('=')
            && has(self.dash_values, bare)
        {
            return Some(OptionValue::Inside(bare, value));
        }
        if self.numbers && name.bytes().all(|byte| byte.is_ascii_digit()) {
            return Some(OptionValue::Alone(name));
        }
        for (at, letter) in name.char_indices() {
            let (key, rest) = name.get(at..)?.split_at(letter.len_utf8());
            if self.short_maybe.contains(letter) {
                return Some(if rest.is_empty() {
                    OptionValue::Alone(key)
                } else {
                    OptionValue::Inside(key, rest)
                });
            }
            if self.short_values.contains(letter) {
                return if rest.is_empty() {
                    following(key)
                } else {
                    Some(OptionValue::Inside(key, rest))
                };
            }
            if !self.short.contains(letter) {
                return None;
            }
        }
        Some(OptionValue::Alone(name))
    }
}

/// How an option takes its value, if it has one; starts with the option that does.
enum OptionValue<'w> {
    Alone(&'w str),
    Inside(&'w str, &'w str),
    Next(&'w str),
}

/// Whether a word looks like an option, and not like a negative number or standard input.
fn is_like_option(word: &Word) -> bool {
    let rest = word.text().and_then(|text| text.strip_prefix('-'));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with(|c: char| c.is_ascii_digit()))
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
        short_maybe: "i",
        long: "numeric-sort reverse",
        long_values: "key",
        dash: "",
        dash_values: "",
        numbers: false,
        no_end: false,
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
    fn a_value_belongs_to_its_letter_wherever_it_stands() {
        for (text, key, value, attached) in [
            ("sort -rk2 f", "k", Some(1), Some("2")),
            ("sort -rk 2", "k", Some(2), None),
            ("sort --key=2 f", "key", Some(1), Some("2")),
            ("sort -ri f", "i", None, None),
            ("sort -riX f", "i", Some(1), Some("X")),
        ] {
            let given = scan(text).given.remove(0);
            assert_eq!(given.key, key, "{text}");
            assert_eq!(given.value, value, "{text}");
            assert_eq!(given.attached.as_deref(), attached, "{text}");
        }
    }

    #[test]
    fn after_a_word_that_does_not_fit_nothing_is_taken_for_a_value() {
        let sort = |text: &str| {
            let words: Vec<Word> = text.split(' ').map(Word::bare).collect();
            let sorted = SORT.sort(&words, 1);
            (sorted.operands, sorted.odd)
        };
        assert_eq!(sort("sort -k 2 f"), (vec![3], vec![]));
        assert_eq!(sort("sort -k -o f"), (vec![3], vec![1, 2]));
        assert_eq!(sort("sort -k -2 f"), (vec![3], vec![]));
        assert_eq!(sort("sort -x -k -o f"), (vec![4], vec![1, 2, 3]));
        assert_eq!(sort("sort -n -- -o"), (vec![3], vec![]));
        assert_eq!(sort("sort -x -- -o f"), (vec![4], vec![1, 3]));
        assert_eq!(sort("sort a* *"), (vec![1], vec![2]));
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
