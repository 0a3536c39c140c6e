//! What every connection begins with: settings of the session that a statement relies on, and a role
//! that is not too powerful for any fence.

use std::time::Duration;

use haft_contract::{ErrorKind, ops::OpsError};
use tokio_postgres::Client;

use super::{
    PostgresSource,
    backend::Backend,
    failure::{failed, unreachable},
    plain, role,
};
use crate::{halt::Halt, role_password::role_password};

/// The most time one connection may take to make.
const CONNECT_WAIT: Duration = Duration::from_secs(10);

/// How much longer than the statement itself its transaction may stand idle.
const IDLE_GRACE: Duration = Duration::from_secs(5);

/// What the transaction of a statement may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransactionUse {
    /// It reads, and is rolled back.
    Reads,
    /// It changes data, and is committed if it changed what was expected.
    Writes,
}

impl PostgresSource {
    /// A connection without anything begun on it.
    pub(super) async fn connect(&self) -> Result<Client, OpsError> {
        let mut config = self.config.clone();
        config.connect_timeout(CONNECT_WAIT);
        let password = role_password(self.password.as_ref(), self.secrets.as_ref()).await?;
        if let Some(secret) = password {
            config.password(secret.reveal());
        }
        if let Some(tls) = &self.tls {
            let connected = config.connect(tls.clone()).await;
            let (client, connection) = connected.map_err(|error| unreachable(&error))?;
            tokio::spawn(async move { drop(connection.await) });
            Ok(client)
        } else {
            let (client, connection) = plain::connect(&config, &self.too_large).await?;
            tokio::spawn(async move { drop(connection.await) });
            Ok(client)
        }
    }

    /// A connection in a transaction for one statement.
    pub(super) async fn begin(
        &self,
        purpose: TransactionUse,
        halt: &Halt,
    ) -> Result<Backend<'_>, OpsError> {
        let connected = tokio::select! {
            biased;
            connected = tokio::time::timeout(CONNECT_WAIT, self.connect()) => connected,
            stop = halt.reached() => return Err(stop),
        };
        let client = connected.map_err(|_| {
            OpsError::new(
                ErrorKind::Unavailable,
                "the database did not answer in time",
            )
        })??;
        let mut backend = Backend::new(self, client);
        let settings = self.settings(halt);
        let began = async {
            let client = backend.client()?;
            client
                .batch_execute(&settings)
                .await
                .map_err(|error| failed(&error))?;
            // Servers before version 14 do not know it; then a lost client is noticed later.
            drop(
                client
                    .batch_execute("SET client_connection_check_interval = 1000")
                    .await,
            );
            role::check(client).await?;
            let begin = match purpose {
                TransactionUse::Reads => "BEGIN READ ONLY",
                TransactionUse::Writes => "BEGIN READ WRITE",
            };
            client
                .batch_execute(begin)
                .await
                .map_err(|error| failed(&error))?;
            role::pid(client).await
        };
        let began = tokio::select! {
            biased;
            began = began => began,
            stop = halt.reached() => Err(stop),
        };
        match began {
            Ok(pid) => {
                backend.runs_as(pid);
                Ok(backend)
            }
            Err(error) => Err(error),
        }
    }

    /// What a statement relies on, whatever the role's own settings are.
    fn settings(&self, halt: &Halt) -> String {
        let within = halt.remaining().as_millis().max(1);
        let idle = within + IDLE_GRACE.as_millis();
        let schema = self.schema.replace('"', "\"\"");
        // What the server has itself comes first, what a session made for itself last. A cursor is read
        // to its end, so its plan should be the one for all rows.
        format!(
            "SET search_path = pg_catalog, \"{schema}\", pg_temp; SET statement_timeout = {within}; \
             SET lock_timeout = {within}; SET idle_in_transaction_session_timeout = {idle}; \
             SET standard_conforming_strings = on; SET backslash_quote = off; \
             SET cursor_tuple_fraction = 1; SET default_transaction_read_only = on; \
             SET DateStyle = 'ISO, MDY'; SET IntervalStyle = 'postgres'; SET bytea_output = 'hex'; \
             SET extra_float_digits = 1; SET transform_null_equals = off; SET row_security = on"
        )
    }
}
