//! Real databases with the same few tables, and whoever takes rows.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{Arc, LazyLock},
    time::Duration,
};

use haft_connect::{
    Databases,
    settings::{
        DEFAULT_CONNECTIONS, EngineSettings, MariaDbSettings, PostgresSettings, SourceSettings,
        SqliteSettings,
    },
};
use haft_contract::{
    BoxFuture,
    ops::{DatabaseOps as _, DatabaseQuery, OpsError, StatementEnd, TakeRows, WantedRows},
    secret::{ReadSecret, Secret, SecretReference},
};
use haft_testkit::{mariadb_server::MariaDbServer, postgres_server::PostgresServer};
use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// One server for all tests of a process.
pub(crate) static SERVER: LazyLock<PostgresServer> = LazyLock::new(|| {
    let server = PostgresServer::start();
    server.sql(
        "CREATE ROLE agent LOGIN; CREATE ROLE strong LOGIN SUPERUSER; \
        CREATE ROLE files LOGIN IN ROLE pg_read_server_files; CREATE ROLE holder LOGIN",
    );
    server
});

/// The same of MariaDB. Roles and the database `evil` are the server's.
pub(crate) static MARIADB: LazyLock<MariaDbServer> = LazyLock::new(|| {
    let server = MariaDbServer::start();
    server.sql(
        "CREATE USER agent@localhost, strong@localhost, files@localhost, holder@localhost; \
        GRANT ALL ON *.* TO strong@localhost WITH GRANT OPTION; GRANT FILE ON *.* TO files@localhost; \
        CREATE DATABASE evil; CREATE TABLE evil.users (name text, email text); \
        INSERT INTO evil.users VALUES ('x', 'SECRET-EVIL')",
    );
    server
});

/// Runs as the superuser. The agent's role may change everything, so that only Haft stands between.
const POSTGRES_TABLES: &str = "
    CREATE TABLE users (id int PRIMARY KEY, name text, email text, country text, active boolean,
        score numeric, tags text[], profile jsonb, created_at timestamptz DEFAULT '2026-01-01');
    CREATE SEQUENCE users_id_seq;
    CREATE TABLE orders (id int PRIMARY KEY, user_id int, total numeric, status text, items jsonb,
        created_at timestamptz DEFAULT '2026-01-02');
    CREATE TABLE products (id int PRIMARY KEY, name text, price numeric, category text, stock int);
    CREATE TABLE order_items (order_id int, product_id int, quantity int, price numeric);
    CREATE TABLE events (id int, user_id int, kind text, created_at timestamptz, data jsonb);
    CREATE TABLE secrets (token text);
    CREATE VIEW active_users AS SELECT id, name FROM users WHERE active;
    CREATE SCHEMA evil; CREATE TABLE evil.users (name text, email text);
    CREATE MATERIALIZED VIEW totals AS SELECT sum(total) FROM orders;
    CREATE FUNCTION wipe_all() RETURNS int LANGUAGE sql SECURITY DEFINER
        AS 'DELETE FROM public.users; SELECT 1';
    CREATE FUNCTION wipe_row(u users) RETURNS int LANGUAGE sql SECURITY DEFINER
        AS 'DELETE FROM public.users; SELECT 1';
    CREATE FUNCTION full_of(u users) RETURNS text LANGUAGE sql AS 'SELECT u.email';
    CREATE FUNCTION order_owner(o orders) RETURNS text LANGUAGE sql SECURITY DEFINER
        AS 'SELECT email FROM public.users WHERE id = o.user_id';
    CREATE FUNCTION anything(record) RETURNS text LANGUAGE plpgsql SECURITY DEFINER
        AS 'BEGIN RETURN (SELECT token FROM public.secrets); END';
    CREATE PROCEDURE wipe() LANGUAGE sql AS 'DELETE FROM public.users';
    CREATE FUNCTION evil.plus(int, int) RETURNS int LANGUAGE sql AS 'SELECT 1';
    CREATE OPERATOR evil.+ (FUNCTION = evil.plus, LEFTARG = int, RIGHTARG = int);
    INSERT INTO users (id, name, email, country, active, score, tags, profile)
        SELECT i, 'name' || i, 'SECRET-' || i || '@example.com', (ARRAY['DE', 'FR', 'JP'])[i % 3 + 1],
            i % 2 = 0, i * 1.5, ARRAY['vip', 'new'], '{\"plan\": \"pro\", \"address\": {\"city\": \"X\"}}'
        FROM generate_series(1, 12) AS i;
    INSERT INTO orders SELECT i, i % 12 + 1, i * 10.5, 'paid', '[{\"sku\": \"a\"}]' FROM generate_series(1, 30) AS i;
    INSERT INTO products SELECT i, 'product' || i, i * 2.5, 'tools', i FROM generate_series(1, 5) AS i;
    INSERT INTO order_items SELECT i, i % 5 + 1, i, 2.5 FROM generate_series(1, 30) AS i;
    INSERT INTO events SELECT i, 1, 'view', now(), '{\"page\": \"/\"}' FROM generate_series(1, 9) AS i;
    INSERT INTO secrets VALUES ('SECRET-TOKEN');
    INSERT INTO evil.users VALUES ('x', 'SECRET-EVIL');
    GRANT ALL ON ALL TABLES IN SCHEMA public, evil TO agent;
    GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO agent; GRANT ALL ON SCHEMA evil TO agent";

