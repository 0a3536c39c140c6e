//! The record in a PostgreSQL database that many processes write, each with one connection.
//!
//! `address.rs` and `tls.rs` say where it is and encrypt what goes there, `connection.rs` runs statements and says for whom, `readers.rs` keeps the connections that read,
//! `migrate.rs` is the schema, `text.rs` full text, `sql.rs` and `value.rs` how statements and values are
//! written. Row-level security hides every tenant but the ones a transaction acts for.

mod address;
mod connection;
mod failure;
mod migrate;
mod readers;
mod sql;
mod text;
mod tls;
mod value;

use std::{sync::Arc, time::Duration};

use haft_contract::BoxFuture;
use tokio_postgres::{
    Client, Config, NoTls, Socket,
    tls::{MakeTlsConnect, TlsConnect},
};

use self::{
    address::DatabaseAddress,
    connection::{PostgresConnection, Use},
    failure::failed,
    tls::VerifiedTls,
};
use crate::{
    connection_pool::ConnectionPool,
    open_error::OpenError,
    store::{Connection, Scope, Store, StoreError},
};

/// How long connecting may take.
const CONNECT_WAIT: Duration = Duration::from_secs(10);

/// What every connection is set to: statements and waits that end, and a transaction that nobody finishes
/// ends too. Commits wait for the disk whatever the server's default.
const SETTINGS: &str = "-c search_path=haft,pg_temp -c statement_timeout=30s -c lock_timeout=20s \
    -c idle_in_transaction_session_timeout=60s -c synchronous_commit=on \
    -c application_name=haft -c client_min_messages=warning";

/// A record's database.
pub(crate) struct PostgresStore {
    server: Server,
    pool: Arc<ConnectionPool<PostgresConnection>>,
}

/// The password in an address, wherever it is written there.
pub(crate) fn password(url: &str) -> Option<String> {
    let address = DatabaseAddress::parse(url)?;
    let password = std::str::from_utf8(address.config.get_password()?).ok()?;
    Some(password.to_owned())
}

/// Where the database is, as whom, and what encrypts connections to it.
pub(super) struct Server {
    config: Config,
    tls: Option<VerifiedTls>,
}

impl PostgresStore {
    /// Reads where the database is, as `postgres://user@host/database`.
    pub(crate) fn at(url: &str) -> Result<Self, OpenError> {
        let mut address = DatabaseAddress::parse(url).ok_or(OpenError::UnknownDatabase)?;
        let tls = address.encryption()?;
        let tls = tls.as_ref().map(VerifiedTls::new).transpose()?;
        let mut config = address.config;
        let settings = match config.get_options() {
            Some(own) => format!("{SETTINGS} {own}"),
            None => SETTINGS.to_owned(),
        };
        config.options(settings).connect_timeout(CONNECT_WAIT);
        Ok(Self {
            server: Server { config, tls },
            pool: Arc::new(ConnectionPool::new()),
        })
    }
}

impl Server {
    /// A new connection, driven by a task of its own until it is dropped.
    async fn connect(&self, purpose: Use) -> Result<PostgresConnection, StoreError> {
        let client = match &self.tls {
            Some(tls) => self.connect_with(tls.clone()).await?,
            None => self.connect_with(NoTls).await?,
        };
        Ok(PostgresConnection::new(client, purpose))
    }

    async fn connect_with<T>(&self, tls: T) -> Result<Client, StoreError>
    where
        T: MakeTlsConnect<Socket> + Send,
        T::Stream: Send + 'static,
        T::TlsConnect: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let connecting = tokio::time::timeout(CONNECT_WAIT, self.config.connect(tls));
        let (client, driver) = match connecting.await {
            Ok(connected) => connected.map_err(|error| failed(&error))?,
            Err(_) => return Err(failure::unreachable("the database does not answer")),
        };
        tokio::spawn(async move {
            if let Err(error) = driver.await {
                tracing::debug!(%error, "a connection to PostgreSQL ended");
            }
        });
        Ok(client)
    }
}

impl Store for PostgresStore {
    fn open(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, OpenError>> {
        Box::pin(async move {
            let mut connection = self.server.connect(Use::Writing).await?;
            migrate::migrate(&mut connection).await?;
            Ok(Box::new(connection) as Box<dyn Connection>)
        })
    }

    fn writer(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, StoreError>> {
        Box::pin(async move {
            let connection = self.server.connect(Use::Writing).await?;
            Ok(Box::new(connection) as Box<dyn Connection>)
        })
    }

    fn reader<'a>(
        &'a self,
        scope: Scope<'a>,
    ) -> BoxFuture<'a, Result<Box<dyn Connection>, StoreError>> {
        Box::pin(async move {
            let reader = readers::reader(&self.server, &self.pool, scope).await?;
            Ok(Box::new(reader) as Box<dyn Connection>)
        })
    }

    fn is_for_many_machines(&self) -> bool {
        true
    }

    fn close(&self) {
        self.pool.close();
    }
}

#[cfg(test)]
mod tests {
    use haft_testkit::postgres_server::PostgresServer;

    use super::*;

    /// What the server itself says is in force, and still is once a connection did what has other limits.
    #[tokio::test]
    #[ignore = "ci: needs PostgreSQL"]
    async fn every_connection_has_limits() {
        let server = PostgresServer::start();
        let store = PostgresStore::at(&server.url("haft_owner")).unwrap();
        let mut opened = store.open().await.unwrap();
        opened.daily_upkeep().await.unwrap();
        let scope = Scope::Tenants(&["local"]);
        let writer = store.writer().await.unwrap();
        let reader = store.reader(scope).await.unwrap();
        for mut connection in [opened, writer, reader] {
            for (setting, limit) in [
                ("statement_timeout", "30s"),
                ("lock_timeout", "20s"),
                ("idle_in_transaction_session_timeout", "1min"),
            ] {
                let show = format!("SHOW {setting}");
                let shown: Option<String> = connection.scalar(&show, &[]).await.unwrap();
                assert_eq!(shown.as_deref(), Some(limit), "{setting}");
            }
        }
    }
}
