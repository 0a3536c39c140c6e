//! Compares the rows of a kept change with what the database has now, and puts the rows before and
//! after a change together.

use std::collections::BTreeMap;

use haft_contract::ops::{ChangedRow, KeptValue, RowChange, RowsPutBack};

use crate::sql::ChangeKind;

/// Rows by their keys.
pub(crate) type RowsByKey = BTreeMap<Vec<KeptValue>, Vec<KeptValue>>;

/// Puts rows together; `None` if they are not what such a statement makes of so many rows.
pub(crate) fn put_together(
    kind: &ChangeKind,
    mut before: RowsByKey,
    mut after: RowsByKey,
    changed: u64,
) -> Option<Vec<ChangedRow>> {
    let count = |rows: &RowsByKey| rows.len() as u64;
    let fits = match kind {
        ChangeKind::Insert => {
            count(&after) == changed && before.keys().all(|key| after.contains_key(key))
        }
        ChangeKind::Update(_) => count(&after) == changed && before.keys().eq(after.keys()),
        ChangeKind::Delete => count(&before) == changed && after.is_empty(),
    };
    if !fits {
        return None;
    }
    let keys: Vec<Vec<KeptValue>> = match kind {
        ChangeKind::Delete => before.keys().cloned().collect(),
        ChangeKind::Insert | ChangeKind::Update(_) => after.keys().cloned().collect(),
    };
    let rows = keys.into_iter().map(|key| ChangedRow {
        before: before.remove(&key),
        after: after.remove(&key),
        key,
    });
    Some(rows.collect())
}

/// Says which rows of a change are still what it left.
pub(crate) fn compare(change: &RowChange, now: &RowsByKey) -> RowsPutBack {
    let mut found = RowsPutBack::default();
    for (place, row) in change.rows.iter().enumerate() {
        let now = now.get(&row.key);
        if now == row.before.as_ref() {
            found.unchanged.push(place);
        } else if now == row.after.as_ref() {
            found.restored.push(place);
        } else {
            let reason = match (&row.after, now) {
                (Some(_), None) => "it has been removed since",
                (None, _) => "it has been created again since",
                (Some(_), Some(_)) => "it has changed since",
            };
            found.conflicts.push((place, reason));
        }
    }
    found
}

/// Whether the rows at these places are as before.
pub(crate) fn are_back(change: &RowChange, places: &[usize], now: &RowsByKey) -> bool {
    let mut rows = places.iter().filter_map(|place| change.rows.get(*place));
    rows.all(|row| now.get(&row.key) == row.before.as_ref())
}

/// The keys of the rows at these places.
pub(crate) fn keys(change: &RowChange, places: &[usize]) -> Vec<Vec<KeptValue>> {
    let rows = places.iter().filter_map(|place| change.rows.get(*place));
    rows.map(|row| row.key.clone()).collect()
}

/// The places of all rows.
pub(crate) fn all(change: &RowChange) -> Vec<usize> {
    (0..change.rows.len()).collect()
}

/// What is to be done with rows, by their places.
#[derive(Debug, Default)]
pub(crate) struct RowSteps {
    pub(crate) remove: Vec<usize>,
    pub(crate) update: Vec<usize>,
    pub(crate) insert: Vec<usize>,
}

impl RowSteps {
    pub(crate) fn of(change: &RowChange, places: &[usize]) -> Self {
        let mut steps = Self::default();
        for place in places {
            let Some(row) = change.rows.get(*place) else {
                continue;
            };
            match (&row.before, &row.after) {
                (None, _) => steps.remove.push(*place),
                (Some(_), None) => steps.insert.push(*place),
                (Some(_), Some(_)) => steps.update.push(*place),
            }
        }
        steps
    }
}

/// The places of columns that are not of the key and of which a row had another value before.
pub(crate) fn differing_columns(change: &RowChange, places: &[usize]) -> Vec<usize> {
    let differs = |column: &usize| {
        let mut rows = places.iter().filter_map(|place| change.rows.get(*place));
        rows.any(|row| {
            let value = |values: &Option<Vec<KeptValue>>| {
                values
                    .as_ref()
                    .and_then(|values| values.get(*column))
                    .cloned()
            };
            value(&row.before) != value(&row.after)
        })
    };
    let names = change.columns.iter().enumerate();
    let of_rows = names.filter(|(_, name)| !change.key.contains(name));
    of_rows.map(|(place, _)| place).filter(differs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[(i64, i64)]) -> RowsByKey {
        let value = |value: i64| vec![KeptValue::Integer(value)];
        rows.iter()
            .map(|(key, held)| (value(*key), value(*held)))
            .collect()
    }

    #[test]
    fn each_row_is_judged_by_itself() {
        let before = rows(&[(1, 10), (2, 20), (3, 30)]);
        let after = rows(&[(1, 11), (2, 21), (3, 31)]);
        let kind = ChangeKind::Update(["v".to_owned()].into());
        let change = RowChange {
            source: "s".to_owned(),
            schema: None,
            table: "t".to_owned(),
            key: vec!["id".to_owned()],
            columns: vec!["v".to_owned()],
            rows: put_together(&kind, before, after, 3).unwrap(),
        };
        let found = compare(&change, &rows(&[(1, 11), (2, 20), (3, 99)]));
        assert_eq!((found.restored, found.unchanged), (vec![0], vec![1]));
        assert_eq!(found.conflicts, [(2, "it has changed since")]);
        let gone = compare(&change, &rows(&[(1, 11), (2, 21)]));
        assert_eq!(gone.conflicts, [(2, "it has been removed since")]);
    }

    #[test]
    fn rows_that_do_not_fit_the_statement_are_not_kept() {
        let one = || rows(&[(1, 10)]);
        let other = rows(&[(2, 10)]);
        let update = ChangeKind::Update(["v".to_owned()].into());
        assert_eq!(put_together(&update, one(), other, 1), None);
        assert_eq!(put_together(&update, one(), one(), 2), None);
        assert_eq!(put_together(&ChangeKind::Delete, one(), one(), 1), None);
        assert_eq!(put_together(&ChangeKind::Insert, one(), rows(&[]), 0), None);
        let inserted = put_together(&ChangeKind::Insert, rows(&[]), one(), 1).unwrap();
        assert_eq!(inserted[0].before, None);
    }
}
