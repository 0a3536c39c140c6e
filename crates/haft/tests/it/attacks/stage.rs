//! Runs a case in a process of its own, where it needs what this process cannot become: a parent
//! with hostile variables, or a namespace in which an unprivileged user may mount.
//!
//! The process is this test binary again, asked for the same test and told which case; what it
//! found comes back in its last line.

use std::{env, process::Command};

use super::{
    attempt::{Tally, Verdict},
    canary,
    corpus::{Case, Place},
};

/// Names the one case to run; a person may set it too.
const ONLY: &str = "HAFT_ATTACK_ONLY";

/// Set in a process that was started for a case.
const STAGED: &str = "HAFT_ATTACK_STAGED";

/// Begins the line that says what came of the cases.
const MARK: &str = "attacks-tally";

/// The one case to run.
pub(crate) fn only() -> Option<String> {
    env::var(ONLY).ok()
}

/// Whether this process was started for one case.
pub(crate) fn is_staged() -> bool {
    env::var(STAGED).is_ok()
}

/// Whether a case needs a process of its own.
pub(crate) fn needed(case: &Case) -> bool {
    (case.namespace && case.place == Place::Local) || !case.parent.is_empty()
}

/// The last line of a run.
pub(crate) fn mark(tally: Tally) -> String {
    let Tally {
        attempts,
        bypasses,
        controls,
        lost_controls,
        twins,
        false_denials,
    } = tally;
    format!("{MARK} {attempts} {bypasses} {controls} {lost_controls} {twins} {false_denials}")
}

/// Runs a case in a process of its own. One that cannot be started, or that says nothing, is a
/// fault and not a pass.
pub(crate) fn run(case: &Case, test: &str) -> Verdict {
    let binary = env::current_exe().unwrap();
    let mut command = if case.namespace {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "--"]);
        command.arg(binary);
        command
    } else {
        Command::new(binary)
    };
    command
        .args(["--exact", test, "--include-ignored", "--nocapture"])
        .arg("--test-threads=1")
        .env(ONLY, &case.id)
        .env(STAGED, "1");
    let canary = canary::of(&case.id);
    for (name, value) in &case.parent {
        command.env(name, value.replace("<canary>", &canary));
    }
    let output = command.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let mut verdict = Verdict::default();
    match printed.lines().find_map(parse) {
        Some(tally) => verdict.tally = tally,
        None => verdict.tally.bypasses = 1,
    }
    if !output.status.success() || verdict.tally == Tally::default() {
        let said = String::from_utf8_lossy(&output.stderr);
        verdict.faults.push(format!(
            "in a process of its own: {}\n{printed:.3000}{said:.3000}",
            output.status
        ));
    }
    verdict
}

fn parse(line: &str) -> Option<Tally> {
    let words = line.split_once(MARK)?.1;
    let counts: Vec<usize> = words
        .split_whitespace()
        .map_while(|word| word.parse().ok())
        .collect();
    match counts[..] {
        [
            attempts,
            bypasses,
            controls,
            lost_controls,
            twins,
            false_denials,
        ] => Some(Tally {
            attempts,
            bypasses,
            controls,
            lost_controls,
            twins,
            false_denials,
        }),
        _ => None,
    }
}
