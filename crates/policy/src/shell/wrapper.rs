//! Commands that run other commands, and where in their words the other command begins. Each lists
//! its options; an unlisted or abbreviated one hides where its command begins, so the command is
//! then unknown.

use super::{
    options::{Options, has},
    star::subcommand_place,
    word::{Value, Word},
};

/// A command inside another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum InnerCommand {
    /// The command is not a wrapper, or wraps nothing this time.
    Nothing,
    /// The words of the inner command, and the variables set for it.
    Words {
        words: Vec<Word>,
        variables: Vec<String>,
    },
    /// Several commands, each with its words.
    Several(Vec<Vec<Word>>),
    /// A script for a shell.
    Script(String),
    /// Something is run, but what cannot be determined.
    Hidden,
}

/// Wrappers that add nothing to what their command does.
const TRANSPARENT: &str = "timeout gtimeout nice ionice nohup stdbuf time command builtin env";

/// A wrapper that takes options, then `skip` operands, then the command.
struct Wrapper {
    names: &'static str,
    options: Options<'static>,
    skip: usize,
}

const fn options(short: &'static str, short_values: &'static str) -> Options<'static> {
    Options {
        short,
        short_values,
        short_maybe: "",
        long: "",
        long_values: "",
        dash: "",
        dash_values: "",
        numbers: false,
        no_end: false,
        anywhere: false,
    }
}

const fn long(
    options: Options<'static>,
    long: &'static str,
    long_values: &'static str,
) -> Options<'static> {
    Options {
        long,
        long_values,
        ..options
    }
}

const WRAPPERS: &[Wrapper] = &[
    Wrapper {
        names: "timeout gtimeout",
        options: long(
            options("fpv", "ks"),
            "foreground preserve-status verbose",
            "kill-after signal",
        ),
        skip: 1,
    },
    Wrapper {
        names: "nice",
        options: Options {
            numbers: true,
            ..long(options("", "n"), "", "adjustment")
        },
        skip: 0,
    },
    Wrapper {
        names: "ionice",
        options: long(options("t", "cn"), "ignore", "class classdata"),
        skip: 0,
    },
    Wrapper {
        names: "nohup busybox toybox fakeroot builtin catchsegv",
        options: options("", ""),
        skip: 0,
    },
    Wrapper {
        names: "setsid",
        options: long(options("cfw", ""), "ctty fork wait", ""),
        skip: 0,
    },
    Wrapper {
        names: "stdbuf",
        options: long(options("", "ioe"), "", "input output error"),
        skip: 0,
    },
    Wrapper {
        names: "time",
        options: options("pv", ""),
        skip: 0,
    },
    Wrapper {
        names: "exec",
        options: options("cl", "a"),
        skip: 0,
    },
    Wrapper {
        names: "sudo",
        options: long(
            options("AbEHKknPSi", "CDgpRTuU"),
            "background preserve-env set-home non-interactive stdin login",
            "user group prompt chdir host",
        ),
        skip: 0,
    },
    Wrapper {
        names: "doas",
        options: options("nL", "uC"),
        skip: 0,
    },
    Wrapper {
        names: "chroot",
        options: long(options("", ""), "skip-chdir", "userspec groups"),
        skip: 1,
    },
    Wrapper {
        names: "unshare",
        options: long(
            options("cfimnprTuUC", "GSwR"),
            "fork mount net pid user uts ipc cgroup time map-root-user map-current-user mount-proc",
            "root wd setuid setgid",
        ),
        skip: 0,
    },
    Wrapper {
        names: "taskset",
        options: options("ac", ""),
        skip: 1,
    },
    Wrapper {
        names: "strace",
        options: options("cCfFqrtTvxy", "abepPsS"),
        skip: 0,
    },
    Wrapper {
        names: "ltrace",
        options: options("bcCfiLrStT", "aADenpswxX"),
        skip: 0,
    },
    Wrapper {
        names: "valgrind",
        options: long(
            options("qv", ""),
            "quiet verbose",
            "tool leak-check error-exitcode",
        ),
        skip: 0,
    },
];

/// The next word is never the value of `-e`, `-i`, `-l` or of their long names.
const XARGS: Options<'static> = Options {
    short_maybe: "eil",
    ..long(
        options("0prtxo", "adEILnPs"),
        "null no-run-if-empty verbose exit interactive open-tty eof replace max-lines",
        "arg-file delimiter eof replace max-lines max-args max-procs max-chars",
    )
};

/// Whether a wrapper only runs its command.
pub(super) fn is_transparent(program: &str) -> bool {
    has(TRANSPARENT, program)
}

