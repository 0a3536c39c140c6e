//! Deny rules as the sandbox's view: which patterns a sandbox is asked to mask for a caller, and
//! whether every rule about paths is held by the masks a plan has.
//!
//! Only `deny` is masked. What an `ask` rule names, a person may allow, so commands that might
//! touch it still ask.

use haft_contract::{
    Labels, Masks, PathMode, Principal,
    host::{Question, ToolFacts, Verdict},
};

use crate::{
    access_word::AccessWord,
    engine::{CedarPolicy, JudgedQuestion, line},
    facts::CommandPart,
    index::Slots,
    judge::DecidingCause,
    pattern::PathPattern,
    rule::{Rule, Selector},
    segment::{UnheldRules, touches_unseen},
    shell::Segment,
};

/// The most patterns that a reason names.
const MAX_SHOWN: usize = 3;

impl CedarPolicy {
    /// The patterns of every deny rule about paths that applies to this caller, for the agent and
    /// those that started it.
    pub(crate) fn wanted_masks(
        &self,
        principal: &Principal,
        tool: &ToolFacts<'_>,
        read_from: &Labels,
    ) -> Masks {
        let mut masks = Masks::NONE;
        for agent in line(principal) {
            let slots = self.index.slots(principal, agent, tool);
            for number in self.index.path_rules(&slots) {
                let applies = |rule: &&Rule| rule.speaks_after(read_from, &tool.key.provider);
                let Some((mode, path)) = self.rules.get(number).filter(applies).and_then(masked)
                else {
                    continue;
                };
                let patterns = match mode {
                    PathMode::Read => &mut masks.hidden,
                    PathMode::Write => &mut masks.read_only,
                };
                patterns.push(path.glob.clone());
            }
        }
        for patterns in [&mut masks.hidden, &mut masks.read_only] {
            patterns.sort_unstable();
            patterns.dedup();
        }
        masks
    }

    /// Whether rules about paths apply to a command that the sandbox does not hold by masks.
    pub(crate) fn unheld_rules(
        &self,
        question: &Question<'_>,
        slots: &Slots,
        segment: &Segment,
    ) -> UnheldRules {
        let any = if question.plan.masks().is_empty() {
            self.index.speaks_of_paths(slots)
        } else {
            self.unheld_rule(question, slots, |_| true).is_some()
        };
        let denies = any
            && touches_unseen(segment)
            && !self.allows_every_command(question, slots)
            && self.unheld_rule(question, slots, is_deny).is_some();
        UnheldRules { any, denies }
    }

    /// Whether a rule allows the tool whatever it runs.
    fn allows_every_command(&self, question: &Question<'_>, slots: &Slots) -> bool {
        let provider = &question.tool.key.provider;
        let rules = self.index.about_tool(slots);
        let mut rules = rules.iter().filter_map(|number| self.rules.get(*number));
        rules.any(|rule| {
            rule.verdict == Verdict::Allow && rule.speaks_after(question.plan.read_from(), provider)
        })
    }

    /// The first rule about paths of this kind that applies and that the sandbox does not hold.
    fn unheld_rule(
        &self,
        question: &Question<'_>,
        slots: &Slots,
        is_of_kind: impl Fn(&Rule) -> bool,
    ) -> Option<&Rule> {
        let masks = question.plan.masks();
        let held = |rule: &Rule| match masked(rule) {
            Some((PathMode::Read, path)) => masks.hidden.contains(&path.glob),
            Some((PathMode::Write, path)) => {
                masks.read_only.contains(&path.glob) || masks.hidden.contains(&path.glob)
            }
            None => false,
        };
        let provider = &question.tool.key.provider;
        let applies = |rule: &Rule| rule.speaks_after(question.plan.read_from(), provider);
        let rules = self.index.path_rules(slots);
        let mut rules = rules.iter().filter_map(|number| self.rules.get(*number));
        rules.find(|rule| is_of_kind(rule) && applies(rule) && !held(rule))
    }

    /// Names the rule about paths that makes a command ask because nothing holds it, if one does.
    pub(crate) fn unheld(
        &self,
        question: &Question<'_>,
        judged: &JudgedQuestion<'_>,
    ) -> Option<String> {
        let CommandPart::Segment(segment, _) = judged.item.part else {
            return None;
        };
        let unclear = judged.judgement.cause == DecidingCause::Unclear;
        let unseen = segment.is_vague() || segment.opaque().is_some() || touches_unseen(segment);
        if !unclear || !unseen {
            return None;
        }
        let slots = self
            .index
            .slots(question.principal, judged.agent, &question.tool);
        let denied = self.unheld_rule(question, &slots, is_deny)?;
        let origin = &denied.origin;
        Some(format!(
            "it may touch files that none of its words name, and no sandbox holds {origin} here"
        ))
    }
}

fn is_deny(rule: &Rule) -> bool {
    rule.verdict == Verdict::Deny
}

/// The pattern by which a sandbox can hold a rule, and what it must keep a command from doing.
fn masked(rule: &Rule) -> Option<(PathMode, &PathPattern)> {
    if rule.verdict != Verdict::Deny {
        return None;
    }
    let path = rule.pattern.as_ref()?.path.as_ref()?;
    let mode = match &rule.selector {
        Selector::Accesses(AccessWord::Read) => PathMode::Read,
        Selector::Accesses(AccessWord::Write) => PathMode::Write,
        // These patterns have no path.
        Selector::Accesses(AccessWord::Host | AccessWord::Database | AccessWord::Message) => {
            return None;
        }
        // A rule about the tool itself denies whatever it would do there.
        Selector::Named(_) | Selector::Provided(_) | Selector::Like(_) | Selector::Group(_) => {
            PathMode::Read
        }
    };
    Some((mode, path))
}

/// What is masked, for the reason of a decision about a command.
pub(crate) fn in_words(masks: &Masks) -> Option<String> {
    let list = |patterns: &[String]| {
        let shown = patterns.iter().take(MAX_SHOWN);
        let quoted: Vec<String> = shown.map(|glob| format!("`{glob}`")).collect();
        match patterns.len().saturating_sub(MAX_SHOWN) {
            0 => quoted.join(", "),
            more => format!("{} and {more} more", quoted.join(", ")),
        }
    };
    match (masks.hidden.as_slice(), masks.read_only.as_slice()) {
        ([], []) => None,
        (hidden, []) => Some(format!("the sandbox hides {}", list(hidden))),
        ([], read_only) => Some(format!("the sandbox keeps {} unchanged", list(read_only))),
        (hidden, read_only) => Some(format!(
            "the sandbox hides {} and keeps {} unchanged",
            list(hidden),
            list(read_only)
        )),
    }
}
