//! Queries for lists and single calls; queries over many calls are in `replay.rs`, `changes.rs` and
//! `verify.rs`. All of them filter by tenant first, so that one tenant's history never slows
//! another's, and lists use positions, so that the newest twenty cost the same in a long record.

use haft_contract::{
    CallId, Principal, SessionId, TenantId, Terminal, WorkspaceId,
    host::{
        ArtifactId, CallQuery, LedgerError, LedgerErrorKind, StoredCall, StoredEvent,
        StoredSession, Timestamp,
    },
    ops::FileVersion,
};
use serde_json::Value;
use sqlx::{QueryBuilder, Row as _, Sqlite, SqlitePool, sqlite::SqliteRow};
use uuid::Uuid;

use super::calls::tenant_token;
use crate::{convert, message::SeenKey};

/// The most rows one query returns.
pub(super) const MAX_ROWS: usize = 10_000;

/// The most words of a search; the rest are ignored.
const MAX_SEARCH_WORDS: usize = 16;

/// The columns of a call's row that are read.
pub(super) const CALL_COLUMNS: &str = "c.position, c.id, c.user, c.agent, c.session, c.session_kind, \
     c.workspace, c.asked_tool, c.tool, c.opened_at, c.terminal, c.settled_at, c.summary";

pub(crate) async fn call(
    pool: &SqlitePool,
    tenant: &TenantId,
    id: CallId,
) -> Result<Option<StoredCall>, LedgerError> {
    let mut query = QueryBuilder::<Sqlite>::new("SELECT ");
    query
        .push(CALL_COLUMNS)
        .push(" FROM call c WHERE c.tenant = ");
    query.push_bind(tenant.as_str()).push(" AND c.id = ");
    query.push_bind(id.as_uuid().as_bytes().as_slice());
    let row = query.build().fetch_optional(pool).await.map_err(failed)?;
    row.as_ref().map(stored_call).transpose()
}

/// Calls, newest first.
pub(crate) async fn calls(
    pool: &SqlitePool,
    tenant: &TenantId,
    query: &CallQuery,
) -> Result<Vec<StoredCall>, LedgerError> {
    let words = match &query.search {
        Some(search) => match match_expression(tenant, search) {
            Some(words) => Some(words),
            // The search contains no words, so nothing can match.
            None => return Ok(Vec::new()),
        },
        None => None,
    };
    let mut select = QueryBuilder::<Sqlite>::new("SELECT ");
    select.push(CALL_COLUMNS);
    let position = if let Some(words) = words {
        select.push(" FROM call_text t JOIN call c ON c.position = t.rowid WHERE call_text MATCH ");
        select.push_bind(words).push(" AND c.tenant = ");
        "t.rowid"
    } else {
        select.push(" FROM call c WHERE c.tenant = ");
        "c.position"
    };
    select.push_bind(tenant.as_str());
    if let Some(session) = &query.session {
        select.push(" AND c.session = ").push_bind(session.as_str());
    }
    if let Some(terminal) = query.terminal {
        select
            .push(" AND c.terminal = ")
            .push_bind(terminal.as_str());
    }
    if let Some(after) = query.after {
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        select
            .push(" AND ")
            .push(position)
            .push(" > ")
            .push_bind(after);
    }
    select
        .push(" ORDER BY ")
        .push(position)
        .push(" DESC LIMIT ");
    select.push_bind(row_limit(query.limit));
    let rows = select.build().fetch_all(pool).await.map_err(failed)?;
    rows.iter().map(stored_call).collect()
}

/// The events of a call, in order.
pub(crate) async fn events(
    pool: &SqlitePool,
    tenant: &TenantId,
    id: CallId,
) -> Result<Vec<StoredEvent>, LedgerError> {
    let rows = sqlx::query(
        "SELECT sequence, at, kind, body FROM event
         WHERE tenant = ?1 AND call = ?2 ORDER BY sequence LIMIT ?3",
    )
    .bind(tenant.as_str())
    .bind(id.as_uuid().as_bytes().as_slice())
    .bind(row_limit(MAX_ROWS))
    .fetch_all(pool)
    .await
    .map_err(failed)?;
    rows.iter()
        .map(|row| {
            let body: &str = column(row, "body")?;
            Ok(StoredEvent {
                sequence: unsigned(column(row, "sequence")?),
                at: Timestamp(column(row, "at")?),
                kind: column(row, "kind")?,
                body: serde_json::from_str::<Value>(body)
                    .map_err(|_| corrupt("an event's body is not JSON"))?,
            })
        })
        .collect()
}

