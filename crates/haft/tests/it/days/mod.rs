//! A developer's day (`days/*.toml`): what agents call while people work, each with the answer that
//! is fair. Every call is judged under every preset, and run once in the sandbox (T2) and once
//! outside; `docs/a-day.md` is made from that, and row 20 of the scoreboard by the same runner.

mod page;
pub(crate) mod runner;

use std::collections::BTreeSet;

use haft::{contract::host::Verdict, sandbox::helper::Helper};
use haft_testkit::helper_program;

use self::runner::{
    corpus::{self, Reach, days},
    run,
};

/// The variable that names the one day to run.
const ONLY: &str = "HAFT_DAY";

/// What the data must hold at least.
const CALLS: usize = 300;
const FAIR_QUESTIONS: usize = 40;

/// The data is large enough, and every call says what is fair and why.
#[test]
fn the_days_are_complete() {
    let days = days();
    let calls: Vec<_> = days.iter().flat_map(|day| &day.calls).collect();
    assert!(calls.len() >= CALLS, "{} calls", calls.len());
    let questions = calls.iter().filter(|call| call.fair == Verdict::Ask);
    assert!(questions.count() >= FAIR_QUESTIONS);
    let ids: BTreeSet<&str> = calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids.len(), calls.len(), "two calls have the same id");
    for call in calls {
        let id = &call.id;
        assert!(!call.why.is_empty(), "{id} does not say why");
        assert!(call.arguments.is_object(), "{id} has no arguments");
        // What is fair without a question can be done in the sandbox.
        let fits = call.fair != Verdict::Allow || call.reaches.is_none();
        assert!(fits, "{id} reaches for what a sandbox does not have");
        let secret = call.fair == Verdict::Deny && call.reaches == Some(Reach::Network);
        assert!(!secret, "{id}: what the network is for is asked about");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "ci: needs bubblewrap, and the programs of a developer"]
async fn a_day_is_what_its_page_says() {
    let days: Vec<_> = match std::env::var(ONLY) {
        Ok(only) => days().into_iter().filter(|day| day.name == only).collect(),
        Err(_) => days(),
    };
    assert!(!days.is_empty(), "no day is called that");
    let whole = days.len() == corpus::COUNT;
    let report = run::run(days, &Helper::Path(helper_program())).await;
    print!("{}", report.text());
    let faults = report.faults();
    assert!(
        faults.is_empty(),
        "the data is wrong:\n{}",
        faults.join("\n")
    );
    if whole {
        page::check(&report);
    }
}
