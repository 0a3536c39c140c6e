//! Running a statement: rows are handed on from SQLite's thread in batches, and a change is committed
//! only if it changed as many rows as expected.

use std::{collections::BTreeSet, path::Path, sync::atomic::Ordering, time::Duration};

use haft_contract::{
    ErrorKind,
    ops::{
        DatabaseQuery, KeepRows, OpsError, StatementEnd, StatementEstimate, TableScan, TakeRows,
        WantedRows,
    },
};
use rusqlite::{
    Connection, Statement,
    hooks::{AuthContext, Authorization},
};
use serde_json::Value;
use tokio::{sync::mpsc, time::Instant};

use super::{
    SqliteSource,
    authorizer::Allowed,
    connection::{OpenTransaction, OpenedFor},
    failed,
    keep_rows::{KeptRows, RowOffers, keeping},
    row_table::RowTable,
    value,
};
use crate::{
    batch::{BATCH_BYTES, BATCH_ROWS, RowSize},
    halt::Halt,
    kept_rows::NOBODY_KEEPS,
    parameter_count,
    sql::{ChangedTable, SqlReading},
    statement_slot::StatementSlot,
};

/// How many batches wait for whoever takes them.
const WAITING_BATCHES: usize = 1;

/// Rows that come more slowly are handed on one by one.
const BATCH_WAIT: Duration = Duration::from_millis(50);

/// What SQLite's thread hands on.
enum RowMessage {
    Columns(Vec<String>),
    Rows(Vec<Vec<Value>>),
}

/// A statement as SQLite's thread gets it.
struct PreparedStatement {
    statement: String,
    parameters: Vec<Value>,
    allowed: Allowed,
}

fn prepared(query: &DatabaseQuery<'_>, reading: &SqlReading) -> PreparedStatement {
    PreparedStatement {
        statement: query.statement.to_owned(),
        parameters: query.parameters.to_vec(),
        allowed: Allowed::by(query.source, reading),
    }
}

impl SqliteSource {
    /// Runs a query, and hands its rows on as they are found.
    pub(crate) async fn read(
        &self,
        query: &DatabaseQuery<'_>,
        reading: &SqlReading,
        rows: &mut dyn TakeRows,
        call: (&Halt, &StatementSlot),
    ) -> Result<StatementEnd, OpsError> {
        let prepared = prepared(query, reading);
        let (batches, arriving) = mpsc::channel(WAITING_BATCHES);
        let working = self.work(OpenedFor::SqlReading, call, move |opened| {
            find_rows(&opened.connection, &prepared, &batches)
        });
        let (halt, _) = call;
        // Whoever takes rows may be slow. Nobody waits for that past the end, and the thread sees that
        // nobody takes rows.
        let handing = async {
            tokio::select! {
                biased;
                stopped = hand_on(arriving, rows) => Ok(stopped),
                why = halt.reached() => Err(why),
            }
        };
        let (ended, handed) = tokio::join!(working, handing);
        ended?;
        Ok(StatementEnd {
            stopped: handed?,
            ..StatementEnd::default()
        })
    }

    /// Runs a change.
    pub(crate) async fn write(
        &self,
        query: &DatabaseQuery<'_>,
        reading: &SqlReading,
        (expected, keeper): (u64, Option<&mut dyn KeepRows>),
        call: (&Halt, &StatementSlot),
    ) -> Result<StatementEnd, OpsError> {
        let prepared = prepared(query, reading);
        let (offers, arriving) = mpsc::channel(1);
        let offers = keeper.as_ref().map(|keeper| RowOffers {
            limit: keeper.limit(),
            offers,
        });
        let (source, table) = (query.source.to_owned(), reading.change.clone());
        let (path, tellable) = (self.path.clone(), reading.statement.clone());
        let working = self.work(OpenedFor::Writing, call, move |opened| {
            let wanted = WantedChange {
                prepared: &prepared,
                expected,
                source: &source,
                tellable: &tellable,
                table: table.as_ref(),
                path: &path,
            };
            change(opened, &wanted, offers.as_ref())
        });
        let (changed, not_kept) = keeping(working, keeper, arriving).await?;
        Ok(StatementEnd {
            changed: Some(changed),
            not_kept,
            ..StatementEnd::default()
        })
    }

