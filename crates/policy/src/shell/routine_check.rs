//! What the operands of a routine command must be, where its options alone do not say that it changes
//! nothing: statements of a database, programs of awk, targets of make.

use super::{
    concern::{CommandPlace, writes_configuration},
    options::has,
    word::{Value, Word},
};

/// A condition on the operands, by its name in `routine.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RoutineCheck {
    Alone,
    Single,
    Scratch,
    Script,
    Second,
    Selects,
    Prints,
    Reads,
    Targets,
    Goals,
    Debugs,
    Computes,
    Output,
}

impl RoutineCheck {
    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "alone" => Self::Alone,
            "single" => Self::Single,
            "scratch" => Self::Scratch,
            "script" => Self::Script,
            "second" => Self::Second,
            "selects" => Self::Selects,
            "prints" => Self::Prints,
            "reads" => Self::Reads,
            "targets" => Self::Targets,
            "goals" => Self::Goals,
            "debugs" => Self::Debugs,
            "computes" => Self::Computes,
            "output" => Self::Output,
            _ => return None,
        })
    }

    /// Whether it is true of a command. `operands` are its words that are neither options nor their
    /// values, the subcommand among them.
    pub(super) fn holds(self, command: &CommandPlace<'_>, operands: &[&Word]) -> bool {
        let is_script = |word: Option<&&Word>| {
            let path = word.and_then(|word| word.text());
            path.is_some_and(|path| path != "-" && command.directories.is_inside_from_here(path))
        };
        match self {
            Self::Alone => operands.is_empty(),
            Self::Single => operands.len() == 1,
            Self::Scratch => {
                let scratch =
                    |word: &&Word| word.text().is_some_and(|path| command.is_scratch(path));
                !operands.is_empty() && operands.iter().all(scratch)
            }
            Self::Script => is_script(operands.first()),
            Self::Second => is_script(operands.get(1)),
            Self::Selects => command.redirections.is_empty() && selects(command.words),
            Self::Prints => prints(command.words),
            Self::Reads => !writes_configuration(command.words),
            Self::Targets => operands.iter().all(|word| is_target(command, word)),
            Self::Goals => {
                let is_goal = |word: &&Word| {
                    let text = word.text().unwrap_or_default();
                    has(GOALS, text.rsplit(':').next().unwrap_or_default())
                        || text == "dependency:tree"
                };
                !operands.is_empty() && operands.iter().all(is_goal)
            }
            Self::Debugs => debugs(command.words),
            Self::Computes => operands
                .iter()
                .all(|word| word.text().is_some_and(computes)),
            Self::Output => {
                let last = operands.last().and_then(|word| word.text());
                operands.len() > 1 && last.is_some_and(|path| command.is_temporary(path))
            }
        }
    }
}

/// Phases of a build that write only what they build.
const GOALS: &str = "clean compile test test-compile testClasses classes verify package build check \
                     assemble jar tasks validate";

/// Commands of `sqlite3` and `duckdb` that only show.
const SHOWING: &str = ".tables .schema .fullschema .mode .headers .header .indexes .databases .dump \
                       .width .nullvalue .separator";

/// Whether the words of a database's shell ask for something and change nothing. The first that is no
/// option may be the database; the last must be a statement, or the shell would read its input.
fn selects(words: &[Word]) -> bool {
    let mut operands = words.iter().skip(1).filter(|word| {
        let text = word.shown();
        !text.starts_with('-') || text == "-"
    });
    let Some(first) = operands.next() else {
        return false;
    };
    let rest: Vec<&Word> = operands.collect();
    let is_statement = |word: &Word| word.text().is_some_and(is_selecting);
    let is_database = |word: &Word| {
        let odd = |c: char| c.is_whitespace() || c == ';';
        let text = word.text();
        text.is_some_and(|text| !text.starts_with('.') && !text.contains(odd))
    };
    match rest.as_slice() {
        [] => is_statement(first),
        rest => {
            (is_database(first) || is_statement(first))
                && rest.iter().all(|word| is_statement(word))
        }
    }
}

