//! Which rows of a change are kept, and what of them, in every database alike: what tells them apart,
//! how many there may be, and what is said where they are not kept or do not fit any more.

use haft_contract::{
    ErrorKind,
    ops::{KeptRowsLimit, OpsError, RowChange},
};

use crate::{
    row_comparison::{RowsByKey, put_together},
    sql::{ChangeKind, ChangedTable},
};

/// Why the rows of a change are not kept where no host keeps them.
pub(crate) const NOBODY_KEEPS: &str = "nothing keeps the rows it changes";

/// Why rows are not kept that are more than the limit.
pub(crate) const TOO_LARGE: &str = "its rows are too large to keep";

/// Why nothing was put back where somebody else was faster.
pub(crate) const CHANGED_NOW: &str =
    "some of the rows changed at this moment, so nothing was put back";

/// Why nothing was put back where a value came back as another.
pub(crate) const NOT_EXACT: &str =
    "the database did not take the former values exactly, so nothing was put back";

/// Rows that were kept once are read back whatever the limit is now.
pub(crate) const NO_LIMIT: KeptRowsLimit = KeptRowsLimit {
    rows: u64::MAX,
    bytes: u64::MAX,
};

/// Why the rows of a kept change cannot be dealt with any more.
pub(crate) fn cannot(why: &str) -> OpsError {
    OpsError::new(ErrorKind::Conflict, why)
}

/// Why so many rows are not kept, if they are not.
pub(crate) fn too_many(expected: u64, limit: KeptRowsLimit) -> Option<String> {
    (expected > limit.rows).then(|| {
        format!(
            "it changes {expected} rows, and at most {} are kept",
            limit.rows
        )
    })
}

/// A column of a table, as every catalog has it.
pub(crate) struct TableColumn<C> {
    pub(crate) column: C,
    /// Its name as statements give it.
    pub(crate) called: String,
    /// Its place in the primary key, from the first on.
    pub(crate) place_in_key: Option<i64>,
    /// Whether the database works it out from others.
    pub(crate) generated: bool,
}

/// The columns that tell rows apart, and those whose values are kept.
#[derive(Debug, Clone)]
pub(crate) struct KeptColumns<C> {
    pub(crate) key: Vec<C>,
    pub(crate) columns: Vec<C>,
}

impl<C: Clone> KeptColumns<C> {
    /// Those of a table for a kind of change, or why its rows are not kept. With an `UPDATE` the columns
    /// are those it sets.
    pub(crate) fn of(
        table: &str,
        columns: &[TableColumn<C>],
        kind: &ChangeKind,
    ) -> Result<Self, String> {
        let in_key = columns
            .iter()
            .filter(|column| column.place_in_key.is_some());
        let mut key: Vec<&TableColumn<C>> = in_key.collect();
        key.sort_by_key(|column| column.place_in_key);
        if key.is_empty() {
            return Err(format!("`{table}` has no primary key"));
        }
        let is_kept = |column: &&TableColumn<C>| match kind {
            ChangeKind::Update(set) => set.contains(&column.called),
            ChangeKind::Insert | ChangeKind::Delete => !column.generated,
        };
        let kept: Vec<&TableColumn<C>> = columns.iter().filter(is_kept).collect();
        if let ChangeKind::Update(set) = kind {
            if key.iter().any(|column| set.contains(&column.called)) {
                return Err("the statement changes the primary key".to_owned());
            }
            if kept.len() != set.len() {
                return Err(format!("`{table}` has no such columns"));
            }
        }
        let plain = |columns: Vec<&TableColumn<C>>| {
            let columns = columns.into_iter();
            columns.map(|column| column.column.clone()).collect()
        };
        Ok(Self {
            key: plain(key),
            columns: plain(kept),
        })
    }

    /// The same with the columns in the order in which a change was kept, if the table still has
    /// what that needs.
    pub(crate) fn as_kept(
        &mut self,
        change: &RowChange,
        name: impl Fn(&C) -> &str,
    ) -> Result<(), OpsError> {
        let columns = change.columns.iter().map(|kept| {
            let mut columns = self.columns.iter();
            columns.find(|column| name(column) == kept).cloned()
        });
        let columns: Option<Vec<C>> = columns.collect();
        let same_key = self.key.iter().map(&name).eq(change.key.iter());
        match columns {
            Some(columns) if columns.len() == self.columns.len() && same_key => {
                self.columns = columns;
                Ok(())
            }
            Some(_) | None => Err(cannot(&format!(
                "`{}` has other columns or another primary key than it had",
                change.table
            ))),
        }
    }

    /// What is kept of rows before and after a statement that changed so many, or why nothing is.
    pub(crate) fn row_change(
        &self,
        (source, change): (&str, &ChangedTable),
        (before, after): (RowsByKey, RowsByKey),
        changed: u64,
        name: impl Fn(&C) -> &str,
    ) -> Result<RowChange, String> {
        let rows = put_together(&change.kind, before, after, changed)
            .ok_or_else(|| "its rows could not be told apart by their keys".to_owned())?;
        let names = |columns: &[C]| {
            let names = columns.iter().map(|column| name(column).to_owned());
            names.collect::<Vec<String>>()
        };
        Ok(RowChange {
            source: source.to_owned(),
            schema: change.schema.clone(),
            table: change.table.clone(),
            key: names(&self.key),
            columns: names(&self.columns),
            rows,
        })
    }
}

/// The kind of change of which the same is kept.
pub(crate) fn kind_of(change: &RowChange, called: impl Fn(&str) -> String) -> ChangeKind {
    if change.has_whole_rows() {
        ChangeKind::Delete
    } else {
        ChangeKind::Update(change.columns.iter().map(|name| called(name)).collect())
    }
}
