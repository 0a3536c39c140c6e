//! A checkpoint signs the ends of all writers' chains of a tenant together: what each had written by
//! then cannot be taken out of one chain while the others go on.

use haft_contract::TenantId;
use serde::{Deserialize, Serialize};

use crate::{
    chain::{ChainName, Hash, Head},
    seal::Seal,
    store::{Connection, Row, StoreError, values},
};

/// Names the signed form.
const FORM: &str = "haft-checkpoint-3";

/// One writer's end, as a checkpoint has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CheckpointHead {
    pub(crate) writer: String,
    pub(crate) sequence: u64,
    /// In hexadecimal.
    pub(crate) hash: String,
}

impl CheckpointHead {
    fn new(writer: &str, head: &Head) -> Self {
        Self {
            writer: writer.to_owned(),
            sequence: head.sequence,
            hash: blake3::Hash::from_bytes(head.hash).to_hex().to_string(),
        }
    }

    /// The hash; none if it is not one.
    pub(crate) fn hash(&self) -> Option<Hash> {
        Some(*blake3::Hash::from_hex(&self.hash).ok()?.as_bytes())
    }
}

/// Who signs a checkpoint, and for whom. Each writer numbers its own, so that none waits for another.
pub(crate) struct CheckpointBy<'a> {
    /// The writer's name and number.
    pub(crate) writer: (&'a str, i64),
    /// The tenant and its number.
    pub(crate) tenant: (&'a TenantId, i64),
}

/// Signs where all chains of a tenant end now.
pub(crate) async fn write(
    connection: &mut dyn Connection,
    by: CheckpointBy<'_>,
    key: &[u8; 32],
) -> Result<(), StoreError> {
    let ((writer, writer_number), (tenant, number)) = (by.writer, by.tenant);
    let rows = connection
        .query(
            "SELECT w.name, c.sequence, c.hash, c.mac FROM chain c JOIN writer w ON w.id = c.writer
             WHERE c.tenant = ?1 ORDER BY w.name, c.sequence",
            &values![number],
        )
        .await?;
    let mut heads = Vec::with_capacity(rows.len());
    for row in &rows {
        let (hash, name): (&[u8], &str) = (row.get("hash")?, row.get("name")?);
        let head = Head {
            sequence: u64::try_from(row.get::<i64>("sequence")?).unwrap_or(0),
            hash: hash.try_into().unwrap_or_default(),
        };
        let chain = ChainName {
            tenant: tenant.as_str(),
            writer: name,
        };
        // A forged end is for `verify` to name; signed here, it would be believed for ever.
        if !head.is_signed(chain, key, row.get("mac")?) {
            continue;
        }
        let head = CheckpointHead::new(name, &head);
        // Where an end and the one before it are both there, the later counts.
        heads.retain(|other: &CheckpointHead| other.writer != head.writer);
        heads.push(head);
    }
    // Holds only strings and numbers, so this cannot fail.
    let heads = serde_json::to_string(&heads).unwrap_or_default();
    let next = connection
        .number(
            "SELECT coalesce(max(number), 0) + 1 FROM checkpoint WHERE tenant = ?1 AND writer = ?2",
            &values![number, writer_number],
        )
        .await?;
    let mac = seal(tenant, writer, next, &heads, key).sign();
    connection
        .execute(
            "INSERT INTO checkpoint (tenant, writer, number, heads, mac) VALUES (?1, ?2, ?3, ?4, ?5)",
            values![number, writer_number, next, &heads, &mac],
        )
        .await?;
    Ok(())
}

/// What a checkpoint says, of a row that has its writer's `name`; none if this ledger did not sign it.
pub(crate) fn read(
    row: &Row,
    tenant: &TenantId,
    key: &[u8; 32],
) -> Result<Option<Vec<CheckpointHead>>, StoreError> {
    let heads: &str = row.get("heads")?;
    let seal = seal(tenant, row.get("name")?, row.get("number")?, heads, key);
    if !seal.is(row.get("mac")?) {
        return Ok(None);
    }
    Ok(serde_json::from_str(heads).ok())
}

fn seal(tenant: &TenantId, writer: &str, number: i64, heads: &str, key: &[u8; 32]) -> Seal {
    Seal::new(FORM, key)
        .text(tenant.as_str())
        .text(writer)
        .number(number)
        .text(heads)
}
