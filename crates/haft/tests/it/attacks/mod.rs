//! The attack corpus against the whole stack: facade, runtime, back end, Cedar policy and SQLite
//! record, as an agent would meet them. The cases are data (`attacks/*.toml`); this is the runner.
//! A group in a place is one test; it prints a line a case and fails if an attempt got through, a
//! control did not, or a benign twin was denied.
//!
//! Read next: `corpus.rs` for the words of the data, `attempt.rs` and `confined.rs` for how a case
//! is judged, `place.rs` for where it runs.

mod attempt;
mod canary;
mod confined;
mod corpus;
mod decided;
mod layers;
mod log;
mod outside;
mod place;
mod runners;
mod scene;
mod spawn_with;
mod ssh_server;
mod stage;
mod table;
mod twins;

pub(crate) use self::{
    corpus::Place,
    place::{helper, open},
};

/// The sandbox of this process's tests.
pub(crate) fn sandbox() -> haft::sandbox::SandboxOptions {
    place::sandbox(&[])
}

use std::time::Instant;

use self::{
    attempt::{Tally, Verdict},
    corpus::{Case, cases_in},
};

/// The fork bomb has a test of its own, because it runs alone (`.config/nextest.toml`).
const FORK_BOMB: &str = "RX-01";

/// A test for the cases of a group in a place that `$which` takes.
macro_rules! groups {
    ($($name:ident: $group:literal in $place:ident $(, $which:expr)?;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "ci: a group of the corpus with its controls; needs the sandbox, sshd and root-made files"]
            async fn $name() {
                let which: &[fn(&str) -> bool] = &[$($which)?];
                hold($group, Place::$place, which, concat!("attacks::", stringify!($name))).await;
            }
        )*
    };
}

groups! {
    pe_01_to_pe_28_path_escape: "PE" in Local;
    pe_01_to_pe_28_path_escape_in_t2: "PE" in T2;
    pe_01_to_pe_28_path_escape_over_ssh: "PE" in Ssh;
    sl_01_to_sl_19_symlinks_and_races: "SL" in Local;
    sl_01_to_sl_19_symlinks_and_races_in_t2: "SL" in T2;
    sl_01_to_sl_19_symlinks_and_races_over_ssh: "SL" in Ssh;
    en_01_to_en_12_environment: "EN" in Local;
    en_01_to_en_12_environment_in_t2: "EN" in T2;
    en_01_to_en_12_environment_over_ssh: "EN" in Ssh;
    sb_01_to_sb_46_sandbox_escape: "SB" in T2;
    rx_02_to_rx_24_exhaustion: "RX" in Local, |id| id != FORK_BOMB;
    rx_02_to_rx_24_exhaustion_in_t2: "RX" in T2, |id| id != FORK_BOMB;
    rx_01_a_fork_bomb_in_t2: "RX" in T2, |id| id == FORK_BOMB;
    ap_01_to_ap_18_approvals: "AP" in Local;
    un_01_to_un_05_undo: "UN" in Local;
}

/// Runs what all of `which` take of a group in a place, and says what came of it.
async fn hold(name: &str, place: Place, which: &[fn(&str) -> bool], test: &str) {
    assert!(
        // A stage is a user namespace, whose root is nobody outside.
        stage::is_staged() || !rustix::process::geteuid().is_root(),
        "not as root: what the kernel refuses anybody else would change this machine"
    );
    log::keep();
    let only = stage::only();
    let mut total = Tally::default();
    let mut faults = Vec::new();
    for case in &cases_in(name, place) {
        let other = only.as_ref().is_some_and(|only| *only != case.id);
        if other || !which.iter().all(|takes| takes(&case.id)) {
            continue;
        }
        let staged = stage::needed(case) && !stage::is_staged();
        let begun = Instant::now();
        let verdict = if staged {
            stage::run(case, test)
        } else {
            Box::pin(run(case)).await
        };
        println!("{} ({:.1?})", table::line(case, &verdict), begun.elapsed());
        total.add(verdict.tally);
        let named = verdict
            .faults
            .iter()
            .map(|fault| format!("{} in {}: {fault}", case.id, place.as_str()));
        faults.extend(named);
    }
    println!("{}", table::sum(name, place, total));
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

/// The races of the groups for long.
mod soak {
    use super::{Case, Place, Verdict, cases_in, log, runners};

    async fn hold(id: &str, runner: &str) {
        log::keep();
        let group = id.split_once('-').map_or(id, |(group, _)| group);
        let of_id = |case: &Case| case.id == id;
        let case = cases_in(group, Place::Local).into_iter().find(of_id);
        let mut verdict = Verdict::default();
        Box::pin(runners::run(runner, &case.unwrap(), &mut verdict)).await;
        assert!(verdict.faults.is_empty(), "{}", verdict.faults.join("\n"));
        assert!(verdict.tally.attempts > 0, "nothing was run");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "soak: 1,000 calls of each kind while a directory is swapped"]
    async fn sl_07_reads_never_escape() {
        hold("SL-07", "race_reads_for_long").await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "soak: 1,000 calls of each kind while a directory is swapped"]
    async fn sl_08_changes_never_escape() {
        hold("SL-08", "race_changes_for_long").await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "soak: 2,000 rounds of each of three races"]
    async fn un_01_what_somebody_else_saves_is_never_lost() {
        hold("UN-01", "saved_by_others_for_long").await;
    }
}
