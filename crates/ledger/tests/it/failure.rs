//! AU-06: a store that cannot be written refuses calls, keeps what it took, and comes back without a new
//! start. Disks that are full and file systems and databases that only read, on each engine.

use std::{collections::BTreeMap, path::Path, process::Command, time::Duration};

use haft_contract::{
    CallId, Terminal,
    host::{Durability, Ledger as _, LedgerError, LedgerErrorKind},
};
use haft_ledger::{LedgerOptions, StoredLedger};
use haft_testkit::postgres_server::PostgresServer;
use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::json;

use crate::{
    child,
    engine::{assert_intact, calls},
    postgres::PostgresFixture,
    support::{Fixture, NOW, request, settled, started, writes},
};

/// A write beyond a limit is an error, not a signal.
const NO_SIGNAL: &str = "trap '' XFSZ;";

#[tokio::test]
async fn au_06_a_full_disk_refuses_calls_until_there_is_room() {
    // Soft limit of about 1 MB for any file.
    fails_and_comes_back("disk_full", &format!("{NO_SIGNAL} ulimit -S -f 2000; exec")).await;
}

#[tokio::test]
#[ignore = "ci: needs namespaces to mount a directory read-only"]
async fn au_06_a_read_only_file_system_refuses_calls_until_it_is_not() {
    let own_mounts = "exec unshare --user --map-root-user --mount";
    fails_and_comes_back("read_only", &format!("{NO_SIGNAL} {own_mounts}")).await;
}

/// A process whose store fails and comes back; it compares the record with what it was told.
async fn fails_and_comes_back(part: &str, shell: &str) {
    let fixture = Fixture::new();
    let child = child::start(part, &fixture.directory(), Some(shell));
    assert!(child.ended_well());
    let (ledger, recovery) = fixture.recover().await;
    assert!(recovery.is_empty(), "{recovery:?}");
    let calls = calls(&ledger).await;
    assert!(calls.iter().all(|call| call.terminal.is_some()));
    assert_eq!(calls[0].session.as_str(), "after");
    assert_intact(&ledger, part).await;
    ledger.close().await.unwrap();
}

/// As after a failover, or when an operator has said so.
#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn au_06_a_database_that_only_reads_refuses_calls_until_it_writes() {
    let fixture = PostgresFixture::new().await;
    let set = |value: &str| {
        let setting = format!("default_transaction_read_only = {value}");
        fixture.server.set(&setting);
    };
    fails_in_a_server(&fixture, "is read-only", || set("on"), || set("off")).await;
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL, and namespaces for a small file system"]
async fn au_06_a_full_disk_of_the_server_refuses_calls_until_there_is_room() {
    let fixture = PostgresFixture::on_a_small_disk(PostgresServer::start_on_a_small_disk()).await;
    let server = &fixture.server;
    fails_in_a_server(
        &fixture,
        "no space",
        || server.fill_small_disk(),
        || server.clear_small_disk(),
    )
    .await;
}

async fn fails_in_a_server(fixture: &PostgresFixture, why: &str, fail: impl Fn(), mend: impl Fn()) {
    let ledger = fixture.open().await;
    let mut attempts = Attempts::default();
    attempts.make(&ledger, "before").await.unwrap();
    let on_its_way = request("s1", "sample", json!({}));
    let record = ledger.open(&on_its_way, NOW).await.unwrap();
    let begun = vec![writes(on_its_way.id), started(on_its_way.id)];
    record.append(begun, Durability::Durable).await.unwrap();
    fail();
    let refused = attempts.until_refused(&ledger).await;
    assert!(refused.to_string().contains(why), "{refused}");
    // What ran meanwhile has an end, which is kept until it can be written.
    record.settle(vec![settled(on_its_way.id, Terminal::Succeeded, "done")]);
    assert_eq!(
        attempts.make(&ledger, "still").await.unwrap_err().kind(),
        LedgerErrorKind::Unavailable
    );
    assert!(!calls(&ledger).await.is_empty(), "it can be read meanwhile");
    mend();
    attempts.until_taken(&ledger).await;
    attempts.succeeded.push(on_its_way.id);
    attempts.check(&ledger).await;
    ledger.close().await.unwrap();
    let (again, recovery) = fixture.open_at(&fixture.directory()).await;
    assert!(recovery.is_empty(), "{recovery:?}");
    attempts.check(&again).await;
    again.close().await.unwrap();
}

/// Calls that change something, and what whoever made them was told.
#[derive(Default)]
struct Attempts {
    succeeded: Vec<CallId>,
    refused: Vec<CallId>,
}

