//! What every other crate's tests build on: in-memory operations, an in-memory ledger, scripted
//! people and policies, sample tools, and the suites that every back end, ledger and tool passes.
//!
//! For tests only: nothing here is durable, confined or fast. It depends on nothing of Haft but the
//! contract, except for `harness`, which drives the real runtime.
//!
//! Read next: [`suite`] for how an implementation is proven, [`memory`] for the reference back end,
//! [`sample`] for tools to call.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::naive_bytecount,
    reason = "a test library asserts"
)]

pub mod approver;
pub mod certificates;
pub mod clock;
pub mod container_engine;
pub mod cpu_time;
pub mod events;
pub mod fuzz;
pub mod harness;
pub mod helper_program;
pub mod in_time;
pub mod junit;
pub mod ledger;
pub mod machine_clock;
pub mod memory;
pub mod object_server;
pub mod openssh_server;
pub mod patience;
pub mod policy;
pub mod postgres_server;
pub mod principal;
pub mod sample;
pub mod suite;
pub mod tier;
pub mod workspace_directory;

pub use approver::ScriptedApprover;
pub use clock::TestClock;
pub use cpu_time::CpuTime;
pub use events::EventLog;
pub use fuzz::{Fuzz, ParseOutcome};
pub use haft_runtime::{Limits, ProcessLimits};
pub use harness::Harness;
pub use helper_program::helper_program;
pub use in_time::in_time;
pub use ledger::MemoryLedger;
pub use patience::{PATIENCE, eventually, until_none};
pub use policy::{EveryGrant, FixedPolicy};
pub use principal::principal;
