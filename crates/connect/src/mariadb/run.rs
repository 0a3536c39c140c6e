//! Running a query: it is prepared, which the server does with one statement only, and its rows are
//! handed on as they arrive.

use std::{pin::pin, time::Duration};

use futures_util::TryStreamExt as _;
use haft_contract::{
    ErrorKind,
    ops::{DatabaseQuery, OpsError, StatementEnd, TakeRows, WantedRows},
};
use mysql_async::{
    BinaryProtocol, Conn, Params, QueryResult, Row, Statement, prelude::Queryable as _,
};
use serde_json::Value;
use tokio::time::Instant;

use super::{
    MariaDbSource,
    failure::failed,
    session::TransactionUse,
    value::{ValueKind, parameter},
};
use crate::{
    batch::{BATCH_BYTES, BATCH_ROWS, RowSize},
    halt::Halt,
    parameter_count,
    sql::{RefusedStatement, SqlReading},
};

/// How long rows that have arrived wait for more of their batch.
const BATCH_WAIT: Duration = Duration::from_millis(100);

impl MariaDbSource {
    /// Runs a query, and hands its rows on as they arrive.
    pub(crate) async fn read(
        &self,
        query: &DatabaseQuery<'_>,
        reading: &SqlReading,
        rows: &mut dyn TakeRows,
        halt: &Halt,
    ) -> Result<StatementEnd, OpsError> {
        let mut backend = self.begin(TransactionUse::Reads, halt).await?;
        let run = async {
            let conn = backend.conn()?;
            self.check_called(conn, &reading.called).await?;
            fetch_all(conn, query, reading, rows).await
        };
        let ended = tokio::select! {
            biased;
            ended = run => ended,
            stop = halt.reached() => Err(stop),
        };
        match ended {
            Ok(FetchedRows {
                stopped,
                unfinished,
            }) => {
                if unfinished {
                    backend.cancel().await;
                } else {
                    backend.roll_back().await;
                }
                Ok(StatementEnd {
                    stopped,
                    ..StatementEnd::default()
                })
            }
            Err(error) => match error.kind() {
                ErrorKind::TimedOut => Err(backend.end(halt.timed_out()).await),
                ErrorKind::LimitExceeded | ErrorKind::Cancelled => Err(backend.end(error).await),
                _ => {
                    backend.roll_back().await;
                    Err(error)
                }
            },
        }
    }
}

/// Has the server prepare a statement, and binds its parameters.
pub(super) async fn prepare(
    conn: &mut Conn,
    statement: &str,
    query: &DatabaseQuery<'_>,
) -> Result<(Statement, Params), OpsError> {
    let prepared = conn.prep(statement).await.map_err(|error| failed(&error))?;
    let wanted = usize::from(prepared.num_params());
    if query.parameters.len() != wanted {
        return Err(parameter_count::wrong_count(wanted, query.parameters.len()));
    }
    let values: Vec<_> = query.parameters.iter().map(parameter).collect();
    let parameters = if values.is_empty() {
        Params::Empty
    } else {
        Params::Positional(values)
    };
    Ok((prepared, parameters))
}

/// What a query brought.
struct FetchedRows {
    /// Whether no more rows are wanted.
    stopped: bool,
    /// Whether the server may still be sending some.
    unfinished: bool,
}

/// No more rows are wanted, and there may be more.
const STOPPED: FetchedRows = FetchedRows {
    stopped: true,
    unfinished: true,
};

/// Hands rows on until there are no more or no more are wanted.
async fn fetch_all(
    conn: &mut Conn,
    query: &DatabaseQuery<'_>,
    reading: &SqlReading,
    rows: &mut dyn TakeRows,
) -> Result<FetchedRows, OpsError> {
    let (prepared, parameters) = prepare(conn, &reading.statement, query).await?;
    // To the server's own grammar a query is what has columns.
    if prepared.num_columns() == 0 {
        return Err(
            RefusedStatement::new("the server does not take the statement for a query").into(),
        );
    }
    let mut result: QueryResult<'_, '_, BinaryProtocol> = conn
        .exec_iter(&prepared, parameters)
        .await
        .map_err(|error| failed(&error))?;
    let columns = result.columns_ref().iter();
    let columns: Vec<(String, ValueKind)> = columns
        .map(|column| (column.name_str().into_owned(), ValueKind::of(column)))
        .collect();
    let names: Vec<String> = columns.iter().map(|(name, _)| name.clone()).collect();
    rows.columns(&names);
    let stream = result
        .stream::<Row>()
        .await
        .map_err(|error| failed(&error))?;
    let Some(stream) = stream else {
        return Ok(FetchedRows {
            stopped: false,
            unfinished: false,
        });
    };
    let mut arriving = pin!(stream);
    let mut batch = Batch::default();
    loop {
        // The stream keeps what has arrived of a row while nobody waits for it.
        let arrived = match batch.waits_until() {
            None => Ok(arriving.try_next().await),
            Some(until) => tokio::time::timeout_at(until, arriving.try_next()).await,
        };
        let Ok(arrived) = arrived else {
            batch.size = 1;
            if batch.hand_on(rows).await == WantedRows::NoMore {
                return Ok(STOPPED);
            }
            continue;
        };
        let Some(row) = arrived.map_err(|error| failed(&error))? else {
            break;
        };
        batch.add(&row, &columns)?;
        if batch.is_full() && batch.hand_on(rows).await == WantedRows::NoMore {
            return Ok(STOPPED);
        }
    }
    Ok(FetchedRows {
        stopped: batch.hand_on(rows).await == WantedRows::NoMore,
        unfinished: false,
    })
}

/// Rows that are handed on together: one at first, and more while they come fast.
struct Batch {
    rows: Vec<Vec<Value>>,
    bytes: usize,
    /// How many rows make it full.
    size: usize,
    began: Instant,
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            bytes: 0,
            size: 1,
            began: Instant::now(),
        }
    }
}

impl Batch {
    fn waits_until(&self) -> Option<Instant> {
        (!self.rows.is_empty()).then(|| self.began + BATCH_WAIT)
    }

    fn add(&mut self, row: &Row, columns: &[(String, ValueKind)]) -> Result<(), OpsError> {
        if self.rows.is_empty() {
            self.began = Instant::now();
        }
        let mut size = RowSize::default();
        let mut values = Vec::with_capacity(columns.len());
        for (index, (name, kind)) in columns.iter().enumerate() {
            let value = row.as_ref(index).unwrap_or(&mysql_async::Value::NULL);
            size.add(kind.size(value), name)?;
            values.push(kind.value(value));
        }
        self.rows.push(values);
        self.bytes += size.bytes();
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.rows.len() >= self.size || self.bytes >= BATCH_BYTES
    }

    async fn hand_on(&mut self, rows: &mut dyn TakeRows) -> WantedRows {
        self.bytes = 0;
        let full = std::mem::take(&mut self.rows);
        if full.is_empty() {
            return WantedRows::More;
        }
        self.size = (self.size * 2).min(BATCH_ROWS);
        rows.rows(full).await
    }
}
