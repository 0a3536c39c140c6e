//! What PostgreSQL understands differently than it looks, and the ordinary statements beside it.

use haft_contract::{Access, ops::OpsError};

use super::*;

fn rules() -> ReadingRules {
    ReadingRules {
        source: "crm".to_owned(),
        dialect: SqlDialect::Postgres,
        schema: "public".to_owned(),
        functions: BTreeSet::new(),
        writable: true,
        masks: ColumnMasks::default(),
    }
}

fn refusal(statement: &str) -> String {
    refusal_by(&rules(), statement)
}

/// Why a statement is refused by these rules.
pub(super) fn refusal_by(rules: &ReadingRules, statement: &str) -> String {
    match read(rules, statement) {
        Err(refused) => refused.to_string(),
        Ok(reading) => panic!("{statement}: {:?}", reading.accesses),
    }
}

fn accesses(statement: &str) -> Vec<String> {
    accesses_by(&rules(), statement)
}

/// The accesses without the source's name, those that write with a `!`.
pub(super) fn accesses_by(rules: &ReadingRules, statement: &str) -> Vec<String> {
    let reading = read(rules, statement).unwrap_or_else(|why| panic!("{statement}: {why}"));
    let text = |access: &Access| {
        let Access::Database { source, writes } = access else {
            panic!("{access:?}");
        };
        let touched = source.strip_prefix("crm.").unwrap();
        format!("{touched}{}", if *writes { "!" } else { "" })
    };
    reading.accesses.iter().map(text).collect()
}

#[test]
fn a_question_mark_is_answered_with_how_placeholders_are_written() {
    let hint = |statement: &str| {
        let refused = OpsError::from(read(&rules(), statement).unwrap_err());
        refused.hint().unwrap_or_default().to_owned()
    };
    assert!(hint("SELECT name FROM users WHERE id = ?").contains("`$1`"));
    assert!(!hint("SELEC name FROM users").contains("`$1`"));
}

#[test]
fn only_is_no_table() {
    for statement in [
        "SELECT email FROM ONLY users",
        "SELECT email FROM only users",
        "SELECT id FROM orders, ONLY users",
        "SELECT id FROM orders JOIN ONLY users ON true",
        "UPDATE ONLY users SET email = 'x'",
        "DELETE FROM ONLY users",
        "DELETE FROM orders USING ONLY users",
    ] {
        assert!(
            refusal(statement).contains("`ONLY` before a table"),
            "{statement}"
        );
    }
    for statement in [
        "SELECT email FROM ONLY (users)",
        "SELECT email FROM users *",
        "UPDATE users * SET email = 'x'",
        "SELECT email FROM ONLY users AS u",
        "TABLE ONLY users",
        "INSERT INTO ONLY users VALUES (1)",
    ] {
        refusal(statement);
    }
    assert_eq!(accesses("SELECT id FROM \"only\" users"), ["only.id"]);
}

#[test]
fn a_word_of_the_grammar_is_no_name() {
    for statement in [
        "SELECT variadic FROM users",
        "SELECT id FROM users AS verbose",
        "SELECT id FROM tablesample",
        "SELECT symmetric.id FROM users AS symmetric",
        "WITH lateral AS (SELECT 1 AS x) SELECT x FROM lateral",
    ] {
        refusal(statement);
    }
    assert_eq!(
        accesses("SELECT u.user, u.\"end\" FROM users u"),
        ["users.end", "users.user"]
    );
    assert_eq!(
        accesses("SELECT id AS left FROM users ORDER BY id"),
        ["users.id"]
    );
    assert_eq!(accesses("SELECT current_role, current_schema"), ["()"]);
    assert_eq!(
        accesses("INSERT INTO users (id, name) VALUES (DEFAULT, left('abc', 2))"),
        ["users.id!", "users.name!"]
    );
}

#[test]
fn what_orders_a_query_in_parentheses_is_a_column_of_it() {
    for statement in [
        "(SELECT id FROM users) ORDER BY email",
        "((SELECT id FROM users)) ORDER BY email LIMIT 1",
        "SELECT 1 AS x UNION ((SELECT id FROM users) ORDER BY email)",
        "(WITH c AS (SELECT 1 AS x) SELECT id FROM users, c) ORDER BY users.email",
        "SELECT id FROM users ORDER BY (email)",
    ] {
        let found = accesses(statement);
        assert_eq!(found, ["users.email", "users.id"], "{statement}");
    }
    assert_eq!(
        accesses("(SELECT id AS email FROM users) ORDER BY email"),
        ["users.id"]
    );
    assert_eq!(
        accesses("SELECT id FROM users UNION SELECT id FROM orders ORDER BY id"),
        ["orders.id", "users.id"]
    );
    assert_eq!(accesses("VALUES (1), (2) ORDER BY column1"), ["()"]);
}