/// Sessions, most recently active first.
pub(crate) async fn sessions(
    pool: &SqlitePool,
    tenant: &TenantId,
    limit: usize,
) -> Result<Vec<StoredSession>, LedgerError> {
    let rows = sqlx::query(
        "SELECT id, kind, agent, first_at, last_at, calls FROM session
         WHERE tenant = ?1 ORDER BY last_at DESC, id LIMIT ?2",
    )
    .bind(tenant.as_str())
    .bind(row_limit(limit))
    .fetch_all(pool)
    .await
    .map_err(failed)?;
    rows.iter()
        .map(|row| {
            let kind: &str = column(row, "kind")?;
            Ok(StoredSession {
                id: session_id(row, "id")?,
                kind: convert::session_kind(kind).ok_or_else(|| corrupt("a session's kind"))?,
                agent: column(row, "agent")?,
                first: Timestamp(column(row, "first_at")?),
                last: Timestamp(column(row, "last_at")?),
                calls: unsigned(column(row, "calls")?),
            })
        })
        .collect()
}

/// The providers whose tools a session's calls were started with, except the built-in one. One
/// lookup in the index `call_used` for each, plus one, however many calls the session has.
pub(crate) async fn providers_used(
    executor: impl sqlx::SqliteExecutor<'_>,
    tenant: &TenantId,
    session: &SessionId,
    limit: usize,
) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar(
        "WITH RECURSIVE used (provider) AS (
             SELECT (SELECT substr(tool, 1, instr(tool, '/') - 1) FROM call
                     WHERE tenant = ?1 AND session = ?2
                         AND started_at IS NOT NULL AND tool NOT GLOB 'builtin/*'
                     ORDER BY substr(tool, 1, instr(tool, '/') - 1) LIMIT 1)
             UNION ALL
             SELECT (SELECT substr(tool, 1, instr(tool, '/') - 1) FROM call
                     WHERE tenant = ?1 AND session = ?2
                         AND started_at IS NOT NULL AND tool NOT GLOB 'builtin/*'
                         AND substr(tool, 1, instr(tool, '/') - 1) > used.provider
                     ORDER BY substr(tool, 1, instr(tool, '/') - 1) LIMIT 1)
             FROM used WHERE used.provider IS NOT NULL
         )
         SELECT provider FROM used WHERE provider IS NOT NULL LIMIT ?3",
    )
    .bind(tenant.as_str())
    .bind(session.as_str())
    .bind(row_limit(limit))
    .fetch_all(executor)
    .await
}

/// The version of a workspace file that a principal last saw in its session.
pub(crate) async fn last_seen(
    pool: &SqlitePool,
    key: &SeenKey,
) -> Result<Option<FileVersion>, LedgerError> {
    let version: Option<String> = sqlx::query_scalar(
        "SELECT version FROM seen WHERE tenant = ?1 AND session = ?2 AND session_kind = ?3
             AND user = ?4 AND agent = ?5 AND workspace = ?6 AND path = ?7",
    )
    .bind(key.tenant.as_str())
    .bind(key.session.as_str())
    .bind(key.session_kind.as_str())
    .bind(key.user.as_str())
    .bind(key.agent.as_str())
    .bind(key.workspace.as_str())
    .bind(key.path.as_str())
    .fetch_optional(pool)
    .await
    .map_err(failed)?;
    Ok(version.map(FileVersion::new))
}

