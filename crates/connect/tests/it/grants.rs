//! PostgreSQL as the judge of the reader: a role that may touch what was read from a statement's text,
//! and nothing else, is enough to run the statement. What the reader missed would be refused.

use std::fmt::Write as _;

use haft_contract::{
    Access,
    ops::{DatabaseOps as _, DatabaseQuery, ReadStatement as _},
};
use serde::Deserialize;
use tokio_postgres::{Client, NoTls};
use tokio_util::sync::CancellationToken;

use crate::support::{Like, SERVER, Shop, query};

const ATTACKS: &str = include_str!("../../../../attacks/sql/postgres.toml");
const TWINS: &str = include_str!("../../../../attacks/sql/twins.toml");
const SCOPES: &str = include_str!("../../../../attacks/sql/scopes.toml");

#[derive(Deserialize)]
struct Statements {
    #[serde(default)]
    attack: Vec<Statement>,
    #[serde(default)]
    postgres: Vec<Statement>,
}

#[derive(Deserialize)]
struct Statement {
    statement: String,
}

/// Who may touch what one statement was read to touch.
struct NarrowRole {
    owner: Client,
    shop: Shop,
}

impl NarrowRole {
    async fn new() -> Self {
        let like = Like {
            writable: true,
            ..Like::default()
        };
        let shop = Shop::postgres(like.clone());
        let database = shop.database.clone().unwrap();
        SERVER.sql("CREATE ROLE narrow LOGIN");
        // Counting rows takes the right to some column, whichever. This one is in no statement.
        let any_column = "DO $$ DECLARE t regclass; BEGIN FOR t IN SELECT oid FROM pg_class WHERE relkind = 'r' AND \
            relnamespace IN ('public'::regnamespace, 'evil'::regnamespace) LOOP \
            EXECUTE format('ALTER TABLE %s ADD COLUMN any_row int', t); END LOOP; END $$; \
            GRANT USAGE ON SCHEMA evil TO narrow";
        SERVER.sql_in(&database, any_column);
        let url = SERVER.url_of("strong", &database);
        let (owner, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let like = Like {
            role: "narrow",
            ..like
        };
        Self {
            owner,
            shop: Shop::postgres_in(database, like),
        }
    }

    /// Grants what the accesses name. Columns that a table does not have are left out: a name without
    /// a table counts for each that it could be of.
    async fn grant(&self, accesses: &[Access]) {
        let nothing = "REVOKE ALL ON ALL TABLES IN SCHEMA public, evil FROM narrow";
        self.owner.batch_execute(nothing).await.unwrap();
        for access in accesses {
            let Access::Database { source, writes } = access else {
                panic!("{access:?}");
            };
            let parts: Vec<&str> = source.split('.').skip(1).collect();
            let (table, column) = match parts.as_slice() {
                [table, column] => (format!("public.{table}"), *column),
                [schema, table, column] => (format!("{schema}.{table}"), *column),
                _ => continue,
            };
            let column = column.replace('"', "");
            let (table, column) = (table.replace('.', "\".\""), column.as_str());
            let table = format!("\"{table}\"");
            let counting = format!("GRANT SELECT (any_row) ON {table} TO narrow");
            drop(self.owner.batch_execute(&counting).await);
            let grant = match (column, writes) {
                ("*", true) => format!("GRANT INSERT, UPDATE, DELETE ON {table} TO narrow"),
                ("*", false) => format!("GRANT SELECT ON {table} TO narrow"),
                ("(rows)", _) => continue,
                (column, true) => {
                    format!(
                        "GRANT INSERT (\"{column}\"), UPDATE (\"{column}\") ON {table} TO narrow"
                    )
                }
                (column, false) => format!("GRANT SELECT (\"{column}\") ON {table} TO narrow"),
            };
            // There may be no such table or column.
            drop(self.owner.batch_execute(&grant).await);
        }
    }

    /// What the server refuses the role of a statement; none if it would run.
    async fn refused(&self, statement: &str) -> Result<Option<String>, String> {
        let databases = &self.shop.databases;
        let reading = databases.read_statement("shop", statement);
        let reading = reading.map_err(|error| error.to_string())?;
        self.grant(&reading.accesses).await;
        let cancel = CancellationToken::new();
        let asked = DatabaseQuery {
            writes: reading.writes,
            ..query(statement, &cancel)
        };
        match databases.explain(asked).await {
            Ok(_) => Ok(None),
            Err(error) if error.message().contains("permission denied") => {
                Ok(Some(format!("{error}, read as {:?}", reading.accesses)))
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn what_was_read_from_a_statement_is_all_that_it_needs() {
    let role = NarrowRole::new().await;
    // Otherwise nothing here would be proven.
    role.grant(&[]).await;
    let cancel = CancellationToken::new();
    let error = role
        .shop
        .databases
        .explain(query("SELECT id FROM users", &cancel));
    assert!(
        error
            .await
            .unwrap_err()
            .message()
            .contains("permission denied")
    );
    let (mut ran, mut missed, mut broken) = (0, String::new(), String::new());
    for (text, must_run) in [(ATTACKS, false), (TWINS, true), (SCOPES, true)] {
        let statements: Statements = toml::from_str(text).unwrap();
        for Statement { statement } in statements.attack.iter().chain(&statements.postgres) {
            match role.refused(statement).await {
                Ok(None) => ran += 1,
                Ok(Some(why)) => writeln!(missed, "{statement}\n    {why}").unwrap(),
                Err(why) if must_run => writeln!(broken, "{statement}\n    {why}").unwrap(),
                Err(_) => {}
            }
        }
    }
    println!("{ran} statements need no more than was read");
    assert!(missed.is_empty() && broken.is_empty(), "{missed}\n{broken}");
    assert!(ran >= 200, "{ran}");
}
