//! Which rules to offer a person who is asked: the narrowest useful ones, each verified against the
//! question itself before it is offered. What cannot be granted is not offered.

use haft_contract::{
    Access, PathScope, SealedPlan, WorkPath,
    access::Command,
    host::{
        Grant, GrantBreadth, GrantId, GrantProposal, GrantScope, GrantedWorkspace, Policy as _,
        Question, Timestamp, Verdict,
    },
};

use super::{GrantRule, never_offered::is_never_offered, runner::is_known_module};
use crate::{
    engine::CedarPolicy,
    facts::{CallFacts, CommandPart, Item, ReadQuestion},
    shell::{Segment, TouchOrigin, Value, Word, has_subcommands},
};

/// The most rules in one proposal. A person has to read them all.
const MAX_RULES: usize = 8;
/// The longest rule that is offered, in bytes.
const MAX_RULE_BYTES: usize = 1024;
/// How many words after the program may belong to its subcommand: `npm run build`.
const MAX_SUBCOMMANDS: usize = 2;
/// The words of `python3 -m pytest`.
const MODULE_WORDS: usize = 3;
/// The longest word that is considered a subcommand.
const MAX_SUBCOMMAND_BYTES: usize = 32;

/// The rules that could cover one thing being asked about.
#[derive(Debug, Default, PartialEq, Eq)]
struct Choice {
    /// The rule for exactly this.
    exact: Option<(GrantBreadth, String)>,
    /// Wider rules, narrowest first.
    wider: Vec<(GrantBreadth, String)>,
}

impl CedarPolicy {
    /// Rules that would allow calls like this one, narrowest first.
    pub(crate) fn propose(&self, question: &Question<'_>) -> Vec<GrantProposal> {
        let open = self.open(question);
        let levels = open.iter().map(|choice| choice.wider.len()).max();
        let Some(levels) = levels else {
            return Vec::new();
        };
        let mut proposals: Vec<GrantProposal> = Vec::new();
        for level in 0..=levels {
            let Some(proposal) = proposal(&open, level) else {
                continue;
            };
            let known = |known: &GrantProposal| known.rules == proposal.rules;
            if !proposals.iter().any(known) && self.grants_allow(question, &proposal.rules) {
                proposals.push(proposal);
            }
        }
        proposals.sort_by_key(|proposal| proposal.breadth);
        proposals
    }

    /// What a person would be asked about, and what could cover it.
    fn open(&self, question: &Question<'_>) -> Vec<Choice> {
        if self.decide(question).verdict != Verdict::Ask || is_never_offered(question.plan) {
            return Vec::new();
        }
        let asked = ReadQuestion::new(question);
        let tool = question.tool.key.tool.as_str();
        let call = CallFacts::of(question);
        if !(call.trusted && call.accounted) {
            // Its declared accesses may be incomplete.
            return vec![whole_tool(tool)];
        }
        let mut open = Vec::new();
        for judged in self.judgements(&asked) {
            // Whatever covers the accesses also covers the use of the tool.
            if judged.judgement.verdict != Verdict::Ask || judged.item.access.is_none() {
                continue;
            }
            let choice = choice(tool, &judged.item);
            if !open.contains(&choice) {
                open.push(choice);
            }
        }
        if open.is_empty() {
            // Only the use of the tool itself asks.
            open.push(whole_tool(tool));
        }
        open
    }

    /// Whether grants with these rules, plus the existing ones, make the answer *allow*, and every
    /// proposed one is needed for that.
    fn grants_allow(&self, question: &Question<'_>, rules: &[String]) -> bool {
        let mut grants = question.grants.to_vec();
        let proposed: Vec<Grant> = rules.iter().map(|rule| imagined(question, rule)).collect();
        grants.extend(proposed.iter().cloned());
        let decision = self.decide(&Question {
            grants: &grants,
            ..*question
        });
        decision.verdict == Verdict::Allow
            && proposed
                .iter()
                .all(|grant| decision.grants.contains(&grant.id))
    }
}

