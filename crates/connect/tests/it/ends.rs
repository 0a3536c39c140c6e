//! How a statement ends that must stop: it is ended in the server, and seen to be gone, before the
//! caller is told.

use std::time::Duration;

use haft_contract::{
    ErrorKind,
    ops::{DatabaseOps as _, DatabaseQuery},
};
use tokio_util::sync::CancellationToken;

use crate::support::{Like, Shop, Taken, query};

const ENDLESS: &str =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";

/// A server, and the same questions in its own words.
struct Server {
    shop: Shop,
    /// Statements that do not end by themselves: one waits, the other works.
    slow: [&'static str; 2],
    /// How many connections of the agent there are, and how many of them are at work.
    running: &'static str,
    active: &'static str,
}

/// Every kind of server. The operator lists what waits.
fn servers(connections: usize) -> [Server; 2] {
    let like = Like {
        functions: &["pg_sleep", "sleep"],
        connections,
        ..Like::default()
    };
    let postgres = Server {
        shop: Shop::postgres(like.clone()),
        slow: ["SELECT pg_sleep(1000)", ENDLESS],
        running: "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
            AND usename = 'agent' AND query ~ 'FETCH|DECLARE'",
        active: "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
            AND usename = 'agent' AND query ~ 'FETCH|DECLARE' AND state = 'active'",
    };
    let mariadb = Server {
        shop: Shop::mariadb(like),
        slow: [
            "SELECT sleep(1000)",
            "SELECT count(*) FROM seq_1_to_4000000000 WHERE seq % 7 = 8",
        ],
        running: "SELECT count(*) FROM information_schema.processlist WHERE user = 'agent' \
            AND db = database()",
        active: "SELECT count(*) FROM information_schema.processlist WHERE user = 'agent' \
            AND db = database() AND command = 'Execute'",
    };
    [postgres, mariadb]
}

impl Server {
    async fn until_running(&self) {
        while self.shop.asked(self.active) == "0" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn asked(&self) -> String {
        self.shop.asked(self.running)
    }
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL and MariaDB"]
async fn a_cancelled_statement_is_gone_from_the_server_before_its_end_is_told() {
    for server in servers(4) {
        for statement in server.slow {
            let cancel = CancellationToken::new();
            let mut taken = Taken::default();
            let databases = &server.shop.databases;
            let running = databases.query(query(statement, &cancel), &mut taken);
            let cancelling = async {
                server.until_running().await;
                cancel.cancel();
            };
            let (ended, ()) = tokio::join!(running, cancelling);
            // Looked at once, right away.
            assert_eq!(server.asked(), "0", "{statement}");
            let error = ended.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
            assert_eq!(error.message(), "the statement was cancelled");
        }
    }
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL and MariaDB"]
async fn a_statement_past_its_deadline_is_gone_too() {
    for server in servers(4) {
        let cancel = CancellationToken::new();
        let asked = DatabaseQuery {
            within: Duration::from_millis(300),
            ..query(server.slow[0], &cancel)
        };
        let error = server.shop.run_as(asked).await.unwrap_err();
        assert_eq!(server.asked(), "0");
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        assert!(!error.message().contains("did not say"), "{error}");
    }
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL and MariaDB"]
async fn a_statement_whose_caller_went_away_does_not_go_on() {
    for server in servers(4) {
        let cancel = CancellationToken::new();
        let mut taken = Taken::default();
        {
            let databases = &server.shop.databases;
            let running = databases.query(query(server.slow[1], &cancel), &mut taken);
            tokio::select! {
                _ = running => panic!("it does not end"),
                () = server.until_running() => {}
            }
        }
        while server.asked() != "0" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL and MariaDB"]
async fn waiting_for_a_connection_is_not_a_slow_statement() {
    for server in servers(1) {
        let cancel = CancellationToken::new();
        let mut taken = Taken::default();
        let databases = &server.shop.databases;
        let running = databases.query(query(server.slow[0], &cancel), &mut taken);
        let second = async {
            server.until_running().await;
            let never = CancellationToken::new();
            let asked = DatabaseQuery {
                within: Duration::from_millis(200),
                ..query("SELECT 1", &never)
            };
            let error = server.shop.run_as(asked).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert!(error.message().contains("not started"), "{error}");
            cancel.cancel();
        };
        let (ended, ()) = tokio::join!(running, second);
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::Cancelled);
    }
}

#[tokio::test]
async fn sqlite_is_interrupted() {
    let shop = Shop::sqlite(Like::default());
    let cancel = CancellationToken::new();
    let asked = DatabaseQuery {
        within: Duration::from_millis(200),
        ..query(ENDLESS, &cancel)
    };
    let error = shop.run_as(asked).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert!(!error.message().contains("has not yet"), "{error}");
    cancel.cancel();
    let error = shop.run_as(query(ENDLESS, &cancel)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
}

/// A step of SQLite that looks for a text in another one for this long, whatever the machine: nothing
/// interrupts it.
fn one_long_step(takes: Duration) -> String {
    let step = |bytes: u32| {
        let half = bytes / 2;
        format!("SELECT instr(printf('%.*c', {bytes}, 'a'), printf('%.*c', {half}, 'a') || 'b')")
    };
    let sample = 100_000;
    let connection = rusqlite::Connection::open_in_memory().unwrap();
    let began = std::time::Instant::now();
    let found = connection.query_row(&step(sample), [], |row| row.get::<_, i64>(0));
    assert_eq!(found.unwrap(), 0);
    // It takes four times as long for twice the text.
    let longer = takes.as_micros() * 100 / began.elapsed().as_micros();
    step(sample * u32::try_from(longer.isqrt()).unwrap() / 10)
}

#[tokio::test]
async fn sqlite_keeps_its_place_until_it_has_really_ended() {
    let shop = Shop::sqlite(Like {
        connections: 1,
        ..Like::default()
    });
    let long = one_long_step(Duration::from_secs(5));
    let cancel = CancellationToken::new();
    let shortly = |statement| DatabaseQuery {
        within: Duration::from_millis(100),
        ..query(statement, &cancel)
    };
    let began = std::time::Instant::now();
    let error = shop.run_as(shortly(&long)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert!(error.message().contains("has not yet"), "{error}");
    let told = began.elapsed();
    assert!(told < Duration::from_secs(3), "{told:?}");
    // It still runs, and nothing else runs in its place.
    let error = shop.run_as(shortly("SELECT 1")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.message().contains("not started"), "{error}");
    shop.run("SELECT 1").await.unwrap();
    println!("told after {told:?}, ended after {:?}", began.elapsed());
}

#[tokio::test]
async fn a_caller_that_goes_away_frees_no_place_before_the_end() {
    let shop = Shop::sqlite(Like {
        connections: 1,
        ..Like::default()
    });
    let long = one_long_step(Duration::from_secs(3));
    let cancel = CancellationToken::new();
    let gone = tokio::time::timeout(Duration::from_millis(200), shop.run(&long)).await;
    assert!(gone.is_err());
    let asked = DatabaseQuery {
        within: Duration::from_millis(100),
        ..query("SELECT 1", &cancel)
    };
    let error = shop.run_as(asked).await.unwrap_err();
    assert!(error.message().contains("not started"), "{error}");
    shop.run("SELECT 1").await.unwrap();
}

/// What an interrupt before the first step is lost on.
#[tokio::test]
async fn a_statement_that_is_stopped_early_does_not_run() {
    let shop = Shop::sqlite(Like::default());
    for after in 0..40 {
        let cancel = CancellationToken::new();
        let asked = query(ENDLESS, &cancel);
        let stopping = async {
            tokio::time::sleep(Duration::from_micros(after * 50)).await;
            cancel.cancel();
        };
        let (ended, ()) = tokio::join!(shop.run_as(asked), stopping);
        let error = ended.unwrap_err();
        assert_eq!(error.message(), "the statement was cancelled");
    }
}

/// Whoever takes rows never takes the second batch.
struct Stuck;

impl haft_contract::ops::TakeRows for Stuck {
    fn columns(&mut self, _: &[String]) {}

    fn rows(
        &mut self,
        _: Vec<Vec<serde_json::Value>>,
    ) -> haft_contract::BoxFuture<'_, haft_contract::ops::WantedRows> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn rows_that_nobody_takes_do_not_outlast_the_call() {
    let shop = Shop::sqlite(Like::default());
    let cancel = CancellationToken::new();
    let asked = DatabaseQuery {
        within: Duration::from_millis(200),
        ..query("SELECT id FROM orders", &cancel)
    };
    let mut stuck = Stuck;
    let ended = shop.databases.query(asked, &mut stuck);
    let ended = tokio::time::timeout(Duration::from_secs(10), ended).await;
    let error = ended.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert!(!error.message().contains("has not yet"), "{error}");
}

#[tokio::test]
async fn a_change_waits_for_another_writer_only_until_it_is_stopped() {
    let shop = Shop::sqlite(Like {
        writable: true,
        ..Like::default()
    });
    let other = rusqlite::Connection::open(shop.file.as_ref().unwrap()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let cancel = CancellationToken::new();
    let change = |within| DatabaseQuery {
        writes: true,
        expect_rows: Some(1),
        within,
        ..query("UPDATE orders SET status = 'x' WHERE id = 1", &cancel)
    };
    let shortly = Duration::from_millis(300);
    let error = shop.run_as(change(shortly)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert!(!error.message().contains("has not yet"), "{error}");
    // One who reads is in the way of the commit alone.
    other
        .execute_batch("ROLLBACK; BEGIN; SELECT * FROM orders")
        .unwrap();
    let error = shop.run_as(change(shortly)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert!(!error.message().contains("has not yet"), "{error}");
    other.execute_batch("ROLLBACK").unwrap();
    assert!(
        shop.asked("SELECT count(*) FROM orders WHERE status = 'x'")
            .contains("(0)")
    );
    shop.run_as(change(Duration::from_secs(30))).await.unwrap();
    assert!(
        shop.asked("SELECT count(*) FROM orders WHERE status = 'x'")
            .contains("(1)")
    );
}
