//! Finds what would let a call pass without asking, and proves it: the command for a standing
//! approval, which policy itself proposes, and the line for a configuration file, which is shown
//! only after the policy with that line added has said allow.

use std::{
    fmt::Write as _,
    sync::{Arc, OnceLock},
};

use haft_contract::{
    Principal, ProviderId, SealedPlan,
    erased::ErasedTool,
    host::{GrantBreadth, GrantProposal, Policy as _, Question, Verdict},
};
// One definition of deceptive characters, for text on a terminal and in a client's form.
use haft_contract::displayed::is_deceptive;
use haft_policy::{
    CedarPolicy, PolicySource,
    grant::{is_never_offered, narrowest_rules},
};
use haft_runtime::registry::{Entry, Registry};

/// The largest edit distance between a suggested agent's name and what was written.
const MAX_NAME_DISTANCE: usize = 2;

/// What is said about a command that nobody should allow for good.
const NEVER_OFFERED: &str = "no rule is offered for this command, because one mistake with it \
                             costs too much; if it must be run, run it yourself";

/// Finds rules that would allow calls.
#[derive(Debug, Clone)]
pub struct Suggest {
    sources: Vec<PolicySource>,
    policy: Arc<CedarPolicy>,
    rules_file: String,
    then: &'static str,
    /// The registered tools, including mounted ones, once there is a runtime.
    registry: Arc<OnceLock<Arc<Registry>>>,
    /// Tools that only some commands register.
    apart: Vec<Arc<Entry>>,
}

/// What to do after a configuration file is edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterEdit {
    /// It is a workspace's file, which must be trusted again.
    Trust,
    /// It is the operator's own.
    Nothing,
}

impl Suggest {
    /// For a configuration, and the file that rules should be added to.
    pub fn new(
        sources: Vec<PolicySource>,
        policy: Arc<CedarPolicy>,
        rules_file: String,
        after: AfterEdit,
    ) -> Self {
        Self {
            sources,
            policy,
            rules_file,
            then: match after {
                AfterEdit::Trust => ", then run `haft trust`",
                AfterEdit::Nothing => "",
            },
            registry: Arc::default(),
            apart: Vec::new(),
        }
    }

    /// Sets the runtime's registry, which is read anew for each question.
    pub fn know(&self, registry: &Arc<Registry>) {
        // There is only one runtime per set of parts.
        let _ = self.registry.set(Arc::clone(registry));
    }

    /// Adds a built-in tool that is in no registry yet.
    pub fn know_apart(&mut self, tool: Arc<dyn ErasedTool>) {
        let entry = Entry::new(&ProviderId::builtin(), tool);
        self.apart.push(Arc::new(entry));
    }

    fn tool(&self, plan: &SealedPlan) -> Option<Arc<Entry>> {
        let registry = self.registry.get();
        let found = registry
            .and_then(|registry| registry.snapshot().get(plan.tool().tool.as_str()).cloned())
            .filter(|entry| *entry.key() == *plan.tool());
        found.or_else(|| {
            let apart = self.apart.iter().find(|entry| *entry.key() == *plan.tool());
            apart.cloned()
        })
    }

    /// A sentence about what would let this plan pass without asking.
    pub fn sentence(&self, principal: &Principal, plan: &SealedPlan) -> String {
        // It is better to correct a misspelt agent than to allow more.
        if is_never_offered(plan) {
            return NEVER_OFFERED.to_owned();
        }
        self.about_stranger(principal)
            .or_else(|| self.to_allow(principal, plan))
            .unwrap_or_else(|| {
                "no line in `allow` would let this pass without asking; run it where a person can \
                 answer at the terminal"
                    .to_owned()
            })
    }

    /// A sentence about what would let this plan pass without asking, if anything would.
    pub fn to_allow(&self, principal: &Principal, plan: &SealedPlan) -> Option<String> {
        if is_never_offered(plan) {
            return None;
        }
        let tool = self.tool(plan)?;
        let question = Question {
            principal,
            tool: tool.facts(),
            plan,
            grants: &[],
        };
        let grant = self.policy.proposals(&question).into_iter().next();
        let line = self.rules(&question).map(|rules| self.line(&rules));
        let run = |grant: &GrantProposal| format!("run `{}`", add_command(&grant.rules));
        Some(match (grant, line) {
            (None, None) => return None,
            (None, Some(line)) => format!("to allow exactly this without asking, {line}"),
            (Some(grant), Some(line)) if grant.breadth == GrantBreadth::Exact => {
                format!(
                    "to allow exactly this without asking, {}, or {line}",
                    run(&grant)
                )
            }
            (Some(grant), _) => {
                format!("to allow {} without asking, {}", grant.meaning, run(&grant))
            }
        })
    }

    /// The line of a configuration file that holds these rules.
    fn line(&self, rules: &[String]) -> String {
        let quoted: Vec<String> = rules.iter().map(|rule| quoted(rule)).collect();
        format!(
            "add {} to `allow` under [policy] in {}{}",
            quoted.join(", "),
            self.rules_file,
            self.then
        )
    }

    /// What to do about a rule that denies. The reason has already named the rule.
    pub fn about_denial(&self) -> String {
        format!("change that rule if this should be allowed{}", self.then)
    }

