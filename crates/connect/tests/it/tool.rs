//! `database_query` through the whole pipeline, against real SQLite: what a model gets, what is seen
//! meanwhile, and that the guard holds the tool to its plan.

use std::sync::Arc;

use haft_contract::{
    CallEvent, ErrorKind, Terminal,
    erased::erase,
    ops::{DatabaseOps, ReadStatement},
};
use haft_testkit::{EventLog, FixedPolicy, Harness, ScriptedAnswer, ScriptedApprover, memory};
use haft_tools::data::database_query::DatabaseQueryTool;
use serde_json::json;

use crate::support::{Like, Shop};

fn harness(like: Like, log: &EventLog) -> (Harness, Shop) {
    let shop = Shop::sqlite(like.clone());
    // The same file, as the host would have it.
    let databases = Arc::new(shop.again(&like));
    let reader: Arc<dyn ReadStatement> = Arc::<haft_connect::Databases>::clone(&databases);
    let (mut operations, _) = memory::operations();
    operations.world.databases = databases as Arc<dyn DatabaseOps>;
    let tool = erase(DatabaseQueryTool::new(reader)).unwrap();
    let harness = Harness::on(operations)
        .tools(vec![tool])
        .configure(|builder| builder.events(Arc::new(log.clone())))
        .build();
    (harness, shop)
}

#[tokio::test]
async fn rows_are_seen_as_they_come_and_returned() {
    let log = EventLog::new();
    let (harness, _shop) = harness(Like::default(), &log);
    let input =
        json!({"query": "SELECT id, name FROM users WHERE id <= ? ORDER BY id", "params": [3]});
    let outcome = harness.succeed("database_query", input).await;
    let structured = outcome.structured.as_ref().unwrap();
    assert_eq!(structured["columns"], json!(["id", "name"]));
    assert_eq!(
        structured["rows"],
        json!([[1, "name1"], [2, "name2"], [3, "name3"]])
    );
    let text = outcome.text();
    assert!(
        text.starts_with("id,name\n1,name1\n2,name2\n3,name3\n"),
        "{text}"
    );
    let items = log
        .of(outcome.call)
        .into_iter()
        .filter_map(|event| match event {
            CallEvent::Item(item) => Some(item.line.clone()),
            _ => None,
        });
    assert_eq!(items.collect::<Vec<_>>(), ["1,name1", "2,name2", "3,name3"]);
    let input = json!({"query": "SELECT id FROM orders", "limit": 7, "format": "ndjson"});
    let outcome = harness.succeed("sql", input).await;
    let structured = outcome.structured.as_ref().unwrap();
    assert_eq!(
        (&structured["row_count"], &structured["more"]),
        (&json!(7), &json!(true))
    );
}

#[tokio::test]
async fn a_statement_that_is_not_understood_is_denied_and_says_why() {
    let log = EventLog::new();
    let (harness, _shop) = harness(Like::default(), &log);
    for (statement, why, next) in [
        (
            "PRAGMA user_version = 1",
            "not a statement that runs here",
            "one plain query",
        ),
        (
            "SELECT 1; DELETE FROM users",
            "more than one statement",
            "each in a call of its own",
        ),
        (
            "SELECT load_extension('x')",
            "`load_extension`",
            "one plain query",
        ),
        (
            "DELETE FROM users",
            "takes no changes",
            "`writable = true` under `[sources.shop]`",
        ),
        ("SELECT FROM WHERE", "not understood", "correct what stands"),
    ] {
        let outcome = harness
            .fail("database_query", json!({"query": statement}))
            .await;
        assert_eq!(outcome.terminal, Terminal::Denied, "{statement}");
        let error = outcome.error.as_ref().unwrap();
        assert!(
            error.message.contains(why),
            "{statement}: {}",
            error.message
        );
        assert_eq!(error.at.as_deref(), Some("/query"));
        let hint = error.hint.as_deref().unwrap_or_default();
        assert!(hint.contains(next), "{statement}: {hint}");
    }
    let input = json!({"query": "SELECT 1", "source": "other"});
    let outcome = harness.fail("database_query", input).await;
    assert_eq!(
        outcome.error.as_ref().unwrap().hint.as_deref(),
        Some("the databases are: shop")
    );
}

#[tokio::test]
async fn a_change_states_its_rows() {
    let log = EventLog::new();
    let like = Like {
        writable: true,
        ..Like::default()
    };
    let (harness, shop) = harness(like, &log);
    let update = "UPDATE orders SET status = 'late' WHERE id <= 13";
    let late = "SELECT count(*) FROM orders WHERE status = 'late'";
    let outcome = harness
        .fail("database_query", json!({"query": update}))
        .await;
    assert_eq!(
        outcome.error.as_ref().unwrap().at.as_deref(),
        Some("/expect_rows")
    );
    let input = json!({"query": update, "expect_rows": 12});
    let outcome = harness.fail("database_query", input).await;
    assert_eq!(outcome.error.as_ref().unwrap().kind, ErrorKind::Conflict);
    assert!(shop.asked(late).contains("(0)"));
    let input = json!({"query": update, "expect_rows": 13});
    let outcome = harness.succeed("database_query", input).await;
    assert_eq!(outcome.structured.as_ref().unwrap()["changed"], json!(13));
    assert!(shop.asked(late).contains("(13)"));
    let input = json!({"action": "explain", "query": update});
    let outcome = harness.succeed("database_query", input).await;
    assert!(outcome.text().contains("orders"), "{}", outcome.text());
}

