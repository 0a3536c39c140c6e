//! What every connection begins with: settings of the session that a statement relies on, seen to be
//! as they were set, and a role that is not too powerful for any fence.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use haft_contract::{
    ErrorKind,
    ops::OpsError,
    secret::{ReadSecret, SecretReference},
};
use mysql_async::{Conn, Opts, OptsBuilder, Row, prelude::Queryable as _};

use super::{
    MariaDbSource,
    backend::Backend,
    failure::{failed, unreachable},
    role,
};
use crate::{halt::Halt, role_password::role_password};

/// The most time one connection may take to make.
const CONNECT_WAIT: Duration = Duration::from_secs(10);

/// How much longer than the statement itself its connection may stand idle.
const IDLE_GRACE: Duration = Duration::from_secs(5);

/// How the server is to read and compute. Others of its modes change what quotes, backslashes and
/// spaces mean.
const SQL_MODES: [&str; 3] = [
    "ERROR_FOR_DIVISION_BY_ZERO",
    "NO_ENGINE_SUBSTITUTION",
    "STRICT_ALL_TABLES",
];

/// The only character set in which a statement is what was read, byte for byte.
const CHARACTERS: &str = "utf8mb4";

/// What shows that the settings are as they were set.
const SEEN: &str = "SELECT VERSION(), DATABASE(), CAST(CONNECTION_ID() AS CHAR), @@SESSION.sql_mode, \
    @@SESSION.character_set_client, @@SESSION.character_set_connection, @@SESSION.character_set_results";

/// How connections are made. What ends a statement needs it after its source's caller went away.
pub(super) struct Connector {
    /// Everything but the password.
    pub(super) options: Opts,
    pub(super) password: Option<SecretReference>,
    pub(super) secrets: Arc<dyn ReadSecret>,
    pub(super) database: String,
}

/// What the transaction of a statement may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransactionUse {
    /// It reads, and is rolled back.
    Reads,
    /// It changes data, and is committed if it changed what was expected. Of a change that is only
    /// explained, it is rolled back.
    Writes,
}

impl Connector {
    /// A connection without anything begun on it.
    pub(super) async fn connect(&self) -> Result<Conn, OpsError> {
        let mut options = OptsBuilder::from_opts(self.options.clone());
        let password = role_password(self.password.as_ref(), self.secrets.as_ref()).await?;
        if let Some(secret) = password {
            options = options.pass(Some(secret.reveal()));
        }
        let connected = tokio::time::timeout(CONNECT_WAIT, Conn::new(options)).await;
        let connected = connected.map_err(|_| {
            OpsError::new(
                ErrorKind::Unavailable,
                "the database did not answer in time",
            )
        })?;
        connected.map_err(|error| unreachable(&error))
    }
}

impl MariaDbSource {
    /// A connection in a transaction for one statement.
    pub(super) async fn begin(
        &self,
        purpose: TransactionUse,
        halt: &Halt,
    ) -> Result<Backend, OpsError> {
        let connected = tokio::select! {
            biased;
            connected = self.connector.connect() => connected,
            stop = halt.reached() => return Err(stop),
        };
        let mut backend = Backend::new(Arc::clone(&self.connector), connected?);
        let settings = settings(halt);
        let began = async {
            let conn = backend.conn()?;
            let run = async |conn: &mut Conn, statement: &str| {
                let run = conn.query_drop(statement).await;
                run.map_err(|error| failed(&error))
            };
            run(conn, &format!("SET NAMES {CHARACTERS}")).await?;
            run(conn, &settings).await?;
            let id = self.verify(conn).await?;
            role::check(conn).await?;
            match purpose {
                TransactionUse::Reads => {
                    run(conn, "SET SESSION TRANSACTION READ ONLY").await?;
                    run(conn, "START TRANSACTION READ ONLY").await?;
                }
                TransactionUse::Writes => {
                    run(conn, "SET SESSION TRANSACTION READ WRITE").await?;
                    // An error may end a transaction in the server. What runs behind it is not committed.
                    run(conn, "SET SESSION autocommit = 0").await?;
                    run(conn, "START TRANSACTION READ WRITE").await?;
                }
            }
            Ok(id)
        };
        let began = tokio::select! {
            biased;
            began = began => began,
            stop = halt.reached() => Err(stop),
        };
        match began {
            Ok(id) => {
                backend.runs_as(id);
                Ok(backend)
            }
            Err(error) => Err(error),
        }
    }

    /// Sees that the server took the settings, and returns its number for the connection.
    async fn verify(&self, conn: &mut Conn) -> Result<u64, OpsError> {
        let row: Option<Row> = conn
            .query_first(SEEN)
            .await
            .map_err(|error| failed(&error))?;
        let row = row.ok_or_else(|| odd("its settings"))?;
        let text = |column: usize| {
            row.get_opt::<Option<String>, _>(column)
                .and_then(Result::ok)
                .flatten()
                .unwrap_or_default()
        };
        if !text(0).contains("MariaDB") {
            return Err(OpsError::new(
                ErrorKind::Unavailable,
                "the server is not MariaDB; other servers of its protocol read statements differently, \
                 and none of them has been tried",
            ));
        }
        if text(1) != self.connector.database {
            return Err(odd("the database's name"));
        }
        let modes = text(3);
        let modes: BTreeSet<&str> = modes.split(',').collect();
        if modes != BTreeSet::from(SQL_MODES) {
            return Err(odd("`sql_mode`"));
        }
        if (4..7).any(|column| text(column) != CHARACTERS) {
            return Err(odd("the character set"));
        }
        text(2).parse().map_err(|_| odd("the connection's number"))
    }
}

/// Without what a statement relies on, none runs.
fn odd(what: &str) -> OpsError {
    OpsError::new(
        ErrorKind::Unavailable,
        format!(
            "the server has {what} set differently from what it was asked for, so no statement runs there"
        ),
    )
}

/// What a statement relies on, whatever the role's and the server's own settings are.
fn settings(halt: &Halt) -> String {
    let within = halt.remaining().max(Duration::from_millis(1));
    let (seconds, waits) = (within.as_secs_f64(), within.as_secs() + 1);
    let idle = waits + IDLE_GRACE.as_secs();
    let modes = SQL_MODES.join(",");
    format!(
        "SET SESSION sql_mode = '{modes}', max_statement_time = {seconds:.3}, \
         lock_wait_timeout = {waits}, innodb_lock_wait_timeout = {waits}, wait_timeout = {idle}, \
         idle_transaction_timeout = {idle}, net_write_timeout = {idle}, completion_type = 'NO_CHAIN', \
         sql_select_limit = DEFAULT, sql_auto_is_null = 0, system_versioning_asof = DEFAULT, \
         foreign_key_checks = 1, unique_checks = 1, check_constraint_checks = 1"
    )
}
