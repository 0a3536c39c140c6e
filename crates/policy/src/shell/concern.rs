//! What about a command would concern a person even where a sandbox without network holds it: it
//! reaches for what the sandbox keeps away, loses what `haft undo` cannot bring back, or acts after
//! the call. The presets ask about these and leave the rest to the sandbox.
//!
//! This reads words and can be deceived (`python -c`), so it only chooses between asking and not
//! asking. What a command can do is decided by the sandbox. The forms are in `concerns.toml`.

use std::fmt;

use super::{
    command_form::{CommandForms, FormCheck, FormList, command_forms},
    leads_out::leads_out,
    parse::Redirection,
    segment::{family, name_of},
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
    /// Whether it builds, tests, checks, looks or commits, and is not there to change files.
    pub(super) routine: bool,
}

/// A command and where it stands.
pub(super) struct CommandPlace<'c> {
    /// The program without its directory.
    pub(super) name: &'c str,
    pub(super) words: &'c [Word],
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
            routine: false,
        };
    };
    let mut found = CommandConcerns::default();
    let mut words = command.words.to_vec();
    let mut name = command.name.to_owned();
    let mut depth = 0;
    loop {
        for list in forms.lists(&name, &words, |check| {
            command.holds(forms, check, &name, &words)
        }) {
            found.add(list);
        }
        // `npx jest` is `jest`, `python -m pip` is `pip`; what they add is read before.
        let Some(inner) = launched(&name, &words).filter(|_| depth < MAX_LAUNCHERS) else {
            break;
        };
        words = words.split_off(inner.min(words.len()));
        let launched = words.first().map(Word::shown);
        launched.map_or("", name_of).clone_into(&mut name);
        depth += 1;
    }
    found.routine |= command.is_program_of_the_workspace();
    if leads_out(command) {
        found.concerns.push(Concern::Outside);
    }
    found
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
            FormList::Routine => {
                self.routine = true;
                return;
            }
        };
        if !self.concerns.contains(&concern) {
            self.concerns.push(concern);
        }
    }
}

/// The index of the program that a launcher starts.
fn launched(name: &str, words: &[Word]) -> Option<usize> {
    let operand = |from: usize| {
        let places = from..words.len();
        let mut places = places.filter(|place| {
            let word = words.get(*place);
            word.is_some_and(|word| !word.may_be_option())
        });
        places.next()
    };
    match (family(name), words.get(1).and_then(Word::text)) {
        ("python" | "pypy", _) => {
            let module = words.iter().position(|word| word.text() == Some("-m"))?;
            (module + 1 < words.len()).then_some(module + 1)
        }
        ("npx" | "bunx" | "pnpx", _) => operand(1),
        ("uv" | "poetry" | "pipenv" | "pdm" | "hatch" | "rye", Some("run"))
        | ("bundle", Some("exec")) => operand(2),
        _ => None,
    }
}

