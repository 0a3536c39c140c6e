//! What the tests of this repository stand on: everything of `haft-harness`, which is for others too,
//! and beside it servers, fixtures, hostile input and the checks of house style.
//!
//! For tests only: nothing here is durable, confined or fast.
//!
//! Read next: `crates/harness` for the harness and the suites, [`tier`] for how a test says its tier.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::naive_bytecount,
    reason = "a test library asserts"
)]

pub mod certificates;
pub mod container_engine;
pub mod cpu_time;
pub mod fuzz;
pub mod helper_program;
pub mod hostile_pdf;
pub mod in_time;
pub mod junit;
pub mod machine_clock;
pub mod mariadb_server;
pub mod object_server;
pub mod openssh_server;
pub mod pdf;
pub mod postgres_server;
pub mod tier;
pub mod tool_style;
pub mod workspace_directory;

pub use cpu_time::CpuTime;
pub use fuzz::{Fuzz, ParseOutcome};
pub use haft_harness::*;
pub use helper_program::helper_program;
pub use in_time::in_time;
