//! Queries over the facts of calls: the sessions and workspaces there are, and counts. The database counts; no
//! body is read. Where calls that a filter means are listed is in `candidates.rs`.

use std::time::Duration;

use haft_contract::{
    SessionId, TenantId, Terminal, WorkspaceId,
    host::{
        CallFilter, LedgerError, MAX_STATS_ROWS, StatsGroup, StatsKey, StatsQuery, StatsRow,
        StoredSession, StoredWorkspace, Timestamp,
    },
};

use crate::{
    convert,
    reading::{column, corrupt, failed, row_limit, unsigned},
    recorded_call::terminal_number,
    store::{Row, Scope, Statement, Store},
};

/// The microseconds of a day.
const DAY_US: i64 = 24 * 60 * 60 * 1_000_000;

/// Begins the number of a tenant whose name follows.
pub(super) const TENANT: &str = "(SELECT id FROM tenant WHERE name = ";

/// The condition that facts fit a filter.
fn filter<'q>(select: &mut Statement<'q>, tenant: &'q TenantId, filter: &'q CallFilter) {
    select.text(" WHERE tenant = ");
    select.text(TENANT).value(tenant.as_str()).text(")");
    if !filter.workspaces.is_empty() {
        select.text(" AND workspace IN (SELECT id FROM workspace WHERE tenant = ");
        select.text(TENANT).value(tenant.as_str()).text(")");
        one_of(select, " AND name IN (", &filter.workspaces);
        select.text(")");
    }
    if let Some(agent) = &filter.agent {
        select.text(" AND agent = ").value(agent);
    }
    if let Some(tool) = &filter.tool {
        select.text(" AND (tool = ").value(tool);
        select.text(" OR asked_tool = ").value(tool);
        select.text(" OR tool = 'builtin/' || ").value(tool);
        select.text(")");
    }
    if let Some(since) = filter.since {
        select.text(" AND opened_at >= ").value(since.0);
    }
    if let Some(until) = filter.until {
        select.text(" AND opened_at < ").value(until.0);
    }
}

/// The condition that a name is one of these workspaces'; none, if none is named.
fn one_of<'q>(select: &mut Statement<'q>, begin: &str, workspaces: &'q [WorkspaceId]) {
    for (number, workspace) in workspaces.iter().enumerate() {
        select.text(if number == 0 { begin } else { ", " });
        select.value(workspace.as_str());
    }
    if !workspaces.is_empty() {
        select.text(")");
    }
}

/// Sessions, most recently active first.
pub(crate) async fn sessions(
    store: &dyn Store,
    tenant: &TenantId,
    workspaces: &[WorkspaceId],
    limit: usize,
) -> Result<Vec<StoredSession>, LedgerError> {
    let mut select = Statement::new(
        "SELECT s.name, w.name AS workspace, c.kind, c.agent, c.first_at, c.last_at, c.calls
         FROM session_calls c JOIN session s ON s.id = c.session
         JOIN workspace w ON w.id = c.workspace WHERE c.tenant = ",
    );
    select.text(TENANT).value(tenant.as_str()).text(")");
    one_of(&mut select, " AND w.name IN (", workspaces);
    select.text(" ORDER BY c.last_at DESC, s.name, w.name LIMIT ");
    select.value(row_limit(limit));
    let rows = rows(store, tenant, &select).await?;
    rows.iter()
        .map(|row| {
            let kind: &str = column(row, "kind")?;
            let name: &str = column(row, "name")?;
            Ok(StoredSession {
                id: SessionId::parse(name).map_err(|_| corrupt("a session's id"))?,
                kind: convert::session_kind(kind).ok_or_else(|| corrupt("a session's kind"))?,
                workspace: workspace_id(row, "workspace")?,
                agent: column(row, "agent")?,
                first: Timestamp(column(row, "first_at")?),
                last: Timestamp(column(row, "last_at")?),
                calls: unsigned(column(row, "calls")?),
            })
        })
        .collect()
}

/// Workspaces, most recently active first.
pub(crate) async fn workspaces(
    store: &dyn Store,
    tenant: &TenantId,
    limit: usize,
) -> Result<Vec<StoredWorkspace>, LedgerError> {
    let mut select = Statement::new(
        "SELECT w.name, w.shown, CAST(sum(c.calls) AS bigint) AS calls, max(c.last_at) AS last_at
         FROM session_calls c JOIN workspace w ON w.id = c.workspace WHERE c.tenant = ",
    );
    select.text(TENANT).value(tenant.as_str());
    select.text(") GROUP BY w.id, w.name, w.shown ORDER BY last_at DESC, w.name LIMIT ");
    select.value(row_limit(limit));
    let rows = rows(store, tenant, &select).await?;
    rows.iter()
        .map(|row| {
            Ok(StoredWorkspace {
                id: workspace_id(row, "name")?,
                shown: column(row, "shown")?,
                calls: unsigned(column(row, "calls")?),
                last: Timestamp(column(row, "last_at")?),
            })
        })
        .collect()
}

