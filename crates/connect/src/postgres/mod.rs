//! PostgreSQL. A connection per statement: what a statement leaves behind in a session ends with it,
//! which is more than `DISCARD ALL` clears.
//!
//! A query runs as a cursor, so the server's own grammar says once more that it is a query, and rows
//! arrive as they are found. Read next: `session.rs` for what every connection begins with,
//! `backend.rs` for how a statement is ended and seen to have ended.

mod backend;
mod called_names;
mod capped;
mod estimate;
mod failure;
mod keep_rows;
mod other_changes;
mod own_tables;
mod plain;
mod put_back;
mod role;
mod row_table;
mod row_values;
mod run;
mod schema;
mod session;
mod tls;
mod value;

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use haft_contract::secret::{ReadSecret, SecretReference};
use tokio_postgres::config::{Config, Host, SslMode};

use self::{capped::TooLarge, tls::VerifiedTls};
use crate::settings::PostgresSettings;

/// A PostgreSQL server and how to log in.
pub(crate) struct PostgresSource {
    config: Config,
    /// Encrypts; none only for a server on this machine.
    tls: Option<VerifiedTls>,
    password: Option<SecretReference>,
    secrets: Arc<dyn ReadSecret>,
    schema: String,
    /// Tables whose rows triggers and cascades may change.
    also_changes: BTreeSet<String>,
    /// Counts connections that ended because a message of the server was too large.
    too_large: TooLarge,
}

impl PostgresSource {
    pub(crate) fn new(
        settings: &PostgresSettings,
        secrets: &Arc<dyn ReadSecret>,
    ) -> Result<Self, String> {
        // The parser's own message may repeat the address, and with it a password.
        let parsed: Result<Config, _> = settings.address.parse();
        let mut config = parsed.map_err(|_| {
            "has an address that is not understood; write \"postgres://role@host/database\""
                .to_owned()
        })?;
        if config.get_password().is_some() {
            return Err(
                "has a password in its address; write `password = \"env:NAME\"`".to_owned(),
            );
        }
        if config.get_user().is_none() || config.get_dbname().is_none() {
            return Err("has an address without a role or a database".to_owned());
        }
        if config.get_options().is_some() || !config.get_hostaddrs().is_empty() {
            return Err("has an address with options, which are not taken".to_owned());
        }
        let local = config.get_hosts().iter().all(is_local);
        let sockets = config.get_hosts().iter().all(is_socket);
        if !settings.encrypted && !local {
            return Err("is on another machine, so it must be encrypted".to_owned());
        }
        let encrypted = settings.encrypted && !sockets;
        let too_large = TooLarge::default();
        let tls = if encrypted {
            config.ssl_mode(SslMode::Require);
            Some(VerifiedTls::new(
                settings.ca_file.as_deref(),
                too_large.clone(),
            )?)
        } else {
            config.ssl_mode(SslMode::Disable);
            None
        };
        config.application_name("haft");
        Ok(Self {
            config,
            tls,
            password: settings.password.clone(),
            secrets: Arc::clone(secrets),
            schema: settings.schema.clone(),
            also_changes: settings.also_changes.clone(),
            too_large,
        })
    }
}

fn is_socket(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(_) => false,
    }
}

fn is_local(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
        }
    }
}
