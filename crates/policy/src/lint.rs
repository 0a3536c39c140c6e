//! Finds rules that do nothing: that can never match, are repeated, or are fully covered by
//! another. Each is an error, because its author believes it does something.
//!
//! Checks that need only the rules run at every load; [`CedarPolicy::lint`] also knows the existing
//! tools. Only rules of one file are compared with each other: having an operator's file overrule
//! another is the point of having both.

use std::{collections::HashMap, fmt};

use haft_contract::{
    ActionName,
    access::SoleAccess,
    host::{RuleRef, ToolFacts, Verdict},
    surface::NextStep,
};

use crate::{
    access_word::AccessWord,
    engine::CedarPolicy,
    facts::{BUILT_IN_GROUPS, groups},
    load::Problem,
    pattern::{PathShape, Pattern},
    protected::protecting_rule,
    rule::{Rule, Section, Selector},
    sole_access,
    suggest::nearest,
};

/// The group whose tools run commands.
const COMMAND_GROUP: &str = "process";

/// A rule that does not do what its author believes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: RuleRef,
    /// What is wrong with it.
    pub kind: FindingKind,
}

/// What is wrong with a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FindingKind {
    /// No existing tool can match it.
    UnknownTool {
        /// The nearest name that exists.
        nearest: Option<String>,
    },
    /// No tool is in the group, and no such group is configured.
    UnknownGroup {
        /// The nearest group that exists.
        nearest: Option<String>,
    },
    /// The same rule is written elsewhere.
    Duplicate {
        /// The other rule.
        of: RuleRef,
    },
    /// Another rule decides everything this one matches.
    Shadowed {
        /// The other rule.
        by: RuleRef,
    },
    /// A wildcard in place of a program, in an `allow` list of commands.
    CommandWildcard,
    /// None of its tools has such an action.
    UnknownAction {
        /// The nearest action that one of them has.
        nearest: Option<String>,
    },
    /// Its tool touches one kind of thing only, and the pattern is not about one.
    NotTouched {
        /// The tool.
        tool: String,
        /// The kind of thing.
        kind: SoleAccess,
        /// What to do instead.
        instead: String,
    },
    /// It reads as a rule about what every tool does, and there is a tool of that name.
    ToolOrAccess {
        /// The tool's name.
        tool: String,
    },
}

