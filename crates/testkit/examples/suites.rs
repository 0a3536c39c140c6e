//! Makes `docs/spec/suites.md` from a run of the tests: which cases of which suite passed on which
//! back end or record. `.ci/run` calls it after the tests with the report that nextest wrote; it fails if a
//! case is missing or failed, and if the page is not what the run shows.
//!
//! ```sh
//! just test-ci --profile ci
//! HAFT_UPDATE=1 cargo run -p haft-testkit --example suites -- target/nextest/ci/junit.xml
//! ```
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a program for maintainers that reads one report and writes one page"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    fmt::Write as _,
    fs,
    process::ExitCode,
};

use haft_testkit::{
    junit,
    suite::{files, ledger, process, search},
};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/spec/suites.md");

/// The variable that has the page written anew.
const UPDATE: &str = "HAFT_UPDATE";

/// What a suite runs on: its name, the test binary, and what comes before the suite's name there.
type Column = (&'static str, &'static str, &'static str);

/// The back ends.
const BACK_ENDS: [Column; 6] = [
    ("memory", "haft-testkit::it", ""),
    ("local", "haft-backends::it", "suites::"),
    ("T1", "haft-backends::it", "suites::t1::"),
    ("T2", "haft-backends::it", "suites::t2::"),
    ("SSH", "haft-backends::it", "ssh::"),
    ("container", "haft-backends::it", "container::"),
];

/// The records, each with the whole of what comes before the name of a case.
const RECORDS: [Column; 4] = [
    ("memory", "haft-testkit::it", "ledger::"),
    ("SQLite", "haft-ledger::it", "suite::"),
    ("PostgreSQL", "haft-ledger::it", "postgres::suite::"),
    ("a program's own", "haft-ledger::it", "own_store::"),
];

const OPENING: &str = "\
# The suites on every back end and record

Generated from a run of the tests by `crates/testkit/examples/suites.rs`; `.ci/run` fails when it is stale. Each column is a back end, each row a suite of `haft-harness`; a cell is the number of its cases that passed. No case
is optional and none is skipped: a case that is missing on a back end, or failed there, fails the build. What each case demands is in [backend.md](backend.md) and [ledger.md](ledger.md).

";

fn main() -> ExitCode {
    let Some(report) = env::args().nth(1) else {
        eprintln!("usage: suites REPORT (the JUnit report of a test run)");
        return ExitCode::from(2);
    };
    let report = match fs::read_to_string(&report) {
        Ok(report) => report,
        Err(error) => {
            eprintln!("`{report}` cannot be read: {error}");
            return ExitCode::from(2);
        }
    };
    let passed = passed(&report);
    let (page, missing) = page(&passed);
    for case in &missing {
        eprintln!("did not pass: {case}");
    }
    if !missing.is_empty() {
        return ExitCode::FAILURE;
    }
    if env::var(UPDATE).is_ok() && fs::write(PAGE, &page).is_err() {
        eprintln!("docs/spec/suites.md cannot be written");
        return ExitCode::FAILURE;
    }
    if fs::read_to_string(PAGE).is_ok_and(|written| written == page) {
        return ExitCode::SUCCESS;
    }
    eprintln!("docs/spec/suites.md is not what this run shows; {UPDATE}=1 writes it anew:\n{page}");
    ExitCode::FAILURE
}

/// The tests that passed, by binary.
fn passed(report: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut passed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for case in junit::cases(report) {
        if case.passed {
            passed.entry(case.binary).or_default().insert(case.name);
        }
    }
    passed
}

/// The page, and the cases that did not pass.
fn page(passed: &BTreeMap<String, BTreeSet<String>>) -> (String, Vec<String>) {
    let suites: [(&str, &[&str]); 3] = [
        ("files", files::CASES),
        ("process", process::CASES),
        ("search", search::CASES),
    ];
    let mut missing = Vec::new();
    let mut page = OPENING.to_owned();
    let _ = writeln!(page, "{}", heading(&BACK_ENDS));
    for (suite, cases) in suites {
        let columns =
            BACK_ENDS.map(|(name, binary, before)| (name, binary, format!("{before}{suite}::")));
        let cells = cells(passed, &columns, (suite, cases), &mut missing);
        let _ = writeln!(page, "| {suite} | {cells} |");
    }
    let _ = writeln!(page, "\n{}", heading(&RECORDS));
    let columns = RECORDS.map(|(name, binary, before)| (name, binary, before.to_owned()));
    let cells = cells(passed, &columns, ("ledger", ledger::CASES), &mut missing);
    let _ = writeln!(page, "| ledger | {cells} |");
    (page, missing)
}

fn heading(columns: &[Column]) -> String {
    let names: Vec<&str> = columns.iter().map(|(name, _, _)| *name).collect();
    let line = "---|".repeat(names.len());
    format!("| suite | {} |\n|---|{line}", names.join(" | "))
}

/// How many cases passed in each column.
fn cells(
    passed: &BTreeMap<String, BTreeSet<String>>,
    columns: &[(&str, &str, String)],
    (suite, cases): (&str, &[&str]),
    missing: &mut Vec<String>,
) -> String {
    let mut cells = Vec::new();
    for (column, binary, before) in columns {
        let here = |case: &&&str| {
            let name = format!("{before}{case}");
            let tests = passed.get(*binary);
            tests.is_some_and(|tests| tests.contains(&name))
        };
        let count = cases.iter().filter(here).count();
        let lost = cases.iter().filter(|case| !here(case));
        missing.extend(lost.map(|case| format!("{column}: {suite}::{case}")));
        cells.push(format!("{count} of {}", cases.len()));
    }
    cells.join(" | ")
}