    /// Shows the steps of a statement. SQLite has no numbers for them.
    pub(crate) async fn explain(
        &self,
        query: &DatabaseQuery<'_>,
        reading: &SqlReading,
        call: (&Halt, &StatementSlot),
    ) -> Result<StatementEstimate, OpsError> {
        let prepared = prepared(query, reading);
        let change = reading.change.clone();
        self.work(OpenedFor::SqlReading, call, move |opened| {
            let not_kept = match &change {
                Some(change) => {
                    RowTable::of(&opened.connection, &change.table, &change.kind)?.err()
                }
                None => None,
            };
            let text = format!("EXPLAIN QUERY PLAN {}", prepared.statement);
            let mut statement = prepare(&opened.connection, &text, &prepared)?;
            let mut rows = statement.raw_query();
            let mut steps = Vec::new();
            while let Some(row) = rows.next().map_err(|error| failed(&error))? {
                steps.push(row.get::<_, String>(3).map_err(|error| failed(&error))?);
            }
            Ok(StatementEstimate {
                cost: None,
                rows: None,
                scans: scans(&steps),
                steps: steps.join("\n"),
                not_kept,
            })
        })
        .await
    }
}

/// The tables that steps read from the first row to the last: `SCAN users`, `SCAN u USING COVERING
/// INDEX …`, but not `SCAN CONSTANT ROW` and `SCAN (subquery-1)`.
fn scans(steps: &[String]) -> Vec<TableScan> {
    let scanned = steps.iter().filter_map(|step| {
        let table = step.strip_prefix("SCAN ")?.split(' ').next()?;
        (table != "CONSTANT" && !table.starts_with('(')).then_some(table)
    });
    let tables: BTreeSet<&str> = scanned.collect();
    let tables = tables.into_iter().map(|table| TableScan {
        table: table.to_owned(),
        rows: None,
    });
    tables.collect()
}

/// Hands rows on until there are no more or no more are wanted; whether the latter.
async fn hand_on(mut arriving: mpsc::Receiver<RowMessage>, rows: &mut dyn TakeRows) -> bool {
    while let Some(found) = arriving.recv().await {
        match found {
            RowMessage::Columns(names) => rows.columns(&names),
            RowMessage::Rows(batch) => {
                if rows.rows(batch).await == WantedRows::NoMore {
                    return true;
                }
            }
        }
    }
    false
}

/// Compiles a statement under the authorizer, and binds its parameters.
fn prepare<'c>(
    connection: &'c Connection,
    text: &str,
    prepared: &PreparedStatement,
) -> Result<Statement<'c>, OpsError> {
    let compiled = prepared.allowed.guard(connection, &prepared.statement)?;
    let mut statement = connection.prepare(text).map_err(|error| failed(&error))?;
    compiled.store(true, Ordering::Relaxed);
    let wanted = statement.parameter_count();
    if prepared.parameters.len() != wanted {
        return Err(parameter_count::wrong_count(
            wanted,
            prepared.parameters.len(),
        ));
    }
    for (index, parameter) in prepared.parameters.iter().enumerate() {
        let parameter = value::bound(parameter)?;
        let bound = statement.raw_bind_parameter(index + 1, parameter);
        bound.map_err(|error| failed(&error))?;
    }
    Ok(statement)
}

fn find_rows(
    connection: &Connection,
    prepared: &PreparedStatement,
    batches: &mpsc::Sender<RowMessage>,
) -> Result<(), OpsError> {
    let mut statement = prepare(connection, &prepared.statement, prepared)?;
    if !statement.readonly() {
        return Err(OpsError::new(
            ErrorKind::Denied,
            "the statement changes data",
        ));
    }
    let names: Vec<String> = statement
        .column_names()
        .into_iter()
        .map(str::to_owned)
        .collect();
    let columns = names.clone();
    if batches.blocking_send(RowMessage::Columns(names)).is_err() {
        return Ok(());
    }
    let mut rows = statement.raw_query();
    let mut batch: Vec<Vec<Value>> = Vec::new();
    let mut bytes = 0;
    let (mut size, mut began) = (1, Instant::now());
    while let Some(row) = rows.next().map_err(|error| failed(&error))? {
        let mut row_size = RowSize::default();
        let mut values = Vec::with_capacity(columns.len());
        for (column, name) in columns.iter().enumerate() {
            let found = row.get_ref(column).map_err(|error| failed(&error))?;
            row_size.add(value::size(found), name)?;
            values.push(value::read(found));
        }
        batch.push(values);
        bytes += row_size.bytes();
        if batch.len() >= size || bytes >= BATCH_BYTES {
            size = match began.elapsed() {
                slow if slow > BATCH_WAIT => 1,
                _ => (size * 2).min(BATCH_ROWS),
            };
            (began, bytes) = (Instant::now(), 0);
            let full = std::mem::take(&mut batch);
            if batches.blocking_send(RowMessage::Rows(full)).is_err() {
                return Ok(());
            }
        }
    }
    if !batch.is_empty() {
        // Nobody listens any more: then nobody misses them.
        drop(batches.blocking_send(RowMessage::Rows(batch)));
    }
    Ok(())
}

