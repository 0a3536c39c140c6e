//! The rows of calls: their list entries, their sessions, and their search words.
//!
//! Part of the one transaction in `write.rs`. Rows were folded before (`draft.rs`).

use std::{
    collections::{BTreeMap, HashSet},
    fmt::Write as _,
    sync::Arc,
};

use haft_contract::TenantId;
use sqlx::{Row as _, SqliteConnection};

use super::{
    accepted,
    fold::{CallInStore, Folder, Pending},
    rows::Rows,
};
use crate::{
    draft::CallDraft,
    message::{CallHolder, Handle},
};

static INSERT_CALLS: Rows<18> = Rows::new(
    "INSERT INTO call (position, tenant, id, session, session_kind, user, agent, workspace, asked_tool, tool,
         opened_at, started_at, read_only, redacted, terminal, settled_at, summary, owner)",
    // Only for a duplicate id: a duplicate position is an error.
    "ON CONFLICT (tenant, id) DO NOTHING",
);

static UPDATE_CALLS: Rows<7> = Rows::new(
    "WITH now (position, tool, started_at, read_only, terminal, settled_at, summary) AS (",
    ") UPDATE call SET tool = now.tool, started_at = now.started_at, read_only = now.read_only,
         terminal = now.terminal, settled_at = now.settled_at, summary = now.summary
     FROM now WHERE call.position = now.position AND call.terminal IS NULL RETURNING position",
);

static INSERT_TEXTS: Rows<3> = Rows::new("INSERT INTO call_text (rowid, tenant, text)", "");

static COUNT_SESSIONS: Rows<7> = Rows::new(
    "INSERT INTO session (tenant, id, kind, agent, first_at, last_at, calls)",
    "ON CONFLICT (tenant, id) DO UPDATE SET
         first_at = min(first_at, excluded.first_at),
         last_at = max(last_at, excluded.last_at),
         calls = calls + excluded.calls",
);

/// The result of writing the rows of calls.
pub(super) struct Calls {
    pub(super) stored: Vec<(Handle, CallInStore)>,
    /// Calls that get no further records.
    pub(super) refused: HashSet<Handle>,
    /// Refused calls whose claim was superseded since the last check.
    pub(super) superseded: HashSet<Handle>,
}

/// One call's row to write, and its position.
struct CallRow<'a> {
    handle: Handle,
    draft: &'a CallDraft,
    position: i64,
    holder: CallHolder,
}

/// Writes the rows of new and updated calls, their search words if they ended, and their sessions.
/// A call that began and ended since the last transaction gets its row once.
pub(super) async fn write_calls(
    connection: &mut SqliteConnection,
    pending: &Pending,
    folder: &Folder,
    owner: &str,
) -> Result<Calls, sqlx::Error> {
    let mut calls = Calls {
        stored: Vec::with_capacity(pending.touched.len()),
        refused: HashSet::new(),
        superseded: HashSet::new(),
    };
    let (mut new, mut known) = (Vec::new(), Vec::new());
    for handle in &pending.touched {
        let Some(open) = folder.open.get(handle) else {
            continue;
        };
        let row = |position| CallRow {
            handle: *handle,
            draft: &open.draft,
            position,
            holder: open.holder,
        };
        if open.stored != CallInStore::Refused
            && let Some(epoch) = open.holder.claim()
        {
            let (tenant, call) = (&open.draft.principal.tenant, open.draft.id);
            if !accepted::holds(&mut *connection, tenant, call, epoch).await? {
                calls.superseded.insert(*handle);
                calls.refuse(*handle);
                continue;
            }
            if open.draft.listed.settled.is_some() {
                accepted::forget_request(connection, tenant, call).await?;
            }
        }
        match open.stored {
            CallInStore::Nothing => new.push(row(0)),
            CallInStore::Row { position } => known.push(row(position)),
            CallInStore::Refused => calls.refuse(*handle),
        }
    }
    let inserted = insert_calls(connection, new, owner, &mut calls).await?;
    let updated = update_calls(connection, known, &mut calls).await?;
    count_sessions(connection, &inserted).await?;
    let ended: Vec<&CallRow<'_>> = inserted
        .iter()
        .chain(&updated)
        .filter(|call| call.draft.listed.settled.is_some())
        .collect();
    index_texts(connection, &ended).await?;
    Ok(calls)
}

impl Calls {
    fn refuse(&mut self, handle: Handle) {
        self.refused.insert(handle);
        self.stored.push((handle, CallInStore::Refused));
    }

    /// Keeps the rows to write; the others are refused.
    fn sort<'a>(
        &mut self,
        rows: Vec<CallRow<'a>>,
        is_written: impl Fn(i64) -> bool,
        otherwise: &'static str,
    ) -> Vec<CallRow<'a>> {
        let mut kept = rows;
        kept.retain(|call| {
            let position = call.position;
            if is_written(position) {
                self.stored
                    .push((call.handle, CallInStore::Row { position }));
                return true;
            }
            tracing::warn!(call = %call.draft.id, "{otherwise}");
            self.refuse(call.handle);
            false
        });
        kept
    }
}

