//! The part of a rule in parentheses: what it matches of a path, a command text, a host, a database
//! or a message.
//!
//! One principle decides every doubt: in `deny` and `ask` a pattern reaches as far as it can, in
//! `allow` only as far as it says. Matching is by whole components and whole texts, never by
//! substring. Read next: `pattern_index.rs`, which finds matching patterns without trying them all.

use std::net::IpAddr;

use globset::{Glob, GlobBuilder, GlobMatcher};
use haft_contract::{WorkPath, access::Command};

use crate::{
    access_word::AccessWord,
    command_pattern::{CommandPattern, PatternReach},
    database_pattern::DatabasePattern,
    host_name, ruinous,
    shell::{self, Segment},
    text_pattern::TextPattern,
};

/// What is before the name of a host.
const DOMAIN: &str = "domain:";
/// What is before the name of a database.
const DATABASE: &str = "db:";
/// What is before a channel and whom a message is for.
const MESSAGE: &str = "message:";

/// How far a pattern reaches, determined by the list it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum PatternScope {
    /// `allow`: exactly what is written.
    Exact,
    /// `deny` and `ask`: at any depth if no directory is named, and everything beneath a matching
    /// directory.
    Wide,
}

/// A parsed pattern. The same text can match a path, a command or a host, depending on the access.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    /// As written.
    pub(crate) text: String,
    pub(crate) reach: PatternScope,
    pub(crate) path: Option<PathPattern>,
    pub(crate) words: Option<TextPattern>,
    /// The same text as the words of a command, if it can be parsed that way.
    pub(crate) command: Option<CommandPattern>,
    /// The commands it names together, if it does.
    pub(crate) group: Option<CommandGroup>,
    /// A host, by `domain:` or because the text has the form of one.
    pub(crate) host: Option<TextPattern>,
    pub(crate) database: Option<DatabasePattern>,
    /// A channel and a target.
    pub(crate) message: Option<TextPattern>,
}

/// Commands that a rule names together, whatever their spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandGroup {
    /// `@ruinous`: those of `ruinous.rs`.
    Ruinous,
}

/// What a pattern was parsed as. The same text means something different for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum PatternKind {
    /// Only a command text.
    Command,
    /// Only a host.
    Host,
    /// Only a database.
    Database,
    /// Only a message.
    Message,
    /// A path, a host, or the text of a tool not known to run commands.
    Path,
}

/// A glob over workspace-relative paths.
#[derive(Debug, Clone)]
pub(crate) struct PathPattern {
    /// The normalised glob.
    pub(crate) glob: String,
    pub(crate) shape: PathShape,
    /// The directories whose whole tree a glob ending in `/**` covers.
    trees: Option<PathShape>,
    reach: PatternScope,
}

/// The shape of a path glob; the common ones need no glob engine.
#[derive(Debug, Clone)]
pub(crate) enum PathShape {
    /// `**`.
    Everything,
    /// A path without wildcards.
    Literal(String),
    /// `directory/**` without other wildcards: everything strictly beneath it.
    Beneath(String),
    /// Anything else.
    Glob {
        glob: Box<Glob>,
        matcher: Box<GlobMatcher>,
        /// The leading directories without wildcards; empty if there are none.
        stem: String,
    },
}

/// Why a pattern was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PatternError {
    Empty,
    NotRelative,
    Climbs,
    /// Whitespace at the start or end.
    Whitespace,
    /// A group of commands that there is not, or not for this list.
    UnknownGroup,
    /// More than a host name after `domain:`.
    NotAHost,
    /// A wildcard in an address.
    AddressWildcard,
    /// A part of a database without a name, or a word after it that is neither `reads` nor `writes`.
    NotADatabase,
    /// A message without a channel or a target.
    NotAMessage,
    Glob(String),
}

