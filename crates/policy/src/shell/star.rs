//! Which words of a command a star in a rule may match.
//!
//! A list of dangerous options always misses one, so this is an allow list: without a sandbox that
//! limits what a command could do, a star matches only options, subcommands and formats that
//! `commands.toml` lists for the program. Any other must be written out in the rule.

use super::{
    changes::takes_responses,
    entry::{Check, Class, Entry, Operands, OptionFit, Order, entry_of},
    options::has,
    table::harmless_mode,
    word::Word,
    wrapper::is_input,
};

/// The indexes of the words that a star does not match. For a program that is not in the table
/// these are its options: the author of `deploy *` knows its arguments, but we do not know its
/// options.
pub(super) fn unlisted(program: &str, words: &[Word]) -> Vec<usize> {
    let mut found = unlisted_words(program, words);
    if takes_responses(program) {
        // What `@file` adds is in the file.
        let response = |word: &Word| word.shown().starts_with('@');
        let places = 1..words.len();
        found.extend(places.filter(|place| words.get(*place).is_some_and(response)));
        found.sort_unstable();
        found.dedup();
    }
    found
}

fn unlisted_words(program: &str, words: &[Word]) -> Vec<usize> {
    let Some(mut entry) = entry_of(program) else {
        return options_among(words, 1);
    };
    let mut start = 1;
    loop {
        if entry.fits == OptionFit::Any {
            return Vec::new();
        }
        if entry.subcommands.is_empty() {
            return entry.unlisted(words, start);
        }
        let sorted = entry.starred_options(Order::First).sort(words, start);
        if let Some(first) = sorted.odd.first() {
            // It is uncertain which word is the subcommand.
            return (*first..words.len()).collect();
        }
        let Some(place) = sorted.operands.first() else {
            return Vec::new();
        };
        let name = words.get(*place).and_then(Word::text);
        match name.and_then(|name| entry.subcommands.get(name)) {
            Some(sub) => {
                entry = sub;
                start = place + 1;
            }
            None if entry.takes_operands() => return entry.unlisted(words, start),
            None => {
                let mut found = vec![*place];
                found.extend(options_among(words, place + 1));
                return found;
            }
        }
    }
}

/// Programs that run their input as a program, unless a word names or contains one.
const INTERPRETERS: &str =
    "python python2 python3 pypy pypy3 perl ruby node nodejs bun deno php lua luajit";

/// Programs that read commands from their input, unless told not to.
const CLIENTS: &str = "sqlite3 sqlite psql mysql mariadb";

/// Whether a command runs what workspace files or its input say, according to the entries a star
/// may match. If the subcommand is uncertain, it could be any of them.
pub(super) fn runs_files(program: &str, words: &[Word]) -> bool {
    if reads_a_program(program, words) {
        return true;
    }
    let Some(mut entry) = entry_of(program) else {
        return false;
    };
    let mut start = 1;
    loop {
        if entry.subcommands.is_empty() {
            return entry.class == Class::Runs;
        }
        let sorted = entry.starred_options(Order::First).sort(words, start);
        if !sorted.odd.is_empty() {
            return entry.may_run();
        }
        let Some(place) = sorted.operands.first() else {
            return entry.class == Class::Runs;
        };
        let name = words.get(*place).and_then(Word::text);
        match name.and_then(|name| entry.subcommands.get(name)) {
            Some(sub) => {
                entry = sub;
                start = place + 1;
            }
            None if name.is_none() => return entry.may_run(),
            None => return entry.class == Class::Runs,
        }
    }
}

/// Whether a program runs its input.
fn reads_a_program(program: &str, words: &[Word]) -> bool {
    let given = || words.iter().skip(1);
    // In Python `-v` means verbose.
    let says_its_version = given().any(|word| match word.shown() {
        "-V" | "--version" | "--help" => true,
        "-v" => !program.starts_with("py"),
        "-l" | "--list" => has(CLIENTS, program),
        _ => false,
    });
    let operands = || given().filter(|word| !word.may_be_option());
    if has(INTERPRETERS, program) {
        let first = given().find(|word| word.text() == Some("-") || !word.may_be_option());
        return !says_its_version && first.is_none_or(is_input);
    }
    if has(CLIENTS, program) {
        // With a statement after the file, SQLite runs only that.
        let stated = program.starts_with("sqlite") && operands().count() > 1;
        return !says_its_version && !stated;
    }
    false
}

/// Every word that may be an option of an unknown program.
fn options_among(words: &[Word], start: usize) -> Vec<usize> {
    let mut ended = false;
    let mut found = Vec::new();
    for (place, word) in words.iter().enumerate().skip(start) {
        let single = word.text() == Some("-");
        let plus = word.text().is_some_and(|text| text.starts_with('+'));
        if !ended && !single && (word.may_be_option() || plus) {
            found.push(place);
        }
        ended |= word.text() == Some("--");
    }
    found
}

impl Entry {
    /// Whether it or a subcommand of it runs what files say.
    fn may_run(&self) -> bool {
        self.class == Class::Runs || self.subcommands.values().any(Self::may_run)
    }

