//! `attacks/sql`: nothing an agent sends writes, or reads beyond its plan, and whoever owns the database
//! sees that. What people who analyse data ask every day is answered.

use haft_contract::{Access, ErrorKind, ops::ReadStatement as _};
use serde::Deserialize;
use serde_json::json;

use crate::support::{Like, SERVER, Shop};

const POSTGRES: &str = include_str!("../../../../attacks/sql/postgres.toml");
const SQLITE: &str = include_str!("../../../../attacks/sql/sqlite.toml");
const MARIADB_ATTACKS: &str = include_str!("../../../../attacks/sql/mariadb.toml");
const TWINS: &str = include_str!("../../../../attacks/sql/twins.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attacks {
    attack: Vec<Attack>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attack {
    why: String,
    statement: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Twins {
    postgres: Vec<Twin>,
    sqlite: Vec<Twin>,
    mariadb: Vec<Twin>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Twin {
    statement: String,
}

/// What the plan names: the guard lets through no statement that touches anything else.
fn is_planned(access: &Access) -> bool {
    let Access::Database { source, writes } = access else {
        return false;
    };
    let planned = [
        "shop.users.id",
        "shop.users.name",
        "shop.users.(rows)",
        "shop.()",
    ];
    !writes && (planned.contains(&source.as_str()) || source.starts_with("shop.orders."))
}

/// Runs every attack; returns those that were refused by their text, by the plan, and when they ran.
async fn attack(shop: &Shop, text: &str) -> [usize; 3] {
    let attacks: Attacks = toml::from_str(text).unwrap();
    let (mut by_text, mut by_plan, mut ran) = (0, 0, 0);
    for Attack { why, statement } in &attacks.attack {
        let reading = match shop.databases.read_statement("shop", statement) {
            Err(refused) => {
                assert_eq!(refused.kind(), ErrorKind::Denied, "{why}: {statement}");
                by_text += 1;
                continue;
            }
            Ok(reading) => reading,
        };
        if !reading.accesses.iter().all(is_planned) {
            by_plan += 1;
            continue;
        }
        assert!(!reading.writes, "{why}: {statement}");
        ran += 1;
        if let Ok((taken, _)) = shop.run(statement).await {
            let shown = format!("{:?}", taken.rows);
            assert!(!shown.contains("SECRET"), "{why}: {statement}: {shown}");
        }
    }
    [by_text, by_plan, ran]
}

/// Everything of a database that an attack could change.
fn state_of(shop: &Shop) -> String {
    let database = shop.database.as_deref().unwrap();
    let tables = "SELECT string_agg(c.oid::regclass::text || ' ' ||
        (xpath('/row/c/text()', query_to_xml('SELECT md5(string_agg(t::text, '','' ORDER BY t::text)) AS c
        FROM ' || c.oid::regclass || ' AS t', false, true, '')))[1]::text, E'\\n' ORDER BY 1)
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'm') AND n.nspname IN ('public', 'evil')";
    let sequences =
        "SELECT string_agg(sequencename || coalesce(last_value::text, '-'), ',') FROM pg_sequences";
    let objects =
        "SELECT count(*), max(oid) FROM pg_class UNION ALL SELECT count(*), max(oid) FROM pg_proc
        UNION ALL SELECT count(*), max(oid) FROM pg_roles UNION ALL
        SELECT count(*), max(oid) FROM pg_largeobject_metadata";
    let held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
        UNION ALL SELECT count(*) FROM pg_prepared_xacts
        UNION ALL SELECT count(*) FROM pg_stat_activity WHERE usename = 'agent' AND datname = current_database()";
    let settings = "SELECT md5(string_agg(name || setting, ',' ORDER BY name)) FROM pg_settings
        WHERE source <> 'client' AND source <> 'session'";
    let asked = [tables, sequences, objects, held, settings];
    let asked = asked.map(|query| SERVER.sql_in(database, query));
    asked.join("\n---\n")
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn no_attack_on_postgresql_writes_or_reads_beyond_the_plan() {
    let shop = Shop::postgres(Like::default());
    let before = state_of(&shop);
    assert!(before.contains("users"), "{before}");
    let [by_text, by_plan, ran] = attack(&shop, POSTGRES).await;
    println!("refused by text {by_text}, by the plan {by_plan}, ran {ran}");
    assert!(by_text + by_plan + ran >= 200 && by_plan >= 30);
    wait_until_idle(&shop).await;
    assert_eq!(state_of(&shop), before);
}

/// A connection ends a moment after its statement.
async fn wait_until_idle(shop: &Shop) {
    let database = shop.database.as_deref().unwrap();
    let count = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'agent' AND datname = current_database()";
    while SERVER.sql_in(database, count) != "0" {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// With what the plan allows left out: the transaction and the cursor alone.
#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn a_plan_that_names_everything_writes_nothing_either() {
    let shop = Shop::postgres(Like::default());
    let before = state_of(&shop);
    let attacks: Attacks = toml::from_str(POSTGRES).unwrap();
    let mut ran = 0;
    for Attack { statement, .. } in &attacks.attack {
        ran += usize::from(shop.run(statement).await.is_ok());
    }
    assert!(ran >= 20, "{ran}");
    wait_until_idle(&shop).await;
    assert_eq!(state_of(&shop), before);
}

#[tokio::test]
async fn no_attack_on_sqlite_writes_or_reads_beyond_the_plan() {
    let shop = Shop::sqlite(Like::default());
    let file = shop.file.clone().unwrap();
    let before = std::fs::read(&file).unwrap();
    let [by_text, by_plan, ran] = attack(&shop, SQLITE).await;
    println!("refused by text {by_text}, by the plan {by_plan}, ran {ran}");
    assert!(by_text + by_plan + ran >= 80 && by_plan >= 15);
    assert_eq!(std::fs::read(&file).unwrap(), before);
    let beside = std::fs::read_dir(file.parent().unwrap()).unwrap().count();
    assert_eq!(beside, 1, "no journal and no other file");
}

/// The server gets the words that were read, and they mean what they meant.
#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn a_statement_means_to_the_server_what_was_read() {
    let shop = Shop::postgres(Like::default());
    let statement = "SELECT E'a\\'b\\n', 'c\\', $$it's$$, $x$a$b$x$, N'n', 2>=-1, 1e1, \
        x'f'::int /* ' */ -- '\n, name AS \"N\"\"m\" FROM users WHERE id=1;";
    let (taken, _) = shop.run(statement).await.unwrap();
    let expected = json!([["a'b\n", "c\\", "it's", "a$b", "n", true, "10", 15, "name1"]]);
    assert_eq!(json!(taken.rows), expected);
    assert_eq!(taken.columns.last().unwrap(), "N\"m");
    // To the server this was `SELECT id #`, and a comment up to the end of the line.
    let swallowed = "SELECT id #--$x$\n id, email AS a$x$ FROM users";
    let error = shop.run(swallowed).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(error.message().contains("begin a comment"), "{error}");
}

/// Names behind a dot that are no columns call functions, and the plan shows columns.
#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn a_function_is_not_called_in_the_place_of_a_column() {
    let shop = Shop::postgres(Like::default());
    for statement in [
        "SELECT u.full_of FROM users u",
        "SELECT users.full_of FROM users",
        "SELECT public.users.full_of FROM public.users",
        "SELECT o.order_owner FROM orders o",
        "SELECT (o).order_owner FROM orders o",
        "SELECT u.name FROM users u WHERE u.wipe_row = 1",
        "SELECT c.anything FROM (SELECT id FROM orders) c",
        "WITH c AS (SELECT id FROM orders) SELECT c.anything FROM c",
    ] {
        let error = shop.run(statement).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{statement}: {error}");
    }
    assert_eq!(shop.asked("SELECT count(*) FROM users"), "12");
    for statement in [
        "SELECT u.name, u.ctid, (u).country FROM users u",
        "WITH c AS (SELECT count(*), max(id) FROM users) SELECT c.count, c.max FROM c",
        "SELECT evil.users.name FROM evil.users",
        "SELECT a.name FROM active_users a",
    ] {
        shop.run(statement).await.unwrap();
    }
}

async fn answer(shop: &Shop, twins: &[Twin]) {
    let mut refused = Vec::new();
    for Twin { statement } in twins {
        if let Err(error) = shop.run(statement).await {
            refused.push(format!("{statement}\n    {error}"));
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn ordinary_questions_to_postgresql_are_answered() {
    let twins: Twins = toml::from_str(TWINS).unwrap();
    assert!(twins.postgres.len() + twins.sqlite.len() >= 120);
    answer(&Shop::postgres(Like::default()), &twins.postgres).await;
}

#[tokio::test]
async fn ordinary_questions_to_sqlite_are_answered() {
    let twins: Twins = toml::from_str(TWINS).unwrap();
    answer(&Shop::sqlite(Like::default()), &twins.sqlite).await;
}

/// Everything of the MariaDB server that an attack could change.
pub(crate) fn state_of_mariadb(shop: &Shop) -> String {
    let tables = shop.asked(
        "SELECT concat('`', table_name, '`') FROM information_schema.tables
        WHERE table_schema = database() AND table_type <> 'VIEW' ORDER BY 1",
    );
    let sums = format!("CHECKSUM TABLE {}", tables.replace('\n', ", "));
    let objects = "SELECT count(*) FROM information_schema.tables UNION ALL
        SELECT count(*) FROM information_schema.routines UNION ALL
        SELECT count(*) FROM information_schema.events UNION ALL
        SELECT count(*) FROM information_schema.triggers UNION ALL
        SELECT md5(group_concat(user, host, Priv ORDER BY user, host)) FROM mysql.global_priv UNION ALL
        SELECT count(*) FROM mysql.plugin UNION ALL
        SELECT count(*) FROM mysql.table_stats";
    let settings = "SELECT md5(group_concat(variable_name, variable_value ORDER BY variable_name))
        FROM information_schema.global_variables WHERE variable_name NOT LIKE '%gtid%'";
    let held = "SELECT count(*) FROM information_schema.innodb_trx UNION ALL
        SELECT count(*) FROM information_schema.processlist WHERE user = 'agent' AND db = database()";
    [&sums, objects, settings, held]
        .map(|query| shop.asked(query))
        .join("\n---\n")
}

/// A connection ends a moment after its statement.
pub(crate) async fn wait_until_mariadb_is_idle(shop: &Shop) {
    let count = "SELECT count(*) FROM information_schema.processlist WHERE user = 'agent' AND db = database()";
    while shop.asked(count) != "0" {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test]
#[ignore = "ci: needs MariaDB"]
async fn no_attack_on_mariadb_writes_or_reads_beyond_the_plan() {
    let shop = Shop::mariadb(Like::default());
    let before = state_of_mariadb(&shop);
    assert!(before.contains(".secrets\t"), "{before}");
    let [by_text, by_plan, ran] = attack(&shop, MARIADB_ATTACKS).await;
    println!("refused by text {by_text}, by the plan {by_plan}, ran {ran}");
    assert!(by_text + by_plan + ran >= 150 && by_plan >= 30);
    wait_until_mariadb_is_idle(&shop).await;
    assert_eq!(state_of_mariadb(&shop), before);
}

/// With what the plan allows left out: the transaction alone.
#[tokio::test]
#[ignore = "ci: needs MariaDB"]
async fn a_plan_that_names_everything_writes_nothing_in_mariadb_either() {
    let shop = Shop::mariadb(Like::default());
    let before = state_of_mariadb(&shop);
    let attacks: Attacks = toml::from_str(MARIADB_ATTACKS).unwrap();
    let mut ran = 0;
    for Attack { statement, .. } in &attacks.attack {
        ran += usize::from(shop.run(statement).await.is_ok());
    }
    assert!(ran >= 20, "{ran}");
    wait_until_mariadb_is_idle(&shop).await;
    assert_eq!(state_of_mariadb(&shop), before);
}

#[tokio::test]
#[ignore = "ci: needs MariaDB"]
async fn ordinary_questions_to_mariadb_are_answered() {
    let twins: Twins = toml::from_str(TWINS).unwrap();
    assert!(twins.mariadb.len() >= 60);
    answer(&Shop::mariadb(Like::default()), &twins.mariadb).await;
}

/// The server gets the words that were read, and they mean what they meant. The driver looks for names
/// of parameters in a text, and finds none in a string.
#[tokio::test]
#[ignore = "ci: needs MariaDB"]
async fn a_statement_means_to_mariadb_what_was_read() {
    let shop = Shop::mariadb(Like::default());
    let statement = "SELECT 'a\\'b\\n', \"c\\\\\", 'it''s', '50\\%', 5--1, 1e1, 0xf + 0, ':x', '\\':y', 'a?', \
        `name` AS `N``m:z` /* ' */ # '\n FROM users WHERE id=1;";
    let (taken, _) = shop.run(statement).await.unwrap();
    let expected = json!([[
        "a'b\n", "c\\", "it's", "50\\%", 6, 10.0, 15, ":x", "':y", "a?", "name1"
    ]]);
    assert_eq!(json!(taken.rows), expected);
    assert_eq!(taken.columns.last().unwrap(), "N`m:z");
    // A modifier to the server, and a column to the parser: it is made one.
    let modified = shop.run("SELECT SQL_CACHE email FROM users").await;
    let error = modified.unwrap_err();
    assert!(
        error.message().contains("Unknown column 'SQL_CACHE'"),
        "{error}"
    );
}
