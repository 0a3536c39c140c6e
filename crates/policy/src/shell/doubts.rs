//! What about the variables, the program and the words of a command is not known before it runs.

use super::{
    concern::is_scratch,
    options::has,
    parsed::Assignment,
    unclear::UnclearReason,
    word::{Value, Word},
};

/// Variables that only change how a program displays things.
const HARMLESS_VARIABLES: [&str; 22] = [
    "CI",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "DEBUG",
    "FORCE_COLOR",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_NUMERIC",
    "LC_TIME",
    "LINES",
    "NO_COLOR",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "TERM",
    "TZ",
];

/// Variables that say what is built or how much is said about it, and neither run nor write anything.
const BUILD_VARIABLES: &str = "NODE_ENV GOOS GOARCH CGO_ENABLED RUST_TEST_THREADS CARGO_TERM_COLOR \
     CARGO_INCREMENTAL CARGO_NET_OFFLINE PYTHONHASHSEED PYTHONWARNINGS PYTHONIOENCODING \
     GIT_TERMINAL_PROMPT VERBOSE V QUIET";

/// Settings of sanitizers that write no file.
const SANITIZER_KEYS: &str = "detect_leaks abort_on_error halt_on_error print_stacktrace symbolize color \
     detect_stack_use_after_return verbosity";

/// Whether a routine command with this assignment is still routine. Whatever is not listed may make it run
/// or write something else: `MAKEFLAGS`, `NODE_OPTIONS`, `GIT_EXTERNAL_DIFF`. `before`: it stands before a
/// command; otherwise it is a variable of the script, which by convention has small letters.
pub(crate) fn is_routine_variable(assignment: &str, before: bool) -> bool {
    let (name, value) = assignment.split_once('=').unwrap_or((assignment, ""));
    let sanitizes = |value: &str| {
        let mut keys = value.split(':').map(|pair| pair.split('=').next());
        keys.all(|key| key.is_some_and(|key| has(SANITIZER_KEYS, key)))
    };
    match name {
        "CARGO_TARGET_DIR" => is_scratch(value),
        "ASAN_OPTIONS" | "UBSAN_OPTIONS" | "LSAN_OPTIONS" => sanitizes(value),
        _ => {
            HARMLESS_VARIABLES.contains(&name)
                || has(BUILD_VARIABLES, name)
                || (!before && name.starts_with(|c: char| c.is_ascii_lowercase()))
        }
    }
}

/// What setting variables leaves unclear. Before a command some are harmless; for the rest of a
/// script none are, because later words may expand them.
pub(super) fn variables(assignments: &[Assignment], words: &[Word]) -> Vec<UnclearReason> {
    assignments
        .iter()
        .filter(|assignment| {
            words.is_empty()
                || !assignment.literal
                || !HARMLESS_VARIABLES.contains(&assignment.name.as_str())
        })
        .map(|assignment| UnclearReason::Variable(assignment.name.clone()))
        .collect()
}

/// What the program and its words leave unclear.
pub(super) fn program_and_words(words: &[Word]) -> Vec<UnclearReason> {
    let mut unclear = Vec::new();
    if let Some(program) = words.first() {
        let usual = |c: char| c.is_ascii_alphanumeric() || "_./+-[:".contains(c);
        match &program.value {
            Value::Literal(text) if program.quoted || !text.chars().all(usual) => {
                unclear.push(UnclearReason::Spelling);
            }
            Value::Literal(text) if text.is_empty() => unclear.push(UnclearReason::Program),
            Value::Literal(_) => {}
            Value::Glob(_) | Value::Given | Value::Unknown => unclear.push(UnclearReason::Program),
        }
    }
    if words
        .iter()
        .skip(1)
        .any(|word| word.value == Value::Unknown)
    {
        unclear.push(UnclearReason::Expansion);
    }
    unclear
}
