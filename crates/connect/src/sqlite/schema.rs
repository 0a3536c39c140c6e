//! Tables and columns of the file.

use haft_contract::ops::{ColumnSummary, OpsError, SchemaPage, SchemaQuestion, TableSummary};

use super::{SqliteSource, connection::OpenedFor, failed};
use crate::{halt::Halt, statement_slot::StatementSlot};

/// Without the tables in which virtual ones keep their data: those are not asked.
const TABLES: &str = "SELECT name, type FROM sqlite_schema
    WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
    AND name NOT IN (SELECT name FROM pragma_table_list WHERE type = 'shadow')
    AND (?1 IS NULL OR instr(lower(name), lower(?1)) > 0 OR EXISTS
        (SELECT 1 FROM pragma_table_info(sqlite_schema.name) AS c WHERE instr(lower(c.name), lower(?1)) > 0))
    AND (?2 IS NULL OR lower(name) = lower(?2))
    ORDER BY name LIMIT ?3 OFFSET ?4";

const COLUMNS: &str = "SELECT name, type, \"notnull\" = 0 AND pk = 0 FROM pragma_table_info(?1)";

/// What `ANALYZE` left: the number of rows is the first word.
const ROWS: &str = "SELECT stat FROM sqlite_stat1 WHERE tbl = ?1 LIMIT 1";

impl SqliteSource {
    /// Lists tables.
    pub(crate) async fn schema(
        &self,
        question: &SchemaQuestion<'_>,
        call: (&Halt, &StatementSlot),
    ) -> Result<SchemaPage, OpsError> {
        let search = question.search.map(str::to_owned);
        let table = question.table.map(str::to_owned);
        let (limit, offset) = (question.limit, question.offset);
        self.work(OpenedFor::SqlReading, call, move |opened| {
            let connection = &opened.connection;
            let read = || -> rusqlite::Result<SchemaPage> {
                let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
                let mut statement = connection.prepare(TABLES)?;
                let asked = (
                    search.as_deref(),
                    table.as_deref(),
                    number(limit.saturating_add(1)),
                    number(offset),
                );
                let found = statement.query_map(asked, |row| {
                    Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
                })?;
                let found: Vec<_> = found.collect::<rusqlite::Result<_>>()?;
                let more = found.len() > limit;
                let mut tables = Vec::new();
                for (name, kind) in found.into_iter().take(limit) {
                    // There is no such table before the first `ANALYZE`.
                    let rows = connection.query_row(ROWS, [&name], |row| row.get::<_, String>(0));
                    let rows = rows.ok();
                    let rows = rows.as_deref().and_then(|stat| stat.split(' ').next());
                    let mut columns = Vec::new();
                    if table.is_some() {
                        let mut statement = connection.prepare(COLUMNS)?;
                        let found = statement.query_map([&name], |row| {
                            Ok(ColumnSummary {
                                name: row.get(0)?,
                                kind: row.get(1)?,
                                nullable: row.get(2)?,
                            })
                        })?;
                        columns = found.collect::<rusqlite::Result<_>>()?;
                    }
                    tables.push(TableSummary {
                        estimated_rows: rows.and_then(|rows| rows.parse().ok()),
                        name,
                        kind,
                        columns,
                    });
                }
                Ok(SchemaPage { tables, more })
            };
            read().map_err(|error| failed(&error))
        })
        .await
    }
}
