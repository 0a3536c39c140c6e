//! Why a record was not exported or imported.

use std::io;

use haft_contract::host::LedgerError;

/// Why a record was not exported or imported. Nothing was written into a record then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The ledger could not be used.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The export could not be read.
    #[error("the export cannot be read")]
    Read(#[source] io::Error),
    /// The export could not be written.
    #[error("the export cannot be written")]
    Write(#[source] io::Error),
    /// A line is not one of an export.
    #[error("line {line} of the export: {reason}")]
    Line {
        /// Which line, from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// A row is not as it was written.
    #[error("record {position} fails verification: {reason}")]
    Broken {
        /// Where the row was in the record that was exported.
        position: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The export is not as it was written.
    #[error("the export fails verification: {0}")]
    Altered(&'static str),
    /// Its signatures are of another key than the one that was given, or of one that was not given.
    #[error("the export was not signed with this key")]
    OtherKey,
    /// It is the record of another tenant.
    #[error("the export is of tenant `{0}`")]
    OtherTenant(String),
    /// The record has some of it already.
    #[error("{0}")]
    Conflict(String),
    /// Somebody uses the record that is to be carried elsewhere.
    #[error("the record is in use: {0}")]
    InUse(String),
    /// Calls of the record that is to be carried elsewhere have not ended.
    #[error("calls of the record are still running: {0}")]
    StillRunning(String),
    /// The record is to be carried to where it is.
    #[error("the record is in this database already")]
    SameRecord,
    /// The two records are signed with different keys.
    #[error("the two records are signed with different keys")]
    DifferentKeys,
    /// The record it is to be carried to has something else.
    #[error("the database has a record already, and it is another one: {0}")]
    NotEmpty(String),
    /// What arrived is not what was there.
    #[error("what was carried is not what the record has: {0}")]
    Differs(String),
    /// A standing approval, a question or an accepted call is not as it was written.
    #[error("{0} of the record fails verification: it is not signed with the record's key")]
    Unsigned(&'static str),
}

impl TransferError {
    /// What to do next, for people.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Ledger(_) => "`haft doctor` checks the record",
            Self::Read(_) => "name a file that `haft log export` wrote",
            Self::Write(_) => "name a file that is not there yet, where there is room",
            Self::Line { .. } => {
                "it is not a complete export of this version, or it was changed; export it again"
            }
            Self::Broken { .. } => {
                "nothing was written; `haft log verify` checks the record where it was made"
            }
            Self::Altered(_) => "nothing was imported; export it again where it was made",
            Self::OtherKey => {
                "name the key of the record it was made from (`record/checkpoint.key` in its data \
                 directory) with `--key`, or take it unsigned with `--without-key`"
            }
            Self::OtherTenant(_) => "an export is imported for the tenant it was made of",
            Self::Conflict(_) => "nothing was imported; import into a record that has none of it",
            Self::InUse(_) | Self::StillRunning(_) => {
                "nothing was carried; end what uses it, and run this again"
            }
            Self::SameRecord => "name another database",
            Self::DifferentKeys => {
                "put the `checkpoint.key` of the record into the directory of the other one, which must \
                 be empty"
            }
            Self::NotEmpty(_) => "nothing was changed; name an empty database",
            Self::Differs(_) => {
                "go on using the record where it was; empty the database and run this again"
            }
            Self::Unsigned(_) => {
                "nothing was carried; `haft log verify` names it, find out who wrote to the record"
            }
        }
    }
}
