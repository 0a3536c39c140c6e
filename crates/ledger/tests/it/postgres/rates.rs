//! How many rows a second one database takes from several writers, and that somebody else's transaction
//! that stays open slows nobody down.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use haft_ledger::StoredLedger;
use tokio_postgres::NoTls;

use super::PostgresFixture;
use crate::growth::{a_second, one_call, one_call_of};

/// How many callers wait for their calls at once, over all writers.
const CALLERS: usize = 256;

/// How long one rate is measured.
const RUN: Duration = Duration::from_secs(10);

/// How long the foreign transaction stays open, and how long each side has its turn.
const OPEN: Duration = Duration::from_mins(2);
const TURN: Duration = Duration::from_secs(3);

/// Tables that every call writes.
const HOT: [&str; 4] = ["record", "record_other", "open_call", "chain"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: rates of one, two and four writers on PostgreSQL"]
async fn soak_rates_of_several_writers() {
    let fixture = PostgresFixture::new().await;
    for writers in [1, 2, 4] {
        let record = fixture.on_a_new_database().await;
        let mut ledgers = Vec::new();
        for number in 0..writers {
            let machine = record.other_machine(&format!("machine{number}"));
            ledgers.push(record.open_at(&machine).await.0);
        }
        let began = Instant::now();
        let calls = call_for(&ledgers, RUN).await;
        let time = began.elapsed();
        let commits: u64 = ledgers.iter().map(|l| l.counters().commits).sum();
        let rows: u64 = ledgers.iter().map(|l| l.counters().records).sum();
        // A call that was open for long has two.
        assert!(rows >= calls, "{rows} rows of {calls} calls");
        let rate = a_second(rows, time);
        println!(
            "{writers} writers, {CALLERS} callers: {rate:.0} rows a second, {} rows a transaction",
            rows / commits
        );
        for ledger in ledgers {
            ledger.close().await.unwrap();
        }
    }
}

/// Two databases of one server take turns; in one of them somebody's transaction is open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: a foreign transaction that is open for two minutes"]
async fn soak_a_foreign_transaction_slows_nobody_down() {
    let held = PostgresFixture::new().await;
    let free = held.on_a_new_database().await;
    let ledgers = [held.open().await, free.open().await];
    // Both are warm.
    for ledger in &ledgers {
        call_for(std::slice::from_ref(ledger), TURN).await;
    }
    let foreign = foreign_transaction(&held).await;
    let (mut calls, mut time) = ([0, 0], [Duration::ZERO; 2]);
    let mut last = [0.0; 2];
    let began = Instant::now();
    while began.elapsed() < OPEN {
        for (side, ledger) in ledgers.iter().enumerate() {
            let turn = Instant::now();
            let made = call_for(std::slice::from_ref(ledger), TURN).await;
            calls[side] += made;
            time[side] += turn.elapsed();
            last[side] = a_second(made, turn.elapsed());
        }
    }
    let rate = |side: usize| a_second(calls[side], time[side]);
    let kept = rate(0) / rate(1);
    println!(
        "with a foreign transaction open for {:.0} s: {:.0} rows a second, without {:.0}: {:.0} %; \
         in the last turn {:.0} and {:.0}",
        began.elapsed().as_secs_f64(),
        rate(0),
        rate(1),
        100.0 * kept,
        last[0],
        last[1],
    );
    drop(foreign);
    for ledger in ledgers {
        ledger.close().await.unwrap();
    }
    assert!(kept >= 0.9, "{kept:.2}");
}

/// What a foreign transaction makes slow is a row that is updated again and again, and there is none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "ci: needs PostgreSQL"]
async fn no_row_that_every_call_writes_is_updated() {
    let fixture = PostgresFixture::new().await;
    let ledger = fixture.open().await;
    let foreign = foreign_transaction(&fixture).await;
    crate::growth::fill(&ledger, 0, 2_000).await;
    ledger.close().await.unwrap();
    drop(foreign);
    let updated = format!(
        "SELECT coalesce(sum(n_tup_upd), 0) FROM pg_stat_user_tables
         WHERE schemaname = 'haft' AND (relname IN ('{}') OR relname LIKE 'record_2%')",
        HOT.join("', '")
    );
    let inserted = updated.replace("n_tup_upd", "n_tup_ins");
    let is_counted = || fixture.sql(&inserted).parse::<u64>().unwrap() >= 2_000;
    haft_testkit::eventually("the server has counted", is_counted).await;
    assert_eq!(fixture.sql(&updated), "0");
}

/// Two writers that meet the same sessions, one from the first to the last and one the other way round,
/// would each hold a name that the other waits for, if each wrote them as they come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "ci: needs PostgreSQL"]
async fn writers_that_meet_the_same_sessions_do_not_wait_for_each_other() {
    const WRITERS: usize = 4;
    const SESSIONS: usize = 200;
    let record = PostgresFixture::new().await;
    let mut ledgers = Vec::new();
    for number in 0..WRITERS {
        let machine = record.other_machine(&format!("machine{number}"));
        ledgers.push(record.open_at(&machine).await.0);
    }
    let mut callers = tokio::task::JoinSet::new();
    for number in 0..SESSIONS {
        for (writer, ledger) in ledgers.iter().enumerate() {
            let from_the_end = writer % 2 == 1;
            let session = if from_the_end {
                SESSIONS - number
            } else {
                number
            };
            let ledger = ledger.clone();
            callers.spawn(async move { one_call_of(&ledger, session as u64).await });
        }
    }
    callers.join_all().await;
    let failures = |ledger: &StoredLedger| ledger.counters().failures;
    assert_eq!(ledgers.iter().map(failures).sum::<u64>(), 0);
    for ledger in ledgers {
        ledger.close().await.unwrap();
    }
    // A connection tells the server what it met when it ends.
    let others = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    haft_testkit::eventually("the connections have ended", || record.sql(others) == "0").await;
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(record.sql(deadlocks), "0");
}

/// A transaction of somebody else's that has a snapshot and a number of its own.
async fn foreign_transaction(fixture: &PostgresFixture) -> tokio_postgres::Client {
    let url = fixture.server.url_of("postgres", fixture.database());
    let (client, driver) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(driver);
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ;
        CREATE TEMPORARY TABLE theirs AS SELECT count(*) FROM haft.record";
    client.batch_execute(begin).await.unwrap();
    client
}

/// Has all callers make calls for a while; returns how many.
async fn call_for(ledgers: &[StoredLedger], time: Duration) -> u64 {
    let until = Instant::now() + time;
    let numbers = Arc::new(AtomicU64::new(0));
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..CALLERS {
        let ledger = ledgers[caller % ledgers.len()].clone();
        let numbers = Arc::clone(&numbers);
        callers.spawn(async move {
            while Instant::now() < until {
                one_call(&ledger, numbers.fetch_add(1, Ordering::Relaxed)).await;
            }
        });
    }
    callers.join_all().await;
    numbers.load(Ordering::Relaxed)
}
