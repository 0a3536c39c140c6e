//! Finds the rules that can match, without trying them all: by section, by tool, and by pattern
//! (`pattern_index.rs`).
//!
//! Cedar's cost grows with the number of policies, so this keeps a decision as cheap with ten
//! thousand rules as with ten. It only narrows; Cedar decides whether a candidate applies.

use std::collections::{BTreeSet, HashMap, HashSet};

use haft_contract::{
    Access, PathAccess, PathMode, PathScope, Principal, ToolKey, ToolName, WorkPath,
    access::ProcessAct,
    host::{ToolFacts, Verdict},
    identity::{AgentId, Scope, SessionKind},
};

use crate::{
    access_word::AccessWord,
    command_pattern::PatternReach,
    facts::groups,
    in_doubt::InDoubt,
    pattern::{Pattern, PatternKind, PatternScope},
    pattern_index::{self, PatternId, Patterns},
    rule::{Rule, Section, Selector, name_matches},
    shell::{CommandTouch, Segment},
};

/// The rules, indexed by what they match.
#[derive(Debug, Default)]
pub(crate) struct Index {
    sections: HashMap<Section, u32>,
    /// The scopes that sections ask about.
    scopes: BTreeSet<Scope>,
    named: HashMap<ToolName, u32>,
    provided: HashMap<ToolKey, u32>,
    groups: HashMap<String, u32>,
    likes: HashMap<String, Vec<(String, u32)>>,
    like_prefixes: BTreeSet<usize>,
    accesses: HashMap<AccessWord, u32>,
    selectors: u32,
    rules: HashMap<(u32, u32, Option<PatternId>), Vec<usize>>,
    /// Deny and ask rules with a path pattern, for trees.
    strict: HashMap<(u32, u32), Vec<usize>>,
    /// Deny rules that name an address.
    addresses: HashMap<(u32, u32), Vec<usize>>,
    /// Where a deny or ask rule matches texts, such as commands.
    texts: HashSet<(u32, u32)>,
    /// Where one does that no sandbox decides about.
    doubtful_texts: HashSet<(u32, u32)>,
    /// The rules that leave it to a sandbox where they may apply.
    left_to_sandbox: HashSet<usize>,
    /// Whether any allow rule at all exists for this section and tool.
    allows: HashMap<(u32, u32), usize>,
    pattern_ids: HashMap<(PatternScope, PatternKind, String), PatternId>,
    patterns: Vec<Pattern>,
    exact: Patterns,
    wide: Patterns,
}

/// The caller and the tool, as numbers of the index.
#[derive(Debug, Clone)]
pub(crate) struct Slots {
    sections: Vec<u32>,
    selectors: Vec<u32>,
}

/// The patterns that match one command of a script.
#[derive(Debug, Default)]
pub(crate) struct SegmentMatches {
    /// Those that match it, or in `deny` and `ask` the script it is part of.
    pub(crate) patterns: Vec<PatternId>,
    /// Those in `allow` that are the whole script, word for word.
    pub(crate) spelt_out: Vec<PatternId>,
    /// Those in `deny` and `ask` that may match it.
    pub(crate) perhaps: Vec<PatternId>,
}

impl Index {
    /// Indexes the rules. The error comes from the glob engine, for sets too large to compile.
    pub(crate) fn new(rules: &[Rule]) -> Result<Self, globset::Error> {
        let mut index = Self::default();
        for (number, rule) in rules.iter().enumerate() {
            index.add(number, rule);
        }
        let Self {
            exact,
            wide,
            patterns,
            ..
        } = &mut index;
        exact.build(patterns)?;
        wide.build(patterns)?;
        Ok(index)
    }

