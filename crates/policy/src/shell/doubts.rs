//! What about the variables, the program and the words of a command is not known before it runs.

use super::{
    parse::Assignment,
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
