//! Changes in MariaDB: nothing but the rows that a change says, however it is written, and whatever
//! triggers, functions and references would do with it.

use std::time::Duration;

use haft_contract::{
    ErrorKind,
    ops::{DatabaseOps as _, DatabaseQuery},
};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::{
    attacks::{state_of_mariadb, wait_until_mariadb_is_idle},
    support::{Like, MARIADB, Shop, Taken, query},
};

const CHANGES: &str = include_str!("../../../../attacks/sql/mariadb_changes.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Changes {
    attack: Vec<Attack>,
    twin: Vec<Twin>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attack {
    why: String,
    statement: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Twin {
    statement: String,
    rows: u64,
}

fn writable() -> Like {
    Like {
        writable: true,
        ..Like::default()
    }
}

fn change<'a>(statement: &'a str, rows: u64, cancel: &'a CancellationToken) -> DatabaseQuery<'a> {
    DatabaseQuery {
        writes: true,
        expect_rows: Some(rows),
        ..query(statement, cancel)
    }
}

#[tokio::test]
#[ignore = "ci: needs MariaDB"]
async fn no_hostile_change_in_mariadb_changes_anything() {
    let shop = Shop::mariadb(writable());
    let changes: Changes = toml::from_str(CHANGES).unwrap();
    assert!(changes.attack.len() >= 120);
    let before = state_of_mariadb(&shop);
    assert!(before.contains(".secrets\t"), "{before}");
    let cancel = CancellationToken::new();
    let (mut by_text, mut by_server) = (0, 0);
    for Attack { why, statement } in &changes.attack {
        let ran = shop.run_as(change(statement, 1, &cancel)).await;
        let error = ran.map(|_| panic!("{why}: {statement}")).unwrap_err();
        match error.kind() {
            ErrorKind::Denied => by_text += 1,
            _ => by_server += 1,
        }
        assert!(!error.message().contains("SECRET"), "{statement}: {error}");
    }
    println!("refused before it ran {by_text}, by the server or its number of rows {by_server}");
    wait_until_mariadb_is_idle(&shop).await;
    assert_eq!(state_of_mariadb(&shop), before);
}

#[tokio::test]
#[ignore = "ci: needs MariaDB"]
async fn ordinary_changes_in_mariadb_are_made() {
    let shop = Shop::mariadb(writable());
    let changes: Changes = toml::from_str(CHANGES).unwrap();
    let cancel = CancellationToken::new();
    for Twin { statement, rows } in &changes.twin {
        let ran = shop.run_as(change(statement, *rows, &cancel)).await;
        let (_, end) = ran.unwrap_or_else(|error| panic!("{statement}: {error}"));
        assert_eq!(end.changed, Some(*rows), "{statement}");
    }
    let state = "SELECT concat_ws(' ', count(*), sum(status = 'late'), (SELECT count(*) FROM events),
        (SELECT count(*) FROM users WHERE name LIKE '% jr.'), (SELECT sum(quantity) FROM order_items),
        (SELECT JSON_VALUE(items, '$[0].sku') FROM orders WHERE id = 5)) FROM orders";
    assert_eq!(shop.asked(state), "36 3 6 3 255 b");
}

const LINKED: &str = "
    CREATE TABLE clients (id int PRIMARY KEY, name varchar(20), late int DEFAULT 0,
        seen datetime DEFAULT '2026-01-01' ON UPDATE CURRENT_TIMESTAMP);
    CREATE TABLE invoices (id int PRIMARY KEY, client int,
        FOREIGN KEY (client) REFERENCES clients (id) ON DELETE CASCADE ON UPDATE CASCADE);
    CREATE TABLE kept (id int PRIMARY KEY); CREATE TABLE of_kept (kept int REFERENCES kept (id));
    CREATE TABLE audit (what varchar(20)); CREATE TABLE parts (id int, v int);
    CREATE TABLE log (what varchar(20)) ENGINE = Aria; CREATE TABLE logged (id int);
    CREATE TABLE apart (id int, v int) PARTITION BY HASH (id) PARTITIONS 3;
    INSERT INTO clients (id, name) VALUES (1, 'a'), (2, 'b'), (3, 'c');
    INSERT INTO invoices VALUES (1, 1), (2, 1), (3, 2); INSERT INTO parts VALUES (1, 5), (2, 6), (3, 5);
    INSERT INTO apart VALUES (1, 1); INSERT INTO kept VALUES (1), (2); INSERT INTO of_kept VALUES (1);
    CREATE TRIGGER noted AFTER UPDATE ON parts FOR EACH ROW INSERT INTO audit VALUES ('x');
    CREATE TRIGGER wrote BEFORE INSERT ON logged FOR EACH ROW INSERT INTO log VALUES ('x');
    CREATE VIEW some_clients AS SELECT id, name FROM clients";

/// Changes with the rows they say, and why nothing is changed.
const NOT_CHANGED: &[(&str, u64, &str)] = &[
    (
        "DELETE FROM clients WHERE id = 3",
        1,
        "`invoices` refer to rows of `clients`",
    ),
    (
        "UPDATE clients SET id = 9, seen = now() WHERE id = 1",
        1,
        "`invoices` refer",
    ),
    (
        "UPDATE clients SET name = 'x' WHERE id = 1",
        1,
        "`seen = CURRENT_TIMESTAMP`",
    ),
    (
        "UPDATE parts SET v = 7 WHERE id = 1",
        1,
        "written 2 rows instead of 1",
    ),
    // Found and not written, so that what the trigger writes is of the same number.
    (
        "UPDATE parts SET v = 5 WHERE v = 5",
        2,
        "have their new values already",
    ),
    (
        "UPDATE orders SET status = wipe_all() WHERE id = 1",
        1,
        "written 13 rows instead of 1",
    ),
    ("UPDATE notes SET body = 'x'", 1, "the engine MyISAM"),
    ("INSERT INTO notes VALUES (2, 'x')", 1, "the engine MyISAM"),
    ("DELETE FROM log", 0, "the engine Aria"),
    ("UPDATE apart SET v = 2", 1, "is partitioned"),
    ("UPDATE past SET body = 'x'", 1, "a table with a history"),
    (
        "UPDATE some_clients SET name = 'x' WHERE id = 1",
        1,
        "is a view",
    ),
    ("DELETE FROM evil.users", 1, "of other databases"),
    (
        "DELETE FROM invoices WHERE client = 1",
        1,
        "2 rows instead of 1",
    ),
    ("DELETE FROM kept WHERE id = 1", 1, "foreign key constraint"),
    (
        "INSERT INTO parts VALUES (4, 1), (5, 1)",
        1,
        "2 rows instead of 1",
    ),
    (
        "UPDATE clients SET name = 'x', seen = now() WHERE nothing = 1",
        1,
        "Unknown column",
    ),
    ("REPLACE INTO parts VALUES (1, 1)", 1, "removes rows"),
    (
        "INSERT INTO clients (id) VALUES (1) ON DUPLICATE KEY UPDATE late = 1",
        1,
        "`ON DUPLICATE KEY`",
    ),
    (
        "UPDATE parts p JOIN clients c ON c.id = p.id SET p.v = 1",
        3,
        "joined tables",
    ),
    (
        "UPDATE parts SET v = 1 ORDER BY id LIMIT 1",
        1,
        "a clause of the `UPDATE`",
    ),
    ("DELETE FROM parts LIMIT 1", 1, "a clause of the `DELETE`"),
    (
        "DELETE FROM parts USING parts JOIN clients",
        1,
        "several tables",
    ),
];

#[tokio::test]
#[ignore = "ci: needs MariaDB"]
async fn what_changes_with_a_change_in_mariadb_is_not_overlooked() {
    let shop = Shop::mariadb(Like {
        functions: &["wipe_all"],
        ..writable()
    });
    shop.asked(LINKED);
    let cancel = CancellationToken::new();
    let before = state_of_mariadb(&shop);
    for (statement, rows, why) in NOT_CHANGED {
        let error = shop.run_as(change(statement, *rows, &cancel)).await;
        let error = error.unwrap_err();
        assert!(error.message().contains(why), "{statement}: {error}");
        assert!(!error.message().contains("stays"), "{statement}: {error}");
    }
    wait_until_mariadb_is_idle(&shop).await;
    assert_eq!(state_of_mariadb(&shop), before);
    // What no rollback reaches is said.
    let logged = "INSERT INTO logged VALUES (1)";
    let error = shop.run_as(change(logged, 1, &cancel)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.message().contains("stays"), "{error}");
    let left = "SELECT concat((SELECT count(*) FROM logged), ' ', (SELECT count(*) FROM log))";
    assert_eq!(shop.asked(left), "0 1");
    // Found are also rows that have the new value already.
    let update = "UPDATE invoices SET client = 2 WHERE id <= 3";
    let (_, end) = shop.run_as(change(update, 3, &cancel)).await.unwrap();
    assert_eq!(end.changed, Some(3));
    let update = "UPDATE clients SET name = ?, seen = CURRENT_TIMESTAMP WHERE id = 1";
    let parameters = [serde_json::json!("it's")];
    let asked = DatabaseQuery {
        parameters: &parameters,
        ..change(update, 1, &cancel)
    };
    shop.run_as(asked).await.unwrap();
    let gone = "DELETE FROM kept WHERE id = 2";
    shop.run_as(change(gone, 1, &cancel)).await.unwrap();
    let after = shop.asked("SELECT concat(group_concat(client), (SELECT name FROM clients WHERE id = 1)) FROM invoices");
    assert_eq!(after, "2,2,2it's");
}

/// References from where the role sees nothing.
#[tokio::test]
#[ignore = "ci: needs MariaDB"]
async fn rows_of_tables_that_the_role_does_not_see_do_not_change_either() {
    let shop = Shop::mariadb(writable());
    let own = shop.mariadb.clone().unwrap();
    let hidden = MARIADB.new_database();
    MARIADB.sql_in(
        &hidden,
        &format!(
            "CREATE TABLE order_lines (id int PRIMARY KEY, o int REFERENCES {own}.orders (id)
                ON DELETE CASCADE ON UPDATE SET NULL);
            CREATE TABLE firm (id int PRIMARY KEY, p int REFERENCES {own}.products (id));
            INSERT INTO order_lines VALUES (1, 1), (2, 1); INSERT INTO firm VALUES (1, 1)"
        ),
    );
    let cancel = CancellationToken::new();
    for statement in [
        "DELETE FROM orders WHERE id = 1",
        "DELETE FROM orders WHERE id = 2",
        "UPDATE orders SET id = 500 WHERE id = 1",
    ] {
        let error = shop.run_as(change(statement, 1, &cancel)).await;
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{statement}: {error}");
        assert!(error.message().contains("does not see"), "{error}");
    }
    let state = "SELECT concat(count(*), ' ', sum(o)) FROM order_lines";
    assert_eq!(MARIADB.sql_in(&hidden, state), "2 2");
    // Nothing follows these, and where something is in the way the server says so.
    for statement in [
        "UPDATE orders SET status = 'x' WHERE id = 1",
        "INSERT INTO orders (id) VALUES (900)",
        "DELETE FROM products WHERE id = 2",
        "UPDATE products SET id = 77 WHERE id = 3",
    ] {
        let changed = shop.run_as(change(statement, 1, &cancel)).await;
        assert_eq!(changed.unwrap().1.changed, Some(1), "{statement}");
    }
    let firm = "DELETE FROM products WHERE id = 1";
    let error = shop.run_as(change(firm, 1, &cancel)).await.unwrap_err();
    assert!(error.message().contains("foreign key"), "{error}");
}