    fn add(&mut self, number: usize, rule: &Rule) {
        let next = u32::try_from(self.sections.len()).unwrap_or(u32::MAX);
        let section = *self.sections.entry(rule.section.clone()).or_insert(next);
        self.scopes.extend(rule.section.scope().cloned());
        let selector = self.selector(&rule.selector);
        let pattern = rule.pattern.as_ref().map(|pattern| self.pattern(pattern));
        self.rules
            .entry((section, selector, pattern))
            .or_default()
            .push(number);
        if let Some(pattern) = &rule.pattern
            && pattern.reach == PatternScope::Wide
        {
            if pattern.path.is_some() {
                let strict = self.strict.entry((section, selector)).or_default();
                strict.push(number);
            }
            if rule.verdict == Verdict::Deny && pattern.address().is_some() {
                let denied = self.addresses.entry((section, selector)).or_default();
                denied.push(number);
            }
            if pattern.words.is_some() {
                self.texts.insert((section, selector));
                match rule.in_doubt {
                    InDoubt::Ask => {
                        self.doubtful_texts.insert((section, selector));
                    }
                    InDoubt::Sandbox => {
                        self.left_to_sandbox.insert(number);
                    }
                }
            }
        }
        if rule.verdict == Verdict::Allow {
            self.allows.entry((section, selector)).or_insert(number);
        }
    }

    fn selector(&mut self, selector: &Selector) -> u32 {
        let next = self.selectors;
        let number = match selector {
            Selector::Named(name) => *self.named.entry(name.clone()).or_insert(next),
            Selector::Provided(key) => *self.provided.entry(key.clone()).or_insert(next),
            Selector::Group(group) => *self.groups.entry(group.clone()).or_insert(next),
            Selector::Accesses(word) => *self.accesses.entry(*word).or_insert(next),
            Selector::Like(glob) => {
                let prefix = glob.split('*').next().unwrap_or_default();
                self.like_prefixes.insert(prefix.len());
                let likes = self.likes.entry(prefix.to_owned()).or_default();
                let known = likes.iter().find(|(known, _)| known == glob);
                let number = known.map_or(next, |(_, number)| *number);
                if number == next {
                    likes.push((glob.clone(), next));
                }
                number
            }
        };
        self.selectors = self.selectors.max(number.saturating_add(1));
        number
    }

    fn pattern(&mut self, pattern: &Pattern) -> PatternId {
        let key = (pattern.reach, pattern.kind(), pattern.text.clone());
        let next = u32::try_from(self.patterns.len()).unwrap_or(u32::MAX);
        let id = *self.pattern_ids.entry(key).or_insert(next);
        if id == next {
            match pattern.reach {
                PatternScope::Exact => self.exact.add(id, pattern),
                PatternScope::Wide => self.wide.add(id, pattern),
            }
            self.patterns.push(pattern.clone());
        }
        id
    }

    /// The caller and the tool, looked up once for all items of a question.
    pub(crate) fn slots(
        &self,
        principal: &Principal,
        agent: &AgentId,
        tool: &ToolFacts<'_>,
    ) -> Slots {
        Slots {
            sections: self.sections_of(principal, agent),
            selectors: self.selectors_of(tool),
        }
    }

    fn sections_of(&self, principal: &Principal, agent: &AgentId) -> Vec<u32> {
        let is_main = principal.session_kind == SessionKind::Main;
        let non_main = (!is_main).then_some(Section::NonMainSessions);
        [
            Some(Section::Everyone),
            Some(Section::Agent(agent.clone())),
            non_main,
            principal.channel.clone().map(Section::Channel),
            Some(Section::Tenant(principal.tenant.clone())),
            Some(Section::User(principal.user.clone())),
            principal.is_subagent().then_some(Section::Subagents),
        ]
        .into_iter()
        .flatten()
        .chain(principal.session_kinds().map(Section::Session))
        .chain(self.scopes.iter().map(|scope| {
            if principal.scopes.contains(scope) {
                Section::Scope(scope.clone())
            } else {
                Section::WithoutScope(scope.clone())
            }
        }))
        .filter_map(|section| self.sections.get(&section).copied())
        .collect()
    }