/// Inserts calls in the order they were opened. One with a duplicate id is refused.
async fn insert_calls<'a>(
    connection: &mut SqliteConnection,
    mut new: Vec<CallRow<'a>>,
    owner: &str,
    calls: &mut Calls,
) -> Result<Vec<CallRow<'a>>, sqlx::Error> {
    if new.is_empty() {
        return Ok(new);
    }
    // Positions are assigned here and not by SQLite, so that nothing needs to be read back. Nobody
    // else inserts before this transaction ends. Both places are checked, as SQLite would: a
    // position is never assigned twice, even in a store that somebody repaired.
    let last: i64 = sqlx::query_scalar(
        "SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'call'), 0),
                    coalesce((SELECT max(position) FROM call), 0))",
    )
    .fetch_one(&mut *connection)
    .await?;
    for (call, position) in new.iter_mut().zip(last + 1..) {
        call.position = position;
    }
    let (owner, nobody): (Arc<str>, Arc<str>) = (Arc::from(owner), Arc::from(""));
    let inserted = INSERT_CALLS
        .execute(connection, &new, |call, row| {
            let (draft, principal) = (call.draft, &call.draft.principal);
            row.add(call.position)
                .add(principal.tenant.as_str())
                .add(draft.id.as_uuid().as_bytes().as_slice())
                .add(principal.session.as_str())
                .add(principal.session_kind.as_str())
                .add(principal.user.as_str())
                .add(principal.agent.as_str())
                .add(draft.listed.workspace.as_str())
                .add(draft.listed.asked_tool.as_str())
                .add(draft.listed.tool.as_deref())
                .add(draft.listed.opened.0)
                .add(draft.listed.started.map(|at| at.0))
                .add(draft.listed.read_only)
                .add(draft.redacted)
                .add(draft.listed.settled.map(|(terminal, _)| terminal.as_str()))
                .add(draft.listed.settled.map(|(_, at)| at.0))
                .add(draft.listed.summary.as_str())
                .add(match call.holder {
                    CallHolder::ThisProcess => Arc::clone(&owner),
                    // Owned by nobody: no recovery settles it, and its claimant continues it.
                    CallHolder::Nobody | CallHolder::Claim(_) => Arc::clone(&nobody),
                });
        })
        .await?;
    let written: Option<HashSet<i64>> = if inserted == new.len() as u64 {
        None
    } else {
        let written = sqlx::query_scalar("SELECT position FROM call WHERE position > ?1")
            .bind(last)
            .fetch_all(&mut *connection)
            .await?;
        Some(written.into_iter().collect())
    };
    Ok(calls.sort(
        new,
        |position| {
            written
                .as_ref()
                .is_none_or(|written| written.contains(&position))
        },
        "a second call with this id is not recorded",
    ))
}

/// Updates calls that are listed. One that somebody else settled is refused.
async fn update_calls<'a>(
    connection: &mut SqliteConnection,
    known: Vec<CallRow<'a>>,
    calls: &mut Calls,
) -> Result<Vec<CallRow<'a>>, sqlx::Error> {
    let updated = UPDATE_CALLS
        .fetch(connection, &known, |call, row| {
            let listed = &call.draft.listed;
            row.add(call.position)
                .add(listed.tool.as_deref())
                .add(listed.started.map(|at| at.0))
                .add(listed.read_only)
                .add(listed.settled.map(|(terminal, _)| terminal.as_str()))
                .add(listed.settled.map(|(_, at)| at.0))
                .add(listed.summary.as_str());
        })
        .await?;
    let updated: HashSet<i64> = updated
        .iter()
        .map(|row| row.try_get(0))
        .collect::<Result<_, _>>()?;
    Ok(calls.sort(
        known,
        |position| updated.contains(&position),
        "a second settlement of a call is ignored",
    ))
}

async fn index_texts(
    connection: &mut SqliteConnection,
    ended: &[&CallRow<'_>],
) -> Result<(), sqlx::Error> {
    INSERT_TEXTS
        .execute(connection, ended, |call, row| {
            row.add(call.position)
                .add(tenant_token(&call.draft.principal.tenant))
                .add(call.draft.search_text());
        })
        .await?;
    Ok(())
}

/// A tenant as one word that the tokenizer does not split.
pub(crate) fn tenant_token(tenant: &TenantId) -> String {
    let mut token = String::from("t");
    for byte in tenant.as_str().bytes() {
        // Writing to a `String` cannot fail.
        let _ = write!(token, "{byte:02x}");
    }
    token
}

/// New calls of one session in a transaction.
struct SessionCount<'a> {
    draft: &'a CallDraft,
    first: i64,
    last: i64,
    calls: i64,
}

async fn count_sessions(
    connection: &mut SqliteConnection,
    opened: &[CallRow<'_>],
) -> Result<(), sqlx::Error> {
    let mut sessions: BTreeMap<(&str, &str), SessionCount<'_>> = BTreeMap::new();
    for CallRow { draft, .. } in opened {
        let key = (
            draft.principal.tenant.as_str(),
            draft.principal.session.as_str(),
        );
        let at = draft.listed.opened.0;
        let count = sessions.entry(key).or_insert(SessionCount {
            draft,
            first: at,
            last: at,
            calls: 0,
        });
        count.first = count.first.min(at);
        count.last = count.last.max(at);
        count.calls += 1;
    }
    let sessions: Vec<SessionCount<'_>> = sessions.into_values().collect();
    COUNT_SESSIONS
        .execute(connection, &sessions, |count, row| {
            let principal = &count.draft.principal;
            row.add(principal.tenant.as_str())
                .add(principal.session.as_str())
                .add(principal.session_kind.as_str())
                .add(principal.agent.as_str())
                .add(count.first)
                .add(count.last)
                .add(count.calls);
        })
        .await?;
    Ok(())
}
