//! A few connections that read, opened when needed and used again.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::store::StoreError;

/// The most connections that read.
const READERS: usize = 4;

/// How long a read waits for a connection.
const READER_WAIT: Duration = Duration::from_secs(10);

/// Connections that nobody uses at the moment, and how many more may be opened.
pub(crate) struct ConnectionPool<C> {
    places: Arc<Semaphore>,
    idle: Mutex<Vec<C>>,
}

impl<C> ConnectionPool<C> {
    pub(crate) fn new() -> Self {
        Self {
            places: Arc::new(Semaphore::new(READERS)),
            idle: Mutex::new(Vec::new()),
        }
    }

    /// Waits until one more connection may be used; returns an idle one if there is any.
    pub(crate) async fn take(&self) -> Result<(OwnedSemaphorePermit, Option<C>), StoreError> {
        let place = Arc::clone(&self.places).acquire_owned();
        let place = tokio::time::timeout(READER_WAIT, place)
            .await
            .map_err(|_| StoreError::Unreachable("too many reads are under way".to_owned()))?
            .map_err(|_| StoreError::Unreachable("it is closed".to_owned()))?;
        Ok((place, self.idle().pop()))
    }

    /// Another idle connection, for who found the first unusable.
    #[cfg(feature = "postgres")]
    pub(crate) fn take_idle(&self) -> Option<C> {
        self.idle().pop()
    }

    /// Keeps a connection for the next who needs one.
    pub(crate) fn give_back(&self, connection: C) {
        if !self.places.is_closed() {
            self.idle().push(connection);
        }
    }

    /// Closes what is idle and opens nothing more.
    pub(crate) fn close(&self) {
        self.places.close();
        self.idle().clear();
    }

    fn idle(&self) -> MutexGuard<'_, Vec<C>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
