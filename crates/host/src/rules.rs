//! The rules an embedder writes in code, as the policy text they would be in a file.
//!
//! There is one parser of rules, in `haft-policy`. This only prints what it reads, so that a rule
//! in code and the same rule in `haft.toml` cannot differ in meaning.

use std::collections::BTreeMap;

use haft_contract::SessionKind;
use haft_policy::{PolicySource, Preset};

/// The name of rules written in code in explanations.
pub const IN_CODE: &str = "code";

/// Rules written in code: for everyone, for one agent, for one kind of session, and policy texts
/// that add to them.
///
/// ```
/// use haft_host::rules::RulesInCode;
///
/// let rules = RulesInCode::new()
///     .allow("deploy(action:status)")
///     .deny("db(crm, writes)")
///     .for_agent("writer", |rules| rules.allow("write(docs/**)"))
///     .for_agent("reader", |rules| rules.deny("@changes"));
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "rules do nothing until a host is built with them or takes them over"]
pub struct RulesInCode {
    everyone: RuleLists,
    agents: BTreeMap<String, AgentRules>,
    sessions: BTreeMap<SessionKind, SessionRules>,
    texts: Vec<PolicySource>,
}

/// What one agent may do, in addition to what holds for everyone.
#[derive(Debug, Clone, Default)]
#[must_use = "return the rules from the closure"]
pub struct AgentRules(RuleLists);

/// What one kind of session may not do. A session only narrows what its agent may do, so nothing
/// can be allowed here.
#[derive(Debug, Clone, Default)]
#[must_use = "return the rules from the closure"]
pub struct SessionRules(RuleLists);

/// A preset and three lists.
#[derive(Debug, Clone, Default)]
struct RuleLists {
    preset: Option<Preset>,
    allow: Vec<String>,
    ask: Vec<String>,
    deny: Vec<String>,
}

impl RulesInCode {
    /// No rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// What applies where no rule matches. If several are named, the strictest applies.
    pub fn preset(mut self, preset: Preset) -> Self {
        self.everyone.strictest(preset);
        self
    }

    /// Allows what a rule names.
    pub fn allow(mut self, rule: impl Into<String>) -> Self {
        self.everyone.allow.push(rule.into());
        self
    }

    /// Asks about what a rule names, even where it would be allowed.
    pub fn ask(mut self, rule: impl Into<String>) -> Self {
        self.everyone.ask.push(rule.into());
        self
    }

    /// Denies what a rule names, whatever else allows it.
    pub fn deny(mut self, rule: impl Into<String>) -> Self {
        self.everyone.deny.push(rule.into());
        self
    }

    /// Rules for one agent. As soon as one agent has rules, an agent without any is a stranger:
    /// everything it does asks. Give each of them a section, `|rules| rules` if it has no rules.
    pub fn for_agent(
        mut self,
        agent: impl Into<String>,
        rules: impl FnOnce(AgentRules) -> AgentRules,
    ) -> Self {
        let agent = agent.into();
        let before = self.agents.remove(&agent).unwrap_or_default();
        self.agents.insert(agent, rules(before));
        self
    }

    /// Rules for one kind of session.
    pub fn for_session(
        mut self,
        kind: SessionKind,
        rules: impl FnOnce(SessionRules) -> SessionRules,
    ) -> Self {
        let before = self.sessions.remove(&kind).unwrap_or_default();
        self.sessions.insert(kind, rules(before));
        self
    }

    /// Adds the policy part of a configuration text, as in `haft.toml`. The name identifies it in
    /// explanations. Rules of several texts and of code add up, deny over ask over allow.
    pub fn policy_text(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.texts.push(PolicySource::new(name, text));
        self
    }

    /// The same rules as policy texts: those written in code first.
    pub fn sources(&self) -> Vec<PolicySource> {
        let mut lines = vec!["[policy]".to_owned()];
        self.everyone.print(&mut lines);
        for (agent, AgentRules(rules)) in &self.agents {
            lines.push(format!("[agents.{}]", quoted(agent)));
            rules.print(&mut lines);
        }
        for (kind, SessionRules(rules)) in &self.sessions {
            lines.push(format!("[sessions.{}]", kind.as_str()));
            rules.print(&mut lines);
        }
        let in_code = PolicySource::new(IN_CODE, lines.join("\n"));
        std::iter::once(in_code).chain(self.texts.clone()).collect()
    }
}

impl AgentRules {
    /// What applies where no rule matches, instead of what does for everyone.
    pub fn preset(mut self, preset: Preset) -> Self {
        self.0.strictest(preset);
        self
    }