    /// What to do about an agent without a section, when other agents have one.
    fn about_stranger(&self, principal: &Principal) -> Option<String> {
        let agent = principal.agent.as_str();
        let known = self.agents();
        if known.is_empty() || known.iter().any(|name| name == agent) {
            return None;
        }
        let near = known
            .iter()
            .map(|name| (strsim::damerau_levenshtein(agent, name), name))
            .filter(|(distance, _)| *distance <= MAX_NAME_DISTANCE)
            .min();
        let near = near.map_or_else(String::new, |(_, name)| {
            format!("did you mean the agent `{name}`? Or ")
        });
        Some(format!(
            "{near}add a section [agents.{agent}] to {}{}",
            self.rules_file, self.then
        ))
    }

    /// The agents that have a section.
    fn agents(&self) -> Vec<String> {
        let sections = |source: &PolicySource| {
            let file: toml::Table = source.text.parse().ok()?;
            let agents = file.get("agents")?.as_table()?;
            Some(agents.keys().cloned().collect::<Vec<_>>())
        };
        self.sources.iter().filter_map(sections).flatten().collect()
    }

    /// Rules that, added to `allow`, make the policy say allow: about the parts that change
    /// something, about all parts, or about the tool.
    fn rules(&self, question: &Question<'_>) -> Option<Vec<String>> {
        let plan = question.plan;
        let mut changes = plan.accesses().to_vec();
        changes.retain(|access| access.kind() != "read");
        let changing = plan.clone().with_accesses(changes);
        let whole_tool = vec![plan.tool().tool.to_string()];
        [
            narrowest_rules(&changing),
            narrowest_rules(plan),
            whole_tool,
        ]
        .into_iter()
        .find(|rules| !rules.is_empty() && self.would_allow(rules, question))
    }

    fn would_allow(&self, rules: &[String], question: &Question<'_>) -> bool {
        let list = toml::Value::Array(rules.iter().cloned().map(toml::Value::String).collect());
        let mut sources = self.sources.clone();
        sources.push(PolicySource::new(
            "suggestion",
            format!("[policy]\nallow = {list}\n"),
        ));
        CedarPolicy::load(&sources)
            .is_ok_and(|policy| policy.decide(question).verdict == Verdict::Allow)
    }
}

/// A text as a TOML string on one line. The rule contains what an agent wrote, and a TOML string
/// may span lines, which would let the agent fake lines around a question.
fn quoted(text: &str) -> String {
    let mut toml = String::with_capacity(text.len() + 2);
    toml.push('"');
    for c in text.chars() {
        match c {
            '"' => toml.push_str("\\\""),
            '\\' => toml.push_str("\\\\"),
            '\n' => toml.push_str("\\n"),
            '\t' => toml.push_str("\\t"),
            '\r' => toml.push_str("\\r"),
            c if is_deceptive(c) => {
                // Writing to a `String` cannot fail.
                let _ = write!(toml, "\\U{:08X}", u32::from(c));
            }
            c => toml.push(c),
        }
    }
    toml.push('"');
    toml
}

/// The command that makes a standing approval of these rules in this workspace.
pub fn add_command(rules: &[String]) -> String {
    let words: Vec<String> = rules.iter().map(|rule| shell_word(rule)).collect();
    format!("haft grants add {} --project", words.join(" "))
}

/// A text as one shell word, on one line and without anything a terminal could act on.
fn shell_word(text: &str) -> String {
    if !text.chars().any(is_deceptive) && !text.contains(['\n', '\r', '\t']) {
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    let mut word = String::from("$'");
    for c in text.chars() {
        match c {
            '\'' => word.push_str(r"\'"),
            '\\' => word.push_str(r"\\"),
            '\n' => word.push_str(r"\n"),
            '\r' => word.push_str(r"\r"),
            '\t' => word.push_str(r"\t"),
            c if is_deceptive(c) => {
                // Writing to a `String` cannot fail.
                let _ = write!(word, "\\U{:08X}", u32::from(c));
            }
            c => word.push(c),
        }
    }
    word.push('\'');
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ap_08_a_command_to_copy_is_one_line_and_one_word() {
        for (text, expect) in [
            ("bash(cargo test *)", "'bash(cargo test *)'"),
            ("bash(echo 'a')", r"'bash(echo '\''a'\'')'"),
            ("a\nb'c\\", r"$'a\nb\'c\\'"),
            ("\u{202e}x", r"$'\U0000202Ex'"),
        ] {
            assert_eq!(shell_word(text), expect);
        }
    }

    #[test]
    fn ap_08_a_suggested_line_is_one_line_and_means_the_same() {
        for text in [
            "bash(echo \"a\" > b)",
            "a\nb\r\tc",
            r"a\nb",
            "\u{1b}[2J\u{7f}\u{202e}\u{e0041}",
            "'\"\"\"",
        ] {
            let quoted = quoted(text);
            assert!(!quoted.chars().any(is_deceptive), "{quoted:?}");
            let table: toml::Table = format!("a = {quoted}").parse().unwrap();
            assert_eq!(table["a"].as_str(), Some(text));
        }
    }
}
