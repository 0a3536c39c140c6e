//! What a statement was found to touch, and the accesses that say so.

use std::collections::{BTreeMap, BTreeSet};

use haft_contract::Access;

use super::{
    masks::{ColumnMasks, MaskedUses},
    name::{TablePath, quoted},
};

/// What stands for the rows of a table of which no column is read: counting them.
const ROWS: &str = "(rows)";

/// What stands for a statement that touches no table.
const NOTHING: &str = "()";

/// Tables, columns and functions.
#[derive(Debug, Default)]
pub(super) struct TouchedObjects {
    tables: BTreeMap<TablePath, TouchedTable>,
    called: CalledNames,
    pub(super) masked: MaskedUses,
}

/// Names of which only the database can tell what they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CalledNames {
    /// Functions that the operator lists.
    pub listed: BTreeSet<String>,
    /// Built-in functions that are called by their names without a schema.
    pub built_in: BTreeSet<String>,
    /// Columns that stand behind their table's name: schema if it is not the usual one, table, column.
    pub columns: BTreeSet<(Option<String>, String, String)>,
    /// Names that stand behind a value that is not a table's row, or behind a result's name.
    pub fields: BTreeSet<String>,
    /// Schemas that tables are named with. To a rule one is what a table of its name is.
    pub schemas: BTreeSet<String>,
    /// Tables: schema if it is not the usual one, and name. Which of several names that differ in case
    /// alone one is, a plan does not tell.
    pub tables: BTreeSet<(Option<String>, String)>,
    /// Names that `WITH` gives. Where one ends and a table of its name begins, only the database knows.
    pub given: BTreeSet<String>,
}

#[derive(Debug, Default)]
struct TouchedTable {
    read: TouchedColumns,
    written: TouchedColumns,
}

#[derive(Debug, Default)]
struct TouchedColumns {
    all: bool,
    rows: bool,
    some: BTreeSet<String>,
}

impl TouchedObjects {
    /// Nothing yet, of a source with these masks.
    pub(super) fn masking(masks: &ColumnMasks) -> Self {
        Self {
            masked: MaskedUses::new(masks),
            ..Self::default()
        }
    }

    /// Its rows are counted or walked over.
    pub(super) fn reads_rows(&mut self, table: &TablePath) {
        self.table(table).read.rows = true;
    }

    /// One column is read.
    pub(super) fn reads(&mut self, table: &TablePath, column: &str) {
        self.masked.reads(table, column);
        self.table(table).read.some.insert(column.to_owned());
    }

    /// Every column is read.
    pub(super) fn reads_all(&mut self, table: &TablePath) {
        self.masked.reads_all(table);
        self.table(table).read.all = true;
    }

    /// One column is written.
    pub(super) fn writes(&mut self, table: &TablePath, column: &str) {
        self.table(table).written.some.insert(column.to_owned());
    }

    /// Whole rows are written or removed.
    pub(super) fn writes_all(&mut self, table: &TablePath) {
        self.table(table).written.all = true;
    }

    /// A function that the operator lists is called.
    pub(super) fn calls(&mut self, function: &str) {
        self.called.listed.insert(function.to_owned());
    }

    /// A built-in function is called without naming its schema.
    pub(super) fn calls_built_in(&mut self, function: &str) {
        self.called.built_in.insert(function.to_owned());
    }

    /// A column behind its table's name. PostgreSQL takes `t.f` for `f(t)` if there is no such column.
    pub(super) fn qualifies(&mut self, table: &TablePath, column: &str) {
        let column = (table.schema.clone(), table.name.clone(), column.to_owned());
        self.called.columns.insert(column);
    }

    /// A field of a value. PostgreSQL takes `(x).f` for `f(x)` if there is no such field.
    pub(super) fn takes_field(&mut self, field: &str) {
        self.called.fields.insert(field.to_owned());
    }

    /// `WITH` gives this name.
    pub(super) fn gives(&mut self, name: &str) {
        self.called.given.insert(name.to_owned());
    }

    pub(super) fn into_called(mut self) -> CalledNames {
        for table in self.tables.into_keys() {
            self.called.schemas.extend(table.schema.clone());
            self.called.tables.insert((table.schema, table.name));
        }
        self.called
    }

    fn table(&mut self, table: &TablePath) -> &mut TouchedTable {
        self.tables.entry(table.clone()).or_default()
    }

    /// The accesses, sorted.
    pub(super) fn accesses(&self, source: &str) -> Vec<Access> {
        let mut found = BTreeSet::new();
        for (table, touched) in &self.tables {
            let table = table.written();
            for (columns, writes) in [(&touched.read, false), (&touched.written, true)] {
                if columns.all {
                    found.insert((format!("{source}.{table}.*"), writes));
                    continue;
                }
                for column in &columns.some {
                    found.insert((format!("{source}.{table}.{}", quoted(column)), writes));
                }
                if columns.rows && columns.some.is_empty() {
                    found.insert((format!("{source}.{table}.{ROWS}"), writes));
                }
            }
        }
        for function in &self.called.listed {
            found.insert((format!("{source}.{function}()"), false));
        }
        if found.is_empty() {
            found.insert((format!("{source}.{NOTHING}"), false));
        }
        let access = |(source, writes)| Access::Database { source, writes };
        found.into_iter().map(access).collect()
    }
}
