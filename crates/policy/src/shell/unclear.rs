//! Why a command is not fully understood. Every such command asks, giving this reason.

use std::fmt;

/// What is not known about a command before it runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum UnclearReason {
    /// Which program runs is unknown.
    Program,
    /// The spelling of the program hides its name.
    Spelling,
    /// Some of its words are known only when it runs.
    Expansion,
    /// The parser found something it does not know.
    Syntax,
    /// The two parsers read it differently.
    Disagreement,
    /// It has characters that are invisible or look like others.
    Characters,
    /// Commands follow a here-document on its first line.
    HereDocument,
    /// Arithmetic can run commands.
    Arithmetic,
    /// It has a test that evaluates its operands.
    Test,
    /// It is a loop or choice over words.
    Construct,
    /// A function or alias gives a name another meaning.
    Function,
    /// It sets variables that affect other commands.
    Variables,
    /// It sets this variable.
    Variable(String),
    /// It changes the shell that runs the rest.
    Shell(String),
    /// The command inside this wrapper could not be found.
    Wrapper(String),
    /// The named thing runs or writes something that is not a word of the command.
    Hidden(String),
    /// It uses a file outside the workspace, or an unknown one.
    Place(String),
    /// A rule might apply to it.
    MayMatch,
    /// A star does not match this word outside a sandbox without network.
    Unlisted(String),
}

impl fmt::Display for UnclearReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program => f.write_str("which program it runs is known only when it runs"),
            Self::Spelling => f.write_str("its spelling hides the program's name"),
            Self::Expansion => f.write_str("some of its words are known only when it runs"),
            Self::Syntax => f.write_str("it contains something that Haft does not understand"),
            Self::Disagreement => f.write_str("two parsers read it differently"),
            Self::Characters => f.write_str("it contains invisible or lookalike characters"),
            Self::HereDocument => {
                f.write_str("other commands follow its here-document on the same line")
            }
            Self::Arithmetic => f.write_str("arithmetic can run commands"),
            Self::Test => f.write_str("the test evaluates its operands"),
            Self::Construct => f.write_str("it runs over words that are known only when it runs"),
            Self::Function => f.write_str("it gives a name another meaning"),
            Self::Variables => f.write_str("it sets variables that affect other commands"),
            Self::Variable(name) => write!(f, "it sets the variable `{name}`"),
            Self::Shell(what) => write!(f, "`{what}` changes the shell that runs the rest"),
            Self::Wrapper(what) => {
                write!(f, "the command that `{what}` runs could not be determined")
            }
            Self::Hidden(what) => write!(f, "`{what}` can run or write something else"),
            Self::Place(path) => write!(f, "`{path}` is not known to be in the workspace"),
            Self::MayMatch => f.write_str("a rule might apply to it"),
            Self::Unlisted(what) => write!(
                f,
                "`{what}` is not known to be harmless; `*` matches it only in a sandbox without network"
            ),
        }
    }
}
