//! The other process of the crash tests: this test binary, started again with a part to play.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use haft_contract::{
    Terminal,
    host::{ApprovalQuestion, Durability, Ledger as _, LedgerErrorKind},
};
use haft_ledger::{LedgerOptions, StoredLedger};
use serde_json::json;

use crate::support::{
    Fixed, NOW, approve, question, reads, request, settled, start_with, started, whole_call, writes,
};

const PART: &str = "HAFT_LEDGER_TEST_PART";
const DIRECTORY: &str = "HAFT_LEDGER_TEST_DIRECTORY";
const DATABASE: &str = "HAFT_LEDGER_TEST_DATABASE";

/// How many calls the `append` part makes.
pub(crate) const CALLS: usize = 40;

/// A running child. It is killed when dropped.
pub(crate) struct Player(Child);

impl Player {
    /// Kills it as `kill -9` does and waits until it is gone.
    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Waits until it says that it has reached its point.
    pub(crate) fn wait_ready(mut self) -> Self {
        let output = BufReader::new(self.0.stdout.as_mut().unwrap());
        let ready = output
            .lines()
            .any(|line| line.unwrap().contains("at its point"));
        assert!(ready, "the child ended before it reached its point");
        self
    }

    /// Waits until it ends by itself and says whether it was content.
    pub(crate) fn ended_well(mut self) -> bool {
        self.0.wait().unwrap().success()
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a child; returns once it says that it has reached its point.
pub(crate) fn play(part: &str, directory: &Path) -> Player {
    start(part, directory, None).wait_ready()
}

/// The same with the record in a database.
pub(crate) fn play_on(part: &str, directory: &Path, database: &str) -> Player {
    start_on(part, directory, database).wait_ready()
}

/// Starts a child on a database without waiting.
pub(crate) fn start_on(part: &str, directory: &Path, database: &str) -> Player {
    spawn(other_process().env(DATABASE, database), part, directory)
}

/// Starts a child without waiting; by a shell whose script ends with what runs it.
pub(crate) fn start(part: &str, directory: &Path, script: Option<&str>) -> Player {
    let binary = std::env::current_exe().unwrap();
    let mut command = match script {
        None => other_process(),
        Some(script) => {
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(format!("{script} \"$0\" \"$@\""));
            shell.arg(binary).args(ARGUMENTS);
            shell
        }
    };
    spawn(&mut command, part, directory)
}

const ARGUMENTS: [&str; 4] = [
    "--exact",
    "child::the_other_process",
    "--ignored",
    "--nocapture",
];

fn other_process() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(ARGUMENTS);
    command
}

fn spawn(command: &mut Command, part: &str, directory: &Path) -> Player {
    let child = command
        .env(PART, part)
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    Player(child)
}

#[test]
#[ignore = "child: the other process of the crash tests"]
fn the_other_process() {
    let part = std::env::var(PART).unwrap();
    let directory = std::env::var_os(DIRECTORY).unwrap();
    let mut options = LedgerOptions::new(&directory, Arc::new(Fixed));
    options.database = std::env::var(DATABASE).ok();
    let again = options.clone();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        if part == "migrate" {
            let database = options.database.unwrap();
            return crate::postgres::migration::carry_halfway(Path::new(&directory), &database)
                .await;
        }
        let (ledger, _) = StoredLedger::open(options).await.unwrap();
        match part.as_str() {
            "append" => append(&ledger).await,
            "disk_full" => crate::failure::disk_full(&ledger).await,
            "read_only" => crate::failure::read_only(&ledger, again).await,
            "wait" => crate::waiting::wait(&ledger, Path::new(&directory)).await,
            "read_from_a" => crate::labels::read_from_a(&ledger).await,
            "hold_hang" => crate::resume::hold(&ledger, "hang").await,
            "hold_sleep" => crate::resume::hold(&ledger, "sleep").await,
            flood if flood.starts_with("flood ") => {
                let effects = flood.trim_start_matches("flood ");
                crate::many_instances::flood(&ledger, effects).await;
            }
            work if work.starts_with("work ") => {
                crate::crash::work(&ledger, work.trim_start_matches("work ")).await;
            }
            "start_approved" => start_approved(&ledger).await,
            "asked" | "approved" => {
                let _open = ask(&ledger, &part).await;
                println!("at its point");
                std::future::pending::<()>().await;
            }
            point => {
                let _open = reach(&ledger, point).await;
                println!("at its point");
                std::future::pending::<()>().await;
            }
        }
    });
}

/// Brings one call to a named point.
async fn reach(ledger: &StoredLedger, point: &str) -> Box<dyn haft_contract::host::CallRecord> {
    let asked = request("s1", "sample", json!({"point": point}));
    let id = asked.id;
    let record = ledger.open(&asked, NOW).await.unwrap();
    if point == "accepted" {
        return record;
    }
    ledger.flush().await.unwrap();
    if point == "opened" {
        return record;
    }
    let plan = if point == "started_reading" {
        reads(id)
    } else {
        writes(id)
    };
    record
        .append(vec![plan], Durability::Durable)
        .await
        .unwrap();
    if point == "planned" {
        return record;
    }
    record
        .append(vec![started(id)], Durability::Durable)
        .await
        .unwrap();
    if matches!(point, "started" | "started_reading") {
        return record;
    }
    record.settle(vec![settled(id, Terminal::Succeeded, "done")]);
    if point == "settling" {
        return record;
    }
    record.settled().await.unwrap();
    assert_eq!(point, "settled");
    record
}

/// Asks a question, and answers it if that is the part.
async fn ask(ledger: &StoredLedger, part: &str) -> Box<dyn haft_contract::host::CallRecord> {
    let asked = request("s1", "sample", json!({}));
    let record = ledger.open(&asked, NOW).await.unwrap();
    let asks = ApprovalQuestion {
        call: asked.id,
        ..question("s1", 1)
    };
    let asks = ledger.approvals().ask(asks).await.unwrap();
    if part == "approved" {
        approve(ledger, &asks).await.unwrap();
    }
    ledger.flush().await.unwrap();
    record
}

/// Ten calls at once that want to start with the same approval.
async fn start_approved(ledger: &StoredLedger) {
    let found = ledger.approvals().ask(question("s1", 1)).await.unwrap();
    let starts = (0..10).map(|_| {
        let ledger = ledger.clone();
        tokio::spawn(async move {
            let asked = request("s1", "sample", json!({}));
            let record = ledger.open(&asked, NOW).await.unwrap();
            let events = vec![start_with(asked.id, Some(found.id), &[])];
            let started = record.append(events, Durability::Durable).await;
            if let Err(error) = started {
                assert_eq!(error.kind(), LedgerErrorKind::Conflict);
            }
            record.settle(vec![settled(asked.id, Terminal::Succeeded, "")]);
            record.settled().await.unwrap();
        })
    });
    for start in starts.collect::<Vec<_>>() {
        start.await.unwrap();
    }
    ledger.close().await.unwrap();
}

/// Forty calls, ten at a time, and a clean end.
async fn append(ledger: &StoredLedger) {
    for _ in 0..CALLS / 10 {
        let calls = (0..10).map(|_| {
            let ledger = ledger.clone();
            tokio::spawn(async move {
                let (_, record) = whole_call(&ledger, "shared", "from a child").await;
                record.settled().await.unwrap();
            })
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.unwrap();
        }
    }
    ledger.close().await.unwrap();
}
