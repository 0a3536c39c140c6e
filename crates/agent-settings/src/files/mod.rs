//! The agents' files that Haft changes: read, replaced entirely or not at all, and restored.
//! The rest of this crate decides what goes into them; this module does the reading and writing.
#![expect(
    clippy::disallowed_methods,
    reason = "changes files of other programs where their owner asked for it, which no workspace confines"
)]

pub mod installed;
pub mod paths;
