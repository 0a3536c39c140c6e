//! The two fixed points where an embedder may look at a call or change it. A changed call is
//! validated, planned and decided again; nothing can be inserted between other stages.

use serde_json::Value;

use crate::{future::BoxFuture, identity::Principal, outcome::Outcome, plan::SealedPlan};

/// Sees calls before they are decided and after they ran.
pub trait Hook: Send + Sync {
    /// Called with the plan, before policy decides.
    fn before_decide<'a>(
        &'a self,
        principal: &'a Principal,
        plan: &'a SealedPlan,
    ) -> BoxFuture<'a, BeforeDecide> {
        let _ = (principal, plan);
        Box::pin(async { BeforeDecide::Continue })
    }

    /// Called with the outcome, before it is capped, recorded and returned. May add to its content,
    /// but cannot change how the call ended.
    fn after_run<'a>(
        &'a self,
        plan: &'a SealedPlan,
        outcome: &'a mut Outcome,
    ) -> BoxFuture<'a, ()> {
        let _ = (plan, outcome);
        Box::pin(async {})
    }
}

/// What a hook wants before a call is decided.
#[derive(Debug, Clone, PartialEq)]
pub enum BeforeDecide {
    /// Go on.
    Continue,
    /// Go on with this input instead; it is validated and planned again.
    Rewrite(Value),
    /// Deny the call with this reason.
    Deny(String),
}
