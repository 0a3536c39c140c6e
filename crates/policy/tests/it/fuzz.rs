//! Hostile input against the parsers of the policy that other crates can call; those of patterns
//! are in `src/fuzz.rs`.

mod differential;
mod shell;
