//! The hook point before a call is decided. A rewritten call starts again at validation, so a hook
//! can never introduce something that was not validated, planned and decided.

use std::sync::Arc;

use haft_contract::{Arguments, ErrorKind, ToolError, host::BeforeDecide};

use super::{HaltedCall, PlannedCall, ResolvedCall};

/// How often hooks may rewrite one call.
const MAX_REWRITES: u8 = 4;

/// What the hooks did to a call.
pub enum HookOutcome {
    /// They left it as it is.
    Unchanged(PlannedCall),
    /// They changed its input.
    Rewritten(ResolvedCall),
}

/// Calls every hook in turn.
pub async fn consult_hooks(planned: PlannedCall) -> Result<HookOutcome, HaltedCall> {
    let engine = Arc::clone(&planned.call.engine);
    for hook in &engine.hooks {
        match hook
            .before_decide(&planned.call.principal, &planned.plan)
            .await
        {
            BeforeDecide::Continue => {}
            BeforeDecide::Deny(reason) => {
                return Err(planned.call.halt(ToolError::new(ErrorKind::Denied, reason)));
            }
            BeforeDecide::Rewrite(input) if input == *planned.plan.input() => {}
            BeforeDecide::Rewrite(_) if planned.rewrites >= MAX_REWRITES => {
                let error = ToolError::new(
                    ErrorKind::Internal,
                    format!("hooks rewrote the call more than {MAX_REWRITES} times"),
                );
                return Err(planned.call.halt(error));
            }
            BeforeDecide::Rewrite(input) => {
                return Ok(HookOutcome::Rewritten(ResolvedCall {
                    call: planned.call,
                    entry: planned.entry,
                    arguments: Arguments::Value(input),
                    rewrites: planned.rewrites + 1,
                }));
            }
        }
    }
    Ok(HookOutcome::Unchanged(planned))
}
