//! Files of agents that Haft changes: read, replaced as a whole or not at all, and given back as they
//! were. `agents/` says what goes into them; here is what touches them.
#![expect(
    clippy::disallowed_methods,
    reason = "changes files of other programs where their owner asked for it, which no workspace confines"
)]

pub(crate) mod foreign;
pub(crate) mod installed;
