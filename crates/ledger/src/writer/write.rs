//! One transaction: the rows of calls, what they used, and the signed end of each chain, all or
//! nothing.
//!
//! Events were folded and encoded before (`fold.rs`). Nobody else appends to this writer's chains, so
//! their ends are memory (`chains.rs`).

use std::collections::{BTreeSet, HashMap, HashSet};

use haft_contract::{
    TenantId,
    host::{LedgerError, Timestamp},
    ops::FileVersion,
};
use uuid::Uuid;

use super::{
    chains::Chains,
    checked_start::Refusal,
    fold::{OpenCalls, Pending, Step},
};
use crate::{
    accepted,
    body::Form,
    chain::{ChainName, Hash, Head, Link},
    change::ChangeContext,
    message::{CallHolder, Handle, SeenKey},
    names::{Names, PrincipalIds},
    open_call::{CallInStore, OpenCall},
    recorded_call,
    store::{Connection, Scope, StoreError, Value, values},
};

pub(super) const INSERT_ROW: &str =
    "INSERT INTO record (position, tenant, session, principal, call, part, listed, at,
         terminal, writer, sequence, form, body, hash)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
     ON CONFLICT DO NOTHING";

const OPEN_CALL: &str =
    "INSERT INTO open_call (writer, listed, tenant, call) VALUES (?1, ?2, ?3, ?4)";

pub(super) const CALL_ENDED: &str = "DELETE FROM open_call WHERE writer = ?1 AND listed = ?2";

pub(super) const PROVIDER_USED: &str =
    "INSERT INTO provider_used (tenant, session, provider) VALUES (?1, ?2, ?3)
     ON CONFLICT DO NOTHING";

pub(super) const APPROVAL_USED: &str =
    "INSERT INTO approval_used (tenant, approval, call) VALUES (?1, ?2, ?3)
     ON CONFLICT DO NOTHING";

const NOTE_SEEN: &str =
    "INSERT INTO seen (tenant, session, session_kind, person, agent, workspace, path, version)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
     ON CONFLICT (tenant, session, session_kind, person, agent, workspace, path)
     DO UPDATE SET version = excluded.version";

/// What the writer remembers between transactions.
pub(crate) struct WriterMemory {
    /// Signs rows.
    pub(crate) key: [u8; 32],
    pub(crate) chains: Chains,
    pub(crate) names: Names,
    /// Providers that sessions are known to have used, by the numbers of tenant and session.
    pub(crate) providers: HashSet<(i64, i64, String)>,
}

impl WriterMemory {
    /// The last transaction was undone, so what it wrote is not there.
    pub(crate) fn undo(&mut self) {
        self.chains.undo();
        self.names.forget();
        self.providers.clear();
    }
}

/// How many used providers are memory. When there are more, all are forgotten.
const MAX_PROVIDERS: usize = 16_384;

/// What a transaction did.
#[derive(Debug, Default)]
pub(crate) struct CommitReport {
    pub(crate) stored: Vec<(Handle, CallInStore)>,
    /// Rows written.
    pub(crate) rows: u64,
    /// The new ends of the chains that grew.
    pub(crate) heads: Vec<(TenantId, Head)>,
}

/// Why a transaction was not committed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    #[error("the database refused")]
    Database(#[from] StoreError),
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
    RefusedStarts(Vec<(u64, LedgerError)>),
    /// Nothing was written: these calls are somebody else's. Without them the rest can be written.
    RefusedCalls(Vec<Handle>),
}

