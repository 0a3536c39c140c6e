//! Rows: when they reach the caller, what they look like, and how few are fetched.

use std::time::Duration;

use haft_contract::{
    BoxFuture, ErrorKind,
    ops::{DatabaseOps as _, DatabaseQuery, SchemaQuestion, TakeRows, WantedRows},
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::support::{Like, SERVER, Shop, query};

/// Tells of each batch, and stops after so many rows.
struct Telling {
    told: mpsc::UnboundedSender<usize>,
    most: usize,
    seen: usize,
}

impl Telling {
    /// One that stops after so many rows, and what it tells.
    fn until(most: usize) -> (Self, mpsc::UnboundedReceiver<usize>) {
        let (told, telling) = mpsc::unbounded_channel();
        (
            Self {
                told,
                most,
                seen: 0,
            },
            telling,
        )
    }
}

impl TakeRows for Telling {
    fn columns(&mut self, _: &[String]) {}

    fn rows(&mut self, rows: Vec<Vec<Value>>) -> BoxFuture<'_, WantedRows> {
        self.seen += rows.len();
        self.told.send(rows.len()).unwrap();
        let wanted = if self.seen >= self.most {
            WantedRows::NoMore
        } else {
            WantedRows::More
        };
        Box::pin(async move { wanted })
    }
}

