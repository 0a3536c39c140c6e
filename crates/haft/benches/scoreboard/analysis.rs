//! Row 18: reading a command line before it is judged, with both parsers: a typical command, and a
//! script of two thousand characters.

use haft_contract::{WorkPath, access::Command};
use haft_policy::shell::analyse;

use crate::{
    Scale,
    measure::{MeasuredPair, repeated},
    report::{Goal, Row, time},
};

/// Eighty characters as agents write them.
const TYPICAL: &str =
    "cd crates/policy && cargo test --locked -- shell::words 2>&1 | tail -n 40 >out.t";

/// A line that is repeated, with its number, until the script is long enough.
const LINE: &str = "grep -rn --include='*.rs' 'fn part_' src | sort -u | head -n 20 > \"list-\"";

const LONG_CHARACTERS: usize = 2_000;

pub(crate) fn rows(scale: Scale) -> Vec<Row> {
    let long: String = (0..)
        .map(|number| format!("{LINE}{number}.txt\n"))
        .scan(0, |length, line| {
            *length += line.len();
            (*length <= LONG_CHARACTERS).then_some(line)
        })
        .collect();
    assert_eq!(TYPICAL.len(), 80);
    vec![
        row(scale, "a command of 80 characters", TYPICAL, 60e-6),
        row(scale, "a script of 2,000 characters", &long, 2e-3),
    ]
}

fn row(scale: Scale, what: &str, script: &str, most: f64) -> Row {
    let command = Command::Shell(script.to_owned());
    let here = WorkPath::root();
    let read = || {
        let read = || assert!(analyse(&command, &here, "/work").is_ok());
        repeated(scale.slice, read)
    };
    let taken = MeasuredPair::measure(scale.rounds, read, read).ours(|used| used.thread);
    let commands = analyse(&command, &here, "/work").map_or(0, |read| read.segments().len());
    Row {
        number: 18,
        metric: format!("reading {what} before it is judged"),
        ours: time(taken),
        bare: "–".to_owned(),
        figure: taken,
        goal: Goal::Seconds(most),
        beside: format!("{commands} simple commands found"),
        limits: "two parsers read it: tree-sitter's grammar, and the second one that must agree",
    }
}
