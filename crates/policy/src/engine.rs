//! The policy in force: indexes the rules, asks Cedar, caches the answers.
//!
//! A question is judged item by item (the tool, then each access), for the agent and every agent
//! that started it, under every preset that applies; the strictest answer wins. Any error on the
//! way is a denial. Read next: `index.rs` for how candidates are found, `judge.rs` for one
//! evaluation.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    net::IpAddr,
    sync::{Arc, LazyLock},
};

use haft_contract::{
    Access, AgentId, Effects, Labels, Masks, PathMode, PathScope, Principal, ProviderId, ToolKey,
    ToolName,
    access::ProcessAct,
    host::{
        Decision, GrantKey, GrantProposal, Policy, PolicyVersion, Question, RuleRef, ToolFacts,
        Verdict, Visibility,
    },
    preview::CommandPreview,
};
use sha2::{Digest, Sha256};

use crate::{
    audience::{FilePresets, Presets},
    cache::DecisionCache,
    compile::{CompileError, Origin, compile},
    facts::{CallFacts, CommandPart, InWords, Item, ReadQuestion},
    grant::{self, GrantRule, GrantRules},
    index::{Index, Slots},
    judge::{DecidingCause, EvaluationCase, Judgement, PolicyJudge, ShellFacts},
    load::{LoadError, PolicyFile, PolicySource},
    preset::Preset,
    rule::Rule,
    segment,
    settings::ToolSettings,
    shell::TouchOrigin,
};

/// A policy written as rules and decided by Cedar.
#[derive(Debug)]
pub struct CedarPolicy {
    pub(crate) rules: Vec<Rule>,
    pub(crate) presets: Presets,
    pub(crate) index: Index,
    pub(crate) judge: PolicyJudge,
    settings: ToolSettings,
    version: PolicyVersion,
    cache: DecisionCache,
    pub(crate) grants: GrantRules,
}

/// One judgement and its subject.
pub(crate) struct JudgedQuestion<'q> {
    pub(crate) agent: &'q AgentId,
    pub(crate) preset: Preset,
    pub(crate) item: Item<'q>,
    pub(crate) judgement: Judgement,
    /// The rules that could have applied.
    pub(crate) considered: Vec<usize>,
}

impl CedarPolicy {
    /// Loads a policy from the texts of its files. A problem in any of them is an error.
    pub fn load(sources: &[PolicySource]) -> Result<Self, LoadError> {
        PolicyFile::parse_all(sources)?.build()
    }

    /// A preset without any rules.
    pub fn preset(preset: Preset) -> Result<Self, CompileError> {
        let presets = Presets {
            files: vec![FilePresets {
                source: "preset".to_owned(),
                everyone: Some(preset),
                agents: BTreeMap::new(),
            }],
            sessions: BTreeMap::new(),
            channels: BTreeMap::new(),
            tenants: BTreeMap::new(),
            users: BTreeMap::new(),
            scopes: BTreeSet::new(),
            about_subagents: false,
        };
        Self::new(Vec::new(), presets, ToolSettings::default())
    }

    pub(crate) fn new(
        rules: Vec<Rule>,
        presets: Presets,
        settings: ToolSettings,
    ) -> Result<Self, CompileError> {
        let compiled = compile(&rules)?;
        let index = Index::new(&rules).map_err(|error| CompileError::of_globs(&error))?;
        let mut policy = Self {
            judge: PolicyJudge::new(compiled)?,
            rules,
            presets,
            index,
            settings,
            version: PolicyVersion(String::new()),
            cache: DecisionCache::new(),
            grants: GrantRules::new(),
        };
        policy.version = policy.fingerprint();
        Ok(policy)
    }

    /// The settings of tools: session levels, routes of sub-agents and sandbox modes.
    pub fn tool_settings(&self) -> &ToolSettings {
        &self.settings
    }

    /// The presets that apply to a caller, without repetition; the strictest answer wins.
    pub fn presets_of(&self, principal: &Principal) -> Vec<Preset> {
        self.presets.of(principal, &principal.agent)
    }