    fn takes_operands(&self) -> bool {
        self.operands != Operands::None || self.more_operands
    }

    fn unlisted(&self, words: &[Word], start: usize) -> Vec<usize> {
        // In `tar xfC a d` every letter is an option, and their values follow in turn.
        let cluster = words.get(start).filter(|_| self.old_style);
        let cluster = cluster.and_then(Word::text);
        if let Some(letters) = cluster.filter(|text| !text.starts_with('-')) {
            let lists = &self.starred;
            let listed = |c: char| lists.short.contains(c) || lists.short_values.contains(c);
            if !letters.chars().all(listed) {
                return (start..words.len()).collect();
            }
            let values = letters.chars().filter(|c| lists.short_values.contains(*c));
            return self.unlisted_from(words, start + 1 + values.count());
        }
        self.unlisted_from(words, start)
    }

    fn unlisted_from(&self, words: &[Word], start: usize) -> Vec<usize> {
        let sorted = self.starred_options(Order::Any).sort(words, start);
        let mut found = sorted.odd;
        let operands = sorted.operands;
        let special = |(option, value): &(String, String)| {
            has(&self.mode_options, option) && !harmless_mode(value)
        };
        if sorted.values.iter().any(special) {
            found.extend(start..words.len());
        }
        if !self.more_operands {
            let most = match (self.operands, self.max) {
                (Operands::None, _) => 0,
                (_, Some(max)) => max,
                (_, None) => operands.len(),
            };
            found.extend(operands.iter().skip(most));
        }
        if self.check != Check::Nothing {
            let patterned = words.iter().skip(start).any(|word| {
                let text = word.shown();
                let name = text.trim_start_matches('-');
                text.starts_with('-') && has(&self.pattern_options, name)
            });
            if !self.passes(words, &operands, patterned) {
                let start = if self.old_style { 1 } else { start };
                found.extend(start..words.len());
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Whether an option before the subcommand takes the next word.
    fn takes_next(&self, option: &str) -> bool {
        let name = option.trim_start_matches('-');
        if has(&self.other_values, name) || has(&self.starred.dash_values, name) {
            return true;
        }
        if self
            .starred
            .short_maybe
            .chars()
            .any(|letter| name.starts_with(letter))
        {
            return false;
        }
        if let Some(name) = option.strip_prefix("--") {
            return has(&self.starred.long_values, name) && !has(&self.starred.long, name);
        }
        let mut letters = name.chars();
        let last = letters.next_back();
        let flag = |letter: char| self.starred.short.contains(letter);
        last.is_some_and(|last| self.starred.short_values.contains(last)) && letters.all(flag)
    }

    /// Whether an option before the subcommand certainly takes no further word.
    fn stands_alone(&self, option: &str) -> bool {
        if let Some(name) = option.strip_prefix("--") {
            return name.contains('=') || has(&self.starred.long, name);
        }
        let name = option.trim_start_matches('-');
        let flag = |letter: char| self.starred.short.contains(letter);
        let takes = |letter: char| self.starred.short_values.contains(letter);
        // `-Cdir`: the value is attached.
        let inside = name.len() > 1 && name.starts_with(takes);
        let maybe = |letter: char| self.starred.short_maybe.contains(letter);
        has(&self.starred.dash, name) || inside || name.starts_with(maybe) || name.chars().all(flag)
    }
}

/// How an option before a program's subcommand is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeadingOption {
    /// The next word is its value.
    TakesNext,
    /// It takes no value from the next word.
    Alone,
    /// It is not listed, so the next word may be its value.
    Unlisted,
}

/// How an option before a program's subcommand is read.
pub(crate) fn leading(program: &str, option: &str) -> LeadingOption {
    match entry_of(program) {
        Some(entry) if entry.takes_next(option) => LeadingOption::TakesNext,
        Some(entry) if entry.stands_alone(option) => LeadingOption::Alone,
        Some(_) | None => LeadingOption::Unlisted,
    }
}

/// Whether the word after a program determines what it does.
pub(crate) fn has_subcommands(program: &str) -> bool {
    entry_of(program).is_some_and(|entry| !entry.subcommands.is_empty())
}

/// Whether the first operand of a program is a cluster of options, as in `tar xf a`.
pub(crate) fn reads_clusters(program: &str) -> bool {
    entry_of(program).is_some_and(|entry| entry.old_style)
}

/// The operands with subcommand aliases resolved; `None` if there are none.
pub(crate) fn one_name_each<'s>(program: &str, operands: &[&'s str]) -> Option<Vec<&'s str>>
where
    'static: 's,
{
    let entry: &'static Entry = entry_of(program)?;
    let others = entry
        .other_names
        .split(';')
        .filter_map(|one| one.trim().split_once('='));
    others.into_iter().find_map(|(other, name)| {
        let other: Vec<&str> = other.split(' ').collect();
        let rest = operands.strip_prefix(other.as_slice())?;
        let name = name.split(' ');
        Some(name.chain(rest.iter().copied()).collect())
    })
}

