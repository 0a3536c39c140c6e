//! Changes in MariaDB that are taken back: every value as it was, and nothing that somebody else changed.

use haft_contract::{
    Access, ErrorKind,
    ops::{DatabaseOps as _, PutBackRun, ReadStatement as _, RowChange},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    put_back::{Keeper, change, changed_with, put_back, there_and_back, writable},
    support::{Like, MARIADB, Shop, query},
};

/// Numbers that are rounded when they are written, texts that not every character set holds, moments.
const KINDS: &str = r#"
    CREATE TABLE kinds (
        id bigint unsigned, at timestamp(3) NOT NULL DEFAULT '2026-01-01', part decimal(20, 10), word varchar(20) CHARACTER SET latin1,
        ts timestamp(6) NULL, dt datetime(6), t time(2), d date, y year, f float, f2 float(7, 3), db double,
        de decimal(65, 30), bits bit(9), e enum ('a', 'b''c', ''), s set ('x', 'y', 'z'), bl blob, ll longblob,
        l1 varchar(20) CHARACTER SET latin1, u varchar(20) CHARACTER SET utf16, sj text CHARACTER SET sjis,
        b3 varchar(20) CHARACTER SET utf8mb3 COLLATE utf8mb3_bin, mt mediumtext, j json, i6 inet6, uu uuid,
        bi bigint, bin binary(4), ch char(5), ok boolean, hidden int INVISIBLE DEFAULT 7,
        half bigint unsigned AS (id DIV 2) STORED, shown varchar(50) AS (concat(ch, '!')) VIRTUAL,
        PRIMARY KEY (id, at, part, word));
    SET time_zone = '+00:00';
    INSERT INTO kinds (id, at, part, word, ts, dt, t, d, y, f, f2, db, de, bits, e, s, bl, ll, l1, u, sj, b3, mt, j,
        i6, uu, bi, bin, ch, ok, hidden) VALUES
    (18446744073709551615, '2026-10-25 00:30:00.123', 1.0000000001, x'e9', '2026-10-25 01:30:00.000001',
        '2026-01-01 01:02:03.000004', '-51:04:05.12', '0000-00-00', 2026, 0.1, 1.2345, 1e-310, 1.100000000000000000000000000001, b'101000001',
        'b''c', 'x,z', x'00ff27', repeat('x', 100000), x'e9', convert('é☃𝄞' using utf16), x'835c', 'Ä''"\\',
        '\t\0''"\\\\{},NULL 𝄞', '{"a" : 1,  "a":2}', '::1', '6f3c0000-0000-4000-8000-000000000001', -5, x'01', 'ab ', true, 8),
    (1, '2026-10-25 01:30:00.123', -1, 'A', NULL, NULL, NULL, NULL, NULL, -0.0, NULL, -1e308, NULL, NULL, NULL, '', '', NULL, '', NULL,
        NULL, '', '', 'null', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
    "#;

const KINDS_STATE: &str = "SET time_zone = '+00:00'; SELECT group_concat(concat_ws('|', id, hex(at), part, hex(word),
    ifnull(unix_timestamp(ts), 'null'), ifnull(dt, 'null'), ifnull(t, 'null'), ifnull(d, 'null'), ifnull(y, 'null'),
    ifnull(f, 'null'), f = 0.1, ifnull(f2, 'null'), ifnull(db, 'null'), ifnull(de, 'null'), ifnull(bits + 0, 'null'), ifnull(e + 0, 'null'),
    ifnull(s + 0, 'null'), ifnull(hex(bl), 'null'), ifnull(md5(ll), 'null'), ifnull(hex(l1), 'null'), ifnull(hex(u), 'null'),
    ifnull(hex(sj), 'null'), ifnull(hex(b3), 'null'), ifnull(hex(mt), 'null'), ifnull(hex(j), 'null'), ifnull(i6, 'null'),
    ifnull(uu, 'null'), ifnull(bi, 'null'), ifnull(hex(bin), 'null'), ifnull(hex(ch), 'null'), ifnull(ok, 'null'),
    ifnull(hidden, 'null'), half, ifnull(shown, 'null')) ORDER BY id, word SEPARATOR '\\n') FROM kinds";

