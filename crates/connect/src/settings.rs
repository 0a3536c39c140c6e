//! What an operator says about a database. Credentials are references; their values are read when a
//! connection is made.

use std::{collections::BTreeSet, path::PathBuf};

use haft_contract::secret::SecretReference;

use crate::sql::SqlDialect;

/// How many statements run in a source at a time, unless configured otherwise.
pub const DEFAULT_CONNECTIONS: usize = 4;

/// One configured database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceSettings {
    /// The name that tools and rules use.
    pub name: String,
    /// Where it is.
    pub engine: EngineSettings,
    /// Whether statements that change data are taken.
    pub writable: bool,
    /// Columns that queries return masked and do nothing else with: `users.email`.
    pub masks: BTreeSet<String>,
    /// Functions besides the built-in ones that statements may call.
    pub functions: BTreeSet<String>,
    /// How many statements run at a time.
    pub connections: usize,
    /// The largest cost, in the database's own unit, of a statement that is run.
    pub max_cost: Option<u64>,
    /// The most rows the database may expect of a statement that is run.
    pub max_rows: Option<u64>,
}

/// Where a database is, by its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineSettings {
    /// A PostgreSQL server.
    Postgres(PostgresSettings),
    /// An SQLite file.
    Sqlite(SqliteSettings),
    /// A MariaDB server.
    MariaDb(MariaDbSettings),
}

/// A PostgreSQL server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresSettings {
    /// `postgres://role@host:port/database`, without a password.
    pub address: String,
    /// Where the role's password is kept.
    pub password: Option<SecretReference>,
    /// The schema of tables that are named without one.
    pub schema: String,
    /// The authorities whose certificates are believed, if not the system's.
    pub ca_file: Option<PathBuf>,
    /// Tables whose rows triggers, rules and cascades may change besides what a statement reports, as
    /// rules name them: `audit`, `sales.log`.
    pub also_changes: BTreeSet<String>,
    /// Whether the connection is encrypted; only a server on this machine may do without.
    pub encrypted: bool,
}

/// A MariaDB server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MariaDbSettings {
    /// `mariadb://role@host:port/database`, without a password. A server on this machine may be named
    /// by its socket: `?socket=/run/mysqld/mysqld.sock`.
    pub address: String,
    /// Where the role's password is kept.
    pub password: Option<SecretReference>,
    /// The authorities whose certificates are believed, if not the system's.
    pub ca_file: Option<PathBuf>,
    /// Whether the connection is encrypted; only a server on this machine may do without.
    pub encrypted: bool,
}

impl MariaDbSettings {
    /// The database of the address, which is also the schema of tables that are named without one.
    pub fn database(&self) -> &str {
        let place = self.address.split('?').next().unwrap_or_default();
        let behind_the_scheme = place.split_once("://").map_or(place, |(_, rest)| rest);
        let database = behind_the_scheme.split_once('/');
        database.map_or("", |(_, database)| database)
    }
}

/// An SQLite file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqliteSettings {
    /// The file, by its absolute path.
    pub path: PathBuf,
}

impl EngineSettings {
    /// What kind of database it is.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Postgres(_) => "postgres",
            Self::Sqlite(_) => "sqlite",
            Self::MariaDb(_) => "mariadb",
        }
    }

    pub(crate) fn dialect(&self) -> SqlDialect {
        match self {
            Self::Postgres(_) => SqlDialect::Postgres,
            Self::Sqlite(_) => SqlDialect::Sqlite,
            Self::MariaDb(_) => SqlDialect::MariaDb,
        }
    }

    pub(crate) fn schema(&self) -> &str {
        match self {
            Self::Postgres(postgres) => &postgres.schema,
            Self::Sqlite(_) => "main",
            Self::MariaDb(mariadb) => mariadb.database(),
        }
    }
}

impl SourceSettings {
    /// Whether a text can be the name of a source: rules put a dot and what of it after the name.
    pub fn is_a_name(text: &str) -> bool {
        let plain =
            |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
        (1..=64).contains(&text.len())
            && text.starts_with(|c: char| c.is_ascii_lowercase())
            && text.chars().all(plain)
    }
}
