//! One transaction: calls, sessions, search text, events and the signed end of each chain, all or
//! nothing.
//!
//! The end of a chain is read inside the transaction, so that chains stay linear however many
//! processes append. Records were folded and converted before (`fold.rs`).

use std::{
    collections::{BTreeMap, HashMap, HashSet, btree_map::Entry},
    sync::Arc,
};

use haft_contract::{
    TenantId,
    host::{LedgerError, Timestamp},
    ops::FileVersion,
};
use sqlx::{Connection as _, Row as _, SqliteConnection};

use super::{
    calls::write_calls,
    change::ChangeContext,
    checked_start::Refusal,
    fold::{CallInStore, Folder, Pending, Record, SETTLED_LATE, Step},
    rows::Rows,
};
use crate::{
    chain::{Hash, Head},
    message::{Handle, SeenKey},
};

static INSERT_EVENTS: Rows<7> = Rows::new(
    "INSERT INTO event (tenant, sequence, call, at, kind, body, hash)",
    "",
);

static NOTE_SEEN: Rows<8> = Rows::new(
    "INSERT INTO seen (tenant, session, session_kind, user, agent, workspace, path, version)",
    "ON CONFLICT (tenant, session, session_kind, user, agent, workspace, path)
     DO UPDATE SET version = excluded.version",
);

/// What every transaction needs.
#[derive(Debug, Clone)]
pub(crate) struct Signing {
    /// The owner name under which open calls are recorded.
    pub(crate) owner: String,
    /// Signs the ends of chains.
    pub(crate) key: [u8; 32],
    /// Records between two checkpoints.
    pub(crate) checkpoint_every: u64,
}

/// What a transaction did.
#[derive(Debug, Default)]
pub(crate) struct CommitReport {
    pub(super) stored: Vec<(Handle, CallInStore)>,
    /// Records written.
    pub(crate) records: u64,
    /// The new ends of the chains that grew.
    pub(crate) heads: Vec<(TenantId, Head)>,
}

/// Why a transaction was not committed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    #[error("the database refused")]
    Database(#[from] sqlx::Error),
    #[error("the end of the record is not signed by this ledger")]
    Tampered,
}

/// The result of a transaction.
#[derive(Debug)]
pub(crate) enum Commit {
    /// Everything was written.
    Done(CommitReport),
    /// Nothing was written: these starts depend on something that cannot be used. Without them the
    /// rest can be written.
    Refused(Vec<(u64, LedgerError)>),
}

/// Writes everything pending, or nothing. Questions and grants are read under the lock that keeps
/// every other process from changing them meanwhile.
pub(crate) async fn commit_group(
    connection: &mut SqliteConnection,
    pending: &mut Pending,
    folder: &Folder,
    signing: &Signing,
    now: Timestamp,
) -> Result<Commit, WriteError> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let mut refused = Vec::new();
    pending.woken.clear();
    for step in &mut pending.steps {
        let mut changing = ChangeContext {
            connection: &mut transaction,
            key: &signing.key,
            now,
            woken: &mut pending.woken,
        };
        match step {
            Step::Change(job) => job.run(&mut changing).await?,
            Step::Start(start) => match (start.use_up(&mut changing).await?, &start.refusal) {
                (Ok(()), _) => {}
                (Err(error), Refusal::NotRecorded(_)) => refused.push((start.number, error)),
                (Err(error), Refusal::TooLate) => {
                    tracing::error!(call = %start.before.id, %error, "a call was started without");
                }
            },
        }
    }
    if !refused.is_empty() {
        transaction.rollback().await?;
        return Ok(Commit::Refused(refused));
    }
    let committed = write_all(&mut transaction, pending, folder, signing).await?;
    refused.extend(pending.starts_of_refused(&committed.stored));
    if !refused.is_empty() {
        transaction.rollback().await?;
        return Ok(Commit::Refused(refused));
    }
    transaction.commit().await?;
    Ok(Commit::Done(committed))
}

/// Writes pending records that depend on nothing, or writes nothing.
pub(crate) async fn commit(
    connection: &mut SqliteConnection,
    pending: &Pending,
    folder: &Folder,
    signing: &Signing,
) -> Result<CommitReport, WriteError> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let committed = write_all(&mut transaction, pending, folder, signing).await?;
    transaction.commit().await?;
    Ok(committed)
}

async fn write_all(
    connection: &mut SqliteConnection,
    pending: &Pending,
    folder: &Folder,
    signing: &Signing,
) -> Result<CommitReport, WriteError> {
    let calls = write_calls(connection, pending, folder, &signing.owner).await?;
    let late = settled_late(pending, &calls.superseded);
    let records: Vec<&Record> = pending
        .records
        .iter()
        .filter(|record| !calls.refused.contains(&record.handle) || record.kind == SETTLED_LATE)
        .chain(&late)
        .collect();
    let heads = append_records(connection, &records, signing).await?;
    write_seen(connection, &pending.seen).await?;
    Ok(CommitReport {
        stored: calls.stored,
        records: records.len() as u64,
        heads,
    })
}