    fn selectors_of(&self, tool: &ToolFacts<'_>) -> Vec<u32> {
        let name = tool.key.tool.as_str();
        let mut found: Vec<u32> = Vec::new();
        found.extend(self.named.get(name));
        found.extend(self.provided.get(tool.key));
        if !self.groups.is_empty() {
            found.extend(
                groups(tool)
                    .iter()
                    .filter_map(|name| self.groups.get(*name)),
            );
        }
        for length in &self.like_prefixes {
            let likes = name.get(..*length).and_then(|start| self.likes.get(start));
            let matching = likes.into_iter().flatten();
            found.extend(
                matching
                    .filter(|(glob, _)| name_matches(glob, name))
                    .map(|(_, number)| *number),
            );
        }
        found
    }

    /// The rules that can match the use of the tool itself.
    pub(crate) fn about_tool(&self, slots: &Slots) -> Vec<usize> {
        let mut found = Vec::new();
        self.collect(slots, &slots.selectors, None, &mut found);
        found.sort_unstable();
        found
    }

    /// The rules that can match an access, given the patterns it matches.
    pub(crate) fn about_access(
        &self,
        slots: &Slots,
        access: &Access,
        matched: &[PatternId],
    ) -> Vec<usize> {
        let mut found = Vec::new();
        self.collect(slots, &slots.selectors, None, &mut found);
        let accesses = self.access_selector(access);
        for pattern in matched {
            self.collect(slots, &slots.selectors, Some(*pattern), &mut found);
            if let Some(accesses) = accesses {
                self.collect(slots, &[accesses], Some(*pattern), &mut found);
            }
        }
        found.sort_unstable();
        found
    }

    fn collect(
        &self,
        slots: &Slots,
        selectors: &[u32],
        pattern: Option<PatternId>,
        found: &mut Vec<usize>,
    ) {
        for section in &slots.sections {
            for selector in selectors {
                if let Some(rules) = self.rules.get(&(*section, *selector, pattern)) {
                    found.extend_from_slice(rules);
                }
            }
        }
    }

    fn access_selector(&self, access: &Access) -> Option<u32> {
        AccessWord::of(access).and_then(|word| self.about(word))
    }

    fn about(&self, word: AccessWord) -> Option<u32> {
        self.accesses.get(&word).copied()
    }

    /// Rules about reading or writing a path by any tool.
    fn about_paths(&self) -> impl Iterator<Item = u32> + Clone {
        let words = [AccessWord::Read, AccessWord::Write];
        words.map(|word| self.about(word)).into_iter().flatten()
    }

    /// Deny and ask rules with a path pattern for this tool, or for reading by any tool.
    pub(crate) fn strict_paths(&self, slots: &Slots) -> Vec<usize> {
        Self::rules_in(
            &self.strict,
            slots,
            slots
                .selectors
                .iter()
                .copied()
                .chain(self.about(AccessWord::Read)),
        )
    }

    fn rules_in(
        indexed: &HashMap<(u32, u32), Vec<usize>>,
        slots: &Slots,
        selectors: impl Iterator<Item = u32> + Clone,
    ) -> Vec<usize> {
        let mut found = Vec::new();
        for section in &slots.sections {
            for selector in selectors.clone() {
                if let Some(rules) = indexed.get(&(*section, selector)) {
                    found.extend_from_slice(rules);
                }
            }
        }
        found.sort_unstable();
        found
    }

    /// Deny and ask rules with a path pattern for this tool, or for reading or writing by any tool.
    pub(crate) fn path_rules(&self, slots: &Slots) -> Vec<usize> {
        let selectors = slots.selectors.iter().copied();
        Self::rules_in(&self.strict, slots, selectors.chain(self.about_paths()))
    }

    /// Deny rules that name an address, for this tool or for connecting by any tool.
    pub(crate) fn address_rules(&self, slots: &Slots) -> Vec<usize> {
        if self.addresses.is_empty() {
            return Vec::new();
        }
        let selectors = slots.selectors.iter().copied();
        Self::rules_in(
            &self.addresses,
            slots,
            selectors.chain(self.about(AccessWord::Host)),
        )
    }

    /// Whether a deny or ask rule matches command texts of this tool, and a person decides in doubt.
    /// `held`: a sandbox without network holds what is run.
    pub(crate) fn speaks_of_commands(&self, slots: &Slots, held: bool) -> bool {
        let texts = if held {
            &self.doubtful_texts
        } else {
            &self.texts
        };
        slots.sections.iter().any(|section| {
            let mut selectors = slots.selectors.iter();
            selectors.any(|selector| texts.contains(&(*section, *selector)))
        })
    }

