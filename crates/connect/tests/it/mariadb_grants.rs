//! MariaDB as the judge of the reader: a role that may read what was read from a statement's text, and
//! nothing else, is enough to run the statement. What the reader missed would be refused.

use std::{collections::BTreeSet, fmt::Write as _};

use haft_contract::{Access, ErrorKind, ops::ReadStatement as _};
use serde::Deserialize;

use crate::support::{Like, MARIADB, Shop};

const ATTACKS: &str = include_str!("../../../../attacks/sql/mariadb.toml");
const TWINS: &str = include_str!("../../../../attacks/sql/twins.toml");

#[derive(Deserialize)]
struct Statements {
    #[serde(default)]
    attack: Vec<Statement>,
    #[serde(default)]
    mariadb: Vec<Statement>,
}

#[derive(Deserialize)]
struct Statement {
    statement: String,
}

/// Who may read what one statement was read to touch.
struct NarrowRole {
    shop: Shop,
    database: String,
    /// Every column there is: `database.table.column`.
    columns: BTreeSet<String>,
}

impl NarrowRole {
    fn new() -> Self {
        let database = Shop::mariadb(Like::default()).mariadb.unwrap();
        MARIADB.sql(&format!(
            "CREATE USER narrow@localhost; GRANT USAGE ON {database}.* TO narrow@localhost"
        ));
        // Counting rows takes the right to some column, whichever. This one is in no statement.
        let names = [
            "users",
            "orders",
            "products",
            "order_items",
            "events",
            "secrets",
            "notes",
        ];
        for table in names
            .map(str::to_owned)
            .iter()
            .chain([&"evil.users".to_owned()])
        {
            MARIADB.sql_in(
                &database,
                &format!("ALTER TABLE {table} ADD COLUMN any_row int"),
            );
        }
        let columns = format!(
            "SELECT lower(concat(table_schema, '.', table_name, '.', column_name))
            FROM information_schema.columns WHERE table_schema IN ('{database}', 'evil')"
        );
        let columns = MARIADB.sql(&columns).lines().map(str::to_owned).collect();
        let like = Like {
            role: "narrow",
            ..Like::default()
        };
        Self {
            shop: Shop::mariadb_in(database.clone(), like),
            database,
            columns,
        }
    }

    /// Grants what the accesses name, of what there is: a name without a table counts for each that it
    /// could be of.
    fn grant(&self, accesses: &[Access]) {
        let mut grants = "REVOKE ALL PRIVILEGES, GRANT OPTION FROM narrow@localhost".to_owned();
        for access in accesses {
            let Access::Database { source, .. } = access else {
                panic!("{access:?}");
            };
            let source = source.replace('"', "");
            let parts: Vec<&str> = source.split('.').skip(1).collect();
            let (table, column) = match parts.as_slice() {
                [table, column] => (format!("{}.{table}", self.database), *column),
                [schema, table, column] => (format!("{schema}.{table}"), *column),
                _ => continue,
            };
            let has = |column: &str| self.columns.contains(&format!("{table}.{column}"));
            if has("any_row") {
                write!(
                    grants,
                    "; GRANT SELECT (any_row) ON {table} TO narrow@localhost"
                )
                .unwrap();
            }
            if column == "*"
                && self
                    .columns
                    .iter()
                    .any(|of| of.starts_with(&format!("{table}.")))
            {
                write!(grants, "; GRANT SELECT ON {table} TO narrow@localhost").unwrap();
            } else if has(column) {
                write!(
                    grants,
                    "; GRANT SELECT (`{column}`) ON {table} TO narrow@localhost"
                )
                .unwrap();
            }
        }
        // A role without any right to a database cannot connect to it.
        write!(
            grants,
            "; GRANT SELECT ON {}.past TO narrow@localhost",
            self.database
        )
        .unwrap();
        MARIADB.sql(&grants);
    }

    /// Whether there is any of the columns that the accesses name.
    fn has_any(&self, accesses: &[Access]) -> bool {
        accesses.iter().any(|access| {
            let Access::Database { source, .. } = access else {
                return false;
            };
            let parts: Vec<&str> = source.split('.').skip(1).collect();
            match parts.as_slice() {
                [_, "*"] | [_, _, "*"] => true,
                [table, column] => self
                    .columns
                    .contains(&format!("{}.{table}.{column}", self.database)),
                [schema, table, column] => {
                    self.columns.contains(&format!("{schema}.{table}.{column}"))
                }
                _ => false,
            }
        })
    }
}

#[tokio::test]
#[ignore = "ci: needs MariaDB"]
async fn what_was_read_from_a_statement_is_all_that_mariadb_needs() {
    let role = NarrowRole::new();
    // Otherwise nothing here would be proven.
    role.grant(&[]);
    for statement in ["SELECT id FROM users", "SELECT name FROM evil.users"] {
        let error = role.shop.run(statement).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
    }
    let (mut ran, mut missed, mut broken) = (0, String::new(), String::new());
    for (text, must_run) in [(ATTACKS, false), (TWINS, true)] {
        let statements: Statements = toml::from_str(text).unwrap();
        for Statement { statement } in statements.attack.iter().chain(&statements.mariadb) {
            let Ok(reading) = role.shop.databases.read_statement("shop", statement) else {
                assert!(!must_run, "{statement}");
                continue;
            };
            // Tables that the server makes up cannot be granted by columns.
            if statement.contains("seq_") {
                continue;
            }
            role.grant(&reading.accesses);
            match role.shop.run(statement).await {
                Ok(_) => ran += 1,
                // Of a name that nothing has, the server says first that it may not be read.
                Err(error)
                    if error.kind() == ErrorKind::AccessDenied
                        && role.has_any(&reading.accesses)
                        && !statement.contains("EVIL") =>
                {
                    writeln!(
                        missed,
                        "{statement}\n    {error}, read as {:?}",
                        reading.accesses
                    )
                    .unwrap();
                }
                Err(error) if must_run => writeln!(broken, "{statement}\n    {error}").unwrap(),
                Err(_) => {}
            }
        }
    }
    println!("{ran} statements need no more than was read");
    assert!(missed.is_empty() && broken.is_empty(), "{missed}\n{broken}");
    assert!(ran >= 90, "{ran}");
}
