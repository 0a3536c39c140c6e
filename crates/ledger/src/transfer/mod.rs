//! Carries a tenant's record from one ledger to another, as a stream of typed rows. `source.rs` reads
//! it from a store, `text.rs` writes and reads it as lines of text, `check.rs` checks it on the way, and
//! `writer/import.rs` writes it into a store. `migrate.rs` carries a whole record with everything else it
//! has (`tables.rs`) from one store to another. Nothing of it names a database.
//!
//! A row's hash covers its writer and where its call is listed, and the signatures are made with the
//! key of their ledger. So what arrives is checked as it was written, and written anew: in a chain of
//! the importing ledger, signed with its key.

mod check;
mod export;
mod hex;
mod import;
mod migrate;
pub(crate) mod source;
mod tables;
mod text;

use std::io::{Read, Write};

use haft_contract::{TenantId, host::Timestamp};
use tokio::runtime::Handle;

use self::check::TransferCheck;
pub use self::{
    export::Exported,
    import::{CheckedExport, SignatureCheck},
    migrate::{Migrated, MigrationStep},
    text::MAX_LINE_BYTES,
};
use crate::{
    ledger::StoredLedger,
    transfer_error::TransferError,
    transfer_row::{
        Imported, MAX_NUMBER, MAX_WRITERS, SignedEnd, TransferBegin, TransferEnd, TransferRow,
    },
};

impl StoredLedger {
    /// Writes a tenant's record as text: all of it, or what was recorded since the first call of a
    /// moment. Tells how far it is: the position reached, and the newest.
    ///
    /// A record that is not as it was written is not exported; what was written until then is no
    /// export, because it has no end.
    pub async fn export(
        &self,
        tenant: &TenantId,
        since: Option<Timestamp>,
        out: Box<dyn Write + Send>,
        progress: &(dyn Fn(u64, u64) + Send + Sync),
    ) -> Result<Exported, TransferError> {
        let (store, key) = self.settled_store().await;
        export::export(&*store, tenant, &key, since, out, progress).await
    }

    /// Checks an export without importing it.
    pub async fn check_export(
        &self,
        input: Box<dyn Read + Send>,
        signature: SignatureCheck,
    ) -> Result<CheckedExport, TransferError> {
        let own = self.import_target().key;
        export::run_blocking(move || import::check(input, &own, signature)).await
    }

    /// Reads an export into this record: all of it, or nothing if anything is wrong with it or if the
    /// record has some of its calls already. Other processes wait until it is done.
    pub async fn import(
        &self,
        tenant: &TenantId,
        input: Box<dyn Read + Send>,
        signature: SignatureCheck,
    ) -> Result<Imported, TransferError> {
        let (target, runtime, tenant) = (self.import_target(), Handle::current(), tenant.clone());
        export::run_blocking(move || import::import(&tenant, input, signature, target, &runtime))
            .await
    }
}
