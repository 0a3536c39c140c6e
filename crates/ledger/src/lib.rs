//! The record of calls: rows in a hash chain for each writer, artifacts by content hash, sessions.
//!
//! [`StoredLedger`] implements [`Ledger`](haft_contract::host::Ledger) and
//! [`History`](haft_contract::host::History). It never runs a tool and decides nothing; it records
//! what happened, makes that durable in groups, and after a crash reports how the open calls were
//! settled ([`Recovery`]).
//!
//! ```
//! use std::sync::Arc;
//! use haft_contract::{
//!     AgentId, CallRequest, Principal, SessionId, UserId,
//!     host::{Clock, History as _, Ledger as _, Timestamp},
//! };
//! use haft_ledger::{LedgerOptions, StoredLedger};
//!
//! struct Fixed;
//! impl Clock for Fixed {
//!     fn now(&self) -> Timestamp {
//!         Timestamp(0)
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let folder = tempfile::tempdir()?;
//! let options = LedgerOptions::new(folder.path().join("record"), Arc::new(Fixed));
//! let (ledger, recovery) = StoredLedger::open(options).await?;
//! assert!(recovery.is_empty());
//!
//! let principal = Principal::local(
//!     UserId::parse("ada")?, AgentId::parse("demo")?, SessionId::parse("s1")?,
//! );
//! let request = CallRequest::new("read", serde_json::json!({}), Arc::new(principal));
//! let _record = ledger.open(&request, Timestamp(0)).await?;
//! assert!(ledger.call(&request.principal.tenant, request.id).await?.is_some());
//! ledger.close().await?;
//! # Ok(()) })
//! # }
//! ```
//!
//! Read next: `writer/mod.rs` for the writer thread, `writer/write.rs` for the contents of one
//! transaction, `chain.rs` for tamper evidence.

mod accepted;
mod approvals;
mod artifacts;
mod body;
mod call_fact;
mod catch_up;
mod chain;
mod change;
mod checkpoint;
mod connection_pool;
mod convert;
mod counters;
mod credentials;
mod directory;
mod encoded_request;
mod grants;
mod high_water;
mod history;
mod key_check;
mod ledger;
mod left_open;
mod listed;
mod lost;
mod memories;
mod memory_files;
mod memory_record;
mod message;
mod names;
mod open_call;
mod open_error;
mod open_record;
mod open_store;
pub mod options;
mod owner;
#[cfg(feature = "postgres")]
mod postgres;
mod providers;
mod queue;
mod reading;
pub mod recorded;
mod recorded_call;
mod redact;
mod request_keys;
mod row;
mod seal;
mod search_words;
mod space;
mod sqlite;
pub mod store;
mod stored_history;
mod transfer;
mod transfer_error;
mod transfer_row;
mod used_marks;
mod weight;
mod write_batch;
mod write_body;
mod writer;

pub use accepted::AcceptedCall;
pub use artifacts::{ExpiringArtifacts, ExpiryReport, MAX_ARTIFACT_BYTES, ObjectStorage};
pub use counters::Counters;
pub use credentials::{
    CREDENTIALS_SWEPT_AT_ONCE, Credentials, ENDED_KEYS_KEPT, MAX_LIVE_CREDENTIALS,
    credential::{
        CREDENTIAL_ID_CHARS, Credential, CredentialId, CredentialKind, MAX_CREDENTIAL_NAME_CHARS,
        MAX_CREDENTIAL_SCOPES, MAX_CREDENTIAL_WORKSPACES,
    },
};
pub use directory::DirectoryError;
pub use ledger::StoredLedger;
pub use memory_record::MemoryRecord;
pub use open_error::OpenError;
pub use options::{LedgerOptions, Retention};
pub use redact::{MAX_SECRETS, MIN_SECRET_BYTES, REDACTED, Redactor};
pub use request_keys::{
    MAX_REQUEST_KEY_BYTES, MAX_REQUEST_OWNER_BYTES, REQUEST_KEYS_KEPT, REQUEST_KEYS_SWEPT_AT_ONCE,
    RequestKey, RequestKeys,
};
pub use sqlite::migrate::{SCHEMA, SCHEMA_VERSION};
pub use store::StoreError;
pub use transfer::{
    CheckedExport, Exported, MAX_LINE_BYTES, Migrated, MigrationStep, SignatureCheck,
};
pub use transfer_error::TransferError;
pub use transfer_row::Imported;
pub use writer::{InterruptedCall, Recovery};
