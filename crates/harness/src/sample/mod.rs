//! Sample tools, one file each, written against the contract like any tool. Tests of the runtime
//! call them; a newcomer can read them as the smallest examples of each kind.
//!
//! `stubborn` and `rogue` misbehave on purpose: the runtime has to cope.

mod append;
mod count;
mod echo;
mod emit;
mod panic;
mod rogue;
mod sleep;
mod stubborn;

use std::sync::Arc;

use haft_contract::erased::{ErasedTool, erase};

pub use append::Append;
pub use count::{Count, CountProgress};
pub use echo::Echo;
pub use emit::Emit;
pub use panic::Panic;
pub use rogue::Rogue;
pub use sleep::Sleep;
pub use stubborn::Stubborn;

/// Every sample tool, sorted by name.
pub fn all() -> Vec<Arc<dyn ErasedTool>> {
    [
        erase(Append),
        erase(Count),
        erase(Echo),
        erase(Emit),
        erase(Panic),
        erase(Rogue),
        erase(Sleep),
        erase(Stubborn),
    ]
    .into_iter()
    .map(|tool| tool.expect("a sample tool has a good name"))
    .collect()
}
