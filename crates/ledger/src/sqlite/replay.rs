//! Reads many recorded calls to decide them again: one ordered pass over the list with the few
//! records a decision depends on, never a query per call.

use std::sync::Arc;

use haft_contract::{
    TenantId,
    host::{LedgerError, ReplayableCall, Timestamp},
};
use serde_json::Value;
use sqlx::{QueryBuilder, Sqlite, SqlitePool, sqlite::SqliteRow};

use super::read::{CALL_COLUMNS, column, corrupt, failed, row_limit, stored_call};
use crate::convert;

/// Calls opened at or after a moment, oldest first.
pub(crate) async fn replayable(
    pool: &SqlitePool,
    tenant: &TenantId,
    since: Timestamp,
    after: Option<u64>,
    limit: usize,
) -> Result<Vec<ReplayableCall>, LedgerError> {
    let after = after.map_or(0, |after| i64::try_from(after).unwrap_or(i64::MAX));
    let mut select = QueryBuilder::<Sqlite>::new("SELECT ");
    select.push(CALL_COLUMNS).push(
        ", e.kind AS event_kind, e.body AS event_body
         FROM (SELECT * FROM call WHERE tenant = ",
    );
    select.push_bind(tenant.as_str()).push(" AND position > ");
    select.push_bind(after).push(" AND opened_at >= ");
    select
        .push_bind(since.0)
        .push(" ORDER BY position LIMIT ")
        .push_bind(row_limit(limit));
    // The joins use indexes, and every call has its first record, so none is lost.
    select.push(
        ") c CROSS JOIN event e ON e.tenant = c.tenant AND e.call = c.id
             AND e.kind IN ('opened', 'planned', 'decided', 'approval_answered')
         ORDER BY c.position, e.sequence",
    );
    let rows = select.build().fetch_all(pool).await.map_err(failed)?;
    let mut calls: Vec<ReplayableCall> = Vec::new();
    for row in &rows {
        let kind: &str = column(row, "event_kind")?;
        let body: &str = column(row, "event_body")?;
        if kind == "opened" {
            calls.push(opened(row, body)?);
            continue;
        }
        let body: Value = parsed(body)?;
        let Some(call) = calls.last_mut() else {
            return Err(corrupt("a call without its first record"));
        };
        match kind {
            // A hook may have caused a second plan; the last plan is the one that was decided.
            "planned" if call.decided.is_none() => call.planned = Some(body),
            "planned" => {}
            "decided" => call.decided = call.decided.take().or(Some(body)),
            _ => call.answered = Some(body),
        }
    }
    Ok(calls)
}

fn opened(row: &SqliteRow, body: &str) -> Result<ReplayableCall, LedgerError> {
    let call = stored_call(row)?;
    let principal = convert::principal_in(body).ok_or_else(|| corrupt("who asked"))?;
    Ok(ReplayableCall {
        call,
        principal: Arc::new(principal),
        opened: parsed(body)?,
        planned: None,
        decided: None,
        answered: None,
    })
}

fn parsed(body: &str) -> Result<Value, LedgerError> {
    serde_json::from_str(body).map_err(|_| corrupt("an event's body is not JSON"))
}
