//! How much of a result is in memory at a time: batches are cut by bytes, and a value, a row or a
//! message of the server that is too large ends the call.

use std::time::Duration;

use haft_contract::{
    BoxFuture, ErrorKind,
    ops::{DatabaseOps as _, DatabaseQuery, TakeRows, WantedRows},
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::support::{Like, Shop, peak, query};

/// Counts bytes, and the most of one batch.
#[derive(Default)]
struct Weighing {
    bytes: usize,
    largest: usize,
}

impl TakeRows for Weighing {
    fn columns(&mut self, _: &[String]) {}

    fn rows(&mut self, rows: Vec<Vec<Value>>) -> BoxFuture<'_, WantedRows> {
        let values = rows.iter().flatten();
        let bytes = values.map(|value| value.as_str().map_or(0, str::len)).sum();
        self.bytes += bytes;
        self.largest = self.largest.max(bytes);
        // Slower than rows come.
        Box::pin(async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            WantedRows::More
        })
    }
}

/// Runs a statement; returns its batches and how much the memory grew at most, in kilobytes.
async fn weigh(
    shop: &Shop,
    statement: &str,
) -> (Result<Weighing, haft_contract::ops::OpsError>, u64) {
    shop.run("SELECT 1").await.unwrap();
    let cancel = CancellationToken::new();
    let mut rows = Weighing::default();
    let before = peak();
    let asked = DatabaseQuery {
        within: Duration::from_mins(3),
        ..query(statement, &cancel)
    };
    let ended = shop.databases.query(asked, &mut rows).await;
    let grown = peak() - before;
    println!(
        "{statement}: {grown} kB, {} bytes in one batch",
        rows.largest
    );
    (ended.map(|_| rows), grown)
}

/// Runs a statement whose result is too large: it ends, says why, and takes no memory.
async fn ends_the_call(shop: &Shop, statement: &str, why: &str) {
    let (ended, grown) = weigh(shop, statement).await;
    let error = ended.err().unwrap();
    assert_eq!(
        error.kind(),
        ErrorKind::LimitExceeded,
        "{statement}: {error}"
    );
    assert!(error.message().contains(why), "{statement}: {error}");
    assert!(grown < 64 * 1024, "{grown} kB");
}

/// A row that has more than a row may have, for both servers.
const WIDE_ROW: &str = "SELECT repeat('0', 2000000), repeat('1', 2000000), repeat('2', 2000000), \
    repeat('3', 2000000), repeat('4', 2000000)";

/// A gigabyte in rows of three megabytes.
const WIDE: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 350) \
    SELECT i, replace(printf('%.*c', 3000000, 'x'), 'y', i) FROM n";

#[tokio::test]
async fn wide_rows_of_sqlite_are_not_gathered() {
    let shop = Shop::sqlite(Like::default());
    let (weighed, grown) = weigh(&shop, WIDE).await;
    let weighed = weighed.unwrap();
    assert_eq!(weighed.bytes, 350 * 3_000_000);
    assert_eq!(weighed.largest, 3_000_000);
    assert!(grown < 64 * 1024, "{grown} kB");
}