    /// Whether the files list an agent. If they list any, every call of another agent needs a
    /// person's approval.
    pub fn lists(&self, agent: &AgentId) -> bool {
        self.presets.lists(agent)
    }

    /// The rules as Cedar policies, including those of the presets in use.
    pub fn cedar_text(&self) -> String {
        let mut text = String::new();
        for compiled in self.judge.compiled() {
            let shown = match compiled.origin {
                Origin::Preset(preset, _) => self.presets.uses(preset),
                Origin::UnlistedAgent => self.presets.agents().next().is_some(),
                Origin::Protected | Origin::Unclear | Origin::Named | Origin::Rule(_) => true,
            };
            if shown {
                let _ = writeln!(text, "{}\n", compiled.text);
            }
        }
        text
    }

    /// Every rule, as written.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter()
    }

    /// Every judgement a question needs, lazily: one for each agent in the line, preset and item.
    pub(crate) fn judgements<'q>(
        &'q self,
        asked: &'q ReadQuestion<'q>,
    ) -> impl Iterator<Item = JudgedQuestion<'q>> {
        let question = &asked.question;
        let principal = question.principal;
        let call = CallFacts::of(question);
        line(principal).flat_map(move |agent| {
            let slots = self.index.slots(principal, agent, &question.tool);
            let listed = self.presets.lists(agent);
            let presets = self.presets.of(principal, agent);
            asked.items().flat_map(move |item| {
                let case = self.case(question, agent, listed, call, &slots, item);
                presets
                    .clone()
                    .into_iter()
                    .map(move |preset| JudgedQuestion {
                        agent,
                        preset,
                        item,
                        judgement: self.judge.judge(&case, preset),
                        considered: case.rules.clone(),
                    })
            })
        })
    }

    fn case<'q>(
        &'q self,
        question: &Question<'q>,
        agent: &'q AgentId,
        listed: bool,
        call: CallFacts,
        slots: &Slots,
        item: Item<'q>,
    ) -> EvaluationCase<'q> {
        let (patterns, shell) = match (item.access, item.part) {
            (Some(_), CommandPart::Segment(segment, _)) => {
                let unheld = self.unheld_rules(question, slots, segment);
                segment::patterns(&self.index, slots, call, item, unheld)
            }
            (Some(access), CommandPart::Touch(_, reading, touch)) => {
                let named =
                    touch.how == TouchOrigin::Named || self.index.spells_out(slots, &reading.text);
                let shell = ShellFacts {
                    named,
                    ..ShellFacts::default()
                };
                (self.index.matches_of_touch(touch, access), shell)
            }
            // Typed text may be a command to a shell that runs there, and cannot be distinguished
            // from other text: a rule over command texts is reason enough to ask.
            (Some(access @ Access::Process(process)), CommandPart::Whole) => {
                let of_commands = COMMAND_TOOL.as_ref().map(command_tool);
                let spoken_of = self.index.speaks_of_commands(slots, call.held)
                    || of_commands.is_some_and(|tool| {
                        let slots = self.index.slots(question.principal, agent, &tool);
                        self.index.speaks_of_commands(&slots, call.held)
                    });
                let shell = ShellFacts {
                    ordinary: !spoken_of,
                    // It belongs to this session, and ending it changes no file.
                    looks: !spoken_of && process.act == ProcessAct::Kill,
                    ..ShellFacts::default()
                };
                (self.index.matches(access), shell)
            }
            (Some(access), CommandPart::Whole | CommandPart::Refused(_)) => {
                (self.index.matches(access), ShellFacts::default())
            }
            (None, _) => (Vec::new(), ShellFacts::default()),
        };
        let rules = match item.access {
            None => self.index.about_tool(slots),
            Some(access) => self.index.about_access(slots, access, &patterns),
        };
        let says_after = |number: &usize| {
            let rule = self.rules.get(*number);
            rule.is_some_and(|rule| !rule.after.is_empty())
        };
        let names_action = |number: &usize| {
            let rule = self.rules.get(*number);
            rule.is_some_and(|rule| rule.action.is_some())
        };
        let tool_action = question.plan.action();
        EvaluationCase {
            tool_action: tool_action.filter(|_| rules.iter().any(names_action)),
            read_from: question.plan.read_from(),
            labelled: rules.iter().any(says_after),
            principal: question.principal,
            named: self.presets.named(question.principal),
            agent,
            listed,
            tool: question.tool,
            call,
            item,
            shell,
            patterns: patterns
                .into_iter()
                .filter_map(|id| Some((id, self.index.pattern_at(id)?)))
                .collect(),
            rules,
        }
    }

    fn decide_without_grants(&self, question: &Question<'_>) -> Arc<Decision> {
        let Some(place) = self.cache.place(question) else {
            return Arc::new(self.decide_uncached(question));
        };
        let named = self.presets.named(question.principal);
        if let Some(decision) = self.cache.get(place, question, &named) {
            return decision;
        }
        let decision = Arc::new(self.decide_uncached(question));
        self.cache.insert(place, question, named, &decision);
        decision
    }

    fn decide_uncached(&self, question: &Question<'_>) -> Decision {
        if let Some(unmatched) = self.unmatched(question) {
            return self.denied(unmatched.reason, Some(unmatched.rule));
        }
        let asked = ReadQuestion::new(question);
        let mut strictest: Option<JudgedQuestion<'_>> = None;
        for judged in self.judgements(&asked) {
            let stricter = strictest.as_ref().is_none_or(|best| {
                let (new, old) = (judged.judgement.verdict, best.judgement.verdict);
                // Among several reasons to allow, a rule is more informative than a default.
                new > old || (new == old && new == Verdict::Allow && judged.names_a_rule(best))
            });
            if stricter {
                strictest = Some(judged);
            }
            if matches!(&strictest, Some(best) if best.judgement.verdict == Verdict::Deny) {
                break;
            }
        }
        let Some(best) = strictest else {
            return self.broken("there was nothing to judge");
        };
        self.decision(question, &best)
    }

    pub(crate) fn decision(&self, question: &Question<'_>, best: &JudgedQuestion<'_>) -> Decision {
        let withheld = match best.judgement.verdict {
            Verdict::Deny => Vec::new(),
            Verdict::Allow | Verdict::Ask => self.withheld(question),
        };
        Decision {
            verdict: best.judgement.verdict,
            rule: self.rule_ref(&best.judgement.cause),
            reason: self.reason(question, best),
            access: best.item.text(),
            withheld,
            policy: self.version.clone(),
            grants: Vec::new(),
        }
    }

    /// What a search over a tree must leave out: everything a deny or ask rule withholds from this
    /// principal. A rule about the searched directory itself is not included; it has already
    /// decided the whole search.
    fn withheld(&self, question: &Question<'_>) -> Vec<String> {
        let trees: Vec<_> = question
            .plan
            .path_accesses()
            .filter(|path| path.scope == PathScope::Tree && path.mode == PathMode::Read)
            .collect();
        let mut globs = Vec::new();
        if trees.is_empty() {
            return globs;
        }
        for agent in line(question.principal) {
            let slots = self.index.slots(question.principal, agent, &question.tool);
            for number in self.index.strict_paths(&slots) {
                let speaks = |rule: &&Rule| {
                    let provider = &question.tool.key.provider;
                    rule.speaks_after(question.plan.read_from(), provider)
                };
                let pattern = self
                    .rules
                    .get(number)
                    .filter(speaks)
                    .and_then(|rule| rule.pattern.as_ref());
                let Some(path) = pattern.and_then(|pattern| pattern.path.as_ref()) else {
                    continue;
                };
                let applies = trees.iter().any(|tree| {
                    let root = tree.target().as_str();
                    path.may_reach_beneath(root)
                        && !path.matches(root)
                        && !path.matches(tree.path.as_str())
                });
                if applies {
                    globs.extend(path.withheld());
                }
            }
        }
        globs.sort_unstable();
        globs.dedup();
        globs
    }

    pub(crate) fn rule_ref(&self, cause: &DecidingCause) -> Option<RuleRef> {
        let built_in = |text: &str| RuleRef {
            text: text.to_owned(),
            source: "built in".to_owned(),
            line: None,
        };
        match cause {
            DecidingCause::Rule(number) => self.rules.get(*number).map(|rule| rule.origin.clone()),
            DecidingCause::Protected { rule, .. } => Some(built_in(rule)),
            DecidingCause::UnlistedAgent => Some(built_in("agents without a section ask")),
            DecidingCause::Unclear => Some(built_in("commands that are not understood ask")),
            DecidingCause::Refused(_) => Some(built_in("commands that cannot be read are denied")),
            DecidingCause::Preset | DecidingCause::Broken(_) => None,
        }
    }

    pub(crate) fn reason(&self, question: &Question<'_>, judged: &JudgedQuestion<'_>) -> String {
        let JudgedQuestion {
            agent,
            preset,
            item,
            judgement,
            considered: _,
        } = judged;
        let what = InWords(*item, question.tool.key.tool.as_str());
        let verb = match judgement.verdict {
            Verdict::Allow => "allows",
            Verdict::Ask => "asks before",
            Verdict::Deny => "denies",
        };
        let mut reason = match (&judgement.cause, judgement.verdict) {
            (DecidingCause::Rule(number), verdict) => {
                let Some(rule) = self.rules.get(*number) else {
                    return format!("a rule {verb} {what}");
                };
                if verdict == Verdict::Deny && rule.verdict == Verdict::Ask {
                    format!(
                        "{} asks before {what}, and preset `{preset}` never asks",
                        rule.origin
                    )
                } else {
                    let why = self.why_of_setting(*number).unwrap_or_default();
                    format!("{} {verb} {what}{why}", rule.origin)
                }
            }
            (DecidingCause::Protected { why, .. }, _) => {
                format!("{what} is never allowed: {why}; no rule can change that")
            }
            (DecidingCause::UnlistedAgent, _) => {
                let place = self
                    .presets
                    .omits(agent)
                    .map_or("any file", |file| &file.source);
                format!(
                    "agent `{agent}` has no `[agents.{agent}]` section in {place}, so everything \
                     it does needs approval, including {what}"
                )
            }
            (DecidingCause::Unclear, Verdict::Deny) => {
                format!("{what} is not fully understood, and preset `{preset}` never asks")
            }
            (DecidingCause::Unclear, _) => format!("{what} is not fully understood, so it asks"),
            (DecidingCause::Refused(refusal), _) => format!("{what} is never allowed: {refusal}"),
            (DecidingCause::Broken(why), _) => {
                format!("the policy could not be evaluated ({why}), so {what} is denied")
            }
            (DecidingCause::Preset, Verdict::Allow) => format!("preset `{preset}` allows {what}"),
            (DecidingCause::Preset, Verdict::Ask) => {
                format!("no rule allows {what}, so preset `{preset}` asks")
            }
            (DecidingCause::Preset, Verdict::Deny) => {
                format!("no rule allows {what}, and preset `{preset}` never asks")
            }
        };
        if let Some(why) = segment::why(question, judged) {
            let _ = write!(reason, ": {why}");
        }
        if let Some(unheld) = self.unheld(question, judged) {
            let _ = write!(reason, "; {unheld}");
        }
        if let Some(masked) = segment::masked(question, judged) {
            let _ = write!(reason, "; {masked}");
        }
        if let Some(why) = self.crossing(question, judged) {
            let _ = write!(reason, "; {why}");
        }
        if **agent != question.principal.agent {
            let _ = write!(
                reason,
                " (for agent `{agent}`, which started `{}`)",
                question.principal.agent
            );
        }
        reason
    }

    /// Explains which earlier reading affected the answer, if any did.
    fn crossing(&self, question: &Question<'_>, judged: &JudgedQuestion<'_>) -> Option<String> {
        let read_from = &question.plan.read_from();
        if judged.judgement.labelled && judged.judgement.verdict != Verdict::Allow {
            return Some(format!("the session has read from {read_from}"));
        }
        if judged.judgement.cause != DecidingCause::Preset || !CallFacts::of(question).crosses {
            return None;
        }
        let mut rules = judged.considered.iter().filter_map(|n| self.rules.get(*n));
        let rule = rules.find(|rule| rule.verdict == Verdict::Allow && rule.is_by_pattern())?;
        Some(format!(
            "{} does not allow it after the session has read from another server ({read_from}): a rule \
             that names the tool would, or one with `after`",
            rule.origin
        ))
    }

    fn broken(&self, why: &str) -> Decision {
        let reason = format!("the policy could not be evaluated ({why}), so the call is denied");
        self.denied(reason, None)
    }

    fn denied(&self, reason: String, rule: Option<RuleRef>) -> Decision {
        Decision {
            verdict: Verdict::Deny,
            rule,
            reason,
            access: None,
            withheld: Vec::new(),
            policy: self.version.clone(),
            grants: Vec::new(),
        }
    }

    /// Truncated SHA-256 over everything that can change an answer.
    fn fingerprint(&self) -> PolicyVersion {
        let mut hash = Sha256::new();
        for compiled in self.judge.compiled() {
            hash.update(compiled.text.as_bytes());
            hash.update([0]);
        }
        hash.update(format!("{:?}{:?}", self.presets, self.settings).as_bytes());
        let mut version = String::from("sha256:");
        for byte in hash.finalize().iter().take(12) {
            let _ = write!(version, "{byte:02x}");
        }
        PolicyVersion(version)
    }
}

