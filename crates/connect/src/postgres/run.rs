//! Running a statement: a query as a cursor that a limit stops, a change with the
//! number of its rows asserted.

use std::time::Duration;

use haft_contract::{
    ErrorKind,
    ops::{DatabaseQuery, OpsError, StatementEnd, TakeRows, WantedRows},
};
use serde_json::Value;
use tokio::time::Instant;
use tokio_postgres::{Client, SimpleQueryMessage};

use super::{
    PostgresSource,
    backend::lost,
    failure::failed,
    value::{TextParameter, ValueKind},
};
use crate::{batch::BATCH_ROWS, halt::Halt, sql::SqlReading};

/// How long the rows of one request may take to arrive before fewer are asked for: whoever watches
/// sees rows at least this often, as far as the database finds them.
const BATCH_WAIT: Duration = Duration::from_millis(100);

/// How many bytes of rows one request should bring.
const BATCH_BYTES: usize = 1024 * 1024;

impl PostgresSource {
    /// Runs a query, and hands its rows on as they are found.
    pub(crate) async fn read(
        &self,
        query: &DatabaseQuery<'_>,
        reading: &SqlReading,
        rows: &mut dyn TakeRows,
        halt: &Halt,
    ) -> Result<StatementEnd, OpsError> {
        let backend = self.begin(Self::purpose(false), halt).await?;
        let run = async {
            let client = backend.client()?;
            self.check_called(client, &reading.called).await?;
            fetch_all(client, query, reading, rows).await
        };
        let ended = tokio::select! {
            biased;
            ended = run => ended,
            stop = halt.reached() => return Err(backend.end(stop).await),
        };
        match ended {
            Ok(end) => {
                backend.roll_back().await;
                Ok(end)
            }
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                Err(backend.end(halt.timed_out()).await)
            }
            Err(error) => {
                backend.roll_back().await;
                Err(error)
            }
        }
    }

    /// Runs a change. It is committed only if it changed as many rows as expected.
    pub(crate) async fn write(
        &self,
        query: &DatabaseQuery<'_>,
        reading: &SqlReading,
        expected: u64,
        halt: &Halt,
    ) -> Result<StatementEnd, OpsError> {
        let backend = self.begin(Self::purpose(true), halt).await?;
        let run = async {
            let client = backend.client()?;
            self.check_called(client, &reading.called).await?;
            let statement = client.prepare(&reading.statement).await;
            let statement = statement.map_err(|error| failed(&error))?;
            let parameters = parameters(query, statement.params().len())?;
            let changed = client.execute_raw(&statement, parameters).await;
            changed.map_err(|error| failed(&error))
        };
        let changed = tokio::select! {
            biased;
            changed = run => changed,
            stop = halt.reached() => return Err(backend.end(stop).await),
        };
        match changed {
            Ok(changed) if changed == expected => {
                // Not stopped from here on: whether a commit that is given up happened is unknown.
                match backend.commit().await {
                    Ok(()) => Ok(StatementEnd {
                        changed: Some(changed),
                        ..StatementEnd::default()
                    }),
                    Err(error) if error.as_db_error().is_some() => Err(failed(&error)),
                    Err(_) => Err(lost()),
                }
            }
            Ok(changed) => {
                backend.roll_back().await;
                Err(OpsError::new(
                    ErrorKind::Conflict,
                    format!(
                        "the statement would have changed {changed} rows instead of {expected}, so \
                         nothing was changed"
                    ),
                ))
            }
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                Err(backend.end(halt.timed_out()).await)
            }
            Err(error) => {
                backend.roll_back().await;
                Err(error)
            }
        }
    }
}

/// The values of the placeholders, as many as the statement has.
pub(super) fn parameters(
    query: &DatabaseQuery<'_>,
    wanted: usize,
) -> Result<Vec<TextParameter>, OpsError> {
    if query.parameters.len() != wanted {
        return Err(OpsError::new(
            ErrorKind::InvalidInput,
            format!(
                "the statement has {wanted} placeholders, and there are {} parameters",
                query.parameters.len()
            ),
        ));
    }
    Ok(query.parameters.iter().map(TextParameter::new).collect())
}

async fn fetch_all(
    client: &Client,
    query: &DatabaseQuery<'_>,
    reading: &SqlReading,
    rows: &mut dyn TakeRows,
) -> Result<StatementEnd, OpsError> {
    // The server takes only a query here, and only one.
    let declare = format!(
        "DECLARE haft_rows NO SCROLL CURSOR FOR {}",
        reading.statement
    );
    let declared = client.prepare(&declare).await;
    let declared = declared.map_err(|error| failed(&error))?;
    let parameters = parameters(query, declared.params().len())?;
    let opened = client.execute_raw(&declared, parameters).await;
    opened.map_err(|error| failed(&error))?;
    let described = client.prepare("FETCH FORWARD 1 FROM haft_rows").await;
    let described = described.map_err(|error| failed(&error))?;
    let names: Vec<String> = described
        .columns()
        .iter()
        .map(|column| column.name().to_owned())
        .collect();
    let kinds: Vec<ValueKind> = described
        .columns()
        .iter()
        .map(|column| ValueKind::of(column.type_()))
        .collect();
    rows.columns(&names);
    let mut wanted = 1;
    loop {
        let began = Instant::now();
        let fetch = format!("FETCH FORWARD {wanted} FROM haft_rows");
        let messages = client.simple_query(&fetch).await;
        let messages = messages.map_err(|error| failed(&error))?;
        let mut bytes = 0;
        let mut batch: Vec<Vec<Value>> = Vec::with_capacity(wanted);
        for message in messages {
            let SimpleQueryMessage::Row(row) = message else {
                continue;
            };
            let values = kinds.iter().enumerate().map(|(column, kind)| {
                let text = row.try_get(column).ok().flatten();
                bytes += text.map_or(0, str::len);
                kind.value(text)
            });
            batch.push(values.collect());
        }
        let found = batch.len();
        if found > 0 && rows.rows(batch).await == WantedRows::NoMore {
            return Ok(StatementEnd {
                stopped: true,
                ..StatementEnd::default()
            });
        }
        if found < wanted {
            return Ok(StatementEnd::default());
        }
        wanted = next_batch(wanted, began.elapsed(), bytes);
    }
}

/// How many rows to ask for next: more while they come fast, fewer while they are slow or large.
fn next_batch(wanted: usize, took: Duration, bytes: usize) -> usize {
    if took > BATCH_WAIT || bytes > BATCH_BYTES {
        return (wanted / 2).max(1);
    }
    (wanted * 2).min(BATCH_ROWS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_or_large_rows_are_asked_for_one_by_one() {
        let soon = Duration::from_millis(1);
        let late = Duration::from_secs(1);
        assert_eq!(next_batch(1, soon, 10), 2);
        assert_eq!(next_batch(400, soon, 10), BATCH_ROWS);
        assert_eq!(next_batch(400, late, 10), 200);
        assert_eq!(next_batch(1, late, 10), 1);
        assert_eq!(next_batch(8, soon, 2 * BATCH_BYTES), 4);
    }
}
