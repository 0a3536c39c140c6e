//! Finds the patterns that match a path, a text, a host, a database or a message: literals and directories by hash, globs
//! by their leading directories, command wildcards by their first word. Must agree with
//! `pattern.rs`, which defines what each pattern means; a property test compares the whole engine
//! with a naive implementation.

use std::collections::HashMap;

use globset::{Candidate, GlobSet, GlobSetBuilder};

use crate::{
    command_pattern::PatternReach,
    host_name,
    pattern::{CommandGroup, PathPattern, PathShape, Pattern, PatternScope, ancestors, domains},
    shell::{Segment, family},
    text_pattern::TextPattern,
};

/// A pattern's number. The same text in the same kind of list has one number.
pub(crate) type PatternId = u32;

/// The patterns of one scope, by shape.
#[derive(Debug, Default)]
pub(crate) struct Patterns {
    everything: Vec<PatternId>,
    literal_paths: HashMap<String, Vec<PatternId>>,
    directories: HashMap<String, Vec<PatternId>>,
    globs: HashMap<String, Bucket>,
    all_paths: Vec<PatternId>,
    tree_globs: Vec<PatternId>,
    literal_texts: HashMap<String, Vec<PatternId>>,
    wild_texts: HashMap<String, Vec<PatternId>>,
    wilder_texts: Vec<PatternId>,
    /// Commands without wildcards, by all their words.
    literal_commands: HashMap<String, Vec<PatternId>>,
    /// Commands by the name of their program.
    commands: HashMap<String, Vec<PatternId>>,
    /// Commands whose program is a wildcard.
    wild_commands: Vec<PatternId>,
    /// Commands that are named together.
    command_groups: Vec<(PatternId, CommandGroup)>,
    literal_hosts: HashMap<String, Vec<PatternId>>,
    wild_hosts: Vec<PatternId>,
    /// Few, and each reaches what is within it.
    databases: Vec<PatternId>,
    messages: NamePatterns,
}

/// Patterns of names: those without a wildcard by the name, and the others.
#[derive(Debug, Default)]
struct NamePatterns {
    literal: HashMap<String, Vec<PatternId>>,
    wild: Vec<PatternId>,
}

impl NamePatterns {
    fn add(&mut self, id: PatternId, pattern: &TextPattern) {
        match pattern {
            TextPattern::Literal(name) => self.literal.entry(name.clone()).or_default().push(id),
            TextPattern::Wild(_) => self.wild.push(id),
        }
    }

    /// Those that may match a name.
    fn candidates(&self, name: &str) -> impl Iterator<Item = &PatternId> {
        self.literal
            .get(name)
            .into_iter()
            .flatten()
            .chain(&self.wild)
    }
}

/// Globs that start with the same directories.
#[derive(Debug, Default)]
struct Bucket {
    set: GlobSet,
    ids: Vec<PatternId>,
}

impl Patterns {
    /// Adds a pattern.
    pub(crate) fn add(&mut self, id: PatternId, pattern: &Pattern) {
        if let Some(path) = &pattern.path {
            self.add_path(id, path);
        }
        match &pattern.words {
            Some(TextPattern::Literal(text)) => {
                self.literal_texts.entry(text.clone()).or_default().push(id);
            }
            Some(words @ TextPattern::Wild(_)) => match words.prefix().split_once(' ') {
                Some((word, _)) => {
                    let texts = self.wild_texts.entry(word.to_owned()).or_default();
                    texts.push(id);
                }
                None => self.wilder_texts.push(id),
            },
            None => {}
        }
        if let Some(command) = &pattern.command {
            let literal = command.literal_key();
            let ids = match (pattern.reach, literal, command.program()) {
                // In `deny` and `ask` a command without wildcards also reaches longer ones.
                (PatternScope::Exact, Some(key), _) => {
                    self.literal_commands.entry(key).or_default()
                }
                (PatternScope::Exact, None, Some(program)) => {
                    self.commands.entry(program.to_owned()).or_default()
                }
                (PatternScope::Wide, _, Some(program)) => {
                    self.commands.entry(family(program).to_owned()).or_default()
                }
                (_, _, None) => &mut self.wild_commands,
            };
            ids.push(id);
        }
        if let Some(group) = pattern.group {
            self.command_groups.push((id, group));
        }
        match &pattern.host {
            Some(TextPattern::Literal(host)) => {
                self.literal_hosts.entry(host.clone()).or_default().push(id);
            }
            Some(TextPattern::Wild(_)) => self.wild_hosts.push(id),
            None => {}
        }
        if pattern.database.is_some() {
            self.databases.push(id);
        }
        if let Some(message) = &pattern.message {
            self.messages.add(id, message);
        }
    }

