//! SQLite. A connection per statement, opened read-only unless it changes data, with an authorizer
//! that SQLite asks about every table, column and function it compiles into a statement: what the
//! statement's text hid, SQLite names.
//!
//! SQLite works on a thread of its own, which is told when a statement must stop, is waited for, and
//! keeps the statement's place until it has ended.

mod authorizer;
mod connection;
mod keep_rows;
mod limits;
mod objects;
mod put_back;
mod row_table;
mod row_values;
mod run;
mod schema;
mod stop;
mod value;
mod with_names;

use std::path::PathBuf;

use haft_contract::{ErrorKind, ops::OpsError};

use self::connection::OpenedFor;
use crate::{
    halt::Halt, settings::SqliteSettings, source_finding::SourceFinding,
    statement_slot::StatementSlot,
};

/// An SQLite file.
pub(crate) struct SqliteSource {
    path: PathBuf,
}

impl SqliteSource {
    pub(crate) fn new(settings: &SqliteSettings) -> Result<Self, String> {
        // SQLite would take `file:…?mode=…` for an address with options.
        if !settings.path.is_absolute() {
            return Err("has a path that is not absolute".to_owned());
        }
        Ok(Self {
            path: settings.path.clone(),
        })
    }

    /// What is wrong with the source, for its operator.
    pub(crate) async fn check(
        &self,
        halt: &Halt,
        place: &StatementSlot,
    ) -> Result<Vec<SourceFinding>, OpsError> {
        // A connection begins with reading the schema.
        let opened = self.work(OpenedFor::SqlReading, (halt, place), |_| Ok(()));
        let opened = opened.await;
        Ok(match opened {
            Ok(()) => Vec::new(),
            Err(error) => vec![SourceFinding {
                refused: true,
                text: error.message().to_owned(),
            }],
        })
    }
}

/// What SQLite says, as an error for a model.
fn failed(error: &rusqlite::Error) -> OpsError {
    use rusqlite::ErrorCode;
    let kind = match error.sqlite_error_code() {
        Some(ErrorCode::AuthorizationForStatementDenied | ErrorCode::ReadOnly) => ErrorKind::Denied,
        Some(ErrorCode::OperationInterrupted) => ErrorKind::Cancelled,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => ErrorKind::Unavailable,
        Some(ErrorCode::CannotOpen | ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            ErrorKind::Unavailable
        }
        Some(ErrorCode::TooBig | ErrorCode::OutOfMemory) => ErrorKind::LimitExceeded,
        Some(_) | None => ErrorKind::InvalidInput,
    };
    // The path of the file is the operator's.
    let message = match error {
        rusqlite::Error::SqliteFailure(code, said) => {
            said.clone().unwrap_or_else(|| code.to_string())
        }
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        other => other.to_string(),
    };
    let message = match kind {
        ErrorKind::Unavailable => {
            tracing::warn!(%error, "an SQLite file cannot be used");
            "the database cannot be used now".to_owned()
        }
        _ => message.chars().take(300).collect(),
    };
    OpsError::new(kind, message)
}
