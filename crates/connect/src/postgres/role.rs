//! What a role may do. One that may do too much is refused on every connection: `READ ONLY` does not
//! keep a superuser from running programs.

use haft_contract::{ErrorKind, ops::OpsError};
use tokio_postgres::Client;

use super::{PostgresSource, failure::failed, session::TransactionUse};
use crate::{halt::Halt, source_finding::SourceFinding};

/// What the role of a connection is, and which roles it can become.
const POWERS: &str = "SELECT
    bool_or(rolsuper), bool_or(rolbypassrls), bool_or(rolcreaterole), bool_or(rolcreatedb),
    bool_or(rolreplication),
    bool_or(rolname IN ('pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program')),
    bool_or(rolname = 'pg_signal_backend')
    FROM pg_catalog.pg_roles
    WHERE pg_catalog.pg_has_role(session_user, oid, 'MEMBER')";

/// Tables that the role owns, and may therefore change whatever is granted.
const OWNED: &str = "SELECT count(*) FROM pg_catalog.pg_class
    WHERE relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
    AND pg_catalog.pg_has_role(session_user, relowner, 'MEMBER')";

/// Tables that the role may change.
const CHANGEABLE: &str = "SELECT count(*) FROM pg_catalog.pg_class AS c
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    AND pg_catalog.has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')";

/// Powers of a role. The first of them let a statement out of every fence.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a column of the server's catalogue"
)]
struct Powers {
    superuser: bool,
    bypasses_rls: bool,
    makes_roles: bool,
    makes_databases: bool,
    replicates: bool,
    server_files: bool,
    signals: bool,
}

impl Powers {
    async fn of(client: &Client) -> Result<Self, OpsError> {
        let row = client.query_one(POWERS, &[]).await;
        let row = row.map_err(|error| failed(&error))?;
        let power = |column: usize| row.try_get::<_, Option<bool>>(column).ok().flatten();
        // What cannot be told counts as held.
        let power = |column| power(column).unwrap_or(true);
        Ok(Self {
            superuser: power(0),
            bypasses_rls: power(1),
            makes_roles: power(2),
            makes_databases: power(3),
            replicates: power(4),
            server_files: power(5),
            signals: power(6),
        })
    }

    /// Powers because of which no statement runs.
    fn too_much(&self) -> Vec<&'static str> {
        let powers = [
            (self.superuser, "is a superuser"),
            (self.server_files, "may read or write files of the server"),
            (self.bypasses_rls, "bypasses row security"),
            (self.makes_roles, "may make roles"),
            (self.replicates, "may replicate"),
            (self.signals, "may end other roles' sessions"),
        ];
        let held = powers.iter().filter(|(held, _)| *held);
        held.map(|(_, what)| *what).collect()
    }
}

/// Refuses a role that no fence holds.
pub(super) async fn check(client: &Client) -> Result<(), OpsError> {
    let powers = Powers::of(client).await?;
    match powers.too_much().first() {
        None => Ok(()),
        Some(what) => Err(OpsError::new(
            ErrorKind::Denied,
            format!(
                "the database's role {what}, so no statement runs with it; its operator can give \
                 Haft a role of its own"
            ),
        )),
    }
}

/// The server's process of this connection.
pub(super) async fn pid(client: &Client) -> Result<i32, OpsError> {
    let row = client
        .query_one("SELECT pg_catalog.pg_backend_pid()", &[])
        .await;
    let row = row.map_err(|error| failed(&error))?;
    row.try_get(0).map_err(|error| failed(&error))
}

impl PostgresSource {
    /// What is wrong with the source, for its operator.
    pub(crate) async fn check(&self, halt: &Halt) -> Result<Vec<SourceFinding>, OpsError> {
        let look = async {
            let client = self.connect().await?;
            let powers = Powers::of(&client).await?;
            let mut findings: Vec<SourceFinding> = Vec::new();
            let mut find = |refused: bool, text: String| {
                findings.push(SourceFinding { refused, text });
            };
            for what in powers.too_much() {
                find(
                    true,
                    format!("its role {what}: make a role of its own, `CREATE ROLE haft LOGIN`"),
                );
            }
            if powers.makes_databases {
                find(false, "its role may make databases".to_owned());
            }
            let owned = count(&client, OWNED).await?;
            if owned > 0 && !powers.superuser {
                find(
                    true,
                    format!(
                        "its role owns {owned} tables or views, and an owner may do everything with \
                         them: use a role that was granted what it needs"
                    ),
                );
            }
            let changeable = count(&client, CHANGEABLE).await?;
            if changeable > 0 && !powers.superuser {
                find(
                    false,
                    format!(
                        "its role may change {changeable} tables; the transaction alone keeps it from that"
                    ),
                );
            }
            Ok(findings)
        };
        tokio::select! {
            biased;
            found = look => found,
            stop = halt.reached() => Err(stop),
        }
    }

    /// What the transaction of a statement may do, from what the statement is.
    pub(super) fn purpose(writes: bool) -> TransactionUse {
        if writes {
            TransactionUse::Writes
        } else {
            TransactionUse::Reads
        }
    }
}

async fn count(client: &Client, statement: &str) -> Result<i64, OpsError> {
    let row = client.query_one(statement, &[]).await;
    let row = row.map_err(|error| failed(&error))?;
    row.try_get(0).map_err(|error| failed(&error))
}
