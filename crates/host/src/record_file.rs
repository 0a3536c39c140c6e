//! Exports of a record as files: opened, read twice, and left whole or not at all.
#![allow(
    clippy::disallowed_methods,
    reason = "files that a person names on the command line, for themselves; no tool's files"
)]

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use haft_contract::{TenantId, host::Timestamp};
use haft_ledger::{Exported, Imported, SignatureCheck, StoredLedger, TransferError};

/// The size of the key that signs a record.
const KEY_BYTES: usize = 32;

/// Writes a record to a new file that only this user can read. A file that is no whole export is
/// removed again.
pub async fn export_to(
    path: &Path,
    ledger: &StoredLedger,
    tenant: &TenantId,
    since: Option<Timestamp>,
    progress: &(dyn Fn(u64, u64) + Send + Sync),
) -> Result<Exported, TransferError> {
    let mut new = OpenOptions::new();
    let file = new.write(true).create_new(true).mode(0o600).open(path);
    let file = file.map_err(TransferError::Write)?;
    let on_disk = file.try_clone().map_err(TransferError::Write)?;
    let out: Box<dyn Write + Send> = Box::new(file);
    let exported = ledger.export(tenant, since, out, progress).await;
    let exported = exported.and_then(|exported| {
        on_disk.sync_all().map_err(TransferError::Write)?;
        Ok(exported)
    });
    if exported.is_err() {
        // What is left of it could not be imported.
        let _ = std::fs::remove_file(path);
    }
    exported
}

/// Reads an export into a record. It is checked as a whole before, because other processes wait while
/// it is written. `watched` is given each reader and the length of the file, to show how far it is.
pub async fn import_from(
    path: &Path,
    ledger: &StoredLedger,
    tenant: &TenantId,
    signature: SignatureCheck,
    watched: impl Fn(File, u64) -> Box<dyn Read + Send>,
) -> Result<Imported, TransferError> {
    let (file, length) = open(path)?;
    ledger
        .check_export(watched(file, length), signature)
        .await?;
    let (file, length) = open(path)?;
    ledger
        .import(tenant, watched(file, length), signature)
        .await
}

/// Opens an export, and says how long it is.
pub fn open(path: &Path) -> Result<(File, u64), TransferError> {
    // Opening a pipe that nobody writes to would wait for ever.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits();
    let flags = i32::try_from(nonblocking).unwrap_or_default();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)
        .map_err(TransferError::Read)?;
    let metadata = file.metadata().map_err(TransferError::Read)?;
    if !metadata.is_file() {
        let error = io::Error::other("it is not a regular file");
        return Err(TransferError::Read(error));
    }
    Ok((file, metadata.len()))
}

/// How signatures are checked: with the key in a file, if one is named.
pub fn signature(key: Option<&Path>, without_key: bool) -> Result<SignatureCheck, TransferError> {
    Ok(SignatureCheck {
        key: key.map(read_key).transpose()?,
        may_be_unknown: without_key,
    })
}

fn read_key(path: &Path) -> Result<[u8; KEY_BYTES], TransferError> {
    let (file, _) = open(path)?;
    let mut bytes = Vec::with_capacity(KEY_BYTES);
    file.take(KEY_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(TransferError::Read)?;
    // Another file is no key of any record.
    bytes.try_into().map_err(|_| TransferError::OtherKey)
}
