//! Reads the record: lists and single calls, many calls at once, what calls did to files, and whether
//! everything is as it was written.

mod candidates;
pub(crate) mod changes;
pub(crate) mod facts;
pub(crate) mod read;
pub(crate) mod replay;
pub(crate) mod verify;
