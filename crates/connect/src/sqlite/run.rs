//! Running a statement: rows are handed on from SQLite's thread in batches, and a change is committed
//! only if it changed as many rows as expected.

use std::{path::PathBuf, time::Duration};

use haft_contract::{
    ErrorKind,
    ops::{DatabaseQuery, OpsError, StatementEnd, StatementEstimate, TakeRows, WantedRows},
};
use rusqlite::{Connection, Statement};
use serde_json::Value;
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use super::{
    SqliteSource,
    authorizer::Allowed,
    connection::{OpenedFor, finish, open},
    failed, value,
};
use crate::{batch::BATCH_ROWS, halt::Halt, sql::SqlReading};

/// How many batches wait for whoever takes them.
const WAITING_BATCHES: usize = 2;

/// Rows that come more slowly are handed on one by one.
const BATCH_WAIT: Duration = Duration::from_millis(50);

/// What SQLite's thread hands on.
enum RowMessage {
    Columns(Vec<String>),
    Rows(Vec<Vec<Value>>),
}

/// A statement as SQLite's thread gets it.
struct PreparedStatement {
    path: PathBuf,
    statement: String,
    parameters: Vec<Value>,
    allowed: Allowed,
}

impl SqliteSource {
    fn prepared(&self, query: &DatabaseQuery<'_>, reading: &SqlReading) -> PreparedStatement {
        PreparedStatement {
            path: self.path.clone(),
            statement: query.statement.to_owned(),
            parameters: query.parameters.to_vec(),
            allowed: Allowed::by(query.source, reading),
        }
    }

    /// Runs a query, and hands its rows on as they are found.
    pub(crate) async fn read(
        &self,
        query: &DatabaseQuery<'_>,
        reading: &SqlReading,
        rows: &mut dyn TakeRows,
        halt: &Halt,
    ) -> Result<StatementEnd, OpsError> {
        let prepared = self.prepared(query, reading);
        let (told, interrupt) = oneshot::channel();
        let (batches, mut arriving) = mpsc::channel(WAITING_BATCHES);
        let working = tokio::task::spawn_blocking(move || {
            let connection = open(&prepared.path, OpenedFor::SqlReading)?;
            if told.send(connection.get_interrupt_handle()).is_err() {
                return Err(cancelled());
            }
            find_rows(&connection, &prepared, &batches)
        });
        let hand_on = async {
            let mut stopped = false;
            while let Some(found) = arriving.recv().await {
                match found {
                    RowMessage::Columns(names) => rows.columns(&names),
                    RowMessage::Rows(batch) => {
                        if rows.rows(batch).await == WantedRows::NoMore {
                            stopped = true;
                            // The thread sees that nobody takes rows, and ends.
                            arriving.close();
                            break;
                        }
                    }
                }
            }
            while arriving.recv().await.is_some() {}
            stopped
        };
        let (ended, stopped) = tokio::join!(finish(working, interrupt, halt), hand_on);
        ended?;
        Ok(StatementEnd {
            stopped,
            ..StatementEnd::default()
        })
    }

    /// Runs a change.
    pub(crate) async fn write(
        &self,
        query: &DatabaseQuery<'_>,
        reading: &SqlReading,
        expected: u64,
        halt: &Halt,
    ) -> Result<StatementEnd, OpsError> {
        let prepared = self.prepared(query, reading);
        let (told, interrupt) = oneshot::channel();
        let working = tokio::task::spawn_blocking(move || {
            let connection = open(&prepared.path, OpenedFor::Writing)?;
            if told.send(connection.get_interrupt_handle()).is_err() {
                return Err(cancelled());
            }
            change(&connection, &prepared, expected)
        });
        let changed = finish(working, interrupt, halt).await?;
        Ok(StatementEnd {
            changed: Some(changed),
            ..StatementEnd::default()
        })
    }

    /// Shows the steps of a statement. SQLite has no numbers for them.
    pub(crate) async fn explain(
        &self,
        query: &DatabaseQuery<'_>,
        reading: &SqlReading,
        halt: &Halt,
    ) -> Result<StatementEstimate, OpsError> {
        let prepared = self.prepared(query, reading);
        self.work(halt, move |connection| {
            let text = format!("EXPLAIN QUERY PLAN {}", prepared.statement);
            let mut statement = prepare(connection, &text, &prepared)?;
            let mut rows = statement.raw_query();
            let mut steps = Vec::new();
            while let Some(row) = rows.next().map_err(|error| failed(&error))? {
                steps.push(row.get::<_, String>(3).map_err(|error| failed(&error))?);
            }
            Ok(StatementEstimate {
                cost: None,
                rows: None,
                steps: steps.join("\n"),
            })
        })
        .await
    }
}

fn cancelled() -> OpsError {
    OpsError::new(ErrorKind::Cancelled, "the statement was cancelled")
}

/// Compiles a statement under the authorizer, and binds its parameters.
fn prepare<'c>(
    connection: &'c Connection,
    text: &str,
    prepared: &PreparedStatement,
) -> Result<Statement<'c>, OpsError> {
    let mut allowed = prepared.allowed.clone();
    let known = allowed.know_tables(connection);
    known.map_err(|error| failed(&error))?;
    let authorize =
        connection.authorizer(Some(move |context: rusqlite::hooks::AuthContext<'_>| {
            allowed.answer(&context)
        }));
    authorize.map_err(|error| failed(&error))?;
    let mut statement = connection.prepare(text).map_err(|error| failed(&error))?;
    let wanted = statement.parameter_count();
    if prepared.parameters.len() != wanted {
        return Err(OpsError::new(
            ErrorKind::InvalidInput,
            format!(
                "the statement has {wanted} placeholders, and there are {} parameters",
                prepared.parameters.len()
            ),
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
    let columns = names.len();
    if batches.blocking_send(RowMessage::Columns(names)).is_err() {
        return Ok(());
    }
    let mut rows = statement.raw_query();
    let mut batch: Vec<Vec<Value>> = Vec::new();
    let (mut size, mut began) = (1, Instant::now());
    while let Some(row) = rows.next().map_err(|error| failed(&error))? {
        let values = (0..columns).map(|column| {
            let value = row.get_ref(column).map_err(|error| failed(&error))?;
            Ok(value::read(value))
        });
        batch.push(values.collect::<Result<_, OpsError>>()?);
        if batch.len() >= size {
            size = match began.elapsed() {
                slow if slow > BATCH_WAIT => 1,
                _ => (size * 2).min(BATCH_ROWS),
            };
            began = Instant::now();
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

fn change(
    connection: &Connection,
    prepared: &PreparedStatement,
    expected: u64,
) -> Result<u64, OpsError> {
    let begin = connection.execute_batch("BEGIN IMMEDIATE");
    begin.map_err(|error| failed(&error))?;
    // What fails from here on is rolled back with the connection.
    let changed = {
        let mut statement = prepare(connection, &prepared.statement, prepared)?;
        statement.raw_execute().map_err(|error| failed(&error))?
    };
    let changed = u64::try_from(changed).unwrap_or(u64::MAX);
    if changed != expected {
        return Err(OpsError::new(
            ErrorKind::Conflict,
            format!(
                "the statement would have changed {changed} rows instead of {expected}, so nothing \
                 was changed"
            ),
        ));
    }
    let commit = connection.execute_batch("COMMIT");
    commit.map_err(|error| failed(&error))?;
    Ok(changed)
}
