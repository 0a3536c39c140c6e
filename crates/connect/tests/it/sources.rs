//! What a source may be: not a role that no fence holds, and not an address that has a password in it.

use std::{sync::Arc, time::Duration};

use haft_connect::{
    Databases,
    settings::{EngineSettings, PostgresSettings, SourceSettings},
};
use haft_contract::{
    BoxFuture, ErrorKind,
    ops::ReadStatement as _,
    secret::{ReadSecret, Secret, SecretReference},
};
use haft_testkit::postgres_server::PostgresServer;
use tokio_util::sync::CancellationToken;

use crate::support::{Like, SERVER, Shop};

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn a_role_that_no_fence_holds_is_refused() {
    let whole = Shop::postgres(Like::default());
    let database = whole.database.clone().unwrap();
    SERVER.sql_in(
        &database,
        "CREATE TABLE held (x int); ALTER TABLE held OWNER TO holder",
    );
    let of = |role: &'static str| {
        Shop::postgres_in(
            database.clone(),
            Like {
                role,
                ..Like::default()
            },
        )
    };
    let cancel = CancellationToken::new();
    let check = async |role: &'static str| {
        let shop = of(role);
        let found = shop
            .databases
            .check("shop", (Duration::from_secs(30), &cancel));
        let found = found.await.unwrap();
        let refused = found.iter().filter(|finding| finding.refused);
        refused
            .map(|finding| finding.text.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(check("agent").await, Vec::<String>::new());
    assert!(check("holder").await[0].contains("owns 1 tables"));
    for (role, what) in [
        ("strong", "is a superuser"),
        ("files", "may read or write files"),
    ] {
        assert!(check(role).await[0].contains(what), "{role}");
        let error = of(role).run("SELECT 1").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied);
        assert!(error.message().contains(what), "{error}");
    }
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn a_function_that_stands_in_for_a_built_in_one_is_not_called() {
    let shop = Shop::postgres(Like::default());
    let database = shop.database.clone().unwrap();
    let shadow = "CREATE FUNCTION lower(varchar) RETURNS text LANGUAGE sql SECURITY DEFINER \
        AS 'DELETE FROM public.users; SELECT ''x'''";
    SERVER.sql_in(&database, shadow);
    let error = shop.run("SELECT lower('a'::varchar)").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    shop.run("SELECT pg_catalog.lower('A')").await.unwrap();
    // The parser has expressions of their own for these.
    for (definition, call, built_in) in [
        ("ceil(text)", "ceil(name)", "\"ceil\"(1.5)"),
        ("floor(text)", "floor(name)", "\"floor\"(1.5)"),
        (
            "substr(text, text)",
            "substr(name, 'x'::text)",
            "\"substr\"('abc', 2)",
        ),
        (
            "\"substring\"(text, date)",
            "substring(name, current_date)",
            "\"substring\"('abc', 2)",
        ),
    ] {
        let shadow = format!(
            "CREATE FUNCTION {definition} RETURNS text LANGUAGE sql SECURITY DEFINER \
            AS 'DELETE FROM public.users; SELECT ''x'''"
        );
        SERVER.sql_in(&database, &shadow);
        let error = shop.run(&format!("SELECT {call} FROM users")).await;
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{call}: {error}");
        shop.run(&format!("SELECT pg_catalog.{built_in}"))
            .await
            .unwrap();
    }
    assert_eq!(shop.asked("SELECT count(*) FROM users"), "12");
}

/// To a rule `shop.evil` is the table and everything in the schema.
#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn a_schema_with_the_name_of_a_table_is_not_read() {
    let shop = Shop::postgres(Like::default());
    shop.run("SELECT name FROM evil.users").await.unwrap();
    let database = shop.database.clone().unwrap();
    SERVER.sql_in(
        &database,
        "CREATE TABLE evil (name text); GRANT ALL ON evil TO agent",
    );
    let error = shop.run("SELECT name FROM evil.users").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(
        error.message().contains("rules cannot tell them apart"),
        "{error}"
    );
    shop.run("SELECT name FROM evil").await.unwrap();
}