#[tokio::test]
#[ignore = "ci: needs MariaDB"]
async fn values_of_every_kind_of_mariadb_come_back_as_they_were() {
    let shop = Shop::mariadb(writable());
    // Moments are written in another zone than they are kept in.
    MARIADB.sql("SET GLOBAL time_zone = '+01:00'");
    shop.asked(KINDS);
    for (statement, rows) in [
        ("DELETE FROM kinds", 2),
        (
            "UPDATE kinds AS k SET ts = '2026-07-01 12:00:00', dt = now(), t = '1:00', d = '2026-01-01', y = 1999, f = 4, \
             f2 = 5, db = 6, de = 7, bits = 1, e = 'a', s = 'y', bl = 'z', ll = 'z', l1 = 'z', u = 'z', sj = 'z', b3 = 'z', \
             mt = 'z', j = '{}', i6 = '::2', uu = '6f3c0000-0000-4000-8000-000000000002', bi = 9, bin = 'z', ch = 'z', \
             ok = false, hidden = 1",
            2,
        ),
        (
            "UPDATE kinds SET mt = concat(mt, 'x'), ok = NOT ok WHERE word = 'a' OR id > 5",
            2,
        ),
        (
            "INSERT INTO kinds (id, part, word, ch) SELECT id, 1.5, name, 'new' FROM users WHERE id < 4",
            3,
        ),
    ] {
        there_and_back(&shop, KINDS_STATE, statement, rows).await;
    }
}

#[tokio::test]
#[ignore = "ci: needs MariaDB"]
async fn all_forms_of_changes_in_mariadb_are_taken_back() {
    let shop = Shop::mariadb(writable());
    let orders = "SELECT group_concat(concat_ws(',', id, user_id, ifnull(total, '-'), status, items) ORDER BY id) FROM orders";
    for (statement, rows) in [
        (
            "INSERT INTO orders (id, status) VALUES (77, 'x'), (78, 'y')",
            2,
        ),
        (
            "UPDATE orders SET status = concat(status, '?') WHERE status LIKE 'pa%' AND id BETWEEN 3 AND 8",
            6,
        ),
        (
            "UPDATE orders AS o SET status = (SELECT name FROM users WHERE users.id = o.user_id) WHERE o.id IN (SELECT id FROM products)",
            5,
        ),
        ("UPDATE orders SET total = NULL", 30),
        (
            "DELETE FROM orders WHERE user_id IN (SELECT id FROM users WHERE country = 'DE') -- x",
            10,
        ),
    ] {
        there_and_back(&shop, orders, statement, rows).await;
    }
    // Placeholders of the condition are the last ones.
    let before = shop.asked(orders);
    let mut keeper = Keeper::default();
    let (status, low, high) = (json!("it's ?"), json!(4), json!(6));
    let placed = (
        "UPDATE orders SET status = ?, total = '?' + ? WHERE id >= ? AND id <= ?",
        &[status, json!(2), low, high][..],
    );
    changed_with(&shop, placed, 3, &mut keeper)
        .await
        .unwrap_err();
    let placed = (
        "UPDATE orders SET status = ?, total = 1 + ? WHERE id >= ? AND id <= ?",
        placed.1,
    );
    changed_with(&shop, placed, 3, &mut keeper).await.unwrap();
    let kept = keeper.kept.pop().unwrap();
    assert_eq!(kept.rows.len(), 3);
    let (put, _) = put_back(&shop, &kept, PutBackRun::ForReal).await.unwrap();
    assert_eq!((put.restored.len(), shop.asked(orders)), (3, before));
    // Rows that refer to others of their table come and go in an order.
    shop.asked(
        "CREATE TABLE tree (id int PRIMARY KEY, up int, FOREIGN KEY (up) REFERENCES tree (id));
        CREATE TABLE `odd ``name` (`a ``b` int AUTO_INCREMENT PRIMARY KEY, `set` varchar(9), `where` timestamp DEFAULT now() ON UPDATE now());
        INSERT INTO `odd ``name` (`set`) VALUES ('x'), ('y')",
    );
    let tree =
        "SELECT ifnull(group_concat(concat(id, ':', ifnull(up, '-')) ORDER BY id), '') FROM tree";
    let grown = "INSERT INTO tree VALUES (1, NULL), (5, 1), (3, 5), (4, 3), (2, 4)";
    there_and_back(&shop, tree, grown, 5).await;
    let odd = "SELECT group_concat(concat(`a ``b`, `set`, `where`) ORDER BY 1) FROM `odd ``name`";
    let updated = "UPDATE `odd ``name` AS `where` SET `set` = 'WHERE', `where` = '2020-01-01' WHERE `where`.`set` <> 'WHERE'";
    there_and_back(&shop, odd, updated, 2).await;
    there_and_back(
        &shop,
        odd,
        "INSERT INTO `odd ``name` (`set`) VALUES ('z')",
        1,
    )
    .await;
}

