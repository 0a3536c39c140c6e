//! Walks one configuration document and turns its policy part into rules, presets and settings.
//! Every mistake is recorded with its line and column and the walk continues, so that a person sees
//! all of them at once. `load.rs` documents the keys.

use std::collections::BTreeMap;

use haft_contract::{
    host::{RuleRef, Verdict},
    identity::{AgentId, ChannelId, Scope, SessionKind, TenantId, UserId},
};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use crate::{
    after_reading::AfterReading,
    audience::FilePresets,
    examples::{ExpectedMatch, TestedRule, TriedExample},
    facts::BUILT_IN_GROUPS,
    in_doubt::InDoubt,
    load::{PolicyFile, PolicySource, Problem},
    preset::Preset,
    rule::{FUTURE, Rule, Section, Selector, without_future},
    suggest::nearest,
};

/// The largest policy text that is read, in bytes.
const MAX_TEXT_BYTES: usize = 16 * 1024 * 1024;

/// Where an agent or a kind of session works, which the host reads.
const BACKEND: &str = "backend";

pub(crate) type Table<'t> = DeTable<'t>;
pub(crate) type Value<'t> = Spanned<DeValue<'t>>;

/// When a rule applies, besides what it matches.
#[derive(Debug, Default)]
struct Conditions {
    after: AfterReading,
    in_doubt: InDoubt,
}

/// Walks one document and collects its contents and its mistakes.
pub(crate) struct Reader<'s> {
    source: &'s PolicySource,
    lines: Vec<usize>,
    groups: BTreeMap<String, Vec<String>>,
    presets: FilePresets,
    pub(crate) file: &'s mut PolicyFile,
    problems: &'s mut Vec<Problem>,
}

