//! The attack corpus against the whole stack: facade, runtime, local back end, Cedar policy and
//! SQLite record, as an agent would meet them. The cases are data (`attacks/*.toml`); this is the
//! runner. A group is one test; it prints a line a case and fails if an attempt got through, a
//! control did not, or a benign twin was denied.
//!
//! Read next: `corpus.rs` for the words of the data, `attempt.rs` for how a case is judged.

mod attempt;
mod canary;
mod corpus;
mod log;
mod runners;
mod scene;
mod spawn_with;
mod stage;
mod table;

use self::{
    attempt::{Tally, Verdict},
    corpus::{Case, group},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pe_01_to_pe_28_path_escape() {
    hold("PE", "attacks::pe_01_to_pe_28_path_escape").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sl_01_to_sl_19_symlinks_and_races() {
    hold("SL", "attacks::sl_01_to_sl_19_symlinks_and_races").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn en_01_to_en_12_environment() {
    hold("EN", "attacks::en_01_to_en_12_environment").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rx_02_to_rx_17_exhaustion() {
    hold("RX", "attacks::rx_02_to_rx_17_exhaustion").await;
}

/// Runs a group and says what came of it.
async fn hold(name: &str, test: &str) {
    log::keep();
    let only = stage::only();
    let mut total = Tally::default();
    let mut faults = Vec::new();
    for case in &group(name).cases {
        if only.as_ref().is_some_and(|only| *only != case.id) {
            continue;
        }
        let staged = only.is_none() && stage::needed(case);
        let verdict = if staged {
            stage::run(case, test)
        } else {
            Box::pin(run(case)).await
        };
        println!("{}", table::line(case, &verdict));
        total.add(verdict.tally);
        let named = verdict
            .faults
            .iter()
            .map(|fault| format!("{}: {fault}", case.id));
        faults.extend(named);
    }
    println!("{}", table::sum(name, total));
    println!("{}", stage::mark(total));
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.join("\n")
    );
    assert!(total.attempts > 0, "nothing was run");
}

/// Runs what data says of a case, and then what its runner adds.
async fn run(case: &Case) -> Verdict {
    let mut verdict = attempt::run(case).await;
    for also in &case.also {
        verdict.add(attempt::run(also).await);
    }
    if let Some(runner) = &case.runner {
        runners::run(runner, case, &mut verdict).await;
    }
    verdict
}
