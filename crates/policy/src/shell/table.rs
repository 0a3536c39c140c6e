//! The commands known to be ordinary: which of their words are paths, and whether they read or
//! build. A command that does not fit its entry (`entry.rs`) in every word is not known.

use haft_contract::PathMode;

use super::{
    entry::{Check, Class, Entry, Operands, OptionFit, Order, Writes, entry_of},
    hazard::{harmless_awk, harmless_sed},
    options::{Scanned, has},
    word::{Value, Word},
};

/// A command that fits its entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KnownCommand {
    pub(super) class: Class,
    /// The indexes of the words that are paths, and how they are used.
    pub(super) paths: Vec<(usize, PathMode)>,
    /// The indexes of words that would be hazards if the entry did not account for them.
    pub(super) accounted: Vec<usize>,
    /// Whether these are all its paths. If not, other words may be paths too.
    pub(super) exact: bool,
}

/// What is known about a command: its program (without a directory) and all its words.
pub(super) fn known(program: &str, words: &[Word]) -> Option<KnownCommand> {
    let mut entry = entry_of(program)?;
    let mut start = 1;
    let mut outer = Vec::new();
    let with = |known: Option<KnownCommand>, outer: Vec<(usize, PathMode)>| {
        let mut known = known?;
        known.paths.extend(outer);
        Some(known)
    };
    loop {
        if entry.by_rule {
            return None;
        }
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
struct FittingWords {
    operands: Vec<usize>,
    /// Options with an attached value that may be a path.
    inside: Vec<usize>,
    /// Whether an option holds the pattern, so that no operand does.
    patterned: bool,
    /// Options that make it change its files.
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
        // The target stays last.
        Some(
            read.chain(paths.map(|(at, place)| (*place, mode(at))))
                .collect(),
        )
    }
}

impl Entry {
    fn known(&self, words: &[Word], start: usize) -> Option<KnownCommand> {
        let fitting = match self.fits {
            OptionFit::Any => self.any_words(words, start)?,
            OptionFit::Listed | OptionFit::Some => self.listed_words(words, start)?,
        };
        let FittingWords {
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
        // What is written must be known by name; a glob could match a protected one.
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
        Some(KnownCommand {
            class,
            paths,
            accounted: changing,
            exact: class != Class::Runs,
        })
    }

    /// Every option is listed, and no word is known only when it runs.
    fn listed_words(&self, words: &[Word], start: usize) -> Option<FittingWords> {
        let scanned = self.options(Order::Any).scan(words, start);
        let idle = self.fits == OptionFit::Some && scanned.given.is_empty();
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
        let modes = scanned
            .given
            .iter()
            .filter(|given| has(&self.mode_options, &given.key));
        if !modes
            .into_iter()
            .all(|given| given.value_in(words).is_some_and(harmless_mode))
        {
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
        Some(FittingWords {
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

    /// Accepts every word unless it is known only when it runs.
    fn any_words(&self, words: &[Word], start: usize) -> Option<FittingWords> {
        let mut fitting = FittingWords::default();
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
                // One letter of a cluster is enough: `-rne`, `-fFILE`. If it was another option's
                // value, a pattern counts as a path, which only makes the answer stricter.
                None => option
                    .chars()
                    .any(|letter| has(&self.pattern_options, letter.encode_utf8(&mut [0; 4]))),
            };
            // An attached value may be a path.
            let path = |letter: char| has(&self.path_options, letter.encode_utf8(&mut [0; 4]));
            let cluster = !option.starts_with('-') && option.chars().any(path);
            if option.contains(['=', '/', '.']) || cluster {
                fitting.inside.push(place);
            }
        }
        Some(fitting)
    }

    pub(super) fn passes(&self, words: &[Word], operands: &[usize], patterned: bool) -> bool {
        let harmless: fn(&str) -> bool = match self.check {
            Check::Nothing => return true,
            Check::Set => return words.iter().skip(1).all(is_option_of_set),
            Check::Printf => harmless_format,
            Check::Mode => harmless_mode,
            Check::Sqlite => {
                let statements = operands.iter().skip(1);
                let texts = statements.map(|place| words.get(*place).and_then(Word::text));
                return texts
                    .into_iter()
                    .all(|text| text.is_some_and(harmless_statement));
            }
            Check::Remote => {
                let first = operands.first().and_then(|place| words.get(*place));
                return first.is_none_or(|word| word.text().is_some_and(is_remote));
            }
            Check::Local => return !words.iter().skip(1).any(names_a_machine),
            Check::Host => {
                let next = operands.first().and_then(|place| words.get(place + 1));
                return !next.is_some_and(Word::may_be_option);
            }
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
        // With `-e` the programs are option values, which the hazards already cover.
        if patterned {
            return true;
        }
        let program = operands.first().and_then(|place| words.get(*place));
        program.and_then(Word::text).is_some_and(harmless)
    }
}

/// Shell options that change how a script fails and what it shows. Any other may change how the
/// rest of the script is read: `set -o history`, `set -o keyword`.
const OPTIONS_OF_SET: [&str; 4] = ["errexit", "nounset", "pipefail", "xtrace"];

/// Whether a word of `set` is such an option, or the name of one.
fn is_option_of_set(word: &Word) -> bool {
    let Some(text) = word.text() else {
        return false;
    };
    match text.strip_prefix(['-', '+']) {
        // `o` must be last, because the next word is its value.
        Some(letters) => {
            let letters = letters.strip_suffix('o').unwrap_or(letters);
            text.len() > 1 && letters.chars().all(|letter| "eux".contains(letter))
        }
        None => OPTIONS_OF_SET.contains(&text),
    }
}

/// Whether a `printf` format only prints: `%n` assigns to the variable that a word names.
pub(super) fn harmless_format(format: &str) -> bool {
    let mut rest = format;
    while let Some((_, after)) = rest.split_once('%') {
        if let Some(after) = after.strip_prefix('%') {
            rest = after;
            continue;
        }
        let conversion =
            after.trim_start_matches(|c: char| c.is_ascii_digit() || "-+ #'0.*hlLjzt$".contains(c));
        // A final letter that is also a length, as in `%l`, converts nothing.
        if conversion.starts_with('n') {
            return false;
        }
        rest = after;
    }
    true
}

/// Whether a mode sets no set-user-id or set-group-id bit, by letters or by a number, alone or
/// after a sign (`+4000`).
pub(super) fn harmless_mode(mode: &str) -> bool {
    let harmless_bits = |digits: &str| {
        let bits = u32::from_str_radix(digits, 8).unwrap_or(u32::MAX);
        bits & 0o6000 == 0 && bits <= 0o7777
    };
    let mut numbers = mode
        .split(|c: char| !c.is_ascii_digit())
        .filter(|digits| !digits.is_empty());
    numbers.all(harmless_bits) && !mode.contains('s') && !mode.starts_with('-')
}

/// Whether a git operand is the name of a remote or an address, and not a local directory: pushing
/// to one runs the hooks in it.
fn is_remote(text: &str) -> bool {
    let address = text.contains(':') && !text.starts_with("file:");
    let directory = text.starts_with(['.', '/', '~']) || text.contains('/');
    address || (!directory && !text.starts_with("file:"))
}

/// Whether a tar operand may name a file on another machine, which tar runs a program to reach.
fn names_a_machine(word: &Word) -> bool {
    let text = word.shown();
    let value = match text.strip_prefix("--") {
        Some(long) => long.split_once('=').map_or("", |(_, value)| value),
        None => text,
    };
    let before = value.split_once(':').map(|(before, _)| before);
    before.is_some_and(|before| !before.contains('/'))
}

/// Whether this is a SQLite statement that calls nothing outside its database.
fn harmless_statement(statement: &str) -> bool {
    const NEVER: [&str; 11] = [
        "pragma",
        "virtual",
        "zipfile",
        "fsdir",
        "sqlar",
        "load_extension",
        "writefile",
        "readfile",
        "edit",
        "attach",
        "vacuum",
    ];
    const FIRST: [&str; 9] = [
        "select", "insert", "update", "delete", "create", "drop", "alter", "explain", "with",
    ];
    let lower = statement.trim().to_ascii_lowercase();
    let commands = lower.lines().any(|line| line.trim_start().starts_with('.'));
    !commands
        && FIRST.iter().any(|word| lower.starts_with(word))
        && NEVER.iter().all(|word| !lower.contains(word))
}

fn harmless_jq(filter: &str) -> bool {
    const NEVER: [&str; 5] = ["env", "ENV", "include", "import", "input"];
    NEVER.iter().all(|word| !filter.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_modes_and_statements() {
        for format in [r"%s\n", "%5.2f %d", "100%%n", "%(%Y)T", "n", "%%", "%"] {
            assert!(harmless_format(format), "{format}");
        }
        for format in ["x%n", "%5n", "%-*n", "%ln", "%%%n", "%s%hhn"] {
            assert!(!harmless_format(format), "{format}");
        }
        for mode in ["644", "0755", "+x", "u+rwx,go-w", "1777", "a=rX", "+t"] {
            assert!(harmless_mode(mode), "{mode}");
        }
        for mode in [
            "4755", "u+s", "g+s", "+s", "02755", "u=rwxs", "6000", "00004755", "+4000", "=4755",
            "a=6777",
        ] {
            assert!(!harmless_mode(mode), "{mode}");
        }
        for text in ["select 1", " SELECT * from t;", "insert into t values (1)"] {
            assert!(harmless_statement(text), "{text}");
        }
        for text in [
            ".sh id",
            "select 1;\n .shell id",
            "select load_extension('x')",
            "pragma x",
            "select 1; pragma x",
            "create virtual table t using zipfile('x')",
        ] {
            assert!(!harmless_statement(text), "{text}");
        }
    }

    #[test]
    fn set_changes_only_how_a_script_fails_and_what_it_shows() {
        for text in [
            "set -e",
            "set -euo pipefail",
            "set +e",
            "set -o pipefail",
            "set -x +u",
        ] {
            assert_eq!(class(text), Some(Class::Looks), "{text}");
        }
        for text in [
            "set -o history",
            "set -o keyword",
            "set -k",
            "set -H",
            "set -eo posix",
            "set a b",
            "set --",
            "set +B",
        ] {
            assert_eq!(class(text), None, "{text}");
        }
    }

    fn class(text: &str) -> Option<Class> {
        let words: Vec<Word> = text.split(' ').map(Word::bare).collect();
        let program = words.first()?.text()?.to_owned();
        known(&program, &words).map(|known| known.class)
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
