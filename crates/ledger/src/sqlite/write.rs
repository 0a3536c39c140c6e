//! One transaction: calls, sessions, search text, events and the signed end of each chain, all or
//! nothing.
//!
//! The end of a chain is read inside the transaction, so that chains stay linear however many
//! processes append. What is written was folded and converted before (`fold.rs`).

use std::{
    collections::{BTreeMap, HashMap, HashSet, btree_map::Entry},
    fmt::Write as _,
};

use haft_contract::{
    TenantId,
    host::{LedgerError, Timestamp},
    ops::FileVersion,
};
use sqlx::{Connection as _, QueryBuilder, Row as _, Sqlite, SqliteConnection};

use super::{
    change::Changing,
    claim::Refusal,
    fold::{Folder, Pending, Record, Step, Stored},
};
use crate::{
    chain::{Hash, Head},
    draft::Draft,
    queue::{Handle, SeenKey},
};

/// Records put into one statement.
const RECORDS_A_STATEMENT: usize = 64;

/// What every transaction needs to know.
#[derive(Debug, Clone)]
pub(crate) struct Signing {
    /// Under which name calls are recorded as open.
    pub(crate) owner: String,
    /// Signs the ends of chains.
    pub(crate) key: [u8; 32],
    /// Records between two checkpoints.
    pub(crate) checkpoint_every: u64,
}

/// What a transaction did.
#[derive(Debug, Default)]
pub(crate) struct Committed {
    pub(super) stored: Vec<(Handle, Stored)>,
    /// Records written.
    pub(crate) records: u64,
    /// Tenants whose chains grew.
    pub(crate) tenants: Vec<TenantId>,
}

/// Why a transaction was not committed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    #[error("the database refused")]
    Database(#[from] sqlx::Error),
    #[error("the end of the record is not signed by this ledger")]
    Tampered,
}

/// What came of a transaction.
#[derive(Debug)]
pub(crate) enum Commit {
    /// Everything is written.
    Done(Committed),
    /// Nothing is: these starts rest on something that cannot be used. Without them the rest can
    /// be written.
    Refused(Vec<(u64, LedgerError)>),
}

/// Writes everything pending, or nothing. Questions and grants are looked at under the lock that
/// keeps every other process from changing them meanwhile.
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
        let mut changing = Changing {
            connection: &mut transaction,
            key: &signing.key,
            now,
            woken: &mut pending.woken,
        };
        match step {
            Step::Change(job) => job.run(&mut changing).await?,
            Step::Claim(claim) => match (claim.use_up(&mut changing).await?, &claim.refusal) {
                (Ok(()), _) => {}
                (Err(error), Refusal::NotRecorded(_)) => refused.push((claim.number, error)),
                (Err(error), Refusal::TooLate) => {
                    tracing::error!(call = %claim.before.id, %error, "a call was started without");
                }
            },
        }
    }
    if !refused.is_empty() {
        transaction.rollback().await?;
        return Ok(Commit::Refused(refused));
    }
    let committed = write_all(&mut transaction, pending, folder, signing).await?;
    refused.extend(pending.claims_of_refused(&committed.stored));
    if !refused.is_empty() {
        transaction.rollback().await?;
        return Ok(Commit::Refused(refused));
    }
    transaction.commit().await?;
    Ok(Commit::Done(committed))
}

/// Writes pending records that rest on nothing, or nothing.
pub(crate) async fn commit(
    connection: &mut SqliteConnection,
    pending: &Pending,
    folder: &Folder,
    signing: &Signing,
) -> Result<Committed, WriteError> {
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
) -> Result<Committed, WriteError> {
    let mut committed = Committed::default();
    let mut sessions = Sessions::default();
    let mut refused = HashSet::new();
    for handle in &pending.touched {
        let Some(open) = folder.open.get(handle) else {
            continue;
        };
        let stored = match open.stored {
            Stored::Nothing => insert_call(connection, &open.draft, &signing.owner).await?,
            Stored::Row { position } => update_call(connection, &open.draft, position).await?,
            Stored::Refused => Stored::Refused,
        };
        match stored {
            Stored::Nothing | Stored::Refused => {
                refused.insert(*handle);
            }
            Stored::Row { position } => {
                if open.stored == Stored::Nothing {
                    sessions.count(&open.draft);
                }
                if open.draft.listed.settled.is_some() {
                    index_text(connection, &open.draft, position).await?;
                }
            }
        }
        committed.stored.push((*handle, stored));
    }
    sessions.write(connection).await?;
    let records: Vec<&Record> = pending
        .records
        .iter()
        .filter(|record| !refused.contains(&record.handle))
        .collect();
    committed.records = records.len() as u64;
    committed.tenants = append_records(connection, &records, signing).await?;
    write_seen(connection, &pending.seen).await?;
    Ok(committed)
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

async fn insert_call(
    connection: &mut SqliteConnection,
    draft: &Draft,
    owner: &str,
) -> Result<Stored, sqlx::Error> {
    let principal = &draft.principal;
    let position: Option<i64> = sqlx::query_scalar(
        "INSERT INTO call (tenant, id, session, session_kind, user, agent, asked_tool, tool,
             opened_at, started_at, read_only, redacted, terminal, settled_at, summary, owner)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
         ON CONFLICT DO NOTHING RETURNING position",
    )
    .bind(principal.tenant.as_str())
    .bind(draft.id.as_uuid().as_bytes().as_slice())
    .bind(principal.session.as_str())
    .bind(principal.session_kind.as_str())
    .bind(principal.user.as_str())
    .bind(principal.agent.as_str())
    .bind(&draft.listed.asked_tool)
    .bind(&draft.listed.tool)
    .bind(draft.listed.opened.0)
    .bind(draft.listed.started.map(|at| at.0))
    .bind(draft.listed.read_only)
    .bind(draft.redacted)
    .bind(draft.listed.settled.map(|(terminal, _)| terminal.as_str()))
    .bind(draft.listed.settled.map(|(_, at)| at.0))
    .bind(&draft.listed.summary)
    .bind(owner)
    .fetch_optional(connection)
    .await?;
    if position.is_none() {
        tracing::warn!(call = %draft.id, "a second call with this id is not recorded");
    }
    Ok(position.map_or(Stored::Refused, |position| Stored::Row { position }))
}