#[test]
fn a_name_counts_for_every_relation_that_has_it() {
    // In an `ON` the server looks past `users u`, which is not joined there.
    let found = accesses(
        "SELECT (SELECT count(*) FROM users u, orders o JOIN orders p ON u.token <> '') FROM secrets u",
    );
    assert!(found.contains(&"secrets.token".to_owned()), "{found:?}");
    let found = accesses("SELECT (WITH c AS (SELECT email) SELECT email FROM c) FROM users");
    assert_eq!(found, ["users.email"]);
    let found = accesses("SELECT (WITH c AS (SELECT u) SELECT 1 FROM c) FROM users u");
    assert!(found.contains(&"users.*".to_owned()), "{found:?}");
    let found = accesses(
        "SELECT o.id FROM orders o JOIN (users u JOIN secrets s ON s.token = u.name) ON u.id = o.id",
    );
    assert_eq!(
        found,
        ["orders.id", "secrets.token", "users.id", "users.name"]
    );
    let found = accesses(
        "SELECT o.id FROM orders o LEFT JOIN LATERAL (SELECT u.email FROM users u WHERE u.id = o.user_id) t ON t.email = o.status",
    );
    assert_eq!(
        found,
        [
            "orders.id",
            "orders.status",
            "orders.user_id",
            "users.email",
            "users.id"
        ]
    );
    // A column of nothing is no column.
    assert!(refusal("SELECT email").contains("not of a table"));
    assert!(refusal("SELECT id FROM users WHERE x.email = ''").contains("not of a table"));
}

#[test]
fn what_decides_about_a_conflict_is_read() {
    let insert = "INSERT INTO users (id) VALUES (1) ON CONFLICT";
    assert_eq!(
        accesses(&format!("{insert} (email) DO NOTHING")),
        ["users.email", "users.id!"]
    );
    assert_eq!(
        accesses(&format!(
            "{insert} ON CONSTRAINT users_email_key DO NOTHING"
        )),
        ["users.*", "users.id!"]
    );
    assert_eq!(accesses(&format!("{insert} DO NOTHING")), ["users.id!"]);
}

#[test]
fn the_quotes_of_a_name_are_kept() {
    for statement in [
        "SELECT 1 UNION TABLE \"Accounts\"",
        "SELECT 1 UNION TABLE accounts LIMIT 1",
        "SELECT 1 UNION TABLE crm.accounts",
    ] {
        assert!(refusal(statement).contains("SELECT * FROM"), "{statement}");
    }
    refusal("TABLE \"Accounts\"");
    assert_eq!(accesses("SELECT * FROM \"Accounts\""), ["Accounts.*"]);
    assert_eq!(accesses("SELECT * FROM Accounts"), ["accounts.*"]);
}

#[test]
fn calls_that_do_not_look_it_are_known() {
    let called = |statement: &str| read(&rules(), statement).unwrap().called;
    let built_in = called(
        "SELECT ceil(id), floor(id), substring(name, 1), substr(name, 2), lower(name) FROM users",
    );
    let built_in: Vec<String> = built_in.built_in.into_iter().collect();
    assert_eq!(built_in, ["ceil", "floor", "lower", "substr", "substring"]);
    assert!(refusal("SELECT convert(name, int) FROM users").contains("`convert`"));
    let columns = called("SELECT u.f, u.tags[1], (u).g, c.h FROM users u, (SELECT 1 AS h) c");
    let column = |name: &str| (None, "users".to_owned(), name.to_owned());
    assert_eq!(columns.columns, [column("f"), column("tags")].into());
    assert_eq!(columns.fields, ["g".to_owned(), "h".to_owned()].into());
    assert_eq!(accesses("SELECT u.tags[1] FROM users u"), ["users.tags"]);
}

#[test]
fn every_part_of_a_call_is_walked() {
    for statement in [
        "SELECT json_object(email: 1) FROM users",
        "SELECT json_object(email VALUE 1) FROM users",
        "SELECT json_object('a' : email) FROM users",
        "SELECT json_object('a' VALUE u.email) FROM users u",
        "SELECT json_array(email NULL ON NULL) FROM users",
        "SELECT json_array((SELECT email)) FROM users",
        "SELECT json_agg(id ORDER BY email) FROM users",
    ] {
        let found = accesses(statement);
        assert!(
            found.contains(&"users.email".to_owned()),
            "{statement}: {found:?}"
        );
    }
    for statement in [
        "SELECT json_arrayagg(email) FROM users",
        "SELECT json_objectagg(id: email) FROM users",
        "SELECT json_object(wipe_all(): 1)",
        "SELECT make_interval(wipe_all() => 1)",
    ] {
        refusal(statement);
    }
    assert_eq!(
        accesses("SELECT make_interval(days => id) FROM users"),
        ["users.id"]
    );
}

#[test]
fn tables_of_the_system_are_named_in_the_settings_or_not_read() {
    for statement in [
        "SELECT 1 FROM information_schema.columns",
        "SELECT 1 FROM pg_catalog.pg_class",
        "SELECT 1 FROM pg_class",
        "SELECT 1 FROM pg_temp.x",
    ] {
        assert!(
            refusal(statement).contains("the action `schema`"),
            "{statement}"
        );
    }
    let told = refusal("SELECT 1 FROM information_schema.columns");
    assert!(told.contains("`schema = \"information_schema\"`"), "{told}");
    let mut named = rules();
    named.schema = "information_schema".to_owned();
    assert!(read(&named, "SELECT table_name FROM columns").is_ok());
    assert!(read(&named, "SELECT table_name FROM information_schema.columns").is_ok());
    assert!(read(&named, "SELECT 1 FROM pg_catalog.pg_class").is_err());
}
