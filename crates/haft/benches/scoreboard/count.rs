//! Row 1: what the pipeline itself costs, in instructions a call.
//!
//! This program runs itself under callgrind with two numbers of calls; the difference is the calls
//! alone, without the start. Instructions do not depend on who else uses the machine. The calling
//! thread is the figure; the ledger's threads are told beside it.

use std::{path::Path, process::Command, sync::Arc};

use haft_contract::{
    AgentId, CallRequest, Principal, SessionId, Terminal, UserId, identity::ChannelId,
};
use haft_ledger::{LedgerOptions, StoredLedger};
use haft_policy::{CedarPolicy, PolicySource};
use haft_runtime::{Runtime, SystemClock};
use haft_testkit::memory;
use serde_json::json;

use crate::{
    Scale, machine,
    report::{Goal, Row, thousands},
    setting::{self, Noop},
};

/// Makes this program run calls and nothing else.
pub(crate) const FLAG: &str = "--count-row-1";

/// Requests prepared in every run, so that preparing them cancels out.
const PREPARED: usize = 600;

/// The numbers of calls whose difference is taken.
const FEWER: usize = 100;
const MORE: usize = 500;

/// Every question is the same and its answer remembered.
const CACHED: &str = "cached";

/// Every question is new, and three rules are candidates.
const CANDIDATES: &str = "candidates";

pub(crate) fn rows(_: Scale) -> Vec<Row> {
    [
        (
            CACHED,
            "decision remembered",
            (18_000.0, Some(150_000.0)),
            "allocations: a call's events, its plan, the copies of its decision and request that \
             the ledger keeps, and the context a tool is given",
        ),
        (
            CANDIDATES,
            "decided anew, 3 rules apply",
            (60_000.0, None),
            "Cedar itself: building a request and its entities, and evaluating the candidates",
        ),
    ]
    .into_iter()
    .flat_map(|(mode, how, (goal, of_all), limits)| {
        let fewer = counted(mode, FEWER);
        let more = counted(mode, MORE);
        let a_call = |more: f64, fewer: f64| (more - fewer) / (MORE - FEWER) as f64;
        let all = a_call(more.all, fewer.all);
        let row = |whose: &str, figure, goal, beside, limits| Row {
            number: 1,
            metric: format!("no-op call, {how}{whose} (instructions)"),
            ours: thousands(figure),
            bare: "–".to_owned(),
            figure,
            goal: Goal::Instructions(goal),
            beside,
            limits,
        };
        let beside = format!("{} with the ledger's thread", thousands(all));
        let caller = a_call(more.caller, fewer.caller);
        let with_ledger = of_all.map(|goal| {
            let limits = "encoding, the scan for secrets, the row and its indexes, and what the \
                          pipeline itself takes";
            row(", all threads", all, goal, String::new(), limits)
        });
        std::iter::once(row("", caller, goal, beside, limits)).chain(with_ledger)
    })
    .collect()
}

/// What a run took, start included.
#[derive(Debug, Clone, Copy)]
struct CountedRun {
    caller: f64,
    all: f64,
}

fn counted(mode: &str, calls: usize) -> CountedRun {
    let directory = tempfile::tempdir().unwrap();
    let files = format!("--callgrind-out-file={}/out", directory.path().display());
    let output = Command::new(machine::program(&["valgrind"]))
        .args(["--tool=callgrind", "--separate-threads=yes", &files])
        .arg(std::env::current_exe().unwrap())
        .args([FLAG, mode, &calls.to_string()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "callgrind: {said}");
    // One file for each thread, numbered from the first, which makes the calls.
    let mut all = 0.0;
    for file in std::fs::read_dir(directory.path()).unwrap() {
        all += total(&file.unwrap().path());
    }
    CountedRun {
        caller: total(&directory.path().join("out-01")),
        all,
    }
}

fn total(file: &Path) -> f64 {
    let text = std::fs::read_to_string(file).unwrap();
    let line = |start: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(start))?;
        rest.trim().parse().ok()
    };
    line("totals:").or_else(|| line("summary:")).unwrap_or(0.0)
}

/// Makes calls, to be counted from outside. The back end is in memory: no call here touches a
/// file, and not every callgrind knows `openat2`.
pub(crate) fn run(mode: &str, calls: usize) {
    let runtime = setting::one_thread();
    runtime.block_on(async {
        let record = tempfile::tempdir().unwrap();
        let options = LedgerOptions::new(record.path().join("record"), Arc::new(SystemClock));
        let (ledger, _) = StoredLedger::open(options).await.unwrap();
        let haft = Runtime::builder()
            .operations(memory::operations().0)
            .policy(Arc::new(policy(mode)))
            .ledger(Arc::new(ledger.clone()))
            .tool(Noop)
            .loop_guard(haft::runtime::LoopGuard::OFF)
            .build()
            .unwrap();
        let requests: Vec<_> = (0..PREPARED).map(|number| request(mode, number)).collect();
        for request in requests.into_iter().take(calls) {
            let outcome = haft.call(request).await;
            assert_eq!(outcome.terminal, Terminal::Succeeded, "{outcome:?}");
        }
        ledger.close().await.unwrap();
    });
}

fn policy(mode: &str) -> CedarPolicy {
    let text = match mode {
        CACHED => "[policy]\nallow = [\"noop\"]",
        CANDIDATES => "[policy]\nallow = [\"noop\", \"noo*\", \"@read-only\"]",
        _ => panic!("no mode `{mode}`"),
    };
    CedarPolicy::load(&[PolicySource::new("haft.toml", text)]).unwrap()
}

fn request(mode: &str, number: usize) -> CallRequest {
    let mut principal = Principal::local(
        UserId::parse("user").unwrap(),
        AgentId::parse("agent").unwrap(),
        SessionId::parse("session").unwrap(),
    );
    if mode == CANDIDATES {
        // Another channel is another question.
        principal.channel = Some(ChannelId::parse(&format!("channel{number}")).unwrap());
    }
    let arguments = json!({"text": "a short text", "number": 7});
    CallRequest::new("noop", arguments, Arc::new(principal))
}
