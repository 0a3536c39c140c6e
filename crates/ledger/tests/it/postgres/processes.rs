//! Several processes, on one machine and on several, on one database: killed, and with a server that dies.

use std::{sync::Arc, time::Duration};

use haft_contract::{
    Terminal,
    host::{Ledger as _, StoredCall},
};
use haft_ledger::{LedgerOptions, OpenError, StoredLedger};
use serde_json::json;

use super::PostgresFixture;
use crate::{
    child::{self, CALLS},
    engine::{assert_intact, calls},
    support::{Fixed, NOW, request, whole_call},
};

/// The process that died was on another machine, whose lock files nobody here sees.
#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn au_07_a_killed_process_is_settled_by_any_machine_once() {
    let fixture = PostgresFixture::new().await;
    let database = fixture.server.url("app");
    let gone = fixture.other_machine("gone");
    for (point, expected) in [
        ("planned", Terminal::Cancelled),
        ("started", Terminal::Unknown),
        ("settled", Terminal::Succeeded),
    ] {
        child::play_on(point, &gone, &database).kill();
        let (ledger, recovery) = settle_from(&fixture, "here").await;
        let found = calls(&ledger).await;
        assert_eq!(found[0].terminal, Some(expected), "{point}");
        assert_eq!(recovery, usize::from(point != "settled"), "{point}");
        assert_intact(&ledger, "after it").await;
        ledger.close().await.unwrap();
        let (again, second) = settle_from(&fixture, "third").await;
        assert_eq!(second, 0, "{point}");
        again.close().await.unwrap();
    }
}

/// Opens until the server has noticed that the killed process is gone; returns how many it settled.
async fn settle_from(fixture: &PostgresFixture, machine: &str) -> (StoredLedger, usize) {
    let waiting = async {
        loop {
            let (ledger, recovery) = fixture.open_at(&fixture.other_machine(machine)).await;
            let settled = recovery.settled_unknown.len() + recovery.never_started.len();
            if calls(&ledger)
                .await
                .iter()
                .all(|call| call.terminal.is_some())
            {
                return (ledger, settled);
            }
            ledger.close().await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(haft_testkit::PATIENCE, waiting)
        .await
        .unwrap()
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn a_running_call_of_another_machine_is_left_alone() {
    let fixture = PostgresFixture::new().await;
    let elsewhere = fixture.other_machine("elsewhere");
    let running = child::play_on("started", &elsewhere, &fixture.server.url("app"));
    let (ledger, recovery) = fixture.open_at(&fixture.directory()).await;
    assert!(recovery.is_empty());
    assert_eq!(calls(&ledger).await[0].terminal, None);
    ledger.close().await.unwrap();
    running.kill();
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn processes_write_at_once_and_every_chain_is_whole() {
    let fixture = PostgresFixture::new().await;
    let database = fixture.server.url("app");
    let children: Vec<_> = (0..4)
        .map(|number| {
            // Two on this machine, two on others.
            let directory = match number {
                0 | 1 => fixture.directory(),
                other => fixture.other_machine(&format!("machine{other}")),
            };
            child::start_on("append", &directory, &database)
        })
        .collect();
    assert!(children.into_iter().all(child::Player::ended_well));
    let ledger = fixture.open().await;
    let found = calls(&ledger).await;
    assert_eq!(found.len(), 4 * CALLS);
    let succeeded = |call: &StoredCall| call.terminal == Some(Terminal::Succeeded);
    assert!(found.iter().all(succeeded));
    assert_intact(&ledger, "after it").await;
    ledger.close().await.unwrap();
}

/// What cannot be recorded does not run, and it is over when the server is back.
#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn a_server_that_dies_denies_calls_until_it_is_back() {
    let fixture = PostgresFixture::new().await;
    let ledger = fixture.open().await;
    let (_, before) = whole_call(&ledger, "s1", "before").await;
    before.settled().await.unwrap();
    fixture.server.kill();
    let refused = async {
        loop {
            if ledger.flush().await.is_err() {
                break;
            }
            // Nothing was waiting to be written, so the writer has not noticed.
            let asked = request("s1", "sample", json!({}));
            if let Ok(record) = ledger.open(&asked, NOW).await {
                drop(record);
            }
        }
    };
    tokio::time::timeout(haft_testkit::PATIENCE, refused)
        .await
        .unwrap();
    fixture.server.crash();
    let again = async {
        while ledger.flush().await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(haft_testkit::PATIENCE, again)
        .await
        .unwrap();
    let (_, after) = whole_call(&ledger, "s1", "after").await;
    after.settled().await.unwrap();
    assert_intact(&ledger, "after it").await;
    ledger.close().await.unwrap();
}

/// Somebody who tries a database and goes back to the file has lost nothing.
#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn a_file_and_a_database_of_one_directory_are_two_records() {
    let fixture = PostgresFixture::new().await;
    let in_file = || LedgerOptions::new(fixture.directory(), Arc::new(Fixed));
    let in_database = || fixture.options("app");
    for (round, options) in [in_file(), in_database(), in_file(), in_database()]
        .into_iter()
        .enumerate()
    {
        let (ledger, recovery) = StoredLedger::open(options).await.unwrap();
        assert!(recovery.is_empty(), "{round}: {recovery:?}");
        for _ in 0..=round {
            let (_, record) = whole_call(&ledger, "s1", "done").await;
            record.settled().await.unwrap();
        }
        assert_intact(&ledger, "after it").await;
        ledger.close().await.unwrap();
    }
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn another_key_is_refused() {
    let fixture = PostgresFixture::new().await;
    let stranger = fixture.options_at(&fixture.directory().with_file_name("stranger"), "app");
    let refused = StoredLedger::open(stranger).await.unwrap_err();
    assert!(matches!(refused, OpenError::OtherKey), "{refused}");
}