async fn update_call(
    connection: &mut SqliteConnection,
    draft: &Draft,
    position: i64,
) -> Result<Stored, sqlx::Error> {
    let updated = sqlx::query(
        "UPDATE call SET tool = ?2, started_at = ?3, read_only = ?4, terminal = ?5,
             settled_at = ?6, summary = ?7
         WHERE position = ?1 AND terminal IS NULL",
    )
    .bind(position)
    .bind(&draft.listed.tool)
    .bind(draft.listed.started.map(|at| at.0))
    .bind(draft.listed.read_only)
    .bind(draft.listed.settled.map(|(terminal, _)| terminal.as_str()))
    .bind(draft.listed.settled.map(|(_, at)| at.0))
    .bind(&draft.listed.summary)
    .execute(connection)
    .await?;
    if updated.rows_affected() == 1 {
        return Ok(Stored::Row { position });
    }
    tracing::warn!(call = %draft.id, "a second settlement of a call is ignored");
    Ok(Stored::Refused)
}

async fn index_text(
    connection: &mut SqliteConnection,
    draft: &Draft,
    position: i64,
) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO call_text (rowid, tenant, text) VALUES (?1, ?2, ?3)")
        .bind(position)
        .bind(tenant_token(&draft.principal.tenant))
        .bind(draft.search_text())
        .execute(connection)
        .await?;
    Ok(())
}

/// A tenant as one word that the tokenizer leaves whole.
pub(crate) fn tenant_token(tenant: &TenantId) -> String {
    let mut token = String::from("t");
    for byte in tenant.as_str().bytes() {
        // Writing to a `String` cannot fail.
        let _ = write!(token, "{byte:02x}");
    }
    token
}

/// Calls newly opened in a transaction, by session.
#[derive(Default)]
struct Sessions<'a> {
    by_session: BTreeMap<(&'a str, &'a str), SessionCount<'a>>,
}

struct SessionCount<'a> {
    draft: &'a Draft,
    first: i64,
    last: i64,
    calls: i64,
}

impl<'a> Sessions<'a> {
    fn count(&mut self, draft: &'a Draft) {
        let principal = &draft.principal;
        let key = (principal.tenant.as_str(), principal.session.as_str());
        let at = draft.listed.opened.0;
        let count = self.by_session.entry(key).or_insert(SessionCount {
            draft,
            first: at,
            last: at,
            calls: 0,
        });
        count.first = count.first.min(at);
        count.last = count.last.max(at);
        count.calls += 1;
    }

    async fn write(&self, connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        for ((tenant, session), count) in &self.by_session {
            let principal = &count.draft.principal;
            sqlx::query(
                "INSERT INTO session (tenant, id, kind, agent, first_at, last_at, calls)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                 ON CONFLICT (tenant, id) DO UPDATE SET
                     first_at = min(first_at, excluded.first_at),
                     last_at = max(last_at, excluded.last_at),
                     calls = calls + excluded.calls",
            )
            .bind(*tenant)
            .bind(*session)
            .bind(principal.session_kind.as_str())
            .bind(principal.agent.as_str())
            .bind(count.first)
            .bind(count.last)
            .bind(count.calls)
            .execute(&mut *connection)
            .await?;
        }
        Ok(())
    }
}

async fn append_records(
    connection: &mut SqliteConnection,
    records: &[&Record],
    signing: &Signing,
) -> Result<Vec<TenantId>, WriteError> {
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
    for chunk in chained.chunks(RECORDS_A_STATEMENT) {
        let mut insert = QueryBuilder::<Sqlite>::new(
            "INSERT INTO event (tenant, sequence, call, at, kind, body, hash) ",
        );
        insert.push_values(chunk, |mut row, (record, sequence, hash)| {
            row.push_bind(record.tenant.as_str())
                .push_bind(stored_sequence(*sequence))
                .push_bind(record.call.as_uuid().as_bytes().as_slice())
                .push_bind(record.at.0)
                .push_bind(record.kind)
                .push_bind(record.body.as_str())
                .push_bind(hash.as_slice());
        });
        insert.build().execute(&mut *connection).await?;
    }
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
    Ok(heads.into_keys().cloned().collect())
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
    // Going on from a forged end would sign it and hide what was cut off.
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
    for (key, version) in seen {
        sqlx::query(
            "INSERT INTO seen (tenant, session, session_kind, user, agent, path, version)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT (tenant, session, session_kind, user, agent, path)
             DO UPDATE SET version = excluded.version",
        )
        .bind(key.tenant.as_str())
        .bind(key.session.as_str())
        .bind(key.session_kind.as_str())
        .bind(key.user.as_str())
        .bind(key.agent.as_str())
        .bind(key.path.as_str())
        .bind(version.as_str())
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

/// SQLite counts in signed numbers; no chain reaches the end of them.
fn stored_sequence(sequence: u64) -> i64 {
    i64::try_from(sequence).unwrap_or(i64::MAX)
}
