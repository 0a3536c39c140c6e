//! Tables and columns that the role may read, from the server's catalog. Rows are never counted.

use haft_contract::ops::{ColumnSummary, OpsError, SchemaPage, SchemaQuestion, TableSummary};
use mysql_async::{Params, Row, Value, prelude::Queryable as _};

use super::{MariaDbSource, failure::failed, session::TransactionUse};
use crate::halt::Halt;

/// Tables, a page of them. Estimates are the engines' own.
const TABLES: &str =
    "SELECT t.TABLE_SCHEMA, t.TABLE_NAME, t.TABLE_TYPE, CAST(t.TABLE_ROWS AS UNSIGNED)
    FROM information_schema.TABLES AS t
    WHERE t.TABLE_SCHEMA NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')
    AND (? IS NULL OR INSTR(LOWER(t.TABLE_NAME), LOWER(?)) > 0
        OR EXISTS (SELECT 1 FROM information_schema.COLUMNS AS c
            WHERE c.TABLE_SCHEMA = t.TABLE_SCHEMA AND c.TABLE_NAME = t.TABLE_NAME
            AND INSTR(LOWER(c.COLUMN_NAME), LOWER(?)) > 0))
    AND (? IS NULL OR t.TABLE_NAME = ? AND t.TABLE_SCHEMA = ?
        OR CONCAT(t.TABLE_SCHEMA, '.', t.TABLE_NAME) = ?)
    ORDER BY t.TABLE_SCHEMA <> ?, 1, 2 LIMIT ? OFFSET ?";

/// The columns of one table.
const COLUMNS: &str = "SELECT COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE FROM information_schema.COLUMNS
    WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND FIND_IN_SET('select', PRIVILEGES) > 0
    ORDER BY ORDINAL_POSITION";

impl MariaDbSource {
    /// Lists tables.
    pub(crate) async fn schema(
        &self,
        question: &SchemaQuestion<'_>,
        halt: &Halt,
    ) -> Result<SchemaPage, OpsError> {
        let mut backend = self.begin(TransactionUse::Reads, halt).await?;
        let run = async {
            let conn = backend.conn()?;
            let (search, table) = (Value::from(question.search), Value::from(question.table));
            let own = Value::from(self.database.as_str());
            let values = vec![
                search.clone(),
                search.clone(),
                search,
                table.clone(),
                table.clone(),
                own.clone(),
                table,
                own,
                Value::from(question.limit.saturating_add(1)),
                Value::from(question.offset),
            ];
            let found: Result<Vec<Row>, _> = conn.exec(TABLES, Params::Positional(values)).await;
            let found = found.map_err(|error| failed(&error))?;
            let more = found.len() > question.limit;
            let mut tables = Vec::new();
            for row in found.iter().take(question.limit) {
                let (schema, name) = (text(row, 0), text(row, 1));
                let mut columns = Vec::new();
                if question.table.is_some() {
                    let of = Params::Positional(vec![schema.as_str().into(), name.as_str().into()]);
                    let found: Result<Vec<Row>, _> = conn.exec(COLUMNS, of).await;
                    for column in found.map_err(|error| failed(&error))? {
                        columns.push(ColumnSummary {
                            name: text(&column, 0),
                            kind: text(&column, 1),
                            nullable: text(&column, 2) == "YES",
                        });
                    }
                }
                let name = if schema == self.database {
                    name
                } else {
                    format!("{schema}.{name}")
                };
                tables.push(TableSummary {
                    name,
                    kind: kind_of(&text(row, 2)).to_owned(),
                    // A view has none.
                    estimated_rows: row
                        .get_opt::<Option<u64>, _>(3)
                        .and_then(Result::ok)
                        .flatten(),
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

fn text(row: &Row, column: usize) -> String {
    let text = row.get_opt::<Option<String>, _>(column);
    text.and_then(Result::ok).flatten().unwrap_or_default()
}

fn kind_of(kind: &str) -> &'static str {
    match kind {
        "VIEW" | "SYSTEM VIEW" => "view",
        "SEQUENCE" => "sequence",
        _ => "table",
    }
}
