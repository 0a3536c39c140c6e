//! The lines before a syntax error. Bash runs a line before it reads the next, so lines before the
//! error are run, whatever a parser makes of the whole text.

use super::{
    limits::{MAX_BYTES_ALONE, MAX_LINES_ALONE},
    parse,
    parsed::ParsedCommand,
};

/// The commands of the lines that are complete by themselves, up to the first that never ends.
pub(super) fn commands(script: &str) -> Vec<ParsedCommand> {
    let mut commands = Vec::new();
    let mut begun = 0;
    let ends = script.match_indices('\n').map(|(at, _)| at + 1);
    for end in ends.take(MAX_LINES_ALONE) {
        let Some(lines) = script.get(begun..end) else {
            break;
        };
        if lines.len() > MAX_BYTES_ALONE {
            break;
        }
        match parse(lines) {
            Ok(parsed) if parsed.complete => {
                commands.extend(parsed.commands);
                begun = end;
            }
            // The statement may continue on the next line.
            Ok(_) => {}
            Err(_) => break,
        }
    }
    commands
}
