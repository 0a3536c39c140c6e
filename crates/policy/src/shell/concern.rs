//! What about a command would concern a person even where a sandbox without network holds it: it
//! reaches for what the sandbox keeps away, loses what `haft undo` cannot bring back, or acts after
//! the call. The presets ask about these and leave the rest to the sandbox.
//!
//! This reads words and can be deceived (`python -c`), so it only chooses between asking and not
//! asking. What a command can do is decided by the sandbox. The forms are in `concerns.toml`.

use std::{borrow::Cow, fmt};

use super::{
    addresses::reaches_only_itself,
    command_form::{CommandForms, FormCheck, FormList, command_forms},
    git_settings::overrides_settings,
    launcher::launched,
    leads_out::leads_out,
    parsed::{Assignment, Redirection},
    remade::finds_what_is_remade,
    routine::known_words,
    segment::name_of,
    star::subcommand_place,
    touch::Directories,
    word::{Value, Word},
};

/// Why a person should be asked about a command that the sandbox holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Concern {
    /// It gets or sends something over a network.
    Network,
    /// It loses history that is nowhere else.
    History,
    /// It deletes something that no command makes again.
    Deletes,
    /// It changes settings that act later.
    Settings,
    /// It gives git settings for one command, which can make it run or delete anything.
    GivenSettings,
    /// It is about credentials.
    Credentials,
    /// It changes the system.
    System,
    /// It ends processes that it did not start.
    Processes,
    /// It stays after the call.
    Stays,
    /// It leads out of the workspace.
    Outside,
    /// The table of concerns could not be read.
    Unread,
}

impl fmt::Display for Concern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Network => "it reaches for the network or for what others have",
            Self::History => "it can lose history that is nowhere else",
            Self::Deletes => "it may delete something that no command makes again",
            Self::Settings => "it changes settings that act later",
            Self::GivenSettings => {
                "it gives git settings that can make it run or delete other things"
            }
            Self::Credentials => "it is about credentials",
            Self::System => "it changes the system",
            Self::Processes => "it ends processes that it did not start",
            Self::Stays => "it may still run after the call",
            Self::Outside => "it leads out of the workspace",
            Self::Unread => "the table of concerns could not be read",
        })
    }
}

/// What the words of a command say about it, beyond what it is allowed to touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CommandConcerns {
    pub(super) concerns: Vec<Concern>,
    /// Whether it deletes or rewrites anything, even if that can be taken back.
    pub(super) loses: bool,
    /// If it builds, tests, checks, looks or commits, and is not there to change files: the indexes of
    /// the words whose effect is known.
    pub(super) routine: Option<Vec<usize>>,
}

/// A command and where it stands.
pub(super) struct CommandPlace<'c> {
    /// The program without its directory.
    pub(super) name: &'c str,
    pub(super) words: &'c [Word],
    pub(super) assignments: &'c [Assignment],
    pub(super) redirections: &'c [Redirection],
    pub(super) directories: &'c Directories<'c>,
    /// The words of the `find` that runs it, if one does.
    pub(super) finder: Option<&'c [Word]>,
    /// What the table of commands knows about a word.
    pub(super) role: &'c dyn Fn(usize) -> WordRole,
}

/// Whether a word is a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WordRole {
    /// It is one.
    Path,
    /// It is text.
    Text,
    /// It may be one.
    Unknown,
}

/// Reads a command.
pub(super) fn read(command: &CommandPlace<'_>) -> CommandConcerns {
    let Some(forms) = command_forms() else {
        return CommandConcerns {
            concerns: vec![Concern::Unread],
            loses: true,
            routine: None,
        };
    };
    let mut found = CommandConcerns::default();
    let (mut name, mut words) = as_subcommand_of_git(command.name, command.words);
    // Words that are not the command's own have no index among them.
    let mut launchers = (words.len() == command.words.len()).then_some(0);
    let mut depth = 0;
    loop {
        let place = subcommand_place(&name, &words);
        for list in forms.lists(&name, &words, place, |check| {
            command.holds(forms, check, &name, &words)
        }) {
            found.add(list);
        }
        if overrides_settings(&name, &words, command.assignments, place) {
            found.push(Concern::GivenSettings);
        }
        if let Some(before) = launchers
            && found.routine.is_none()
        {
            let inner = command.with(&name, &words);
            let known = known_words(&inner, &name, &words, place);
            let places = |known: Vec<usize>| {
                let own = known.into_iter().map(|place| place + before);
                (0..before).chain(own).collect()
            };
            found.routine = known.map(places);
        }
        // `npx jest` is `jest`, `python -m pip` is `pip`; what they add is read before.
        let Some(inner) = launched(&name, &words).filter(|_| depth < MAX_LAUNCHERS) else {
            break;
        };
        launchers = launchers
            .filter(|_| inner.plain)
            .map(|before| before + inner.place);
        words = Cow::Owned(inner.words);
        let launched = words.first().map(Word::shown);
        name = Cow::Owned(launched.map_or("", name_of).to_owned());
        depth += 1;
    }
    if command.is_program_of_the_workspace() {
        found.routine.get_or_insert_default();
    }
    if leads_out(command) {
        found.concerns.push(Concern::Outside);
    }
    found
}

