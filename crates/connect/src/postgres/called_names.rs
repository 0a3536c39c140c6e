//! Names of which the reader of the text could not tell what they are to the server. PostgreSQL calls `f(u)` for `u.f` if `u` has no column `f`, and
//! a function of the schema instead of a built-in one whose types fit less well. And in `crm.users.email`
//! the second part may be a schema.

use haft_contract::{ErrorKind, ops::OpsError};
use tokio_postgres::Client;

use super::{PostgresSource, failure::failed};
use crate::sql::{CalledNames, SqlDialect, is_harmless};

/// A function in the schema with the name of a built-in one.
const SHADOWS: &str = "SELECT p.proname::text FROM pg_catalog.pg_proc AS p
    JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
    WHERE n.nspname = $1 AND p.proname::text = ANY($2) LIMIT 1";

/// A name behind a table's that is not one of its columns. A table that is not there is no matter: the
/// statement fails.
const NO_COLUMN: &str = "SELECT named.tab, named.col
    FROM unnest($1::text[], $2::text[], $3::text[]) AS named(sch, tab, col)
    JOIN pg_catalog.pg_namespace AS n ON n.nspname = named.sch::name
    JOIN pg_catalog.pg_class AS c ON c.relnamespace = n.oid AND c.relname = named.tab::name
    WHERE NOT EXISTS (SELECT 1 FROM pg_catalog.pg_attribute AS a
        WHERE a.attrelid = c.oid AND a.attname = named.col::name AND NOT a.attisdropped) LIMIT 1";

/// A function of the schema that takes one value, or a built-in one that takes a whole row.
const OF_ONE_VALUE: &str = "SELECT p.proname::text FROM pg_catalog.pg_proc AS p
    JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
    WHERE p.pronargs - p.pronargdefaults <= 1 AND p.pronargs > 0
    AND (n.nspname = $1 AND p.proname::text = ANY($2)
        OR n.nspname = 'pg_catalog' AND p.proname::text = ANY($3)
            AND p.proargtypes[0]::regtype::text IN ('record', '\"any\"', 'anyelement', 'anynonarray',
                'anycompatible', 'anycompatiblenonarray'))
    LIMIT 1";

/// A table of the source's schema with the name of another schema.
const TABLE_LIKE_A_SCHEMA: &str = "SELECT c.relname::text FROM pg_catalog.pg_class AS c
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relname::text = ANY($2) AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
    LIMIT 1";

impl PostgresSource {
    /// Refuses a statement in which a name may be something else than the reader took it for.
    pub(super) async fn check_called(
        &self,
        client: &Client,
        called: &CalledNames,
    ) -> Result<(), OpsError> {
        // One round trip for all of them.
        let (shadows, columns, fields, schemas) = tokio::join!(
            self.check_built_in(client, called),
            self.check_columns(client, called),
            self.check_fields(client, called),
            self.check_schemas(client, called)
        );
        shadows.and(columns).and(fields).and(schemas)
    }

    /// A rule about the table `crm.users` would also be one about everything in the schema `users`.
    async fn check_schemas(&self, client: &Client, called: &CalledNames) -> Result<(), OpsError> {
        let names: Vec<&str> = called.schemas.iter().map(String::as_str).collect();
        let Some(name) = self.named(client, TABLE_LIKE_A_SCHEMA, &names).await? else {
            return Ok(());
        };
        Err(OpsError::new(
            ErrorKind::Denied,
            format!(
                "`{name}` is a schema and also a table of the schema `{}`, and rules cannot tell them \
                 apart; the operator can make a source of its own with `schema = \"{name}\"`",
                self.schema
            ),
        ))
    }

    /// Which of the names the query finds in the source's schema.
    async fn named(
        &self,
        client: &Client,
        query: &str,
        names: &[&str],
    ) -> Result<Option<String>, OpsError> {
        if names.is_empty() {
            return Ok(None);
        }
        let found = client.query_opt(query, &[&self.schema, &names]).await;
        let Some(row) = found.map_err(|error| failed(&error))? else {
            return Ok(None);
        };
        row.try_get(0).map(Some).map_err(|error| failed(&error))
    }

    async fn check_built_in(&self, client: &Client, called: &CalledNames) -> Result<(), OpsError> {
        // There the built-in functions are the schema's own.
        if self.schema == "pg_catalog" {
            return Ok(());
        }
        let names: Vec<&str> = called.built_in.iter().map(String::as_str).collect();
        let Some(name) = self.named(client, SHADOWS, &names).await? else {
            return Ok(());
        };
        Err(OpsError::new(
            ErrorKind::Denied,
            format!(
                "the schema has a function `{name}` of its own; write `pg_catalog.\"{name}\"` for the \
                 built-in one, or have the operator list `{name}` under `functions`"
            ),
        ))
    }

    async fn check_columns(&self, client: &Client, called: &CalledNames) -> Result<(), OpsError> {
        if called.columns.is_empty() {
            return Ok(());
        }
        let (mut schemas, mut tables, mut columns) = (Vec::new(), Vec::new(), Vec::new());
        for (schema, table, column) in &called.columns {
            schemas.push(schema.as_deref().unwrap_or(&self.schema));
            tables.push(table.as_str());
            columns.push(column.as_str());
        }
        let found = client
            .query_opt(NO_COLUMN, &[&schemas, &tables, &columns])
            .await;
        let Some(row) = found.map_err(|error| failed(&error))? else {
            return Ok(());
        };
        let table: String = row.try_get(0).map_err(|error| failed(&error))?;
        let column: String = row.try_get(1).map_err(|error| failed(&error))?;
        Err(OpsError::new(
            ErrorKind::Denied,
            format!(
                "`{table}` has no column `{column}`, and the server might call a function of this \
                 name instead; the action `schema` lists columns"
            ),
        ))
    }

    async fn check_fields(&self, client: &Client, called: &CalledNames) -> Result<(), OpsError> {
        if called.fields.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = called.fields.iter().map(String::as_str).collect();
        // What a harmless one could give was read with the value: `counted.count` may pass.
        let unlisted = names.iter().copied();
        let unlisted: Vec<&str> = unlisted
            .filter(|name| !is_harmless(SqlDialect::Postgres, name))
            .collect();
        let found = client
            .query_opt(OF_ONE_VALUE, &[&self.schema, &names, &unlisted])
            .await;
        let Some(row) = found.map_err(|error| failed(&error))? else {
            return Ok(());
        };
        let name: String = row.try_get(0).map_err(|error| failed(&error))?;
        Err(OpsError::new(
            ErrorKind::Denied,
            format!(
                "the server might take `.{name}` for a call of the function of this name; give the \
                 field another name"
            ),
        ))
    }
}
