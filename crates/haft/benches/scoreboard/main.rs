//! Measures Haft beside the bare thing it is made of, in the same run and round by round, and
//! writes the figures to `docs/benchmarks.md`.
//!
//! `just bench` measures everything. `--smoke` is short, writes
//! nothing and fails if a row gives no figure or an absurd one. `--row 3` measures one row and
//! prints it. `--ledger-rows 10000000` sets the longest record of row 15.
//!
//! One file per family of rows; `measure.rs` holds the clocks, `report.rs` the table. What is
//! measured here must go through the runtime's pipeline, never around it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    missing_docs,
    reason = "a measuring program ends at the first surprise, and touches the disk to be compared"
)]

mod analysis;
mod capture;
mod count;
mod day;
#[path = "../../tests/it/days/runner/mod.rs"]
#[expect(dead_code, reason = "the page of the tests shows more than the rows")]
mod days;
mod decision;
mod flood;
mod grants;
mod large_files;
mod ledger;
mod machine;
mod mcp;
mod measure;
mod memory;
mod pipeline;
mod registry;
mod report;
mod sandbox;
mod search;
mod setting;
mod shell;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use crate::report::Row;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// Rounds of each pair, of which the median counts.
    pub(crate) rounds: usize,
    /// How long one side of a round runs where the work is short.
    pub(crate) slice: Duration,
    /// Calls a round of the pipeline row.
    pub(crate) calls: usize,
    /// Rules of the long policy.
    pub(crate) rules: usize,
    /// Tools of the large registry.
    pub(crate) tools: usize,
    /// The most calls at once.
    pub(crate) flood: usize,
    /// Commands a round of the shell row.
    pub(crate) commands: usize,
    /// Bytes of the large parent.
    pub(crate) parent_bytes: usize,
    /// Files of the tree that is searched.
    pub(crate) files: usize,
    /// Bytes of the large file.
    pub(crate) large_bytes: usize,
    /// How long each rate of the ledger is measured.
    pub(crate) ledger_run: Duration,
    /// Calls of the longest record.
    pub(crate) ledger_rows: u64,
    /// Grants of a person who has many.
    pub(crate) grants: usize,
    /// Days of developers that are gone through.
    pub(crate) days: usize,
}

impl Scale {
    const FULL: Self = Self {
        rounds: 7,
        slice: Duration::from_millis(150),
        calls: 2_000,
        rules: 10_000,
        tools: 100_000,
        flood: 10_000,
        commands: 40,
        parent_bytes: 512 << 20,
        files: 50_000,
        large_bytes: 1 << 30,
        ledger_run: Duration::from_secs(4),
        ledger_rows: 1_000_000,
        grants: 10_000,
        days: days::corpus::COUNT,
    };

    const SMOKE: Self = Self {
        rounds: 3,
        slice: Duration::from_millis(20),
        calls: 200,
        rules: 1_000,
        tools: 10_000,
        flood: 500,
        commands: 5,
        parent_bytes: 64 << 20,
        files: 2_000,
        large_bytes: 32 << 20,
        ledger_run: Duration::from_millis(500),
        ledger_rows: 10_000,
        grants: 200,
        days: 1,
    };
}

/// A family of rows and its number on the scoreboard.
type Family = (u8, fn(Scale) -> Vec<Row>);

const FAMILIES: &[Family] = &[
    (1, count::rows),
    (2, decision::rows),
    (3, pipeline::rows),
    (4, mcp::read),
    (6, mcp::hop),
    (7, registry::rows),
    (8, flood::rows),
    (9, memory::rows),
    (10, mcp::start),
    (12, shell::rows),
    (13, search::rows),
    (14, large_files::rows),
    (15, ledger::rows),
    (15, grants::rows),
    (17, sandbox::rows),
    (18, analysis::rows),
    (19, capture::rows),
    (20, day::rows),
];

fn main() -> ExitCode {
    // This program is the helper of its own sandboxes.
    haft_backends::helper::run_if_asked().unwrap_or_else(measure_all)
}

fn measure_all() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // What this program runs as a process of its own, to be counted or weighed from outside.
    match words.as_slice() {
        [count::FLAG, mode, calls] => {
            count::run(mode, calls.parse().unwrap());
            return ExitCode::SUCCESS;
        }
        [memory::FLAG, waiting] => {
            memory::run(waiting.parse().unwrap());
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let value_of = |flag: &str| {
        let at = words.iter().position(|word| *word == flag)?;
        words.get(at + 1).copied()
    };
    let smoke = words.contains(&"--smoke");
    let mut scale = if smoke { Scale::SMOKE } else { Scale::FULL };
    if let Some(rows) = value_of("--ledger-rows") {
        scale.ledger_rows = rows.parse().expect("a number of rows");
    }
    let only: Option<u8> = value_of("--row").map(|row| row.parse().expect("a row's number"));
    let mut rows = Vec::new();
    for (number, measure) in FAMILIES {
        if only.is_some_and(|row| row != *number) {
            continue;
        }
        let began = Instant::now();
        let measured = measure(scale);
        for row in &measured {
            println!("{}", row.line());
            row.check();
        }
        println!("      (row {number} took {:.1?})", began.elapsed());
        rows.extend(measured);
    }
    assert!(!rows.is_empty(), "there is no such row");
    if !smoke && only.is_none() {
        report::write(&rows, scale);
    }
    ExitCode::SUCCESS
}
