//! The commands that are known to be ordinary, from `commands.toml`: which words of them are paths,
//! and whether they look or build. A command that does not fit its entry in every word is not known.

use std::{collections::HashMap, sync::LazyLock};

use haft_contract::PathMode;
use toml::{Table, Value as Toml};

use super::{
    hazard::{harmless_awk, harmless_sed},
    options::{Options, Scanned, has},
    word::{Value, Word},
};

/// What a known command does.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// It looks, and that is all.
    #[default]
    Looks,
    /// It changes the files its words name, and nothing else.
    Changes,
    /// It runs what files in the workspace say: builds, tests, formatters, hooks.
    Runs,
    /// Nothing is known about it.
    Unknown,
}

/// A known command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) class: Class,
    /// The places of the words that are paths, and what it does to them.
    pub(super) paths: Vec<(usize, PathMode)>,
    /// The places of words that would be hazards if the entry did not say what they do.
    pub(super) accounted: Vec<usize>,
    /// Whether all its paths are among them. Where not, other words may be paths too.
    pub(super) exact: bool,
}

/// An entry of the table.
#[derive(Debug, Default)]
struct Entry {
    short: String,
    short_values: String,
    long: String,
    long_values: String,
    dash: String,
    dash_values: String,
    pattern_options: String,
    path_options: String,
    changes_with: String,
    writes: Writes,
    numbers: bool,
    fits: Fits,
    class: Class,
    operands: Operands,
    max: Option<usize>,
    check: Check,
    subcommands: HashMap<String, Entry>,
}

/// Which options a command may have and still be the one of the entry.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Fits {
    /// Those that are listed.
    #[default]
    Listed,
    /// Those that are listed, and at least one: without any it is an interpreter of its input.
    Some,
    /// All.
    Any,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Operands {
    #[default]
    None,
    Paths,
    Text,
    /// The first is text.
    Pattern,
}

/// Which of its paths a command writes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Writes {
    #[default]
    Nothing,
    All,
    /// The last of at least two.
    Last,
    /// All, and all but the last are read too, because their content is found elsewhere afterwards.
    Moved,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Check {
    #[default]
    Nothing,
    Sed,
    Awk,
    Jq,
    /// Every operand starts with `+`.
    Plus,
}

/// Read once, when the first command is judged. A fault in the table is an empty table, and so an
/// answer that asks; a test reads it strictly.
static TABLE: LazyLock<HashMap<String, Entry>> =
    LazyLock::new(|| read(include_str!("commands.toml")).unwrap_or_default());

/// What is known about a command: its program (without a directory) and all its words.
pub(super) fn known(program: &str, words: &[Word]) -> Option<Known> {
    let mut entry = TABLE.get(program)?;
    let mut start = 1;
    let mut outer = Vec::new();
    let with = |known: Option<Known>, outer: Vec<(usize, PathMode)>| {
        let mut known = known?;
        known.paths.extend(outer);
        Some(known)
    };
    loop {
        if entry.subcommands.is_empty() {
            return with(entry.known(words, start), outer);
        }
        let scanned = entry.options(Order::First).scan(words, start);
        if scanned.odd.is_some() {
            return None;
        }
        outer.extend(entry.path_values(&scanned));
        let Some(place) = scanned.operands.first() else {
            // `cargo --version`; without even an option it would be `git stash`.
            let known = (!scanned.given.is_empty()).then(|| entry.known(words, start))?;
            return with(known, outer);
        };
        let name = words.get(*place)?.text()?;
        match entry.subcommands.get(name) {
            Some(sub) => {
                entry = sub;
                start = place + 1;
            }
            None if entry.operands != Operands::None => {
                return with(entry.known(words, start), outer);
            }
            None => return None,
        }
    }
}

/// The words of a command that fits its entry.
#[derive(Default)]
struct Fitting {
    operands: Vec<usize>,
    /// Options with a value in them that may be a path.
    inside: Vec<usize>,
    /// Whether an option holds the pattern, so that no operand does.
    patterned: bool,
    /// Options by which it changes its files.
    changing: Vec<usize>,
}