#[tokio::test]
async fn tables_are_shown() {
    let log = EventLog::new();
    let (harness, _shop) = harness(Like::default(), &log);
    let outcome = harness
        .succeed("database_query", json!({"action": "schema"}))
        .await;
    assert!(
        outcome.text().contains("active_users (view)\n"),
        "{}",
        outcome.text()
    );
    let input = json!({"action": "schema", "table": "users"});
    let outcome = harness.succeed("database_query", input).await;
    assert!(
        outcome.text().starts_with("users\n  id INTEGER"),
        "{}",
        outcome.text()
    );
}

/// What a person was shown of a call of `database_query`, who refuses it.
async fn shown(shop: &Shop, input: serde_json::Value) -> String {
    let like = Like {
        writable: true,
        functions: &["rated"],
        ..Like::default()
    };
    let databases = Arc::new(match (&shop.database, &shop.mariadb) {
        (Some(database), _) => Shop::postgres_in(database.clone(), like).databases,
        (None, Some(database)) => Shop::mariadb_in(database.clone(), like).databases,
        (None, None) => shop.again(&like),
    });
    let reader: Arc<dyn ReadStatement> = Arc::<haft_connect::Databases>::clone(&databases);
    let (mut operations, _) = memory::operations();
    operations.world.databases = databases as Arc<dyn DatabaseOps>;
    let person = ScriptedApprover::new([ScriptedAnswer::Refuse("no".to_owned())]);
    let harness = Harness::on(operations)
        .tools(vec![erase(DatabaseQueryTool::new(reader)).unwrap()])
        .policy(FixedPolicy::ask_all())
        .person(&person)
        .build();
    harness.fail("database_query", input).await;
    person.asked()[0].form["preview"].to_string()
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL and MariaDB"]
async fn a_person_is_shown_what_the_database_expects() {
    let writable = || Like {
        writable: true,
        ..Like::default()
    };
    let (postgres, sqlite) = (Shop::postgres(writable()), Shop::sqlite(writable()));
    postgres.asked("ANALYZE orders");
    let mariadb = Shop::mariadb(writable());
    mariadb.asked("ANALYZE TABLE orders, users");
    let update =
        json!({"query": "UPDATE orders SET status = 'late' WHERE id <= 13", "expect_rows": 13});
    let found = shown(&postgres, update.clone()).await;
    for part in [
        "expects to change about 1",
        "the whole of `orders` (about 30 rows)",
        "unless it changes exactly 13 rows, it changes nothing",
    ] {
        assert!(found.contains(part), "{found}");
    }
    let late = "SELECT count(*) FROM orders WHERE status = 'late'";
    assert_eq!(postgres.asked(late), "0");
    let found = shown(&mariadb, update.clone()).await;
    for part in [
        "expects to change about 1",
        "unless it changes exactly 13 rows",
    ] {
        assert!(found.contains(part), "{found}");
    }
    assert_eq!(mariadb.asked(late), "0");
    let found = shown(
        &mariadb,
        json!({"query": "SELECT name FROM users WHERE score > 3"}),
    )
    .await;
    for part in [
        "expects to find about 12",
        "the whole of `users` (about 12 rows)",
    ] {
        assert!(found.contains(part), "{found}");
    }
    let read = json!({"query": "SELECT name FROM users WHERE id = $1", "params": [3]});
    let found = shown(&postgres, read).await;
    assert!(found.contains("expects to find about"), "{found}");
    // A statement that cannot run keeps nobody from answering, and the words are the database's.
    let found = shown(&postgres, json!({"query": "SELECT nothing FROM users"})).await;
    assert!(found.contains("did not say what it expects"), "{found}");
    let found = shown(&sqlite, json!({"query": "SELECT name FROM users"})).await;
    assert!(found.contains("to read the whole of `users`"), "{found}");
    let found = shown(
        &sqlite,
        json!({"query": "SELECT name FROM users WHERE id = 3"}),
    )
    .await;
    assert!(found.contains("to read no table as a whole"), "{found}");
}

/// PostgreSQL runs what never changes while it plans a statement.
#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn nothing_that_the_operator_lists_runs_before_a_person_answers() {
    let shop = Shop::postgres(Like::default());
    shop.asked(
        "CREATE FUNCTION rated(int) RETURNS int IMMUTABLE LANGUAGE plpgsql
        AS 'BEGIN RAISE EXCEPTION ''it ran''; END'",
    );
    for (statement, rows) in [
        ("SELECT name FROM users WHERE id = rated(1)", None),
        ("DELETE FROM users WHERE id = rated(1)", Some(3)),
    ] {
        let input = json!({"query": statement, "expect_rows": rows});
        let found = shown(&shop, input).await;
        assert!(!found.contains("it ran"), "{statement}: {found}");
        assert!(
            found.contains("was not asked what it expects: that may already run `rated`"),
            "{statement}: {found}"
        );
    }
}