/// `git-clean -fd` and `/usr/lib/git-core/git-clean -fd` are `git clean -fd`.
fn as_subcommand_of_git<'w>(name: &'w str, words: &'w [Word]) -> (Cow<'w, str>, Cow<'w, [Word]>) {
    match name.strip_prefix("git-").filter(|name| !name.is_empty()) {
        Some(subcommand) => {
            let rest = words.iter().skip(1).cloned();
            let git = [Word::literal("git"), Word::literal(subcommand)];
            let words = git.into_iter().chain(rest).collect();
            (Cow::Borrowed("git"), Cow::Owned(words))
        }
        None => (Cow::Borrowed(name), Cow::Borrowed(words)),
    }
}

/// How many launchers may start one another: `uv run python -m pytest`.
const MAX_LAUNCHERS: usize = 4;

impl CommandConcerns {
    fn add(&mut self, list: FormList) {
        let concern = match list {
            FormList::Network => Concern::Network,
            FormList::History => Concern::History,
            FormList::Deletes => Concern::Deletes,
            FormList::Settings => Concern::Settings,
            FormList::Credentials => Concern::Credentials,
            FormList::System => Concern::System,
            FormList::Processes => Concern::Processes,
            FormList::Stays => Concern::Stays,
            FormList::Loses => {
                self.loses = true;
                return;
            }
        };
        self.push(concern);
    }

    fn push(&mut self, concern: Concern) {
        if !self.concerns.contains(&concern) {
            self.concerns.push(concern);
        }
    }
}

impl CommandPlace<'_> {
    /// The same command, read as what a launcher of it starts.
    fn with<'w>(&'w self, name: &'w str, words: &'w [Word]) -> CommandPlace<'w> {
        CommandPlace {
            name,
            words,
            assignments: self.assignments,
            redirections: self.redirections,
            directories: self.directories,
            finder: self.finder,
            role: self.role,
        }
    }

    fn holds(&self, forms: &CommandForms, check: FormCheck, name: &str, words: &[Word]) -> bool {
        let operands = || operands(words);
        match check {
            FormCheck::Elsewhere => !reaches_only_itself(name, words),
            FormCheck::Lasting => operands().any(|word| !self.is_scratch(word.shown())),
            FormCheck::Remote => operands().any(|word| match name {
                "npx" | "bunx" | "pnpx" => is_fetched_package(word),
                _ => names_another_machine(word),
            }),
            FormCheck::Alone => operands().next().is_none(),
            FormCheck::Writes => writes_configuration(words),
            FormCheck::Others => operands().any(|word| !is_own_process(word)),
            FormCheck::Kept => self.keeps(forms, name, words),
            FormCheck::Target => {
                let target = operands().last().and_then(Word::text);
                !target.is_some_and(|path| self.is_temporary(path))
            }
            FormCheck::Overwrites => overwrites_files(words),
            FormCheck::Hidden => self.name != name || subcommand_place(name, words) >= words.len(),
            FormCheck::Removes => {
                let mut operands = operands();
                let database = operands.next();
                let scratch = database.is_some_and(|word| self.is_scratch(word.shown()));
                !scratch && operands.any(|word| says(word, &["delete", "drop", "truncate"]))
            }
        }
    }

    /// Whether the program itself is a file of the workspace or made for a trial, and not a tool
    /// installed there: `./build/list`, `./tests/many.sh`, and not `.venv/bin/black`.
    fn is_program_of_the_workspace(&self) -> bool {
        let program = self.words.first().and_then(Word::text);
        program.is_some_and(|program| {
            let installed = |part: &str| INSTALLED.contains(&part);
            let inside = || self.directories.is_inside_from_here(program);
            program.contains('/')
                && !program.split('/').any(installed)
                && (inside() || self.is_scratch(program))
        })
    }

    /// Whether a path is in the sandbox's own temporary directory, and not in a workspace there.
    pub(super) fn is_scratch(&self, path: &str) -> bool {
        is_scratch(path) && !self.directories.is_inside_from_here(path)
    }

    /// Whether nobody misses what is there: it is temporary, or a build makes it again.
    pub(super) fn is_temporary(&self, path: &str) -> bool {
        let remade = command_forms().is_some_and(|forms| forms.is_remade(path));
        self.is_scratch(path) || remade
    }

    /// Whether one of the words names something that no command makes again.
    fn keeps(&self, forms: &CommandForms, name: &str, words: &[Word]) -> bool {
        if name == "find" {
            return !finds_what_is_remade(forms, words);
        }
        operands(words).any(|word| match &word.value {
            Value::Literal(text) | Value::Glob(text) => {
                !self.is_scratch(text) && !forms.is_remade(text)
            }
            Value::Given => {
                let found = |words| finds_what_is_remade(forms, words);
                !self.finder.is_some_and(found)
            }
            Value::Unknown => true,
        })
    }
}

