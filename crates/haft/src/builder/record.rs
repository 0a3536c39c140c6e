//! What a builder says of the record: where it is kept, and what must never be in it.

use std::path::{Path, PathBuf};

use haft_host::{HostError, platform_data_dir};
use haft_ledger::store::NamedStore;

use super::HaftBuilder;

impl<W> HaftBuilder<W> {
    /// Where the record goes. The default is [`platform_data_dir`].
    ///
    /// ```
    /// # use haft::prelude::*;
    /// let builder = Haft::open("work").data_dir("/var/lib/my-agent");
    /// ```
    pub fn data_dir(mut self, directory: impl AsRef<Path>) -> Self {
        self.data_dir = Some(directory.as_ref().to_owned());
        self
    }

    /// Keeps the record in memory, whole and in the same form, until the process ends. Nothing is then
    /// written outside workspaces, unless a data directory is named as well, which mounted servers
    /// need for what was accepted of them.
    ///
    /// ```
    /// # use haft::prelude::*;
    /// # async fn open() -> Result<(), Box<dyn std::error::Error>> {
    /// let haft = Haft::open(".").in_memory().build().await?;
    /// # Ok(()) }
    /// ```
    pub fn in_memory(mut self) -> Self {
        self.in_memory = true;
        self
    }

    /// Keeps the record in a database, as `postgres://user@host/database`, instead of a file in the data
    /// directory; what signs the record stays there. Needs the feature `postgres`.
    ///
    /// ```
    /// # use haft::prelude::*;
    /// let builder = Haft::open("work").database("postgres://agent@db.internal/haft");
    /// ```
    pub fn database(mut self, url: impl Into<String>) -> Self {
        self.database = Some(url.into());
        self
    }

    /// Keeps the record in a database that your program brings, through the traits of [`store`](crate::store);
    /// what signs the record, and artifacts, stay in the data directory.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use haft::prelude::*;
    /// use haft::{HaftBuilder, store::{NamedStore, Store}};
    ///
    /// fn builder(ours: Arc<dyn Store>) -> HaftBuilder {
    ///     Haft::open("work").store(NamedStore::new("our database", ours))
    /// }
    /// ```
    pub fn store(mut self, store: NamedStore) -> Self {
        self.store = Some(store);
        self
    }

    /// A value that must never be stored in the record.
    ///
    /// ```
    /// # use haft::prelude::*;
    /// let key = "sk-0123456789abcdef";
    /// let builder = Haft::open("work").secret(key);
    /// ```
    pub fn secret(mut self, value: impl Into<String>) -> Self {
        self.secrets.push(value.into());
        self
    }

    /// Where the record and what belongs to mounted servers go; nowhere if all of it is in memory.
    pub(super) fn checked_data_dir(&self) -> Result<Option<PathBuf>, HostError> {
        let kept = [
            self.in_memory,
            self.database.is_some(),
            self.store.is_some(),
        ];
        if kept.into_iter().filter(|named| *named).count() > 1 {
            return Err(HostError::config(
                "the record can only be kept in one place",
                "keep one of `in_memory`, `database` and `store`",
            ));
        }
        let data_dir = match &self.data_dir {
            Some(directory) => directory.clone(),
            None if self.in_memory && self.servers.is_empty() => return Ok(None),
            None => platform_data_dir().ok_or_else(|| {
                HostError::config(
                    "there is no data directory",
                    "pass one with `data_dir`, or set `HOME`",
                )
            })?,
        };
        Ok(Some(data_dir))
    }
}
