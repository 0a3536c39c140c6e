//! Carries the record of a data directory to another database, or back into the file there.

use std::io::{self, Read as _};

use haft_ledger::{Migrated, MigrationStep, TransferError};

use crate::{
    Record, RecordOptions,
    config::ConfigPlaces,
    error::{HostError, HostErrorKind, chain},
};

/// The word for the file in the data directory.
const FILE: &str = "file";

/// The word for an address that is read from standard input, where nobody else sees its password.
const STANDARD_INPUT: &str = "-";

/// The longest address of a database.
const MAX_ADDRESS_BYTES: u64 = 16 * 1024;

/// Where a record is carried.
#[derive(Clone, PartialEq, Eq)]
pub struct MigrationTarget {
    database: Option<String>,
}

impl MigrationTarget {
    /// Reads a word of the command line: an address, `file`, or `-` for an address from standard input.
    pub fn read(word: &str) -> Result<Self, HostError> {
        let database = match word {
            FILE => None,
            STANDARD_INPUT => {
                let mut text = String::new();
                let read = io::stdin()
                    .take(MAX_ADDRESS_BYTES)
                    .read_to_string(&mut text);
                read.map_err(|error| {
                    let message = format!("the address cannot be read: {error}");
                    HostError::new(
                        HostErrorKind::Invalid,
                        message,
                        "write it to standard input",
                    )
                })?;
                Some(text.trim().to_owned())
            }
            address => Some(address.to_owned()),
        };
        Ok(Self { database })
    }

    /// What to do next, for people.
    pub fn next_step(&self) -> &'static str {
        match self.database {
            Some(_) => {
                "to use it from now on, run `export HAFT_DATABASE=…` with the address it was carried to; the old record stays as it is"
            }
            None => {
                "to use it from now on, run `unset HAFT_DATABASE`; the record in the database stays as it is"
            }
        }
    }
}

/// Tells how far it is: what is being done, what was reached, and where that ends.
type Progress<'a> = &'a (dyn Fn(MigrationStep, u64, u64) + Send + Sync);

/// Carries the whole record, and checks what arrived.
pub async fn migrate(
    places: &ConfigPlaces,
    target: &MigrationTarget,
    progress: Progress<'_>,
) -> Result<Migrated, HostError> {
    let from = Record::open_to_look(places).await?;
    let migrated = carry(&from, places, target, progress).await;
    let closed = from.close().await;
    let migrated = migrated?;
    closed.map_err(|error| failed(&error.into()))?;
    Ok(migrated)
}

async fn carry(
    from: &Record,
    places: &ConfigPlaces,
    target: &MigrationTarget,
    progress: Progress<'_>,
) -> Result<Migrated, HostError> {
    let options = RecordOptions::new(&places.data_dir, places.tenant.clone());
    let to = Record::open(options.database(target.database.clone())).await?;
    let migrated = from.ledger.migrate_to(&to.ledger, progress).await;
    let closed = to.close().await;
    let migrated = migrated.map_err(|error| failed(&error))?;
    closed.map_err(|error| failed(&error.into()))?;
    Ok(migrated)
}

fn failed(error: &TransferError) -> HostError {
    HostError::new(HostErrorKind::Record, chain(error), error.hint())
}
