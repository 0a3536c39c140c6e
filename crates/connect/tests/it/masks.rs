//! Masked columns: seen by nobody who asks, and used by no clause that would tell them apart.

use haft_connect::MASKED_VALUE;
use haft_contract::{ErrorKind, ops::DatabaseOps as _};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::{Like, Shop, query};

fn masking() -> Like {
    Like {
        masks: &["users.email", "Users.Country"],
        writable: true,
        ..Like::default()
    }
}

fn shops() -> [Shop; 3] {
    [
        Shop::postgres(masking()),
        Shop::sqlite(masking()),
        Shop::mariadb(masking()),
    ]
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL and MariaDB"]
async fn a_masked_column_comes_back_masked_and_nothing_else_does() {
    let masked = json!(MASKED_VALUE);
    for shop in shops() {
        shop.asked("UPDATE users SET email = NULL WHERE id = 2");
        for (statement, places) in [
            ("SELECT id, email, name FROM users", &[1][..]),
            (
                "SELECT u.email, u.id FROM users AS u ORDER BY u.id, name",
                &[0],
            ),
            ("SELECT users.email FROM users WHERE id < 3 LIMIT 2", &[0]),
            (
                "SELECT Email, id AS n, EMAIL FROM users ORDER BY n",
                &[0, 2],
            ),
            (
                "SELECT 1, id + 1, email FROM users ORDER BY name DESC",
                &[2],
            ),
            (
                "SELECT o.id, email, o.status FROM orders AS o JOIN users AS u ON u.id = o.user_id",
                &[1],
            ),
            (
                "WITH o AS (SELECT id FROM orders) SELECT email FROM users, o",
                &[0],
            ),
        ] {
            let (taken, _) = shop.run(statement).await.unwrap();
            assert!(!taken.rows.is_empty(), "{statement}");
            for row in &taken.rows {
                for (place, value) in row.iter().enumerate() {
                    let is_masked = *value == masked;
                    assert_eq!(is_masked, places.contains(&place), "{statement}: {row:?}");
                }
            }
        }
        for statement in [
            "SELECT * FROM users ORDER BY id",
            "SELECT u.*, o.* FROM users AS u, orders AS o",
            "SELECT email, u.*, 1, o.id, email FROM users AS u, orders AS o",
            "SELECT *, name FROM users WHERE active",
        ] {
            let (taken, _) = shop.run(statement).await.unwrap();
            let names: Vec<String> = taken
                .columns
                .iter()
                .map(|name| name.to_lowercase())
                .collect();
            for row in &taken.rows {
                for (name, value) in names.iter().zip(row) {
                    let is_masked = *value == masked;
                    let wanted = name == "email" || name == "country";
                    assert_eq!(is_masked, wanted, "{statement}: {name}: {value}");
                }
            }
        }
        // What does not touch it is as it was.
        for statement in [
            "SELECT count(*) FROM users GROUP BY active",
            "SELECT DISTINCT name FROM users ORDER BY 1",
            "SELECT max(id) FROM users HAVING count(*) > 1",
        ] {
            let (taken, _) = shop.run(statement).await.unwrap();
            assert!(!taken.rows.contains(&vec![masked.clone()]), "{statement}");
        }
    }
}

/// Each of these would tell something of a value, or hand it on under another name.
const REFUSED: &[&str] = &[
    "SELECT id FROM users WHERE email = 'a'",
    "SELECT id FROM users WHERE email IS NULL",
    "SELECT id FROM users AS u WHERE u.email LIKE 'a%'",
    "SELECT id FROM users WHERE id IN (SELECT id FROM users WHERE email > 'a')",
    "SELECT id FROM users ORDER BY email",
    "SELECT email FROM users ORDER BY email",
    "SELECT id, email FROM users ORDER BY 2",
    "SELECT id, email FROM users ORDER BY (2)",
    "SELECT id, email FROM users ORDER BY +2",
    "SELECT * FROM users ORDER BY 3",
    "SELECT email AS e FROM users",
    "SELECT email e FROM users",
    "SELECT email AS e FROM users ORDER BY e",
    "SELECT email AS e, id FROM users WHERE e > 'a'",
    "SELECT id AS email, email FROM users ORDER BY email",
    "SELECT *, id AS Email FROM users ORDER BY email",
    "SELECT email || '' FROM users",
    "SELECT (email) FROM users",
    "SELECT CAST(email AS text) FROM users",
    "SELECT length(email) FROM users",
    "SELECT lower(u.email) FROM users AS u",
    "SELECT CASE WHEN id > 1 THEN email END FROM users",
    "SELECT coalesce(email, 'x') FROM users",
    "SELECT count(email) FROM users",
    "SELECT min(email) FROM users",
    "SELECT DISTINCT email FROM users",
    "SELECT DISTINCT * FROM users",
    "SELECT email FROM users GROUP BY email",
    "SELECT count(*) FROM users GROUP BY email",
    "SELECT email FROM users GROUP BY id",
    "SELECT email, count(*) FROM users GROUP BY 1",
    "SELECT count(*) FROM users HAVING min(email) > 'a'",
    "SELECT row_number() OVER (ORDER BY email) FROM users",
    "SELECT row_number() OVER w FROM users WINDOW w AS (PARTITION BY email)",
    "SELECT email FROM users UNION SELECT 'a'",
    "SELECT 'a' UNION ALL SELECT email FROM users",
    "SELECT email FROM users EXCEPT SELECT name FROM users",
    "SELECT * FROM users INTERSECT SELECT * FROM users",
    "SELECT x.email FROM (SELECT email FROM users) AS x",
    "SELECT * FROM (SELECT * FROM users) AS x",
    "SELECT x.a FROM (SELECT email AS a FROM users) AS x",
    "WITH x AS (SELECT email FROM users) SELECT email FROM x",
    "WITH x AS (SELECT * FROM users) SELECT * FROM x",
    "WITH RECURSIVE x AS (SELECT email FROM users UNION SELECT email FROM x) SELECT * FROM x",
    "SELECT (SELECT email FROM users LIMIT 1)",
    "SELECT id FROM users WHERE EXISTS (SELECT 1 FROM orders WHERE status = email)",
    "SELECT o.id FROM orders AS o JOIN users AS u ON u.email = o.status",
    "SELECT a.id FROM users AS a JOIN users AS b USING (email)",
    "SELECT a.id FROM users AS a JOIN users AS b USING (country)",
    "SELECT count(*) FROM users AS a NATURAL JOIN users AS b",
    "SELECT email FROM users LIMIT (SELECT count(*) FROM users WHERE email < 'b')",
    "SELECT u.*, email, o.* FROM users AS u, orders AS o",
    "UPDATE users SET name = email WHERE id = 1",
    "UPDATE users SET name = 'x' WHERE email = 'a'",
    "UPDATE orders SET status = (SELECT email FROM users LIMIT 1) WHERE id = 1",
    "DELETE FROM users WHERE email = 'a'",
    "INSERT INTO orders (id, status) SELECT id, email FROM users",
    "INSERT INTO orders (id, status) VALUES (900, (SELECT min(email) FROM users))",
    "INSERT INTO users (id, email) VALUES (1, 'a') ON CONFLICT (email) DO NOTHING",
    "INSERT INTO users (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET name = users.email",
    "INSERT INTO users (id, email) VALUES (1, 'a') ON CONFLICT (id) DO UPDATE SET name = excluded.email",
];

const REFUSED_BY_POSTGRES: &[&str] = &[
    "(SELECT email FROM users)",
    "SELECT email::text FROM users",
    "SELECT DISTINCT ON (id) email FROM users",
    "SELECT (u).email FROM users AS u",
    "SELECT to_jsonb(u) FROM users AS u",
    "SELECT to_jsonb(users) FROM users",
    "SELECT row_to_json(u) ->> 'email' FROM users AS u",
    "SELECT u = u FROM users AS u",
    "SELECT array_agg(u) FROM users AS u",
    "SELECT id FROM users AS u WHERE u IS NULL",
    "SELECT x FROM users AS u (a, b, x)",
    "SELECT * FROM users AS u (a, b, x)",
    "SELECT x.v FROM users AS u, LATERAL (SELECT u.email AS v) AS x",
    "SELECT * FROM users AS u, unnest(ARRAY[u.email]) AS e",
    "SELECT id FROM public.users WHERE public.users.email > 'a'",
    "SELECT string_agg(name, ',' ORDER BY email) FROM users",
    "SELECT count(*) FILTER (WHERE email > 'a') FROM users",
    "INSERT INTO users (id) VALUES (1) ON CONFLICT ON CONSTRAINT users_pkey DO NOTHING",
];

const REFUSED_BY_MARIADB: &[&str] = &[
    "DELETE FROM users WHERE id = 1 RETURNING email",
    "DELETE FROM users WHERE id = 1 RETURNING *",
    "INSERT INTO users (id) VALUES (900) RETURNING email",
    "UPDATE users SET email = concat(email, 'x') WHERE id = 1",
    "UPDATE users SET name = 'x', email = lower(`email`) WHERE id = 1",
    "UPDATE users AS u SET name = u.email WHERE id = 1",
    "UPDATE users SET name = DEFAULT(email) WHERE id = 1",
    "UPDATE users SET name = 'x' WHERE id = 1 AND `Email` REGEXP '^a'",
    "UPDATE users SET name = 'x' WHERE id = if(email > 'a', 1, 2)",
    "UPDATE orders SET status = 'x' WHERE user_id = (SELECT id FROM users WHERE email = 'a')",
    "DELETE FROM orders WHERE EXISTS (SELECT 1 FROM users WHERE email LIKE 'S%')",
    "DELETE FROM users WHERE id = 1 AND EMAIL IS NOT NULL",
    "INSERT INTO orders (id, status) SELECT 900, u.email FROM users AS u WHERE u.id = 1",
    "INSERT INTO orders (id, status) SELECT * FROM users",
    "INSERT INTO users (id, email) VALUES (1, 'a') ON DUPLICATE KEY UPDATE name = VALUES(email)",
];

#[tokio::test]
#[ignore = "ci: needs PostgreSQL and MariaDB"]
async fn a_masked_column_is_used_by_nothing_else() {
    for shop in shops() {
        let of_one = match (&shop.database, &shop.mariadb) {
            (Some(_), _) => REFUSED_BY_POSTGRES,
            (None, Some(_)) => REFUSED_BY_MARIADB,
            (None, None) => &[],
        };
        let before = shop.asked("SELECT count(*) FROM orders");
        for statement in REFUSED.iter().chain(of_one) {
            let cancel = CancellationToken::new();
            let asked = haft_contract::ops::DatabaseQuery {
                writes: true,
                expect_rows: Some(1),
                ..query(statement, &cancel)
            };
            let error = shop.run_as(asked.clone()).await;
            let error = error.expect_err(statement);
            assert_eq!(error.kind(), ErrorKind::Denied, "{statement}: {error}");
            // MariaDB refuses some of these whatever is masked.
            let says_why = error.message().contains("mask")
                || of_one.contains(statement)
                || shop.mariadb.is_some();
            assert!(says_why, "{statement}: {error}");
            let error = shop.databases.explain(asked).await.expect_err(statement);
            assert_eq!(error.kind(), ErrorKind::Denied, "{statement}: {error}");
        }
        assert_eq!(shop.asked("SELECT count(*) FROM orders"), before);
    }
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL and MariaDB"]
async fn a_mask_of_what_is_not_there_is_found() {
    let like = Like {
        masks: &["users.email", "users.mail", "user.email"],
        ..Like::default()
    };
    let shops = [
        Shop::postgres(like.clone()),
        Shop::sqlite(like.clone()),
        Shop::mariadb(like.clone()),
    ];
    for shop in shops {
        let cancel = CancellationToken::new();
        let within = std::time::Duration::from_secs(20);
        let found = shop
            .databases
            .check("shop", (within, &cancel))
            .await
            .unwrap();
        let found: Vec<&str> = found
            .iter()
            .filter(|finding| finding.text.contains("masks"))
            .map(|finding| {
                assert!(finding.refused);
                finding.text.as_str()
            })
            .collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("`user.email`") && found[1].contains("`users.mail`"));
    }
}
