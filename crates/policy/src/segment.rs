//! How rules apply to one command of a script: which patterns match it, whether it is understood
//! well enough for those that do not, and whether a preset knows it.

use haft_contract::{
    Access, PathMode, WorkPath,
    host::{Question, Verdict},
};

use crate::{
    engine::JudgedQuestion,
    facts::{CallFacts, CommandPart, CommandReading, Item},
    index::{Index, Slots},
    judge::{DecidingCause, ShellFacts},
    masks,
    pattern::PatternScope,
    pattern_index::PatternId,
    shell::{Class, CommandTouch, Concern, Segment, TouchOrigin, UnclearReason},
};

/// The rules about paths that no mask of the sandbox holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnheldRules {
    /// A deny or ask rule applies.
    pub(crate) any: bool,
    /// A deny rule applies, and no rule allows every command.
    pub(crate) denies: bool,
}

/// The patterns that match a command, and what rules and presets must know about it.
pub(crate) fn patterns(
    index: &Index,
    slots: &Slots,
    call: CallFacts,
    item: Item<'_>,
    unheld: UnheldRules,
) -> (Vec<PatternId>, ShellFacts) {
    let CommandPart::Segment(segment, reading) = item.part else {
        return (Vec::new(), ShellFacts::default());
    };
    let mut matches = index.segment_matches(&reading.text, segment, call.held);
    let spelt_out = index.has_rule(slots, &matches.spelt_out);
    let is_allow = |id: &PatternId| {
        let pattern = index.pattern_at(*id);
        pattern.is_some_and(|pattern| pattern.reach == PatternScope::Exact)
    };
    let allows: Vec<PatternId> = matches.patterns.iter().copied().filter(is_allow).collect();
    let named = index.has_rule(slots, &allows);
    if !is_confined(segment, call) {
        // Allowing `npm test` means what it does today, not what the workspace may make of it
        // tomorrow, so outside a sandbox the rule does not apply.
        matches.patterns.retain(|id| !is_allow(id));
    }
    let ordinary = is_ordinary(segment, reading);
    let facts = ShellFacts {
        unclear: !spelt_out
            && (index.is_in_doubt(slots, &matches.perhaps, call.held)
                || doubtful(index, slots, segment, named, unheld, call.held)),
        ordinary,
        looks: ordinary && segment.class() == Class::Looks,
        named: false,
        legible: segment.legible,
        concerning: !segment.concerns.is_empty(),
        loses: segment.loses,
        routine: is_routine(segment),
    };
    (matches.patterns, facts)
}

/// Why a command is not simply allowed, beyond what rules and presets say; `None` if there is
/// nothing to add.
pub(crate) fn why(question: &Question<'_>, judged: &JudgedQuestion<'_>) -> Option<String> {
    let CommandPart::Segment(segment, _) = judged.item.part else {
        return None;
    };
    match judged.judgement.cause {
        DecidingCause::Preset | DecidingCause::Unclear
            if judged.judgement.verdict != Verdict::Allow => {}
        DecidingCause::Preset
        | DecidingCause::Unclear
        | DecidingCause::Rule(_)
        | DecidingCause::Protected { .. }
        | DecidingCause::UnlistedAgent
        | DecidingCause::Refused(_)
        | DecidingCause::Broken(_) => return None,
    }
    // What a person should think about comes first, then what is not known about it.
    if judged.judgement.verdict == Verdict::Ask {
        if let Some(concern) = segment.concerns.first() {
            return Some(concern.to_string());
        }
        if CallFacts::of(question).stays {
            return Some(Concern::Stays.to_string());
        }
    }
    if let Some(unclear) = segment.unclear().first() {
        return Some(unclear.to_string());
    }
    if let Some(hazard) = segment.hazards().next() {
        return Some(UnclearReason::Hidden(hazard.to_owned()).to_string());
    }
    if judged.judgement.cause == DecidingCause::Unclear {
        return Some(UnclearReason::MayMatch.to_string());
    }
    let call = CallFacts::of(question);
    if !is_confined(segment, call) {
        let why =
            "it runs code from workspace files or its input, which a rule allows only in a sandbox";
        return Some(why.to_owned());
    }
    let unlisted = segment
        .unlisted
        .first()
        .and_then(|place| segment.words.get(*place));
    let unlisted = unlisted.filter(|_| !call.held)?;
    Some(UnclearReason::Unlisted(unlisted.shown().to_owned()).to_string())
}

