//! The outbound budget: how much of its own making a session may put into requests to hosts, once it
//! has read what outsiders write, before a person is asked.
//!
//! A page can tell an agent to carry what it knows to a host, letter by letter in addresses that a
//! rule allows. So the runtime counts what an agent composes: what stood in an earlier result is not
//! its own, and what looks like encoded data weighs more. It only ever makes a verdict stricter.
//! Commands are not counted, since nobody can tell what they send: the hosts that they may reach are
//! the fence there. `weight.rs` weighs a request, `shown.rs` knows what a session was shown.
//! Read next: `docs/adr/0074-*.md`.

mod shown;
mod weight;

use std::sync::Arc;

use haft_contract::{
    Access, Content, Labels, SealedPlan,
    content::ResourceBody,
    host::{Decision, Ledger, RuleRef, Verdict},
};
use serde_json::Value;

use self::shown::ShownAddresses;

/// Recorded as the source of the budget's own questions, in place of a rule's file.
pub const OUTGOING_BUDGET: &str = "outbound budget";

/// What one session has sent to hosts, and what it was shown.
#[derive(Default)]
pub(crate) struct Outgoing {
    /// What its requests weighed since it read from an outsider, or since a person last said yes.
    bytes: u64,
    shown: ShownAddresses,
}

/// What the budget makes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BudgetAnswer {
    /// It sends nothing that counts.
    NotCounted,
    /// It is within the budget; this is what was sent with it.
    Within(u64),
    /// With it the session would have sent this much, which is too much.
    Beyond(u64),
}

/// Whether a call that is within the budget uses some of it up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counting {
    /// It does: it is about to run.
    Use,
    /// It is only foreseen.
    Look,
}

impl Outgoing {
    /// Weighs a call that is a composed request and has not been denied.
    pub(crate) fn weigh(
        &mut self,
        plan: &SealedPlan,
        read_from: &Labels,
        most: u64,
        counting: Counting,
    ) -> BudgetAnswer {
        if read_from.is_empty() {
            return BudgetAnswer::NotCounted;
        }
        let together = self.bytes.saturating_add(self.weight(plan));
        if together > most {
            return BudgetAnswer::Beyond(together);
        }
        if counting == Counting::Use {
            self.bytes = together;
        }
        BudgetAnswer::Within(together)
    }

    /// Starts anew with a call that a person let pass beyond the budget.
    pub(crate) fn let_pass(&mut self, plan: &SealedPlan) {
        self.bytes = self.weight(plan);
    }

    /// Remembers the addresses in a result: to follow one is not to compose it.
    pub(crate) fn note_result(&mut self, content: &[Content]) {
        for piece in content {
            match piece {
                Content::Text(text)
                | Content::Resource {
                    body: ResourceBody::Text(text),
                    ..
                } => self.shown.note(text),
                Content::Link { uri, .. } => self.shown.note(uri),
                _ => {}
            }
        }
    }

    fn weight(&self, plan: &SealedPlan) -> u64 {
        weight::of_input(plan.input(), |text| self.shown.contains(text))
    }
}

/// A decision as the budget leaves it.
pub(crate) fn within_budget(
    answer: BudgetAnswer,
    most: u64,
    read_from: &Labels,
    decision: Arc<Decision>,
) -> Arc<Decision> {
    let sent = |bytes: u64| {
        format!(
            "since it read from {read_from}, this session has put {bytes} bytes of its own into requests \
             to hosts, and {most} pass without a question"
        )
    };
    match (answer, decision.verdict) {
        (BudgetAnswer::NotCounted, _)
        | (_, Verdict::Deny)
        | (BudgetAnswer::Within(_), Verdict::Allow) => decision,
        // Whoever is asked anyway is told before it is used up.
        (BudgetAnswer::Within(bytes), Verdict::Ask) if bytes < most / 2 => decision,
        (BudgetAnswer::Within(bytes) | BudgetAnswer::Beyond(bytes), Verdict::Ask) => {
            let decision = Arc::unwrap_or_clone(decision);
            Arc::new(Decision {
                reason: format!("{}; {}", decision.reason, sent(bytes)),
                ..decision
            })
        }
        (BudgetAnswer::Beyond(bytes), Verdict::Allow) => Arc::new(Decision {
            verdict: Verdict::Ask,
            rule: Some(RuleRef {
                text: format!("outgoing_bytes = {most}"),
                source: OUTGOING_BUDGET.to_owned(),
                line: None,
            }),
            reason: format!("with this call, {}", sent(bytes)),
            access: None,
            // The standing approvals that would let it pass are not used up when a person answers.
            grants: Vec::new(),
            ..Arc::unwrap_or_clone(decision)
        }),
    }
}

/// Whether the call's input becomes requests to hosts. A command's text is not what it sends.
pub(crate) fn is_composed_request(plan: &SealedPlan) -> bool {
    let mut to_host = false;
    for access in plan.accesses() {
        match access {
            Access::Host { .. } => to_host = true,
            Access::Command(_) => return false,
            _ => {}
        }
    }
    to_host
}

/// Whether an input has a secret's value in one of its texts, or spread over them.
pub(crate) fn holds_secret(input: &Value, ledger: &dyn Ledger) -> bool {
    let mut texts = String::new();
    collect(input, &mut texts, weight::MAX_DEPTH);
    ledger.holds_secret(&texts)
}

/// All texts of a value, one after the other.
fn collect(value: &Value, texts: &mut String, depth: usize) {
    let Some(below) = depth.checked_sub(1) else {
        texts.push_str(&value.to_string());
        return;
    };
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => {
            texts.push_str(&number.to_string());
            texts.push('\n');
        }
        Value::String(text) => {
            texts.push_str(text);
            texts.push('\n');
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, texts, below)),
        Value::Object(fields) => {
            for (name, field) in fields {
                texts.push_str(name);
                texts.push('\n');
                collect(field, texts, below);
            }
        }
    }
}

/// Whether a result can show addresses that outsiders wrote.
pub(crate) fn comes_from_elsewhere(plan: &SealedPlan) -> bool {
    let mut accesses = plan.accesses().iter();
    accesses.any(|access| matches!(access, Access::Host { .. } | Access::RemoteTool { .. }))
}
