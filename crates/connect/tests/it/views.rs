//! What a statement reaches in SQLite by a name that is not what it seems: views, names of `WITH`,
//! virtual tables and the tables these keep their data in.

use haft_contract::{
    ErrorKind,
    ops::{DatabaseOps as _, DatabaseQuery, ReadStatement as _, SchemaQuestion},
};
use rusqlite::Connection;
use serde_json::json;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

use crate::support::{Like, Shop, query};

const MORE: &str = "
    CREATE VIEW named AS WITH picked AS (SELECT id, name FROM active_users) SELECT name FROM picked;
    CREATE VIEW how_many AS SELECT count(*) AS n FROM orders;
    INSERT INTO log VALUES ('SECRET');
    CREATE VIRTUAL TABLE notes USING fts5(title, body);
    INSERT INTO notes VALUES ('Monday', 'SECRET soup'), ('Tuesday', 'bread');
    CREATE VIRTUAL TABLE places USING rtree(id, x0, x1);
    INSERT INTO places VALUES (7, 0, 2);";

fn shop(like: Like) -> Shop {
    let shop = Shop::sqlite(like);
    let connection = Connection::open(shop.file.as_ref().unwrap()).unwrap();
    connection.execute_batch(MORE).unwrap();
    shop
}

#[tokio::test]
async fn views_virtual_tables_and_names_of_with_are_answered() {
    let shop = shop(Like::default());
    for (statement, first) in [
        ("SELECT max(name) FROM named", json!("name9")),
        ("SELECT n FROM how_many", json!(30)),
        ("SELECT count(*) FROM named", json!(12)),
        (
            "WITH a AS (SELECT name FROM named) SELECT count(*) FROM a",
            json!(12),
        ),
        (
            "WITH a AS (WITH b AS (SELECT id FROM users WHERE id < 5) SELECT id FROM b) SELECT sum(id) FROM a",
            json!(10),
        ),
        (
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4) \
            SELECT count(*) FROM n JOIN active_users AS a ON a.id = n.i",
            json!(4),
        ),
        (
            "SELECT (SELECT count(*) FROM active_users) FROM how_many",
            json!(12),
        ),
        (
            "SELECT u.name FROM (SELECT name FROM named) AS u ORDER BY 1 LIMIT 1",
            json!("name1"),
        ),
        (
            "SELECT title FROM notes WHERE notes MATCH 'soup'",
            json!("Monday"),
        ),
        (
            "SELECT title FROM notes WHERE notes MATCH 'bread' ORDER BY rank",
            json!("Tuesday"),
        ),
        ("SELECT count(*) FROM notes", json!(2)),
        ("SELECT id FROM places WHERE x0 <= 1 AND x1 >= 1", json!(7)),
    ] {
        match shop.run(statement).await {
            Ok((taken, _)) => assert_eq!(taken.rows[0][0], first, "{statement}"),
            Err(error) => panic!("{statement}: {error}"),
        }
    }
}

#[tokio::test]
async fn a_name_of_with_that_is_a_tables_or_a_views_is_refused() {
    let shop = shop(Like::default());
    for statement in [
        "WITH users AS (SELECT token FROM secrets) SELECT * FROM users",
        "WITH active_users AS (SELECT email FROM users) SELECT * FROM active_users",
        "WITH a AS (WITH users AS (SELECT 1 AS one) SELECT one FROM users) SELECT one FROM a",
        "WITH picked AS (SELECT name FROM named) SELECT name FROM picked",
        "WITH notes_data AS (SELECT 1) SELECT 1",
    ] {
        let error = shop.run(statement).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{statement}: {error}");
        assert!(
            error.message().contains("choose another name"),
            "{statement}: {error}"
        );
    }
}

#[tokio::test]
async fn what_a_virtual_table_keeps_its_data_in_is_not_read_written_or_listed() {
    let shop = shop(Like {
        writable: true,
        ..Like::default()
    });
    let cancel = CancellationToken::new();
    for (statement, writes) in [
        ("SELECT c1 FROM notes_content", false),
        ("SELECT count(*) FROM NOTES_CONTENT", false),
        ("SELECT block FROM main.[notes_data]", false),
        ("SELECT data FROM places_node", false),
        (
            "SELECT title FROM notes JOIN notes_content ON c0 = title",
            false,
        ),
        ("UPDATE notes_content SET c1 = 'x'", true),
        ("DELETE FROM notes_data", true),
        ("INSERT INTO notes_config (k, v) VALUES ('x', 1)", true),
    ] {
        let asked = DatabaseQuery {
            writes,
            expect_rows: writes.then_some(2),
            ..query(statement, &cancel)
        };
        assert!(
            shop.databases.read_statement("shop", statement).is_ok(),
            "{statement}"
        );
        let error = shop.run_as(asked).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{statement}: {error}");
        assert!(
            error.message().contains("keeps its data"),
            "{statement}: {error}"
        );
    }
    // The table itself takes a change, with all that it keeps.
    let asked = DatabaseQuery {
        writes: true,
        expect_rows: Some(1),
        ..query(
            "INSERT INTO notes (title, body) VALUES ('Friday', 'fish')",
            &cancel,
        )
    };
    shop.run_as(asked).await.unwrap();
    assert!(
        shop.asked("SELECT title FROM notes('fish')")
            .contains("Friday")
    );
    let question = SchemaQuestion {
        source: "shop",
        search: None,
        table: None,
        offset: 0,
        limit: 100,
        within: Duration::from_secs(30),
        cancel: &cancel,
    };
    let page = shop.databases.schema(question).await.unwrap();
    let names: Vec<&str> = page
        .tables
        .iter()
        .map(|table| table.name.as_str())
        .collect();
    assert!(
        names.contains(&"notes") && names.contains(&"places"),
        "{names:?}"
    );
    assert!(
        !names
            .iter()
            .any(|name| name.starts_with("notes_") || name.starts_with("places_"))
    );
}
