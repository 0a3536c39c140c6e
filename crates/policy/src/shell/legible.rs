//! Whether a command that is not fully understood still shows what runs. Words that are known only
//! when it runs leave the program and its purpose readable; a program that is only known then, a
//! name with another meaning or a text that two parsers read differently do not.

use super::{unclear::UnclearReason, word::Word};

/// Builtins that change the shell and not what its commands are.
const READABLE_BUILTINS: [&str; 9] = [
    "source", ".", "read", "shift", "return", "wait", "pushd", "popd", "cd",
];

/// Variables that decide which program a name means or how a script is read.
const DECIDING_VARIABLES: [&str; 9] = [
    "PATH",
    "IFS",
    "ENV",
    "BASH_ENV",
    "SHELLOPTS",
    "BASHOPTS",
    "PS4",
    "PROMPT_COMMAND",
    "GIT_EXEC_PATH",
];

/// Whether what is unclear about a command leaves its programs readable.
pub(super) fn is_legible(unclear: &[UnclearReason], words: &[Word]) -> bool {
    unclear.iter().all(|reason| match reason {
        UnclearReason::Expansion
        | UnclearReason::Construct
        | UnclearReason::HereDocument
        | UnclearReason::Hidden(_)
        | UnclearReason::Place(_)
        | UnclearReason::MayMatch
        | UnclearReason::Unlisted(_) => true,
        UnclearReason::Variable(name) => !decides(name),
        // `export NAME=value`
        UnclearReason::Variables => !words.iter().any(|word| {
            let name = word.raw.split('=').next().unwrap_or_default();
            decides(name)
        }),
        // With an option it assigns.
        UnclearReason::Shell(builtin) if builtin == "printf" => words
            .get(1)
            .and_then(Word::text)
            .is_some_and(|text| !text.starts_with('-')),
        UnclearReason::Shell(builtin) => READABLE_BUILTINS.contains(&builtin.as_str()),
        UnclearReason::Program
        | UnclearReason::Spelling
        | UnclearReason::Syntax
        | UnclearReason::Disagreement
        | UnclearReason::Characters
        | UnclearReason::Arithmetic
        | UnclearReason::Test
        | UnclearReason::Function
        | UnclearReason::Wrapper(_) => false,
    })
}

fn decides(variable: &str) -> bool {
    DECIDING_VARIABLES.contains(&variable) || variable.starts_with("LD_")
}
