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
    engine::{CedarPolicy, line},
    index::Slots,
    pattern::PathPattern,
    rule::{Rule, Selector},
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

    /// Whether a deny or ask rule about paths applies that the sandbox does not hold by a mask.
    pub(crate) fn has_unmasked_path_rule(&self, question: &Question<'_>, slots: &Slots) -> bool {
        let masks = question.plan.masks();
        if masks.is_empty() {
            return self.index.speaks_of_paths(slots);
        }
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
        rules.any(|rule| applies(rule) && !held(rule))
    }
}

/// The pattern by which a sandbox can hold a rule, and what it must keep a command from doing.
fn masked(rule: &Rule) -> Option<(PathMode, &PathPattern)> {
    if rule.verdict != Verdict::Deny {
        return None;
    }
    let path = rule.pattern.as_ref()?.path.as_ref()?;
    let mode = match &rule.selector {
        Selector::Accesses(mode) => *mode,
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