/// Runs as `root`, a statement up to each end of a line behind `;`. The agent's role may change
/// everything, so that only Haft stands between.
const MARIADB_TABLES: &str = "
    CREATE TABLE users (id int PRIMARY KEY, name varchar(100), email varchar(100), country char(2),
        active boolean, score decimal(10, 2), json json, profile json,
        created_at datetime DEFAULT '2026-01-01', UNIQUE KEY (email));
    CREATE SEQUENCE numbers;
    CREATE TABLE orders (id int PRIMARY KEY, user_id int, total decimal(10, 2), status varchar(20),
        items json, created_at datetime DEFAULT '2026-01-02', KEY (user_id));
    CREATE TABLE products (id int PRIMARY KEY, name varchar(100), price decimal(10, 2),
        category varchar(50), stock int, FULLTEXT KEY (name));
    CREATE TABLE order_items (order_id int, product_id int, quantity int, price decimal(10, 2));
    CREATE TABLE events (id int, user_id int, kind varchar(20), created_at timestamp NULL, data json);
    CREATE TABLE secrets (token varchar(100));
    CREATE TABLE notes (id int PRIMARY KEY, body text) ENGINE = MyISAM;
    CREATE TABLE past (id int PRIMARY KEY, body varchar(100)) WITH SYSTEM VERSIONING;
    CREATE VIEW active_users AS SELECT id, name FROM users WHERE active;
    CREATE FUNCTION wipe_all() RETURNS int MODIFIES SQL DATA
        BEGIN DELETE FROM users; RETURN 1; END;
    CREATE FUNCTION count_of(name varchar(10)) RETURNS varchar(100) READS SQL DATA
        RETURN (SELECT token FROM secrets);
    CREATE PROCEDURE wipe() DELETE FROM users;
    INSERT INTO users (id, name, email, country, active, score, json, profile)
        SELECT seq, concat('name', seq), concat('SECRET-', seq, '@example.com'),
            elt(seq % 3 + 1, 'DE', 'FR', 'JP'), seq % 2 = 0, seq * 1.5, '\"SECRET-JSON\"',
            '{\"plan\": \"pro\", \"address\": {\"city\": \"X\"}}' FROM seq_1_to_12;
    INSERT INTO orders (id, user_id, total, status, items)
        SELECT seq, seq % 12 + 1, seq * 10.5, 'paid', '[{\"sku\": \"a\"}]' FROM seq_1_to_30;
    INSERT INTO products SELECT seq, concat('product ', seq), seq * 2.5, 'tools', seq FROM seq_1_to_5;
    INSERT INTO order_items SELECT seq, seq % 5 + 1, seq, 2.5 FROM seq_1_to_30;
    INSERT INTO events SELECT seq, 1, 'view', now(), '{\"page\": \"/\"}' FROM seq_1_to_9;
    INSERT INTO secrets VALUES ('SECRET-TOKEN');
    INSERT INTO notes VALUES (1, 'SECRET-NOTE');
    INSERT INTO past VALUES (1, 'SECRET-PAST');
    UPDATE past SET body = 'now'";