/// Writes everything pending, or nothing. Questions and grants are read under the lock that keeps
/// every other process from changing them meanwhile.
pub(crate) async fn commit_group(
    connection: &mut dyn Connection,
    pending: &mut Pending,
    open: &OpenCalls,
    memory: &mut WriterMemory,
    now: Timestamp,
) -> Result<Commit, WriteError> {
    connection.begin().await?;
    for lock in pending.locks() {
        connection.lock(lock).await?;
    }
    let mut refused = Vec::new();
    pending.woken.clear();
    pending.grants_changed.clear();
    for step in &mut pending.steps {
        let mut changing = ChangeContext {
            connection,
            key: &memory.key,
            now,
            woken: &mut pending.woken,
            grants_changed: &mut pending.grants_changed,
        };
        match step {
            Step::Change(job) => job.run(&mut changing).await?,
            Step::Start(start) => match (start.use_up(&mut changing).await?, &start.refusal) {
                (Ok(()), _) => {}
                (Err(error), Refusal::NotRecorded(_)) => refused.push((start.number, error)),
                (Err(error), Refusal::TooLate) => {
                    tracing::error!(call = %start.call, %error, "a call was started without");
                }
            },
        }
    }
    if !refused.is_empty() {
        connection.rollback().await?;
        return Ok(Commit::RefusedStarts(refused));
    }
    match write_rows(connection, pending, open, memory).await? {
        Rows::Written(report) => {
            write_seen(connection, &pending.seen).await?;
            connection.commit().await?;
            Ok(Commit::Done(report))
        }
        Rows::Refused(calls) => {
            connection.rollback().await?;
            Ok(Commit::RefusedCalls(calls))
        }
    }
}

enum Rows {
    Written(CommitReport),
    Refused(Vec<Handle>),
}

/// One row to write.
struct NewRow<'a> {
    handle: Handle,
    call: &'a OpenCall,
    id: Uuid,
    ids: PrincipalIds,
    position: i64,
    part: i64,
    listed: i64,
    terminal: Option<i64>,
    form: Form,
    body: Vec<u8>,
    sequence: u64,
    hash: Hash,
}

async fn write_rows(
    connection: &mut dyn Connection,
    pending: &Pending,
    open: &OpenCalls,
    memory: &mut WriterMemory,
) -> Result<Rows, WriteError> {
    let tenants = tenants_of(pending, open);
    let scope: Vec<&str> = tenants.iter().map(|tenant| tenant.as_str()).collect();
    connection.act_for(Scope::Tenants(&scope)).await?;
    let superseded = superseded(connection, pending, open).await?;
    if !superseded.is_empty() {
        return Ok(Rows::Refused(superseded));
    }
    let mut rows = new_rows(connection, pending, open, memory).await?;
    for row in &mut rows {
        let tenant = &row.call.principal.tenant;
        let writer = memory.chains.name().to_owned();
        let chain = memory
            .chains
            .of(connection, tenant, row.ids.tenant, &memory.key)
            .await?;
        row.sequence = chain.head.next();
        let id = row.id;
        let link = Link {
            chain: ChainName {
                tenant: tenant.as_str(),
                writer: &writer,
            },
            sequence: row.sequence,
            call: id.as_bytes(),
            part: row.part,
            listed: row.listed,
            principal: &row.ids.stored,
            at: row.call.events.at().0,
            terminal: row.terminal.unwrap_or(0),
            form: row.form.number(),
            body: &row.body,
        };
        chain.head.advance(&link);
        row.hash = chain.head.hash;
    }
    let writer = memory.chains.writer();
    if let Some(refused) = insert(connection, &rows, writer).await? {
        return Ok(Rows::Refused(refused));
    }
    note_open_calls(connection, &rows, writer).await?;
    note_used(connection, &rows, &mut memory.providers).await?;
    let heads = memory.chains.sign(connection, &memory.key).await?;
    let stored = rows.iter().map(|row| {
        let stored = match row.call.stored {
            CallInStore::Refused => CallInStore::Refused,
            CallInStore::Nothing | CallInStore::Rows { .. } => CallInStore::Rows {
                listed: row.listed,
                next_part: row.part + 1,
            },
        };
        (row.handle, stored)
    });
    Ok(Rows::Written(CommitReport {
        stored: stored.collect(),
        rows: rows.len() as u64,
        heads,
    }))
}