/// Whether a path is in the temporary directory by its name. The sandbox has its own, which is gone
/// after the call.
pub(super) fn is_scratch(path: &str) -> bool {
    let beneath = path.strip_prefix("/tmp");
    beneath.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        && !path.split('/').any(|part| part == "..")
}

/// Directories of a workspace that hold other people's programs.
const INSTALLED: [&str; 5] = [".venv", "venv", "env", "node_modules", "vendor"];

/// The words that are no options; after `--` all of them.
fn operands(words: &[Word]) -> impl Iterator<Item = &Word> {
    let end = words.iter().position(|word| word.text() == Some("--"));
    let end = end.unwrap_or(words.len());
    let is_operand = move |(place, word): &(usize, &Word)| {
        *place != 0 && *place != end && (*place > end || !is_option(word))
    };
    words
        .iter()
        .enumerate()
        .filter(is_operand)
        .map(|(_, word)| word)
}

fn is_option(word: &Word) -> bool {
    word.shown().starts_with('-') && word.shown().len() > 1
}

fn says(word: &Word, verbs: &[&str]) -> bool {
    let text = word.shown().to_ascii_lowercase();
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.any(|word| verbs.contains(&word))
}

/// Whether a word names another machine: `host:path`, an address, or what is not known.
fn names_another_machine(word: &Word) -> bool {
    let Some(text) = word.text() else {
        return true;
    };
    if text.contains("://") {
        return !text.starts_with("file://");
    }
    let before = text.split_once(':').map(|(before, _)| before);
    before.is_some_and(|before| !before.contains('/'))
}

/// Whether `npx` would fetch this: a version or the name of a generator says so. Anything else is
/// installed in the project, or fails without network.
fn is_fetched_package(word: &Word) -> bool {
    let Some(text) = word.text() else {
        return true;
    };
    let name = text.trim_start_matches('@');
    let last = name.rsplit('/').next().unwrap_or(name);
    last.contains('@') || last.starts_with("create-") || last == "create" || text.contains("://")
}

/// Whether `git config` writes: more than a name is given, or an option that changes something.
pub(super) fn writes_configuration(words: &[Word]) -> bool {
    let texts: Vec<Option<&str>> = words.iter().map(Word::text).collect();
    let Some(start) = texts.iter().position(|text| *text == Some("config")) else {
        return true;
    };
    let rest = texts.get(start + 1..).unwrap_or_default();
    let mut operands = 0;
    for text in rest {
        match text {
            Some("--get" | "--get-all" | "--get-regexp" | "--list" | "-l" | "get" | "list") => {
                return false;
            }
            Some("set" | "unset" | "edit" | "-e" | "--edit" | "--add") | None => return true,
            Some(text) if text.starts_with("--unset") || text.starts_with("--re") => return true,
            Some(text) if text.starts_with('-') => {}
            Some(_) => operands += 1,
        }
    }
    operands != 1
}

/// Whether `git checkout` writes over files: it names one, or more than what to switch to.
fn overwrites_files(words: &[Word]) -> bool {
    let place = words
        .iter()
        .position(|word| word.text() == Some("checkout"));
    let rest = words.get(place.unwrap_or(0) + 1..).unwrap_or_default();
    let creates = rest.iter().any(|word| {
        let text = word.shown();
        matches!(text, "--orphan" | "--track" | "-t")
            || text.starts_with("-b")
            || text.starts_with("-B")
    });
    let operands: Vec<&str> = rest
        .iter()
        .filter(|word| !is_option(word))
        .map(Word::shown)
        .collect();
    let is_file = |text: &&str| {
        let last = text.rsplit('/').next().unwrap_or_default();
        let ending = last.rsplit_once('.').map_or("", |(_, ending)| ending);
        text.starts_with(['.', ':'])
            || text.ends_with('/')
            || (!ending.is_empty() && ending.chars().all(|c| c.is_ascii_alphabetic()))
    };
    !creates && (operands.len() > 1 || operands.iter().any(is_file))
}

/// Whether `kill` names a process of this very script: a job, or a variable that holds one.
fn is_own_process(word: &Word) -> bool {
    let raw = word.raw.trim_matches('"');
    raw.starts_with('%') || (raw.starts_with('$') && !raw.contains(['(', '`']))
}
