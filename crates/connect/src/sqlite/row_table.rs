//! What the file says of a table whose rows are kept: its key, its columns, and what would keep them
//! from coming back exactly.

use haft_contract::ops::OpsError;
use rusqlite::Connection;

use super::{
    failed,
    objects::{FileObjects, ObjectKind},
};
use crate::{
    kept_rows::{KeptColumns, TableColumn},
    sql::ChangeKind,
};

/// Columns as the file has them: hidden ones are computed, or of a virtual table.
const COLUMNS: &str = "SELECT name, pk, hidden FROM pragma_table_xinfo(?1)";

/// Triggers of a table.
const TRIGGERS: &str = "SELECT count(*) FROM sqlite_schema
    WHERE type = 'trigger' AND lower(tbl_name) = lower(?1)";

/// A table of which rows are kept or put back.
#[derive(Debug, Clone)]
pub(super) struct RowTable {
    name: String,
    pub(super) kept: KeptColumns<String>,
}

impl RowTable {
    /// The table, or why its rows are not kept. With an `UPDATE` the columns are those it sets. To be
    /// asked before an authorizer is set.
    pub(super) fn of(
        connection: &Connection,
        table: &str,
        kind: &ChangeKind,
    ) -> Result<Result<Self, String>, OpsError> {
        Self::look(connection, table, kind).map_err(|error| failed(&error))
    }

    fn look(
        connection: &Connection,
        table: &str,
        kind: &ChangeKind,
    ) -> rusqlite::Result<Result<Self, String>> {
        if FileObjects::of(connection)?.kind(table) != Some(ObjectKind::Table) {
            return Ok(Err(format!("`{table}`: it is not a table")));
        }
        let triggers: i64 = connection.query_row(TRIGGERS, [table], |row| row.get(0))?;
        if triggers > 0 {
            return Ok(Err(format!(
                "`{table}`: it has triggers, which may change more"
            )));
        }
        let mut statement = connection.prepare(COLUMNS)?;
        let found =
            statement.query_map([table], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let found = found.map(|found| {
            found.map(|(name, place, hidden): (String, i64, i64)| TableColumn {
                called: name.to_lowercase(),
                column: name,
                place_in_key: (place > 0).then_some(place),
                generated: hidden != 0,
            })
        });
        let columns: Vec<TableColumn<String>> = found.collect::<rusqlite::Result<_>>()?;
        let kept = KeptColumns::of(table, &columns, kind);
        Ok(kept.map(|kept| Self {
            name: table.to_owned(),
            kept,
        }))
    }

    /// The statement that reads one row by its key.
    pub(super) fn select(&self) -> String {
        format!(
            "SELECT {} FROM {} WHERE {}",
            listed(&self.kept.columns),
            self.written(),
            self.same_key(1)
        )
    }

    /// The statement that removes one row by its key.
    pub(super) fn delete(&self) -> String {
        format!("DELETE FROM {} WHERE {}", self.written(), self.same_key(1))
    }

    /// The statement that adds one row.
    pub(super) fn insert(&self) -> String {
        let places: Vec<String> = (1..=self.kept.columns.len())
            .map(|place| format!("?{place}"))
            .collect();
        format!(
            "INSERT INTO {} ({}) VALUES ({})",
            self.written(),
            listed(&self.kept.columns),
            places.join(", ")
        )
    }

    /// The statement that sets these columns of one row: their values, then the key.
    pub(super) fn update(&self, places: &[usize]) -> String {
        let names = places
            .iter()
            .filter_map(|place| self.kept.columns.get(*place));
        let set: Vec<String> = names
            .enumerate()
            .map(|(at, name)| format!("{} = ?{}", identifier(name), at + 1))
            .collect();
        format!(
            "UPDATE {} SET {} WHERE {}",
            self.written(),
            set.join(", "),
            self.same_key(set.len() + 1)
        )
    }

    /// A statement, so that it also says which rows it changes. Nothing may follow it.
    pub(super) fn telling(&self, statement: &str) -> String {
        format!("{statement}\nRETURNING {}", listed(&self.kept.key))
    }

    fn written(&self) -> String {
        format!("main.{}", identifier(&self.name))
    }

    fn same_key(&self, first: usize) -> String {
        let key = self.kept.key.iter().enumerate();
        let same: Vec<String> = key
            .map(|(at, name)| format!("{} = ?{}", identifier(name), first + at))
            .collect();
        same.join(" AND ")
    }
}

fn listed(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| identifier(name)).collect();
    names.join(", ")
}

fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
