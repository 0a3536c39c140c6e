//! Queries for lists and single calls; queries over many calls are in `replay.rs`, `changes.rs`,
//! `facts.rs` and `verify.rs`. All of them filter by tenant first, so that one tenant's history never slows
//! another's, and lists use positions, so that the newest twenty cost the same in a long record.

use haft_contract::{
    CallId, Principal, TenantId, Terminal, WorkspaceId,
    host::{ArtifactId, CallOutcome, CallQuery, LedgerError, StoredCall, StoredEvent},
    ops::FileVersion,
};
use serde_json::Value;

use super::candidates;
use crate::{
    message::SeenKey,
    reading::{corrupt, failed, row_limit, unsigned},
    recorded_call::{self, RecordedCall},
    store::{Connection, Order, Scope, Statement, Store, StoreError, TextSearch, values},
};

/// The most words of a search; the rest are ignored.
const MAX_SEARCH_WORDS: usize = 16;

/// The fewest and the most calls that are looked at in one turn.
const CALLS_A_TURN: (usize, usize) = (20, 500);

/// How many of them are in memory whole.
const CALLS_AT_ONCE: usize = 20;

pub(crate) async fn call(
    store: &dyn Store,
    tenant: &TenantId,
    id: CallId,
) -> Result<Option<StoredCall>, LedgerError> {
    let call = load(store, tenant, id).await?;
    let call = call.map(|call| call.stored_call()).transpose();
    call.map_err(failed)
}

async fn load(
    store: &dyn Store,
    tenant: &TenantId,
    id: CallId,
) -> Result<Option<RecordedCall>, LedgerError> {
    let scope = [tenant.as_str()];
    let mut reader = store.reader(Scope::Tenants(&scope)).await.map_err(failed)?;
    let call = recorded_call::load(&mut *reader, tenant.as_str(), id).await;
    call.map_err(failed)
}

/// Calls, newest first; oldest first for whoever follows.
pub(crate) async fn calls(
    store: &dyn Store,
    tenant: &TenantId,
    query: &CallQuery,
) -> Result<Vec<StoredCall>, LedgerError> {
    let words = match &query.search {
        Some(search) => {
            let words = searched_words(search);
            if words.is_empty() {
                // Nothing can match.
                return Ok(Vec::new());
            }
            Some(words)
        }
        None => None,
    };
    let scope = [tenant.as_str()];
    let mut reader = store.reader(Scope::Tenants(&scope)).await.map_err(failed)?;
    let reader = &mut *reader;
    let limit = query.limit.min(crate::reading::MAX_ROWS);
    let (fewest, most) = CALLS_A_TURN;
    let mut found = Vec::new();
    let before = query
        .before
        .map_or(i64::MAX, |before| i64::try_from(before).unwrap_or(i64::MAX));
    let mut range = match query.after {
        None => ListedRange {
            order: Order::NewestFirst,
            after: 0,
            before,
        },
        Some(after) => ListedRange {
            order: Order::OldestFirst,
            after: i64::try_from(after).unwrap_or(i64::MAX),
            // What another process is about to commit may be listed before what is there already.
            before: reader
                .settled_position()
                .await
                .map_err(failed)?
                .saturating_add(1)
                .min(before),
        },
    };
    while found.len() < limit {
        let turn = (limit - found.len()).clamp(fewest, most);
        let positions = listed(reader, tenant, query, words.as_deref(), &range, turn)
            .await
            .map_err(failed)?;
        let Some(last) = positions.last() else {
            break;
        };
        range.go_on_from(*last);
        // A few at a time: a body may have megabytes, of which a list shows a line.
        for positions in positions.chunks(CALLS_AT_ONCE) {
            let calls = recorded_call::load_listed(reader, tenant.as_str(), positions).await;
            let mut calls = calls.map_err(failed)?;
            if range.order == Order::NewestFirst {
                calls.reverse();
            }
            for call in &calls {
                let Ok(listed) = call.stored_call() else {
                    tracing::warn!(call = %call.id, "a call cannot be read, nor listed");
                    continue;
                };
                if query.wants(&listed) && found.len() < limit {
                    found.push(listed);
                }
            }
        }
    }
    Ok(found)
}

/// Where calls are looked for, and from which end.
struct ListedRange {
    order: Order,
    after: i64,
    before: i64,
}

impl ListedRange {
    fn go_on_from(&mut self, last: i64) {
        match self.order {
            Order::NewestFirst => self.before = last,
            Order::OldestFirst => self.after = last,
        }
    }
}

