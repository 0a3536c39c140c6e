//! Row 9: what a runtime holds in memory when it is idle, for each session it has served, and for
//! each call that waits. Measured in a process of its own, which has done nothing else.

use std::process::Command;

use haft_contract::{SessionKind, Terminal};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    Scale, machine,
    report::{Goal, Row, bytes},
    setting::{self, Setting},
};

/// Makes this program hold calls and tell its size.
pub(crate) const FLAG: &str = "--weigh-row-9";

/// Sessions that make one call each.
const SESSIONS: usize = 2_000;

/// Longer than it takes to weigh them.
const WAIT_MS: u64 = 240_000;

const KILOBYTE: f64 = 1024.0;

pub(crate) fn rows(scale: Scale) -> Vec<Row> {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([FLAG, &scale.flood.to_string()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8(output.stdout).unwrap();
    let sizes: Vec<f64> = text
        .split_whitespace()
        .map(|size| size.parse().unwrap())
        .collect();
    let [idle, own, sessions, waiting] = sizes[..] else {
        panic!("four sizes, not `{text}`");
    };
    let row = |metric: String, figure: f64, most: f64, beside: String, limits: &'static str| Row {
        number: 9,
        metric,
        ours: bytes(figure),
        bare: "–".to_owned(),
        figure,
        goal: Goal::Bytes(most),
        beside,
        limits,
    };
    vec![
        row(
            "idle process with runtime, tools, policy and ledger (resident)".to_owned(),
            idle,
            25.0 * KILOBYTE * KILOBYTE,
            format!(
                "{} of it are its heap, stacks and relocated tables; the rest are pages of the \
                 program and its libraries, which processes of the same program share",
                bytes(own)
            ),
            "how much code is linked and touched: the program's own pages are most of it",
        ),
        row(
            format!("each of {SESSIONS} idle sessions"),
            sessions / SESSIONS as f64,
            16.0 * KILOBYTE,
            String::new(),
            "what the allocator keeps of calls that have ended",
        ),
        row(
            format!("each of {} waiting calls", scale.flood),
            waiting / scale.flood as f64,
            7.0 * KILOBYTE,
            String::new(),
            "the pipeline's future, which has room for its largest stage, and the call's plan, \
             events and context",
        ),
    ]
}

/// Prints the size when idle, how much of it is from no file, what the sessions added, and what the
/// waiting calls add.
pub(crate) fn run(waiting: usize) {
    setting::many_threads().block_on(async {
        let setting = Setting::open().await;
        let runtime = setting.haft.runtime();
        let call = |session: usize, tool: &'static str, arguments: Value| {
            let session = format!("session{session}");
            let haft = setting.haft.session(&session, SessionKind::Main).unwrap();
            async move { haft.call(tool, arguments).await.terminal }
        };
        call(0, "noop", json!({"text": "a call"})).await;
        runtime.flush().await.unwrap();
        let (idle, own) = (machine::resident_bytes(), machine::anonymous_bytes());

        for session in 0..SESSIONS {
            let terminal = call(session, "noop", json!({"text": "a call"})).await;
            assert_eq!(terminal, Terminal::Succeeded);
        }
        runtime.flush().await.unwrap();
        let served = machine::resident_bytes();

        let mut tasks = JoinSet::new();
        for session in 0..waiting {
            tasks.spawn(call(session % SESSIONS, "sleep", json!({"ms": WAIT_MS})));
        }
        while runtime.in_flight() < waiting {
            tokio::task::yield_now().await;
        }
        // What the calls recorded is on its way to the disk, and not theirs to hold.
        runtime.flush().await.unwrap();
        let held = machine::resident_bytes();
        assert_eq!(runtime.in_flight(), waiting);
        println!(
            "{idle} {own} {} {}",
            served.saturating_sub(idle),
            held.saturating_sub(served)
        );
        tasks.shutdown().await;
        setting.haft.close().await.unwrap();
    });
}
