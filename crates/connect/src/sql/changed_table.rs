//! What a change does to which table, for keeping the rows that it replaces.

use std::collections::BTreeSet;

use haft_contract::ops::{RowChange, StatementReading};

use super::{ReadingRules, RefusedStatement, SqlDialect, name::TablePath, touched::TouchedObjects};

/// The one table that a statement changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChangedTable {
    /// Its schema, unless that is the usual one.
    pub(crate) schema: Option<String>,
    /// Its name.
    pub(crate) table: String,
    /// What the statement calls it.
    pub(crate) called: String,
    /// What happens to its rows.
    pub(crate) kind: ChangeKind,
}

/// What happens to rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    /// Some come, and with `ON CONFLICT` some get other values.
    Insert,
    /// These columns get other values.
    Update(BTreeSet<String>),
    /// Some go.
    Delete,
}

impl ChangedTable {
    pub(super) fn new(table: &TablePath, called: Option<String>, kind: ChangeKind) -> Self {
        Self {
            schema: table.schema.clone(),
            table: table.name.clone(),
            called: called.unwrap_or_else(|| table.name.clone()),
            kind,
        }
    }
}

/// What taking a change back touches: the columns that get their former values, or whole rows.
pub(crate) fn read_row_change(
    rules: &ReadingRules,
    change: &RowChange,
) -> Result<StatementReading, RefusedStatement> {
    if !rules.writable {
        return Err(RefusedStatement::read_only(&rules.source));
    }
    let named = |name: &String| match rules.dialect {
        SqlDialect::Postgres => name.clone(),
        SqlDialect::Sqlite | SqlDialect::MariaDb => name.to_lowercase(),
    };
    let table = TablePath {
        schema: change.schema.as_ref().map(named),
        name: named(&change.table),
    };
    let mut touched = TouchedObjects::default();
    if change.has_whole_rows() {
        touched.writes_all(&table);
    } else {
        for column in &change.columns {
            touched.writes(&table, &named(column));
        }
        for column in &change.key {
            touched.reads(&table, &named(column));
        }
    }
    Ok(StatementReading {
        accesses: touched.accesses(&rules.source),
        writes: true,
        functions: Vec::new(),
    })
}
