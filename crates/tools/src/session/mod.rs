//! Tools about the session itself.

pub mod clarify;
pub mod todo;