impl Finding {
    /// How to fix it.
    pub fn hint(&self) -> String {
        match &self.kind {
            FindingKind::UnknownTool {
                nearest: Some(word),
            } => format!("did you mean `{word}`?"),
            FindingKind::UnknownGroup {
                nearest: Some(word),
            } => format!("did you mean `@{word}`?"),
            FindingKind::UnknownTool { nearest: None } => format!(
                "{}; one that comes later is written `future:NAME`",
                NextStep::ListTools.text()
            ),
            FindingKind::UnknownGroup { nearest: None } => {
                "define it under `groups` in [policy]".to_owned()
            }
            FindingKind::UnknownAction {
                nearest: Some(word),
            } => format!("did you mean `action:{word}`?"),
            FindingKind::UnknownAction { nearest: None } => {
                "name the tool without a pattern, or what it touches".to_owned()
            }
            FindingKind::ToolOrAccess { tool } => format!(
                "write `PROVIDER/{tool}(…)` for the tool, or `@all({}…)` for what every tool does",
                AccessWord::prefix_of(tool)
            ),
            FindingKind::NotTouched { instead, .. } => instead.clone(),
            FindingKind::Duplicate { .. } => "remove one of the two".to_owned(),
            FindingKind::Shadowed { .. } => "remove it, or narrow the other rule".to_owned(),
            FindingKind::CommandWildcard => {
                "name the program of one command, such as `npm run *`, or allow the exact text"
                    .to_owned()
            }
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.rule.text;
        match &self.kind {
            FindingKind::UnknownTool { .. } => {
                write!(f, "`{text}` can never match: there is no such tool")
            }
            FindingKind::UnknownGroup { .. } => {
                write!(f, "`{text}` can never match: no tool is in this group")
            }
            FindingKind::UnknownAction { .. } => {
                write!(f, "`{text}` can never match: the tool has no such action")
            }
            FindingKind::ToolOrAccess { tool } => {
                write!(f, "`{text}` is not about the tool `{tool}`, which exists")
            }
            FindingKind::NotTouched { tool, kind, .. } => {
                let kind = sole_access::word(*kind);
                write!(
                    f,
                    "`{text}` does not name a {kind}, and `{tool}` touches nothing else"
                )
            }
            FindingKind::Duplicate { of } => write!(f, "`{text}` repeats {of}"),
            FindingKind::Shadowed { by } => write!(f, "`{text}` has no effect: {by} covers it"),
            FindingKind::CommandWildcard => write!(
                f,
                "`{text}` can never match: in allow, a wildcard matches only words after a named program"
            ),
        }
    }
}

impl From<Finding> for Problem {
    fn from(finding: Finding) -> Self {
        Self {
            source: finding.rule.source.clone(),
            line: finding.rule.line,
            column: None,
            message: finding.to_string(),
            hint: Some(finding.hint()),
        }
    }
}

impl CedarPolicy {
    /// Checks every rule against the existing tools.
    pub fn lint(&self, tools: &[ToolFacts<'_>]) -> Vec<Finding> {
        let mut findings = check_rules(&self.rules);
        findings.extend(self.rules.iter().filter_map(|rule| {
            let kind = check_tool(rule, tools)?;
            Some(finding(rule, kind))
        }));
        findings
    }
}

/// Checks the rules against each other.
pub(crate) fn check_rules(rules: &[Rule]) -> Vec<Finding> {
    let covers = CoverIndex::new(rules);
    rules
        .iter()
        .enumerate()
        .filter_map(|(number, rule)| {
            let kind = covers.check(number, rule)?;
            Some(finding(rule, kind))
        })
        .collect()
}

fn finding(rule: &Rule, kind: FindingKind) -> Finding {
    Finding {
        rule: rule.origin.clone(),
        kind,
    }
}

fn check_tool(rule: &Rule, tools: &[ToolFacts<'_>]) -> Option<FindingKind> {
    let names = || tools.iter().map(|tool| tool.key.tool.as_str());
    let unknown = |written: &str| FindingKind::UnknownTool {
        nearest: nearest(written, names()).map(str::to_owned),
    };
    let selected = |tool: &&ToolFacts<'_>| match &rule.selector {
        Selector::Named(_) | Selector::Like(_) => {
            rule.selector.matches_name(tool.key.tool.as_str())
        }
        Selector::Provided(key) => key == tool.key,
        Selector::Group(group) => groups(tool).contains(&group.as_str()),
        Selector::Accesses(_) => true,
    };
    if let Selector::Accesses(word) = &rule.selector
        && word.is_reserved()
        && names().any(|name| name == word.as_str())
    {
        let tool = word.as_str().to_owned();
        return Some(FindingKind::ToolOrAccess { tool });
    }
    let known = tools.iter().any(|tool| selected(&tool));
    let by_name = matches!(rule.selector, Selector::Named(_) | Selector::Provided(_));
    if !known && rule.action.is_some() && !by_name {
        // A call is denied if the tool that a rule names lacks its action. Of tools by a wildcard or a
        // group nobody can say which were to have it: the rule would be without effect, in silence.
        return Some(FindingKind::UnknownAction { nearest: None });
    }
    if !known && rule.is_future {
        return None;
    }
    if !known {
        return match &rule.selector {
            Selector::Named(name) => Some(unknown(name.as_str())),
            Selector::Provided(key) => Some(unknown(key.tool.as_str())),
            // Tools of a mounted server come and go with it, and an effect group may be empty.
            Selector::Like(_) | Selector::Accesses(_) => None,
            Selector::Group(group) if BUILT_IN_GROUPS.contains(&group.as_str()) => None,
            Selector::Group(group) => {
                let known = tools.iter().flat_map(groups).chain(BUILT_IN_GROUPS);
                Some(FindingKind::UnknownGroup {
                    nearest: nearest(group, known).map(str::to_owned),
                })
            }
        };
    }
    if let Some(action) = &rule.action {
        let actions = || {
            let selected = tools.iter().filter(selected);
            selected
                .flat_map(|tool| tool.actions)
                .map(|spec| &spec.name)
        };
        if !actions().any(|name| action.matches(name)) {
            let names = actions().map(ActionName::as_str);
            return Some(FindingKind::UnknownAction {
                nearest: nearest(action.name(), names).map(str::to_owned),
            });
        }
    }
    if let Some(kind) = not_touched(rule, || tools.iter().filter(selected)) {
        return Some(kind);
    }
    let runs_commands = |tool: &ToolFacts<'_>| tool.groups.contains(&COMMAND_GROUP);
    let nameless = |pattern: &Pattern| pattern.is_wild_text() && pattern.program().is_none();
    let wild = rule.pattern.as_ref().is_some_and(nameless);
    let commands = tools.iter().filter(selected).any(runs_commands);
    (rule.verdict == Verdict::Allow && wild && commands).then_some(FindingKind::CommandWildcard)
}

/// Whether the pattern is about nothing that the rule's tools touch, as far as they say what they touch.
fn not_touched<'t, T>(rule: &Rule, tools: impl Fn() -> T) -> Option<FindingKind>
where
    T: Iterator<Item = &'t ToolFacts<'t>>,
{
    let pattern = rule.pattern.as_ref()?;
    let misses = |kind: SoleAccess| !sole_access::names(pattern, kind);
    let (tool, kind) = tools().find_map(|tool| {
        let kind = tool.touches.filter(|kind| misses(*kind))?;
        Some((tool, kind))
    })?;
    let one_kind = match &rule.selector {
        Selector::Named(_) | Selector::Provided(_) | Selector::Group(_) => true,
        // Tools that match it may come with a server, and they may touch something else.
        Selector::Like(_) => false,
        Selector::Accesses(_) => return None,
    };
    let by_none = one_kind && tools().all(|tool| tool.touches.is_some_and(misses));
    (by_none || sole_access::is_a_location(pattern)).then(|| FindingKind::NotTouched {
        tool: tool.key.tool.to_string(),
        kind,
        instead: sole_access::form(&rule.selector, pattern, kind),
    })
}

/// Each file's rules, indexed by what could cover another rule.
struct CoverIndex<'r> {
    rules: &'r [Rule],
    same: HashMap<(&'r str, &'r Section, &'r Selector, Option<&'r str>), Vec<usize>>,
    /// Deny rules with a glob, for literal rules they may cover.
    globs: HashMap<(&'r str, &'r Selector), Vec<usize>>,
}

impl<'r> CoverIndex<'r> {
    fn new(rules: &'r [Rule]) -> Self {
        let mut same: HashMap<_, Vec<usize>> = HashMap::new();
        let mut globs: HashMap<_, Vec<usize>> = HashMap::new();
        for (number, rule) in rules.iter().enumerate() {
            let source = rule.origin.source.as_str();
            same.entry((source, &rule.section, &rule.selector, rule.inside()))
                .or_default()
                .push(number);
            let always = rule.verdict == Verdict::Deny && rule.after.is_empty();
            if always && rule.pattern.as_ref().is_some_and(is_broad) {
                globs
                    .entry((source, &rule.selector))
                    .or_default()
                    .push(number);
            }
        }
        Self { rules, same, globs }
    }

