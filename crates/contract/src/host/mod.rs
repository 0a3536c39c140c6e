//! What a host supplies to the runtime: a policy, somebody to ask, a ledger, a clock and hooks. The
//! runtime sees only these traits, so a call takes the same path on one person's laptop and in a
//! cluster.

mod acceptance;
mod agent_questions;
mod approvals;
mod approver;
mod clock;
mod grants;
mod hook;
mod ledger;
mod memory;
mod policy;
mod stats;

pub use acceptance::*;
pub use agent_questions::*;
pub use approvals::*;
pub use approver::*;
pub use clock::*;
pub use grants::*;
pub use hook::*;
pub use ledger::*;
pub use memory::*;
pub use policy::*;
pub use stats::*;

pub use crate::{artifact::*, ledger_error::*};
