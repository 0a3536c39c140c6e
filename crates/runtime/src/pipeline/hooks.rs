//! The hook point before a call is decided. A rewritten call starts again at validation, so a
//! hook can never smuggle in something that was not validated, planned and decided.

use std::sync::Arc;

use haft_contract::{Arguments, ErrorKind, ToolError, host::BeforeDecide};

use super::{Halt, Planned, Resolved};

/// How often hooks may rewrite one call.
const MAX_REWRITES: u8 = 4;

/// What hooks did to a call.
pub enum Hooked {
    /// They let it be.
    Unchanged(Planned),
    /// They gave it another input.
    Rewritten(Resolved),
}

/// Asks every hook in turn.
pub async fn consult_hooks(planned: Planned) -> Result<Hooked, Halt> {
    let engine = Arc::clone(&planned.luggage.engine);
    for hook in &engine.hooks {
        match hook
            .before_decide(&planned.luggage.principal, &planned.plan)
            .await
        {
            BeforeDecide::Continue => {}
            BeforeDecide::Deny(reason) => {
                return Err(planned
                    .luggage
                    .halt(ToolError::new(ErrorKind::Denied, reason)));
            }
            BeforeDecide::Rewrite(input) if input == *planned.plan.input() => {}
            BeforeDecide::Rewrite(_) if planned.rewrites >= MAX_REWRITES => {
                let error = ToolError::new(
                    ErrorKind::Internal,
                    format!("hooks rewrote the call more than {MAX_REWRITES} times"),
                );
                return Err(planned.luggage.halt(error));
            }
            BeforeDecide::Rewrite(input) => {
                return Ok(Hooked::Rewritten(Resolved {
                    luggage: planned.luggage,
                    entry: planned.entry,
                    arguments: Arguments::Value(input),
                    rewrites: planned.rewrites + 1,
                }));
            }
        }
    }
    Ok(Hooked::Unchanged(planned))
}
