//! The record in the data directory. Opening it settles what an earlier run left open; closing it
//! removes what need not be kept any longer.

use std::{path::PathBuf, sync::Arc};

use haft_contract::host::{Clock as _, LedgerError};
use haft_ledger::{LedgerOptions, Recovery, Retention, SqliteLedger, options::MAX_QUEUED_BYTES};
use haft_runtime::SystemClock;

use crate::{
    config::{ConfigPlaces, Settings},
    error::{HostError, HostErrorKind, chain},
    orphans,
};

/// The record's directory in the data directory.
const DIRECTORY: &str = "record";

/// How the record is opened and what is removed when it is closed.
#[derive(Debug)]
pub struct RecordOptions {
    data_dir: PathBuf,
    max_queued_bytes: usize,
    secrets: Vec<String>,
    retention: Option<Retention>,
}

impl RecordOptions {
    /// The record in a data directory, for a command that runs no calls of its own.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            max_queued_bytes: MAX_QUEUED_BYTES,
            secrets: Vec::new(),
            retention: None,
        }
    }

    /// The record for these settings.
    pub fn of(settings: &Settings) -> Self {
        Self {
            max_queued_bytes: settings.queue_bytes,
            retention: Some(settings.retention),
            ..Self::new(&settings.places.data_dir)
        }
    }

    /// Values that must never be stored.
    #[must_use]
    pub fn secrets(mut self, secrets: Vec<String>) -> Self {
        self.secrets = secrets;
        self
    }
}

/// The open record, and what was settled when it was opened.
#[derive(Debug)]
pub struct Record {
    /// The record.
    pub ledger: SqliteLedger,
    /// What was found open and settled.
    pub recovery: Recovery,
    retention: Option<Retention>,
}

impl Record {
    /// Opens the record and settles what an earlier run left open.
    pub async fn open(options: RecordOptions) -> Result<Self, HostError> {
        let shown = options.data_dir.display().to_string();
        let ledger_options = LedgerOptions {
            // How long artifacts are kept is in the settings, which may not be readable yet;
            // `close` handles it.
            retention: None,
            max_queued_bytes: options.max_queued_bytes,
            secrets: options.secrets,
            ..LedgerOptions::new(options.data_dir.join(DIRECTORY), Arc::new(SystemClock))
        };
        let opened = SqliteLedger::open(ledger_options).await;
        let (ledger, recovery) = opened.map_err(|error| {
            HostError::new(
                HostErrorKind::Record,
                format!(
                    "the record in `{shown}` cannot be opened: {}",
                    chain(&error)
                ),
                "check that the directory is yours and has room, or name another with `--data-dir`",
            )
        })?;
        orphans::withdraw(&ledger, &recovery).await;
        Ok(Self {
            ledger,
            recovery,
            retention: options.retention,
        })
    }

    /// Opens the record of a data directory, to look at its contents.
    pub async fn open_to_look(places: &ConfigPlaces) -> Result<Self, HostError> {
        Self::open(RecordOptions::new(&places.data_dir)).await
    }

    /// Whether anything has been recorded.
    pub fn exists(places: &ConfigPlaces) -> bool {
        places.data_dir.join(DIRECTORY).exists()
    }

    /// Removes what need not be kept any longer and closes the record.
    pub async fn close(&self) -> Result<(), LedgerError> {
        if let Some(retention) = self.retention {
            let artifacts = self.ledger.file_artifacts();
            artifacts.expire_daily(SystemClock.now(), retention).await;
        }
        self.ledger.close().await
    }
}
