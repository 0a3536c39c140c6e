//! What the server's catalog says of a table whose rows are kept: its key, its columns, and what
//! would keep them from coming back exactly.

use haft_contract::ops::OpsError;
use tokio_postgres::Client;

use super::failure::failed;
use crate::{
    kept_rows::{KeptColumns, TableColumn},
    sql::ChangeKind,
};

/// What kind of table it is, and what acts on its rows besides a statement.
const TABLE: &str = "SELECT c.oid, c.relkind::text, c.relhasrules, c.relhassubclass,
    pg_catalog.row_security_active(c.oid),
    EXISTS (SELECT 1 FROM pg_catalog.pg_trigger AS t
        WHERE NOT t.tgisinternal AND t.tgenabled <> 'D' AND (t.tgrelid = c.oid
            OR t.tgrelid IN (SELECT relid FROM pg_catalog.pg_partition_tree(c.oid))))
    FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname::text = $1 AND c.relname::text = $2";

/// Its columns; those of the primary key with their place in it. Arrays and composite values are no
/// keys here: as one they would be taken apart.
const COLUMNS: &str = "SELECT a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod),
    a.attgenerated <> '', pg_catalog.has_column_privilege(a.attrelid, a.attnum, 'SELECT'),
    (SELECT p.place FROM pg_catalog.pg_index AS i,
        unnest(i.indkey::int2[]) WITH ORDINALITY AS p(attnum, place)
        WHERE i.indrelid = a.attrelid AND i.indisprimary AND p.attnum = a.attnum),
    k.typcategory = 'A' OR k.typtype = 'c'
    FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_type AS k ON k.oid = a.atttypid
    WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum";

/// A table of which rows are kept or put back.
#[derive(Debug, Clone)]
pub(super) struct RowTable {
    schema: String,
    table: String,
    pub(super) kept: KeptColumns<RowColumn>,
}

/// A column.
#[derive(Debug, Clone)]
pub(super) struct RowColumn {
    pub(super) name: String,
    /// Its type, as a statement names it.
    pub(super) kind: String,
    /// Whether the role may read it.
    readable: bool,
    /// Whether its values have several parts.
    taken_apart: bool,
}

impl RowTable {
    /// The table, or why its rows are not kept. With an `UPDATE` the columns are those it sets.
    pub(super) async fn of(
        client: &Client,
        (schema, table): (&str, &str),
        kind: &ChangeKind,
    ) -> Result<Result<Self, String>, OpsError> {
        let read = |error: tokio_postgres::Error| failed(&error);
        let found = client.query_opt(TABLE, &[&schema, &table]).await;
        let Some(row) = found.map_err(read)? else {
            return Ok(Err(format!("there is no table `{table}`")));
        };
        let oid: u32 = row.try_get(0).map_err(read)?;
        let kind_of_table: String = row.try_get(1).map_err(read)?;
        let flag = |place: usize| row.try_get::<_, bool>(place).map_err(read);
        let why = match kind_of_table.as_str() {
            "r" if flag(3)? => Some("it has tables that inherit from it"),
            "r" | "p" if flag(2)? => Some("it has rules"),
            "r" | "p" if flag(4)? => Some("row security decides which of its rows are seen"),
            "r" | "p" if flag(5)? => Some("it has triggers, which may change more"),
            "r" | "p" => None,
            _ => Some("it is not a table"),
        };
        if let Some(why) = why {
            return Ok(Err(format!("`{table}`: {why}")));
        }
        let rows = client.query(COLUMNS, &[&oid]).await.map_err(read)?;
        let mut columns = Vec::with_capacity(rows.len());
        for row in &rows {
            let name: String = row.try_get(0).map_err(read)?;
            columns.push(TableColumn {
                called: name.clone(),
                column: RowColumn {
                    name,
                    kind: row.try_get(1).map_err(read)?,
                    readable: row.try_get(3).map_err(read)?,
                    taken_apart: row.try_get(5).map_err(read)?,
                },
                generated: row.try_get(2).map_err(read)?,
                place_in_key: row.try_get(4).map_err(read)?,
            });
        }
        Ok(Self::with(schema, table, &columns, kind))
    }

    fn with(
        schema: &str,
        table: &str,
        columns: &[TableColumn<RowColumn>],
        kind: &ChangeKind,
    ) -> Result<Self, String> {
        let kept = KeptColumns::of(table, columns, kind)?;
        if kept.key.iter().any(|column| column.taken_apart) {
            return Err(format!(
                "the primary key of `{table}` has a value of several parts"
            ));
        }
        let mut wanted = kept.key.iter().chain(&kept.columns);
        if let Some(column) = wanted.find(|column| !column.readable) {
            return Err(format!(
                "the database's role may not read `{}` of `{table}`",
                column.name
            ));
        }
        Ok(Self {
            schema: schema.to_owned(),
            table: table.to_owned(),
            kept,
        })
    }

    /// The table in a statement.
    pub(super) fn written(&self) -> String {
        format!("{}.{}", identifier(&self.schema), identifier(&self.table))
    }
}

/// A name in a statement.
pub(super) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
