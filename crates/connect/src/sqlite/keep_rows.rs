//! Keeps the rows that a change replaces. The statement itself says which they are, by their keys;
//! what they were before is read over a second connection, which sees them as they were until the
//! first one commits.

use std::path::Path;

use haft_contract::ops::{KeepRows, KeptRowsLimit, KeptValue, OpsError, RowChange};
use rusqlite::{Connection, Statement};
use tokio::sync::{mpsc, oneshot};

use super::{
    connection::{OpenedFor, open},
    failed,
    row_table::RowTable,
    row_values,
};
use crate::{
    kept_rows::{cannot, too_many},
    sql::ChangedTable,
};

/// How much of a change stays in memory, in kibibytes, before it is written to the file. From then on
/// a second connection of a file without a write-ahead log sees nothing.
const CACHE_KIB: i64 = 64 * 1024;

/// A change on its way from SQLite's thread to whoever keeps it, and the way of the answer.
pub(super) type KeptOffer = (RowChange, oneshot::Sender<Result<(), OpsError>>);

/// What SQLite's thread knows of keeping rows.
pub(super) struct RowOffers {
    pub(super) limit: KeptRowsLimit,
    pub(super) offers: mpsc::Sender<KeptOffer>,
}

impl RowOffers {
    /// Waits until the change is kept.
    pub(super) fn offer(&self, change: RowChange) -> Result<(), OpsError> {
        let gone = || cannot("nobody waits for this change any more");
        let (answer, answered) = oneshot::channel();
        let sent = self.offers.blocking_send((change, answer));
        sent.map_err(|_| gone())?;
        answered.blocking_recv().unwrap_or_else(|_| Err(gone()))
    }
}

/// Waits for a thread's work, and keeps what it offers meanwhile. Nobody waits for a thread that does
/// not heed its end: what it offers from then on is refused.
pub(super) async fn keeping<T>(
    working: impl Future<Output = Result<T, OpsError>>,
    keeper: Option<&mut dyn KeepRows>,
    mut arriving: mpsc::Receiver<KeptOffer>,
) -> Result<T, OpsError> {
    let keep = async {
        if let Some(keeper) = keeper {
            while let Some((change, answer)) = arriving.recv().await {
                let kept = keeper.keep(change).await;
                // Nobody listens once the thread was told to stop.
                drop(answer.send(kept));
            }
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        worked = working => worked,
        () = keep => Err(cannot("the change was given up")),
    }
}

/// A change whose rows are going to be kept.
pub(super) struct KeptRows<'r> {
    pub(super) source: &'r str,
    pub(super) change: &'r ChangedTable,
    pub(super) table: RowTable,
    pub(super) limit: KeptRowsLimit,
    pub(super) keys: Vec<Vec<KeptValue>>,
}

impl<'r> KeptRows<'r> {
    /// Prepares to keep what a statement changes, or says why that is not possible. To be asked before
    /// an authorizer is set.
    pub(super) fn of(
        connection: &Connection,
        (source, change): (&'r str, &'r ChangedTable),
        (expected, limit): (u64, KeptRowsLimit),
    ) -> Result<Result<Self, String>, OpsError> {
        if let Some(why) = too_many(expected, limit) {
            return Ok(Err(why));
        }
        let cache = connection.pragma_update(None, "cache_size", -CACHE_KIB);
        cache.map_err(|error| failed(&error))?;
        let table = RowTable::of(connection, &change.table, &change.kind)?;
        Ok(table.map(|table| Self {
            source,
            change,
            table,
            limit,
            keys: Vec::new(),
        }))
    }

    /// Runs the statement and takes the keys of its rows, unless there are too many.
    pub(super) fn run(
        &mut self,
        statement: &mut Statement<'_>,
    ) -> Result<Option<String>, OpsError> {
        let error = |error: rusqlite::Error| failed(&error);
        let mut rows = statement.raw_query();
        let mut why = None;
        while let Some(row) = rows.next().map_err(error)? {
            if self.keys.len() as u64 >= self.limit.rows {
                continue;
            }
            let mut key = Vec::with_capacity(self.table.kept.key.len());
            for place in 0..self.table.kept.key.len() {
                match row_values::kept(row.get_ref(place).map_err(error)?) {
                    Some(value) => key.push(value),
                    None => why = Some("a text is not in UTF-8".to_owned()),
                }
            }
            self.keys.push(key);
        }
        Ok(why)
    }

    /// The rows before and after a statement that has run, or why there are none to keep.
    pub(super) fn changed(
        &self,
        connection: &Connection,
        path: &Path,
        changed: u64,
    ) -> Result<Result<RowChange, String>, OpsError> {
        let after = match row_values::read(connection, &self.table, &self.keys, self.limit)? {
            Ok(after) => after,
            Err(why) => return Ok(Err(why)),
        };
        let before = open(path, OpenedFor::SqlReading)
            .and_then(|beside| row_values::read(&beside, &self.table, &self.keys, self.limit));
        let before = match before {
            Ok(Ok(before)) => before,
            Ok(Err(why)) => return Ok(Err(why)),
            Err(error) => {
                let why = error.message();
                return Ok(Err(format!("the rows before it could not be read: {why}")));
            }
        };
        let told = (self.source, self.change);
        let columns = &self.table.kept;
        Ok(columns.row_change(told, (before, after), changed, String::as_str))
    }
}
