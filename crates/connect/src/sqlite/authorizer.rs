//! Answers SQLite's question about every table, column and function that it compiles into a
//! statement: only what was read from the statement's text, which is what the plan names.

use std::collections::BTreeSet;

use haft_contract::Access;
use rusqlite::{
    Connection,
    hooks::{AuthAction, AuthContext, Authorization},
};

use crate::sql::{SqlDialect, SqlReading, is_harmless};

/// What one statement may touch.
#[derive(Debug, Clone)]
pub(super) struct Allowed {
    /// `table.column`, `table.*` and `table.(rows)` that are read.
    read: BTreeSet<String>,
    /// The same that are written.
    written: BTreeSet<String>,
    /// Functions besides the built-in ones.
    functions: BTreeSet<String>,
    /// Every table and view there is.
    known: BTreeSet<String>,
}

impl Allowed {
    pub(super) fn by(source: &str, reading: &SqlReading) -> Self {
        let mut allowed = Self {
            read: BTreeSet::new(),
            written: BTreeSet::new(),
            functions: BTreeSet::new(),
            known: BTreeSet::new(),
        };
        let prefix = format!("{source}.");
        for access in &reading.accesses {
            let Access::Database { source, writes } = access else {
                continue;
            };
            let what = source.strip_prefix(&prefix).unwrap_or_default().to_owned();
            match what.strip_suffix("()") {
                Some(function) if !function.is_empty() => {
                    allowed.functions.insert(function.to_owned());
                }
                Some(_) | None if *writes => {
                    allowed.written.insert(what);
                }
                Some(_) | None => {
                    allowed.read.insert(what);
                }
            }
        }
        allowed
    }

    /// Learns which names are those of tables and views, so that one that a statement gives by `WITH`
    /// is told apart.
    pub(super) fn know_tables(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut statement = connection.prepare("SELECT lower(name) FROM sqlite_schema")?;
        let names = statement.query_map([], |row| row.get::<_, String>(0))?;
        self.known = names.collect::<rusqlite::Result<_>>()?;
        Ok(())
    }

    /// Whether SQLite may do this.
    pub(super) fn answer(&self, context: &AuthContext<'_>) -> Authorization {
        // A view may read what it shows if the view itself is read. A trigger may do nothing: what
        // it does is in no plan.
        let within_view = context.accessor.is_some_and(|view| {
            let view = written(view);
            self.read.iter().any(|read| is_of(read, &view))
        });
        let may = match &context.action {
            AuthAction::Select | AuthAction::Recursive => true,
            AuthAction::Transaction { .. } => context.accessor.is_none(),
            AuthAction::Function { function_name } => {
                let name = function_name.to_lowercase();
                is_harmless(SqlDialect::Sqlite, &name) || self.functions.contains(&name)
            }
            AuthAction::Read {
                table_name,
                column_name,
            } => {
                // SQLite names no column where only rows are counted, of a table or of a name that the
                // statement gave.
                let table = table_name.to_lowercase();
                let given = column_name.is_empty()
                    && !table.starts_with("sqlite_")
                    && !self.known.contains(&table);
                within_view
                    || given
                    || self.reads(table_name, column_name)
                    // A table that a function makes.
                    || is_harmless(SqlDialect::Sqlite, &table_name.to_lowercase())
            }
            AuthAction::Insert { table_name } => {
                context.accessor.is_none() && self.writes_to(table_name)
            }
            AuthAction::Delete { table_name } => {
                let whole = format!("{}.*", written(table_name));
                context.accessor.is_none() && self.written.contains(&whole)
            }
            AuthAction::Update {
                table_name,
                column_name,
            } => {
                let table = written(table_name);
                let column = format!("{table}.{}", written(column_name));
                context.accessor.is_none() && self.written.contains(&column)
            }
            _ => false,
        };
        if may {
            Authorization::Allow
        } else {
            Authorization::Deny
        }
    }

    fn reads(&self, table: &str, column: &str) -> bool {
        let table = written(table);
        let whole = format!("{table}.*");
        let named = format!("{table}.{}", written(column));
        let both = [&self.read, &self.written];
        both.iter().any(|set| {
            set.contains(&whole)
                || set.contains(&named)
                // SQLite names no column where only rows are counted.
                || column.is_empty() && set.iter().any(|read| is_of(read, &table))
        })
    }

    fn writes_to(&self, table: &str) -> bool {
        let table = written(table);
        self.written.iter().any(|written| is_of(written, &table))
    }
}

/// A name as accesses have it.
fn written(name: &str) -> String {
    crate::sql::quoted(&name.to_lowercase())
}

/// Whether something read is of this table.
fn is_of(read: &str, table: &str) -> bool {
    let rest = read.strip_prefix(table);
    rest.is_some_and(|rest| rest.starts_with('.'))
}