#[tokio::test]
#[ignore = "ci: needs MariaDB"]
async fn what_mariadb_cannot_take_back_runs_and_says_so() {
    let shop = Shop::mariadb(Like {
        functions: &["one"],
        ..writable()
    });
    shop.asked(
        "CREATE TABLE touched (id int PRIMARY KEY, v int, w int); INSERT INTO touched VALUES (1, 1, 1);
        CREATE TRIGGER touch BEFORE UPDATE ON touched FOR EACH ROW SET NEW.w = NEW.v * 2;
        CREATE TABLE places (id int PRIMARY KEY, p point); INSERT INTO places VALUES (1, point(1, 2));
        CREATE FUNCTION one() RETURNS int RETURN 1",
    );
    for (statement, why, is_foreseen) in [
        ("INSERT INTO events (id) VALUES (1)", "no primary key", true),
        (
            "UPDATE orders SET id = 500 WHERE id = 5",
            "changes the primary key",
            true,
        ),
        ("UPDATE touched SET v = 5", "it has triggers", true),
        ("UPDATE places SET p = NULL", "such as those of `p`", true),
        (
            "UPDATE orders SET status = 'x' WHERE id = one()",
            "not run twice",
            false,
        ),
        // Which rows are found the second time is for nobody to know.
        (
            "UPDATE orders SET status = left(uuid(), 9) WHERE id = 3 AND rand() < 2",
            "",
            false,
        ),
    ] {
        let cancel = CancellationToken::new();
        let estimate = shop.databases.explain(query(statement, &cancel)).await;
        let foreseen = estimate.unwrap().not_kept.unwrap_or_default();
        assert_eq!(
            is_foreseen,
            foreseen.contains(why) && !why.is_empty(),
            "{statement}: {foreseen}"
        );
        let kept = change(&shop, statement, 1).await;
        if !why.is_empty() {
            let said = kept.unwrap_err();
            assert!(said.contains(why), "{statement}: {said}");
        }
    }
    // For a role that may do little.
    let database = shop.mariadb.clone().unwrap();
    let role = MARIADB.new_database();
    MARIADB.sql(&format!(
        "CREATE USER {role}@localhost; GRANT SELECT, UPDATE, INSERT, DELETE ON {database}.touched TO {role}@localhost;
        GRANT SELECT (id, name), UPDATE (name, email) ON {database}.users TO {role}@localhost"
    ));
    let shop = Shop::mariadb_in(
        database,
        Like {
            role: role.leak(),
            ..writable()
        },
    );
    for (statement, why) in [
        ("UPDATE touched SET v = 6", "it has triggers"),
        ("UPDATE users SET email = NULL WHERE id = 1", "`email`"),
    ] {
        let said = change(&shop, statement, 1).await.unwrap_err();
        assert!(said.contains(why), "{statement}: {said}");
    }
    change(&shop, "UPDATE users SET name = 'y' WHERE id = 1", 1)
        .await
        .unwrap();
}

#[tokio::test]
#[ignore = "ci: needs MariaDB"]
async fn rows_that_an_update_finds_by_chance_are_kept_only_if_they_are_the_ones() {
    let shop = Shop::mariadb(writable());
    let state = "SELECT group_concat(status ORDER BY id) FROM orders";
    let (mut kept, mut not_kept) = (0, 0);
    for _ in 0..30 {
        let before = shop.asked(state);
        let mut keeper = Keeper::default();
        let some = (
            "UPDATE orders SET status = concat('s', id) WHERE id < 5 AND rand() < 0.5",
            &[][..],
        );
        let Ok(end) = changed_with(&shop, some, 2, &mut keeper).await else {
            assert_eq!(shop.asked(state), before);
            continue;
        };
        if let Some(change) = keeper.kept.pop() {
            let (put, _) = put_back(&shop, &change, PutBackRun::ForReal).await.unwrap();
            assert!(put.conflicts.is_empty());
            assert_eq!(shop.asked(state), before);
            kept += 1;
        } else {
            assert!(end.not_kept.is_some());
            shop.asked("UPDATE orders SET status = 'paid'");
            not_kept += 1;
        }
    }
    println!("{kept} kept, {not_kept} not");
    assert!(not_kept > 0);
}