/// The operator lists `pg_sleep` here, so that a query is slow where the test wants it to be.
#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn the_first_row_of_a_slow_query_arrives_before_the_query_ends() {
    let shop = Shop::postgres(Like {
        functions: &["pg_sleep"],
        ..Like::default()
    });
    let (mut rows, mut telling) = Telling::until(usize::MAX);
    let cancel = CancellationToken::new();
    // The second row never comes.
    let statement =
        "SELECT i, CASE WHEN i > 1 THEN pg_sleep(1000) END FROM generate_series(1, 5) AS i";
    let running = shop.databases.query(query(statement, &cancel), &mut rows);
    let watching = async {
        assert_eq!(telling.recv().await, Some(1));
        let active = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active'
            AND usename = 'agent'";
        while shop.asked(active) == "0" {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
    };
    let (ended, ()) = tokio::join!(running, watching);
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Cancelled);
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL and MariaDB"]
async fn a_cursor_stops_when_no_more_rows_are_wanted() {
    let shop = Shop::postgres(Like::default());
    let sqlite = Shop::sqlite(Like::default());
    let mariadb = Shop::mariadb(Like::default());
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n";
    let many = "SELECT seq FROM seq_1_to_4000000000";
    for (shop, endless) in [(&shop, endless), (&sqlite, endless), (&mariadb, many)] {
        let (mut rows, mut telling) = Telling::until(1_000);
        let cancel = CancellationToken::new();
        let end = shop.databases.query(query(endless, &cancel), &mut rows);
        assert!(end.await.unwrap().stopped);
        drop(rows);
        let mut batches = Vec::new();
        while let Some(batch) = telling.recv().await {
            batches.push(batch);
        }
        assert_eq!(batches[0], 1);
        assert!(batches.iter().all(|batch| *batch <= 500), "{batches:?}");
        assert!(batches.iter().sum::<usize>() < 2_000, "{batches:?}");
    }
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL and MariaDB"]
async fn values_keep_what_they_are() {
    let shop = Shop::postgres(Like::default());
    let statement = "SELECT 1, 9007199254740993, 1.50::numeric, 0.5::float8, true, NULL, 'x', \
        '{\"a\": [1]}'::jsonb, ARRAY[1, 2], '2026-01-02'::date, '\\x00ff'::bytea, 'NaN'::float8, \
        $1::int, $2, $3::jsonb";
    let cancel = CancellationToken::new();
    let parameters = [json!(7), json!("a'b"), json!({"k": null})];
    let asked = DatabaseQuery {
        parameters: &parameters,
        ..query(statement, &cancel)
    };
    let (taken, _) = shop.run_as(asked).await.unwrap();
    let expected = json!([
        1, 9_007_199_254_740_993_i64, "1.50", 0.5, true, null, "x", {"a": [1]}, "{1,2}",
        "2026-01-02", "\\x00ff", "NaN", 7, "a'b", {"k": null}
    ]);
    assert_eq!(json!(taken.rows[0]), expected);
    let shop = Shop::sqlite(Like::default());
    let statement = "SELECT 1, 0.5, NULL, 'x', ?1, ?2";
    let parameters = [json!(7), json!("a'b")];
    let asked = DatabaseQuery {
        parameters: &parameters,
        ..query(statement, &cancel)
    };
    let (taken, _) = shop.run_as(asked).await.unwrap();
    assert_eq!(json!(taken.rows[0]), json!([1, 0.5, null, "x", 7, "a'b"]));
    let mariadb = Shop::mariadb(Like::default());
    let statement = "SELECT 1, 9007199254740993, 18446744073709551615, 1.50, 0.5e0, true, NULL, 'x', \
        '{\"a\": [1]}', CAST('2026-01-02' AS DATE), CAST('2026-01-02 03:04:05.6' AS DATETIME(1)), \
        SEC_TO_TIME(-90061), X'00ff', b'101' + 0, profile, created_at, ?, ?, ? FROM users WHERE id = 1";
    let parameters = [json!(7), json!("a'b\\"), json!({"k": null})];
    let asked = DatabaseQuery {
        parameters: &parameters,
        ..query(statement, &cancel)
    };
    let (taken, _) = mariadb.run_as(asked).await.unwrap();
    let expected = json!([
        1,
        9_007_199_254_740_993_i64,
        u64::MAX,
        "1.50",
        0.5,
        1,
        null,
        "x",
        "{\"a\": [1]}",
        "2026-01-02",
        "2026-01-02 03:04:05.6",
        "-25:01:01",
        "0x00ff",
        5,
        "{\"plan\": \"pro\", \"address\": {\"city\": \"X\"}}",
        "2026-01-01 00:00:00",
        7,
        "a'b\\",
        "{\"k\":null}"
    ]);
    assert_eq!(json!(taken.rows[0]), expected);
    for (shop, statement) in [
        (shop, "SELECT 1 WHERE 1 = $1"),
        (Shop::postgres(Like::default()), "SELECT 1 WHERE 1 = $1"),
        (mariadb, "SELECT 1 FROM DUAL WHERE 1 = ?"),
    ] {
        let error = shop.run_as(query(statement, &cancel)).await;
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(
            error
                .message()
                .contains("has 1 placeholder, and `params` has "),
            "{error}"
        );
    }
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL and MariaDB"]
async fn tables_are_listed_and_never_counted() {
    let postgres = Shop::postgres(Like::default());
    SERVER.sql_in(postgres.database.as_deref().unwrap(), "ANALYZE users");
    let mariadb = Shop::mariadb(Like::default());
    mariadb.asked("ANALYZE TABLE users");
    for shop in [postgres, mariadb, Shop::sqlite(Like::default())] {
        let cancel = CancellationToken::new();
        let all = SchemaQuestion {
            source: "shop",
            search: None,
            table: None,
            offset: 0,
            limit: 3,
            within: Duration::from_secs(30),
            cancel: &cancel,
        };
        let page = shop.databases.schema(all.clone()).await.unwrap();
        assert_eq!((page.tables.len(), page.more), (3, true));
        let found = SchemaQuestion {
            search: Some("EMAIL"),
            ..all.clone()
        };
        let found = shop.databases.schema(found).await.unwrap();
        let names: Vec<_> = found
            .tables
            .iter()
            .map(|table| table.name.as_str())
            .collect();
        assert!(
            names.contains(&"users") && !names.contains(&"orders"),
            "{names:?}"
        );
        let one = SchemaQuestion {
            table: Some("users"),
            ..all
        };
        let one = shop.databases.schema(one).await.unwrap();
        let columns: Vec<_> = one.tables[0]
            .columns
            .iter()
            .map(|column| column.name.as_str())
            .collect();
        assert!(columns.starts_with(&["id", "name", "email"]), "{columns:?}");
        if shop.file.is_none() {
            assert_eq!(one.tables[0].estimated_rows, Some(12));
        }
    }
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn a_statement_that_is_too_dear_is_not_run() {
    let shop = Shop::postgres(Like {
        max_cost: Some(1_000),
        ..Like::default()
    });
    let (_, end) = shop.run("SELECT name FROM users").await.unwrap();
    assert!(end.estimate.unwrap().cost.unwrap() < 1_000);
    let dear = "SELECT count(*) FROM users a, users b, users c, users d";
    let error = shop.run(dear).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    let cancel = CancellationToken::new();
    let estimate = shop.databases.explain(query(dear, &cancel)).await.unwrap();
    assert!(estimate.cost.unwrap() > 1_000 && estimate.steps.contains("Seq Scan on users"));
}

#[tokio::test]
#[ignore = "ci: needs MariaDB"]
async fn a_statement_of_which_mariadb_expects_too_many_rows_is_not_run() {
    let shop = Shop::mariadb(Like {
        max_rows: Some(1_000),
        ..Like::default()
    });
    shop.asked("ANALYZE TABLE users, orders");
    let joined = "SELECT u.name FROM users u JOIN orders o ON o.user_id = u.id WHERE o.total > ?";
    let cancel = CancellationToken::new();
    let parameters = [json!(5)];
    let asked = || DatabaseQuery {
        parameters: &parameters,
        ..query(joined, &cancel)
    };
    let (_, end) = shop.run_as(asked()).await.unwrap();
    assert!(end.estimate.unwrap().rows.unwrap() <= 30);
    let estimate = shop.databases.explain(asked()).await.unwrap();
    // By the name that the statement gives it; the other is found by an index.
    let [scan] = estimate.scans.as_slice() else {
        panic!("{estimate:?}");
    };
    assert!(["u", "o"].contains(&scan.table.as_str()), "{estimate:?}");
    let dear = "SELECT count(*) FROM users a, users b, users c, users d";
    let error = shop.run(dear).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    let estimate = shop.databases.explain(query(dear, &cancel)).await.unwrap();
    assert_eq!(estimate.rows, Some(12 * 12 * 12 * 12));
    let change = DatabaseQuery {
        writes: true,
        ..query("UPDATE orders SET status = 'x' WHERE id < 5", &cancel)
    };
    let refused = shop.databases.explain(change).await.unwrap_err();
    assert!(refused.message().contains("takes no changes"), "{refused}");
}

/// A server sends rows when it has 16 KB of them, so this one has wide rows.
#[tokio::test]
#[ignore = "ci: needs MariaDB"]
async fn rows_of_a_slow_query_to_mariadb_arrive_before_the_query_ends() {
    let shop = Shop::mariadb(Like {
        functions: &["sleep"],
        ..Like::default()
    });
    let (mut rows, mut telling) = Telling::until(usize::MAX);
    let cancel = CancellationToken::new();
    // The fourth row never comes.
    let statement = "SELECT repeat('x', 20000), IF(seq > 3, sleep(1000), 0) FROM seq_1_to_9";
    let running = shop.databases.query(query(statement, &cancel), &mut rows);
    let watching = async {
        assert_eq!(telling.recv().await, Some(1));
        let at_work = "SELECT count(*) FROM information_schema.processlist WHERE user = 'agent'
            AND db = database() AND command = 'Execute'";
        assert_eq!(shop.asked(at_work), "1");
        cancel.cancel();
    };
    let (ended, ()) = tokio::join!(running, watching);
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Cancelled);
}