/// The command inside a command.
pub(super) fn inner(program: &str, words: &[Word]) -> InnerCommand {
    match program {
        "env" => env(words),
        "command" => command(words),
        "xargs" => xargs(words),
        "find" => find(words),
        "fd" | "fdfind" => after(words, &["-x", "-X", "--exec", "--exec-batch"]),
        "sh" | "bash" | "dash" | "zsh" | "ksh" | "mksh" | "ash" => shell(words),
        "su" | "runuser" | "script" | "flock" | "nsenter" | "pkexec" | "setpriv"
        | "systemd-run" => dash_c(words),
        "eval" => joined(words, 1),
        "git" => bisect_run(words),
        "watch" | "entr" | "parallel" | "at" | "batch" => watch(words),
        "trap" => trap(words),
        _ => WRAPPERS
            .iter()
            .find(|wrapper| has(wrapper.names, program))
            .map_or(InnerCommand::Nothing, |wrapper| wrapper.inner(words)),
    }
}

impl Wrapper {
    fn inner(&self, words: &[Word]) -> InnerCommand {
        let scanned = self.options.scan(words, 1);
        if scanned.odd.is_some() {
            return InnerCommand::Hidden;
        }
        let Some(start) = scanned.operands.get(self.skip) else {
            return InnerCommand::Nothing;
        };
        InnerCommand::Words {
            words: words.get(*start..).unwrap_or_default().to_vec(),
            variables: Vec::new(),
        }
    }
}

/// What `git bisect run` runs at each step.
fn bisect_run(words: &[Word]) -> InnerCommand {
    let place = subcommand_place("git", words);
    let text = |place: usize| words.get(place).and_then(Word::text);
    let inner = words.get(place + 2..).unwrap_or_default();
    match (text(place), text(place + 1)) {
        (Some("bisect"), Some("run")) if !inner.is_empty() => InnerCommand::Words {
            words: inner.to_vec(),
            variables: Vec::new(),
        },
        _ => InnerCommand::Nothing,
    }
}

fn env(words: &[Word]) -> InnerCommand {
    let options = long(
        options("i0v", "uC"),
        "ignore-environment null debug",
        "unset chdir",
    );
    let scanned = options.scan(words, 1);
    if scanned.odd.is_some() {
        return InnerCommand::Hidden;
    }
    let mut variables: Vec<String> = scanned
        .given
        .iter()
        .filter(|given| !matches!(given.key.as_str(), "0" | "null" | "v" | "debug"))
        .map(|given| format!("env -{}", given.key))
        .collect();
    let mut operands = scanned.operands.iter();
    let start = operands.find(|place| {
        let name = words.get(**place).map(Word::shown).unwrap_or_default();
        match name.split_once('=') {
            Some((name, _)) => {
                variables.push(name.to_owned());
                false
            }
            // The same as `-i`.
            None if name == "-" => {
                variables.push("env -".to_owned());
                false
            }
            None => true,
        }
    });
    match start {
        Some(start) => InnerCommand::Words {
            words: words.get(*start..).unwrap_or_default().to_vec(),
            variables,
        },
        None => InnerCommand::Nothing,
    }
}

fn command(words: &[Word]) -> InnerCommand {
    match words.get(1).map(Word::text) {
        // `-v` only prints where a command is.
        None | Some(Some("-v" | "-V")) => InnerCommand::Nothing,
        Some(None) => InnerCommand::Hidden,
        Some(Some(_)) => Wrapper {
            names: "command",
            options: options("p", ""),
            skip: 0,
        }
        .inner(words),
    }
}

fn xargs(words: &[Word]) -> InnerCommand {
    let scanned = XARGS.scan(words, 1);
    if scanned.odd.is_some() {
        return InnerCommand::Hidden;
    }
    let mut inner: Vec<Word> = match scanned.operands.first() {
        Some(start) => words.get(*start..).unwrap_or_default().to_vec(),
        None => vec![Word::literal("echo")],
    };
    // With `-I X` the text X may appear anywhere, even as the program.
    let replacing = scanned
        .given
        .iter()
        .filter(|given| matches!(given.key.as_str(), "I" | "i" | "replace"));
    for given in replacing {
        let text = given.value_in(words).unwrap_or("{}");
        for word in &mut inner {
            if !text.is_empty() && word.shown().contains(text) {
                *word = Word::given();
            }
        }
    }
    inner.push(Word::given());
    InnerCommand::Words {
        words: inner,
        variables: Vec::new(),
    }
}

/// The files a wrapper itself reads.
pub(super) fn reads(program: &str, words: &[Word]) -> Vec<Word> {
    if program != "xargs" {
        return Vec::new();
    }
    let scanned = XARGS.scan(words, 1);
    let files = scanned
        .given
        .iter()
        .filter(|given| matches!(given.key.as_str(), "a" | "arg-file"));
    files
        .filter_map(|given| match &given.attached {
            Some(text) => Some(Word::literal(text)),
            None => given.value.and_then(|place| words.get(place)).cloned(),
        })
        .collect()
}