    fn add_path(&mut self, id: PatternId, path: &PathPattern) {
        self.all_paths.push(id);
        match &path.shape {
            PathShape::Everything => self.everything.push(id),
            PathShape::Literal(literal) => {
                let ids = self.literal_paths.entry(literal.clone()).or_default();
                ids.push(id);
            }
            PathShape::Beneath(directory) => {
                let ids = self.directories.entry(directory.clone()).or_default();
                ids.push(id);
            }
            PathShape::Glob { stem, .. } => {
                self.globs.entry(stem.clone()).or_default().ids.push(id);
                if path.glob.ends_with("/**") {
                    self.tree_globs.push(id);
                }
            }
        }
    }

    /// Compiles the globs, once every pattern is added.
    pub(crate) fn build(&mut self, patterns: &[Pattern]) -> Result<(), globset::Error> {
        for bucket in self.globs.values_mut() {
            let mut set = GlobSetBuilder::new();
            for id in &bucket.ids {
                if let Some(PathShape::Glob { glob, .. }) = path_shape(patterns, *id) {
                    set.add(glob.as_ref().clone());
                }
            }
            bucket.set = set.build()?;
        }
        Ok(())
    }

    /// The patterns that match a path.
    pub(crate) fn paths(&self, path: &str, reach: PatternScope, found: &mut Vec<PatternId>) {
        found.extend_from_slice(&self.everything);
        if self.all_paths.len() == self.everything.len() {
            return;
        }
        for directory in ancestors(path).skip(1) {
            found.extend(self.directories.get(directory).into_iter().flatten());
        }
        let depth = match reach {
            PatternScope::Exact => 1,
            PatternScope::Wide => usize::MAX,
        };
        let mut places = Vec::new();
        for part in ancestors(path).take(depth) {
            found.extend(self.literal_paths.get(part).into_iter().flatten());
            if self.globs.is_empty() {
                continue;
            }
            let candidate = Candidate::new(part);
            let stems = ancestors(part).skip(1).chain(std::iter::once(""));
            for bucket in stems.filter_map(|stem| self.globs.get(stem)) {
                bucket.set.matches_candidate_into(&candidate, &mut places);
                found.extend(places.iter().filter_map(|place| bucket.ids.get(*place)));
            }
        }
    }

    /// The patterns that match everything beneath a directory.
    pub(crate) fn trees(&self, root: &str, patterns: &[Pattern], found: &mut Vec<PatternId>) {
        found.extend_from_slice(&self.everything);
        for directory in ancestors(root) {
            found.extend(self.directories.get(directory).into_iter().flatten());
        }
        let covers = |id: &&PatternId| {
            pattern_at(patterns, **id)
                .and_then(|pattern| pattern.path.as_ref())
                .is_some_and(|path| path.covers_tree(root))
        };
        found.extend(self.tree_globs.iter().filter(covers));
    }

    /// The patterns that could match something beneath a directory.
    pub(crate) fn reaching_beneath(
        &self,
        root: &str,
        patterns: &[Pattern],
        found: &mut Vec<PatternId>,
    ) {
        let reaches = |id: &&PatternId| {
            pattern_at(patterns, **id)
                .and_then(|pattern| pattern.path.as_ref())
                .is_some_and(|path| path.may_reach_beneath(root))
        };
        found.extend(self.all_paths.iter().filter(reaches));
    }

