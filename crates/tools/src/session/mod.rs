//! Tools about the session itself.

pub mod todo;
