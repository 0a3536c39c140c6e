//! The addresses that rules deny a call, which its network holds it to: where a name leads shows only when it
//! is looked up, after the rules have judged the name.

use std::{net::IpAddr, panic::AssertUnwindSafe, sync::Arc};

use haft_contract::{Access, SealedPlan};

use super::CallState;
use crate::{registry::Entry, rules::WorkspaceRules};

/// The addresses, by the rules that the call carries and by the newest; `None` if a policy cannot say.
pub(super) fn denied_addresses(
    call: &CallState,
    entry: &Entry,
    plan: &SealedPlan,
) -> Option<Arc<[IpAddr]>> {
    let is_host = |access: &Access| matches!(access, Access::Host { .. });
    if !plan.accesses().iter().any(is_host) {
        return Some(Arc::default());
    }
    let read_from = call.read_from();
    let of = |rules: &WorkspaceRules| {
        let policy = &rules.policy;
        let denied = || policy.denied_addresses(&call.principal, &entry.facts(), &read_from);
        std::panic::catch_unwind(AssertUnwindSafe(denied)).ok()
    };
    let mut denied = of(&call.rules)?;
    let newest = call.workspace.rules.current();
    if !Arc::ptr_eq(&newest, &call.rules) {
        denied.extend(of(&newest)?);
        denied.sort_unstable();
        denied.dedup();
    }
    Some(denied.into())
}