#[test]
fn an_address_has_no_password_and_no_way_around_encryption() {
    for (address, encrypted, why) in [
        (
            "postgres://a:secret-word@db/x",
            true,
            "password in its address",
        ),
        ("postgres://a@db.example/x", false, "must be encrypted"),
        (
            "postgres://a@localhost/x?hostaddr=10.0.0.1",
            false,
            "options",
        ),
        (
            "postgres://a@db/x?options=-csearch_path%3Devil",
            true,
            "options",
        ),
        ("nonsense", true, "not understood"),
    ] {
        let settings = SourceSettings {
            name: "x".to_owned(),
            engine: EngineSettings::Postgres(PostgresSettings {
                address: address.to_owned(),
                password: None,
                schema: "public".to_owned(),
                also_changes: [].into(),
                ca_file: None,
                encrypted,
            }),
            writable: false,
            functions: [].into(),
            connections: 1,
            max_cost: None,
            max_rows: None,
        };
        let error = Databases::new(vec![settings], Arc::new(OneSecret)).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains(why) && !error.contains("secret-word"),
            "{error}"
        );
    }
}

struct OneSecret;

impl ReadSecret for OneSecret {
    fn read<'a>(&'a self, reference: &'a SecretReference) -> BoxFuture<'a, Result<Secret, String>> {
        assert_eq!(reference.to_string(), "env:SHOP");
        Box::pin(async { Ok(Secret::new("passing").unwrap()) })
    }
}

/// The password of a role, and a server that refuses another.
#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn the_password_is_read_where_it_is_kept() {
    let address = PostgresServer::own_address();
    let server = PostgresServer::start_listening(address, None);
    server.sql("CREATE ROLE agent LOGIN PASSWORD 'passing'");
    let settings = SourceSettings {
        name: "shop".to_owned(),
        engine: EngineSettings::Postgres(PostgresSettings {
            address: format!("postgres://agent@{address}/haft"),
            password: SecretReference::parse("env:SHOP"),
            schema: "public".to_owned(),
            also_changes: [].into(),
            ca_file: None,
            encrypted: false,
        }),
        writable: false,
        functions: [].into(),
        connections: 1,
        max_cost: None,
        max_rows: None,
    };
    let databases = Databases::new(vec![settings], Arc::new(OneSecret)).unwrap();
    let cancel = CancellationToken::new();
    let check = || databases.check("shop", (Duration::from_secs(30), &cancel));
    assert_eq!(check().await.unwrap(), Vec::new());
    assert_eq!(databases.sources()[0].engine, "postgres");
    server.sql("ALTER ROLE agent PASSWORD 'another'");
    let error = check().await.unwrap_err();
    assert_eq!(error.message(), "the database refuses the role");
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn tables_of_the_system_are_read_where_the_operator_names_their_schema() {
    let shop = Shop::postgres(Like::default());
    let columns = "SELECT max(lower(column_name)) FROM columns WHERE table_name = 'secrets'";
    let classes = "SELECT max(lower(relname::text)) FROM pg_class WHERE relname = 'secrets'";
    for (schema, statement, found) in [
        ("information_schema", columns, "token"),
        ("pg_catalog", classes, "secrets"),
    ] {
        let qualified = statement.replace("FROM ", &format!("FROM {schema}."));
        let error = shop.run(&qualified).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied);
        let told = format!("`schema = \"{schema}\"`");
        assert!(error.message().contains(&told), "{error}");
        let like = Like {
            schema,
            ..Like::default()
        };
        let system = Shop::postgres_in(shop.database.clone().unwrap(), like);
        for statement in [statement, &qualified] {
            let (taken, _) = system.run(statement).await.unwrap();
            assert_eq!(taken.rows[0][0], found, "{statement}");
        }
    }
}