impl Pattern {
    /// Parses the pattern of a rule about commands, where every character but `*` is literal.
    pub(crate) fn command(text: &str, reach: PatternScope) -> Result<Self, PatternError> {
        if text.is_empty() {
            return Err(PatternError::Empty);
        }
        let group = CommandGroup::named(text);
        let is_refused = match reach {
            PatternScope::Exact => group.is_some(),
            PatternScope::Wide => group.is_none() && reads_as_group(text),
        };
        if is_refused {
            return Err(PatternError::UnknownGroup);
        }
        // `allow` spells out one command exactly, which may end in a blank.
        if reach == PatternScope::Wide && text.trim() != text {
            return Err(PatternError::Whitespace);
        }
        Ok(Self {
            words: Some(TextPattern::parse(text)),
            command: CommandPattern::parse(text).filter(|_| group.is_none()),
            group,
            ..Self::about_nothing(text, reach)
        })
    }

    /// Parses any other pattern: `domain:` for a host, `db:` for a database, `message:` for a
    /// message, otherwise a path glob that also matches the texts of custom command tools, database
    /// sources and channels, and a host if it has the form of one.
    pub(crate) fn parse(text: &str, reach: PatternScope) -> Result<Self, PatternError> {
        if text.trim() != text {
            return Err(PatternError::Whitespace);
        }
        let kinds = [
            (DOMAIN, AccessWord::Host),
            (DATABASE, AccessWord::Database),
            (MESSAGE, AccessWord::Message),
        ];
        for (prefix, word) in kinds {
            if let Some(inside) = text.strip_prefix(prefix) {
                let parsed = Self::of_access(word, inside, reach)?;
                return Ok(Self {
                    text: text.to_owned(),
                    ..parsed
                });
            }
        }
        Ok(Self {
            path: Some(PathPattern::parse(text, reach)?),
            words: Some(TextPattern::parse(text)),
            command: CommandPattern::parse(text),
            host: host_name::in_pattern(text, reach),
            ..Self::about_nothing(text, reach)
        })
    }

    /// Parses the pattern of a rule about accesses of one kind.
    pub(crate) fn of_access(
        word: AccessWord,
        text: &str,
        reach: PatternScope,
    ) -> Result<Self, PatternError> {
        let mut pattern = Self::about_nothing(text, reach);
        match word {
            AccessWord::Read | AccessWord::Write => return Self::parse(text, reach),
            AccessWord::Host => pattern.host = Some(host_name::after_domain(text)?),
            AccessWord::Database => pattern.database = Some(DatabasePattern::parse(text)?),
            AccessWord::Message => pattern.message = Some(message(text)?),
        }
        Ok(pattern)
    }

    fn about_nothing(text: &str, reach: PatternScope) -> Self {
        Self {
            text: text.to_owned(),
            reach,
            path: None,
            words: None,
            command: None,
            group: None,
            host: None,
            database: None,
            message: None,
        }
    }

    /// Whether the pattern matches this script: in `allow` every command in it, in `deny` and `ask`
    /// any.
    pub(crate) fn speaks_of_script(&self, script: &str) -> bool {
        if self.matches_command(script) {
            return true;
        }
        if let Some(group) = self.group {
            return group.is_in_script(script);
        }
        let Some(pattern) = &self.command else {
            return false;
        };
        let command = Command::Shell(script.to_owned());
        let Ok(analysis) = shell::analyse(&command, &WorkPath::root(), "/") else {
            return false;
        };
        let mut segments = analysis.segments().iter();
        match self.reach {
            PatternScope::Exact => segments.all(|segment| pattern.covers(segment, true)),
            PatternScope::Wide => {
                segments.any(|segment| pattern.reaches(segment) == PatternReach::Yes)
            }
        }
    }

    /// Whether the pattern is this whole text. In `allow`, a wildcard never is: `npm run *` would
    /// also match `npm run x; rm -rf ~`. It is matched against parsed commands instead.
    pub(crate) fn matches_command(&self, text: &str) -> bool {
        match (&self.words, self.reach) {
            (Some(TextPattern::Wild(_)), PatternScope::Exact) | (None, _) => false,
            (Some(words), _) => words.matches(text),
        }
    }