    /// Allows what a rule names.
    pub fn allow(mut self, rule: impl Into<String>) -> Self {
        self.0.allow.push(rule.into());
        self
    }

    /// Asks about what a rule names, even where it would be allowed.
    pub fn ask(mut self, rule: impl Into<String>) -> Self {
        self.0.ask.push(rule.into());
        self
    }

    /// Denies what a rule names, whatever else allows it.
    pub fn deny(mut self, rule: impl Into<String>) -> Self {
        self.0.deny.push(rule.into());
        self
    }
}

impl SessionRules {
    /// What applies where no rule matches, in addition to the agent's own: the strictest holds.
    pub fn preset(mut self, preset: Preset) -> Self {
        self.0.strictest(preset);
        self
    }

    /// Asks about what a rule names, even where it would be allowed.
    pub fn ask(mut self, rule: impl Into<String>) -> Self {
        self.0.ask.push(rule.into());
        self
    }

    /// Denies what a rule names, whatever else allows it.
    pub fn deny(mut self, rule: impl Into<String>) -> Self {
        self.0.deny.push(rule.into());
        self
    }
}

impl RuleLists {
    fn strictest(&mut self, preset: Preset) {
        self.preset = self.preset.max(Some(preset));
    }

    fn print(&self, lines: &mut Vec<String>) {
        if let Some(preset) = self.preset {
            lines.push(format!("preset = {}", quoted(preset.as_str())));
        }
        for (key, rules) in [
            ("allow", &self.allow),
            ("ask", &self.ask),
            ("deny", &self.deny),
        ] {
            if rules.is_empty() {
                continue;
            }
            lines.push(format!("{key} = ["));
            lines.extend(rules.iter().map(|rule| format!("  {},", quoted(rule))));
            lines.push("]".to_owned());
        }
    }
}

/// Rules as texts: what a host is built with, and what takes their place later.
#[derive(Debug, Clone)]
pub struct PolicyTexts(pub(crate) Vec<PolicySource>);

impl From<RulesInCode> for PolicyTexts {
    fn from(rules: RulesInCode) -> Self {
        Self(rules.sources())
    }
}

impl From<PolicySource> for PolicyTexts {
    fn from(source: PolicySource) -> Self {
        Self(vec![source])
    }
}

impl From<Vec<PolicySource>> for PolicyTexts {
    fn from(sources: Vec<PolicySource>) -> Self {
        Self(sources)
    }
}

impl From<&[PolicySource]> for PolicyTexts {
    fn from(sources: &[PolicySource]) -> Self {
        Self(sources.to_vec())
    }
}

impl<const N: usize> From<&[PolicySource; N]> for PolicyTexts {
    fn from(sources: &[PolicySource; N]) -> Self {
        Self(sources.to_vec())
    }
}

/// A TOML string. All of JSON's escapes are also TOML escapes. The one character that JSON leaves
/// bare and TOML refuses (delete) is refused when the text is parsed.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(rules: &RulesInCode) -> String {
        rules.sources().remove(0).text
    }

    #[test]
    fn a_rule_cannot_break_out_of_its_string() {
        let rules = RulesInCode::new()
            .preset(Preset::Locked)
            .allow("read\"]\npreset = \"workspace");
        assert_eq!(
            text(&rules),
            "[policy]\npreset = \"locked\"\nallow = [\n  \"read\\\"]\\npreset = \\\"workspace\",\n]"
        );
    }

    #[test]
    fn an_agents_name_cannot_break_out_of_its_section() {
        let rules = RulesInCode::new().for_agent("a\"]\n[policy", |rules| rules.deny("bash"));
        let refused = haft_policy::CedarPolicy::load(&rules.sources()).unwrap_err();
        assert_eq!(refused.problems().len(), 1, "{refused}");
    }

    #[test]
    fn an_agents_rules_add_up() {
        let rules = RulesInCode::new()
            .for_agent("a", |rules| rules.deny("bash").preset(Preset::Locked))
            .for_agent("a", |rules| rules.ask("read").preset(Preset::Careful))
            .for_session(SessionKind::Cron, |rules| rules.deny("write"));
        assert_eq!(
            text(&rules),
            "[policy]\n[agents.\"a\"]\npreset = \"locked\"\nask = [\n  \"read\",\n]\ndeny = [\n  \"bash\",\n]\n[sessions.cron]\ndeny = [\n  \"write\",\n]"
        );
    }
}
