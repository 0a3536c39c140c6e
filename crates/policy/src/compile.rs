//! Rules and presets as Cedar policies. What a rule means is what its Cedar text means; the engine
//! adds nothing to it.
//!
//! Cedar's own `like` cannot express path globs, so a resource is *in* the `Pattern` entities it
//! matches, which `index.rs` finds. Principal, action and context are plain Cedar. Three answers
//! come from two evaluations: `context.approved` false, then true.

use std::fmt::Write as _;

use cedar_policy::{Policy, PolicyId};
use haft_contract::host::Verdict;

use crate::{
    facts::Action,
    in_doubt::InDoubt,
    pattern::PatternScope,
    preset::Preset,
    rule::{Rule, Section, Selector},
};

/// A rule or preset in Cedar, numbered by its position in the engine's list.
#[derive(Debug, Clone)]
pub(crate) struct Compiled {
    pub(crate) policy: Policy,
    pub(crate) text: String,
    pub(crate) origin: Origin,
    /// Whether it is a rule with `after`.
    pub(crate) labelled: bool,
}

/// What a compiled policy was made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The rule with this number.
    Rule(usize),
    /// A preset's policy for one action, or for all.
    Preset(Preset, Option<Action>),
    /// The protected paths.
    Protected,
    /// The answer for an agent without a section.
    UnlistedAgent,
    /// A command that is not fully understood, where a rule might apply to it.
    Unclear,
    /// What a command names: whatever allows the command also allows it.
    Named,
}

/// Cedar rejected a compiled policy: a bug in Haft, never a reason to continue.
#[derive(Debug, thiserror::Error)]
#[error("the rule `{rule}` could not be compiled: {message}")]
pub struct CompileError {
    rule: String,
    message: String,
}

const PROTECTED: &str = r#"forbid (principal, action == Action::"write", resource)
when { context.protected };"#;

const UNLISTED_AGENT: &str = "forbid (principal, action, resource)\n\
     when { !context.listed }\nunless { context.approved };";

const UNCLEAR: &str = r#"forbid (principal, action == Action::"command", resource)
when { context.unclear }
unless { context.approved };"#;

const NAMED: &str = r#"permit (principal, action in [Action::"read", Action::"write"], resource)
when { context.named };"#;

/// The Cedar entity type of a pattern. The same text reaches further in `deny` and `ask` than in
/// `allow`, so it names two different sets of resources.
pub(crate) fn pattern_type(reach: PatternScope) -> &'static str {
    match reach {
        PatternScope::Exact => "ExactPattern",
        PatternScope::Wide => "Pattern",
    }
}

/// Compiles the built-in policies, the presets and the rules, in this order.
pub(crate) fn compile(rules: &[Rule]) -> Result<Vec<Compiled>, CompileError> {
    let mut compiled = Vec::with_capacity(rules.len() + 16);
    let mut add = |origin, labelled, name: &str, text: String| {
        let id = PolicyId::new(compiled.len().to_string());
        let policy = Policy::parse(Some(id), &text).map_err(|error| CompileError {
            rule: name.to_owned(),
            message: error.to_string(),
        })?;
        compiled.push(Compiled {
            policy,
            text,
            origin,
            labelled,
        });
        Ok(())
    };
    let built_in = |text: &str| format!("@source(\"built in\")\n{text}");
    add(Origin::Protected, false, "built in", built_in(PROTECTED))?;
    add(
        Origin::UnlistedAgent,
        false,
        "built in",
        built_in(UNLISTED_AGENT),
    )?;
    add(Origin::Unclear, false, "built in", built_in(UNCLEAR))?;
    add(Origin::Named, false, "built in", built_in(NAMED))?;
    for preset in Preset::ALL {
        for (action, text) in preset.policies() {
            let text = format!("@source(\"preset {preset}\")\n{text}");
            let origin = Origin::Preset(preset, *action);
            add(origin, false, preset.as_str(), text)?;
        }
    }
    for (number, rule) in rules.iter().enumerate() {
        let labelled = !rule.after.is_empty();
        add(
            Origin::Rule(number),
            labelled,
            &rule.origin.text,
            cedar(rule),
        )?;
    }
    Ok(compiled)
}

