//! The record of calls on SQLite: events in a hash chain, artifacts by content hash, sessions.
//!
//! [`SqliteLedger`] implements [`Ledger`](haft_contract::host::Ledger) and
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
//! use haft_ledger::{LedgerOptions, SqliteLedger};
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
//! let (ledger, recovery) = SqliteLedger::open(options).await?;
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
//! Read next: `sqlite/writer.rs` for the writer thread, `sqlite/write.rs` for the contents of one
//! transaction, `chain.rs` for tamper evidence.

mod artifacts;
mod chain;
mod convert;
mod directory;
mod draft;
mod high_water;
mod listed;
mod message;
pub mod options;
mod owner;
mod queue;
pub mod recorded;
mod redact;
mod row;
mod seal;
mod space;
mod sqlite;
mod used_marks;
mod weight;

pub use artifacts::{ExpiryReport, FileArtifacts, MAX_ARTIFACT_BYTES};
pub use directory::DirectoryError;
pub use options::{LedgerOptions, Retention};
pub use redact::{MAX_SECRETS, MIN_SECRET_BYTES, REDACTED, Redactor};
pub use sqlite::{
    Counters, InterruptedCall, OpenError, Recovery, SqliteLedger, migrate::SCHEMA_VERSION,
};