const MARIADB_GRANTS: &str = "GRANT ALTER, CREATE, CREATE ROUTINE, CREATE TEMPORARY TABLES, CREATE VIEW, DELETE, DROP, EVENT, EXECUTE, \
    INDEX, INSERT, LOCK TABLES, REFERENCES, SELECT, SHOW VIEW, TRIGGER, UPDATE, DELETE HISTORY";

const SQLITE_TABLES: &str = "
    CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, email TEXT, country TEXT, tags TEXT,
        profile TEXT, created_at TEXT DEFAULT '2026-01-01', active INTEGER DEFAULT 1);
    CREATE INDEX users_email ON users (email);
    CREATE TABLE orders (id INTEGER PRIMARY KEY, user_id INTEGER, total REAL, status TEXT,
        created_at TEXT DEFAULT '2026-01-02');
    CREATE TABLE secrets (token TEXT);
    CREATE TABLE log (what TEXT);
    CREATE VIEW active_users AS SELECT id, name FROM users WHERE active;
    CREATE VIEW emails AS SELECT email AS mail FROM users;
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12)
        INSERT INTO users (id, name, email, country, tags, profile)
        SELECT i, 'name' || i, 'SECRET-' || i, 'DE', '[\"a\"]', '{\"plan\": \"pro\"}' FROM n;
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30)
        INSERT INTO orders (id, user_id, total, status) SELECT i, i % 12 + 1, i * 10.5, 'paid' FROM n;
    INSERT INTO secrets VALUES ('SECRET-TOKEN')";

/// What a source is like besides its place.
#[derive(Clone)]
pub(crate) struct Like {
    pub(crate) writable: bool,
    pub(crate) connections: usize,
    pub(crate) max_cost: Option<u64>,
    pub(crate) max_rows: Option<u64>,
    pub(crate) masks: &'static [&'static str],
    pub(crate) functions: &'static [&'static str],
    pub(crate) also_changes: &'static [&'static str],
    pub(crate) schema: &'static str,
    pub(crate) role: &'static str,
}

impl Default for Like {
    fn default() -> Self {
        Self {
            writable: false,
            connections: DEFAULT_CONNECTIONS,
            max_cost: None,
            max_rows: None,
            masks: &[],
            functions: &[],
            also_changes: &[],
            schema: "public",
            role: "agent",
        }
    }
}

/// The source `shop` in a database of its own.
pub(crate) struct Shop {
    pub(crate) databases: Databases,
    /// Its name on the PostgreSQL server.
    pub(crate) database: Option<String>,
    /// Its name on the MariaDB server.
    pub(crate) mariadb: Option<String>,
    pub(crate) file: Option<PathBuf>,
    _folder: Option<TempDir>,
}

struct NoSecrets;

impl ReadSecret for NoSecrets {
    fn read<'a>(&'a self, _: &'a SecretReference) -> BoxFuture<'a, Result<Secret, String>> {
        Box::pin(async { Err("there is none".to_owned()) })
    }
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn settings(engine: EngineSettings, like: &Like) -> SourceSettings {
    SourceSettings {
        name: "shop".to_owned(),
        engine,
        writable: like.writable,
        masks: names(like.masks),
        functions: names(like.functions),
        connections: like.connections,
        max_cost: like.max_cost,
        max_rows: like.max_rows,
    }
}

impl Shop {
    pub(crate) fn postgres(like: Like) -> Self {
        let database = SERVER.new_database();
        SERVER.sql_in(&database, POSTGRES_TABLES);
        Self::postgres_in(database, like)
    }

    /// The same in a database that is there.
    pub(crate) fn postgres_in(database: String, like: Like) -> Self {
        let engine = EngineSettings::Postgres(PostgresSettings {
            address: SERVER.url_of(like.role, &database),
            password: None,
            schema: like.schema.to_owned(),
            also_changes: names(like.also_changes),
            ca_file: None,
            encrypted: true,
        });
        let databases = Databases::new(vec![settings(engine, &like)], Arc::new(NoSecrets));
        Self {
            databases: databases.unwrap(),
            database: Some(database),
            mariadb: None,
            file: None,
            _folder: None,
        }
    }