/// The tenants whose rows and seen files are written.
fn tenants_of<'a>(pending: &'a Pending, open: &'a OpenCalls) -> BTreeSet<&'a TenantId> {
    let due = pending.due.iter().filter_map(|handle| open.get(*handle));
    let due = due.map(|call| &call.principal.tenant);
    due.chain(pending.seen.keys().map(|key| &key.tenant))
        .collect()
}

/// The calls whose claim does not hold any more. A call that ended needs its request no longer.
async fn superseded(
    connection: &mut dyn Connection,
    pending: &Pending,
    open: &OpenCalls,
) -> Result<Vec<Handle>, StoreError> {
    let mut superseded = Vec::new();
    for handle in &pending.due {
        let Some(call) = open.get(*handle) else {
            continue;
        };
        if call.stored == CallInStore::Refused {
            continue;
        }
        let Some(epoch) = call.holder.claim() else {
            continue;
        };
        let tenant = &call.principal.tenant;
        if !accepted::still_holds(connection, tenant, call.id, epoch).await? {
            superseded.push(*handle);
        } else if call.state.settled.is_some() {
            accepted::forget_request(connection, tenant, call.id).await?;
        }
    }
    Ok(superseded)
}

async fn new_rows<'a>(
    connection: &mut dyn Connection,
    pending: &Pending,
    open: &'a OpenCalls,
    memory: &mut WriterMemory,
) -> Result<Vec<NewRow<'a>>, StoreError> {
    let mut rows: Vec<NewRow<'_>> = Vec::with_capacity(pending.due.len());
    let due = pending.due.iter().filter_map(|handle| {
        let call = open.get(*handle).filter(|call| !call.events.is_empty());
        call.map(|call| (*handle, call))
    });
    let due: Vec<(Handle, &OpenCall)> = due.collect();
    // Positions are known before the rows are written, so that nothing needs to be read back.
    let positions = connection.next_positions(due.len()).await?;
    let principals = due.iter().map(|(_, call)| &call.principal);
    let ids = memory.names.of_all(connection, principals).await?;
    for (((handle, call), position), ids) in due.into_iter().zip(positions).zip(ids) {
        let terminal = call.state.settled.map(recorded_call::terminal_number);
        let (part, listed, terminal) = match call.stored {
            CallInStore::Nothing => (recorded_call::FIRST_PART, position, terminal),
            CallInStore::Rows { listed, .. } if terminal.is_some() => {
                (recorded_call::LAST_PART, listed, terminal)
            }
            CallInStore::Rows { listed, next_part } => (next_part, listed, None),
            CallInStore::Refused => {
                let evidence = recorded_call::place_of_evidence(connection, ids.tenant, call.id);
                let (part, listed) = evidence.await?;
                (part, listed, None)
            }
        };
        let (form, body) = call.events.body();
        rows.push(NewRow {
            handle,
            call,
            id: call.id.as_uuid(),
            ids,
            position,
            part,
            listed,
            terminal,
            form,
            body,
            sequence: 0,
            hash: [0; 32],
        });
    }
    Ok(rows)
}

