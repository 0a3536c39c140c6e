//! The record on a real PostgreSQL server, which each test starts for itself.

mod encryption;
pub(crate) mod migration;
mod months;
mod processes;
mod rates;
mod statements;
mod suite;
mod tampering;
mod tenants;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_ledger::{LedgerOptions, Recovery, StoredLedger};
use haft_testkit::postgres_server::PostgresServer;

use crate::support::Fixed;

/// A server, and directories for the processes that use it.
pub(crate) struct PostgresFixture {
    pub(crate) server: Arc<PostgresServer>,
    database: String,
    folder: tempfile::TempDir,
}

impl PostgresFixture {
    /// A server whose database has the schema.
    pub(crate) async fn new() -> Self {
        let server = Arc::new(PostgresServer::start());
        Self::with_schema(server, "haft").await
    }

    /// Another empty record on the same server.
    pub(crate) async fn on_a_new_database(&self) -> Self {
        let database = self.server.new_database();
        Self::with_schema(Arc::clone(&self.server), &database).await
    }

    /// A record on the small disk of a server.
    pub(crate) async fn on_a_small_disk(server: PostgresServer) -> Self {
        let database = server.new_database_on("small");
        Self::with_schema(Arc::new(server), &database).await
    }

    /// The first database of a server, with nothing in it.
    pub(crate) fn without_schema(server: Arc<PostgresServer>) -> Self {
        Self::on(server, "haft")
    }

    /// Another one on the same server.
    pub(crate) fn without_schema_on_a_new_database(&self) -> Self {
        let database = self.server.new_database();
        Self::on(Arc::clone(&self.server), &database)
    }

    fn on(server: Arc<PostgresServer>, database: &str) -> Self {
        Self {
            server,
            database: database.to_owned(),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    async fn with_schema(server: Arc<PostgresServer>, database: &str) -> Self {
        let fixture = Self::on(server, database);
        let owner = fixture.options("haft_owner");
        StoredLedger::open(owner)
            .await
            .unwrap()
            .0
            .close()
            .await
            .unwrap();
        fixture
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.folder.path().join("record")
    }

    /// The directory of another machine that has the same key.
    pub(crate) fn other_machine(&self, name: &str) -> PathBuf {
        let directory = self.folder.path().join(name);
        if !directory.exists() {
            std::fs::create_dir(&directory).unwrap();
            let key = "checkpoint.key";
            std::fs::copy(self.directory().join(key), directory.join(key)).unwrap();
        }
        directory
    }

    pub(crate) fn database(&self) -> &str {
        &self.database
    }

    /// How many pages the server has read so far for this database, in memory or not. Connections report
    /// what they did when they end, so none may be open.
    pub(crate) async fn pages_read(&self) -> u64 {
        let open = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'app'";
        haft_testkit::eventually("connections end", || self.sql(open) == "0").await;
        let pages = "SELECT blks_hit + blks_read FROM pg_stat_database
            WHERE datname = current_database()";
        self.sql(pages).parse().unwrap()
    }

    /// The address of the record's database for the service.
    pub(crate) fn url(&self) -> String {
        self.server.url_of("app", &self.database)
    }

    /// Runs statements as the superuser in the record's database.
    pub(crate) fn sql(&self, statements: &str) -> String {
        self.server.sql_in(&self.database, statements)
    }

    /// Copies the database as a restored backup has it; returns the name of the copy.
    fn copy(&self) -> String {
        let copy = format!("{}_older", self.database);
        self.server.copy_database(&self.database, &copy);
        copy
    }

    /// Puts a copy in the place of the database.
    fn replace_with(&self, copy: &str) {
        let Self {
            server, database, ..
        } = self;
        server.rename_database(database, &format!("{database}_newer"));
        server.rename_database(copy, database);
    }

    pub(crate) fn options(&self, role: &str) -> LedgerOptions {
        self.options_at(&self.directory(), role)
    }

    pub(crate) fn options_at(&self, directory: &Path, role: &str) -> LedgerOptions {
        let url = self.server.url_of(role, &self.database);
        LedgerOptions::new(directory, Arc::new(Fixed)).database(url)
    }

    pub(crate) async fn open(&self) -> StoredLedger {
        StoredLedger::open(self.options("app")).await.unwrap().0
    }

    pub(crate) async fn open_at(&self, directory: &Path) -> (StoredLedger, Recovery) {
        let options = self.options_at(directory, "app");
        StoredLedger::open(options).await.unwrap()
    }
}