impl Policy for CedarPolicy {
    /// Grants are applied to a decision made without them, so no cached answer depends on them, and
    /// they can only ever answer where a person would be asked.
    fn decide(&self, question: &Question<'_>) -> Arc<Decision> {
        let without = self.decide_without_grants(question);
        match without.verdict {
            Verdict::Ask => self.apply_grants(question, without),
            Verdict::Allow | Verdict::Deny => without,
        }
    }

    fn visibility(&self, principal: &Principal, tool: &ToolFacts<'_>) -> Visibility {
        line(principal)
            .find_map(|agent| self.useless(principal, agent, tool))
            .map_or(Visibility::Advertised, |(rule, reason)| {
                Visibility::Hidden { rule, reason }
            })
    }

    fn version(&self) -> PolicyVersion {
        self.version.clone()
    }

    fn masks(&self, principal: &Principal, tool: &ToolFacts<'_>, read_from: &Labels) -> Masks {
        self.wanted_masks(principal, tool, read_from)
    }

    fn denied_addresses(
        &self,
        principal: &Principal,
        tool: &ToolFacts<'_>,
        read_from: &Labels,
    ) -> Vec<IpAddr> {
        self.addresses_denied(principal, tool, read_from)
    }

    fn commands(&self, question: &Question<'_>) -> Vec<CommandPreview> {
        self.command_previews(question)
    }

