//! Prints the slowest tests of a run as a table: how long each took, its tier, and why it is in it.
//!
//! ```sh
//! just test-ci --profile ci && just test-times
//! ```
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a program for maintainers that reads one report and prints a table"
)]

use std::{collections::BTreeMap, env, fs, process::ExitCode};

use haft_testkit::{
    junit::{self, Case},
    tier::{Tagged, tagged},
};

/// How many tests are shown.
const SHOWN: usize = 40;

fn main() -> ExitCode {
    let Some(path) = env::args().nth(1) else {
        eprintln!("usage: test_times REPORT (the JUnit report of a test run)");
        return ExitCode::from(2);
    };
    let report = fs::read_to_string(&path).map_err(|error| format!("`{path}`: {error}"));
    let (report, tags) = match report.and_then(|report| Ok((report, tagged()?))) {
        Ok(both) => both,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let mut cases = junit::cases(&report);
    cases.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    print_slowest(&cases, &tags);
    print_sums(&cases);
    ExitCode::SUCCESS
}

fn print_slowest(cases: &[Case], tags: &[Tagged]) {
    println!("| seconds | test | tier | why it is there |\n|---:|---|---|---|");
    for case in cases.iter().take(SHOWN) {
        let tag = tags
            .iter()
            .find(|tagged| tagged.binary == case.binary && tagged.name == case.name);
        let (tier, why) = tag.map_or(("fast", ""), |tagged| (tagged.tag.as_str(), &tagged.why));
        println!(
            "| {:.1} | {} `{}` | {tier} | {why} |",
            case.seconds, case.binary, case.name
        );
    }
}

/// The time of all tests of a binary, one after the other.
fn print_sums(cases: &[Case]) {
    let mut sums: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
    for case in cases {
        let sum = sums.entry(&case.binary).or_default();
        *sum = (sum.0 + 1, sum.1 + case.seconds);
    }
    println!("\n| binary | tests | seconds, one after the other |\n|---|---:|---:|");
    for (binary, (count, seconds)) in sums {
        println!("| {binary} | {count} | {seconds:.0} |");
    }
}