#[tokio::test]
#[ignore = "ci: needs MariaDB"]
async fn a_change_in_mariadb_that_is_stopped_changes_nothing() {
    let shop = Shop::mariadb(Like {
        functions: &["sleep"],
        ..writable()
    });
    let threads = "SELECT count(*) FROM information_schema.processlist WHERE user = 'agent' \
        AND db = database()";
    let working = "SELECT count(*) FROM information_schema.processlist WHERE user = 'agent' \
        AND db = database() AND command = 'Execute'";
    let slow = "UPDATE orders SET total = total + 1 + sleep(1000) WHERE id = 1";
    let cancel = CancellationToken::new();
    let mut taken = Taken::default();
    let running = shop.databases.query(change(slow, 1, &cancel), &mut taken);
    let cancelling = async {
        while shop.asked(working) == "0" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        cancel.cancel();
    };
    let (ended, ()) = tokio::join!(running, cancelling);
    assert_eq!(shop.asked(threads), "0");
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Cancelled);
    let cancel = CancellationToken::new();
    let late = DatabaseQuery {
        within: Duration::from_millis(400),
        ..change(slow, 1, &cancel)
    };
    let error = shop.run_as(late).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert_eq!(shop.asked(threads), "0");
    assert_eq!(shop.asked("SELECT total FROM orders WHERE id = 1"), "10.50");
}
