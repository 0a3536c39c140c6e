//! Addresses that deny rules name, for whoever connects: a name may lead to one of them, which only shows
//! when it is looked up.
//!
//! Only `deny` is handed on. What an `ask` rule names, a person may allow, and a call that runs cannot ask.

use std::net::IpAddr;

use haft_contract::{Labels, Principal, host::ToolFacts};

use crate::{
    engine::{CedarPolicy, line},
    rule::Rule,
};

impl CedarPolicy {
    /// The addresses in every deny rule that applies to this caller and tool, for the agent and those that
    /// started it.
    pub(crate) fn addresses_denied(
        &self,
        principal: &Principal,
        tool: &ToolFacts<'_>,
        read_from: &Labels,
    ) -> Vec<IpAddr> {
        let mut denied = Vec::new();
        for agent in line(principal) {
            let slots = self.index.slots(principal, agent, tool);
            let numbers = self.index.address_rules(&slots);
            let rules = numbers.iter().filter_map(|number| self.rules.get(*number));
            let rules =
                rules.filter(|rule: &&Rule| rule.speaks_after(read_from, &tool.key.provider));
            denied.extend(rules.filter_map(|rule| rule.pattern.as_ref()?.address()));
        }
        denied.sort_unstable();
        denied.dedup();
        denied
    }
}
