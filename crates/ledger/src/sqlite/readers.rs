//! The connections that read: a few, opened when needed and used again. Their statements run on the
//! host's threads for blocking work, because a page may have to come from the disk.

use std::{path::PathBuf, sync::Arc};

use haft_contract::BoxFuture;
use tokio::sync::OwnedSemaphorePermit;

use super::{
    connection::{NEWEST_POSITION, failed, find_text, query},
    open,
};
use crate::{
    connection_pool::ConnectionPool,
    store::{Cell, Connection, Row, StoreError, TextSearch, Value},
};

pub(super) struct Readers {
    path: PathBuf,
    pool: ConnectionPool<rusqlite::Connection>,
}

impl Readers {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            pool: ConnectionPool::new(),
        }
    }

    pub(super) fn close(&self) {
        self.pool.close();
    }
}

/// One connection that reads, given back when dropped.
pub(super) struct ReadingConnection {
    /// None while a statement runs, and after one that was given up.
    connection: Option<rusqlite::Connection>,
    readers: Arc<Readers>,
    in_transaction: bool,
    _place: OwnedSemaphorePermit,
}

/// Waits for a connection.
pub(super) async fn reader(readers: &Arc<Readers>) -> Result<ReadingConnection, StoreError> {
    let (place, idle) = readers.pool.take().await?;
    let connection = if let Some(connection) = idle {
        connection
    } else {
        let path = readers.path.clone();
        run_blocking(move || {
            let connection = open(&path)?;
            connection.execute_batch("PRAGMA query_only = on")?;
            Ok(connection)
        })
        .await?
    };
    Ok(ReadingConnection {
        connection: Some(connection),
        readers: Arc::clone(readers),
        in_transaction: false,
        _place: place,
    })
}

impl ReadingConnection {
    async fn read(
        &mut self,
        statement: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        let connection = self.connection.take();
        let connection = connection.ok_or_else(|| unreachable_store("a read was given up"))?;
        let statement = statement.to_owned();
        let values: Vec<Cell> = values.iter().copied().map(Cell::from).collect();
        let (connection, rows) = run_blocking(move || {
            let values: Vec<Value<'_>> = values.iter().map(Value::from).collect();
            let rows = query(&connection, &statement, &values);
            Ok((connection, rows))
        })
        .await?;
        self.connection = Some(connection);
        rows.map_err(failed)
    }

    async fn turn(&mut self, statement: &str, in_transaction: bool) -> Result<(), StoreError> {
        self.in_transaction = true;
        self.read(statement, &[]).await?;
        self.in_transaction = in_transaction;
        Ok(())
    }
}

impl Drop for ReadingConnection {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take()
            && !self.in_transaction
        {
            self.readers.pool.give_back(connection);
        }
    }
}

impl Connection for ReadingConnection {
    fn query<'a>(
        &'a mut self,
        statement: &'a str,
        values: &'a [Value<'a>],
    ) -> BoxFuture<'a, Result<Vec<Row>, StoreError>> {
        Box::pin(self.read(statement, values))
    }

    fn begin(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.turn("BEGIN", true))
    }

    fn commit(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.turn("COMMIT", false))
    }

    fn rollback(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.turn("ROLLBACK", false))
    }

    fn settled_position(&mut self) -> BoxFuture<'_, Result<i64, StoreError>> {
        Box::pin(async move {
            let connection: &mut dyn Connection = self;
            connection.number(NEWEST_POSITION, &[]).await
        })
    }

    fn find_text<'a>(
        &'a mut self,
        search: &'a TextSearch<'a>,
    ) -> BoxFuture<'a, Result<Vec<i64>, StoreError>> {
        Box::pin(find_text(self, search))
    }
}

async fn run_blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, rusqlite::Error> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(read).await {
        Ok(read) => read.map_err(failed),
        Err(_) => Err(unreachable_store("a read did not finish")),
    }
}

fn unreachable_store(why: &str) -> StoreError {
    StoreError::Unreachable(why.to_owned())
}
