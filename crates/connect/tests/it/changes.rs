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

const LINKED: &str = "
    CREATE TABLE clients (id int PRIMARY KEY, name text);
    CREATE TABLE invoices (id int PRIMARY KEY,
        client int REFERENCES clients ON DELETE CASCADE ON UPDATE CASCADE);
    INSERT INTO clients VALUES (1, 'a'), (2, 'b'), (3, 'c');
    INSERT INTO invoices VALUES (1, 1), (2, 1), (3, 2)";

const TRIGGERS: &str = "
    CREATE TABLE audit (what text);
    CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
        AS 'BEGIN INSERT INTO public.audit VALUES (TG_OP); RETURN NEW; END';
    CREATE TRIGGER noted AFTER UPDATE ON clients FOR EACH ROW EXECUTE FUNCTION noted();
    CREATE CONSTRAINT TRIGGER late AFTER INSERT ON clients DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION noted();
    CREATE TABLE parts (id int, v text) PARTITION BY RANGE (id);
    CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
    CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (10) TO (20);
    INSERT INTO parts SELECT i, 'x' FROM generate_series(1, 9) AS i;
    CREATE VIEW named_clients AS SELECT id, name FROM clients WHERE name IS NOT NULL;
    GRANT ALL ON ALL TABLES IN SCHEMA public TO agent";

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn rows_that_triggers_and_cascades_change_count_too() {
    let shop = Shop::postgres(writable());
    shop.asked(&format!("{LINKED}; {TRIGGERS}"));
    let cancel = CancellationToken::new();
    let state =
        "SELECT (SELECT count(*) FROM audit) || ' ' || (SELECT sum(id) FROM invoices) || ' ' ||
        (SELECT string_agg(id || name, ',' ORDER BY id) FROM clients)";
    let before = shop.asked(state);
    for (statement, rows, why) in [
        (
            "DELETE FROM clients WHERE id = 1",
            1,
            "3 rows instead of 1 (2 of `invoices`, 1 of `clients`)",
        ),
        (
            "UPDATE clients SET name = 'x' WHERE id < 3",
            2,
            "4 rows instead of 2 (2 of `audit`, 2 of `clients`)",
        ),
        (
            "UPDATE named_clients SET name = 'x' WHERE id = 3",
            1,
            "2 rows instead of 1",
        ),
        (
            "INSERT INTO clients VALUES (4, 'd')",
            1,
            "2 rows instead of 1 (1 of `audit`, 1 of `clients`)",
        ),
    ] {
        let error = shop.run_as(change(statement, Some(rows), &cancel)).await;
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{statement}: {error}");
        assert!(error.message().contains(why), "{statement}: {error}");
        assert!(error.message().contains("`also_changes`"), "{error}");
        assert_eq!(shop.asked(state), before, "{statement}");
    }
    for (statement, rows) in [
        ("DELETE FROM clients WHERE id = 3", 1),
        ("UPDATE parts SET id = id + 5", 9),
        ("DELETE FROM parts WHERE id > 12", 2),
        (
            "INSERT INTO invoices VALUES (1, 1), (9, 2) ON CONFLICT DO NOTHING",
            1,
        ),
    ] {
        let changed = shop.run_as(change(statement, Some(rows), &cancel)).await;
        assert_eq!(changed.unwrap().1.changed, Some(rows), "{statement}");
    }
    let listed = Like {
        also_changes: &["audit", "invoices"],
        ..writable()
    };
    let shop = Shop::postgres_in(shop.database.clone().unwrap(), listed);
    for statement in [
        "UPDATE clients SET name = 'x' WHERE id = 2",
        "DELETE FROM clients WHERE id = 1",
        "INSERT INTO clients VALUES (4, 'd')",
    ] {
        let changed = shop.run_as(change(statement, Some(1), &cancel)).await;
        assert_eq!(changed.unwrap().1.changed, Some(1), "{statement}");
    }
    assert_eq!(shop.asked(state), "2 12 2x,4d");
}

/// What a reference of SQLite does is in no plan, and SQLite names it.
#[tokio::test]
async fn a_cascade_of_sqlite_does_nothing_that_was_not_planned() {
    let shop = Shop::sqlite(writable());
    let connection = rusqlite::Connection::open(shop.file.as_ref().unwrap()).unwrap();
    let rename = LINKED.replace(" int PRIMARY KEY", " INTEGER PRIMARY KEY");
    connection.execute_batch(&rename).unwrap();
    drop(connection);
    let cancel = CancellationToken::new();
    for statement in [
        "DELETE FROM clients WHERE id = 1",
        "UPDATE clients SET id = 7 WHERE id = 1",
        "INSERT INTO clients VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET id = 8",
    ] {
        let error = shop.run_as(change(statement, Some(1), &cancel)).await;
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{statement}: {error}");
    }
    // Within the table that the plan names SQLite lets it happen, and it counts.
    let connection = rusqlite::Connection::open(shop.file.as_ref().unwrap()).unwrap();
    let tree = "CREATE TABLE tree (id INTEGER PRIMARY KEY,
            parent INTEGER REFERENCES tree ON DELETE CASCADE);
        INSERT INTO tree VALUES (1, NULL), (2, 1), (3, 2), (4, NULL)";
    connection.execute_batch(tree).unwrap();
    drop(connection);
    let branch = "DELETE FROM tree WHERE id = 1";
    let error = shop.run_as(change(branch, Some(1), &cancel)).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.message().contains("3 rows instead of 1"), "{error}");
    assert!(shop.asked("SELECT count(*) FROM tree").contains("(4)"));
    let leaves = "DELETE FROM tree WHERE id IN (3, 4)";
    shop.run_as(change(leaves, Some(2), &cancel)).await.unwrap();
    let state = "SELECT (SELECT sum(id) FROM clients) * 100 + (SELECT sum(client) FROM invoices)";
    assert!(shop.asked(state).contains("(604)"), "{}", shop.asked(state));
}