/// The settlements of calls whose claim was superseded before they were written, as evidence.
fn settled_late(pending: &Pending, superseded: &HashSet<Handle>) -> Vec<Record> {
    let is_late =
        |record: &&Record| record.kind == "settled" && superseded.contains(&record.handle);
    let late = pending.records.iter().filter(is_late);
    late.map(|record| Record {
        handle: record.handle,
        tenant: record.tenant.clone(),
        call: record.call,
        at: record.at,
        kind: SETTLED_LATE,
        body: Arc::clone(&record.body),
        start: None,
    })
    .collect()
}

/// Signs a checkpoint at the end of a tenant's chain.
pub(crate) async fn checkpoint(
    connection: &mut SqliteConnection,
    tenant: &TenantId,
    key: &[u8; 32],
) -> Result<(), WriteError> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let head = read_head(&mut transaction, tenant, key).await?;
    if head.sequence > 0 {
        write_checkpoint(&mut transaction, tenant, &head, key).await?;
    }
    transaction.commit().await?;
    Ok(())
}

async fn append_records(
    connection: &mut SqliteConnection,
    records: &[&Record],
    signing: &Signing,
) -> Result<Vec<(TenantId, Head)>, WriteError> {
    let mut heads: BTreeMap<&TenantId, Head> = BTreeMap::new();
    let mut chained: Vec<(&Record, u64, Hash)> = Vec::with_capacity(records.len());
    let mut checkpoints: Vec<(&TenantId, Head)> = Vec::new();
    for record in records {
        let head = match heads.entry(&record.tenant) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                entry.insert(read_head(connection, &record.tenant, &signing.key).await?)
            }
        };
        let hash = head.advance(
            &record.tenant,
            record.call,
            record.at,
            record.kind,
            &record.body,
        );
        chained.push((record, head.sequence, hash));
        if head
            .sequence
            .is_multiple_of(signing.checkpoint_every.max(1))
        {
            checkpoints.push((&record.tenant, *head));
        }
    }
    INSERT_EVENTS
        .execute(connection, &chained, |(record, sequence, hash), row| {
            row.add(record.tenant.as_str())
                .add(stored_sequence(*sequence))
                .add(record.call.as_uuid().as_bytes().as_slice())
                .add(record.at.0)
                .add(record.kind)
                .add(Arc::clone(&record.body))
                .add(hash.as_slice());
        })
        .await?;
    for (tenant, head) in &heads {
        sqlx::query(
            "INSERT INTO chain (tenant, sequence, hash, mac) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (tenant) DO UPDATE SET sequence = ?2, hash = ?3, mac = ?4",
        )
        .bind(tenant.as_str())
        .bind(stored_sequence(head.sequence))
        .bind(head.hash.as_slice())
        .bind(head.sign(tenant.as_str(), &signing.key).as_slice())
        .execute(&mut *connection)
        .await?;
    }
    for (tenant, head) in &checkpoints {
        write_checkpoint(connection, tenant, head, &signing.key).await?;
    }
    let heads = heads.into_iter();
    Ok(heads.map(|(tenant, head)| (tenant.clone(), head)).collect())
}

async fn read_head(
    connection: &mut SqliteConnection,
    tenant: &TenantId,
    key: &[u8; 32],
) -> Result<Head, WriteError> {
    let row = sqlx::query("SELECT sequence, hash, mac FROM chain WHERE tenant = ?1")
        .bind(tenant.as_str())
        .fetch_optional(connection)
        .await?;
    let Some(row) = row else {
        return Ok(Head::START);
    };
    let sequence: i64 = row.try_get("sequence")?;
    let hash: &[u8] = row.try_get("hash")?;
    let mac: &[u8] = row.try_get("mac")?;
    let head = Head {
        sequence: u64::try_from(sequence).map_err(|_| WriteError::Tampered)?,
        hash: hash.try_into().map_err(|_| WriteError::Tampered)?,
    };
    // Continuing from a forged end would sign it and hide what was cut off.
    if head.is_signed(tenant.as_str(), key, mac) {
        Ok(head)
    } else {
        Err(WriteError::Tampered)
    }
}

async fn write_checkpoint(
    connection: &mut SqliteConnection,
    tenant: &TenantId,
    head: &Head,
    key: &[u8; 32],
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "INSERT INTO checkpoint (tenant, sequence, hash, mac) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO NOTHING",
    )
    .bind(tenant.as_str())
    .bind(stored_sequence(head.sequence))
    .bind(head.hash.as_slice())
    .bind(head.sign(tenant.as_str(), key).as_slice())
    .execute(connection)
    .await?;
    Ok(())
}

async fn write_seen(
    connection: &mut SqliteConnection,
    seen: &HashMap<SeenKey, FileVersion>,
) -> Result<(), sqlx::Error> {
    let seen: Vec<_> = seen.iter().collect();
    NOTE_SEEN
        .execute(connection, &seen, |(key, version), row| {
            row.add(key.tenant.as_str())
                .add(key.session.as_str())
                .add(key.session_kind.as_str())
                .add(key.user.as_str())
                .add(key.agent.as_str())
                .add(key.workspace.as_str())
                .add(key.path.as_str())
                .add(version.as_str());
        })
        .await?;
    Ok(())
}

/// SQLite's numbers are signed; no chain gets that long.
fn stored_sequence(sequence: u64) -> i64 {
    i64::try_from(sequence).unwrap_or(i64::MAX)
}