    /// Whether the pattern matches this host; in `deny` and `ask`, also its subdomains.
    pub(crate) fn matches_host(&self, host: &str) -> bool {
        let Some(pattern) = &self.host else {
            return false;
        };
        let compared = host_name::compared(host);
        match self.reach {
            PatternScope::Exact => pattern.matches(&compared),
            PatternScope::Wide => {
                domains(&compared).any(|domain| pattern.matches(domain))
                    || host_name::carried_by(host).is_some_and(|inner| pattern.matches(&inner))
            }
        }
    }

    /// The one address that the pattern names as a host, if it does.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        match self.host.as_ref()? {
            TextPattern::Literal(host) => host.parse().ok(),
            TextPattern::Wild(_) => None,
        }
    }

    /// Whether the pattern matches a query of this database.
    pub(crate) fn matches_database(&self, source: &str, writes: bool) -> bool {
        let database = self.database.as_ref();
        database.is_some_and(|database| database.matches(source, writes, self.reach))
    }

    /// Whether the pattern matches a message over this channel to this target.
    pub(crate) fn matches_message(&self, channel: &str, target: &str) -> bool {
        let message = self.message.as_ref();
        message.is_some_and(|message| message.matches(&format!("{channel}:{target}")))
    }

    /// Whether the pattern matches this example of a rule that is not about commands.
    pub(crate) fn speaks_of(&self, example: &str) -> bool {
        let path = self.path.as_ref();
        let database = || DatabasePattern::parse(example).ok();
        match self.kind() {
            PatternKind::Path => {
                path.is_some_and(|path| path.matches(example)) || self.matches_host(example)
            }
            PatternKind::Host => self.matches_host(example),
            PatternKind::Database => database().is_some_and(|query| {
                self.matches_database(query.source.prefix(), query.is_a_write())
            }),
            PatternKind::Message => {
                let message = self.message.as_ref();
                message.is_some_and(|message| message.matches(example))
            }
            PatternKind::Command => self.matches_command(example),
        }
    }

    /// What it was parsed as.
    pub(crate) fn kind(&self) -> PatternKind {
        match (&self.path, &self.host, &self.database, &self.message) {
            (Some(_), ..) => PatternKind::Path,
            (None, Some(_), ..) => PatternKind::Host,
            (None, None, Some(_), _) => PatternKind::Database,
            (None, None, None, Some(_)) => PatternKind::Message,
            (None, None, None, None) => PatternKind::Command,
        }
    }

    /// Whether it matches every input.
    pub(crate) fn is_all(&self) -> bool {
        let path = self.path.as_ref().map(|path| &path.shape);
        matches!(self.text.as_str(), "*" | "**") || matches!(path, Some(PathShape::Everything))
    }

    /// The program it names, if it is the words of one command.
    pub(crate) fn program(&self) -> Option<&str> {
        self.command.as_ref().and_then(CommandPattern::program)
    }

    /// Whether this is a wildcard over a text.
    pub(crate) fn is_wild_text(&self) -> bool {
        matches!(self.words, Some(TextPattern::Wild(_)))
    }
}

impl CommandGroup {
    fn named(text: &str) -> Option<Self> {
        (text == "@ruinous").then_some(Self::Ruinous)
    }

    /// Whether it reaches this command.
    pub(crate) fn reaches(self, segment: &Segment) -> PatternReach {
        match self {
            Self::Ruinous => ruinous::ruins(segment),
        }
    }

    /// Whether a command of this script is one of them.
    pub(crate) fn is_in_script(self, script: &str) -> bool {
        match self {
            Self::Ruinous => ruinous::script_ruins(script),
        }
    }
}

/// Whether whoever wrote this meant a group of commands, and not a program with such a name.
fn reads_as_group(text: &str) -> bool {
    let name = text
        .strip_prefix('@')
        .and_then(|rest| rest.split(' ').next());
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    name.is_some_and(|name| !name.is_empty() && name.chars().all(plain))
}

impl PathPattern {
    fn parse(text: &str, reach: PatternScope) -> Result<Self, PatternError> {
        let glob = normalise(text, reach)?;
        let shape = PathShape::of(&glob)?;
        let trees = glob.strip_suffix("/**").map(PathShape::of).transpose()?;
        Ok(Self {
            glob,
            shape,
            trees,
            reach,
        })
    }