#[tokio::test]
async fn a_value_or_a_row_of_sqlite_that_is_too_large_ends_the_call() {
    let shop = Shop::sqlite(Like::default());
    let connection = rusqlite::Connection::open(shop.file.as_ref().unwrap()).unwrap();
    let large = "CREATE TABLE large (id INTEGER PRIMARY KEY, blob BLOB);
        INSERT INTO large VALUES (1, zeroblob(5000000)), (2, zeroblob(300000000))";
    connection.execute_batch(large).unwrap();
    drop(connection);
    let many = (0..8).map(|i| format!("printf('%.*c', 2000000, '{i}')"));
    let many = format!("SELECT {}", many.collect::<Vec<_>>().join(", "));
    for (statement, why) in [
        (
            "SELECT printf('%.*c', 5000000, 'x') AS much",
            "column `much` has 5000000 bytes",
        ),
        (
            "SELECT blob FROM large WHERE id = 1",
            "column `blob` has 10000002 bytes",
        ),
        ("SELECT blob FROM large WHERE id = 2", "too big"),
        (
            "SELECT replace(printf('%.*c', 4000000, 'x'), 'x', 'xxxxx')",
            "too big",
        ),
        (many.as_str(), "a row has more than"),
    ] {
        ends_the_call(&shop, statement, why).await;
    }
    for statement in [
        "SELECT id, length(blob) FROM large",
        "SELECT hex(substr(blob, 1, 10)) FROM large WHERE id = 1",
    ] {
        weigh(&shop, statement).await.0.unwrap();
    }
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn wide_rows_of_postgresql_are_not_gathered() {
    let shop = Shop::postgres(Like::default());
    // The first rows are narrow, so that many are asked for at a time.
    let statement = "SELECT CASE WHEN i < 900 THEN 'x' ELSE repeat('x', 3000000) END FROM generate_series(1, 1000) AS i";
    let (weighed, grown) = weigh(&shop, statement).await;
    let weighed = weighed.unwrap();
    assert_eq!(weighed.bytes, 899 + 101 * 3_000_000);
    assert!(weighed.largest < 3_001_000);
    assert!(grown < 64 * 1024, "{grown} kB");
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn a_value_or_a_row_of_postgresql_that_is_too_large_ends_the_call() {
    let shop = Shop::postgres(Like::default());
    for (statement, why) in [
        (
            "SELECT repeat('x', 5000000) AS much",
            "column `much` has 5000000 bytes",
        ),
        ("SELECT repeat('x', 100000000)", "a row is too large"),
        (WIDE_ROW, "a row has more than"),
    ] {
        ends_the_call(&shop, statement, why).await;
        let still = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'agent' AND query ~ 'FETCH' \
            AND datname = current_database()";
        assert_eq!(shop.asked(still), "0", "{statement}");
    }
    let part = "SELECT length(repeat('x', 100000000)), substr(repeat('x', 9000000), 1, 3)";
    weigh(&shop, part).await.0.unwrap();
}

#[tokio::test]
#[ignore = "ci: needs MariaDB"]
async fn wide_rows_of_mariadb_are_not_gathered() {
    let shop = Shop::mariadb(Like::default());
    let statement = "SELECT IF(seq < 900, 'x', repeat('x', 3000000)) FROM seq_1_to_1000";
    let (weighed, grown) = weigh(&shop, statement).await;
    let weighed = weighed.unwrap();
    assert_eq!(weighed.bytes, 899 + 101 * 3_000_000);
    assert!(weighed.largest < 3_001_000);
    assert!(grown < 64 * 1024, "{grown} kB");
}

#[tokio::test]
#[ignore = "ci: needs MariaDB"]
async fn a_value_or_a_row_of_mariadb_that_is_too_large_ends_the_call() {
    let shop = Shop::mariadb(Like::default());
    let message = "SELECT repeat('0', 6000000), repeat('1', 6000000), repeat('2', 6000000)";
    for (statement, why) in [
        (
            "SELECT repeat('x', 5000000) AS much",
            "column `much` has 5000000 bytes",
        ),
        (message, "a row is too large"),
        (WIDE_ROW, "a row has more than"),
    ] {
        ends_the_call(&shop, statement, why).await;
        let still = "SELECT count(*) FROM information_schema.processlist WHERE user = 'agent' AND db = database()";
        assert_eq!(shop.asked(still), "0", "{statement}");
    }
    let part = "SELECT length(repeat('x', 9000000)), substr(repeat('x', 9000000), 1, 3)";
    weigh(&shop, part).await.0.unwrap();
}

/// Wants one batch.
struct One;

impl TakeRows for One {
    fn columns(&mut self, _: &[String]) {}

    fn rows(&mut self, rows: Vec<Vec<Value>>) -> BoxFuture<'_, WantedRows> {
        let wide = rows
            .iter()
            .flatten()
            .any(|value| value.as_str().is_some_and(|text| text.len() > 9));
        Box::pin(async move {
            if wide {
                WantedRows::NoMore
            } else {
                WantedRows::More
            }
        })
    }
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn rows_that_are_not_wanted_any_more_are_not_waited_for() {
    let shop = Shop::postgres(Like::default());
    let statement = "SELECT CASE WHEN i < 900 THEN 'x' ELSE repeat('x', 3000000) END FROM generate_series(1, 1000) AS i";
    let cancel = CancellationToken::new();
    let end = shop
        .databases
        .query(query(statement, &cancel), &mut One)
        .await;
    assert!(end.unwrap().stopped);
}
