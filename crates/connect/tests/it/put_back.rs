//! Changes that are taken back: every value as it was, and nothing that somebody else changed.

use std::time::Duration;

use haft_contract::{
    Access, BoxFuture, ErrorKind,
    ops::{
        DatabaseOps as _, DatabaseQuery, KeepRows, KeptRowsLimit, OpsError, PutBackRows,
        PutBackRun, ReadStatement as _, RowChange, RowsPutBack, StatementEnd, TakeRows, WantedRows,
        decode_row_change, encode_row_change,
    },
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{Like, Shop, query};

pub(crate) fn writable() -> Like {
    Like {
        writable: true,
        ..Like::default()
    }
}

fn shops() -> [Shop; 3] {
    [
        Shop::postgres(writable()),
        Shop::sqlite(writable()),
        Shop::mariadb(writable()),
    ]
}

/// Keeps what changes did, as the runtime does.
pub(crate) struct Keeper {
    pub(crate) limit: KeptRowsLimit,
    pub(crate) kept: Vec<RowChange>,
    fails: bool,
}

impl Default for Keeper {
    fn default() -> Self {
        Self {
            limit: KeptRowsLimit {
                rows: 100,
                bytes: 1024 * 1024,
            },
            kept: Vec::new(),
            fails: false,
        }
    }
}

impl KeepRows for Keeper {
    fn limit(&self) -> KeptRowsLimit {
        self.limit
    }

    fn keep(&mut self, change: RowChange) -> BoxFuture<'_, Result<(), OpsError>> {
        let kept = if self.fails {
            Err(OpsError::new(ErrorKind::Unavailable, "the store is down"))
        } else {
            // As it is read back later.
            self.kept
                .push(decode_row_change(&encode_row_change(&change)).unwrap());
            Ok(())
        };
        Box::pin(async { kept })
    }
}

impl TakeRows for Keeper {
    fn columns(&mut self, _: &[String]) {}

    fn rows(&mut self, _: Vec<Vec<Value>>) -> BoxFuture<'_, WantedRows> {
        Box::pin(async { WantedRows::More })
    }

    fn keeper(&mut self) -> Option<&mut dyn KeepRows> {
        Some(self)
    }
}

/// Runs a change, and returns what was kept of it, or why nothing was.
pub(crate) async fn change(shop: &Shop, statement: &str, rows: u64) -> Result<RowChange, String> {
    let mut keeper = Keeper::default();
    let end = changed_with(shop, (statement, &[]), rows, &mut keeper).await;
    let end = end.unwrap_or_else(|error| panic!("{statement}: {error}"));
    assert_eq!(end.changed, Some(rows), "{statement}");
    match (keeper.kept.pop(), end.not_kept) {
        (Some(change), None) => Ok(change),
        (None, Some(why)) => Err(why),
        both => panic!("{statement}: {both:?}"),
    }
}

pub(crate) async fn changed_with(
    shop: &Shop,
    (statement, parameters): (&str, &[Value]),
    rows: u64,
    keeper: &mut Keeper,
) -> Result<StatementEnd, OpsError> {
    let cancel = CancellationToken::new();
    let change = DatabaseQuery {
        writes: true,
        expect_rows: Some(rows),
        parameters,
        ..query(statement, &cancel)
    };
    shop.databases.query(change, keeper).await
}

pub(crate) async fn put_back(
    shop: &Shop,
    change: &RowChange,
    run: PutBackRun,
) -> Result<(RowsPutBack, Option<RowChange>), OpsError> {
    let cancel = CancellationToken::new();
    let request = PutBackRows {
        change,
        run,
        within: Duration::from_secs(30),
        cancel: &cancel,
    };
    let mut keeper = Keeper::default();
    let put = shop.databases.put_back(request, &mut keeper).await?;
    Ok((put, keeper.kept.pop()))
}