impl Writes {
    fn of(self, paths: &[usize]) -> Option<Vec<(usize, PathMode)>> {
        let last = paths.len().saturating_sub(1);
        if self == Self::Last && last == 0 {
            return None;
        }
        let mode = |at: usize| match self {
            Self::Nothing => PathMode::Read,
            Self::Last if at != last => PathMode::Read,
            Self::All | Self::Last | Self::Moved => PathMode::Write,
        };
        let moved = match self {
            Self::Moved => paths.get(..last).unwrap_or_default(),
            Self::Nothing | Self::All | Self::Last => &[],
        };
        let read = moved.iter().map(|place| (*place, PathMode::Read));
        let paths = paths.iter().enumerate();
        // The target stays the last.
        Some(
            read.chain(paths.map(|(at, place)| (*place, mode(at))))
                .collect(),
        )
    }
}

enum Order {
    /// Options end at the first operand.
    First,
    /// Options stand anywhere.
    Any,
}

impl Entry {
    fn options(&self, order: Order) -> Options<'_> {
        Options {
            short: &self.short,
            short_values: &self.short_values,
            short_maybe: "",
            long: &self.long,
            long_values: &self.long_values,
            dash: &self.dash,
            dash_values: &self.dash_values,
            numbers: self.numbers,
            anywhere: matches!(order, Order::Any),
        }
    }

    fn known(&self, words: &[Word], start: usize) -> Option<Known> {
        let fitting = match self.fits {
            Fits::Any => self.any_words(words, start)?,
            Fits::Listed | Fits::Some => self.listed_words(words, start)?,
        };
        let Fitting {
            operands,
            inside,
            patterned,
            changing,
        } = fitting;
        if self.max.is_some_and(|max| operands.len() > max) {
            return None;
        }
        if !self.passes(words, &operands, patterned) {
            return None;
        }
        let paths = match self.operands {
            Operands::None if !operands.is_empty() => return None,
            Operands::None | Operands::Text => Vec::new(),
            Operands::Pattern if !patterned => operands.get(1..).unwrap_or_default().to_vec(),
            Operands::Pattern | Operands::Paths => operands,
        };
        let writes = if changing.is_empty() {
            self.writes
        } else {
            Writes::All
        };
        let mut paths = writes.of(&paths)?;
        // What is written must be known by name; a glob could be a protected one.
        let literal = |(place, mode): &(usize, PathMode)| {
            let word = words.get(*place);
            *mode == PathMode::Read || word.is_some_and(|word| word.text().is_some())
        };
        if !paths.iter().all(literal) {
            return None;
        }
        paths.extend(inside.into_iter().map(|place| (place, PathMode::Read)));
        let class = match (self.class, writes) {
            (Class::Looks, Writes::All | Writes::Last | Writes::Moved) => Class::Changes,
            (class, _) => class,
        };
        Some(Known {
            class,
            paths,
            accounted: changing,
            exact: class != Class::Runs,
        })
    }

    /// Every option is listed, and no word is known only when it runs.
    fn listed_words(&self, words: &[Word], start: usize) -> Option<Fitting> {
        let scanned = self.options(Order::Any).scan(words, start);
        let idle = self.fits == Fits::Some && scanned.given.is_empty();
        if scanned.odd.is_some() || idle {
            return None;
        }
        let literal = |place: &usize| {
            let word = words.get(*place);
            word.is_some_and(|word| !matches!(word.value, Value::Unknown | Value::Given))
        };
        let values = scanned
            .given
            .iter()
            .filter_map(|given| given.value.as_ref());
        if !scanned.operands.iter().all(literal) || !values.into_iter().all(literal) {
            return None;
        }
        let given = |list: &str| {
            let mut given = scanned.given.iter();
            given.any(|given| has(list, &given.name) || has(list, &given.key))
        };
        let changing = words
            .iter()
            .enumerate()
            .skip(start)
            .filter(|(_, word)| {
                let option = word.text().and_then(|text| text.strip_prefix('-'));
                option.is_some_and(|name| has(&self.changes_with, name.trim_start_matches('-')))
            })
            .map(|(place, _)| place);
        Some(Fitting {
            inside: self.path_values(&scanned).map(|(place, _)| place).collect(),
            patterned: given(&self.pattern_options),
            changing: if given(&self.changes_with) {
                changing.collect()
            } else {
                Vec::new()
            },
            operands: scanned.operands,
        })
    }

    /// The values of options that are paths.
    fn path_values(&self, scanned: &Scanned) -> impl Iterator<Item = (usize, PathMode)> {
        scanned.given.iter().filter_map(|given| {
            let listed = has(&self.path_options, &given.key);
            let place = given.value.filter(|_| listed);
            place.map(|place| (place, PathMode::Read))
        })
    }

    /// Every word fits, unless it is known only when it runs.
    fn any_words(&self, words: &[Word], start: usize) -> Option<Fitting> {
        let mut fitting = Fitting::default();
        for (place, word) in words.iter().enumerate().skip(start) {
            if word.value == Value::Unknown {
                return None;
            }
            let text = word.shown();
            let Some(option) = text.strip_prefix('-').filter(|rest| !rest.is_empty()) else {
                fitting.operands.push(place);
                continue;
            };
            fitting.patterned |= match option.strip_prefix('-') {
                Some(long) => {
                    let name = long.split_once('=').map_or(long, |(name, _)| name);
                    has(&self.pattern_options, name)
                }
                // One letter of a cluster is enough: `-rne`, `-fFILE`. Where it was another's value,
                // a pattern is taken for a path, which only makes the answer stricter.
                None => option
                    .chars()
                    .any(|letter| has(&self.pattern_options, letter.encode_utf8(&mut [0; 4]))),
            };
            // A value that is written into the option may be a path.
            let path = |letter: char| has(&self.path_options, letter.encode_utf8(&mut [0; 4]));
            let cluster = !option.starts_with('-') && option.chars().any(path);
            if option.contains(['=', '/', '.']) || cluster {
                fitting.inside.push(place);
            }
        }
        Some(fitting)
    }

    fn passes(&self, words: &[Word], operands: &[usize], patterned: bool) -> bool {
        let harmless: fn(&str) -> bool = match self.check {
            Check::Nothing => return true,
            Check::Sed => harmless_sed,
            Check::Awk => harmless_awk,
            Check::Jq => harmless_jq,
            Check::Plus => {
                let texts = operands
                    .iter()
                    .map(|place| words.get(*place).and_then(Word::text));
                return texts
                    .into_iter()
                    .all(|text| text.is_some_and(|text| text.starts_with('+')));
            }
        };
        // With `-e` the programs are option values; hazards have looked at those.
        if patterned {
            return true;
        }
        let program = operands.first().and_then(|place| words.get(*place));
        program.and_then(Word::text).is_some_and(harmless)
    }
}

