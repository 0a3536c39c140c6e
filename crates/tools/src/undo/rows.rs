//! Puts rows of databases back: the calls' changes one by one, the last one first, each as a
//! transaction of its own. A row that is not what a change left stays as it is.
//!
//! What the rows hold is kept from the output: a person is told which rows and columns, by their keys.

use std::collections::BTreeMap;

use haft_contract::{
    CallId, ErrorKind, ToolError,
    context::PastChanges,
    host::ArtifactId,
    ops::{
        ChangedRow, DatabaseOps, KeptByTheRuntime, KeptValue, OpsError, PutBackRows, PutBackRun,
        RowChange, RowsPutBack, decode_row_change,
    },
};
use schemars::JsonSchema;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::restore::{read, stops_the_call};
use crate::text::display::one_line;

/// The most rows in conflict that a result names one by one.
const MAX_CONFLICTS: usize = 200;

/// The most keys that one line names.
const MAX_KEYS: usize = 20;

/// Rows that one statement changed, as the record has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowsOnRecord {
    /// The call.
    pub call: CallId,
    /// How many.
    pub rows: u64,
    /// What taking this back changes, as accesses name it.
    pub writes: Vec<String>,
    /// What that reads besides.
    pub reads: Vec<String>,
    /// The rows, if they were kept.
    pub content: Option<ArtifactId>,
    /// Why they were not.
    pub missed: Option<String>,
}

impl RowsOnRecord {
    /// The configured source.
    pub fn source(&self) -> &str {
        let first = self.writes.first();
        let source = first.and_then(|written| written.split('.').next());
        source.unwrap_or_default()
    }

    /// How many rows and which columns, in a line.
    pub fn line(&self) -> String {
        let rows = counted(usize::try_from(self.rows).unwrap_or(usize::MAX));
        format!("{rows} of {}", self.writes.join(", "))
    }
}

/// A row that is not what the calls left, and was not touched.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RowConflict {
    /// The table.
    pub table: String,
    /// The values of its primary key.
    pub key: String,
    /// What is in the way.
    pub reason: String,
}

/// What became of rows.
#[derive(Debug, Default)]
pub(super) struct RestoredRows {
    pub(super) restored: u64,
    pub(super) unchanged: u64,
    pub(super) conflicts: Vec<RowConflict>,
    /// How many conflicts are not named.
    pub(super) unnamed: usize,
    /// What cannot be put back, with the reason.
    pub(super) impossible: Vec<(String, String)>,
    /// What was done, in a line for each change.
    pub(super) lines: Vec<String>,
}

/// What rows are put back with.
pub(super) struct RowsView<'a> {
    pub(super) databases: &'a dyn DatabaseOps,
    pub(super) past: &'a dyn PastChanges,
    pub(super) cancel: &'a CancellationToken,
    pub(super) run: PutBackRun,
}

/// What rows would hold after the changes that were looked at before, by table and key.
type ForeseenRows = BTreeMap<(String, Vec<KeptValue>), ForeseenRow>;

struct ForeseenRow {
    is_there: bool,
    values: BTreeMap<String, KeptValue>,
}

impl RowsView<'_> {
    /// Puts the rows of these changes back, the last one first, or says which would be.
    pub(super) async fn put_back(
        &self,
        changes: &[RowsOnRecord],
        within: impl Fn() -> std::time::Duration,
    ) -> Result<RestoredRows, ToolError> {
        let mut done = RestoredRows::default();
        let mut foreseen = ForeseenRows::new();
        for recorded in changes.iter().rev() {
            let Some(content) = recorded.content else {
                continue;
            };
            let change = match self.change(content).await {
                Ok(change) => change,
                Err(why) => {
                    done.impossible.push((recorded.line(), why));
                    continue;
                }
            };
            let request = PutBackRows {
                change: &change,
                run: self.run,
                within: within(),
                cancel: self.cancel,
            };
            let mut keeper = KeptByTheRuntime;
            match self.databases.put_back(request, &mut keeper).await {
                Ok(mut put) => {
                    if self.run == PutBackRun::Dry {
                        foresee(&change, &mut put, &mut foreseen);
                    }
                    done.take(&change, &put, self.run);
                }
                Err(error) if ends_all(&error) => {
                    return Err(ToolError::from(error).hint(format!(
                        "{} were put back before; undo again: rows that are back stay as they are",
                        counted(usize::try_from(done.restored).unwrap_or(usize::MAX))
                    )));
                }
                Err(error) => {
                    let why = error.message().to_owned();
                    done.impossible.push((recorded.line(), why));
                }
            }
        }
        Ok(done)
    }

    async fn change(&self, content: ArtifactId) -> Result<RowChange, String> {
        let bytes = read(self.past, content).await?;
        decode_row_change(&bytes)
            .ok_or_else(|| "what the rows held was kept by another version of Haft".to_owned())
    }
}

/// Whether a failure is about more than this change.
fn ends_all(error: &OpsError) -> bool {
    stops_the_call(error.kind()) && error.kind() != ErrorKind::Unavailable
}

impl RestoredRows {
    fn take(&mut self, change: &RowChange, put: &RowsPutBack, run: PutBackRun) {
        let table = table_of(change);
        self.restored += put.restored.len() as u64;
        self.unchanged += put.unchanged.len() as u64;
        for (place, reason) in &put.conflicts {
            if self.conflicts.len() >= MAX_CONFLICTS {
                self.unnamed += 1;
                continue;
            }
            self.conflicts.push(RowConflict {
                table: table.clone(),
                key: key_of(change, *place),
                reason: (*reason).to_owned(),
            });
        }
        if let Some(line) = line(change, &table, put, run) {
            self.lines.push(line);
        }
        if let (Some(why), false) = (&put.not_kept, put.restored.is_empty()) {
            self.lines
                .push(format!("`{table}`: this cannot be undone in turn: {why}"));
        }
    }
}

