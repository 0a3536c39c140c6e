//! How large a script may be before it is refused instead of read. All are counts, never times:
//! policy reads no clock, and the same script must get the same answer on a busy machine.

use std::fmt;

/// The longest script, in bytes.
pub(super) const MAX_BYTES: usize = 128 * 1024;
/// The most syntax nodes of one script.
pub(super) const MAX_NODES: usize = 40_000;
/// The most simple commands of one script, those inside wrappers included.
pub(super) const MAX_COMMANDS: usize = 512;
/// How deep groups, subshells and substitutions may be nested.
pub(super) const MAX_NESTING: usize = 32;
/// How many wrappers may be nested: `timeout 5 nice sh -c …` are three.
pub(super) const MAX_WRAPPERS: usize = 8;
/// How many brackets may be open at once, quoted or not.
pub(super) const MAX_OPEN_BRACKETS: usize = 200;
/// How often the parser may report progress, which it does every hundred operations, on any script.
pub(super) const MIN_PARSER_REPORTS: usize = 500;
/// One more report for this many bytes. An ordinary script takes about one for a thousand.
pub(super) const BYTES_PER_PARSER_REPORT: usize = 16;
/// The longest script that is given to the second parser.
pub(super) const MAX_SECOND_BYTES: usize = 16 * 1024;
/// The most opening brackets of a script that is given to the second parser, whose effort grows
/// with their nesting.
pub(super) const MAX_SECOND_BRACKETS: usize = 64;
/// The most words that open something (`if`, `while`, `!`) in a script that is given to the second
/// parser: it calls itself for each, and a stack that overflows ends the whole process.
pub(super) const MAX_SECOND_OPENERS: usize = 32;
/// The most groups, subshells, loops over words and choices in a script that is given to the second
/// parser, whose effort doubles with each that stands in another.
pub(super) const MAX_SECOND_GROUPS: usize = 8;
/// How often the walk over the syntax tree may call itself, whatever the reason.
pub(super) const MAX_DEPTH: usize = 96;
/// The most lines of a script with a mistake in it that are read by themselves.
pub(super) const MAX_LINES_ALONE: usize = 256;
/// The longest statement that is read by itself there, in bytes.
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
    /// It is not a script: both parsers say so.
    Syntax,
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
        }
    }
}
