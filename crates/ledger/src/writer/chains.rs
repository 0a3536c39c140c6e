//! The chains this writer appends to, one for each tenant, and the signatures over their ends.

use std::collections::BTreeMap;

use haft_contract::TenantId;

use super::write::{WriteError, stored_sequence};
use crate::{
    chain::{ChainName, Head},
    checkpoint::{self, CheckpointBy},
    store::{Connection, StoreError, values},
};

/// How many tenants' chains are remembered. When there are more, all are read again.
const MAX_REMEMBERED: usize = 16_384;

const WRITE_HEAD: &str =
    "INSERT INTO chain (tenant, writer, sequence, hash, mac) VALUES (?1, ?2, ?3, ?4, ?5)";

/// A new row and the end of the old one, not one row that is changed for ever: an engine that keeps old
/// versions for other transactions would walk through all of them.
const FORGET_HEAD: &str = "DELETE FROM chain WHERE tenant = ?1 AND writer = ?2 AND sequence = ?3";

/// The chains of one writer.
pub(crate) struct Chains {
    /// The writer's name and its number.
    name: String,
    number: i64,
    /// Rows between two checkpoints.
    checkpoint_every: u64,
    by_tenant: BTreeMap<TenantId, OwnChain>,
    /// Tenants whose chains grew in this transaction.
    grown: Vec<TenantId>,
}

/// One tenant's chain of this writer.
pub(crate) struct OwnChain {
    tenant: i64,
    pub(crate) head: Head,
    /// The end that is signed in the store.
    signed: Head,
}

impl Chains {
    pub(crate) fn new(name: String, number: i64, checkpoint_every: u64) -> Self {
        Self {
            name,
            number,
            checkpoint_every: checkpoint_every.max(1),
            by_tenant: BTreeMap::new(),
            grown: Vec::new(),
        }
    }

    /// The writer's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The writer's number.
    pub(crate) fn writer(&self) -> i64 {
        self.number
    }

    /// A tenant's chain, to append to.
    pub(crate) async fn of(
        &mut self,
        connection: &mut dyn Connection,
        tenant: &TenantId,
        number: i64,
        key: &[u8; 32],
    ) -> Result<&mut OwnChain, WriteError> {
        if !self.grown.contains(tenant) {
            if self.by_tenant.len() >= MAX_REMEMBERED && self.grown.is_empty() {
                self.by_tenant.clear();
            }
            self.grown.push(tenant.clone());
        }
        if !self.by_tenant.contains_key(tenant) {
            let head = self.read(connection, tenant, number, key).await?;
            let chain = OwnChain {
                tenant: number,
                head,
                signed: head,
            };
            self.by_tenant.insert(tenant.clone(), chain);
        }
        self.by_tenant.get_mut(tenant).ok_or(WriteError::Tampered)
    }

    async fn read(
        &self,
        connection: &mut dyn Connection,
        tenant: &TenantId,
        number: i64,
        key: &[u8; 32],
    ) -> Result<Head, WriteError> {
        let row = connection
            .optional(
                "SELECT sequence, hash, mac FROM chain WHERE tenant = ?1 AND writer = ?2
                 ORDER BY sequence DESC LIMIT 1",
                &values![number, self.number],
            )
            .await?;
        let Some(row) = row else {
            return Ok(Head::START);
        };
        let (hash, mac): (&[u8], &[u8]) = (row.get("hash")?, row.get("mac")?);
        let head = Head {
            sequence: u64::try_from(row.get::<i64>("sequence")?)
                .map_err(|_| WriteError::Tampered)?,
            hash: hash.try_into().map_err(|_| WriteError::Tampered)?,
        };
        let chain = ChainName {
            tenant: tenant.as_str(),
            writer: &self.name,
        };
        // Continuing from a forged end would sign it and hide what was cut off.
        if head.is_signed(chain, key, mac) {
            Ok(head)
        } else {
            Err(WriteError::Tampered)
        }
    }

    /// Signs the ends of the chains that grew, and all chains of a tenant now and then.
    pub(crate) async fn sign(
        &mut self,
        connection: &mut dyn Connection,
        key: &[u8; 32],
    ) -> Result<Vec<(TenantId, Head)>, StoreError> {
        let mut heads = Vec::with_capacity(self.grown.len());
        for tenant in std::mem::take(&mut self.grown) {
            let Some(chain) = self.by_tenant.get_mut(&tenant) else {
                continue;
            };
            let (head, number) = (chain.head, chain.tenant);
            let name = ChainName {
                tenant: tenant.as_str(),
                writer: &self.name,
            };
            let mac = head.sign(name, key);
            let sequence = stored_sequence(head.sequence);
            let values = values![number, self.number, sequence, &head.hash, &mac];
            connection.execute(WRITE_HEAD, values).await?;
            let before = stored_sequence(chain.signed.sequence);
            let values = values![number, self.number, before];
            connection.execute(FORGET_HEAD, values).await?;
            let every = self.checkpoint_every;
            if chain.signed.sequence / every != head.sequence / every {
                let by = CheckpointBy {
                    writer: (&self.name, self.number),
                    tenant: (&tenant, number),
                };
                checkpoint::write(connection, by, key).await?;
            }
            heads.push((tenant, head));
        }
        Ok(heads)
    }

    /// The transaction was committed.
    pub(crate) fn committed(&mut self, heads: &[(TenantId, Head)]) {
        for (tenant, head) in heads {
            if let Some(chain) = self.by_tenant.get_mut(tenant) {
                chain.signed = *head;
            }
        }
    }

    /// The transaction was undone, and numbers it gave out may be somebody else's next: everything is
    /// read again.
    pub(crate) fn undo(&mut self) {
        self.grown.clear();
        self.by_tenant.clear();
    }

    /// Where the chains are known to end.
    pub(crate) fn heads(&self) -> Vec<(TenantId, Head)> {
        let chains = self.by_tenant.iter();
        chains
            .map(|(tenant, chain)| (tenant.clone(), chain.signed))
            .collect()
    }

    /// The tenants this writer has written for, with their numbers.
    pub(crate) fn tenants(&self) -> impl Iterator<Item = (&TenantId, i64)> {
        self.by_tenant
            .iter()
            .map(|(tenant, chain)| (tenant, chain.tenant))
    }
}
