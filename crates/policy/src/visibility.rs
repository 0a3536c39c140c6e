//! Whether to show a tool: not if no input of it could be allowed or asked about. Errs on the side
//! of showing; what is hidden here is denied by the engine whatever its input.

use haft_contract::{
    AgentId, Labels, Principal,
    host::{RuleRef, ToolFacts, Verdict},
};

use crate::{
    engine::CedarPolicy,
    facts::{self, Action, CallFacts, CommandPart, Item},
    judge::{DecidingCause, EvaluationCase, ShellFacts},
    preset::Preset,
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
                    (Some(rule), DecidingCause::Rule(_)) => {
                        format!("{rule} denies every use of `{name}` to agent `{agent}`")
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
}