impl<'s> Reader<'s> {
    pub(crate) fn new(
        source: &'s PolicySource,
        file: &'s mut PolicyFile,
        problems: &'s mut Vec<Problem>,
    ) -> Self {
        let starts = source.text.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            source,
            lines: std::iter::once(0).chain(starts).collect(),
            groups: BTreeMap::new(),
            presets: FilePresets {
                source: source.name.clone(),
                everyone: None,
                agents: BTreeMap::new(),
            },
            file,
            problems,
        }
    }

    /// Reads the document into the file, and its mistakes into the problems.
    pub(crate) fn read(mut self) {
        if self.source.text.len() > MAX_TEXT_BYTES {
            self.problem(0, "the file is too large for a policy", None);
            return;
        }
        let source = self.source;
        let document = match DeTable::parse(&source.text) {
            Ok(document) => document,
            Err(error) => {
                let at = error.span().map_or(0, |span| span.start);
                self.problem(at, error.message(), None);
                return;
            }
        };
        let document = document.get_ref();
        if let Some(policy) = document.get("policy") {
            self.policy(policy);
        }
        self.sections(document, "agents");
        self.sections(document, "tenants");
        self.sections(document, "users");
        self.sections(document, "sessions");
        self.sections(document, "channels");
        self.sections(document, "scopes");
        if let Some(tools) = document.get("tools") {
            self.tools(tools);
        }
        self.file.presets.push(self.presets);
    }

    fn policy(&mut self, value: &Value<'_>) {
        const KEYS: [&str; 5] = ["preset", "allow", "ask", "deny", "groups"];
        let Some(table) = self.table(value, "[policy]") else {
            return;
        };
        self.known_keys(table, "[policy]", &KEYS);
        if let Some(groups) = table.get("groups") {
            self.read_groups(groups);
        }
        if let Some(preset) = table.get("preset").and_then(|value| self.preset(value)) {
            self.presets.everyone = Some(preset);
        }
        for verdict in [Verdict::Allow, Verdict::Ask, Verdict::Deny] {
            self.list(table, verdict, &Section::Everyone);
        }
    }

    fn read_groups(&mut self, value: &Value<'_>) {
        let Some(table) = self.table(value, "groups") else {
            return;
        };
        for (name, members) in table {
            let mut texts = Vec::new();
            for member in self.array(members, "a group") {
                let Some(text) = self.text(member, "a group member") else {
                    continue;
                };
                if Selector::parse(text).is_none() || text.starts_with('@') {
                    self.problem(
                        member.span().start,
                        format!("`{text}` is not a tool"),
                        Some("a group lists tools: `tool`, `provider/tool` or `mcp__server__*`"),
                    );
                } else {
                    texts.push(text.to_owned());
                }
            }
            if BUILT_IN_GROUPS.contains(&name.get_ref().as_ref()) {
                let message = format!("the group `{}` is built in", name.get_ref());
                self.problem(name.span().start, message, Some("choose another name"));
            }
            self.groups.insert(name.get_ref().to_string(), texts);
        }
    }

    /// `[agents.*]`, `[tenants.*]`, `[users.*]`, `[sessions.*]`, `[channels.*]` or `[scopes.*]`.
    fn sections(&mut self, document: &Table<'_>, kind: &'static str) {
        let Some(value) = document.get(kind) else {
            return;
        };
        let Some(table) = self.table(value, kind) else {
            return;
        };
        for (name, value) in table {
            let at = name.span().start;
            let name = name.get_ref().as_ref();
            let title = format!("[{kind}.{name}]");
            let Some(section) = self.section(kind, name, at) else {
                continue;
            };
            let Some(table) = self.table(value, &title) else {
                continue;
            };
            let preset = table.get("preset").and_then(|value| self.preset(value));
            match &section {
                Section::Agent(agent) => {
                    let keys = ["preset", "allow", "ask", "deny", BACKEND];
                    self.known_keys(table, &title, &keys);
                    // Where an agent works says nothing about what it, or another one, may do.
                    let mut keys = table.keys().map(|key| key.get_ref().as_ref());
                    if table.is_empty() || keys.any(|key| key != BACKEND) {
                        self.presets.agents.insert(agent.clone(), preset);
                    }
                    self.list(table, Verdict::Allow, &section);
                }
                Section::Tenant(tenant) => {
                    self.known_keys(table, &title, &["preset", "allow", "ask", "deny"]);
                    let known = self.file.tenants.get(tenant).copied().flatten();
                    self.file.tenants.insert(tenant.clone(), known.max(preset));
                    self.list(table, Verdict::Allow, &section);
                }
                Section::User(user) => {
                    self.known_keys(table, &title, &["preset", "allow", "ask", "deny"]);
                    let known = self.file.users.get(user).copied().flatten();
                    self.file.users.insert(user.clone(), known.max(preset));
                    self.list(table, Verdict::Allow, &section);
                }
                Section::Session(kind) => {
                    self.narrowing_keys(table, &title, &[BACKEND]);
                    let known = self.file.sessions.get(kind).copied();
                    if let Some(preset) = known.max(preset) {
                        self.file.sessions.insert(*kind, preset);
                    }
                }
                Section::Channel(channel) => {
                    self.narrowing_keys(table, &title, &[]);
                    let known = self.file.channels.get(channel).copied();
                    if let Some(preset) = known.max(preset) {
                        self.file.channels.insert(channel.clone(), preset);
                    }
                }
                Section::Scope(_) => {
                    self.widening_keys(table, &title);
                    self.list(table, Verdict::Allow, &section);
                    continue;
                }
                Section::Everyone
                | Section::NonMainSessions
                | Section::WithoutScope(_)
                | Section::Subagents => {}
            }
            self.list(table, Verdict::Ask, &section);
            self.list(table, Verdict::Deny, &section);
        }
    }

    fn section(&mut self, kind: &'static str, name: &str, at: usize) -> Option<Section> {
        let parsed = match kind {
            "agents" => AgentId::parse(name).map(Section::Agent),
            "channels" => ChannelId::parse(name).map(Section::Channel),
            "tenants" => TenantId::parse(name).map(Section::Tenant),
            "users" => UserId::parse(name).map(Section::User),
            "scopes" => Scope::parse(name).map(Section::Scope),
            _ => {
                let words = SessionKind::ALL.map(SessionKind::as_str);
                let known = SessionKind::ALL
                    .into_iter()
                    .find(|kind| kind.as_str() == name);
                if known.is_none() {
                    self.unknown(at, "session kind", name, &words);
                }
                return known.map(Section::Session);
            }
        };
        match parsed {
            Ok(section) => Some(section),
            Err(error) => {
                self.problem(at, error.to_string(), None);
                None
            }
        }
    }

    /// A session or channel can only restrict the agent it belongs to.
    fn narrowing_keys(&mut self, table: &Table<'_>, title: &str, others: &[&str]) {
        if let Some((key, _)) = table.get_key_value("allow") {
            self.problem(
                key.span().start,
                format!("`allow` does not belong in {title}, which can only restrict"),
                Some("put it into [policy], [agents.NAME], [tenants.NAME] or [users.NAME]"),
            );
        }
        let keys = [&["preset", "ask", "deny", "allow"], others].concat();
        self.known_keys(table, title, &keys);
    }

    /// A scope can only allow: a caller that leaves a scope out must never be allowed more for it.
    fn widening_keys(&mut self, table: &Table<'_>, title: &str) {
        for (key, _) in table {
            let (at, name) = (key.span().start, key.get_ref().as_ref());
            match name {
                "allow" => {}
                "ask" | "deny" | "preset" => {
                    let message =
                        format!("`{name}` does not belong in {title}, which can only allow");
                    let hint =
                        "put it into [policy], or require the scope with `scopes` in [tools.NAME]";
                    self.problem(at, message, Some(hint));
                }
                _ => self.unknown(at, &format!("key in {title}"), name, &["allow"]),
            }
        }
    }

    fn list(&mut self, table: &Table<'_>, verdict: Verdict, section: &Section) {
        let Some(value) = table.get(verdict.as_str()) else {
            return;
        };
        for entry in self.array(value, verdict.as_str()) {
            match entry.get_ref() {
                DeValue::String(text) => {
                    let at = entry.span().start;
                    self.rule(text, at, verdict, section, &Conditions::default());
                    self.tested(text, at, verdict, Vec::new());
                }
                DeValue::Table(table) => self.rule_with_examples(table, entry, verdict, section),
                DeValue::Integer(_)
                | DeValue::Float(_)
                | DeValue::Boolean(_)
                | DeValue::Datetime(_)
                | DeValue::Array(_) => self.problem(
                    entry.span().start,
                    "a rule must be a string",
                    Some("write \"tool\" or { rule = \"tool(pattern)\", matches = [\"…\"] }"),
                ),
            }
        }
    }

    fn rule_with_examples(
        &mut self,
        table: &Table<'_>,
        entry: &Value<'_>,
        verdict: Verdict,
        section: &Section,
    ) {
        let keys = ["rule", "after", "in_doubt", "matches", "not_matches"];
        self.known_keys(table, "a rule", &keys);
        let Some(rule) = table.get("rule") else {
            self.problem(
                entry.span().start,
                "a rule without `rule`",
                Some("write { rule = \"tool(pattern)\", matches = [\"…\"] }"),
            );
            return;
        };
        let Some(conditions) = self.conditions(table) else {
            return;
        };
        // Several rules with the same conditions are written as a list.
        let written: Vec<&Value<'_>> = match rule.get_ref() {
            DeValue::Array(rules) => rules.iter().collect(),
            _ => vec![rule],
        };
        if written.is_empty() {
            // A `deny` that denies nothing must not pass for one.
            self.problem(rule.span().start, "`rule` is empty", Some("name a rule"));
            return;
        }
        let first = self.file.rules.len();
        let mut texts = Vec::new();
        for rule in written {
            if let Some(text) = self.text(rule, "`rule`") {
                self.rule(text, rule.span().start, verdict, section, &conditions);
                texts.push(text);
            }
        }
        let range = first..self.file.rules.len();
        let text = texts.join("`, `");
        let mut tried = Vec::new();
        for (key, wanted) in [
            ("matches", ExpectedMatch::Match),
            ("not_matches", ExpectedMatch::NoMatch),
        ] {
            let Some(examples) = table.get(key) else {
                continue;
            };
            for example in self.array(examples, key) {
                let Some(shown) = self.text(example, "an example") else {
                    continue;
                };
                let rules = self.file.rules.get(range.clone()).unwrap_or_default();
                if rules.is_empty() {
                    continue;
                }
                let speaks = rules.iter().any(|rule| rule.speaks_of(shown));
                let holds = speaks == (wanted == ExpectedMatch::Match);
                let at = example.span().start;
                if !holds {
                    let message = match wanted {
                        ExpectedMatch::Match => {
                            format!("`{text}` does not match its example `{shown}`")
                        }
                        ExpectedMatch::NoMatch => {
                            format!("`{text}` matches `{shown}`, which it must not")
                        }
                    };
                    self.problem(at, message, Some("change the pattern, or the example"));
                }
                tried.push(TriedExample {
                    text: shown.to_owned(),
                    wanted,
                    line: self.origin(String::new(), at).line,
                    problem: (!holds).then(|| self.problems.last().cloned()).flatten(),
                });
            }
        }
        self.tested(&text, rule.span().start, verdict, tried);
    }

    /// When a rule applies, and who decides where that is not clear; nothing if it is not
    /// understood.
    fn conditions(&mut self, table: &Table<'_>) -> Option<Conditions> {
        let after = self.after(table)?;
        let in_doubt = match table.get("in_doubt") {
            None => InDoubt::default(),
            Some(value) => self.word(value, "in_doubt", InDoubt::parse, || {
                InDoubt::ALL.map(InDoubt::as_str).to_vec()
            })?,
        };
        Some(Conditions { after, in_doubt })
    }

    /// A rule's `after` list; nothing if it is not understood.
    fn after(&mut self, table: &Table<'_>) -> Option<AfterReading> {
        let Some(value) = table.get("after") else {
            return Some(AfterReading::default());
        };
        let hint = "write [\"mcp:github\"], or [\"mcp:*\"] for every server but the tool's own; \
                    [\"web:docs.rs\"], or [\"web:*\"] for every host";
        let mut texts = Vec::new();
        for entry in self.array(value, "after") {
            let text = self.text(entry, "an entry of `after`")?;
            if AfterReading::parse([text]).is_err() {
                let message = format!("`{text}` is not a source a session can read from");
                self.problem(entry.span().start, message, Some(hint));
                return None;
            }
            texts.push(text);
        }
        if texts.is_empty() {
            // It would apply always or never; neither can be meant.
            let at = value.span().start;
            self.problem(at, "`after` is empty", Some(hint));
            return None;
        }
        AfterReading::parse(texts).ok()
    }

    /// Records the results of a rule's own examples.
    fn tested(&mut self, text: &str, at: usize, verdict: Verdict, examples: Vec<TriedExample>) {
        let rule = self.origin(text.to_owned(), at);
        self.file.tested.push(TestedRule {
            rule,
            verdict,
            examples,
        });
    }

    /// Adds one rule; a group defined in the file becomes one rule for each member.
    fn rule(
        &mut self,
        text: &str,
        at: usize,
        verdict: Verdict,
        section: &Section,
        conditions: &Conditions,
    ) {
        let (named, is_future) = without_future(text);
        let (tool, pattern) = named.split_at(named.find('(').unwrap_or(named.len()));
        let members = tool
            .strip_prefix('@')
            .and_then(|name| self.groups.get(name));
        let written: Vec<String> = match members {
            None => vec![text.to_owned()],
            Some(members) => members
                .iter()
                .map(|member| {
                    // A name with a star never has to exist.
                    let future = is_future && !member.contains('*');
                    let prefix = if future { FUTURE } else { "" };
                    format!("{prefix}{member}{pattern}")
                })
                .collect(),
        };
        for rule in written {
            let origin = self.origin(text.to_owned(), at);
            let parsed = Rule::parse(&rule, verdict, section.clone(), origin);
            match parsed.and_then(|rule| rule.after(conditions.after.clone())) {
                Ok(rule)
                    if conditions.in_doubt != InDoubt::default() && !rule.restricts_commands() =>
                {
                    let message = format!("`in_doubt` changes nothing about `{text}`");
                    let hint = "it is for rules over commands in `ask` and `deny`: `bash(sudo *)`";
                    self.problem(at, message, Some(hint));
                }
                Ok(mut rule) => {
                    rule.in_doubt = conditions.in_doubt;
                    self.file.rules.push(rule);
                }
                Err(error) => self.problem(at, error.to_string(), Some(error.hint())),
            }
        }
    }

    fn preset(&mut self, value: &Value<'_>) -> Option<Preset> {
        self.word(value, "preset", Preset::parse, || {
            Preset::ALL.map(Preset::as_str).to_vec()
        })
    }

    pub(crate) fn word<T>(
        &mut self,
        value: &Value<'_>,
        what: &str,
        parse: impl Fn(&str) -> Option<T>,
        known: impl Fn() -> Vec<&'static str>,
    ) -> Option<T> {
        let text = self.text(value, what)?;
        let parsed = parse(text);
        if parsed.is_none() {
            self.unknown(value.span().start, what, text, &known());
        }
        parsed
    }

    fn known_keys(&mut self, table: &Table<'_>, place: &str, known: &[&str]) {
        for (key, _) in table {
            let name = key.get_ref().as_ref();
            if !known.contains(&name) {
                self.unknown(key.span().start, &format!("key in {place}"), name, known);
            }
        }
    }

    fn unknown(&mut self, at: usize, what: &str, written: &str, known: &[&str]) {
        let hint = match nearest(written, known.iter().copied()) {
            Some(word) => format!("did you mean `{word}`?"),
            None => format!("known: {}", known.join(", ")),
        };
        self.problem(at, format!("unknown {what} `{written}`"), Some(&hint));
    }

    fn table<'v, 't>(&mut self, value: &'v Value<'t>, what: &str) -> Option<&'v Table<'t>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            let message = format!("{what} must be a table");
            self.problem(value.span().start, message, None);
        }
        table
    }

    pub(crate) fn array<'v, 't>(
        &mut self,
        value: &'v Value<'t>,
        what: &str,
    ) -> impl Iterator<Item = &'v Value<'t>> + use<'v, 't> {
        let array = value.get_ref().as_array();
        if array.is_none() {
            let message = format!("`{what}` must be a list");
            self.problem(value.span().start, message, Some("write [\"…\"]"));
        }
        array.into_iter().flatten()
    }

    pub(crate) fn text<'v>(&mut self, value: &'v Value<'_>, what: &str) -> Option<&'v str> {
        let text = value.get_ref().as_str();
        if text.is_none() {
            self.problem(value.span().start, format!("{what} must be a string"), None);
        }
        text
    }

    pub(crate) fn origin(&self, text: String, at: usize) -> RuleRef {
        RuleRef {
            text,
            source: self.source.name.clone(),
            line: self.line_and_column(at).0,
        }
    }

    pub(crate) fn problem(&mut self, at: usize, message: impl Into<String>, hint: Option<&str>) {
        let (line, column) = self.line_and_column(at);
        self.problems.push(Problem {
            source: self.source.name.clone(),
            line,
            column,
            message: message.into(),
            hint: hint.map(str::to_owned),
        });
    }

    fn line_and_column(&self, at: usize) -> (Option<u32>, Option<u32>) {
        let line = self.lines.partition_point(|start| *start <= at);
        let start = self.lines.get(line.saturating_sub(1)).copied().unwrap_or(0);
        let before = self.source.text.get(start..at).unwrap_or_default();
        (
            u32::try_from(line).ok(),
            u32::try_from(before.chars().count() + 1).ok(),
        )
    }
}
