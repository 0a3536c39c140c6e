//! What `haft doctor` checks, one thing a file: whether everything that a call needs is there and
//! works, each with what to do. Nothing is printed here and nothing changed; sandboxes are not trusted
//! but tested (`tiers.rs`).

mod back_ends;
mod check;
pub mod configuration;
pub mod machine;
pub mod record;
mod secrets;
mod servers;
#[cfg(feature = "databases")]
pub mod sources;
pub mod tiers;
mod tools;
mod web;

pub use self::check::{Check, CheckState};
