//! Statements that change data: only where the source takes them, and only as many rows as stated.

use haft_contract::{
    ErrorKind,
    ops::{DatabaseQuery, ReadStatement as _},
};
use tokio_util::sync::CancellationToken;

use crate::support::{Like, Shop, query};

fn writable() -> Like {
    Like {
        writable: true,
        ..Like::default()
    }
}

fn change<'a>(
    statement: &'a str,
    expect_rows: Option<u64>,
    cancel: &'a CancellationToken,
) -> DatabaseQuery<'a> {
    DatabaseQuery {
        writes: true,
        expect_rows,
        ..query(statement, cancel)
    }
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn a_change_of_other_than_the_stated_rows_changes_nothing() {
    let cancel = CancellationToken::new();
    for shop in [Shop::postgres(writable()), Shop::sqlite(writable())] {
        let update = "UPDATE orders SET status = 'late' WHERE id <= 13";
        let left = "SELECT count(*) FROM orders WHERE status = 'late'";
        let none = shop.asked(left);
        let error = shop
            .run_as(change(update, Some(12), &cancel))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.message().contains("13 rows instead of 12"), "{error}");
        assert_eq!(shop.asked(left), none);
        let error = shop
            .run_as(change(update, None, &cancel))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        // Passed as a query, it is refused before anything is connected to.
        let error = shop.run_as(query(update, &cancel)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied);
        assert_eq!(shop.asked(left), none);
        let (_, end) = shop
            .run_as(change(update, Some(13), &cancel))
            .await
            .unwrap();
        assert_eq!(end.changed, Some(13));
        assert!(shop.asked(left).contains("13"));
        for (statement, rows) in [
            (
                "INSERT INTO orders (id, user_id, status) VALUES (100, 1, 'new'), (101, 1, 'new')",
                2,
            ),
            (
                "INSERT INTO orders (id, status) VALUES (100, 'x') ON CONFLICT (id) DO UPDATE SET status = excluded.status",
                1,
            ),
            (
                "DELETE FROM orders WHERE id IN (SELECT id FROM orders WHERE id > 100)",
                1,
            ),
            (
                "UPDATE orders SET total = total * 2, status = (SELECT name FROM users WHERE id = 1) WHERE id = 1",
                1,
            ),
        ] {
            let (_, end) = shop
                .run_as(change(statement, Some(rows), &cancel))
                .await
                .unwrap();
            assert_eq!(end.changed, Some(rows), "{statement}");
        }
    }
}

#[tokio::test]
async fn a_change_names_what_it_reads_and_what_it_writes() {
    let shop = Shop::sqlite(writable());
    let check = |statement: &str, expect: &[&str]| {
        let reading = shop.databases.read_statement("shop", statement).unwrap();
        assert!(reading.writes);
        let accesses = reading.accesses.iter().map(|access| match access {
            haft_contract::Access::Database {
                source,
                writes: true,
            } => format!("write {source}"),
            haft_contract::Access::Database { source, .. } => format!("read {source}"),
            other => panic!("{other:?}"),
        });
        assert_eq!(accesses.collect::<Vec<_>>(), expect, "{statement}");
    };
    check(
        "UPDATE orders SET status = 'x' WHERE total > 5",
        &["write shop.orders.status", "read shop.orders.total"],
    );
    check("DELETE FROM orders", &["write shop.orders.*"]);
    check(
        "INSERT INTO orders (id) SELECT id FROM users",
        &["write shop.orders.id", "read shop.users.id"],
    );
    check(
        "INSERT INTO orders VALUES (1, 2, 3, 4, 5)",
        &["write shop.orders.*"],
    );
}

/// What a trigger does is in no plan, and SQLite names it.
#[tokio::test]
async fn a_trigger_of_sqlite_does_nothing_that_was_not_planned() {
    let shop = Shop::sqlite(writable());
    let file = shop.file.clone().unwrap();
    let connection = rusqlite::Connection::open(&file).unwrap();
    let trigger = "CREATE TRIGGER t AFTER UPDATE ON orders BEGIN INSERT INTO log VALUES ('x'); END";
    connection.execute_batch(trigger).unwrap();
    drop(connection);
    let cancel = CancellationToken::new();
    let update = "UPDATE orders SET status = 'x' WHERE id = 1";
    let error = shop
        .run_as(change(update, Some(1), &cancel))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(shop.asked("SELECT count(*) FROM log").contains("(0)"));
}
