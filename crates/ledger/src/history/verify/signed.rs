//! What is signed of a tenant's chains: their ends, and checkpoints.

use std::collections::BTreeMap;

use haft_contract::{TenantId, host::LedgerError};

use crate::{
    chain::{ChainName, Hash, Head},
    checkpoint::{self, CheckpointHead},
    reading::{column, failed, unsigned},
    store::{Connection, values},
};

/// What is signed of a tenant's chains.
#[derive(Debug, Default)]
pub(super) struct Signed {
    pub(super) ends: BTreeMap<String, (Head, bool)>,
    /// The rows that checkpoints name, by writer.
    checkpoints: BTreeMap<String, BTreeMap<u64, Hash>>,
    pub(super) forged_checkpoint: Option<i64>,
}

impl Signed {
    /// The hash that a checkpoint has for this row, if one does.
    pub(super) fn at(&self, writer: &str, sequence: u64) -> Option<Hash> {
        self.checkpoints.get(writer)?.get(&sequence).copied()
    }

    /// All rows that checkpoints name.
    pub(super) fn named(&self) -> impl Iterator<Item = (&str, u64)> {
        let writers = self.checkpoints.iter();
        writers.flat_map(|(writer, rows)| rows.keys().map(move |row| (writer.as_str(), *row)))
    }
}

pub(super) async fn signed_places(
    snapshot: &mut dyn Connection,
    tenant: &TenantId,
    key: &[u8; 32],
) -> Result<Signed, LedgerError> {
    let mut signed = Signed::default();
    let ends = snapshot
        .query(
            "SELECT coalesce(w.name, '') AS name, c.sequence, c.hash, c.mac
             FROM chain c LEFT JOIN writer w ON w.id = c.writer
             WHERE c.tenant = (SELECT id FROM tenant WHERE name = ?1) ORDER BY c.sequence",
            &values![tenant.as_str()],
        )
        .await
        .map_err(failed)?;
    for row in &ends {
        let (writer, hash): (&str, &[u8]) = (column(row, "name")?, column(row, "hash")?);
        let head = Head {
            sequence: unsigned(column(row, "sequence")?),
            // A hash of the wrong length becomes zeros, which match no row.
            hash: hash.try_into().unwrap_or_default(),
        };
        let chain = ChainName {
            tenant: tenant.as_str(),
            writer,
        };
        let is_signed = head.is_signed(chain, key, column(row, "mac")?);
        signed.ends.insert(writer.to_owned(), (head, is_signed));
    }
    let rows = snapshot
        .query(
            "SELECT coalesce(w.name, '') AS name, c.number, c.heads, c.mac
             FROM checkpoint c LEFT JOIN writer w ON w.id = c.writer
             WHERE c.tenant = (SELECT id FROM tenant WHERE name = ?1) ORDER BY c.writer, c.number",
            &values![tenant.as_str()],
        )
        .await
        .map_err(failed)?;
    let mut numbers: BTreeMap<&str, i64> = BTreeMap::new();
    for row in &rows {
        let number = numbers.entry(column(row, "name")?).or_insert(0);
        *number += 1;
        if column::<i64>(row, "number")? != *number {
            signed.forged_checkpoint.get_or_insert(*number);
        }
        let Some(heads) = checkpoint::read(row, tenant, key).map_err(failed)? else {
            signed
                .forged_checkpoint
                .get_or_insert(column(row, "number")?);
            continue;
        };
        for head in heads.iter().filter(|head| head.sequence > 0) {
            signed.add(head);
        }
    }
    Ok(signed)
}

impl Signed {
    fn add(&mut self, head: &CheckpointHead) {
        let rows = self.checkpoints.entry(head.writer.clone()).or_default();
        rows.insert(head.sequence, head.hash().unwrap_or_default());
    }
}
