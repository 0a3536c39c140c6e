//! The summary of a replay: counts, and a few examples of each kind of change. Bounded, whatever
//! was recorded.

use std::{
    collections::{BTreeMap, btree_map},
    fmt,
};

use haft_contract::{
    CallId,
    host::{RuleRef, Verdict},
};

use super::judge::{ChangedDecision, ReplayOutcome, SkipReason};

/// How many examples are kept of each group.
const MAX_EXAMPLES: usize = 3;

/// How many groups are kept. Past that, programs are not distinguished.
const MAX_GROUPS: usize = 4096;

/// A decision that changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// The old decision.
    pub was: Verdict,
    /// The new decision.
    pub now: Verdict,
}

/// Calls of one tool, or one program, that one rule decides differently.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Group {
    /// How many.
    pub calls: u64,
    /// How many of them a person refused.
    pub refused: u64,
    /// The oldest of them: the call, and a line about it.
    pub examples: Vec<(CallId, String)>,
}

/// What distinguishes groups.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupKey {
    /// The tool.
    pub tool: String,
    /// The program, if a command was decisive.
    pub program: Option<String>,
    /// The rule that decides now, as written; `None` if it is the preset.
    pub rule: Option<(String, String, Option<u32>)>,
}

/// The result of a whole replay.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// How many calls are decided the same.
    pub unchanged: u64,
    /// How many calls could not be decided again, by reason.
    pub skipped: BTreeMap<SkipReason, u64>,
    groups: BTreeMap<(Change, GroupKey), Group>,
}

impl Report {
    /// Adds one call.
    pub(super) fn note(&mut self, call: CallId, summary: String, judged: ReplayOutcome) {
        match judged {
            ReplayOutcome::Same => self.unchanged += 1,
            ReplayOutcome::Not(why) => *self.skipped.entry(why).or_default() += 1,
            ReplayOutcome::Changed(changed) => {
                let what = changed.what.clone().unwrap_or(summary);
                let (key, refused) = key(changed);
                self.merge(
                    key,
                    Group {
                        calls: 1,
                        refused: u64::from(refused),
                        examples: vec![(call, what)],
                    },
                );
            }
        }
    }

    /// Merges what another thread found.
    pub(super) fn add(&mut self, other: Self) {
        self.unchanged += other.unchanged;
        for (why, calls) in other.skipped {
            *self.skipped.entry(why).or_default() += calls;
        }
        for (key, group) in other.groups {
            self.merge(key, group);
        }
    }

    fn merge(&mut self, mut key: (Change, GroupKey), group: Group) {
        if self.groups.len() >= MAX_GROUPS && !self.groups.contains_key(&key) {
            key.1.program = None;
        }
        let known = match self.groups.entry(key) {
            btree_map::Entry::Vacant(place) => {
                place.insert(group);
                return;
            }
            btree_map::Entry::Occupied(place) => place.into_mut(),
        };
        known.calls += group.calls;
        known.refused += group.refused;
        known.examples.extend(group.examples);
        // Ids are ordered by time, so the examples are the same on every machine.
        known.examples.sort_unstable_by_key(|(call, _)| *call);
        known.examples.truncate(MAX_EXAMPLES);
    }

    /// How many calls there were.
    pub fn calls(&self) -> u64 {
        self.unchanged + self.changed() + self.skipped.values().sum::<u64>()
    }

    /// How many are decided differently.
    pub fn changed(&self) -> u64 {
        self.groups.values().map(|group| group.calls).sum()
    }

    /// The changes, with those that allow more first, and the groups of each, largest first.
    pub fn changes(&self) -> Vec<(Change, Vec<(&GroupKey, &Group)>)> {
        let mut changes: BTreeMap<(bool, Change), Vec<(&GroupKey, &Group)>> = BTreeMap::new();
        for ((change, about), group) in &self.groups {
            let stricter = change.now > change.was;
            changes
                .entry((stricter, *change))
                .or_default()
                .push((about, group));
        }
        let sorted = changes.into_iter().map(|((_, change), mut groups)| {
            groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.calls));
            (change, groups)
        });
        sorted.collect()
    }
}