    /// Whether a deny or ask rule matches paths this tool could touch.
    pub(crate) fn speaks_of_paths(&self, slots: &Slots) -> bool {
        let mut selectors = slots.selectors.iter().copied().chain(self.about_paths());
        selectors.any(|selector| {
            slots
                .sections
                .iter()
                .any(|section| self.strict.contains_key(&(*section, selector)))
        })
    }

    /// Any allow rule, with or without a pattern, for this tool or for what it might touch.
    pub(crate) fn some_allow(&self, slots: &Slots) -> Option<usize> {
        slots.sections.iter().find_map(|section| {
            let mut selectors = slots.selectors.iter().chain(self.accesses.values());
            selectors.find_map(|selector| self.allows.get(&(*section, *selector)).copied())
        })
    }

    /// The patterns an access matches.
    pub(crate) fn matches(&self, access: &Access) -> Vec<PatternId> {
        let mut found = Vec::new();
        match access {
            Access::Path(path) => self.path_matches(path, &mut found),
            // `segment_matches` handles commands; a remote tool is matched by its name.
            Access::Command(_) | Access::RemoteTool { .. } => {}
            // No allow rule matches typed text, only the tool itself; a deny or ask rule over
            // command texts matches the command it is typed into and the typed text.
            Access::Process(process) => {
                if let ProcessAct::Write(typed) = &process.act {
                    self.wide.texts(typed.trim(), &self.patterns, &mut found);
                }
                if let Some(running) = &process.running {
                    let text = running.command.text();
                    self.wide.texts(&text, &self.patterns, &mut found);
                }
            }
            Access::Host { host, .. } => {
                self.exact.hosts(host, &self.patterns, &mut found);
                self.wide.hosts(host, &self.patterns, &mut found);
            }
            Access::Database { source, writes } => {
                // `report(crm)` names the database, whatever of it a plan touches.
                let whole = source.split_once('.').map(|(database, _)| database);
                for patterns in [&self.exact, &self.wide] {
                    patterns.texts(source, &self.patterns, &mut found);
                    if let Some(database) = whole {
                        patterns.texts(database, &self.patterns, &mut found);
                    }
                    patterns.databases(source, *writes, &self.patterns, &mut found);
                }
            }
            Access::Message { channel, target } => {
                let text = format!("{channel}:{target}");
                for patterns in [&self.exact, &self.wide] {
                    patterns.texts(&text, &self.patterns, &mut found);
                    patterns.messages(&text, &self.patterns, &mut found);
                }
            }
            Access::Custom(custom) => {
                let text = custom.to_string();
                for patterns in [&self.exact, &self.wide] {
                    patterns.texts(&text, &self.patterns, &mut found);
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The patterns that match what a command touches; for a whole tree, also those of `deny` and
    /// `ask` that name something in it.
    pub(crate) fn matches_of_touch(&self, touch: &CommandTouch, access: &Access) -> Vec<PatternId> {
        let mut found = self.matches(access);
        if let (true, Access::Path(path)) = (touch.tree, access) {
            self.wide
                .named_beneath(path.path.as_str(), &self.patterns, &mut found);
            found.sort_unstable();
            found.dedup();
        }
        found
    }

    /// The patterns that match one command of a script. `held`: the kernel limits whatever it may
    /// do.
    pub(crate) fn segment_matches(
        &self,
        script: &str,
        segment: &Segment,
        held: bool,
    ) -> SegmentMatches {
        let mut matches = SegmentMatches::default();
        let found = &mut matches.patterns;
        self.exact.literal_texts(script, &mut matches.spelt_out);
        self.wide.texts(script, &self.patterns, found);
        if segment.text() != script {
            self.wide.texts(segment.text(), &self.patterns, found);
        }
        if let Some(name) = segment.name() {
            let words = segment.argv().skip(1).map(Option::unwrap_or_default);
            let plain: Vec<&str> = std::iter::once(name).chain(words).collect();
            self.wide.texts(&plain.join(" "), &self.patterns, found);
        }
        self.exact.covering(segment, held, &self.patterns, found);
        for (id, reaches) in self.wide.reaching(segment, &self.patterns) {
            match reaches {
                PatternReach::No => {}
                PatternReach::Maybe => matches.perhaps.push(id),
                PatternReach::Yes => found.push(id),
            }
        }
        found.extend_from_slice(&matches.spelt_out);
        found.sort_unstable();
        found.dedup();
        matches
    }

    /// Whether a rule with one of these patterns exists for this section and tool.
    pub(crate) fn has_rule(&self, slots: &Slots, patterns: &[PatternId]) -> bool {
        patterns.iter().any(|pattern| {
            let mut found = Vec::new();
            self.collect(slots, &slots.selectors, Some(*pattern), &mut found);
            !found.is_empty()
        })
    }

    /// Whether a person decides about a command that rules with these patterns may apply to.
    pub(crate) fn is_in_doubt(&self, slots: &Slots, patterns: &[PatternId], held: bool) -> bool {
        patterns.iter().any(|pattern| {
            let mut found = Vec::new();
            self.collect(slots, &slots.selectors, Some(*pattern), &mut found);
            let mut found = found.iter();
            found.any(|rule| !held || !self.left_to_sandbox.contains(rule))
        })
    }

    /// Whether a rule in `allow` is this whole script, word for word.
    pub(crate) fn spells_out(&self, slots: &Slots, script: &str) -> bool {
        let mut found = Vec::new();
        self.exact.literal_texts(script, &mut found);
        self.has_rule(slots, &found)
    }

    /// Whether a deny or ask rule with a pattern matches an access.
    pub(crate) fn restricts(&self, slots: &Slots, touch: &CommandTouch, access: &Access) -> bool {
        let mut wide = self.matches_of_touch(touch, access);
        wide.retain(|id| {
            self.pattern_at(*id)
                .is_some_and(|pattern| pattern.reach == PatternScope::Wide)
        });
        let accesses: Vec<u32> = self.access_selector(access).into_iter().collect();
        wide.into_iter().any(|pattern| {
            let mut found = Vec::new();
            self.collect(slots, &slots.selectors, Some(pattern), &mut found);
            self.collect(slots, &accesses, Some(pattern), &mut found);
            !found.is_empty()
        })
    }

    /// A path is denied or asked about if it *or* its target matches, and allowed only if both do.
    fn path_matches(&self, access: &PathAccess, found: &mut Vec<PatternId>) {
        let mut allowed = Vec::new();
        self.exact_paths(access.scope, &access.path, &mut allowed);
        self.wide_paths(access, &access.path, found);
        if let Some(resolved) = access
            .resolved
            .as_ref()
            .filter(|path| **path != access.path)
        {
            let mut there = Vec::new();
            self.exact_paths(access.scope, resolved, &mut there);
            allowed.retain(|pattern| there.contains(pattern));
            self.wide_paths(access, resolved, found);
        }
        found.append(&mut allowed);
    }

    fn exact_paths(&self, scope: PathScope, path: &WorkPath, found: &mut Vec<PatternId>) {
        match scope {
            PathScope::File => self.exact.paths(path.as_str(), PatternScope::Exact, found),
            PathScope::Tree => self.exact.trees(path.as_str(), &self.patterns, found),
        }
    }

    fn wide_paths(&self, access: &PathAccess, path: &WorkPath, found: &mut Vec<PatternId>) {
        self.wide.paths(path.as_str(), PatternScope::Wide, found);
        // A search can leave out what is withheld from it; a change to a whole tree cannot leave
        // anything out, so it matches every rule about something in the tree.
        if access.scope == PathScope::Tree && access.mode == PathMode::Write {
            self.wide
                .reaching_beneath(path.as_str(), &self.patterns, found);
        }
    }

    /// The pattern with this number.
    pub(crate) fn pattern_at(&self, id: PatternId) -> Option<&Pattern> {
        pattern_index::pattern_at(&self.patterns, id)
    }
}
