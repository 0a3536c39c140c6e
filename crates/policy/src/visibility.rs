//! Whether to show a tool: not if no input of it could be allowed or asked about, and why. Errs on
//! the side of showing; what is hidden here is denied by the engine whatever its input.

use haft_contract::{
    AgentId, Labels, Principal,
    host::{RuleRef, ToolFacts, Verdict},
};

use crate::{
    engine::CedarPolicy,
    facts::{self, Action, CallFacts, CommandPart, Item},
    judge::{DecidingCause, EvaluationCase, ShellFacts},
    preset::Preset,
    rule::{Section, Selector},
    settings::SubagentRoute,
};

impl CedarPolicy {
    /// Why a tool is useless to one agent in the line, if it is.
    pub(crate) fn useless(
        &self,
        principal: &Principal,
        agent: &AgentId,
        tool: &ToolFacts<'_>,
    ) -> Option<(Option<RuleRef>, String)> {
        let slots = self.index.slots(principal, agent, tool);
        let item = Item {
            action: Action::Use,
            access: None,
            part: CommandPart::Whole,
        };
        let listed = self.presets.lists(agent);
        // The most permissive call a tool could plan: everything it touches is named and judged
        // separately.
        let case = EvaluationCase {
            principal,
            named: self.presets.named(principal),
            agent,
            listed,
            tool: *tool,
            // Rules about actions leave the others.
            tool_action: None,
            call: CallFacts {
                trusted: facts::is_trusted(tool),
                accounted: true,
                harmless: true,
                sandboxed: true,
                held: true,
                stays: false,
                crosses: false,
            },
            item,
            shell: ShellFacts::default(),
            patterns: Vec::new(),
            read_from: &Labels::NONE,
            labelled: true,
            rules: self.index.about_tool(&slots),
        };
        let name = &tool.key.tool;
        for preset in self.presets.of(principal, agent) {
            let judgement = self.judge.judge(&case, preset);
            if judgement.verdict == Verdict::Deny {
                let rule = self.rule_ref(&judgement.cause);
                let reason = match (&rule, &judgement.cause) {
                    (Some(rule), DecidingCause::Rule(number)) => {
                        let why = self.why_of_setting(*number).unwrap_or_default();
                        format!("{rule} denies every use of `{name}` to agent `{agent}`{why}")
                    }
                    (_, _) => format!(
                        "no rule allows `{name}` to agent `{agent}`, and preset `{preset}` never asks"
                    ),
                };
                return Some((rule, reason));
            }
            if preset == Preset::Locked && self.index.some_allow(&slots).is_none() {
                let reason = format!(
                    "no rule allows any use of `{name}` to agent `{agent}`, and preset `locked` never asks"
                );
                return Some((None, reason));
            }
        }
        None
    }

    /// Why a rule denies that is a setting of a tool: its text alone does not say whom it concerns.
    pub(crate) fn why_of_setting(&self, rule: usize) -> Option<String> {
        let rule = self.rules.get(rule)?;
        match (&rule.section, &rule.selector) {
            (Section::WithoutScope(scope), _) => Some(format!(
                ", because the caller's credential does not carry scope `{scope}`"
            )),
            (Section::Subagents, Selector::Named(tool)) => {
                let why = match self.tool_settings().subagent_route(tool) {
                    SubagentRoute::Gateway => {
                        "calls of sub-agents run at the gateway, and this program is not one"
                    }
                    SubagentRoute::Here | SubagentRoute::Disabled => "another agent started it",
                };
                Some(format!(", because {why}"))
            }
            _ => None,
        }
    }
}