/// Where the full output of this principal's call in this session and workspace is kept, if it was
/// truncated. Another agent or user cannot get it by naming the same session.
pub(crate) async fn spilled(
    pool: &SqlitePool,
    principal: &Principal,
    workspace: &WorkspaceId,
    id: CallId,
) -> Result<Option<ArtifactId>, LedgerError> {
    let body: Option<String> = sqlx::query_scalar(
        "SELECT e.body FROM call c
         JOIN event e ON e.tenant = c.tenant AND e.call = c.id AND e.kind = 'settled'
         WHERE c.tenant = ?1 AND c.id = ?2 AND c.session = ?3 AND c.session_kind = ?4
             AND c.user = ?5 AND c.agent = ?6 AND c.workspace = ?7",
    )
    .bind(principal.tenant.as_str())
    .bind(id.as_uuid().as_bytes().as_slice())
    .bind(principal.session.as_str())
    .bind(principal.session_kind.as_str())
    .bind(principal.user.as_str())
    .bind(principal.agent.as_str())
    .bind(workspace.as_str())
    .fetch_optional(pool)
    .await
    .map_err(failed)?;
    let settled: Value = match body {
        Some(body) => serde_json::from_str(&body).map_err(|_| corrupt("an event's body"))?,
        None => return Ok(None),
    };
    let Some(artifact) = settled.pointer("/facts/artifact") else {
        return Ok(None);
    };
    let hash = artifact.get("hash").and_then(Value::as_str);
    let bytes = artifact.get("bytes").and_then(Value::as_u64);
    match hash.zip(bytes) {
        Some((hash, bytes)) => ArtifactId::from_hex(hash, bytes)
            .map(Some)
            .ok_or_else(|| corrupt("an artifact's name")),
        None => Err(corrupt("an artifact's name")),
    }
}

pub(super) fn stored_call(row: &SqliteRow) -> Result<StoredCall, LedgerError> {
    let id: &[u8] = column(row, "id")?;
    let kind: &str = column(row, "session_kind")?;
    let terminal = match column::<Option<&str>>(row, "terminal")? {
        Some(word) => Some(Terminal::parse(word).ok_or_else(|| corrupt("a call's outcome"))?),
        None => None,
    };
    Ok(StoredCall {
        position: unsigned(column(row, "position")?),
        id: Uuid::from_slice(id)
            .map_err(|_| corrupt("a call's id"))?
            .into(),
        user: column(row, "user")?,
        agent: column(row, "agent")?,
        session: session_id(row, "session")?,
        session_kind: convert::session_kind(kind).ok_or_else(|| corrupt("a session's kind"))?,
        workspace: WorkspaceId::parse(column(row, "workspace")?)
            .map_err(|_| corrupt("a workspace's id"))?,
        asked_tool: column(row, "asked_tool")?,
        tool: column(row, "tool")?,
        opened: Timestamp(column(row, "opened_at")?),
        terminal,
        settled: column::<Option<i64>>(row, "settled_at")?.map(Timestamp),
        summary: column(row, "summary")?,
    })
}

/// Matches every word, as a prefix, in this tenant's calls. The input is quoted, never syntax.
fn match_expression(tenant: &TenantId, search: &str) -> Option<String> {
    let words: Vec<String> = search
        .split_whitespace()
        .filter(|word| word.chars().any(char::is_alphanumeric))
        .take(MAX_SEARCH_WORDS)
        .map(|word| format!("\"{}\" *", word.replace('"', "\"\"")))
        .collect();
    if words.is_empty() {
        return None;
    }
    Some(format!(
        "tenant : \"{}\" AND text : ({})",
        tenant_token(tenant),
        words.join(" AND ")
    ))
}

pub(super) fn column<'r, T>(row: &'r SqliteRow, name: &str) -> Result<T, LedgerError>
where
    T: sqlx::Decode<'r, Sqlite> + sqlx::Type<Sqlite>,
{
    row.try_get(name).map_err(|_| corrupt("a stored value"))
}

fn session_id(row: &SqliteRow, name: &str) -> Result<SessionId, LedgerError> {
    SessionId::parse(column(row, name)?).map_err(|_| corrupt("a session's id"))
}

pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

pub(super) fn row_limit(limit: usize) -> i64 {
    i64::try_from(limit.min(MAX_ROWS)).unwrap_or(i64::MAX)
}

pub(super) fn failed(error: sqlx::Error) -> LedgerError {
    tracing::warn!(
        error = &error as &dyn std::error::Error,
        "the record could not be read"
    );
    LedgerError::new(
        LedgerErrorKind::Unavailable,
        "the record cannot be read right now",
    )
}

pub(super) fn corrupt(what: &str) -> LedgerError {
    LedgerError::new(
        LedgerErrorKind::Corrupt,
        format!("{what} cannot be understood; `haft log verify` names the place"),
    )
}