    /// The patterns that name something beneath a directory: by a path, or by a glob's leading
    /// directory. One that can match anywhere (`**/.env`) names nothing.
    pub(crate) fn named_beneath(
        &self,
        root: &str,
        patterns: &[Pattern],
        found: &mut Vec<PatternId>,
    ) {
        let beneath = |place: &str| {
            let rest = place.strip_prefix(root);
            let everywhere = root == "." && !place.is_empty();
            everywhere || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let names = |id: &&PatternId| match path_shape(patterns, **id) {
            Some(PathShape::Literal(place) | PathShape::Beneath(place)) => beneath(place),
            Some(PathShape::Glob { stem, .. }) => beneath(stem),
            Some(PathShape::Everything) | None => false,
        };
        found.extend(self.all_paths.iter().filter(names));
    }

    /// The patterns without a wildcard that equal this text.
    pub(crate) fn literal_texts(&self, text: &str, found: &mut Vec<PatternId>) {
        found.extend(self.literal_texts.get(text).into_iter().flatten());
    }

    /// The patterns that match a text.
    pub(crate) fn texts(&self, text: &str, patterns: &[Pattern], found: &mut Vec<PatternId>) {
        self.literal_texts(text, found);
        let word = text.split(' ').next().unwrap_or_default();
        let same_word = self.wild_texts.get(word).into_iter().flatten();
        let matching = |id: &&PatternId| {
            pattern_at(patterns, **id)
                .and_then(|pattern| pattern.words.as_ref())
                .is_some_and(|words| words.matches(text))
        };
        found.extend(same_word.chain(&self.wilder_texts).filter(matching));
    }

    /// The patterns in `allow` that cover a parsed command.
    pub(crate) fn covering(
        &self,
        segment: &Segment,
        held: bool,
        patterns: &[Pattern],
        found: &mut Vec<PatternId>,
    ) {
        if self.literal_commands.is_empty() && self.commands.is_empty() {
            return;
        }
        let words: Option<Vec<&str>> = segment.argv().collect();
        let same = words.and_then(|words| self.literal_commands.get(&words.join("\0")));
        let named = segment.name().and_then(|name| self.commands.get(name));
        let covers = |id: &&PatternId| {
            pattern_at(patterns, **id)
                .and_then(|pattern| pattern.command.as_ref())
                .is_some_and(|command| command.covers(segment, held))
        };
        found.extend(same.into_iter().chain(named).flatten().filter(covers));
    }

    /// The patterns in `deny` and `ask` that reach a parsed command, or may.
    pub(crate) fn reaching(
        &self,
        segment: &Segment,
        patterns: &[Pattern],
    ) -> impl Iterator<Item = (PatternId, PatternReach)> {
        // Any word may be a program that an unknown program runs; `git-push` is `git push`.
        let mut programs: Vec<&str> = segment.argv().flatten().map(family).collect();
        if programs.iter().any(|name| name.starts_with("git-")) {
            programs.push("git");
        }
        programs.sort_unstable();
        programs.dedup();
        let named = programs
            .into_iter()
            .filter_map(|name| self.commands.get(name));
        let groups = self.command_groups.iter();
        let groups = groups.map(|(id, group)| (*id, group.reaches(segment)));
        let words = named.flatten().chain(&self.wild_commands);
        let words = words.filter_map(|id| {
            let command = pattern_at(patterns, *id)?.command.as_ref()?;
            Some((*id, command.reaches(segment)))
        });
        words.chain(groups)
    }

    /// The patterns that match a query of a database.
    pub(crate) fn databases(
        &self,
        source: &str,
        writes: bool,
        patterns: &[Pattern],
        found: &mut Vec<PatternId>,
    ) {
        let matching = |id: &&PatternId| {
            pattern_at(patterns, **id)
                .is_some_and(|pattern| pattern.matches_database(source, writes))
        };
        found.extend(self.databases.iter().filter(matching));
    }

    /// The patterns that match a message, by its channel and target.
    pub(crate) fn messages(&self, text: &str, patterns: &[Pattern], found: &mut Vec<PatternId>) {
        let matching = |id: &&PatternId| {
            pattern_at(patterns, **id)
                .and_then(|pattern| pattern.message.as_ref())
                .is_some_and(|message| message.matches(text))
        };
        found.extend(self.messages.candidates(text).filter(matching));
    }

    /// The patterns that match a host.
    pub(crate) fn hosts(&self, host: &str, patterns: &[Pattern], found: &mut Vec<PatternId>) {
        let compared = host_name::compared(host);
        let carried = host_name::carried_by(host);
        let forms = domains(&compared).chain(carried.as_deref());
        let named = forms.filter_map(|form| self.literal_hosts.get(form));
        let matching = |id: &&PatternId| {
            pattern_at(patterns, **id).is_some_and(|pattern| pattern.matches_host(host))
        };
        found.extend(named.flatten().chain(&self.wild_hosts).filter(matching));
    }
}

/// The pattern with this number.
pub(crate) fn pattern_at(patterns: &[Pattern], id: PatternId) -> Option<&Pattern> {
    patterns.get(usize::try_from(id).ok()?)
}

fn path_shape(patterns: &[Pattern], id: PatternId) -> Option<&PathShape> {
    pattern_at(patterns, id)?
        .path
        .as_ref()
        .map(|path| &path.shape)
}