fn find(words: &[Word]) -> InnerCommand {
    let mut several = Vec::new();
    let mut place = 1;
    while let Some(word) = words.get(place) {
        place += 1;
        if !matches!(word.shown(), "-exec" | "-execdir" | "-ok" | "-okdir") {
            continue;
        }
        let mut inner = Vec::new();
        while let Some(word) = words.get(place) {
            place += 1;
            match word.shown() {
                ";" => break,
                "+" if inner
                    .last()
                    .is_some_and(|last: &Word| last.value == Value::Given) =>
                {
                    break;
                }
                text if text.contains("{}") => inner.push(Word::given()),
                _ => inner.push(word.clone()),
            }
        }
        several.push(inner);
    }
    if several.is_empty() {
        InnerCommand::Nothing
    } else {
        InnerCommand::Several(several)
    }
}

/// Everything after one of these options, plus what was found.
fn after(words: &[Word], options: &[&str]) -> InnerCommand {
    let start = words
        .iter()
        .position(|word| options.contains(&word.shown()));
    match start {
        Some(start) => {
            let mut inner: Vec<Word> = words
                .iter()
                .skip(start + 1)
                .take_while(|word| word.shown() != ";")
                .cloned()
                .collect();
            inner.push(Word::given());
            InnerCommand::Words {
                words: inner,
                variables: Vec::new(),
            }
        }
        None => InnerCommand::Nothing,
    }
}

/// `sh -c SCRIPT`, also as `-lc` and with other options before it.
fn shell(words: &[Word]) -> InnerCommand {
    let mut script = false;
    let mut place = 1;
    while let Some(word) = words.get(place) {
        let Some(text) = word.text() else {
            return InnerCommand::Hidden;
        };
        place += 1;
        match text {
            "--login" | "--norc" | "--noprofile" | "--posix" | "--restricted" => {}
            "-o" | "+o" | "-O" | "+O" => place += 1,
            "--" => break,
            _ if text.starts_with("--") => return InnerCommand::Hidden,
            _ if text.starts_with(['-', '+']) && text.len() > 1 => {
                let letters = text.get(1..).unwrap_or_default();
                if !letters.chars().all(|letter| "cefhilnuvx".contains(letter)) {
                    return InnerCommand::Hidden;
                }
                script |= letters.contains('c');
            }
            _ => {
                place -= 1;
                break;
            }
        }
    }
    match (script, words.get(place)) {
        (true, Some(word)) => word.text().map_or(InnerCommand::Hidden, |text| {
            InnerCommand::Script(text.to_owned())
        }),
        // Its input is a script that cannot be inspected.
        (true | false, None) => InnerCommand::Hidden,
        (false, Some(word)) if is_input(word) => InnerCommand::Hidden,
        // A file: effectively the program of this command.
        (false, Some(_)) => InnerCommand::Nothing,
    }
}

/// Whether a file is another name for standard input.
pub(super) fn is_input(word: &Word) -> bool {
    let text = word.shown();
    text == "-" || text.starts_with("/dev/") || text.starts_with("/proc/")
}

/// Wrappers whose command is the value of `-c`, or hidden.
fn dash_c(words: &[Word]) -> InnerCommand {
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        match word.shown() {
            "-c" | "--command" => {
                let script = words.next().and_then(Word::text);
                return script.map_or(InnerCommand::Hidden, |text| {
                    InnerCommand::Script(text.to_owned())
                });
            }
            text => {
                if let Some(script) = text.strip_prefix("--command=") {
                    return InnerCommand::Script(script.to_owned());
                }
            }
        }
    }
    InnerCommand::Hidden
}

/// The words from a place on, as one script.
fn joined(words: &[Word], start: usize) -> InnerCommand {
    let texts: Option<Vec<&str>> = words.iter().skip(start).map(Word::text).collect();
    match texts {
        Some(texts) if texts.is_empty() => InnerCommand::Nothing,
        Some(texts) => InnerCommand::Script(texts.join(" ")),
        None => InnerCommand::Hidden,
    }
}

/// Programs that run the rest of their words, with options that need not be known.
fn watch(words: &[Word]) -> InnerCommand {
    match words.iter().skip(1).position(|word| !word.may_be_option()) {
        Some(0) => joined(words, 1),
        Some(_) | None => InnerCommand::Hidden,
    }
}

fn trap(words: &[Word]) -> InnerCommand {
    match words.get(1) {
        None => InnerCommand::Nothing,
        Some(word) => match word.text() {
            Some("-" | "" | "-l" | "-p") => InnerCommand::Nothing,
            Some(script) => InnerCommand::Script(script.to_owned()),
            None => InnerCommand::Hidden,
        },
    }
}