    fn check(&self, number: usize, rule: &Rule) -> Option<FindingKind> {
        if let Some(built_in) = protected(rule) {
            return Some(FindingKind::Shadowed { by: built_in });
        }
        let source = rule.origin.source.as_str();
        let pattern = rule.inside();
        // `write(x)` in deny and ask applies to every tool, so it covers an allow of `write(x)`
        // too.
        let accesses = match &rule.selector {
            Selector::Named(name) if name.as_str() == "read" => {
                Some(Selector::Accesses(AccessWord::Read))
            }
            Selector::Named(name) if name.as_str() == "write" => {
                Some(Selector::Accesses(AccessWord::Write))
            }
            Selector::Named(_)
            | Selector::Provided(_)
            | Selector::Like(_)
            | Selector::Group(_)
            | Selector::Accesses(_) => None,
        };
        let selectors = || std::iter::once(&rule.selector).chain(&accesses);
        for section in [&rule.section, &Section::Everyone] {
            for selector in selectors() {
                for pattern in [pattern, None] {
                    let others = self.same.get(&(source, section, selector, pattern));
                    for other in others.into_iter().flatten().filter(|n| **n != number) {
                        let Some(cover) = self.rules.get(*other) else {
                            continue;
                        };
                        if let Some(kind) = covered(number, rule, *other, cover) {
                            return Some(kind);
                        }
                    }
                }
            }
        }
        selectors()
            .filter_map(|selector| self.globs.get(&(source, selector)))
            .flatten()
            .filter(|other| **other != number)
            .filter_map(|other| self.rules.get(*other))
            .find(|cover| {
                (cover.section == rule.section || cover.section == Section::Everyone)
                    && literal_is_covered(rule, cover)
            })
            .map(|cover| FindingKind::Shadowed {
                by: cover.origin.clone(),
            })
    }
}

/// Whether `cover`, which has the same or no pattern, leaves `rule` nothing to decide.
fn covered(number: usize, rule: &Rule, other: usize, cover: &Rule) -> Option<FindingKind> {
    let by = cover.origin.clone();
    // In `deny` and `ask` a rule with `after` does not apply before the reading; in `allow` one
    // without it does not apply after.
    let throughout = match cover.verdict {
        Verdict::Allow => rule.after.is_empty(),
        Verdict::Ask | Verdict::Deny => cover.after.is_empty(),
    };
    // An ask that no grant can answer adds something to one that grants can.
    let adds = cover.verdict == Verdict::Ask && rule.verdict == Verdict::Ask;
    if rule.after != cover.after && (!throughout || adds) {
        return None;
    }
    let identical = rule.section == cover.section
        && rule.selector == cover.selector
        && rule.after == cover.after
        && rule.inside() == cover.inside();
    if identical && rule.verdict == cover.verdict {
        // Of two equal rules the later one is the duplicate.
        return (other < number).then_some(FindingKind::Duplicate { of: by });
    }
    (cover.verdict >= rule.verdict).then_some(FindingKind::Shadowed { by })
}

fn is_broad(pattern: &Pattern) -> bool {
    let path = pattern.path.as_ref();
    pattern.is_wild_text()
        || path.is_some_and(|path| {
            !matches!(path.shape, PathShape::Literal(_)) || !path.glob.contains('/')
        })
}

/// Whether the pattern of `cover` matches the one thing that the pattern of `rule` names.
pub(crate) fn literal_is_covered(rule: &Rule, cover: &Rule) -> bool {
    let (Some(mine), Some(theirs)) = (&rule.pattern, &cover.pattern) else {
        return false;
    };
    if mine.text == theirs.text {
        return false;
    }
    match (&mine.path, &theirs.path) {
        (Some(mine), Some(theirs)) => match &mine.shape {
            PathShape::Literal(path) => theirs.matches(path),
            PathShape::Everything | PathShape::Beneath(_) | PathShape::Glob { .. } => false,
        },
        (None, None) => !mine.is_wild_text() && theirs.matches_command(&mine.text),
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// The built-in rule that an allow rule for writing can never overrule.
fn protected(rule: &Rule) -> Option<RuleRef> {
    let writes = matches!(&rule.selector, Selector::Named(name) if name.as_str() == "write");
    if rule.verdict != Verdict::Allow || !writes {
        return None;
    }
    let path = rule.pattern.as_ref()?.path.as_ref()?;
    let example = match &path.shape {
        PathShape::Literal(path) => path.clone(),
        PathShape::Beneath(directory) => format!("{directory}/x"),
        PathShape::Everything | PathShape::Glob { .. } => return None,
    };
    protecting_rule(&example).map(|rule| RuleRef {
        text: rule.text,
        source: "built in".to_owned(),
        line: None,
    })
}