    /// Whether the pattern matches this path (`.` for the root).
    pub(crate) fn matches(&self, path: &str) -> bool {
        match self.reach {
            PatternScope::Exact => self.shape.matches(path),
            PatternScope::Wide => ancestors(path).any(|ancestor| self.shape.matches(ancestor)),
        }
    }

    /// Whether the pattern matches everything beneath a directory.
    pub(crate) fn covers_tree(&self, root: &str) -> bool {
        if matches!(self.shape, PathShape::Everything) {
            return true;
        }
        let covered = self
            .trees
            .as_ref()
            .is_some_and(|trees| ancestors(root).any(|above| trees.matches(above)));
        covered || (self.reach == PatternScope::Wide && self.matches(root))
    }

    /// Whether the pattern could match something beneath a directory. Over-estimates.
    pub(crate) fn may_reach_beneath(&self, root: &str) -> bool {
        let stem = match &self.shape {
            PathShape::Everything => return true,
            PathShape::Literal(path) | PathShape::Beneath(path) => path,
            PathShape::Glob { stem, .. } => stem,
        };
        root == "." || stem.is_empty() || is_beneath(stem, root) || is_beneath(root, stem)
    }

    /// Globs that exclude everything this pattern matches, for a search over a tree.
    pub(crate) fn withheld(&self) -> Vec<String> {
        let mut globs = vec![self.glob.clone()];
        if self.reach == PatternScope::Wide && !self.glob.ends_with("**") {
            globs.push(format!("{}/**", self.glob));
        }
        globs
    }
}

impl PathShape {
    fn of(glob: &str) -> Result<Self, PatternError> {
        if glob == "**" || glob == "**/**" {
            return Ok(Self::Everything);
        }
        if is_literal(glob) {
            return Ok(Self::Literal(glob.to_owned()));
        }
        if let Some(directory) = glob.strip_suffix("/**").filter(|stem| is_literal(stem)) {
            return Ok(Self::Beneath(directory.to_owned()));
        }
        let parsed = GlobBuilder::new(glob)
            .literal_separator(true)
            .backslash_escape(true)
            .build()
            .map_err(|error| PatternError::Glob(error.kind().to_string()))?;
        let directories: Vec<&str> = glob
            .split('/')
            .take_while(|component| is_literal(component))
            .collect();
        Ok(Self::Glob {
            matcher: Box::new(parsed.compile_matcher()),
            glob: Box::new(parsed),
            stem: directories.join("/"),
        })
    }

    fn matches(&self, path: &str) -> bool {
        match self {
            Self::Everything => true,
            Self::Literal(literal) => literal == path,
            Self::Beneath(directory) => directory != path && is_beneath(path, directory),
            Self::Glob { matcher, .. } => matcher.is_match(path),
        }
    }
}

/// A channel and a target, of which either may be a wildcard.
fn message(text: &str) -> Result<TextPattern, PatternError> {
    if text.is_empty() {
        return Err(PatternError::Empty);
    }
    if text.trim() != text {
        return Err(PatternError::Whitespace);
    }
    let pattern = TextPattern::parse(text);
    match &pattern {
        TextPattern::Literal(text) if !text.contains(':') => Err(PatternError::NotAMessage),
        TextPattern::Literal(_) | TextPattern::Wild(_) => Ok(pattern),
    }
}

/// The path and every directory above it, nearest first, without the root; the root alone is `.`.
pub(crate) fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| {
        path.rsplit_once('/').map(|(parent, _)| parent)
    })
}

/// The host and every domain above it.
pub(crate) fn domains(host: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(host), |host| {
        host.split_once('.').map(|(_, parent)| parent)
    })
}

