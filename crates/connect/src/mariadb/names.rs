//! Names of which the text does not tell what they are to this server. Most servers tell tables apart
//! whose names differ in case alone, and a plan does not; a name that `WITH` gives may be a table's
//! too; and in `crm.users.email` the second part may be a database.

use std::collections::BTreeSet;

use haft_contract::{ErrorKind, ops::OpsError};
use mysql_async::{Conn, Params, Value, prelude::Queryable as _};

use super::{MariaDbSource, failure::failed};
use crate::sql::CalledNames;

const DATABASES: &str = "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA";

impl MariaDbSource {
    /// Refuses a statement in which a name may be something else than the reader took it for.
    pub(super) async fn check_called(
        &self,
        conn: &mut Conn,
        called: &CalledNames,
    ) -> Result<(), OpsError> {
        let own = called.tables.iter().filter(|(schema, _)| schema.is_none());
        let own: BTreeSet<&str> = own.map(|(_, name)| name.as_str()).collect();
        let others = called.given.iter().chain(&called.schemas);
        let wanted: BTreeSet<&str> = own
            .iter()
            .copied()
            .chain(others.map(String::as_str))
            .collect();
        let tables = tables(conn, &self.database, &wanted).await?;
        check_once(&own, &tables)?;
        if let Some(name) = called.given.iter().find(|name| has(&tables, name)) {
            return Err(OpsError::new(
                ErrorKind::Denied,
                format!(
                    "`{name}` is a table or a view, and the statement gives the name to a query of its \
                     own; choose another name there"
                ),
            ));
        }
        if let Some(name) = called.schemas.iter().find(|name| has(&tables, name)) {
            return Err(OpsError::new(
                ErrorKind::Denied,
                format!(
                    "`{name}` is a database and also a table of the database `{}`, and rules cannot \
                     tell them apart; the operator can make a source of its own for it",
                    self.database
                ),
            ));
        }
        if called.schemas.is_empty() {
            return Ok(());
        }
        let databases: Vec<String> = conn
            .query(DATABASES)
            .await
            .map_err(|error| failed(&error))?;
        let schemas: BTreeSet<&str> = called.schemas.iter().map(String::as_str).collect();
        check_once(&schemas, &databases)?;
        for schema in &called.schemas {
            let named = called.tables.iter();
            let named = named.filter(|(of, _)| of.as_ref() == Some(schema));
            let named: BTreeSet<&str> = named.map(|(_, name)| name.as_str()).collect();
            let exact = databases.iter().find(|name| name.to_lowercase() == *schema);
            if let Some(exact) = exact {
                check_once(&named, &self::tables(conn, exact, &named).await?)?;
            }
        }
        Ok(())
    }
}

/// Tables and views of a database with these names, whatever their case.
async fn tables(
    conn: &mut Conn,
    database: &str,
    names: &BTreeSet<&str>,
) -> Result<Vec<String>, OpsError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let places = vec!["?"; names.len()].join(", ");
    let statement = format!(
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND LOWER(TABLE_NAME) IN ({places})"
    );
    let values = std::iter::once(database).chain(names.iter().copied());
    let values: Vec<Value> = values.map(Value::from).collect();
    let found = conn.exec(statement, Params::Positional(values)).await;
    found.map_err(|error| failed(&error))
}

fn has(tables: &[String], name: &str) -> bool {
    tables.iter().any(|table| table.to_lowercase() == name)
}

/// Refuses a name of which there are several.
fn check_once(names: &BTreeSet<&str>, found: &[String]) -> Result<(), OpsError> {
    for name in names {
        let same = found.iter().filter(|found| found.to_lowercase() == **name);
        if same.count() > 1 {
            return Err(OpsError::new(
                ErrorKind::Denied,
                format!(
                    "there are several `{name}` whose names differ in case alone, and rules cannot tell \
                     them apart"
                ),
            ));
        }
    }
    Ok(())
}

/// A name in a statement.
pub(super) fn identifier(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}
