//! The record in the data directory. Opening it settles what an earlier run left open; closing it
//! removes what need not be kept any longer.

#[cfg(feature = "settings")]
mod of_settings;

use std::{path::PathBuf, sync::Arc};

use haft_contract::{
    TenantId,
    host::{Clock as _, Grant, Ledger as _, LedgerError, Policy, Question},
};
use haft_ledger::{
    LedgerOptions, MemoryRecord, ObjectStorage, Recovery, Retention, StoredLedger,
    options::MAX_QUEUED_BYTES, store::NamedStore,
};
use haft_runtime::{PolicyGrantFinder, SystemClock};

use crate::{
    error::{HostError, HostErrorKind, chain},
    orphans,
};

/// The record's directory in the data directory.
const DIRECTORY: &str = "record";

/// How the record is opened and what is removed when it is closed.
#[derive(Debug)]
pub struct RecordOptions {
    data_dir: PathBuf,
    memory: Option<MemoryRecord>,
    database: Option<String>,
    store: Option<NamedStore>,
    artifacts: Option<ObjectStorage>,
    max_queued_bytes: usize,
    secrets: Vec<String>,
    retention: Option<Retention>,
    tenant: TenantId,
}

impl RecordOptions {
    /// The record in a data directory, opened by a program that acts in this tenant and runs no
    /// calls of its own.
    pub fn new(data_dir: impl Into<PathBuf>, tenant: TenantId) -> Self {
        Self {
            data_dir: data_dir.into(),
            memory: None,
            database: None,
            store: None,
            artifacts: None,
            tenant,
            max_queued_bytes: MAX_QUEUED_BYTES,
            secrets: Vec::new(),
            retention: None,
        }
    }

    /// The tenant of whoever opens it.
    pub(crate) fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// Keeps the record in memory instead of the data directory.
    #[must_use]
    pub fn in_memory(mut self, record: Option<MemoryRecord>) -> Self {
        self.memory = record;
        self
    }

    /// Keeps the record in this database instead of a file in the data directory.
    #[must_use]
    pub fn database(mut self, url: Option<String>) -> Self {
        self.database = url;
        self
    }

    /// Keeps the record in a database of the program's own.
    #[must_use]
    pub fn store(mut self, store: Option<NamedStore>) -> Self {
        self.store = store;
        self
    }

    /// Keeps artifacts in this storage instead of files in the data directory.
    #[must_use]
    pub fn artifacts(mut self, storage: Option<ObjectStorage>) -> Self {
        self.artifacts = storage;
        self
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
    pub ledger: StoredLedger,
    /// What was found open and settled.
    pub recovery: Recovery,
    retention: Option<Retention>,
}

impl Record {
    /// Opens the record and settles what an earlier run left open.
    pub async fn open(options: RecordOptions) -> Result<Self, HostError> {
        let (kept_in, hint) = match (&options.memory, &options.store, &options.database) {
            (Some(_), _, _) => ("in memory".to_owned(), "close what takes up the memory"),
            (None, Some(own), _) => (
                format!("in the store `{}`", own.name()),
                "check the database that your program passes with `store`",
            ),
            // Its address may have a password.
            (None, None, Some(_)) => (
                "in its database".to_owned(),
                "check that the database's server answers and that its address (`HAFT_DATABASE`, or `--to`) names a role of its own",
            ),
            (None, None, None) => (
                format!("in `{}`", options.data_dir.display()),
                "check that the directory is yours and has room, or name another with `--data-dir`",
            ),
        };
        let ledger_options = LedgerOptions {
            // How long artifacts are kept is in the settings, which may not be readable yet;
            // `close` handles it.
            retention: None,
            max_queued_bytes: options.max_queued_bytes,
            secrets: options.secrets,
            database: options.database,
            store: options.store,
            artifacts: options.artifacts,
            memory: options.memory,
            ..LedgerOptions::new(options.data_dir.join(DIRECTORY), Arc::new(SystemClock))
        };
        let opened = StoredLedger::open(ledger_options).await;
        let (ledger, recovery) = opened.map_err(|error| {
            let hint = if error.is_about_artifacts() {
                "check `HAFT_ARTIFACTS` and the `AWS_` variables beside it"
            } else {
                hint
            };
            HostError::new(
                HostErrorKind::Record,
                format!("the record {kept_in} cannot be opened: {}", chain(&error)),
                hint,
            )
        })?;
        for tenant in &recovery.tenants {
            orphans::withdraw(&ledger, &recovery, tenant).await;
        }
        Ok(Self {
            ledger,
            recovery,
            retention: options.retention,
        })
    }

    /// The grants that hold now and can change a policy's answer to a question.
    pub async fn grants_for(
        &self,
        policy: &dyn Policy,
        question: Question<'_>,
    ) -> Result<Vec<Grant>, LedgerError> {
        let Question {
            principal, plan, ..
        } = question;
        let finder = PolicyGrantFinder { policy, question };
        let grants = self.ledger.grants();
        grants
            .holding(principal, plan.workspace_id(), SystemClock.now(), &finder)
            .await
    }

    /// Removes what need not be kept any longer and closes the record.
    pub async fn close(&self) -> Result<(), LedgerError> {
        if let Some(retention) = self.retention {
            let artifacts = self.ledger.expiring_artifacts();
            artifacts.expire_daily(SystemClock.now(), retention).await;
        }
        self.ledger.close().await
    }
}