fn is_beneath(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn is_literal(glob: &str) -> bool {
    !glob.contains(['*', '?', '[', ']', '{', '}', '\\'])
}

/// The glob for a text. A text that ends in `/` matches what is in the directory; the root, in a
/// wide scope, matches the whole workspace.
fn normalise(text: &str, reach: PatternScope) -> Result<String, PatternError> {
    if text.is_empty() {
        return Err(PatternError::Empty);
    }
    if text.starts_with(['/', '~']) {
        return Err(PatternError::NotRelative);
    }
    let contents = text.ends_with('/');
    let mut components = Vec::new();
    for component in text.split('/') {
        match component {
            "" | "." => {}
            ".." => return Err(PatternError::Climbs),
            name => components.push(name),
        }
    }
    if components.is_empty() {
        let whole = contents || reach == PatternScope::Wide;
        return Ok(if whole { "**" } else { "." }.to_owned());
    }
    // A single name, with or without a final `/`, does not say which directory it is in.
    if reach == PatternScope::Wide && components.len() == 1 && components != ["**"] {
        components.insert(0, "**");
    }
    if contents {
        components.push("**");
    }
    Ok(components.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(pattern: &str, reach: PatternScope, path: &str) -> bool {
        Pattern::parse(pattern, reach)
            .unwrap()
            .path
            .unwrap()
            .matches(path)
    }

    #[test]
    fn allow_reaches_only_what_it_says() {
        assert!(path("README.md", PatternScope::Exact, "README.md"));
        assert!(!path("README.md", PatternScope::Exact, "vendor/README.md"));
        assert!(path("src/**", PatternScope::Exact, "src/a/b.rs"));
        assert!(!path("src/**", PatternScope::Exact, "src"));
        assert!(!path("src/**", PatternScope::Exact, "src2/a"));
        assert!(!path("src/*.rs", PatternScope::Exact, "src/a/b.rs"));
        assert!(path("**/*.rs", PatternScope::Exact, "lib.rs"));
    }

    #[test]
    fn deny_reaches_as_far_as_it_can() {
        assert!(path(".env", PatternScope::Wide, "a/b/.env"));
        assert!(path("*.pem", PatternScope::Wide, "certs/key.pem"));
        assert!(path("secrets", PatternScope::Wide, "secrets/a/key"));
        assert!(path("**/secrets", PatternScope::Wide, "x/secrets/key"));
        assert!(!path("secrets", PatternScope::Wide, "secrets2/key"));
        assert!(!path("a/secrets", PatternScope::Wide, "b/a/secrets"));
    }

    #[test]
    fn a_final_slash_speaks_of_what_is_in_the_directory() {
        for reach in [PatternScope::Exact, PatternScope::Wide] {
            assert!(path("secrets/", reach, "secrets/a/key"));
            assert!(!path("secrets/", reach, "secrets"));
            assert!(!path("a/secrets/", reach, "b/a/secrets/key"));
            assert!(path("./", reach, "any/file"));
        }
        assert!(path("secrets/", PatternScope::Wide, "x/secrets/key"));
        assert!(!path("secrets/", PatternScope::Exact, "x/secrets/key"));
        assert!(path("*/", PatternScope::Wide, "a/b"));
        assert!(!path("*/", PatternScope::Wide, "a"));
    }

    #[test]
    fn a_text_matches_whole_or_not_at_all() {
        let matches = |pattern: &str, text: &str| TextPattern::parse(pattern).matches(text);
        assert!(matches("rm *", "rm -rf x"));
        assert!(!matches("rm *", "farm x"));
        assert!(!matches("su", "result"));
        assert!(matches("a*b*c", "a--b--b--c"));
        assert!(!matches("a*b", "a"));
        assert!(!matches("ab*b", "ab"));
        assert!(matches(r"ls \*", "ls *"));
        assert!(!matches(r"ls \*", "ls x"));
    }

    #[test]
    fn an_allowed_tree_must_be_covered_whole() {
        let covers = |pattern: &str, root: &str| {
            Pattern::parse(pattern, PatternScope::Exact)
                .unwrap()
                .path
                .unwrap()
                .covers_tree(root)
        };
        assert!(covers("src/**", "src"));
        assert!(covers("src/**", "src/a"));
        assert!(!covers("src/**", "."));
        assert!(!covers("src/*.rs", "src"));
        assert!(covers("**/src/**", "a/src"));
        assert!(covers("**", "."));
    }
}