fn key(changed: ChangedDecision) -> ((Change, GroupKey), bool) {
    let change = Change {
        was: changed.was,
        now: changed.now,
    };
    let about = GroupKey {
        tool: changed.tool,
        program: changed.program,
        rule: changed.rule.map(|rule| (rule.source, rule.text, rule.line)),
    };
    ((change, about), changed.refused)
}

impl GroupKey {
    /// The rule that decides now.
    pub fn rule(&self) -> Option<RuleRef> {
        let (source, text, line) = self.rule.clone()?;
        Some(RuleRef { text, source, line })
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPlan => f.write_str("ended before they had a plan"),
            Self::NoDecision => f.write_str("ended before they were decided"),
            Self::UnknownTool => f.write_str("used a tool that is not available now"),
            Self::Unreadable(why) => write!(f, "{why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(was: Verdict, now: Verdict, program: &str, line: u32) -> ReplayOutcome {
        ReplayOutcome::Changed(ChangedDecision {
            was,
            now,
            tool: "bash".to_owned(),
            program: Some(program.to_owned()),
            rule: Some(RuleRef {
                text: format!("bash({program} *)"),
                source: "new.toml".to_owned(),
                line: Some(line),
            }),
            what: None,
            refused: program == "rm",
        })
    }

    #[test]
    fn changes_are_grouped_counted_and_exemplified() {
        use Verdict::{Allow, Ask, Deny};
        let mut calls: Vec<CallId> = (0..9).map(|_| CallId::new()).collect();
        calls.sort_unstable();
        let judged = [
            changed(Allow, Deny, "rm", 9),
            changed(Ask, Allow, "git", 3),
            ReplayOutcome::Same,
            changed(Ask, Allow, "ls", 4),
            changed(Ask, Allow, "git", 3),
            ReplayOutcome::Not(SkipReason::NoPlan),
            changed(Ask, Allow, "git", 3),
            changed(Ask, Allow, "git", 3),
            ReplayOutcome::Same,
        ];
        // All at once, and by two threads that each got every other call.
        let mut whole = Report::default();
        let mut parts = [Report::default(), Report::default()];
        for (index, (call, judged)) in calls.iter().zip(judged).enumerate() {
            whole.note(*call, format!("call {index}"), judged.clone());
            parts[index % 2].note(*call, format!("call {index}"), judged);
        }
        let [mut joined, other] = parts;
        joined.add(other);
        assert_eq!(joined, whole);
        assert_eq!((whole.calls(), whole.changed(), whole.unchanged), (9, 6, 2));
        assert_eq!(whole.skipped, BTreeMap::from([(SkipReason::NoPlan, 1)]));
        let changes = whole.changes();
        let [(looser, groups), (stricter, denied)] = &changes[..] else {
            panic!("{changes:?}");
        };
        assert_eq!((looser.was, looser.now), (Ask, Allow));
        assert_eq!((stricter.was, stricter.now), (Allow, Deny));
        assert_eq!(denied[0].1.refused, 1);
        let (about, group) = groups[0];
        assert_eq!(about.program.as_deref(), Some("git"));
        assert_eq!(about.rule().unwrap().line, Some(3));
        assert_eq!((group.calls, group.refused), (4, 0));
        let examples: Vec<&str> = group.examples.iter().map(|(_, what)| &**what).collect();
        assert_eq!(examples, ["call 1", "call 4", "call 6"]);
    }

    #[test]
    fn programs_without_end_do_not_fill_the_memory() {
        let mut report = Report::default();
        for number in 0..3 * MAX_GROUPS {
            let judged = changed(Verdict::Ask, Verdict::Allow, &format!("p{number}"), 1);
            // One rule decides all of them.
            let judged = match judged {
                ReplayOutcome::Changed(changed) => ReplayOutcome::Changed(ChangedDecision {
                    rule: None,
                    ..changed
                }),
                other => other,
            };
            report.note(CallId::new(), String::new(), judged);
        }
        assert_eq!(report.groups.len(), MAX_GROUPS + 1);
        assert_eq!(report.changed(), 3 * MAX_GROUPS as u64);
    }
}
