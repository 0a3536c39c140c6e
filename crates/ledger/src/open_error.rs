//! Why a record cannot be opened.

use std::{io, path::PathBuf};

use haft_contract::surface::NextStep;

use crate::{directory::DirectoryError, store::StoreError};

/// Why the record cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The directory is unsuitable.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The record was written by a newer Haft.
    #[error(
        "the record has schema {found}, this version knows {known}; use the newer haft, or another directory"
    )]
    NewerSchema {
        /// The schema of the record.
        found: i64,
        /// The newest schema this version knows.
        known: i64,
    },
    /// The record is from before the first release, in a form that is not read any more.
    #[error(
        "the record was written by a haft from before its first release, in a form that this version does not read; move its directory away, and Haft begins a new record"
    )]
    OlderForm,
    /// The database's role passes by row-level security, which keeps tenants apart.
    #[error(
        "the database role `{0}` is a superuser or bypasses row-level security, so nothing would keep tenants apart; use a member of `haft_service` that is neither"
    )]
    PrivilegedRole(String),
    /// The record was begun with another signing key.
    #[error(
        "the record was begun with another signing key; put the `checkpoint.key` of the machine that \
         began it into this record's directory"
    )]
    OtherKey,
    /// The database has no schema yet, and this role may not make it.
    #[error(
        "the record's schema cannot be made; let a role that may create schemas and roles open the \
         record once"
    )]
    NoSchema(#[source] StoreError),
    /// The address of a database that nothing here speaks to.
    #[error(
        "the address of the record's database is not valid; write it as `postgres://user@host/database`"
    )]
    UnknownDatabase,
    /// The record and secrets in requests would cross a network unencrypted.
    #[error(
        "the record's database is on another machine, and `sslmode=disable` would send the record and the secrets in requests there unencrypted; leave `sslmode` out, or use a socket or loopback"
    )]
    NotEncrypted,
    /// There is nothing to verify a database's certificate with.
    #[error(
        "the certificates to verify the record's database with cannot be read from {}: {reason}",
        path.as_ref().map_or("the system".into(), |path| path.to_string_lossy())
    )]
    Certificates {
        /// The file that the address names; the system's own certificates if absent.
        path: Option<PathBuf>,
        /// What is wrong with it.
        reason: String,
    },
    /// This program was built without PostgreSQL.
    #[error("this haft was built without PostgreSQL (the feature `postgres` of its crates)")]
    NotBuiltIn,
    /// The address of an artifact storage that nothing here speaks to.
    #[error("the address of the artifact storage is not valid; write it as `s3://bucket/prefix`")]
    UnknownArtifacts,
    /// Artifacts would cross a network unencrypted.
    #[error(
        "the endpoint of the artifact storage does not begin with `https://`; without encryption only \
         loopback is accepted"
    )]
    ArtifactsNotEncrypted,
    /// The settings of the artifact storage do not fit together.
    #[error("the artifact storage cannot be used: {0}")]
    Artifacts(String),
    /// This program was built without object storage.
    #[error(
        "this haft was built without object storage (the feature `object-storage` of its crates)"
    )]
    NoObjectStorage,
    /// Somebody else changed the end of the record.
    #[error(
        "the end of the record is not signed by this ledger; {}",
        NextStep::VerifyRecord.words()
    )]
    Tampered,
    /// Another process is opening the record and has not finished.
    #[error("another process has been opening the record for too long")]
    Busy,
    /// The database cannot be read or written.
    #[error("the database cannot be read or written")]
    Database(#[from] StoreError),
    /// The writer's thread could not be started.
    #[error("the writer of the record could not be started")]
    Thread(#[source] io::Error),
}

impl OpenError {
    /// Whether the settings of the artifact storage are the cause, and not the record itself.
    pub fn is_about_artifacts(&self) -> bool {
        matches!(
            self,
            Self::UnknownArtifacts
                | Self::ArtifactsNotEncrypted
                | Self::Artifacts(_)
                | Self::NoObjectStorage
        )
    }
}