/// The index of the last word that may be the subcommand: everything up to it may be an option of
/// the program itself.
pub(super) fn subcommand_place(program: &str, words: &[Word]) -> usize {
    let mut place = 1;
    while let Some(word) = words.get(place) {
        let Some(option) = word.text().filter(|text| text.starts_with('-')) else {
            return place;
        };
        place += match leading(program, option) {
            LeadingOption::TakesNext => 2,
            LeadingOption::Alone => 1,
            LeadingOption::Unlisted => return words.len(),
        };
    }
    words.len()
}

/// All equivalent spellings of an option, for a program and the operands after it.
pub(crate) fn spellings(program: &str, operands: &[&str], option: &str) -> Vec<&'static str> {
    let mut entry = entry_of(program);
    let mut operands = operands.iter();
    let mut found = Vec::new();
    while let Some(here) = entry {
        let groups = here.same.split(';').filter(|group| has(group, option));
        found.extend(groups.flat_map(str::split_ascii_whitespace));
        entry = operands.next().and_then(|name| here.subcommands.get(*name));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn odd(text: &str) -> Vec<String> {
        let words: Vec<Word> = text.split(' ').map(Word::bare).collect();
        let program = words[0].text().unwrap().to_owned();
        let places = unlisted(&program, &words);
        places
            .iter()
            .map(|place| words[*place].raw.clone())
            .collect()
    }

    #[test]
    fn a_star_stands_for_what_is_listed() {
        for text in [
            "ls -la --anything x",
            "git push -u origin main",
            "git -C sub push",
            "git log --oneline -5",
            "tar tzf a.tgz",
            "tar -C out -cf a.tgz x",
            "gcc -O -Wall f.c",
            "make -j 4 all",
            "mkdir -m 755 d",
            "git push git@host:a/b main",
            "rm -rf build",
            "docker ps -a",
            "kubectl -n prod get pods -o wide",
            "npm install --save-dev x",
            "deploy staging",
        ] {
            assert_eq!(odd(text), [] as [&str; 0], "{text}");
        }
    }

    #[test]
    fn a_star_does_not_stand_for_what_is_not() {
        for (text, wanted) in [
            ("tar cIf ./x o f", vec!["cIf", "./x", "o", "f"]),
            ("tar xfI a.tar ./x", vec!["xfI", "a.tar", "./x"]),
            ("split --filter=x f", vec!["--filter=x"]),
            ("git -c a=b log", vec!["-c", "a=b", "log"]),
            ("git remote-ext x", vec!["remote-ext"]),
            ("git log --output=f", vec!["--output=f"]),
            ("deploy --hook x", vec!["--hook"]),
            ("gcc -B x f.c", vec!["-B"]),
            ("gcc -O -Bx f.c", vec!["-Bx"]),
            ("nm @f", vec!["@f"]),
            ("git push ./bare main", vec!["./bare", "main"]),
            ("ip netns exec x", vec!["netns"]),
            (
                "ssh host -oProxyCommand=x",
                vec!["host", "-oProxyCommand=x"],
            ),
            ("tar cf u@h:/x f", vec!["cf", "u@h:/x", "f"]),
            ("mkdir -m 4755 d", vec!["-m", "4755", "d"]),
            ("tar xf a.tar", vec!["xf", "a.tar"]),
            ("curl -w %output{x} u", vec!["-w"]),
        ] {
            assert_eq!(odd(text), wanted, "{text}");
        }
    }

    #[test]
    fn what_files_and_input_say_is_run_in_every_spelling() {
        let runs = |text: &str| {
            let words: Vec<Word> = text.split(' ').map(Word::bare).collect();
            runs_files(words[0].text().unwrap(), &words)
        };
        for text in [
            "make -B all",
            "cargo -q run",
            "npm -s test",
            "git commit --amend",
            "npm install",
            "pip install .",
            "cargo install --path .",
            "jest",
            "vitest run",
            "terraform plan",
            "docker build .",
            "node --test",
            "unzip a.zip",
            "patch -p1",
            "python3 -",
            "python3 -u",
            "perl /dev/stdin",
            "sqlite3 db",
            "psql -h host db",
            "git --odd commit",
        ] {
            assert!(runs(text), "{text}");
        }
        for text in [
            "git status",
            "git push origin main",
            "python3 s.py",
            "python3 --version",
            "sqlite3 db select",
            "npm ls",
            "ls -l",
            "docker ps",
            "psql -l",
        ] {
            assert!(!runs(text), "{text}");
        }
    }

    #[test]
    fn the_subcommand_is_found_behind_every_option() {
        let place = |text: &str| {
            let words: Vec<Word> = text.split(' ').map(Word::bare).collect();
            subcommand_place("git", &words)
        };
        assert_eq!(place("git log -c"), 1);
        assert_eq!(place("git -C . -c a=b z"), 5);
        assert_eq!(place("git --git-dir=x --no-pager log"), 3);
        assert_eq!(place("git --new x config"), 4);
    }
}