fn is_selecting(text: &str) -> bool {
    const BEGIN: &str = "select with explain values describe show summarize from";
    const CHANGES: &str = "insert update delete replace create drop alter attach detach vacuum reindex \
                           pragma copy install load import export restore save output once shell system \
                           excel log writefile edit backup read load_extension call set use checkpoint \
                           begin commit rollback analyze execute prepare truncate merge fts3_tokenizer";
    let text = text.trim();
    if text.starts_with('.') {
        let command = text.split_ascii_whitespace().next().unwrap_or_default();
        let plain = |c: char| c.is_ascii_alphanumeric() || " ._%,'\"-".contains(c);
        return has(SHOWING, command) && text.chars().all(plain);
    }
    let text = text.to_ascii_lowercase();
    let words = |text: &str| -> Vec<String> {
        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let begins = |statement: &str| {
        let begin = words(statement).into_iter().next();
        begin.is_none_or(|begin| has(BEGIN, &begin))
    };
    !text.contains("\n.")
        && !words(&text).is_empty()
        && text.split(';').all(begins)
        && !words(&text).iter().any(|word| has(CHANGES, word))
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

/// Whether a word of `make` is a target, or a variable that says how to compile or where beneath the
/// build to install.
fn is_target(command: &CommandPlace<'_>, word: &Word) -> bool {
    let raw = word.text().unwrap_or(&word.raw);
    let Some((name, value)) = raw.split_once('=') else {
        return word.text().is_some();
    };
    let compiles = |value: &str| {
        let begins = [
            "-O",
            "-g",
            "-W",
            "-I",
            "-D",
            "-L",
            "-l",
            "-fsanitize=",
            "-std=",
            "-pedantic",
        ];
        let mut flags = value.split_ascii_whitespace();
        flags.all(|flag| !flag.contains(',') && begins.iter().any(|begin| flag.starts_with(begin)))
    };
    match name {
        "V" | "VERBOSE" | "Q" | "DEBUG" => word.text().is_some(),
        "CFLAGS" | "CXXFLAGS" | "CPPFLAGS" | "LDFLAGS" | "LDLIBS" => {
            let sanitized = value.replace("address,undefined", "address");
            word.text().is_some() && compiles(&sanitized)
        }
        "DESTDIR" => {
            let value = value.strip_prefix("$PWD/").unwrap_or(value);
            !value.contains(['$', '`']) && command.is_temporary(value)
        }
        // Nobody can change what is there, and `DESTDIR` goes before it.
        "PREFIX" | "prefix" => word.text().is_some() && (value == "/usr" || value == "/usr/local"),
        _ => false,
    }
}

/// Whether `gdb` only runs a program and shows where it is.
fn debugs(words: &[Word]) -> bool {
    const COMMANDS: &str = "run r bt where backtrace quit q kill frame locals";
    let texts: Vec<Option<&str>> = words.iter().map(Word::text).collect();
    let batch = texts
        .iter()
        .any(|text| matches!(text, Some("-batch" | "--batch")));
    let is_showing = |text: &str| {
        has(COMMANDS, text)
            || matches!(
                text,
                "bt full" | "info locals" | "info registers" | "thread apply all bt"
            )
    };
    let mut values = texts.windows(2).filter_map(|pair| match pair {
        [Some("-ex"), value] => Some(*value),
        _ => None,
    });
    batch && values.all(|value| value.is_some_and(is_showing))
}

/// Whether an expression of Python only computes: every name in it is a built-in function of values.
fn computes(text: &str) -> bool {
    const NAMES: &str = "sum range len min max sorted list dict set tuple str int float bool abs round \
                         repr zip map filter enumerate reversed any all pow divmod for in if else not and \
                         or lambda join split append x y i j k n a b True False None pass";
    let mut names = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    names
        .all(|name| name.is_empty() || name.chars().all(|c| c.is_ascii_digit()) || has(NAMES, name))
}
