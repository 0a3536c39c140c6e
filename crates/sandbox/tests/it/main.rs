//! Processes, confined and not, against the real operating system: attacks and their benign twins.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods,
    missing_docs,
    reason = "tests look at the machine from outside the jail"
)]

mod environment;
mod exhaustion;
mod extraction;
mod gvisor;
mod home;
mod linked_trees;
mod loopback;
mod masks;
mod probe;
mod process;
mod proof;
mod protected;
mod reader;
mod sandbox;
mod uncertain_masks;
mod version_2;
mod workspace;
