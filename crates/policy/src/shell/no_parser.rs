//! What takes the place of both parsers in a build without the feature `shell`: nothing is ever read,
//! so nothing that runs a command is ever allowed.

use super::{
    limits::Refusal,
    parsed::{FlatCommand, ParsedScript, SecondOpinion},
};

/// Refuses every script.
pub(super) fn parse(_: &str) -> Result<ParsedScript, Refusal> {
    Err(Refusal::NoParser)
}

/// Knows no script.
pub(super) fn opinion(_: &str, _: &[FlatCommand]) -> SecondOpinion {
    SecondOpinion::Refuses
}

#[cfg(test)]
mod tests {
    use haft_contract::{WorkPath, access::Command};

    use super::*;
    use crate::shell::analyse;

    #[test]
    fn no_command_is_understood() {
        let shell = |script: &str| Command::Shell(script.to_owned());
        let argv = |words: &[&str]| Command::Argv(words.iter().map(ToString::to_string).collect());
        for command in [
            shell("ls"),
            shell(""),
            argv(&["ls"]),
            argv(&["sh", "-c", "ls"]),
        ] {
            let refused = analyse(&command, &WorkPath::root(), "/");
            assert_eq!(refused, Err(Refusal::NoParser), "{command:?}");
        }
    }
}
