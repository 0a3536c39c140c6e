//! For tests of your own tools, back ends and ledgers: the real pipeline on a workspace and a record
//! in memory, people whose answers a test scripts, and the suites that every implementation of
//! Haft's own passes.
//!
//! One dev-dependency beside `haft`. A tool runs as it does in production, through every stage, and
//! never in another way:
//!
//! ```
//! use haft_harness::{FixedPolicy, Harness, ScriptedAnswer, ScriptedApprover, sample};
//! use serde_json::json;
//!
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let person = ScriptedApprover::new([ScriptedAnswer::Approve]);
//! let harness = Harness::memory().tool(sample::Append);
//! let harness = harness.policy(FixedPolicy::ask_all()).person(&person).build();
//! harness.tree.put("log.txt", "first\n");
//!
//! let outcome = harness.succeed("append", json!({"path": "log.txt", "line": "second"})).await;
//!
//! assert_eq!(harness.tree.text("log.txt"), "first\nsecond\n");
//! assert_eq!(person.asked().len(), 1);
//! // What the record has of it.
//! let recorded = harness.ledger.kinds(outcome.call);
//! assert!(recorded.contains(&"approval_answered") && recorded.contains(&"settled"));
//! # });
//! ```
//!
//! [`tool_suite!`] holds a tool to its plan and to what it says of itself. It is about correctness
//! alone: how Haft's own tools are written is tested elsewhere. [`suite`] has the suites for back
//! ends and ledgers; [`memory`] is the reference back end, [`sample`] has the smallest tools.
//!
//! For tests only: nothing here is durable, confined or fast.

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
pub mod clock;
pub mod events;
pub mod harness;
pub mod ledger;
pub mod memory;
pub mod patience;
pub mod policy;
pub mod principal;
pub mod sample;
pub mod suite;

pub use approver::{ScriptedAnswer, ScriptedApprover};
pub use clock::TestClock;
pub use events::EventLog;
pub use haft_runtime::{Limits, ProcessLimits};
pub use harness::Harness;
pub use ledger::MemoryLedger;
pub use memory::MemoryTree;
pub use patience::{PATIENCE, eventually, until_none};
pub use policy::{EveryGrant, FixedPolicy};
pub use principal::principal;
pub use suite::tool::{KnownResult, ToolFixture};
