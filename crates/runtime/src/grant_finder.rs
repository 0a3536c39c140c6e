//! Finds grants by the keys that policy gives rules and calls.

use std::panic::{AssertUnwindSafe, catch_unwind};

use haft_contract::host::{GrantFinder, GrantKey, Policy, Question};

/// Finds the grants that can change a policy's answer to a question. Fails closed: a policy that
/// panics finds none, so that a person is asked.
pub struct PolicyGrantFinder<'a> {
    /// The policy in force.
    pub policy: &'a dyn Policy,
    /// The question without grants.
    pub question: Question<'a>,
}

impl GrantFinder for PolicyGrantFinder<'_> {
    fn rule_keys(&self, rule: &str) -> Vec<GrantKey> {
        let keys = AssertUnwindSafe(|| self.policy.grant_rule_keys(rule));
        catch_unwind(keys).unwrap_or_default()
    }

    fn call_keys(&self) -> Vec<GrantKey> {
        let keys = AssertUnwindSafe(|| self.policy.grant_keys(&self.question));
        catch_unwind(keys).unwrap_or_default()
    }
}
