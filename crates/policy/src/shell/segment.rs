//! One command of a script, with everything that is known about it before it runs.

use super::{hazard::Hazard, table::Class, touch::Touch, unclear::Unclear, word::Word};

/// One command: the unit rules are applied to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// As written, or as its words where it was inside another command.
    pub(crate) text: String,
    /// The commands it was taken out of, outermost first.
    pub(crate) inside: Vec<String>,
    /// The program and its arguments.
    pub(crate) words: Vec<Word>,
    pub(crate) touches: Vec<Touch>,
    pub(crate) unclear: Vec<Unclear>,
    pub(crate) hazards: Vec<Hazard>,
    pub(crate) class: Class,
    /// Whether it touches files that are known only when it runs.
    pub(crate) vague: bool,
}

impl Segment {
    /// The command as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The commands it was taken out of, outermost first: `timeout`, `bash -c`.
    pub fn inside(&self) -> &[String] {
        &self.inside
    }

    /// The program and its arguments, as far as they are known; `None` for a word that is known
    /// only when it runs.
    pub fn argv(&self) -> impl Iterator<Item = Option<&str>> {
        self.words.iter().map(Word::text)
    }

    /// Why it is not fully understood; empty where it is.
    pub fn unclear(&self) -> &[Unclear] {
        &self.unclear
    }

    /// Words that make it do something else besides.
    pub fn hazards(&self) -> impl Iterator<Item = &str> {
        self.hazards.iter().map(|hazard| hazard.word.as_str())
    }

    /// What it is known to do.
    pub fn class(&self) -> Class {
        self.class
    }

    /// What its words and redirections say it touches.
    pub fn touches(&self) -> impl Iterator<Item = &haft_contract::Access> {
        self.touches.iter().map(|touch| &touch.access)
    }

    /// The program as written, where it is known.
    pub(crate) fn program(&self) -> Option<&str> {
        self.words.first().and_then(Word::text)
    }

    /// The name of the program without its directory.
    pub(crate) fn name(&self) -> Option<&str> {
        self.program().map(name_of)
    }
}

/// The last component of a program's path.
pub(crate) fn name_of(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}