/// Where calls that may be wanted are listed, in the order they are looked for.
async fn listed(
    reader: &mut dyn Connection,
    tenant: &TenantId,
    query: &CallQuery,
    words: Option<&[String]>,
    range: &ListedRange,
    most: usize,
) -> Result<Vec<i64>, StoreError> {
    const TENANT: &str = "(SELECT id FROM tenant WHERE name = ";
    let ListedRange {
        order,
        after,
        before,
    } = *range;
    let ended = match query.outcome {
        Some(CallOutcome::Ended(terminal)) if terminal != Terminal::Succeeded => Some(terminal),
        Some(CallOutcome::Open | CallOutcome::Ended(_)) | None => None,
    };
    if let Some(words) = words {
        let search = TextSearch {
            tenant: tenant.as_str(),
            words,
            before,
            after,
            order,
            limit: row_limit(most),
        };
        return reader.find_text(&search).await;
    }
    let mut select = Statement::default();
    if candidates::is_by_facts(query) {
        candidates::candidates(&mut select, tenant, query, (after, before), order, most);
        let rows = select.query(reader).await?;
        return rows.iter().map(|row| row.get("listed")).collect();
    }
    let place = if let Some(terminal) = ended {
        // In this order: a database may look for a place in the index by the first of the two alone.
        select.text("SELECT listed FROM record WHERE terminal = ");
        select.value(recorded_call::terminal_number(terminal));
        select
            .text(" AND terminal > 1 AND tenant = ")
            .text(TENANT)
            .value(tenant.as_str())
            .text(")");
        "listed"
    } else {
        select.text("SELECT position AS listed FROM record WHERE part = 0 AND tenant = ");
        select.text(TENANT).value(tenant.as_str()).text(")");
        if let Some(session) = &query.session {
            select
                .text(" AND session = (SELECT id FROM session WHERE tenant = ")
                .text(TENANT)
                .value(tenant.as_str())
                .text(") AND name = ")
                .value(session.as_str())
                .text(")");
        }
        "position"
    };
    select.text(" AND ").text(place).text(" < ").value(before);
    select.text(" AND ").text(place).text(" > ").value(after);
    select.text(" ORDER BY ").text(place);
    select.text(match order {
        Order::NewestFirst => " DESC LIMIT ",
        Order::OldestFirst => " LIMIT ",
    });
    select.value(row_limit(most));
    let rows = select.query(reader).await?;
    rows.iter().map(|row| row.get("listed")).collect()
}

/// The events of a call, in order.
pub(crate) async fn events(
    store: &dyn Store,
    tenant: &TenantId,
    id: CallId,
) -> Result<Vec<StoredEvent>, LedgerError> {
    let Some(call) = load(store, tenant, id).await? else {
        return Ok(Vec::new());
    };
    if call.is_damaged {
        return Err(corrupt("a call's events"));
    }
    let events = (1..)
        .zip(&call.events)
        .map(|(sequence, entry)| StoredEvent {
            sequence,
            record: unsigned(entry.position),
            at: entry.event.at,
            kind: entry.event.kind.clone(),
            body: match entry.event.kind.as_str() {
                "opened" => call.opened_with_principal(&entry.event.body),
                _ => entry.event.body.clone(),
            },
        });
    Ok(events.collect())
}

/// The version of a workspace file that a principal last saw in its session.
pub(crate) async fn last_seen(
    store: &dyn Store,
    key: &SeenKey,
) -> Result<Option<FileVersion>, LedgerError> {
    let scope = [key.tenant.as_str()];
    let mut reader = store.reader(Scope::Tenants(&scope)).await.map_err(failed)?;
    let version: Option<String> = reader
        .scalar(
            "SELECT version FROM seen WHERE tenant = ?1 AND session = ?2 AND session_kind = ?3
                 AND person = ?4 AND agent = ?5 AND workspace = ?6 AND path = ?7",
            &values![
                key.tenant.as_str(),
                key.session.as_str(),
                key.session_kind.as_str(),
                key.user.as_str(),
                key.agent.as_str(),
                key.workspace.as_str(),
                key.path.as_str(),
            ],
        )
        .await
        .map_err(failed)?;
    Ok(version.map(FileVersion::new))
}

/// Where the full output of this principal's call in this session and workspace is kept, if it was
/// truncated. Another agent or user cannot get it by naming the same session.
pub(crate) async fn spilled(
    store: &dyn Store,
    principal: &Principal,
    workspace: &WorkspaceId,
    id: CallId,
) -> Result<Option<ArtifactId>, LedgerError> {
    let Some(call) = load(store, &principal.tenant, id).await? else {
        return Ok(None);
    };
    let who = call.principal().map_err(failed)?;
    let is_theirs = (&who.session, who.session_kind, &who.user, &who.agent)
        == (
            &principal.session,
            principal.session_kind,
            &principal.user,
            &principal.agent,
        );
    let entry = call.entry().map_err(failed)?;
    let settled = call.of_kind("settled").next();
    let Some(settled) = settled.filter(|_| is_theirs && entry.workspace == workspace.as_str())
    else {
        return Ok(None);
    };
    let Some(artifact) = settled.body.pointer("/facts/artifact") else {
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

/// The words of a search: each is looked for as the beginning of a word. They are split where an index
/// splits them, because no index keeps what stood side by side.
fn searched_words(search: &str) -> Vec<String> {
    let words = search.split(|c: char| !c.is_alphanumeric());
    let words = words.filter(|word| !word.is_empty());
    words.take(MAX_SEARCH_WORDS).map(str::to_owned).collect()
}
