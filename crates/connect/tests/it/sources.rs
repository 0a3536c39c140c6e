//! What a source may be: not a role that no fence holds, and not an address that has a password in it.

use std::{sync::Arc, time::Duration};

use haft_connect::{
    Databases, SourceFinding,
    settings::{EngineSettings, MariaDbSettings, PostgresSettings, SourceSettings},
};
use haft_contract::{
    BoxFuture, ErrorKind,
    ops::ReadStatement as _,
    secret::{ReadSecret, Secret, SecretReference},
};
use haft_testkit::{
    certificates::CertificateAuthority, mariadb_server::MariaDbServer,
    postgres_server::PostgresServer,
};
use tokio_util::sync::CancellationToken;

use crate::support::{Like, MARIADB, SERVER, Shop};

fn as_role(role: &'static str) -> Like {
    Like {
        role,
        ..Like::default()
    }
}

/// What is wrong with a source.
async fn findings(shop: &Shop) -> Vec<SourceFinding> {
    let cancel = CancellationToken::new();
    let found = shop
        .databases
        .check("shop", (Duration::from_secs(30), &cancel));
    found.await.unwrap()
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn a_role_that_no_fence_holds_is_refused() {
    let whole = Shop::postgres(Like::default());
    let database = whole.database.clone().unwrap();
    SERVER.sql_in(
        &database,
        "CREATE TABLE held (x int); ALTER TABLE held OWNER TO holder",
    );
    let of = |role| Shop::postgres_in(database.clone(), as_role(role));
    let check = async |role| {
        let found = findings(&of(role)).await;
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
            masks: [].into(),
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
    let at = format!("postgres://agent@{address}/haft");
    let databases = with_password(&at, false, Arc::new(OneSecret));
    let cancel = CancellationToken::new();
    let check = || databases.check("shop", (Duration::from_secs(30), &cancel));
    assert_eq!(check().await.unwrap(), Vec::new());
    assert_eq!(databases.sources()[0].engine, "postgres");
    server.sql("ALTER ROLE agent PASSWORD 'another'");
    let error = check().await.unwrap_err();
    assert_eq!(error.message(), "the database refuses the role");
    let encrypted = with_password(&at, true, Arc::new(OneSecret));
    let checked = encrypted.check("shop", (Duration::from_secs(30), &cancel));
    let error = checked.await.unwrap_err();
    assert_eq!(error.message(), "the database's server speaks no TLS");
    assert!(error.hint().unwrap().contains("`encrypted = false`"));
}

/// A variable that nobody set.
struct NoVariable;

impl ReadSecret for NoVariable {
    fn read<'a>(&'a self, _: &'a SecretReference) -> BoxFuture<'a, Result<Secret, String>> {
        Box::pin(async { Err("the variable `SHOP` is not set".to_owned()) })
    }
}

#[tokio::test]
async fn a_password_that_is_not_there_is_named_with_its_variable() {
    let databases = with_password(
        "postgres://agent@127.0.0.1:1/haft",
        false,
        Arc::new(NoVariable),
    );
    let cancel = CancellationToken::new();
    let checked = databases.check("shop", (Duration::from_secs(30), &cancel));
    assert_eq!(
        checked.await.unwrap_err().message(),
        "the database's password is not available to Haft: the variable `SHOP` is not set"
    );
}

fn with_password(address: &str, encrypted: bool, secrets: Arc<dyn ReadSecret>) -> Databases {
    let settings = SourceSettings {
        name: "shop".to_owned(),
        engine: EngineSettings::Postgres(PostgresSettings {
            address: address.to_owned(),
            password: SecretReference::parse("env:SHOP"),
            schema: "public".to_owned(),
            also_changes: [].into(),
            ca_file: None,
            encrypted,
        }),
        writable: false,
        masks: [].into(),
        functions: [].into(),
        connections: 1,
        max_cost: None,
        max_rows: None,
    };
    Databases::new(vec![settings], secrets).unwrap()
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

#[tokio::test]
#[ignore = "ci: needs MariaDB"]
async fn a_role_of_mariadb_that_no_fence_holds_is_refused() {
    let whole = Shop::mariadb(Like::default());
    let database = whole.mariadb.clone().unwrap();
    MARIADB.sql(&format!(
        "GRANT SELECT, DROP ON {database}.* TO holder@localhost; CREATE ROLE everything; \
        GRANT SUPER ON *.* TO everything; CREATE USER member@localhost; \
        GRANT SELECT ON {database}.* TO member@localhost; GRANT everything TO member@localhost; \
        SET DEFAULT ROLE everything FOR member@localhost"
    ));
    let of = |role| Shop::mariadb_in(database.clone(), as_role(role));
    let check = async |role| {
        let found = findings(&of(role)).await;
        let refused = found.iter().any(|finding| finding.refused);
        let texts = found.iter().map(|finding| finding.text.as_str());
        (refused, texts.collect::<Vec<_>>().join("; "))
    };
    let (refused, told) = check("holder").await;
    assert!(
        !refused && told.contains("what an owner does (DROP on"),
        "{told}"
    );
    of("holder").run("SELECT 1").await.unwrap();
    for (role, what) in [
        ("strong", "may grant what it was granted"),
        ("files", "has FILE on *.*"),
        ("member", "has SUPER on *.*"),
    ] {
        let (refused, told) = check(role).await;
        assert!(refused && told.contains(what), "{role}: {told}");
        let error = of(role).run("SELECT 1").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied);
        assert!(error.message().contains(what), "{error}");
    }
}

/// What a server, a role and a session before could have set otherwise.
#[tokio::test]
#[ignore = "ci: needs MariaDB"]
async fn what_a_statement_relies_on_is_set_whatever_the_server_has() {
    let server = MariaDbServer::start_set(&[
        "--sql-mode=ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,ORACLE",
        "--character-set-server=latin1",
        "--skip-character-set-client-handshake",
        "--init-connect=SET sql_select_limit = 1, sql_mode = ANSI, completion_type = 1",
        "--autocommit=0",
        "--lower-case-table-names=1",
    ]);
    server.sql("CREATE USER agent@localhost; CREATE DATABASE crm; GRANT SELECT ON crm.* TO agent@localhost");
    server.sql_in(
        "crm",
        "CREATE TABLE Users (Id int, Name varchar(9) CHARACTER SET utf8mb4)",
    );
    server.sql_in(
        "crm",
        "INSERT INTO USERS VALUES (1, x'c3a9'), (2, 'b'); COMMIT",
    );
    let settings = SourceSettings {
        name: "shop".to_owned(),
        engine: EngineSettings::MariaDb(MariaDbSettings {
            address: server.url_of("agent", "crm"),
            password: None,
            ca_file: None,
            encrypted: true,
        }),
        writable: false,
        masks: [].into(),
        functions: [].into(),
        connections: 1,
        max_cost: None,
        max_rows: None,
    };
    let databases = Databases::new(vec![settings], Arc::new(OneSecret)).unwrap();
    let cancel = CancellationToken::new();
    let mut taken = crate::support::Taken::default();
    let asked = crate::support::query(
        "SELECT id, NAME, \"a\\\"b\", '\\'' FROM uSERs WHERE name <> 'x' OR name = 'é' ORDER BY ID",
        &cancel,
    );
    haft_contract::ops::DatabaseOps::query(&databases, asked, &mut taken)
        .await
        .unwrap();
    let expected = serde_json::json!([[1, "é", "a\"b", "'"], [2, "b", "a\"b", "'"]]);
    assert_eq!(serde_json::json!(taken.rows), expected);
}

/// A plan has names without their case, and this server has tables whose names differ in it alone.
#[tokio::test]
#[ignore = "ci: needs MariaDB"]
async fn tables_of_mariadb_that_differ_in_case_alone_are_not_read() {
    let shop = Shop::mariadb(Like::default());
    let accesses = shop
        .databases
        .read_statement("shop", "SELECT Email FROM Users");
    let accesses = format!("{:?}", accesses.unwrap().accesses);
    assert!(accesses.contains("shop.users.email"), "{accesses}");
    let error = shop.run("SELECT Email FROM Users").await.unwrap_err();
    assert!(error.message().contains("doesn't exist"), "{error}");
    shop.asked("CREATE TABLE Users (email text); CREATE TABLE `evil` (name text)");
    for statement in [
        "SELECT email FROM Users",
        "SELECT email FROM users",
        "SELECT o.id FROM orders o JOIN Users u ON u.email = o.status",
    ] {
        let error = shop.run(statement).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(error.message().contains("differ in case alone"), "{error}");
    }
    let error = shop.run("SELECT name FROM evil.users").await.unwrap_err();
    assert!(
        error.message().contains("cannot tell them apart"),
        "{error}"
    );
    let own = shop.mariadb.clone().unwrap().to_uppercase();
    let error = shop
        .run(&format!("SELECT id FROM {own}.orders"))
        .await
        .unwrap_err();
    assert!(error.message().contains("as the source has it"), "{error}");
    shop.run("SELECT id FROM orders").await.unwrap();
    let given = shop
        .run("WITH Orders AS (SELECT 1 AS id) SELECT id FROM orders")
        .await;
    assert!(given.unwrap_err().message().contains("choose another name"));
}

/// A server that is verified, and the same under another authority or name.
#[tokio::test]
#[ignore = "ci: needs MariaDB"]
async fn a_server_is_verified_and_its_password_read_where_it_is_kept() {
    let address = PostgresServer::own_address();
    let authority = CertificateAuthority::new();
    let certificate = authority.issue(&format!("IP:{address}"));
    let server = MariaDbServer::start_listening(address, Some(&certificate));
    server
        .sql("CREATE USER agent@'127.%' IDENTIFIED BY 'passing' REQUIRE SSL; CREATE DATABASE crm");
    server.sql("GRANT SELECT ON crm.* TO agent@'127.%'");
    let source =
        |host: String, ca_file: Option<std::path::PathBuf>, encrypted: bool| SourceSettings {
            name: "shop".to_owned(),
            engine: EngineSettings::MariaDb(MariaDbSettings {
                address: format!("mariadb://agent@{host}/crm"),
                password: SecretReference::parse("env:SHOP"),
                ca_file,
                encrypted,
            }),
            writable: false,
            masks: [].into(),
            functions: [].into(),
            connections: 1,
            max_cost: None,
            max_rows: None,
        };
    let cancel = CancellationToken::new();
    let check = async |settings: SourceSettings| {
        let databases = Databases::new(vec![settings], Arc::new(OneSecret)).unwrap();
        let found = databases
            .check("shop", (Duration::from_secs(30), &cancel))
            .await;
        found.map_err(|error| error.message().to_owned())
    };
    let own = Some(authority.certificate());
    assert_eq!(
        check(source(address.to_string(), own.clone(), true)).await,
        Ok(Vec::new())
    );
    let stranger = CertificateAuthority::new();
    let other = Some(stranger.certificate());
    for (settings, why) in [
        (
            source(address.to_string(), other, true),
            "not to be trusted",
        ),
        (source(address.to_string(), None, true), "not to be trusted"),
        (
            source(address.to_string(), own.clone(), false),
            "refuses the role",
        ),
    ] {
        assert!(check(settings).await.unwrap_err().contains(why), "{why}");
    }
    server.sql("ALTER USER agent@'127.%' IDENTIFIED BY 'another'");
    let error = check(source(address.to_string(), own, true))
        .await
        .unwrap_err();
    assert_eq!(error, "the database refuses the role");
}