/// What the sandbox keeps from a command that may run, and whose words do not tell what it touches.
pub(crate) fn masked(question: &Question<'_>, judged: &JudgedQuestion<'_>) -> Option<String> {
    let CommandPart::Segment(segment, _) = judged.item.part else {
        return None;
    };
    let is_known = segment.opaque().is_none() && !segment.is_vague();
    if is_known || judged.judgement.verdict == Verdict::Deny {
        return None;
    }
    masks::in_words(question.plan.masks())
}

/// Whether what it runs is confined, or does not come from the workspace.
pub(crate) fn is_confined(segment: &Segment, call: CallFacts) -> bool {
    call.sandboxed || !(segment.runs_files || segment.class() == Class::Runs)
}

/// Whether a preset may know it. A tool that runs one fixed program, without a shell, vouches for
/// the program.
fn is_ordinary(segment: &Segment, reading: &CommandReading) -> bool {
    let understood = segment.unclear.is_empty() && segment.hazards().next().is_none();
    understood && (segment.class() != Class::Unknown || !reading.analysis.is_script())
}

/// Whether it looks, builds, tests, checks or commits. A word that makes it run or write something else
/// counts against it unless its form in `routine.toml` knows the word, and so does a variable that is not
/// known to be harmless.
fn is_routine(segment: &Segment) -> bool {
    let looks = segment.class() == Class::Looks || segment.starts_nothing();
    segment.legible
        && segment.sets_only_harmless_variables()
        && (segment.routine || (looks && segment.hazards().next().is_none()))
}

/// Whether it may open files that none of its words name: what it runs is in files, or unknown. A rule about
/// paths that the sandbox does not hold cannot be kept then.
pub(crate) fn touches_unseen(segment: &Segment) -> bool {
    let unknown = matches!(segment.class(), Class::Runs | Class::Unknown);
    segment.runs_files || (unknown && !segment.words.is_empty())
}

/// Whether a deny or ask rule might apply to it but this cannot be determined.
fn doubtful(
    index: &Index,
    slots: &Slots,
    segment: &Segment,
    named: bool,
    unheld: UnheldRules,
    held: bool,
) -> bool {
    let paths = unheld.any;
    let hidden = segment.hazards().next().is_some() && !named;
    let opaque = !segment.unclear.is_empty() || hidden;
    // A person who allows `make` by a rule knows that it runs what the files say.
    let unseen = unheld.denies && !named && touches_unseen(segment);
    if unseen
        || (paths && segment.vague)
        || (opaque && (paths || index.speaks_of_commands(slots, held)))
    {
        return true;
    }
    let denied = |path: &WorkPath| {
        let access = Access::read(path.clone());
        let touch = CommandTouch {
            access: access.clone(),
            how: TouchOrigin::Maybe,
            tree: false,
        };
        index.restricts(slots, &touch, &access)
    };
    if segment.quoted.iter().any(denied) {
        return true;
    }
    // Git keeps copies of files where no mask hides them: `git show HEAD:.env`.
    let stored = segment.name() == Some("git");
    let maybe = segment
        .touches
        .iter()
        .filter(|touch| touch.how == TouchOrigin::Maybe);
    (paths || stored)
        && maybe.into_iter().any(|touch| match &touch.access {
            Access::Path(path) => [PathMode::Read, PathMode::Write].iter().any(|mode| {
                let mut path = path.clone();
                path.mode = *mode;
                index.restricts(slots, touch, &Access::Path(path))
            }),
            Access::Command(_)
            | Access::Process(_)
            | Access::Host { .. }
            | Access::Database { .. }
            | Access::Message { .. }
            | Access::RemoteTool { .. }
            | Access::Custom(_) => false,
        })
}