/// What is done with the rows of one change.
fn line(change: &RowChange, table: &str, put: &RowsPutBack, run: PutBackRun) -> Option<String> {
    let first = change.rows.get(*put.restored.first()?)?;
    let what = match (&first.before, &first.after) {
        (Some(_), Some(_)) => format!("former {}", one_line(&change.columns.join(", "))),
        (Some(_), None) => "back again".to_owned(),
        (None, _) => "removed again".to_owned(),
    };
    let keys = put.restored.iter().take(MAX_KEYS);
    let mut keys: Vec<String> = keys.map(|place| key_of(change, *place)).collect();
    let more = put.restored.len().saturating_sub(keys.len());
    if more > 0 {
        keys.push(format!("and {more} more"));
    }
    let would = match run {
        PutBackRun::ForReal => "",
        PutBackRun::Dry => "would be ",
    };
    let rows = counted(put.restored.len());
    Some(format!(
        "`{table}`: {rows} {would}put back, {what} ({})",
        keys.join("; ")
    ))
}

/// Judges rows by what they will be once later changes are back, which a dry run does not do.
fn foresee(change: &RowChange, put: &mut RowsPutBack, foreseen: &mut ForeseenRows) {
    let table = table_of(change);
    let mut judged = RowsPutBack::default();
    for (place, row) in change.rows.iter().enumerate() {
        let known = foreseen.get(&(table.clone(), row.key.clone()));
        match known {
            Some(known) if known.is(&change.columns, row.before.as_ref()) => {
                judged.unchanged.push(place);
            }
            Some(known) if known.is(&change.columns, row.after.as_ref()) => {
                judged.restored.push(place);
            }
            Some(_) => {
                let reason = "somebody else changed it between these calls";
                judged.conflicts.push((place, reason));
            }
            None if put.restored.contains(&place) => judged.restored.push(place),
            None if put.unchanged.contains(&place) => judged.unchanged.push(place),
            None => {
                let conflicts = put.conflicts.iter();
                judged
                    .conflicts
                    .extend(conflicts.filter(|(at, _)| *at == place));
            }
        }
    }
    for place in &judged.restored {
        if let Some(row) = change.rows.get(*place) {
            let known = foreseen
                .entry((table.clone(), row.key.clone()))
                .or_insert_with(|| ForeseenRow {
                    is_there: true,
                    values: BTreeMap::new(),
                });
            known.becomes(&change.columns, row);
        }
    }
    *put = judged;
}

impl ForeseenRow {
    /// Whether it will be this, as far as is known.
    fn is(&self, columns: &[String], values: Option<&Vec<KeptValue>>) -> bool {
        let Some(values) = values else {
            return !self.is_there;
        };
        let mut pairs = columns.iter().zip(values);
        self.is_there
            && pairs
                .all(|(column, value)| self.values.get(column).is_none_or(|known| known == value))
    }

    fn becomes(&mut self, columns: &[String], row: &ChangedRow) {
        self.is_there = row.before.is_some();
        let values = row.before.iter().flatten();
        self.values
            .extend(columns.iter().cloned().zip(values.cloned()));
    }
}

fn table_of(change: &RowChange) -> String {
    let parts = [
        Some(change.source.as_str()),
        change.schema.as_deref(),
        Some(change.table.as_str()),
    ];
    let parts: Vec<&str> = parts.into_iter().flatten().collect();
    one_line(&parts.join(".")).into_owned()
}

fn key_of(change: &RowChange, place: usize) -> String {
    let row = change.rows.get(place);
    let key = row.map(|row| change.named(row)).unwrap_or_default();
    one_line(&key).into_owned()
}

/// So many rows, in words.
pub(super) fn counted(count: usize) -> String {
    match count {
        1 => "1 row".to_owned(),
        more => format!("{more} rows"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(before: i64, after: i64) -> RowChange {
        let value = |value| Some(vec![KeptValue::Integer(value)]);
        RowChange {
            source: "crm".to_owned(),
            schema: None,
            table: "orders".to_owned(),
            key: vec!["id".to_owned()],
            columns: vec!["status".to_owned()],
            rows: vec![ChangedRow {
                key: vec![KeptValue::Integer(7)],
                before: value(before),
                after: value(after),
            }],
        }
    }

    /// Looked at alone the earlier change is in conflict: the later one is still there.
    #[test]
    fn a_dry_run_knows_what_later_changes_will_have_been_taken_back() {
        let mut foreseen = ForeseenRows::new();
        let restored = || RowsPutBack {
            restored: vec![0],
            ..RowsPutBack::default()
        };
        let conflict = || RowsPutBack {
            conflicts: vec![(0, "it has changed since")],
            ..RowsPutBack::default()
        };
        let mut later = restored();
        foresee(&change(2, 3), &mut later, &mut foreseen);
        let mut earlier = conflict();
        foresee(&change(1, 2), &mut earlier, &mut foreseen);
        assert_eq!((later, earlier), (restored(), restored()));
        let mut not_the_same = restored();
        foresee(&change(5, 6), &mut not_the_same, &mut foreseen);
        assert_eq!(
            not_the_same.conflicts,
            [(0, "somebody else changed it between these calls")]
        );
    }

    #[test]
    fn a_line_names_rows_and_columns_and_no_value() {
        let put = RowsPutBack {
            restored: vec![0],
            ..RowsPutBack::default()
        };
        let mut done = RestoredRows::default();
        done.take(&change(1, 2), &put, PutBackRun::Dry);
        assert_eq!(
            done.lines,
            ["`crm.orders`: 1 row would be put back, former status (id 7)"]
        );
    }
}