/// Runs a change, takes it back, takes that back, and compares everything each time.
pub(crate) async fn there_and_back(shop: &Shop, state: &str, statement: &str, rows: u64) {
    let before = shop.asked(state);
    let kept = change(shop, statement, rows).await;
    let kept = kept.unwrap_or_else(|why| panic!("{statement}: {why}"));
    let after = shop.asked(state);
    assert_ne!(before, after, "{statement}");
    let (dry, none) = put_back(shop, &kept, PutBackRun::Dry).await.unwrap();
    assert_eq!(
        (dry.restored.len() as u64, none),
        (rows, None),
        "{statement}"
    );
    assert_eq!(shop.asked(state), after, "{statement}");
    let (put, back) = put_back(shop, &kept, PutBackRun::ForReal).await.unwrap();
    assert_eq!(put.restored.len() as u64, rows, "{statement}: {put:?}");
    assert_eq!(shop.asked(state), before, "{statement}");
    // Twice: nothing is left to do.
    let (again, none) = put_back(shop, &kept, PutBackRun::ForReal).await.unwrap();
    assert_eq!(
        (again.unchanged.len() as u64, none),
        (rows, None),
        "{statement}"
    );
    // The undo can be undone.
    let back = back.unwrap();
    let (redone, _) = put_back(shop, &back, PutBackRun::ForReal).await.unwrap();
    assert_eq!(redone.restored.len() as u64, rows, "{statement}");
    assert_eq!(shop.asked(state), after, "{statement}");
    let (put, _) = put_back(shop, &kept, PutBackRun::ForReal).await.unwrap();
    assert_eq!(put.restored.len() as u64, rows, "{statement}");
    assert_eq!(shop.asked(state), before, "{statement}");
}

const KINDS: &str = r#"
    CREATE TYPE mood AS ENUM ('sad', 'so ''so"');
    CREATE TYPE pair AS (a int, b text);
    CREATE DOMAIN short AS text CHECK (length(VALUE) < 9);
    CREATE TABLE kinds (
        id bigint GENERATED ALWAYS AS IDENTITY, place timestamptz, flag "char" NOT NULL,
        n numeric(30, 10), plain numeric, f4 float4, f8 float8, t text, c char(6), v varchar(9),
        b bytea, bits bit(3), j json, jb jsonb, x xml, ts timestamp, tz timestamptz, d date, tt timetz,
        iv interval, u uuid, ip inet, net cidr, ints int[], texts text[], deep jsonb[], r int4range,
        m money, mo mood, pa pair, sh short, bo boolean, pt point,
        twice numeric GENERATED ALWAYS AS (plain * 2) STORED,
        PRIMARY KEY (id, place, flag));
    INSERT INTO kinds (place, flag, n, plain, f4, f8, t, c, v, b, bits, j, jb, x, ts, tz, d, tt, iv, u, ip,
        net, ints, texts, deep, r, m, mo, pa, sh, bo, pt) VALUES
    ('2026-03-29 01:30:00.123456+05:45', 'a', 1.10, 1.100000000000000000000000000001, '1e-45',
        '-0', E'a\tb''"\\{},NULL', 'ab', 'x  ', '\x00ff27', B'101', '{"a" : 1,  "a":2}', '{"z": 1.0, "a": [null]}',
        '<a>&amp;</a>', 'infinity', '-infinity', '0044-03-15 BC', '04:05:06.7-08', '1 mon -1 day 00:00:00.000001',
        '6f3c0000-0000-4000-8000-000000000001', '::1/64', '10.0.0.0/8', '[0:1]={1,NULL}',
        ARRAY['', 'NULL', NULL, E'"\\,{}'], ARRAY['{"a": "\""}'::jsonb], '[1,5)', '12.34', 'so ''so"',
        ROW(NULL, 'x,"y'), 'short', false, '(1.5,2)'),
    ('2026-03-29 01:30:00.123456+00', 'b', NULL, 'NaN', 'NaN', 'Infinity', '', NULL, NULL, '', NULL, 'null',
        'null', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{}', NULL, NULL, 'empty', NULL, NULL,
        ROW(NULL, NULL), NULL, NULL, NULL);
    GRANT ALL ON kinds TO agent; GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO agent"#;

