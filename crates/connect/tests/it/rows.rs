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
    let (told, mut telling) = mpsc::unbounded_channel();
    let mut rows = Telling {
        told,
        most: usize::MAX,
        seen: 0,
    };
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
#[ignore = "ci: needs PostgreSQL"]
async fn a_cursor_stops_when_no_more_rows_are_wanted() {
    let shop = Shop::postgres(Like::default());
    let sqlite = Shop::sqlite(Like::default());
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n";
    for shop in [&shop, &sqlite] {
        let (told, mut telling) = mpsc::unbounded_channel();
        let mut rows = Telling {
            told,
            most: 1_000,
            seen: 0,
        };
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
#[ignore = "ci: needs PostgreSQL"]
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
    for shop in [shop, Shop::postgres(Like::default())] {
        let error = shop.run_as(query("SELECT 1 WHERE 1 = $1", &cancel)).await;
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.message().contains("1 placeholders"), "{error}");
    }
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn tables_are_listed_and_never_counted() {
    let postgres = Shop::postgres(Like::default());
    SERVER.sql_in(postgres.database.as_deref().unwrap(), "ANALYZE users");
    for shop in [postgres, Shop::sqlite(Like::default())] {
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
        if shop.database.is_some() {
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
