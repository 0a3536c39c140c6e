//! Which database a record is kept in: the one place that knows them all.

use std::sync::Arc;

use crate::{
    directory::{DirectoryError, PrivateDirectory},
    open_error::OpenError,
    options::LedgerOptions,
    sqlite::SqliteStore,
    store::Store,
};

pub(crate) use crate::sqlite::memory::MemoryDatabase;

/// The password in a database's address, which must never be stored.
pub(crate) fn password(options: &LedgerOptions) -> Option<String> {
    let database = options.database.as_ref()?;
    #[cfg(feature = "postgres")]
    return crate::postgres::password(database);
    #[cfg(not(feature = "postgres"))]
    {
        let _ = database;
        None
    }
}

/// The private directory of a record, or what takes its place in memory.
pub(crate) fn open_directory(options: &LedgerOptions) -> Result<PrivateDirectory, DirectoryError> {
    match &options.memory {
        Some(memory) => Ok(PrivateDirectory::in_memory(memory.files())),
        None => PrivateDirectory::open(&options.directory),
    }
}

/// Where the names of a record's writers and its marks are: with its file, or apart for each database.
pub(crate) fn names_directory(
    options: &LedgerOptions,
    directory: &Arc<PrivateDirectory>,
) -> Result<Arc<PrivateDirectory>, DirectoryError> {
    let place = match (&options.store, &options.database) {
        (Some(own), _) => format!("store:{}", own.name()),
        (None, Some(database)) => place(database),
        (None, None) => return Ok(Arc::clone(directory)),
    };
    let name = blake3::hash(place.as_bytes()).to_hex();
    let name = format!("on-{}", name.get(..16).unwrap_or_default());
    Ok(Arc::new(directory.subdirectory(&name)?))
}

/// What of an address says which database it is: not the role, which may change, nor its password, nor how
/// connections are made.
fn place(database: &str) -> String {
    let address = database.split_once('@').map_or(database, |(_, at)| at);
    let (place, query) = address.split_once('?').unwrap_or((address, ""));
    let mut place = place.to_owned();
    for parameter in query.split('&') {
        if let Some(("host" | "hostaddr" | "port" | "dbname", _)) = parameter.split_once('=') {
            place.push(if place.contains('?') { '&' } else { '?' });
            place.push_str(parameter);
        }
    }
    place
}

/// The database the options name; a file in the record's directory if they name none.
pub(crate) fn open_store(
    options: &LedgerOptions,
    directory: &PrivateDirectory,
) -> Result<Arc<dyn Store>, OpenError> {
    if let Some(own) = &options.store {
        return Ok(Arc::clone(&own.store));
    }
    let Some(database) = &options.database else {
        return Ok(match &options.memory {
            Some(memory) => Arc::new(memory.memory_database().store()?),
            None => Arc::new(SqliteStore::prepare(directory)?),
        });
    };
    let is_postgres = ["postgres://", "postgresql://"]
        .iter()
        .any(|scheme| database.starts_with(scheme));
    #[cfg(feature = "postgres")]
    if is_postgres {
        return Ok(Arc::new(crate::postgres::PostgresStore::at(database)?));
    }
    if is_postgres {
        return Err(OpenError::NotBuiltIn);
    }
    Err(OpenError::UnknownDatabase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_the_same_however_it_is_connected_to() {
        for (database, expect) in [
            ("postgres://app@db/haft", "db/haft"),
            ("postgres://owner:a%40b@db/haft", "db/haft"),
            (
                "postgres://app@db/haft?sslmode=require&sslrootcert=/ca.pem",
                "db/haft",
            ),
            ("postgres://app@db/haft?password=a@b", "db/haft"),
            (
                "postgres://app@db/haft?port=1&sslmode=require",
                "db/haft?port=1",
            ),
            (
                "postgres://app@/haft?host=a&connect_timeout=1&port=2",
                "/haft?host=a&port=2",
            ),
            ("postgres://db/haft", "postgres://db/haft"),
        ] {
            assert_eq!(place(database), expect, "{database}");
        }
    }
}