const KINDS_STATE: &str = "SELECT string_agg(k::text, E'\\n' ORDER BY id, flag) FROM kinds AS k";

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn values_of_every_kind_come_back_as_they_were() {
    let shop = Shop::postgres(writable());
    shop.asked(KINDS);
    for (statement, rows) in [
        ("DELETE FROM kinds", 2),
        (
            "DELETE FROM kinds AS gone USING orders WHERE gone.flag = 'a' AND orders.id = 1",
            1,
        ),
        (
            "UPDATE kinds AS k SET n = 2, plain = 3, f4 = 4, f8 = 5, t = 'x', c = 'y', v = 'z', b = '', \
             bits = B'000', j = '{}', jb = '{}', x = '<b/>', ts = '2026-01-01', tz = '2026-01-01 12:00+01', \
             d = '2026-01-01', tt = '12:00+00', iv = '2 days', u = '6f3c0000-0000-4000-8000-000000000009', \
             ip = '127.0.0.1', net = '127.0.0.0/8', ints = '{7}', texts = '{x}', deep = '{}', r = '[7,9)', \
             m = '9.99', mo = 'sad', pa = ROW(1, ''), sh = 'other', bo = true, pt = '(0,0)' \
             FROM orders AS o WHERE o.id = 1",
            2,
        ),
        (
            "UPDATE kinds SET t = NULL, jb = NULL, pa = NULL WHERE flag = 'b'",
            1,
        ),
        (
            "INSERT INTO kinds (place, flag, t) SELECT '2026-01-01', 'c', name FROM users WHERE id < 4",
            3,
        ),
    ] {
        there_and_back(&shop, KINDS_STATE, statement, rows).await;
    }
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn upserts_and_other_forms_of_changes_are_taken_back() {
    let shop = Shop::postgres(writable());
    let orders = "SELECT string_agg(o::text, ',' ORDER BY id) FROM orders AS o";
    there_and_back(
        &shop,
        orders,
        "INSERT INTO orders (id, status) VALUES (1, 'x'), (77, 'x') \
         ON CONFLICT (id) DO UPDATE SET status = excluded.status",
        2,
    )
    .await;
    shop.asked(
        "CREATE TABLE evil.parts (id int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
        CREATE TABLE evil.parts_1 PARTITION OF evil.parts FOR VALUES FROM (0) TO (10);
        CREATE TABLE evil.parts_2 PARTITION OF evil.parts FOR VALUES FROM (10) TO (20);
        INSERT INTO evil.parts SELECT i, 'x' FROM generate_series(5, 14) AS i;
        CREATE TABLE tree (id int PRIMARY KEY, up int REFERENCES tree);
        INSERT INTO tree VALUES (1, NULL), (2, 1), (3, 2);
        GRANT ALL ON evil.parts, tree TO agent",
    );
    let parts = "SELECT string_agg(p::text, ',' ORDER BY id) FROM evil.parts AS p";
    there_and_back(
        &shop,
        parts,
        "UPDATE evil.parts SET v = 'y' WHERE id > 7",
        7,
    )
    .await;
    there_and_back(&shop, parts, "DELETE FROM evil.parts", 10).await;
    let tree = "SELECT coalesce(string_agg(t::text, ',' ORDER BY id), '') FROM tree AS t";
    there_and_back(&shop, tree, "DELETE FROM tree", 3).await;
}

#[tokio::test]
async fn values_of_every_kind_of_storage_come_back_as_they_were() {
    let shop = Shop::sqlite(writable());
    let connection = rusqlite::Connection::open(shop.file.as_ref().unwrap()).unwrap();
    let kinds = "CREATE TABLE kinds (Id INTEGER, \"pl\"\"ace\" TEXT COLLATE NOCASE, a, b REAL, c TEXT, d BLOB,
            e NUMERIC, PRIMARY KEY (\"pl\"\"ace\", Id)) WITHOUT ROWID;
        INSERT INTO kinds VALUES (1, 'Ä', 9223372036854775807, 0.1, 'x''\"', x'00ff', 5),
            (2, 'A', 1.0, -0.0, '', x'', '5x'), (-3, 'b', NULL, 9e999, NULL, 'text', 1e300),
            (4, x'41', '1', 5e-324, 1, 1, 2);
        CREATE TABLE plain (v TEXT, id INTEGER PRIMARY KEY);
        INSERT INTO plain VALUES ('x', 5), ('y', 6)";
    connection.execute_batch(kinds).unwrap();
    let state = "SELECT group_concat(typeof(id) || quote(id) || typeof(\"pl\"\"ace\") || quote(\"pl\"\"ace\")
        || typeof(a) || quote(a) || typeof(b) || quote(b) || typeof(c) || quote(c) || typeof(d) || quote(d)
        || typeof(e) || quote(e), ';') FROM (SELECT * FROM kinds ORDER BY id)";
    for (statement, rows) in [
        ("DELETE FROM kinds", 4),
        (
            "UPDATE kinds SET a = 'other', B = 2, c = NULL, d = 7, E = 'e'; -- é\n/* x */; ",
            4,
        ),
        (
            "UPDATE kinds AS k SET a = o.id FROM orders AS o WHERE o.id = 3 AND k.id < 3 -- x",
            3,
        ),
        (
            "INSERT INTO kinds (id, \"pl\"\"ace\", a) SELECT id, name, total FROM orders JOIN users USING (id) WHERE id < 4",
            3,
        ),
    ] {
        there_and_back(&shop, state, statement, rows).await;
    }
    let plain = "SELECT group_concat(v || id) FROM plain";
    there_and_back(
        &shop,
        plain,
        "INSERT INTO plain VALUES ('new', 5), ('new', 9) ON CONFLICT (id) DO UPDATE SET v = 'z'",
        2,
    )
    .await;
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL and MariaDB"]
async fn a_row_that_changed_since_is_named_and_kept() {
    for shop in shops() {
        let late = "UPDATE orders SET status = 'late' WHERE id <= 4";
        let kept = change(&shop, late, 4).await.unwrap();
        for meanwhile in [
            "UPDATE orders SET status = 'mine' WHERE id = 2",
            "DELETE FROM orders WHERE id = 3",
            // Another column is nobody's business here, and stays.
            "UPDATE orders SET total = 1 WHERE id = 4",
        ] {
            change(&shop, meanwhile, 1).await.unwrap();
        }
        let (put, back) = put_back(&shop, &kept, PutBackRun::ForReal).await.unwrap();
        let named: Vec<(String, &str)> = put
            .conflicts
            .iter()
            .map(|(place, why)| (kept.named(&kept.rows[*place]), *why))
            .collect();
        assert_eq!(
            named,
            [
                ("id 2".to_owned(), "it has changed since"),
                ("id 3".to_owned(), "it has been removed since")
            ]
        );
        assert_eq!((put.restored.len(), back.unwrap().rows.len()), (2, 2));
        let left = shop
            .run("SELECT id, status, total FROM orders WHERE id <= 4 ORDER BY id")
            .await
            .unwrap();
        let statuses: Vec<String> = left.0.rows.iter().map(|row| row[1].to_string()).collect();
        assert_eq!(statuses, ["\"paid\"", "\"mine\"", "\"paid\""]);
        // What was removed and made again by somebody else stays too.
        let gone = change(&shop, "DELETE FROM orders WHERE id = 9", 1)
            .await
            .unwrap();
        let again = "INSERT INTO orders (id, status) VALUES (9, 'mine')";
        let made = change(&shop, again, 1).await.unwrap();
        let (put, _) = put_back(&shop, &gone, PutBackRun::ForReal).await.unwrap();
        assert_eq!(put.conflicts, [(0, "it has been created again since")]);
        // Taken back in turn, both are.
        for change in [made, gone] {
            let (put, _) = put_back(&shop, &change, PutBackRun::ForReal).await.unwrap();
            assert_eq!(put.restored, [0]);
        }
    }
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn what_cannot_be_taken_back_runs_and_says_so() {
    let shop = Shop::postgres(writable());
    shop.asked(
        "CREATE TABLE touched (id int PRIMARY KEY, v text, at timestamptz);
        CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql
            AS 'BEGIN NEW.at = now(); RETURN NEW; END';
        CREATE TRIGGER touch BEFORE UPDATE ON touched FOR EACH ROW EXECUTE FUNCTION touch();
        CREATE TABLE ruled (id int PRIMARY KEY, v text);
        CREATE RULE r AS ON UPDATE TO ruled DO ALSO NOTIFY x;
        CREATE TABLE guarded (id int PRIMARY KEY, v text);
        ALTER TABLE guarded ENABLE ROW LEVEL SECURITY;
        CREATE POLICY all_of_it ON guarded USING (true);
        CREATE TABLE base (id int PRIMARY KEY, v text); CREATE TABLE child () INHERITS (base);
        CREATE TABLE hidden (id int PRIMARY KEY, v text, w text);
        CREATE TABLE keys (a int[] PRIMARY KEY, v text);
        INSERT INTO touched VALUES (1); INSERT INTO ruled VALUES (1); INSERT INTO guarded VALUES (1);
        INSERT INTO base VALUES (1); INSERT INTO hidden VALUES (1); INSERT INTO keys VALUES ('{1}');
        GRANT ALL ON touched, ruled, guarded, base, child, keys TO agent;
        GRANT INSERT, DELETE, UPDATE ON hidden TO agent; GRANT SELECT (id, v) ON hidden TO agent;
        CREATE VIEW named AS SELECT id, v FROM base; GRANT ALL ON named TO agent",
    );
    for (statement, rows, why) in [
        ("INSERT INTO events (id) VALUES (1)", 1, "no primary key"),
        ("UPDATE touched SET v = 'x'", 1, "it has triggers"),
        ("UPDATE guarded SET v = 'x' WHERE id = 1", 1, "row security"),
        ("UPDATE base SET v = 'x'", 1, "inherit from it"),
        ("UPDATE hidden SET w = 'x'", 1, "may not read `w`"),
        ("DELETE FROM hidden WHERE id = 5", 0, ""),
        (
            "UPDATE orders SET id = 500 WHERE id = 5",
            1,
            "changes the primary key",
        ),
        ("UPDATE keys SET v = 'x'", 1, "several parts"),
    ] {
        if rows == 0 {
            let mut keeper = Keeper::default();
            let end = changed_with(&shop, (statement, &[]), 0, &mut keeper).await;
            assert_eq!(end.unwrap().changed, Some(0), "{statement}");
            assert!(keeper.kept.is_empty());
            continue;
        }
        let said = change(&shop, statement, rows).await.unwrap_err();
        assert!(said.contains(why), "{statement}: {said}");
        let cancel = CancellationToken::new();
        let estimate = shop.databases.explain(query(statement, &cancel)).await;
        let foreseen = estimate.unwrap().not_kept;
        assert!(
            foreseen
                .as_ref()
                .is_some_and(|foreseen| foreseen.contains(why)),
            "{statement}: {foreseen:?}"
        );
    }
    // A role that may read these columns and no others: enough.
    change(&shop, "UPDATE hidden SET v = 'y'", 1).await.unwrap();
    // What triggers change elsewhere, where the operator expects it, is kept nowhere.
    let shop = Shop::postgres_in(
        shop.database.clone().unwrap(),
        Like {
            also_changes: &["invoices"],
            ..writable()
        },
    );
    shop.asked(
        "CREATE TABLE clients (id int PRIMARY KEY); CREATE TABLE invoices (id int PRIMARY KEY,
        client int REFERENCES clients ON DELETE CASCADE);
        INSERT INTO clients VALUES (1); INSERT INTO invoices VALUES (1, 1);
        GRANT ALL ON clients, invoices TO agent",
    );
    let said = change(&shop, "DELETE FROM clients", 1).await.unwrap_err();
    assert!(said.contains("changed other rows"), "{said}");
}

#[tokio::test]
async fn what_sqlite_cannot_take_back_runs_and_says_so() {
    let shop = Shop::sqlite(writable());
    let connection = rusqlite::Connection::open(shop.file.as_ref().unwrap()).unwrap();
    let tables = "CREATE TABLE nulls (a TEXT PRIMARY KEY, v); INSERT INTO nulls VALUES (NULL, 1);
        CREATE TABLE odd (id INTEGER PRIMARY KEY, v); INSERT INTO odd VALUES (1, CAST(x'ff' AS TEXT))";
    connection.execute_batch(tables).unwrap();
    for (statement, why) in [
        ("INSERT INTO log (what) VALUES ('x')", "no primary key"),
        (
            "UPDATE orders SET id = 500 WHERE id = 5",
            "changes the primary key",
        ),
        ("UPDATE nulls SET v = 2", "nothing in its primary key"),
        ("UPDATE odd SET v = 2", "not in UTF-8"),
    ] {
        let said = change(&shop, statement, 1).await.unwrap_err();
        assert!(said.contains(why), "{statement}: {said}");
    }
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL and MariaDB"]
async fn more_than_is_kept_is_changed_and_not_kept() {
    for shop in shops() {
        for (rows, bytes, why) in [
            (3, 1 << 20, "at most 3 are kept"),
            (100, 8, "too large to keep"),
        ] {
            let mut keeper = Keeper {
                limit: KeptRowsLimit { rows, bytes },
                ..Keeper::default()
            };
            let late = (
                "UPDATE orders SET status = 'much later' WHERE id < 5",
                &[][..],
            );
            let end = changed_with(&shop, late, 4, &mut keeper).await.unwrap();
            let said = end.not_kept.unwrap();
            assert!(said.contains(why), "{said}");
            assert_eq!((end.changed, keeper.kept.len()), (Some(4), 0));
        }
        // More rows than stated: nothing happens, and nothing is kept.
        let mut keeper = Keeper::default();
        let all = ("UPDATE orders SET status = 'x'", &[][..]);
        let error = changed_with(&shop, all, 4, &mut keeper).await.unwrap_err();
        assert_eq!((error.kind(), keeper.kept.len()), (ErrorKind::Conflict, 0));
    }
}

/// What cannot be kept because the store is down is not changed, as files are not.
#[tokio::test]
#[ignore = "ci: needs PostgreSQL and MariaDB"]
async fn without_a_place_to_keep_the_rows_nothing_is_changed() {
    for shop in shops() {
        let state = "SELECT count(*) FROM orders";
        let before = shop.asked(state);
        let mut keeper = Keeper {
            fails: true,
            ..Keeper::default()
        };
        let gone = ("DELETE FROM orders WHERE id = $1", &[json!(1)][..]);
        let gone = if shop.database.is_none() {
            ("DELETE FROM orders WHERE id = ?", gone.1)
        } else {
            gone
        };
        let error = changed_with(&shop, gone, 1, &mut keeper).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!(shop.asked(state), before);
    }
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn an_undo_changes_no_rows_but_its_own() {
    let shop = Shop::postgres(writable());
    let kept = change(&shop, "INSERT INTO orders (id, status) VALUES (70, 'x')", 1).await;
    let kept = kept.unwrap();
    // Since then somebody made rows that go with it.
    shop.asked(
        "CREATE TABLE notes (id int PRIMARY KEY, o int REFERENCES orders ON DELETE CASCADE);
        INSERT INTO notes VALUES (1, 70); GRANT ALL ON notes TO agent",
    );
    let error = put_back(&shop, &kept, PutBackRun::ForReal)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.message().contains("1 of `notes`"), "{error}");
    assert_eq!(shop.asked("SELECT count(*) FROM notes").trim(), "1");
    // A table that is not what it was.
    let kept = change(&shop, "DELETE FROM orders WHERE id = 3", 1)
        .await
        .unwrap();
    shop.asked("ALTER TABLE orders ADD COLUMN later int");
    let error = put_back(&shop, &kept, PutBackRun::ForReal)
        .await
        .unwrap_err();
    assert!(error.message().contains("other columns"), "{error}");
    let shop = Shop::sqlite(writable());
    let connection = rusqlite::Connection::open(shop.file.as_ref().unwrap()).unwrap();
    let gone = change(&shop, "DELETE FROM orders WHERE id = 3", 1)
        .await
        .unwrap();
    let kept = change(&shop, "INSERT INTO orders (id, status) VALUES (70, 'x')", 1).await;
    let notes =
        "CREATE TABLE notes (id INTEGER PRIMARY KEY, o REFERENCES orders ON DELETE CASCADE);
        INSERT INTO notes VALUES (1, 70)";
    connection.execute_batch(notes).unwrap();
    let error = put_back(&shop, &kept.unwrap(), PutBackRun::ForReal).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(shop.asked("SELECT count(*) FROM notes"), "Integer(1)");
    // With a trigger since.
    let trigger = "CREATE TRIGGER t AFTER INSERT ON orders BEGIN DELETE FROM users; END";
    connection.execute_batch(trigger).unwrap();
    let error = put_back(&shop, &gone, PutBackRun::ForReal)
        .await
        .unwrap_err();
    assert!(error.message().contains("triggers"), "{error}");
}

#[tokio::test]
async fn an_undo_names_what_it_touches() {
    let shop = Shop::sqlite(writable());
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
    let reader = shop.again(&Like::default());
    let error = reader.read_row_change(&kept).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
}
