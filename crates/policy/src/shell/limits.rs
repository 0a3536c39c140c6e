//! How large a script may be before it is refused unread. All limits are counts, never times:
//! policy reads no clock, and the same script must get the same answer on a busy machine.

#![cfg_attr(
    not(any(test, feature = "shell")),
    expect(dead_code, reason = "most of them are limits of the parsers")
)]

use std::fmt;

/// The largest script, in bytes.
pub(super) const MAX_BYTES: usize = 128 * 1024;
/// The most syntax nodes in one script.
pub(super) const MAX_NODES: usize = 40_000;
/// The most simple commands in one script, including those inside wrappers.
pub(super) const MAX_COMMANDS: usize = 512;
/// How deep groups, subshells and substitutions may nest.
pub(super) const MAX_NESTING: usize = 32;
/// How many wrappers may nest: `timeout 5 nice sh -c …` are three.
pub(super) const MAX_WRAPPERS: usize = 8;
/// How many brackets may be open at once, quoted or not.
pub(super) const MAX_OPEN_BRACKETS: usize = 200;
/// How many progress reports, one for every hundred operations, any script may cost the parser.
pub(super) const MIN_PARSER_REPORTS: usize = 500;
/// One more report for this many bytes. An ordinary script needs about one for a thousand.
pub(super) const BYTES_PER_PARSER_REPORT: usize = 16;
/// The largest script that is given to the second parser.
pub(super) const MAX_SECOND_BYTES: usize = 16 * 1024;
/// The most opening brackets in a script that is given to the second parser, whose work grows with
/// their nesting.
pub(super) const MAX_SECOND_BRACKETS: usize = 64;
/// The most words that open something (`if`, `while`, `!`) in a script that is given to the second
/// parser: it recurses for each, and a stack overflow ends the whole process.
pub(super) const MAX_SECOND_OPENERS: usize = 32;
/// The most groups, subshells, loops over words and choices in a script that is given to the second
/// parser, whose work doubles with each nesting.
pub(super) const MAX_SECOND_GROUPS: usize = 8;
/// How deep the walk over the syntax tree may recurse, for any reason.
pub(super) const MAX_DEPTH: usize = 96;
/// The most lines that are parsed separately in a script with a syntax error.
pub(super) const MAX_LINES_ALONE: usize = 256;
/// The longest statement that is parsed separately there, in bytes.
pub(super) const MAX_BYTES_ALONE: usize = 4 * 1024;

/// Why a script is refused outright.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Too many bytes.
    TooLong,
    /// Too many words and operators.
    TooManyNodes,
    /// Too many commands.
    TooManyCommands,
    /// Groups or substitutions nested too deep.
    TooDeep,
    /// Wrappers nested too deep.
    TooManyWrappers,
    /// The parser gave up.
    TooMuchWork,
    /// Both parsers say that it is not a script.
    Syntax,
    /// The program was built without the feature `shell`, so there is nothing to read it with.
    NoParser,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "it is longer than {MAX_BYTES} bytes"),
            Self::TooManyNodes => write!(f, "it has more than {MAX_NODES} words and operators"),
            Self::TooManyCommands => write!(f, "it has more than {MAX_COMMANDS} commands"),
            Self::TooDeep => write!(f, "it is nested deeper than {MAX_NESTING} levels"),
            Self::TooManyWrappers => {
                write!(
                    f,
                    "it wraps a command in more than {MAX_WRAPPERS} other commands"
                )
            }
            Self::TooMuchWork => f.write_str("it takes too long to read"),
            Self::Syntax => f.write_str("it is not a complete shell script"),
            Self::NoParser => f.write_str(
                "this program was built without the feature `shell`, so it cannot read commands",
            ),
        }
    }
}
