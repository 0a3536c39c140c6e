//! Settles calls whose process is gone, each exactly once: as `unknown` if its start was recorded,
//! because nobody can say how it ended, and otherwise as `cancelled`, because nothing was changed.
//! Nothing is rerun from here; a host that wants to repeat calls that only read finds them in
//! [`Recovery::rerunnable`].

use std::sync::Arc;

use haft_contract::{
    AgentId, Arguments, CallId, CallRequest, ErrorKind, Facts, Outcome, Principal, SessionId,
    TenantId, Terminal, UserId, WorkspaceId, host::Timestamp, outcome::Failure,
};
use sqlx::{Row as _, SqliteConnection, sqlite::SqliteRow};
use uuid::Uuid;

use super::{
    connect::OpenError,
    fold::{Folder, Pending},
    write::{self, Signing, WriteError},
};
use crate::{
    convert, directory::PrivateDirectory, draft::CallDraft, listed::ListedCall, message::Handle,
    owner,
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

/// The outcome of a call that nobody is left to settle.
pub(crate) fn interrupted(draft: &CallDraft) -> Outcome {
    let (terminal, kind, message, hint) = if draft.listed.started.is_some() {
        (
            Terminal::Unknown,
            ErrorKind::Unavailable,
            "the process that ran this call ended before it recorded the result; it may have taken effect",
            "look at what it was to change before you ask for it again",
        )
    } else {
        (
            Terminal::Cancelled,
            ErrorKind::Cancelled,
            "the process that accepted this call ended before starting it; nothing was changed",
            "ask for it again if it is still wanted",
        )
    };
    Outcome {
        call: draft.id,
        tool: None,
        terminal,
        content: Vec::new(),
        structured: None,
        error: Some(Failure {
            kind,
            message: message.to_owned(),
            at: None,
            hint: Some(hint.to_owned()),
        }),
        facts: Facts::default(),
    }
}

/// Registers this instance as a possible owner of open calls. Its lock is already held.
pub(crate) async fn register(
    connection: &mut SqliteConnection,
    owner: &str,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO owner (id, pid, boot, opened_at) VALUES (?1, ?2, ?3, ?4)")
        .bind(owner)
        .bind(i64::from(std::process::id()))
        .bind(owner::boot_id())
        .bind(now.0)
        .execute(connection)
        .await?;
    Ok(())
}

/// Removes an owner without open calls; returns whether it did.
pub(crate) async fn unregister(
    connection: &mut SqliteConnection,
    owner: &str,
) -> Result<bool, sqlx::Error> {
    let removed = sqlx::query(
        "DELETE FROM owner WHERE id = ?1 AND NOT EXISTS
             (SELECT 1 FROM call WHERE call.owner = ?1 AND call.terminal IS NULL)",
    )
    .bind(owner)
    .execute(connection)
    .await?;
    Ok(removed.rows_affected() == 1)
}

/// Settles the calls of every owner that is gone.
pub(crate) async fn recover(
    connection: &mut SqliteConnection,
    directory: &PrivateDirectory,
    folder: &mut Folder,
    signing: &Signing,
    now: Timestamp,
) -> Result<Recovery, OpenError> {
    let mut recovery = Recovery::default();
    let owners: Vec<String> = sqlx::query_scalar("SELECT id FROM owner WHERE id <> ?1")
        .bind(&signing.owner)
        .fetch_all(&mut *connection)
        .await?;
    for id in &owners {
        // Held until its calls are settled, so that no other process settles them too.
        let Some(_gone) = owner::take_over(directory, id)? else {
            continue;
        };
        loop {
            let calls = open_calls(connection, id).await?;
            if calls.is_empty() {
                break;
            }
            settle(connection, folder, signing, calls, now, &mut recovery)
                .await
                .map_err(|error| match error {
                    WriteError::Database(error) => OpenError::Database(error),
                    WriteError::Tampered => OpenError::Tampered,
                })?;
        }
        if unregister(connection, id).await? {
            owner::forget(directory, id);
        }
    }
    // Lock files of processes that ended before they registered. None is registering now: one
    // process registers at a time, and it is this one's turn.
    for id in owner::names(directory)? {
        if id != signing.owner
            && !owners.contains(&id)
            && owner::take_over(directory, &id)?.is_some()
        {
            owner::forget(directory, &id);
        }
    }
    Ok(recovery)
}

/// A call another process left open.
pub(super) struct LeftOpen {
    pub(super) position: i64,
    pub(super) draft: CallDraft,
    request: Option<CallRequest>,
}

async fn open_calls(
    connection: &mut SqliteConnection,
    owner: &str,
) -> Result<Vec<LeftOpen>, sqlx::Error> {
    let rows = sqlx::query(
        "SELECT c.*, e.body AS opened_body FROM call c
         LEFT JOIN event e ON e.tenant = c.tenant AND e.call = c.id AND e.kind = 'opened'
         WHERE c.owner = ?1 AND c.terminal IS NULL ORDER BY c.position LIMIT ?2",
    )
    .bind(owner)
    .bind(CALLS_A_TRANSACTION)
    .fetch_all(connection)
    .await?;
    rows.iter().map(left_open).collect()
}

async fn settle(
    connection: &mut SqliteConnection,
    folder: &mut Folder,
    signing: &Signing,
    calls: Vec<LeftOpen>,
    now: Timestamp,
    recovery: &mut Recovery,
) -> Result<(), WriteError> {
    let mut pending = Pending::default();
    for (index, mut call) in (0_u64..).zip(calls) {
        let id = call.draft.id;
        call.draft.last = now.max(call.draft.last);
        if call.draft.listed.started.is_some() {
            recovery.settled_unknown.push(id);
            if let Some(request) = call.request
                && call.draft.listed.read_only
                && !call.draft.redacted
            {
                recovery.rerunnable.push(InterruptedCall {
                    id,
                    tool: request.tool,
                    arguments: request.arguments,
                    principal: request.principal,
                    workspace: request.workspace,
                });
            }
        } else {
            recovery.never_started.push(id);
        }
        let handle = Handle::adopted(index);
        folder.adopt(handle, call.draft, call.position);
        pending.settle_adopted(folder, handle);
    }
    let committed = write::commit(connection, &pending, folder, signing).await?;
    folder.committed(&pending, &committed);
    Ok(())
}

pub(super) fn left_open(row: &SqliteRow) -> Result<LeftOpen, sqlx::Error> {
    let unreadable = |what: &str| sqlx::Error::Decode(format!("a call's {what}").into());
    let id: Vec<u8> = row.try_get("id")?;
    let id = Uuid::from_slice(&id).map_err(|_| unreadable("id"))?;
    let body: Option<String> = row.try_get("opened_body")?;
    let request = body
        .as_deref()
        .and_then(|body| convert::request_from(id.into(), body));
    let principal = match &request {
        Some(request) => Arc::clone(&request.principal),
        // The request was too large to keep, but its row still names the principal.
        None => Arc::new(principal_of(row)?.ok_or_else(|| unreadable("principal"))?),
    };
    let started: Option<i64> = row.try_get("started_at")?;
    let opened = Timestamp(row.try_get("opened_at")?);
    let draft = CallDraft {
        id: CallId::from(id),
        principal,
        listed: ListedCall {
            workspace: row.try_get("workspace")?,
            asked_tool: row.try_get("asked_tool")?,
            tool: row.try_get("tool")?,
            opened,
            started: started.map(Timestamp),
            read_only: row.try_get("read_only")?,
            settled: None,
            summary: row.try_get("summary")?,
        },
        redacted: row.try_get("redacted")?,
        words: String::new(),
        last: started.map_or(opened, Timestamp),
    };
    Ok(LeftOpen {
        position: row.try_get("position")?,
        draft,
        request,
    })
}

fn principal_of(row: &SqliteRow) -> Result<Option<Principal>, sqlx::Error> {
    let text = |column: &str| row.try_get::<String, _>(column);
    let (tenant, user, agent) = (text("tenant")?, text("user")?, text("agent")?);
    let (session, kind) = (text("session")?, text("session_kind")?);
    let parse = || {
        let user = UserId::parse(&user).ok()?;
        let agent = AgentId::parse(&agent).ok()?;
        let session = SessionId::parse(&session).ok()?;
        let mut principal = Principal::local(user, agent, session);
        principal.tenant = TenantId::parse(&tenant).ok()?;
        principal.session_kind = convert::session_kind(&kind)?;
        Some(principal)
    };
    Ok(parse())
}
