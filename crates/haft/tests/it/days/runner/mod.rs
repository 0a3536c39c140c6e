//! Judges and runs the days. The scoreboard includes this module too, so it names nothing of this
//! test binary.
//!
//! Read next: `corpus.rs` for the data, `ground.rs` for where calls run, `report.rs` for what is
//! counted.

pub(crate) mod corpus;
pub(crate) mod ground;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod toolchain;
