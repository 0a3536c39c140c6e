//! Reads an export: to check it, or into a record.

use std::{
    fmt,
    io::{BufReader, Read},
};

use haft_contract::TenantId;
use serde::Serialize;
use tokio::runtime::Handle;

use super::{
    Imported, TransferBegin, TransferCheck, TransferEnd, TransferError, TransferRow,
    text::{FileSeal, Item, TextReader},
};
use crate::{
    store::Scope,
    transfer_row::UNSIGNED,
    writer::import::{ImportRow, ImportTarget, RecordImport},
};

/// Rows written at a time.
const ROWS_A_PAGE: usize = 500;

/// The bytes of bodies that are written at a time.
const BYTES_A_PAGE: usize = 4 << 20;

/// How the signatures of an export are checked.
#[derive(Clone, Copy, Default)]
pub struct SignatureCheck {
    /// The key of the record it was made from; if absent, the importing record's own.
    pub key: Option<[u8; 32]>,
    /// Take it without a key: that it is whole is known, and not who made it.
    pub may_be_unknown: bool,
}

impl fmt::Debug for SignatureCheck {
    // The key must not be printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignatureCheck")
            .field("key", &self.key.is_some())
            .field("may_be_unknown", &self.may_be_unknown)
            .finish()
    }
}

/// An export that is as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CheckedExport {
    /// Whose record it is.
    #[serde(skip)]
    pub tenant: TenantId,
    /// Rows of the record.
    pub records: u64,
    /// Whether its signatures were checked with a key.
    #[serde(rename = "signed")]
    pub is_signed: bool,
}

impl fmt::Display for CheckedExport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} records verified", self.records)?;
        f.write_str(if self.is_signed { "" } else { UNSIGNED })
    }
}

/// Checks an export as a whole.
pub(crate) fn check(
    input: Box<dyn Read + Send>,
    own: &[u8; 32],
    signature: SignatureCheck,
) -> Result<CheckedExport, TransferError> {
    let mut text = TextReader::new(BufReader::new(input));
    let begin = text.begin()?;
    let mut check = TransferCheck::new(&begin)?;
    loop {
        match text.next()? {
            Item::Row(row) => {
                check.row(&row)?;
            }
            Item::End(end, seal) => {
                return Ok(CheckedExport {
                    is_signed: checked_end(&check, &end, &seal, own, signature)?,
                    tenant: begin.tenant,
                    records: end.rows,
                });
            }
        }
    }
}

/// Reads an export into a record. Everything is in one transaction: an export that turns out not to be
/// as it was written leaves nothing.
pub(crate) fn import(
    tenant: &TenantId,
    input: Box<dyn Read + Send>,
    signature: SignatureCheck,
    target: ImportTarget,
    runtime: &Handle,
) -> Result<Imported, TransferError> {
    let mut text = TextReader::new(BufReader::new(input));
    let begin = text.begin()?;
    if begin.tenant != *tenant {
        return Err(TransferError::OtherTenant(begin.tenant.to_string()));
    }
    let own = target.key;
    let names = [tenant.as_str()];
    let scope = Scope::Tenants(&names);
    let mut reading = PendingImport {
        check: TransferCheck::new(&begin)?,
        begin,
        import: runtime.block_on(RecordImport::begin(target, tenant, scope))?,
        rows: Vec::new(),
        bytes: 0,
    };
    loop {
        match text.next()? {
            Item::Row(row) => reading.add(row, runtime)?,
            Item::End(end, seal) => {
                let is_signed = checked_end(&reading.check, &end, &seal, &own, signature)?;
                reading.write(runtime)?;
                let imported = runtime.block_on(reading.import.commit())?;
                return Ok(Imported {
                    is_signed,
                    ..imported
                });
            }
        }
    }
}

/// An import under way, and what is to be written next.
struct PendingImport {
    check: TransferCheck,
    begin: TransferBegin,
    import: RecordImport,
    /// Rows that are to be written next, and who asked.
    rows: Vec<ImportRow>,
    bytes: usize,
}

impl PendingImport {
    fn add(&mut self, row: TransferRow, runtime: &Handle) -> Result<(), TransferError> {
        let asked = self.check.row(&row)?;
        self.bytes += row.body.len();
        self.rows.push((row, asked));
        if self.rows.len() >= ROWS_A_PAGE || self.bytes >= BYTES_A_PAGE {
            self.write(runtime)?;
        }
        Ok(())
    }

    fn write(&mut self, runtime: &Handle) -> Result<(), TransferError> {
        let may_begin_before = self.begin.since.is_some();
        runtime.block_on(self.import.write(&self.rows, may_begin_before))?;
        self.rows.clear();
        self.bytes = 0;
        Ok(())
    }
}

/// Checks the end; returns whether its signatures were checked.
fn checked_end(
    check: &TransferCheck,
    end: &TransferEnd,
    seal: &FileSeal,
    own: &[u8; 32],
    signature: SignatureCheck,
) -> Result<bool, TransferError> {
    let key = signature.key.as_ref().unwrap_or(own);
    if seal.is_of(end, key) {
        check.end(end, Some(key))?;
        return Ok(true);
    }
    check.end(end, None)?;
    // A key that was given and is another one is a mistake, whatever else was said.
    if signature.key.is_some() || !signature.may_be_unknown {
        return Err(TransferError::OtherKey);
    }
    Ok(false)
}