    fn proposals(&self, question: &Question<'_>) -> Vec<GrantProposal> {
        self.propose(question)
    }

    fn grant_rule_keys(&self, rule: &str) -> Vec<GrantKey> {
        // A rule that cannot be granted covers nothing.
        GrantRule::parse(rule).map_or_else(|_| Vec::new(), |rule| rule.keys())
    }

    fn grant_keys(&self, question: &Question<'_>) -> Vec<GrantKey> {
        grant::keys_of(question)
    }
}

impl JudgedQuestion<'_> {
    fn names_a_rule(&self, other: &Self) -> bool {
        matches!(self.judgement.cause, DecidingCause::Rule(_))
            && !matches!(other.judgement.cause, DecidingCause::Rule(_))
    }
}

/// The built-in tool that runs commands; its rules also apply to text typed into them.
static COMMAND_TOOL: LazyLock<Option<ToolKey>> = LazyLock::new(|| {
    let tool = ToolName::parse("bash").ok()?;
    Some(ToolKey {
        provider: ProviderId::builtin(),
        tool,
    })
});

fn command_tool(key: &ToolKey) -> ToolFacts<'_> {
    ToolFacts {
        key,
        groups: &["process"],
        actions: &[],
        effects: Effects::UNKNOWN,
        touches: None,
    }
}

/// The asking agent and those that started it.
pub(crate) fn line(principal: &Principal) -> impl Iterator<Item = &AgentId> {
    std::iter::once(&principal.agent).chain(&principal.ancestors)
}