impl Attempts {
    /// One call. An error says why it must not run.
    async fn make(&mut self, ledger: &StoredLedger, text: &str) -> Result<(), LedgerError> {
        let asked = request("s1", "sample", json!({ "text": text }));
        let id = asked.id;
        let taken = async {
            let record = ledger.open(&asked, NOW).await?;
            let begun = vec![writes(id), started(id)];
            let begun = record.append(begun, Durability::Durable).await;
            let (terminal, text) = match begun {
                Ok(()) => (Terminal::Succeeded, "done"),
                Err(_) => (Terminal::Denied, "it was not run"),
            };
            record.settle(vec![settled(id, terminal, text)]);
            begun
        };
        let taken = taken.await;
        match taken {
            Ok(()) => self.succeeded.push(id),
            Err(_) => self.refused.push(id),
        }
        taken
    }

    /// Makes calls until one is refused.
    async fn until_refused(&mut self, ledger: &StoredLedger) -> LedgerError {
        let text = "x".repeat(20_000);
        let refused = async {
            loop {
                if let Err(error) = self.make(ledger, &text).await {
                    return error;
                }
            }
        };
        let refused = tokio::time::timeout(haft_testkit::PATIENCE, refused)
            .await
            .unwrap();
        assert_eq!(refused.kind(), LedgerErrorKind::Unavailable, "{refused}");
        assert!(ledger.counters().failures > 0);
        refused
    }

    /// Waits until calls are taken again, and makes one.
    async fn until_taken(&mut self, ledger: &StoredLedger) {
        let taken = async {
            while ledger.flush().await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(haft_testkit::PATIENCE, taken)
            .await
            .unwrap();
        self.make(ledger, "room again").await.unwrap();
        ledger.flush().await.unwrap();
    }

    /// The record says what callers were told, and has no half of a call.
    async fn check(&self, ledger: &StoredLedger) {
        let calls = calls(ledger).await;
        let recorded: BTreeMap<CallId, Option<Terminal>> =
            calls.iter().map(|call| (call.id, call.terminal)).collect();
        assert!(!self.refused.is_empty());
        for id in &self.succeeded {
            let succeeded = Some(&Some(Terminal::Succeeded));
            assert_eq!(recorded.get(id), succeeded, "{id} was taken");
        }
        for id in &self.refused {
            let told = recorded.get(id).copied().unwrap_or(Some(Terminal::Denied));
            assert_eq!(told, Some(Terminal::Denied), "{id} was refused");
        }
        let all = self.succeeded.len() + self.refused.len();
        assert!(recorded.len() <= all, "{} of {all}", recorded.len());
        assert_intact(ledger, "after a failure").await;
    }
}

/// The part of a process that runs under a limit on file sizes, which it lifts itself: a disk that fills
/// up and is cleared.
pub(crate) async fn disk_full(ledger: &StoredLedger) {
    let mut attempts = Attempts::default();
    attempts.until_refused(ledger).await;
    limit_files(false);
    come_back(ledger, attempts).await;
}

/// The part of a process that has its own mounts: its record's directory becomes read-only.
///
/// What is open for writing stays so, and the kernel mounts nothing read-only over it. So the writer
/// first loses its files to a full disk, as it would to a disk with errors, and then finds them
/// read-only.
pub(crate) async fn read_only(ledger: &StoredLedger, options: LedgerOptions) {
    let directory = options.directory.clone();
    let mut attempts = Attempts::default();
    attempts.make(ledger, "before").await.unwrap();
    limit_files(true);
    attempts.until_refused(ledger).await;
    mount(&["--bind"], &directory);
    mount(&["-o", "remount,bind,ro"], &directory);
    // Whatever was opened before that has failed too.
    let failures = ledger.counters().failures;
    haft_testkit::eventually("it fails again", || {
        ledger.counters().failures > failures + 1
    })
    .await;
    limit_files(false);
    let read_only = async {
        while !attempts
            .until_refused(ledger)
            .await
            .to_string()
            .contains("readonly")
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(haft_testkit::PATIENCE, read_only)
        .await
        .unwrap();
    // Nor is it opened anew.
    let opened = StoredLedger::open(options).await.map(|_| ());
    let error = opened.unwrap_err();
    println!("opening it says: {error}");
    let unmounted = Command::new("umount").arg("-l").arg(&directory).status();
    assert!(unmounted.unwrap().success());
    come_back(ledger, attempts).await;
}

async fn come_back(ledger: &StoredLedger, mut attempts: Attempts) {
    attempts.until_taken(ledger).await;
    attempts.check(ledger).await;
    let (_, record) = crate::support::whole_call(ledger, "after", "room again").await;
    record.settled().await.unwrap();
    ledger.close().await.unwrap();
}

/// Whether no file may grow at all.
fn limit_files(is_full: bool) {
    let mut limit = getrlimit(Resource::Fsize);
    limit.current = if is_full { Some(0) } else { limit.maximum };
    setrlimit(Resource::Fsize, limit).unwrap();
}

fn mount(options: &[&str], directory: &Path) {
    let mounted = Command::new("mount")
        .args(options)
        .args([directory, directory])
        .status();
    assert!(mounted.unwrap().success(), "{options:?}");
}
