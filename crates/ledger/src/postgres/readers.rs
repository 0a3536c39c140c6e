//! The connections that read: a few, for one scope at a time.

use std::sync::Arc;

use haft_contract::BoxFuture;
use tokio::sync::OwnedSemaphorePermit;

use super::{
    Server,
    connection::{PostgresConnection, Use},
    failure::unreachable,
};
use crate::{
    connection_pool::ConnectionPool,
    store::{Connection, Row, Scope, StoreError, TextSearch, Value},
};

/// One connection that reads, given back when dropped.
pub(super) struct ReadingConnection {
    connection: Option<PostgresConnection>,
    pool: Arc<ConnectionPool<PostgresConnection>>,
    _place: OwnedSemaphorePermit,
}

/// Waits for a connection.
pub(super) async fn reader(
    server: &Server,
    pool: &Arc<ConnectionPool<PostgresConnection>>,
    scope: Scope<'_>,
) -> Result<ReadingConnection, StoreError> {
    let (place, mut idle) = pool.take().await?;
    // The server may have ended it meanwhile, or the runtime that drove it.
    while idle.as_ref().is_some_and(PostgresConnection::is_closed) {
        idle = pool.take_idle();
    }
    let mut connection = match idle {
        Some(connection) => connection,
        None => server.connect(Use::Reading).await?,
    };
    connection.set_scope(scope);
    Ok(ReadingConnection {
        connection: Some(connection),
        pool: Arc::clone(pool),
        _place: place,
    })
}

impl ReadingConnection {
    fn connection(&mut self) -> Result<&mut PostgresConnection, StoreError> {
        self.connection
            .as_mut()
            .ok_or_else(|| unreachable("a read was given up"))
    }
}

impl Drop for ReadingConnection {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take()
            && connection.is_reusable()
        {
            self.pool.give_back(connection);
        }
    }
}

impl Connection for ReadingConnection {
    fn query<'a>(
        &'a mut self,
        statement: &'a str,
        values: &'a [Value<'a>],
    ) -> BoxFuture<'a, Result<Vec<Row>, StoreError>> {
        Box::pin(async move { self.connection()?.query(statement, values).await })
    }

    fn begin(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move { self.connection()?.begin().await })
    }

    fn commit(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move { self.connection()?.commit().await })
    }

    fn rollback(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move { self.connection()?.rollback().await })
    }

    fn act_for<'a>(&'a mut self, scope: Scope<'a>) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move { self.connection()?.act_for(scope).await })
    }

    fn settled_position(&mut self) -> BoxFuture<'_, Result<i64, StoreError>> {
        Box::pin(async move { self.connection()?.settled_position().await })
    }

    fn find_text<'a>(
        &'a mut self,
        search: &'a TextSearch<'a>,
    ) -> BoxFuture<'a, Result<Vec<i64>, StoreError>> {
        Box::pin(async move { self.connection()?.find_text(search).await })
    }
}
