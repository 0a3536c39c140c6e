//! Tables and columns that the role may read, from the server's catalog. Rows are never counted.

use haft_contract::ops::{ColumnSummary, OpsError, SchemaPage, SchemaQuestion, TableSummary};

use super::{PostgresSource, failure::failed, session::TransactionUse};
use crate::halt::Halt;

/// Tables, a page of them.
const TABLES: &str = "SELECT n.nspname::text, c.relname::text, c.relkind::text, c.reltuples::bigint
    FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname !~ '^pg_'
    AND n.nspname <> 'information_schema'
    AND (pg_catalog.has_table_privilege(c.oid, 'SELECT')
        OR pg_catalog.has_any_column_privilege(c.oid, 'SELECT'))
    AND ($1::text IS NULL OR strpos(lower(c.relname::text), lower($1)) > 0
        OR EXISTS (SELECT 1 FROM pg_catalog.pg_attribute AS a WHERE a.attrelid = c.oid
            AND a.attnum > 0 AND strpos(lower(a.attname::text), lower($1)) > 0))
    AND ($2::text IS NULL OR c.relname::text = $2 AND n.nspname = $5
        OR n.nspname || '.' || c.relname = $2)
    ORDER BY n.nspname <> $5, 1, 2 OFFSET $3 LIMIT $4";

/// The columns of one table.
const COLUMNS: &str = "SELECT a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod),
    NOT a.attnotnull
    FROM pg_catalog.pg_attribute AS a
    JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relname::text = $2 AND a.attnum > 0 AND NOT a.attisdropped
    AND pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT')
    ORDER BY a.attnum";

impl PostgresSource {
    /// Lists tables.
    pub(crate) async fn schema(
        &self,
        question: &SchemaQuestion<'_>,
        halt: &Halt,
    ) -> Result<SchemaPage, OpsError> {
        let backend = self.begin(TransactionUse::Reads, halt).await?;
        let run = async {
            let client = backend.client()?;
            let offset = i64::try_from(question.offset).unwrap_or(i64::MAX);
            let limit = i64::try_from(question.limit.saturating_add(1)).unwrap_or(i64::MAX);
            let found = client
                .query(
                    TABLES,
                    &[
                        &question.search,
                        &question.table,
                        &offset,
                        &limit,
                        &self.schema,
                    ],
                )
                .await;
            let found = found.map_err(|error| failed(&error))?;
            let more = found.len() > question.limit;
            let mut tables = Vec::new();
            for row in found.iter().take(question.limit) {
                let text = |column| {
                    row.try_get::<_, String>(column)
                        .map_err(|error| failed(&error))
                };
                let (schema, name, kind) = (text(0)?, text(1)?, text(2)?);
                let rows: i64 = row.try_get(3).map_err(|error| failed(&error))?;
                let mut columns = Vec::new();
                if question.table.is_some() {
                    let found = client.query(COLUMNS, &[&schema, &name]).await;
                    for column in found.map_err(|error| failed(&error))? {
                        columns.push(ColumnSummary {
                            name: column.try_get(0).map_err(|error| failed(&error))?,
                            kind: column.try_get(1).map_err(|error| failed(&error))?,
                            nullable: column.try_get(2).map_err(|error| failed(&error))?,
                        });
                    }
                }
                let name = if schema == self.schema {
                    name
                } else {
                    format!("{schema}.{name}")
                };
                tables.push(TableSummary {
                    name,
                    kind: kind_of(&kind).to_owned(),
                    // It is -1 until the table was looked at.
                    estimated_rows: u64::try_from(rows).ok(),
                    columns,
                });
            }
            Ok(SchemaPage { tables, more })
        };
        let page = tokio::select! {
            biased;
            page = run => page,
            stop = halt.reached() => return Err(backend.end(stop).await),
        };
        backend.roll_back().await;
        page
    }
}

fn kind_of(letter: &str) -> &'static str {
    match letter {
        "v" => "view",
        "m" => "materialized view",
        "f" => "foreign table",
        _ => "table",
    }
}
