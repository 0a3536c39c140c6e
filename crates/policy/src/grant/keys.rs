//! What a grant is found by, so that a decision looks only at the few that may cover it, however
//! many there are.
//!
//! Must agree with `cover.rs`: whatever a rule covers shares a key with it. A key only narrows;
//! `cover.rs` decides.

use std::hash::{DefaultHasher, Hash, Hasher};

use haft_contract::{
    Access, ToolKey,
    host::{GrantKey, Question, ToolFacts},
};

use super::rule::GrantRule;
use crate::{
    facts::{CommandPart, ReadQuestion},
    pattern::{PathShape, Pattern, ancestors},
    rule::Selector,
    shell::{Segment, Word},
    text_pattern::TextPattern,
};

/// How many leading words of a command tell rules apart.
const MAX_WORDS: usize = 16;

/// The part of a key that comes from the tool.
#[derive(Hash)]
enum SelectorKey<'a> {
    Named(&'a str),
    Provided(&'a ToolKey),
    /// Any name with a wildcard.
    Like,
}

/// The part of a key that comes from the pattern.
#[derive(Hash)]
enum PatternKey<'a> {
    /// There is no pattern.
    Always,
    /// A whole text.
    Text(&'a str),
    /// Any text with a wildcard.
    WildText,
    /// The words of a command before its first wildcard.
    Command(&'a [&'a str]),
    Host(&'a str),
    /// Any host with a wildcard.
    WildHost,
    EveryPath,
    Path(&'a str),
    /// Everything beneath a directory.
    Beneath(&'a str),
    /// Any glob that starts with these directories.
    Glob(&'a str),
}

impl GrantRule {
    /// The keys of the rule: one for each way to understand its pattern.
    pub(crate) fn keys(&self) -> Vec<GrantKey> {
        let selector = match &self.selector {
            Selector::Named(name) => SelectorKey::Named(name.as_str()),
            Selector::Provided(key) => SelectorKey::Provided(key),
            Selector::Like(_) => SelectorKey::Like,
            // Not granted.
            Selector::Group(_) | Selector::Accesses(_) => return Vec::new(),
        };
        let mut keys = Vec::new();
        let mut add = |pattern: PatternKey<'_>| keys.push(key(&selector, &pattern));
        let Some(pattern) = &self.pattern else {
            add(PatternKey::Always);
            return keys;
        };
        let Pattern {
            path,
            words,
            command,
            host,
            database,
            message,
            ..
        } = pattern;
        match path.as_ref().map(|path| &path.shape) {
            Some(PathShape::Everything) => add(PatternKey::EveryPath),
            Some(PathShape::Literal(path)) => add(PatternKey::Path(path)),
            Some(PathShape::Beneath(directory)) => add(PatternKey::Beneath(directory)),
            Some(PathShape::Glob { stem, .. }) => add(PatternKey::Glob(stem)),
            None => {}
        }
        let database = database.as_ref().map(|database| &database.source);
        for text in [words.as_ref(), database, message.as_ref()]
            .into_iter()
            .flatten()
        {
            match text {
                TextPattern::Literal(text) => add(PatternKey::Text(text)),
                TextPattern::Wild(_) => add(PatternKey::WildText),
            }
        }
        if let Some(command) = command {
            let words: Vec<&str> = command.leading_words().take(MAX_WORDS).collect();
            add(PatternKey::Command(&words));
        }
        match host {
            Some(TextPattern::Literal(host)) => add(PatternKey::Host(host)),
            Some(TextPattern::Wild(_)) => add(PatternKey::WildHost),
            None => {}
        }
        keys
    }
}

/// The keys of every rule that may cover something in a question.
pub(crate) fn keys_of(question: &Question<'_>) -> Vec<GrantKey> {
    let mut keys = QuestionKeys::new(&question.tool);
    keys.add(&PatternKey::Always);
    let asked = ReadQuestion::new(question);
    for item in asked.items() {
        match (item.access, item.part) {
            (Some(_), CommandPart::Segment(segment, reading)) => {
                keys.add(&PatternKey::Text(&reading.text));
                keys.add_command(segment);
            }
            (Some(access), CommandPart::Whole) => keys.add_access(access),
            // What a command touches is covered by what covers the command.
            (Some(_), CommandPart::Touch(..) | CommandPart::Refused(_)) | (None, _) => {}
        }
    }
    keys.found.sort_unstable();
    keys.found.dedup();
    keys.found
}

struct QuestionKeys<'a> {
    selectors: [SelectorKey<'a>; 3],
    found: Vec<GrantKey>,
}

impl<'a> QuestionKeys<'a> {
    fn new(tool: &ToolFacts<'a>) -> Self {
        Self {
            selectors: [
                SelectorKey::Named(tool.key.tool.as_str()),
                SelectorKey::Provided(tool.key),
                SelectorKey::Like,
            ],
            found: Vec::new(),
        }
    }

    fn add(&mut self, pattern: &PatternKey<'_>) {
        let keys = self.selectors.iter().map(|tool| key(tool, pattern));
        self.found.extend(keys);
    }

    fn add_command(&mut self, segment: &Segment) {
        let words = segment.words.iter().map_while(Word::text);
        let words: Vec<&str> = words.take(MAX_WORDS).collect();
        for end in 0..=words.len() {
            self.add(&PatternKey::Command(words.get(..end).unwrap_or_default()));
        }
    }

    fn add_access(&mut self, access: &Access) {
        match access {
            // Where the path leads must be covered too, but by the same rule.
            Access::Path(path) => self.add_path(path.path.as_str()),
            Access::Host { host, .. } => {
                let host = host.to_ascii_lowercase();
                let host = host.strip_suffix('.').unwrap_or(&host);
                self.add(&PatternKey::Host(host));
                self.add(&PatternKey::WildHost);
            }
            // A rule about a database or a table covers everything in it.
            Access::Database { source, .. } => {
                for (at, _) in source.match_indices('.') {
                    self.add_text(source.get(..at).unwrap_or_default());
                }
                self.add_text(source);
            }
            Access::Message { channel, target } => self.add_text(&format!("{channel}:{target}")),
            Access::Custom(custom) => self.add_text(&custom.to_string()),
            Access::Command(_) | Access::Process(_) | Access::RemoteTool { .. } => {}
        }
    }

    fn add_path(&mut self, path: &str) {
        self.add(&PatternKey::EveryPath);
        self.add(&PatternKey::Path(path));
        self.add(&PatternKey::Glob(""));
        for directory in ancestors(path) {
            self.add(&PatternKey::Beneath(directory));
            self.add(&PatternKey::Glob(directory));
        }
    }

    fn add_text(&mut self, text: &str) {
        self.add(&PatternKey::Text(text));
        self.add(&PatternKey::WildText);
    }
}

fn key(selector: &SelectorKey<'_>, pattern: &PatternKey<'_>) -> GrantKey {
    let mut hasher = DefaultHasher::new();
    (selector, pattern).hash(&mut hasher);
    GrantKey(hasher.finish())
}