#[tokio::test]
#[ignore = "ci: needs MariaDB"]
async fn an_undo_in_mariadb_changes_no_rows_but_its_own() {
    let shop = Shop::mariadb(writable());
    let made = change(&shop, "INSERT INTO orders (id, status) VALUES (70, 'x')", 1).await;
    let made = made.unwrap();
    let gone = change(&shop, "DELETE FROM orders WHERE id = 3", 1)
        .await
        .unwrap();
    let late = "UPDATE orders SET status = 'late' WHERE id = 4";
    let late = change(&shop, late, 1).await.unwrap();
    // Since then somebody made rows that go with it, where the role does not see them.
    let hidden = MARIADB.new_database();
    let database = shop.mariadb.clone().unwrap();
    MARIADB.sql_in(
        &hidden,
        &format!("CREATE TABLE notes_of (id int PRIMARY KEY, o int REFERENCES {database}.orders (id) ON DELETE CASCADE);
            INSERT INTO notes_of VALUES (1, 70)"),
    );
    let refused = |error: haft_contract::ops::OpsError, why: &str| {
        assert!(error.message().contains(why), "{error}");
    };
    let error = put_back(&shop, &made, PutBackRun::ForReal)
        .await
        .unwrap_err();
    refused(error, "does not see");
    assert_eq!(
        MARIADB.sql_in(&hidden, "SELECT count(*) FROM notes_of"),
        "1"
    );
    // With a trigger since.
    shop.asked("CREATE TRIGGER t AFTER UPDATE ON orders FOR EACH ROW UPDATE products SET stock = 0 WHERE id = 1");
    let error = put_back(&shop, &late, PutBackRun::ForReal)
        .await
        .unwrap_err();
    refused(error, "triggers");
    shop.asked("DROP TRIGGER t");
    // A table that is not what it was.
    shop.asked("ALTER TABLE orders ADD COLUMN later int");
    let error = put_back(&shop, &gone, PutBackRun::ForReal)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    refused(error, "other columns");
    shop.asked("ALTER TABLE orders DROP COLUMN later");
    MARIADB.sql_in(&hidden, "DROP TABLE notes_of");
    shop.asked("ALTER TABLE orders ENGINE = Aria");
    let error = put_back(&shop, &late, PutBackRun::ForReal).await;
    assert!(error.is_err(), "{error:?}");
    assert_eq!(
        shop.asked("SELECT concat(count(*), sum(status = 'late')) FROM orders"),
        "301"
    );
}

/// A row that somebody is changing is waited for, and then it is what they made of it.
#[tokio::test]
#[ignore = "ci: needs MariaDB"]
async fn an_undo_in_mariadb_waits_for_who_changes_the_row() {
    let shop = Shop::mariadb(writable());
    let late = "UPDATE orders SET status = 'late' WHERE id IN (1, 2)";
    let kept = change(&shop, late, 2).await.unwrap();
    let database = shop.mariadb.clone().unwrap();
    let other = std::thread::spawn(move || {
        MARIADB.sql_in(
            &database,
            "BEGIN; UPDATE orders SET status = 'mine' WHERE id = 1; SELECT sleep(1); COMMIT",
        );
    });
    let sleeping = "SELECT count(*) FROM information_schema.processlist WHERE state = 'User sleep'";
    while shop.asked(sleeping) == "0" {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let (put, _) = put_back(&shop, &kept, PutBackRun::ForReal).await.unwrap();
    other.join().unwrap();
    assert_eq!(put.restored, [1]);
    assert_eq!(put.conflicts, [(0, "it has changed since")]);
    let left = "SELECT group_concat(status ORDER BY id) FROM orders WHERE id < 3";
    assert_eq!(shop.asked(left), "mine,paid");
}

#[tokio::test]
#[ignore = "ci: needs MariaDB"]
async fn an_undo_in_mariadb_names_what_it_touches() {
    let shop = Shop::mariadb(writable());
    let touches = |change: &RowChange| {
        let reading = shop.databases.read_row_change(change).unwrap();
        let accesses = reading.accesses.into_iter().map(|access| match access {
            Access::Database { source, writes } => format!("{source} {writes}"),
            other => panic!("{other:?}"),
        });
        accesses.collect::<Vec<String>>()
    };
    let status = "UPDATE orders SET Status = 'late' WHERE id = 1";
    let kept = change(&shop, status, 1).await.unwrap();
    assert_eq!(
        touches(&kept),
        ["shop.orders.id false", "shop.orders.status true"]
    );
    let kept = change(&shop, "DELETE FROM orders WHERE id = 1", 1)
        .await
        .unwrap();
    assert_eq!(touches(&kept), ["shop.orders.* true"]);
    let reader = Shop::mariadb_in(shop.mariadb.clone().unwrap(), Like::default());
    let error = reader.databases.read_row_change(&kept).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    let error = put_back(&reader, &kept, PutBackRun::ForReal).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Denied);
}