impl CommandPlace<'_> {
    fn holds(&self, forms: &CommandForms, check: FormCheck, name: &str, words: &[Word]) -> bool {
        let operands = || words.iter().skip(1).filter(|word| !is_option(word));
        match check {
            FormCheck::Elsewhere => !reaches_only_itself(operands()),
            FormCheck::Lasting => operands().any(|word| !self.is_scratch(word.shown())),
            FormCheck::Remote => operands().any(|word| match name {
                "npx" | "bunx" | "pnpx" => is_fetched_package(word),
                _ => names_another_machine(word),
            }),
            FormCheck::Alone => operands().next().is_none(),
            FormCheck::Single => operands().count() == 1,
            FormCheck::Writes => writes_configuration(words),
            FormCheck::Others => operands().any(|word| !is_own_process(word)),
            FormCheck::Kept => self.keeps(forms, name, words),
            FormCheck::Removes => {
                let mut operands = operands();
                let database = operands.next();
                let scratch = database.is_some_and(|word| self.is_scratch(word.shown()));
                !scratch && operands.any(|word| says(word, &["delete", "drop", "truncate"]))
            }
            FormCheck::Scratch => {
                let scratch = |word: &Word| word.text().is_some_and(|path| self.is_scratch(path));
                operands().count() > 0 && operands().all(scratch)
            }
            FormCheck::Script => operands().next().is_some_and(|word| {
                let path = word.text().filter(|path| *path != "-");
                path.is_some_and(|path| self.directories.is_inside_from_here(path))
            }),
            FormCheck::Selects => {
                self.redirections.is_empty() && operands().count() > 0 && operands().all(selects)
            }
            FormCheck::Prints => prints(words),
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
    fn is_scratch(&self, path: &str) -> bool {
        is_scratch(path) && !self.directories.is_inside_from_here(path)
    }

    /// Whether one of the words names something that no command makes again.
    fn keeps(&self, forms: &CommandForms, name: &str, words: &[Word]) -> bool {
        if name == "find" {
            return !finds_what_is_remade(forms, words);
        }
        let mut operands = words.iter().skip(1).filter(|word| !is_option(word));
        operands.any(|word| match &word.value {
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

impl CommandForms {
    /// Whether the next build makes a path again: it is, or is in, something with such a name.
    pub(super) fn is_remade(&self, path: &str) -> bool {
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        !path.starts_with(['/', '~'])
            && !path.split('/').any(|part| part == "..")
            && parts.any(|part| {
                self.remade.iter().any(|name| match name.strip_prefix('*') {
                    Some(ending) => part.ends_with(ending),
                    None => part == name,
                })
            })
    }
}

/// Whether `find` finds only what is made again: by name, and with nothing after `-o`.
fn finds_what_is_remade(forms: &CommandForms, words: &[Word]) -> bool {
    let texts: Vec<&str> = words.iter().map(Word::shown).collect();
    let mut named = false;
    for pair in texts.windows(2) {
        if let [option @ ("-name" | "-path"), name] = pair {
            let negated = texts
                .windows(2)
                .any(|pair| matches!(pair, ["!" | "-not", next] if next == option));
            if !forms.is_remade(name) && !negated {
                return false;
            }
            named |= forms.is_remade(name);
        }
    }
    named && !texts.contains(&"-o") && !texts.contains(&"-or")
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

/// Whether a word of `sqlite3` asks for something and changes nothing, or is only a file.
fn selects(word: &Word) -> bool {
    let changes = [
        "insert",
        "update",
        "delete",
        "replace",
        "create",
        "drop",
        "alter",
        "attach",
        "detach",
        "vacuum",
        "reindex",
        "pragma",
        "copy",
        "install",
        "load",
        "import",
        "restore",
        "save",
        "output",
        "once",
        "shell",
        "system",
        "excel",
        "log",
        "writefile",
        "edit",
        "backup",
        "read",
    ];
    word.text().is_some() && !says(word, &changes)
}

/// Whether `awk` writes to no file and starts nothing: only what follows a `print` can be a redirection,
/// and a pipe, `system` and what is loaded have their own signs.
fn prints(words: &[Word]) -> bool {
    let harmless = |text: &str| {
        let printed = text.split_once("print").map_or("", |(_, rest)| rest);
        text.starts_with("-F")
            || !(printed.contains('>')
                || text.replace("||", "").contains('|')
                || text.contains("system")
                || text.contains('@'))
    };
    let mut words = words.iter().skip(1);
    words.all(|word| match &word.value {
        Value::Literal(text) => harmless(text),
        // Files, unless it is the program.
        Value::Glob(text) => text.contains('/') && harmless(text),
        Value::Given | Value::Unknown => false,
    })
}

fn is_option(word: &Word) -> bool {
    word.shown().starts_with('-') && word.shown().len() > 1
}

fn says(word: &Word, verbs: &[&str]) -> bool {
    let text = word.shown().to_ascii_lowercase();
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.any(|word| verbs.contains(&word))
}

/// Whether every address among the words is one of this machine itself, and there is one.
fn reaches_only_itself<'w>(operands: impl Iterator<Item = &'w Word>) -> bool {
    let mut addresses = operands.filter(|word| may_be_address(word)).peekable();
    addresses.peek().is_some() && addresses.all(is_loopback)
}

/// Whether a word of `curl` and the like may be where it connects to.
fn may_be_address(word: &Word) -> bool {
    let text = word.shown();
    let literal = text.split(['$', '`']).next().unwrap_or_default();
    text.contains("://")
        || literal.len() < text.len()
        || is_loopback(word)
        || (literal.contains('.') && !literal.starts_with(['.', '/', '@']))
}

/// Whether a word is an address of this machine itself, as far as it is written out.
fn is_loopback(word: &Word) -> bool {
    let text = word.shown().trim_start_matches(['"', '\'']);
    let address = text.split_once("://").map_or(text, |(_, rest)| rest);
    ["localhost", "127.0.0.1", "[::1]", "0.0.0.0"]
        .iter()
        .filter_map(|host| address.strip_prefix(host))
        .any(|rest| rest.is_empty() || rest.starts_with([':', '/', '"']))
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
fn writes_configuration(words: &[Word]) -> bool {
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

/// Whether `kill` names a process of this very script: a job, or a variable that holds one.
fn is_own_process(word: &Word) -> bool {
    let raw = word.raw.trim_matches('"');
    raw.starts_with('%') || (raw.starts_with('$') && !raw.contains(['(', '`']))
}
