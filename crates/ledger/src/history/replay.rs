//! Reads many recorded calls to decide them again: one ordered pass over the list, never a query per
//! call.

use haft_contract::{
    TenantId,
    host::{LedgerError, ReplayableCall, Timestamp},
};

use crate::{
    reading::{failed, row_limit},
    recorded_call::{self, RecordedCall},
    store::{Scope, Store, StoreError, values},
};

/// Calls opened at or after a moment, oldest first.
pub(crate) async fn replayable(
    store: &dyn Store,
    tenant: &TenantId,
    since: Timestamp,
    after: Option<u64>,
    limit: usize,
) -> Result<Vec<ReplayableCall>, LedgerError> {
    let after = after.map_or(0, |after| i64::try_from(after).unwrap_or(i64::MAX));
    let scope = [tenant.as_str()];
    let mut reader = store.reader(Scope::Tenants(&scope)).await.map_err(failed)?;
    let newest = reader.settled_position().await.map_err(failed)?;
    let rows = reader
        .query(
            "SELECT position FROM record
             WHERE part = 0 AND tenant = (SELECT id FROM tenant WHERE name = ?1)
                 AND position > ?2 AND position <= ?3 AND at >= ?4 ORDER BY position LIMIT ?5",
            &values![tenant.as_str(), after, newest, since.0, row_limit(limit)],
        )
        .await
        .map_err(failed)?;
    let positions = rows.iter().map(|row| row.get("position"));
    let positions: Vec<i64> = positions.collect::<Result<_, _>>().map_err(failed)?;
    let calls = recorded_call::load_listed(&mut *reader, tenant.as_str(), &positions).await;
    let mut calls = calls.map_err(failed)?;
    calls.retain(|call| {
        if call.is_damaged {
            tracing::warn!(call = %call.id, "a call cannot be read, nor decided again");
        }
        !call.is_damaged
    });
    let calls = calls.iter().map(replayable_call);
    calls.collect::<Result<_, _>>().map_err(failed)
}

fn replayable_call(call: &RecordedCall) -> Result<ReplayableCall, StoreError> {
    let begin = call.opened().map(|opened| &opened.body);
    let begin = begin.ok_or_else(|| StoreError::Unreadable("a call's beginning".to_owned()))?;
    let (mut planned, mut decided, mut answered) = (None, None, None);
    for entry in &call.events {
        let body = &entry.event.body;
        match entry.event.kind.as_str() {
            // A hook may have caused a second plan; the last plan is the one that was decided.
            "planned" if decided.is_none() => planned = Some(body.clone()),
            "decided" if decided.is_none() => decided = Some(body.clone()),
            "approval_answered" => answered = Some(body.clone()),
            _ => {}
        }
    }
    Ok(ReplayableCall {
        call: call.stored_call()?,
        principal: call.principal()?,
        opened: call.opened_with_principal(begin),
        planned,
        decided,
        answered,
    })
}