/// Counts calls in groups.
pub(crate) async fn stats(
    store: &dyn Store,
    tenant: &TenantId,
    query: &StatsQuery,
) -> Result<Vec<StatsRow>, LedgerError> {
    let mut select = Statement::new("SELECT ");
    match query.by {
        StatsKey::All => {}
        StatsKey::Day { offset_us } => {
            select.text("(opened_at + ").value(offset_us);
            select.text(") / ").value(DAY_US).text(" AS day, ");
        }
        StatsKey::Tool => {
            select.text("tool AS name, ");
        }
        StatsKey::Agent => {
            select.text("agent AS name, ");
        }
        StatsKey::Workspace => {
            select.text(
                "(SELECT w.name FROM workspace w WHERE w.id = call_fact.workspace) AS name, ",
            );
        }
    }
    // The sum of nothing is not a number, where all are one group.
    select.text("count(*) AS calls, CAST(coalesce(sum(asked), 0) AS bigint) AS asked");
    for (name, terminals) in [
        ("denied", &[Terminal::Denied][..]),
        (
            "failed",
            &[Terminal::Failed, Terminal::TimedOut, Terminal::Unknown][..],
        ),
    ] {
        select.text(", CAST(coalesce(sum(CASE WHEN terminal IN (0");
        for terminal in terminals {
            select.text(", ").value(terminal_number(*terminal));
        }
        select
            .text(") THEN 1 ELSE 0 END), 0) AS bigint) AS ")
            .text(name);
    }
    for name in ["ran_us", "asked_us", "bytes"] {
        let sum = format!(", CAST(coalesce(sum({name}), 0) AS bigint) AS {name}");
        select.text(&sum);
    }
    select.text(" FROM call_fact");
    filter(&mut select, tenant, &query.filter);
    // True of every call. Without it a database without statistics might go through a tenant's calls in
    // another order than they are stored in.
    select.text(" AND listed > 0");
    select.text(match query.by {
        // Like every query, it finds no row where there is nothing to find.
        StatsKey::All => " HAVING count(*) > 0 LIMIT ",
        StatsKey::Day { .. } => " GROUP BY 1 ORDER BY 1 DESC LIMIT ",
        StatsKey::Tool | StatsKey::Agent | StatsKey::Workspace => {
            " GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT "
        }
    });
    select.value(row_limit(query.limit.min(MAX_STATS_ROWS)));
    let rows = rows(store, tenant, &select).await?;
    rows.iter().map(|row| counted(row, query.by)).collect()
}

fn counted(row: &Row, by: StatsKey) -> Result<StatsRow, LedgerError> {
    let number = |name: &str| column::<i64>(row, name).map(unsigned);
    let micros = |name: &str| number(name).map(Duration::from_micros);
    Ok(StatsRow {
        group: match by {
            StatsKey::All => StatsGroup::All,
            StatsKey::Day { .. } => StatsGroup::Day(column(row, "day")?),
            StatsKey::Tool | StatsKey::Agent | StatsKey::Workspace => {
                let name: Option<String> = column(row, "name")?;
                StatsGroup::Name(name.unwrap_or_default())
            }
        },
        calls: number("calls")?,
        asked: number("asked")?,
        denied: number("denied")?,
        failed: number("failed")?,
        ran: micros("ran_us")?,
        waited: micros("asked_us")?,
        bytes: number("bytes")?,
    })
}

async fn rows(
    store: &dyn Store,
    tenant: &TenantId,
    select: &Statement<'_>,
) -> Result<Vec<Row>, LedgerError> {
    let scope = [tenant.as_str()];
    let mut reader = store.reader(Scope::Tenants(&scope)).await.map_err(failed)?;
    select.query(&mut *reader).await.map_err(failed)
}

fn workspace_id(row: &Row, name: &str) -> Result<WorkspaceId, LedgerError> {
    let id: &str = column(row, name)?;
    WorkspaceId::parse(id).map_err(|_| corrupt("a workspace's id"))
}
