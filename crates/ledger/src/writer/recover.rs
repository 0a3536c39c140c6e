//! Settles calls whose process is gone, each exactly once: as `unknown` if its start was recorded,
//! because nobody can say how it ended, and otherwise as `cancelled`, because nothing was changed.
//! Nothing is rerun from here; a host that wants to repeat calls that only read finds them in
//! [`Recovery::rerunnable`].

use std::{collections::BTreeSet, sync::Arc};

use haft_contract::{Arguments, CallId, Principal, TenantId, WorkspaceId, host::Timestamp};

use super::{
    BUSY_ATTEMPTS,
    fold::{OpenCalls, Pending},
    write::{self, Commit, WriteError, WriterMemory},
};
use crate::{
    convert,
    left_open::taken_up,
    message::Handle,
    open_error::OpenError,
    owner,
    recorded_call::{self, RecordedCall},
    store::{Connection, Scope, StoreError, values},
};

/// How many calls one transaction settles.
const CALLS_A_TRANSACTION: i64 = 500;

/// What opening the record found and settled.
#[derive(Debug, Clone, Default)]
pub struct Recovery {
    /// Calls that had started, now `unknown`.
    pub settled_unknown: Vec<CallId>,
    /// Calls whose start was never recorded, now `cancelled`.
    pub never_started: Vec<CallId>,
    /// Whose calls these were.
    pub tenants: BTreeSet<TenantId>,
    /// The calls in `settled_unknown` that only read, with what is needed to rerun them (as new
    /// calls). A call whose request held a secret is not included: the record does not have it.
    pub rerunnable: Vec<InterruptedCall>,
    /// What the record has lost, according to its high-water mark: it was emptied, removed or
    /// restored from an older copy. Each is a sentence for people.
    pub lost: Vec<String>,
}

/// An interrupted call that can be requested again.
#[derive(Debug, Clone)]
pub struct InterruptedCall {
    /// The id of the interrupted call.
    pub id: CallId,
    /// The tool's name as the model wrote it.
    pub tool: String,
    /// The arguments as received.
    pub arguments: Arguments,
    /// Who asked.
    pub principal: Arc<Principal>,
    /// The workspace it was meant to run in.
    pub workspace: WorkspaceId,
}

impl Recovery {
    /// Whether nothing was left open and nothing is missing.
    pub fn is_empty(&self) -> bool {
        self.settled_unknown.is_empty() && self.never_started.is_empty() && self.lost.is_empty()
    }
}

/// The number of a writer's name; written if it is new.
pub(crate) async fn register(
    connection: &mut dyn Connection,
    writer: &str,
    now: Timestamp,
) -> Result<i64, StoreError> {
    connection
        .execute(
            "INSERT INTO writer (name, pid, boot, opened_at) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (name) DO UPDATE SET pid = ?2, boot = ?3, opened_at = ?4",
            values![
                writer,
                i64::from(std::process::id()),
                &owner::boot_id(),
                now.0
            ],
        )
        .await?;
    connection
        .number("SELECT id FROM writer WHERE name = ?1", &values![writer])
        .await
}

/// Settles the calls that were left open under these names, which this process holds.
pub(crate) async fn recover(
    connection: &mut dyn Connection,
    gone: &[i64],
    open: &mut OpenCalls,
    memory: &mut WriterMemory,
    now: Timestamp,
) -> Result<Recovery, OpenError> {
    let mut recovery = Recovery::default();
    for writer in gone {
        loop {
            let calls = left_by(connection, *writer).await?;
            if calls.is_empty() {
                break;
            }
            settle(connection, open, memory, calls, *writer, now, &mut recovery)
                .await
                .map_err(|error| match error {
                    WriteError::Database(error) => OpenError::Database(error),
                    WriteError::Tampered => OpenError::Tampered,
                })?;
        }
    }
    Ok(recovery)
}

/// Calls that are open under a writer's name, with the names of their tenants.
async fn left_by(
    connection: &mut dyn Connection,
    writer: i64,
) -> Result<Vec<RecordedCall>, StoreError> {
    connection.act_for(Scope::Every).await?;
    let rows = connection
        .query(
            "SELECT o.listed, t.name FROM open_call o JOIN tenant t ON t.id = o.tenant
             WHERE o.writer = ?1 ORDER BY o.listed LIMIT ?2",
            &values![writer, CALLS_A_TRANSACTION],
        )
        .await?;
    let mut calls = Vec::with_capacity(rows.len());
    for row in &rows {
        let listed: i64 = row.get("listed")?;
        for call in recorded_call::load_listed(connection, row.get("name")?, &[listed]).await? {
            if call.terminal.is_none() {
                calls.push(call);
            } else {
                // It ended; whoever noted it as open did not write it.
                forget_open(connection, writer, listed).await?;
            }
        }
    }
    Ok(calls)
}

async fn forget_open(
    connection: &mut dyn Connection,
    writer: i64,
    listed: i64,
) -> Result<(), StoreError> {
    let values = values![writer, listed];
    connection.execute(write::CALL_ENDED, values).await?;
    Ok(())
}

async fn settle(
    connection: &mut dyn Connection,
    open: &mut OpenCalls,
    memory: &mut WriterMemory,
    calls: Vec<RecordedCall>,
    writer: i64,
    now: Timestamp,
    recovery: &mut Recovery,
) -> Result<(), WriteError> {
    let mut pending = Pending::default();
    for (index, recorded) in (0_u64..).zip(calls) {
        let mut call = taken_up(&recorded)?;
        call.left_by = Some(writer);
        call.state.last = now.max(call.state.last);
        if recorded.is_damaged {
            tracing::error!(call = %call.id, "a call that was left open cannot be read");
            // Nobody can tell whether it began.
            call.state.started = Some(now);
        }
        let who = recorded.principal().ok();
        recovery.tenants.extend(who.map(|who| who.tenant.clone()));
        if call.state.started.is_some() {
            recovery.settled_unknown.push(call.id);
            recovery.rerunnable.extend(rerunnable(&recorded));
        } else {
            recovery.never_started.push(call.id);
        }
        open.settle_adopted(Handle::adopted(index), call, &mut pending);
    }
    let mut busy_attempts = 0;
    loop {
        match write::commit_group(connection, &mut pending, open, memory, now).await {
            Ok(Commit::Done(report)) => {
                memory.chains.committed(&report.heads);
                open.committed(&pending, &report);
                return Ok(());
            }
            // Nobody else settles what this process holds the name of.
            Ok(Commit::RefusedCalls(_) | Commit::RefusedStarts(_)) => {
                return Err(WriteError::Tampered);
            }
            Err(WriteError::Database(StoreError::Busy(_))) if busy_attempts < BUSY_ATTEMPTS => {
                busy_attempts += 1;
                memory.undo();
                connection.rollback().await?;
            }
            Err(error) => return Err(error),
        }
    }
}

/// A call that only read, with what is needed to ask for it again.
fn rerunnable(recorded: &RecordedCall) -> Option<InterruptedCall> {
    let opened = recorded.opened()?;
    // A request without all of it cannot be repeated.
    let is_whole = opened.body.get("left_out").is_none() && !recorded.is_damaged;
    if !recorded.has_effect("read_only") || !is_whole {
        return None;
    }
    let principal = recorded.principal().ok()?;
    let request = convert::recorded_request(recorded.id, principal, &opened.body)?;
    Some(InterruptedCall {
        id: recorded.id,
        tool: request.tool,
        arguments: request.arguments,
        principal: request.principal,
        workspace: request.workspace,
    })
}
