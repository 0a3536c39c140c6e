//! Where calls are listed that a filter may mean, found by the facts of calls. Whether each really is meant,
//! `read.rs` asks the call itself.
//!
//! A page must cost the same in a long record, so it is found through an index that has the calls in the order
//! of the list. One condition of a query is chosen for that; the others are written so that no index fits them,
//! because a database without statistics would as soon take one of those and sort all it finds.

use haft_contract::{
    SessionId, TenantId, Terminal, WorkspaceId,
    host::{CallFilter, CallOutcome, CallQuery},
};

use super::facts::TENANT;
use crate::{
    reading::row_limit,
    recorded_call::terminal_number,
    store::{Order, Statement},
};

/// How many workspaces are looked through each by itself. Where more are named, all of the tenant's calls
/// are looked through.
const MAX_WORKSPACES_APART: usize = 64;

/// What a part of the candidates is found by. A query may need several, none of which has more than a page.
#[derive(Clone, Copy)]
enum IndexKey<'q> {
    /// Calls without an outcome.
    Open,
    Session(&'q SessionId),
    /// Calls that ended so, which is not how most do.
    Ended(Terminal),
    /// Those of a session.
    EndedOfSession(&'q SessionId, Terminal),
    /// The tool itself, named with its provider.
    Tool(&'q str),
    /// A built-in tool.
    BuiltinTool(&'q str),
    /// What was asked for, whatever it turned out to be.
    AskedTool(&'q str),
    Agent(&'q str),
    Workspace(&'q WorkspaceId),
    /// All calls of the tenant.
    Tenant,
}

/// Whether a query is answered by the facts of calls; others are by their rows.
pub(super) fn is_by_facts(query: &CallQuery) -> bool {
    let is_rare_end =
        matches!(query.outcome, Some(CallOutcome::Ended(terminal)) if is_rare(terminal));
    query.outcome == Some(CallOutcome::Open)
        || !query.filter.is_everything()
        || query.session.is_some() && is_rare_end
}

fn is_rare(terminal: Terminal) -> bool {
    terminal != Terminal::Succeeded
}

/// The keys of a query: the one that few calls have first.
fn keys(query: &CallQuery) -> Vec<IndexKey<'_>> {
    let CallFilter {
        workspaces,
        agent,
        tool,
        ..
    } = &query.filter;
    if query.outcome == Some(CallOutcome::Open) {
        return vec![IndexKey::Open];
    }
    match (&query.session, query.outcome) {
        // One that is open here may have ended since.
        (Some(session), Some(CallOutcome::Ended(terminal))) if is_rare(terminal) => {
            return vec![IndexKey::EndedOfSession(session, terminal), IndexKey::Open];
        }
        (None, Some(CallOutcome::Ended(terminal))) if is_rare(terminal) => {
            return vec![IndexKey::Ended(terminal), IndexKey::Open];
        }
        (Some(session), _) => return vec![IndexKey::Session(session)],
        (None, _) => {}
    }
    if let Some(tool) = tool {
        return vec![
            IndexKey::Tool(tool),
            IndexKey::BuiltinTool(tool),
            IndexKey::AskedTool(tool),
        ];
    }
    if let Some(agent) = agent {
        return vec![IndexKey::Agent(agent)];
    }
    if workspaces.is_empty() || workspaces.len() > MAX_WORKSPACES_APART {
        return vec![IndexKey::Tenant];
    }
    workspaces.iter().map(IndexKey::Workspace).collect()
}

/// Selects where calls are listed that may be wanted: those whose facts fit, and all that are not caught up
/// with, because nobody knows yet. Each part has its own limit, so that none is read beyond it.
pub(super) fn candidates<'q>(
    select: &mut Statement<'q>,
    tenant: &'q TenantId,
    query: &'q CallQuery,
    (after, before): (i64, i64),
    order: Order,
    most: usize,
) {
    let direction = match order {
        Order::NewestFirst => " ORDER BY listed DESC LIMIT ",
        Order::OldestFirst => " ORDER BY listed LIMIT ",
    };
    let range = |select: &mut Statement<'q>, place: &str| {
        select.text(" AND ").text(place).text(" < ").value(before);
        select.text(" AND ").text(place).text(" > ").value(after);
        select.text(direction).value(row_limit(most));
    };
    select.text("SELECT listed FROM (");
    for (number, key) in keys(query).into_iter().enumerate() {
        select.text("SELECT listed FROM (SELECT listed FROM call_fact WHERE tenant = ");
        select.text(TENANT).value(tenant.as_str()).text(")");
        by_key(select, tenant, key);
        rest(select, tenant, query, key);
        range(select, "listed");
        select.text(&format!(") AS known{number} UNION "));
    }
    select.text(
        "SELECT listed FROM (SELECT position AS listed FROM record
         WHERE part = 0 AND position > (SELECT position FROM caught_up WHERE id = 1) AND tenant = ",
    );
    select.text(TENANT).value(tenant.as_str()).text(")");
    if let Some(session) = &query.session {
        by_key(select, tenant, IndexKey::Session(session));
    }
    range(select, "position");
    select.text(") AS new) AS candidates").text(direction);
    select.value(row_limit(most));
}

/// The condition that an index is for.
fn by_key<'q>(select: &mut Statement<'q>, tenant: &'q TenantId, key: IndexKey<'q>) {
    match key {
        IndexKey::Open => {
            select.text(" AND terminal IS NULL");
        }
        IndexKey::Session(session) => {
            select.text(" AND session = (SELECT id FROM session WHERE tenant = ");
            select.text(TENANT).value(tenant.as_str());
            select.text(") AND name = ").value(session.as_str());
            select.text(")");
        }
        IndexKey::Ended(terminal) => {
            // In this order: a database may look for a place in the index by the first of the two alone.
            select.text(" AND terminal = ");
            select
                .value(terminal_number(terminal))
                .text(" AND terminal > 1");
        }
        IndexKey::EndedOfSession(session, terminal) => {
            by_key(select, tenant, IndexKey::Session(session));
            by_key(select, tenant, IndexKey::Ended(terminal));
        }
        IndexKey::Tool(tool) => {
            select.text(" AND tool = ").value(tool);
        }
        IndexKey::BuiltinTool(tool) => {
            select.text(" AND tool = 'builtin/' || ").value(tool);
        }
        IndexKey::AskedTool(tool) => {
            select.text(" AND asked_tool = ").value(tool);
        }
        IndexKey::Agent(agent) => {
            select.text(" AND agent = ").value(agent);
        }
        IndexKey::Workspace(workspace) => {
            select.text(" AND workspace = (SELECT id FROM workspace WHERE tenant = ");
            select.text(TENANT).value(tenant.as_str());
            select.text(") AND name = ").value(workspace.as_str());
            select.text(")");
        }
        IndexKey::Tenant => {}
    }
}

/// The other conditions, which no index fits: an empty text, or nothing, is added to each column.
fn rest<'q>(
    select: &mut Statement<'q>,
    tenant: &'q TenantId,
    query: &'q CallQuery,
    key: IndexKey<'q>,
) {
    let filter = &query.filter;
    let is_by_end = matches!(
        key,
        IndexKey::Open | IndexKey::Ended(_) | IndexKey::EndedOfSession(..)
    );
    if let Some(session) = &query.session
        && !matches!(key, IndexKey::Session(_) | IndexKey::EndedOfSession(..))
    {
        select.text(" AND session + 0 = (SELECT id FROM session WHERE tenant = ");
        select.text(TENANT).value(tenant.as_str());
        select.text(") AND name = ").value(session.as_str());
        select.text(")");
    }
    if let Some(CallOutcome::Ended(terminal)) = query.outcome
        && !is_by_end
    {
        select.text(" AND (terminal IS NULL OR terminal + 0 = ");
        select.value(terminal_number(terminal)).text(")");
    }
    let is_by_tool = matches!(
        key,
        IndexKey::Tool(_) | IndexKey::BuiltinTool(_) | IndexKey::AskedTool(_)
    );
    if let Some(tool) = &filter.tool
        && !is_by_tool
    {
        select.text(" AND (tool || '' = ").value(tool);
        select.text(" OR asked_tool || '' = ").value(tool);
        select.text(" OR tool || '' = 'builtin/' || ").value(tool);
        select.text(")");
    }
    if let Some(agent) = &filter.agent
        && !matches!(key, IndexKey::Agent(_))
    {
        select.text(" AND agent || '' = ").value(agent);
    }
    if !filter.workspaces.is_empty() && !matches!(key, IndexKey::Workspace(_)) {
        select.text(" AND workspace + 0 IN (SELECT id FROM workspace WHERE tenant = ");
        select
            .text(TENANT)
            .value(tenant.as_str())
            .text(") AND name IN (");
        for (number, workspace) in filter.workspaces.iter().enumerate() {
            select.text(if number == 0 { "" } else { ", " });
            select.value(workspace.as_str());
        }
        select.text("))");
    }
    if let Some(since) = filter.since {
        select.text(" AND opened_at >= ").value(since.0);
    }
    if let Some(until) = filter.until {
        select.text(" AND opened_at < ").value(until.0);
    }
}