/// Inserts the rows. Returns the calls that are somebody else's, if there are any: then some rows are
/// missing, and the transaction must be undone.
async fn insert(
    connection: &mut dyn Connection,
    rows: &[NewRow<'_>],
    writer: i64,
) -> Result<Option<Vec<Handle>>, StoreError> {
    let values: Vec<Vec<Value<'_>>> = rows
        .iter()
        .map(|row| {
            values![
                row.position,
                row.ids.tenant,
                row.ids.session,
                row.ids.principal,
                row.id.as_bytes(),
                row.part,
                row.listed,
                row.call.events.at().0,
                row.terminal,
                writer,
                stored_sequence(row.sequence),
                row.form.number(),
                &row.body,
                &row.hash,
            ]
            .to_vec()
        })
        .collect();
    let inserted = connection.execute_all(INSERT_ROW, &values).await?;
    if inserted == rows.len() as u64 {
        return Ok(None);
    }
    let mut refused = Vec::new();
    for row in rows {
        let is_there = connection
            .number(
                "SELECT count(*) FROM record WHERE position = ?1",
                &values![row.position],
            )
            .await?;
        if is_there == 0 {
            tracing::warn!(call = %row.call.id, "a call with this id is recorded already");
            refused.push(row.handle);
        }
    }
    Ok(Some(refused))
}

/// Keeps the list of calls that are open in the store.
async fn note_open_calls(
    connection: &mut dyn Connection,
    rows: &[NewRow<'_>],
    writer: i64,
) -> Result<(), StoreError> {
    // What nobody or a claim holds is settled by its claimant, not by a recovery.
    let own = |row: &&NewRow<'_>| row.call.holder == CallHolder::ThisProcess;
    for row in rows.iter().filter(own) {
        match (row.part, row.terminal) {
            (recorded_call::FIRST_PART, None) => {
                let values = values![writer, row.listed, row.ids.tenant, row.id.as_bytes()];
                connection.execute(OPEN_CALL, values).await?;
            }
            (recorded_call::LAST_PART, Some(_)) => {
                let writer = row.call.left_by.unwrap_or(writer);
                let values = values![writer, row.listed];
                connection.execute(CALL_ENDED, values).await?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Notes which providers sessions used, and which approvals calls were started with; in order, so that
/// two writers who note the same do not wait for each other.
async fn note_used(
    connection: &mut dyn Connection,
    rows: &[NewRow<'_>],
    known: &mut HashSet<(i64, i64, String)>,
) -> Result<(), StoreError> {
    let mut providers = BTreeSet::new();
    let mut approvals = BTreeSet::new();
    for row in rows {
        let state = &row.call.state;
        if row.call.stored == CallInStore::Refused {
            continue;
        }
        if let Some(provider) = state.provider_used() {
            let used = (
                row.ids.tenant,
                row.ids.session,
                provider.as_str().to_owned(),
            );
            if !known.contains(&used) {
                providers.insert(used);
            }
        }
        if let Some(approval) = state.approval {
            let tenant = &row.call.principal.tenant;
            approvals.insert((tenant, approval.to_string(), row.id));
        }
    }
    for used in providers {
        let (tenant, session, provider) = &used;
        let values = values![*tenant, *session, provider];
        connection.execute(PROVIDER_USED, values).await?;
        if known.len() >= MAX_PROVIDERS {
            known.clear();
        }
        known.insert(used);
    }
    for (tenant, approval, call) in approvals {
        let values = values![tenant.as_str(), &approval, call.as_bytes()];
        connection.execute(APPROVAL_USED, values).await?;
    }
    Ok(())
}

async fn write_seen(
    connection: &mut dyn Connection,
    seen: &HashMap<SeenKey, FileVersion>,
) -> Result<(), StoreError> {
    let mut seen: Vec<_> = seen
        .iter()
        .map(|(key, version)| {
            [
                key.tenant.as_str(),
                key.session.as_str(),
                key.session_kind.as_str(),
                key.user.as_str(),
                key.agent.as_str(),
                key.workspace.as_str(),
                key.path.as_str(),
                version.as_str(),
            ]
        })
        .collect();
    // As with names: two writers who note the same files do not wait for each other.
    seen.sort_unstable();
    let rows: Vec<Vec<Value<'_>>> = seen
        .iter()
        .map(|texts| texts.iter().map(|text| Value::from(*text)).collect())
        .collect();
    if !rows.is_empty() {
        connection.execute_all(NOTE_SEEN, &rows).await?;
    }
    Ok(())
}

/// The store's numbers are signed; no chain gets that long.
pub(super) fn stored_sequence(sequence: u64) -> i64 {
    i64::try_from(sequence).unwrap_or(i64::MAX)
}
