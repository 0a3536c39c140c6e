//! Many calls that wait for a person, with the real record: none holds a thread, and each costs little.
//! An unoptimised build takes about 15 KB for each; what the ledger keeps for it is measured there.

use std::time::Duration;

use haft::{
    Limits,
    contract::host::{Clock as _, Ledger as _},
    prelude::*,
    runtime::SystemClock,
};

const WAITING: usize = 2_000;
const SESSIONS: usize = 100;
const MOST_BYTES_EACH: u64 = 25_000;

/// What the pool for blocking work may grow by while calls are planned side by side. It has nothing
/// to do with how many wait: a thread for each would be two thousand.
const MOST_MORE_THREADS: u64 = 100;

fn status(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pending_approvals_hold_no_thread_and_little_memory() {
    let folder = tempfile::Builder::new().tempdir_in("/dev/shm").unwrap();
    let workspace = folder.path().join("workspace");
    std::fs::create_dir(&workspace).unwrap();
    let limits = Limits {
        approval_wait: Duration::from_hours(1),
        ..Limits::default()
    };
    let haft = Haft::open(&workspace)
        .data_dir(folder.path().join("data"))
        .preset(Preset::Careful)
        .approve_with(|_| async { ApprovalAnswer::Elsewhere })
        .configure(|runtime| runtime.limits(limits))
        .build()
        .await
        .unwrap();
    let begin = |session: usize, number: usize| {
        let theirs = haft
            .session(&format!("s{session}"), SessionKind::Main)
            .unwrap();
        let path = format!("f{number}");
        tokio::spawn(async move {
            theirs
                .call("write", json!({"path": path, "content": "hello\n"}))
                .await
        })
    };
    let open = async |count: usize| {
        while haft.runtime().open_questions() < count {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    // What the first questions cost once (caches, statements, buffers) is not theirs alone.
    let mut calls: Vec<_> = (0..SESSIONS)
        .map(|session| begin(session, session))
        .collect();
    open(SESSIONS).await;
    let (before, threads) = (status("RssAnon") << 10, status("Threads"));
    // One wave after another: what waits is measured, not a burst of ten thousand plans.
    for wave in 1..WAITING / SESSIONS {
        let numbers = (0..SESSIONS).map(|session| (session, wave * SESSIONS + session));
        calls.extend(numbers.map(|(session, number)| begin(session, number)));
        open((wave + 1) * SESSIONS).await;
    }
    // What was queued for the record has been written by then.
    haft.runtime().flush().await.unwrap();
    let grown = (status("RssAnon") << 10).saturating_sub(before);
    let waiting = u64::try_from(WAITING - SESSIONS).unwrap();
    println!(
        "{WAITING} pending: {} KB more resident, {} bytes each; {} threads, {threads} before",
        grown / 1000,
        grown / waiting,
        status("Threads"),
    );
    let tenant = &haft.principal().tenant;
    let approvals = haft.ledger().approvals();
    let pending = approvals
        .pending(tenant, SystemClock.now(), 2 * WAITING)
        .await
        .unwrap();
    assert_eq!(pending.len(), WAITING);
    drop(pending);
    assert!(grown <= MOST_BYTES_EACH * waiting, "{grown} bytes");
    assert!(
        status("Threads") <= threads + MOST_MORE_THREADS,
        "a thread for each"
    );
    for call in calls {
        call.abort();
    }
}