/// The narrowest rules that name everything a plan touches, for an `allow` list. For a plan that a
/// grant cannot help, because it is denied without asking.
pub fn narrowest_rules(plan: &SealedPlan) -> Vec<String> {
    let tool = plan.tool().tool.as_str();
    let mut rules: Vec<String> = Vec::new();
    for access in plan.accesses() {
        let rule = exact(tool, access).map_or_else(|| tool.to_owned(), |(_, rule)| rule);
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    rules
}

/// A hypothetical grant, to see what it would do.
fn imagined(question: &Question<'_>, rule: &str) -> Grant {
    Grant {
        id: GrantId::new(),
        tenant: question.principal.tenant.clone(),
        user: question.principal.user.clone(),
        rule: rule.to_owned(),
        scope: GrantScope::Project(GrantedWorkspace::of_plan(question.plan)),
        until: None,
        uses_left: None,
        made_by: String::new(),
        made_at: Timestamp(0),
        cause: None,
    }
}

/// One rule for each thing that asks: the exact one, or a wider one according to `level`.
fn proposal(open: &[Choice], level: usize) -> Option<GrantProposal> {
    let wider = |choice: &&Choice| level > 0 && !choice.wider.is_empty();
    let widened: Vec<_> = open.iter().filter(wider).map(|c| &c.exact).collect();
    let mut rules: Vec<String> = Vec::new();
    let mut breadth = GrantBreadth::Exact;
    for choice in open {
        let (width, rule) = match level.checked_sub(1) {
            Some(level) if !choice.wider.is_empty() => {
                choice.wider.get(level.min(choice.wider.len() - 1))?
            }
            // A rule that is the whole script needs no other for a part of it.
            Some(_) if widened.contains(&&choice.exact) => return None,
            Some(_) | None => choice.exact.as_ref()?,
        };
        breadth = breadth.max(*width);
        if rule.len() > MAX_RULE_BYTES {
            return None;
        }
        if !rules.contains(rule) {
            rules.push(rule.clone());
        }
    }
    if rules.len() > MAX_RULES {
        return None;
    }
    let meanings: Result<Vec<String>, _> = rules
        .iter()
        .map(|rule| GrantRule::parse(rule).map(|rule| rule.meaning()))
        .collect();
    Some(GrantProposal {
        meaning: meanings.ok()?.join("; "),
        rules,
        breadth,
    })
}

fn choice(tool: &str, item: &Item<'_>) -> Choice {
    let Some(access) = item.access else {
        return whole_tool(tool);
    };
    match item.part {
        CommandPart::Segment(segment, reading) => {
            if !reading.analysis.is_script() {
                return whole_tool(tool);
            }
            Choice {
                exact: Some((GrantBreadth::Exact, text_rule(tool, &reading.text))),
                wider: prefixes(tool, segment),
            }
        }
        CommandPart::Touch(_, reading, _) => Choice {
            exact: Some((GrantBreadth::Exact, text_rule(tool, &reading.text))),
            wider: Vec::new(),
        },
        CommandPart::Whole => Choice {
            exact: exact(tool, access),
            wider: wider(tool, access),
        },
        CommandPart::Refused(_) => Choice::default(),
    }
}

/// Rules cannot match the input of such a tool, only the tool.
fn whole_tool(tool: &str) -> Choice {
    Choice {
        exact: Some((GrantBreadth::Program, tool.to_owned())),
        wider: Vec::new(),
    }
}

/// The narrowest rule about one access.
fn exact(tool: &str, access: &Access) -> Option<(GrantBreadth, String)> {
    let exact = |rule| Some((GrantBreadth::Exact, rule));
    match access {
        Access::Path(path) => exact(match path.scope {
            PathScope::File => path_rule(tool, &path.path),
            PathScope::Tree => tree_rule(tool, &path.path),
        }),
        Access::Command(command) => match &command.command {
            Command::Shell(script) => exact(text_rule(tool, script)),
            Command::Argv(_) => Some((GrantBreadth::Program, tool.to_owned())),
        },
        Access::Host { host, .. } => Some((GrantBreadth::Hosts, format!("{tool}(domain:{host})"))),
        Access::Database { source, writes } => exact(database_rule(tool, source, *writes)),
        Access::Message { channel, target } => {
            exact(text_rule(tool, &format!("{channel}:{target}")))
        }
        Access::Custom(custom) => exact(text_rule(tool, &custom.to_string())),
        Access::Process(_) | Access::RemoteTool { .. } => {
            Some((GrantBreadth::Program, tool.to_owned()))
        }
    }
}

/// Wider rules about an access that is not a command.
fn wider(tool: &str, access: &Access) -> Vec<(GrantBreadth, String)> {
    let Access::Path(path) = access else {
        return Vec::new();
    };
    // A path in the root has no directory to offer; the whole workspace is more than anybody should
    // accept in passing.
    let parent = path.path.as_str().rsplit_once('/');
    parent
        .and_then(|(directory, _)| WorkPath::relative(directory).ok())
        .map(|directory| (GrantBreadth::Prefix, tree_rule(tool, &directory)))
        .into_iter()
        .collect()
}

/// Rules by the first words of a command, longest first. The program alone is offered only if it
/// has no subcommands, because the word after `git` decides what it does.
fn prefixes(tool: &str, segment: &Segment) -> Vec<(GrantBreadth, String)> {
    let Some(program) = segment.program().filter(|program| is_plain(program)) else {
        return Vec::new();
    };
    let literal = |word: &'_ Word| word.text().map(str::to_owned);
    let first: Vec<String> = segment
        .words
        .iter()
        .take(MODULE_WORDS)
        .map_while(literal)
        .collect();
    if is_known_module(first.iter().map(String::as_str)) {
        let rule = format!("{tool}({} *)", first.join(" "));
        return vec![(GrantBreadth::Prefix, rule)];
    }
    let subcommands: Vec<&str> = segment
        .words
        .iter()
        .skip(1)
        .map_while(|word| subcommand(segment, word))
        .take(MAX_SUBCOMMANDS)
        .collect();
    let mut rules: Vec<(GrantBreadth, String)> = (1..=subcommands.len())
        .rev()
        .filter_map(|length| subcommands.get(..length))
        .map(|words| {
            let rule = format!("{tool}({program} {} *)", words.join(" "));
            (GrantBreadth::Prefix, rule)
        })
        .collect();
    if rules.is_empty() && !has_subcommands(segment.name().unwrap_or(program)) {
        rules.push((GrantBreadth::Program, format!("{tool}({program} *)")));
    }
    rules
}

/// A word that looks like a subcommand, and is not a path the program touches.
fn subcommand<'s>(segment: &Segment, word: &'s Word) -> Option<&'s str> {
    let Value::Literal(text) = &word.value else {
        return None;
    };
    let touched = segment.touches.iter().any(|touch| {
        touch.how != TouchOrigin::Maybe
            && matches!(&touch.access, Access::Path(path) if path.path.as_str() == text)
    });
    let named = text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.len() <= MAX_SUBCOMMAND_BYTES
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | ':' | '_'));
    (named && !touched).then_some(text)
}

/// Whether a word can be written into a rule unchanged.
fn is_plain(word: &str) -> bool {
    !word.is_empty()
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '+'))
}

/// A rule for a literal text, with its stars escaped.
fn text_rule(tool: &str, text: &str) -> String {
    format!("{tool}({})", text.replace('*', "\\*"))
}

/// Says whether it is for reading or for writing: neither may stand for the other.
fn database_rule(tool: &str, source: &str, writes: bool) -> String {
    let used = if writes { "writes" } else { "reads" };
    text_rule(tool, &format!("db:{source}, {used}"))
}

fn path_rule(tool: &str, path: &WorkPath) -> String {
    format!("{tool}({})", literal_glob(path.as_str()))
}

fn tree_rule(tool: &str, directory: &WorkPath) -> String {
    if directory.is_root() {
        return format!("{tool}(**)");
    }
    format!("{tool}({}/**)", literal_glob(directory.as_str()))
}

/// A path as a glob that matches only itself.
fn literal_glob(path: &str) -> String {
    let mut glob = String::with_capacity(path.len());
    for character in path.chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '{' | '}' | '\\') {
            glob.push('\\');
        }
        glob.push(character);
    }
    glob
}
