//! Running a statement: a query as a cursor that a limit stops, a change with the
//! number of its rows asserted.

use std::{pin::pin, time::Duration};

use futures_util::TryStreamExt as _;
use haft_contract::{
    ErrorKind,
    ops::{DatabaseQuery, KeepRows, OpsError, StatementEnd, TakeRows, WantedRows},
};
use serde_json::Value;
use tokio::time::Instant;
use tokio_postgres::{Client, SimpleQueryMessage};

use super::{
    PostgresSource,
    backend::lost,
    failure::failed,
    keep_rows::KeptRows,
    value::{TextParameter, ValueKind},
};
use crate::{
    batch::{BATCH_BYTES, BATCH_ROWS, RowSize, too_large},
    halt::Halt,
    kept_rows::NOBODY_KEEPS,
    parameter_count,
    sql::SqlReading,
};

/// How long the rows of one request may take to arrive before fewer are asked for: whoever watches
/// sees rows at least this often, as far as the database finds them.
const BATCH_WAIT: Duration = Duration::from_millis(100);

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
            self.fetch_all(client, query, reading, rows).await
        };
        let ended = tokio::select! {
            biased;
            ended = run => ended,
            stop = halt.reached() => return Err(backend.end(stop).await),
        };
        match ended {
            Ok(fetched) => {
                if fetched.unfinished {
                    backend.cancel().await;
                }
                backend.roll_back().await;
                Ok(StatementEnd {
                    stopped: fetched.stopped,
                    ..StatementEnd::default()
                })
            }
            // The server may still be sending.
            Err(error) if error.kind() == ErrorKind::LimitExceeded => Err(backend.end(error).await),
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
        (expected, keeper): (u64, Option<&mut dyn KeepRows>),
        halt: &Halt,
    ) -> Result<StatementEnd, OpsError> {
        let backend = self.begin(Self::purpose(true), halt).await?;
        let run = async {
            let client = backend.client()?;
            self.check_called(client, &reading.called).await?;
            let mut kept = match &keeper {
                Some(keeper) => {
                    let wanted = (expected, keeper.limit());
                    self.kept_rows(client, reading, wanted).await?
                }
                None => Err(NOBODY_KEEPS.to_owned()),
            };
            // Before anything that the statement brings about could alter the catalog.
            let Some(table) = &reading.change else {
                return Err(OpsError::new(ErrorKind::Internal, "it changes no table"));
            };
            let own = self.own_tables(client, table).await?;
            let changed = change(client, query, reading, &mut kept).await?;
            if changed != expected {
                return Ok((changed, None));
            }
            let others = self.check_other_changes(client, &own, changed).await?;
            let rows = match (kept, others) {
                (_, Some(others)) => Err(others),
                (Err(why), None) => Err(why),
                (Ok(_), None) if changed == 0 => return Ok((changed, None)),
                (Ok(kept), None) => {
                    let told = (query.source, changed);
                    self.changed_rows(client, &kept, told, halt).await?
                }
            };
            match (rows, keeper) {
                (Ok(rows), Some(keeper)) => keeper.keep(rows).await?,
                (Ok(_), None) => {}
                (Err(why), _) => return Ok((changed, Some(why))),
            }
            Ok::<(u64, Option<String>), OpsError>((changed, None))
        };
        let changed = tokio::select! {
            biased;
            changed = run => changed,
            stop = halt.reached() => return Err(backend.end(stop).await),
        };
        match changed {
            Ok((changed, not_kept)) if changed == expected => {
                // Not stopped from here on: whether a commit that is given up happened is unknown.
                match backend.commit().await {
                    Ok(()) => Ok(StatementEnd {
                        changed: Some(changed),
                        not_kept,
                        ..StatementEnd::default()
                    }),
                    Err(error) if error.as_db_error().is_some() => Err(failed(&error)),
                    Err(_) => Err(lost()),
                }
            }
            Ok((changed, _)) => {
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

/// Runs a change, and takes the keys of its rows if they are to be kept.
async fn change(
    client: &Client,
    query: &DatabaseQuery<'_>,
    reading: &SqlReading,
    kept: &mut Result<KeptRows<'_>, String>,
) -> Result<u64, OpsError> {
    let error = |error: tokio_postgres::Error| failed(&error);
    let statement = client.prepare(&reading.statement).await.map_err(error)?;
    let parameters = parameters(query, statement.params().len())?;
    let Ok(rows) = kept else {
        let changed = client.execute_raw(&statement, parameters).await;
        return changed.map_err(error);
    };
    let telling = rows.telling(&reading.statement);
    let statement = client.prepare(&telling).await.map_err(error)?;
    let mut changed = pin!(
        client
            .query_raw(&statement, parameters)
            .await
            .map_err(error)?
    );
    while let Some(row) = changed.try_next().await.map_err(error)? {
        rows.take(&row)?;
    }
    Ok(changed.rows_affected().unwrap_or_default())
}

/// The values of the placeholders, as many as the statement has.
pub(super) fn parameters(
    query: &DatabaseQuery<'_>,
    wanted: usize,
) -> Result<Vec<TextParameter>, OpsError> {
    if query.parameters.len() != wanted {
        return Err(parameter_count::wrong_count(wanted, query.parameters.len()));
    }
    Ok(query.parameters.iter().map(TextParameter::new).collect())
}

impl PostgresSource {
    async fn fetch_all(
        &self,
        client: &Client,
        query: &DatabaseQuery<'_>,
        reading: &SqlReading,
        rows: &mut dyn TakeRows,
    ) -> Result<FetchedRows, OpsError> {
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
        let columns: Vec<(String, ValueKind)> = described
            .columns()
            .iter()
            .map(|column| (column.name().to_owned(), ValueKind::of(column.type_())))
            .collect();
        rows.columns(
            &columns
                .iter()
                .map(|(name, _)| name.clone())
                .collect::<Vec<_>>(),
        );
        let mut wanted = 1;
        loop {
            let began = Instant::now();
            let fetched = self.fetch(client, wanted, &columns, rows).await?;
            if fetched.stopped || fetched.rows < wanted {
                return Ok(fetched);
            }
            wanted = next_batch(wanted, began.elapsed(), fetched.bytes);
        }
    }

    /// Asks for so many rows, and hands them on when all are there or as many bytes as a batch has.
    async fn fetch(
        &self,
        client: &Client,
        wanted: usize,
        columns: &[(String, ValueKind)],
        rows: &mut dyn TakeRows,
    ) -> Result<FetchedRows, OpsError> {
        let ended_before = self.too_large.count();
        let failed = |error: tokio_postgres::Error| {
            // The connection ended before anything of the row was read, whoever asks for it.
            if self.too_large.count() > ended_before && error.as_db_error().is_none() {
                return too_large("a row is too large to be returned");
            }
            failed(&error)
        };
        let fetch = format!("FETCH FORWARD {wanted} FROM haft_rows");
        let mut arriving = pin!(client.simple_query_raw(&fetch).await.map_err(failed)?);
        let mut fetched = FetchedRows::default();
        let mut batch: Vec<Vec<Value>> = Vec::new();
        let mut bytes = 0;
        while let Some(message) = arriving.try_next().await.map_err(failed)? {
            let SimpleQueryMessage::Row(row) = message else {
                continue;
            };
            let mut size = RowSize::default();
            let mut values = Vec::with_capacity(columns.len());
            for (index, (name, kind)) in columns.iter().enumerate() {
                let text = row.try_get(index).ok().flatten();
                size.add(text.map_or(0, str::len), name)?;
                values.push(kind.value(text));
            }
            batch.push(values);
            bytes += size.bytes();
            fetched.rows += 1;
            fetched.bytes += size.bytes();
            if bytes >= BATCH_BYTES {
                bytes = 0;
                if rows.rows(std::mem::take(&mut batch)).await == WantedRows::NoMore {
                    (fetched.stopped, fetched.unfinished) = (true, true);
                    return Ok(fetched);
                }
            }
        }
        if !batch.is_empty() {
            fetched.stopped = rows.rows(batch).await == WantedRows::NoMore;
        }
        Ok(fetched)
    }
}

/// What one request brought.
#[derive(Debug, Default)]
struct FetchedRows {
    rows: usize,
    bytes: usize,
    /// Whether no more rows are wanted.
    stopped: bool,
    /// Whether the server may still be sending some.
    unfinished: bool,
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