    pub(crate) fn mariadb(like: Like) -> Self {
        let database = MARIADB.new_database();
        MARIADB.sql_in(
            &database,
            &format!("DELIMITER $$\n{}", MARIADB_TABLES.replace(";\n", "$$\n")),
        );
        for of in [database.as_str(), "evil"] {
            for role in ["agent", "files"] {
                MARIADB.sql(&format!("{MARIADB_GRANTS} ON {of}.* TO {role}@localhost"));
            }
        }
        Self::mariadb_in(database, like)
    }

    /// The same in a database that is there.
    pub(crate) fn mariadb_in(database: String, like: Like) -> Self {
        let engine = EngineSettings::MariaDb(MariaDbSettings {
            address: MARIADB.url_of(like.role, &database),
            password: None,
            ca_file: None,
            encrypted: true,
        });
        let databases = Databases::new(vec![settings(engine, &like)], Arc::new(NoSecrets));
        Self {
            databases: databases.unwrap(),
            database: None,
            mariadb: Some(database),
            file: None,
            _folder: None,
        }
    }

    pub(crate) fn sqlite(like: Like) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("shop.db");
        let connection = Connection::open(&file).unwrap();
        connection.execute_batch(SQLITE_TABLES).unwrap();
        let engine = EngineSettings::Sqlite(SqliteSettings { path: file.clone() });
        let databases = Databases::new(vec![settings(engine, &like)], Arc::new(NoSecrets));
        Self {
            databases: databases.unwrap(),
            database: None,
            mariadb: None,
            file: Some(file),
            _folder: Some(folder),
        }
    }

    /// The same SQLite file once more.
    pub(crate) fn again(&self, like: &Like) -> Databases {
        let path = self.file.clone().unwrap();
        let engine = EngineSettings::Sqlite(SqliteSettings { path });
        Databases::new(vec![settings(engine, like)], Arc::new(NoSecrets)).unwrap()
    }

    /// Asks the database itself, as its owner.
    pub(crate) fn asked(&self, statement: &str) -> String {
        if let Some(database) = &self.mariadb {
            return MARIADB.sql_in(database, statement);
        }
        match (&self.database, &self.file) {
            (Some(database), _) => SERVER.sql_in(database, statement),
            (None, Some(file)) => {
                let connection = Connection::open(file).unwrap();
                let mut statement = connection.prepare(statement).unwrap();
                let rows = statement.query_map([], |row| {
                    let value: rusqlite::types::Value = row.get(0)?;
                    Ok(format!("{value:?}"))
                });
                let rows: Vec<String> = rows.unwrap().map(Result::unwrap).collect();
                rows.join("\n")
            }
            (None, None) => panic!("a database"),
        }
    }

    /// Runs a statement as the databases do for a tool.
    pub(crate) async fn run(&self, statement: &str) -> Result<(Taken, StatementEnd), OpsError> {
        let cancel = CancellationToken::new();
        self.run_as(query(statement, &cancel)).await
    }

    pub(crate) async fn run_as(
        &self,
        query: DatabaseQuery<'_>,
    ) -> Result<(Taken, StatementEnd), OpsError> {
        let mut taken = Taken::default();
        let end = self.databases.query(query, &mut taken).await?;
        Ok((taken, end))
    }
}

pub(crate) fn query<'a>(statement: &'a str, cancel: &'a CancellationToken) -> DatabaseQuery<'a> {
    DatabaseQuery {
        source: "shop",
        statement,
        parameters: &[],
        writes: false,
        expect_rows: None,
        within: Duration::from_secs(30),
        cancel,
    }
}

/// Keeps every row.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<Value>>,
}

impl TakeRows for Taken {
    fn columns(&mut self, names: &[String]) {
        self.columns = names.to_vec();
    }

    fn rows(&mut self, rows: Vec<Vec<Value>>) -> BoxFuture<'_, WantedRows> {
        self.rows.extend(rows);
        Box::pin(async { WantedRows::More })
    }
}

/// The most memory this process has had, in kilobytes.
pub(crate) fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