/// A change as SQLite's thread gets it.
struct WantedChange<'w> {
    prepared: &'w PreparedStatement,
    expected: u64,
    source: &'w str,
    /// The statement with nothing behind its last word.
    tellable: &'w str,
    table: Option<&'w ChangedTable>,
    path: &'w Path,
}

/// Runs a change and commits it. Says how many rows it changed, and why they are not kept, if so.
fn change(
    opened: &OpenTransaction,
    wanted: &WantedChange<'_>,
    offers: Option<&RowOffers>,
) -> Result<(u64, Option<String>), OpsError> {
    let connection = &opened.connection;
    // Looked at before the authorizer is set.
    let is_virtual = wanted.prepared.allowed.writes_to_virtual(connection)?;
    let kept = match (offers, wanted.table) {
        (Some(offers), Some(table)) => {
            let of = (wanted.source, table);
            KeptRows::of(connection, of, (wanted.expected, offers.limit))?
        }
        _ => Err(NOBODY_KEEPS.to_owned()),
    };
    let before = connection.total_changes();
    // What fails is rolled back with the connection.
    let kept = run_change(connection, wanted, kept)?;
    let changed = connection.changes();
    // Rows that references within the table changed with the others, which the statement does not report.
    let with_others = connection.total_changes().saturating_sub(before);
    let expected = wanted.expected;
    if changed != expected {
        return Err(OpsError::new(
            ErrorKind::Conflict,
            format!(
                "the statement would have changed {changed} rows instead of {expected}, so nothing \
                 was changed"
            ),
        ));
    }
    if with_others > changed && !is_virtual {
        return Err(OpsError::new(
            ErrorKind::Conflict,
            format!(
                "with its cascades the statement would have changed {with_others} rows instead of \
                 {changed}, so nothing was changed; change the rows that refer to these first"
            ),
        ));
    }
    let not_kept = match (kept, offers) {
        (Ok(_), _) if changed == 0 => None,
        (Ok(kept), Some(offers)) => {
            // What follows is not the statement's.
            without_authorizer(connection)?;
            match kept.changed(connection, wanted.path, changed)? {
                Ok(rows) => {
                    offers.offer(rows)?;
                    None
                }
                Err(why) => Some(why),
            }
        }
        (Ok(_), None) => None,
        (Err(why), _) => Some(why),
    };
    opened.commit()?;
    Ok((changed, not_kept))
}

fn without_authorizer(connection: &Connection) -> Result<(), OpsError> {
    let free = connection.authorizer(None::<fn(AuthContext<'_>) -> Authorization>);
    free.map_err(|error| failed(&error))
}

/// Runs a change, and has it say which rows it changes if they are to be kept.
fn run_change<'r>(
    connection: &Connection,
    wanted: &WantedChange<'_>,
    kept: Result<KeptRows<'r>, String>,
) -> Result<Result<KeptRows<'r>, String>, OpsError> {
    let prepared = wanted.prepared;
    let mut kept = match kept {
        Ok(kept) => kept,
        Err(why) => {
            let mut statement = prepare(connection, &prepared.statement, prepared)?;
            statement.raw_execute().map_err(|error| failed(&error))?;
            return Ok(Err(why));
        }
    };
    let (table, key) = (&kept.change.table, &kept.table.kept.key);
    let told = PreparedStatement {
        statement: prepared.statement.clone(),
        parameters: prepared.parameters.clone(),
        allowed: prepared.allowed.clone().telling(table, key),
    };
    let text = kept.table.telling(wanted.tellable);
    let mut statement = prepare(connection, &text, &told)?;
    Ok(match kept.run(&mut statement)? {
        None => Ok(kept),
        Some(why) => Err(why),
    })
}
