//! One command of a script, with everything known about it before it runs.

use haft_contract::{PathMode, WorkPath};

use super::{
    concern::Concern,
    doubts::is_routine_variable,
    entry::Class,
    hazard::Hazard,
    touch::CommandTouch,
    unclear::UnclearReason,
    word::{Value, Word},
};

/// One command: the unit rules are applied to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a separate fact about the command"
)]
pub struct Segment {
    /// As written, or its words if it was inside another command.
    pub(crate) text: String,
    /// The commands it was extracted from, outermost first.
    pub(crate) inside: Vec<String>,
    /// The variables it sets, as written.
    pub(crate) assignments: Vec<String>,
    /// The program and its arguments.
    pub(crate) words: Vec<Word>,
    /// Its redirections and here-documents, as written.
    pub(crate) beside: Vec<String>,
    pub(crate) runs: Vec<String>,
    pub(crate) may_name: Vec<String>,
    pub(crate) touches: Vec<CommandTouch>,
    /// The paths among its words and redirections, as written.
    pub(crate) names: Vec<(PathMode, String)>,
    /// The workspace paths that code among its words or beside them quotes.
    pub(crate) quoted: Vec<WorkPath>,
    pub(crate) unclear: Vec<UnclearReason>,
    pub(crate) hazards: Vec<Hazard>,
    /// The indexes of words that a star does not match without a sandbox that limits their effect.
    pub(crate) unlisted: Vec<usize>,
    pub(crate) class: Class,
    /// Whether it runs what workspace files or its input say, even if it is not a known command.
    pub(crate) runs_files: bool,
    /// Whether it touches files that are known only when it runs.
    pub(crate) vague: bool,
    pub(crate) concerns: Vec<Concern>,
    /// Whether it deletes or rewrites something, even if that can be taken back.
    pub(crate) loses: bool,
    /// Whether it builds, tests, checks, looks or commits, and is not there to change files.
    pub(crate) routine: bool,
    /// Whether it shows which programs run.
    pub(crate) legible: bool,
}

impl Segment {
    /// The command as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The commands it was extracted from, outermost first: `timeout`, `bash -c`.
    pub fn inside(&self) -> &[String] {
        &self.inside
    }

    /// The program and its arguments; `None` for a word that is known only when it runs.
    pub fn argv(&self) -> impl Iterator<Item = Option<&str>> {
        self.words.iter().map(Word::text)
    }

    /// The variables it sets, for itself or for the rest of the script, as written.
    pub fn assignments(&self) -> &[String] {
        &self.assignments
    }

    /// Its redirections and here-documents, as written. What they open is included in
    /// [`Segment::touches`].
    pub fn redirections(&self) -> &[String] {
        &self.beside
    }

    /// The programs and scripts it runs: a bare name, which is looked up where programs are
    /// installed, or an absolute path. A workspace program may have several, if the directory is
    /// uncertain.
    pub fn runs(&self) -> &[String] {
        &self.runs
    }

    /// Every absolute workspace path that its words and redirections may name, in any position.
    pub fn may_name(&self) -> &[String] {
        &self.may_name
    }

    /// Whether files it works on are known only when it runs: a glob, a variable, what another
    /// command passes on.
    pub fn is_vague(&self) -> bool {
        let known = |word: &Word| word.text().is_some();
        self.vague || !self.words.iter().all(known)
    }

    /// The command as parsed, each word quoted if necessary, with the variables it sets and its
    /// redirections. A word that is known only when it runs is shown as written.
    pub fn line(&self) -> String {
        if self.words.is_empty() && self.assignments.is_empty() {
            return self.text.clone();
        }
        let words = self.words.iter().map(|word| match &word.value {
            Value::Literal(text) => quoted(text),
            Value::Glob(_) | Value::Given | Value::Unknown => word.raw.clone(),
        });
        let all = self.assignments.iter().cloned().chain(words);
        let all: Vec<String> = all.chain(self.beside.iter().cloned()).collect();
        all.join(" ")
    }

    /// Why it is not fully understood or not what it seems, in one sentence; `None` if it is.
    pub fn opaque(&self) -> Option<String> {
        if let Some(unclear) = self.unclear.first() {
            return Some(unclear.to_string());
        }
        let hazard = self.hazards.iter().find(|hazard| !hazard.accounted)?;
        Some(UnclearReason::Hidden(hazard.word.clone()).to_string())
    }

    /// Why it is not fully understood; empty if it is.
    pub fn unclear(&self) -> &[UnclearReason] {
        &self.unclear
    }

    /// Words that make it do something else as well, which is not obvious.
    pub fn hazards(&self) -> impl Iterator<Item = &str> {
        let hidden = self.hazards.iter().filter(|hazard| !hazard.accounted);
        hidden.map(|hazard| hazard.word.as_str())
    }

    /// Whether the variables it sets change nothing about what is run or written.
    pub(crate) fn sets_only_harmless_variables(&self) -> bool {
        let before = !self.words.is_empty();
        let mut assignments = self.assignments.iter();
        assignments.all(|assignment| is_routine_variable(assignment, before))
    }

    /// Whether it starts no program and opens no file: it sets variables of the shell, or is the
    /// head of a loop whose commands are judged by themselves.
    pub(crate) fn starts_nothing(&self) -> bool {
        self.words.is_empty() && self.beside.is_empty()
    }

    /// What it is known to do.
    pub fn class(&self) -> Class {
        self.class
    }

    /// What about it a person should be asked about wherever it runs.
    pub fn concerns(&self) -> &[Concern] {
        &self.concerns
    }

    /// The paths it names, as written, and how it uses them.
    pub fn names(&self) -> impl Iterator<Item = (PathMode, &str)> {
        self.names.iter().map(|(mode, name)| (*mode, name.as_str()))
    }

    /// What its words and redirections touch, as rules see it: a path outside the workspace has the
    /// name it would have inside.
    pub fn touches(&self) -> impl Iterator<Item = &haft_contract::Access> {
        self.touches.iter().map(|touch| &touch.access)
    }

    /// The program as written, if it is known.
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

/// The name of a program without its directory and version: `python3.11` is `python`, `gcc-12` is
/// `gcc`.
pub(crate) fn family(program: &str) -> &str {
    let name = name_of(program);
    let versionless = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let family = versionless.trim_end_matches('-');
    if family.is_empty() || name.len() == versionless.len() {
        return name;
    }
    family
}

/// A word as a person would write it for bash.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}