fn harmless_jq(filter: &str) -> bool {
    const NEVER: [&str; 5] = ["env", "ENV", "include", "import", "input"];
    NEVER.iter().all(|word| !filter.contains(word))
}

fn read(text: &str) -> Result<HashMap<String, Entry>, String> {
    let table: Table = text
        .parse()
        .map_err(|error: toml::de::Error| error.to_string())?;
    table
        .into_iter()
        .map(|(name, value)| match value {
            Toml::Table(table) => Ok((name, entry(table)?)),
            other => Err(format!("`{name}` is {other}, not a table")),
        })
        .collect()
}

fn entry(table: Table) -> Result<Entry, String> {
    let mut entry = Entry::default();
    for (key, value) in table {
        match (key.as_str(), value) {
            ("short", Toml::String(text)) => entry.short = text,
            ("short_values", Toml::String(text)) => entry.short_values = text,
            ("long", Toml::String(text)) => entry.long = text,
            ("long_values", Toml::String(text)) => entry.long_values = text,
            ("dash", Toml::String(text)) => entry.dash = text,
            ("dash_values", Toml::String(text)) => entry.dash_values = text,
            ("pattern_options", Toml::String(text)) => entry.pattern_options = text,
            ("path_options", Toml::String(text)) => entry.path_options = text,
            ("changes_with", Toml::String(text)) => entry.changes_with = text,
            ("writes", Toml::String(text)) => {
                entry.writes = match text.as_str() {
                    "all" => Writes::All,
                    "last" => Writes::Last,
                    "moved" => Writes::Moved,
                    other => return Err(format!("unknown writes `{other}`")),
                };
            }
            ("numbers", Toml::Boolean(flag)) => entry.numbers = flag,
            ("any", Toml::Boolean(true)) => entry.fits = Fits::Any,
            ("needs_option", Toml::Boolean(true)) => entry.fits = Fits::Some,
            ("runs", Toml::Boolean(true)) => entry.class = Class::Runs,
            ("max", Toml::Integer(max)) => {
                entry.max = Some(usize::try_from(max).map_err(|error| error.to_string())?);
            }
            ("operands", Toml::String(text)) => {
                entry.operands = match text.as_str() {
                    "none" => Operands::None,
                    "paths" => Operands::Paths,
                    "text" => Operands::Text,
                    "pattern" => Operands::Pattern,
                    other => return Err(format!("unknown operands `{other}`")),
                };
            }
            ("check", Toml::String(text)) => {
                entry.check = match text.as_str() {
                    "sed" => Check::Sed,
                    "awk" => Check::Awk,
                    "jq" => Check::Jq,
                    "plus" => Check::Plus,
                    other => return Err(format!("unknown check `{other}`")),
                };
            }
            (_, Toml::Table(table)) => {
                entry.subcommands.insert(key, self::entry(table)?);
            }
            (other, value) => return Err(format!("unknown key `{other}` = {value}")),
        }
    }
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(text: &str) -> Option<Class> {
        let words: Vec<Word> = text.split(' ').map(Word::bare).collect();
        let program = words.first()?.text()?.to_owned();
        known(&program, &words).map(|known| known.class)
    }

    #[test]
    fn the_table_can_be_read() {
        let table = read(include_str!("commands.toml")).unwrap();
        assert!(table.len() > 100, "{}", table.len());
    }

    #[test]
    fn a_command_is_known_only_if_every_word_fits() {
        for text in [
            "ls -la src",
            "git log --oneline -5",
            "git -C sub status -s",
            "git stash list",
            "sort -k2 -n f",
            "find . -name x -type f",
            "rg -n x src",
            "sed -n 1,5p f",
        ] {
            assert_eq!(class(text), Some(Class::Looks), "{text}");
        }
        for text in [
            "touch a",
            "cp a b",
            "cp -r src/* b",
            "sed -i s/a/b/ f",
            "chmod +x f",
        ] {
            assert_eq!(class(text), Some(Class::Changes), "{text}");
        }
        for text in [
            "cargo --version",
            "cargo test -p x name",
            "rustc -V",
            "go env",
            "git add -A",
            "git commit -am x",
        ] {
            assert_eq!(class(text), Some(Class::Runs), "{text}");
        }
        for text in [
            "git push",
            "git stash",
            "git branch new",
            "git -c a=b status",
            "sort -o f",
            "uniq a b",
            "find . -delete",
            "rg --pre x y",
            "sed -i 1e f",
            "sed -ni p f",
            "sed 1e f",
            "rm -r x",
            "cp a",
            "touch a*",
            "date -s x",
            "cargo install x",
            "git reset --hard",
            "git checkout main",
            "git commit",
            "hostname new",
            "python3",
            "node",
            "date 010100002026",
        ] {
            assert_eq!(class(text), None, "{text}");
        }
    }
}