/// The Cedar text of one rule.
fn cedar(rule: &Rule) -> String {
    let mut text = String::new();
    let origin = &rule.origin;
    let source = match origin.line {
        Some(line) => format!("{}:{line}", origin.source),
        None => origin.source.clone(),
    };
    let _ = writeln!(text, "@rule({})", literal(&origin.text));
    let _ = writeln!(text, "@source({})", literal(&source));
    if rule.in_doubt != InDoubt::default() {
        let _ = writeln!(text, "@in_doubt({})", literal(rule.in_doubt.as_str()));
    }
    text.push_str(match rule.verdict {
        Verdict::Allow => "permit (",
        Verdict::Ask | Verdict::Deny => "forbid (",
    });
    match &rule.section {
        Section::Agent(agent) => {
            let _ = write!(text, "principal == Agent::{}, ", literal(agent.as_str()));
        }
        Section::Everyone
        | Section::Session(_)
        | Section::NonMainSessions
        | Section::Channel(_)
        | Section::Tenant(_)
        | Section::User(_)
        | Section::Scope(_)
        | Section::WithoutScope(_)
        | Section::Subagents => text.push_str("principal, "),
    }
    match rule.selector {
        Selector::Accesses(word) => {
            let _ = write!(text, "action == Action::\"{}\", ", word.action().as_str());
        }
        Selector::Named(_) | Selector::Provided(_) | Selector::Like(_) | Selector::Group(_) => {
            text.push_str("action, ");
        }
    }
    match &rule.pattern {
        Some(pattern) => {
            let kind = pattern_type(pattern.reach);
            let _ = write!(text, "resource in {kind}::{})", literal(&pattern.text));
        }
        None => text.push_str("resource)"),
    }
    let conditions: Vec<String> = [
        section_condition(&rule.section),
        tool_condition(rule),
        rule.action.as_ref().map(|action| action.condition(literal)),
        rule.read_condition(literal),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !conditions.is_empty() {
        let _ = write!(text, "\nwhen {{ {} }}", conditions.join(" && "));
    }
    if rule.verdict == Verdict::Ask {
        text.push_str("\nunless { context.approved }");
    }
    text.push(';');
    text
}

fn section_condition(section: &Section) -> Option<String> {
    match section {
        Section::Everyone | Section::Agent(_) => None,
        Section::Session(kind) => Some(format!(
            "principal.session_kinds.contains({})",
            literal(kind.as_str())
        )),
        Section::NonMainSessions => Some("principal.session_kind != \"main\"".to_owned()),
        Section::Channel(channel) => Some(format!(
            "principal has channel && principal.channel == {}",
            literal(channel.as_str())
        )),
        Section::Tenant(tenant) => Some(format!(
            "principal has tenant && principal.tenant == {}",
            literal(tenant.as_str())
        )),
        Section::User(user) => Some(format!(
            "principal has user && principal.user == {}",
            literal(user.as_str())
        )),
        Section::Scope(scope) => Some(format!(
            "principal.scopes.contains({})",
            literal(scope.as_str())
        )),
        Section::WithoutScope(scope) => Some(format!(
            "!principal.scopes.contains({})",
            literal(scope.as_str())
        )),
        Section::Subagents => Some("principal.is_subagent".to_owned()),
    }
}

fn tool_condition(rule: &Rule) -> Option<String> {
    match &rule.selector {
        Selector::Named(tool) => Some(format!("context.tool == {}", literal(tool.as_str()))),
        Selector::Provided(key) => Some(format!(
            "context.provider == {} && context.tool == {}",
            literal(key.provider.as_str()),
            literal(key.tool.as_str())
        )),
        Selector::Like(glob) if glob == "*" => None,
        // A name glob holds only name characters and `*`, so it already is a Cedar pattern.
        Selector::Like(glob) => Some(format!("context.tool like {}", literal(glob))),
        Selector::Group(group) => Some(format!("context.groups.contains({})", literal(group))),
        Selector::Accesses(_) => None,
    }
}

/// A Cedar string literal. Cedar uses Rust's escapes.
fn literal(text: &str) -> String {
    format!("\"{}\"", text.escape_debug())
}

impl CompileError {
    pub(crate) fn of_globs(error: &globset::Error) -> Self {
        Self {
            rule: error.glob().unwrap_or("path patterns").to_owned(),
            message: error.kind().to_string(),
        }
    }

    pub(crate) fn of_type(name: &str, error: &cedar_policy::ParseErrors) -> Self {
        Self {
            rule: name.to_owned(),
            message: error.to_string(),
        }
    }
}
