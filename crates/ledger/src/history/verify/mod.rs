//! Checks that a tenant's record is as it was written: every writer's chain, the signed ends and
//! checkpoints, the list of sessions, and what people answered.
//!
//! The rows are checked in ranges, several at a time (`range.rs`), and put together in order
//! (`rows.rs`), so that the first bad row is the one that is named.
//!
//! Read-only. The search words are not compared (the index does not keep them), and artifacts are
//! checked when they are opened (`artifacts.rs`), not here: they may be gigabytes.

mod range;
mod rows;
mod signed;
pub(crate) mod uses;

use std::{collections::HashSet, num::NonZero, sync::Arc};

use haft_contract::{
    TenantId,
    host::{LedgerError, LedgerErrorKind, Verification},
};
use tokio::task::JoinSet;

use self::{
    range::{CheckedRange, Range, Ranges},
    rows::Rows,
    signed::Signed,
};
use crate::{
    approvals,
    chain::broken,
    grants,
    high_water::{HighWater, Read},
    lost,
    reading::{column, corrupt, failed, unsigned},
    store::{Connection, Scope, Store, values},
};

/// Approvals checked at a time.
const APPROVALS_A_PAGE: i64 = 500;

/// The most ranges that are checked at the same time, each on a connection of its own: one less than
/// there are, so that others can read.
const MAX_AT_ONCE: usize = 3;

/// Told how far it is: the position reached, and the newest.
pub(crate) type Progress<'a> = &'a (dyn Fn(u64, u64) + Send + Sync);

/// Recomputes a tenant's chains from their first rows, and its lists from the rows.
pub(crate) async fn verify(
    store: &Arc<dyn Store>,
    tenant: &TenantId,
    key: &[u8; 32],
    mark: &HighWater,
    progress: Progress<'_>,
) -> Result<Verification, LedgerError> {
    // Read before the snapshot, so that the snapshot includes everything the marks cover.
    let marks = mark.read().map_err(|error| corrupt(&error.to_string()))?;
    // One snapshot for checkpoints, lists, the signed ends and the newest row. Rows before that are
    // the same for every connection: none is ever changed.
    let scope = [tenant.as_str()];
    let snapshot = store.reader(Scope::Tenants(&scope));
    let mut snapshot = snapshot.await.map_err(failed)?;
    let snapshot = &mut *snapshot;
    snapshot.begin().await.map_err(failed)?;
    let checked = check(store, snapshot, tenant, key, marks, progress).await;
    snapshot.commit().await.map_err(failed)?;
    checked
}

async fn check(
    store: &Arc<dyn Store>,
    snapshot: &mut dyn Connection,
    tenant: &TenantId,
    key: &[u8; 32],
    marks: Read,
    progress: Progress<'_>,
) -> Result<Verification, LedgerError> {
    let signed = Arc::new(signed::signed_places(snapshot, tenant, key).await?);
    let rows = match all_rows(store, snapshot, tenant, &signed, progress).await? {
        Ok(rows) => rows,
        Err(found) => return Ok(found),
    };
    if let Err(found) = rows.end(&signed) {
        return Ok(found);
    }
    let after = unsigned(rows.position) + 1;
    if let Some(reason) = rows.session_that_differs(snapshot, tenant).await? {
        return Ok(broken(after, reason));
    }
    if let Some(reason) = rows.provider_that_differs(snapshot, tenant).await? {
        return Ok(broken(after, reason));
    }
    if let Some(reason) = forged(snapshot, tenant, key, &rows.approvals).await? {
        return Ok(broken(after, reason));
    }
    if let Some(reason) = below_mark(snapshot, tenant, marks).await? {
        return Ok(broken(after, reason));
    }
    Ok(Verification::Intact {
        records: rows.count,
    })
}

/// Checks all rows; the inner error is the first that is wrong.
async fn all_rows(
    store: &Arc<dyn Store>,
    snapshot: &mut dyn Connection,
    tenant: &TenantId,
    signed: &Arc<Signed>,
    progress: Progress<'_>,
) -> Result<Result<Rows, Verification>, LedgerError> {
    let end = snapshot
        .number("SELECT coalesce(max(position), 0) FROM record", &[])
        .await
        .map_err(failed)?;
    let mut ranges = Ranges::up_to(end);
    let mut rows = Rows::default();
    let helpers = if store.is_for_many_machines() {
        // Another writer may commit a row before the end meanwhile, which this snapshot does not have.
        0
    } else {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        cores.min(MAX_AT_ONCE) - 1
    };
    while let Some(own) = ranges.next(snapshot, tenant).await? {
        let mut others = Vec::with_capacity(helpers);
        let mut checking = JoinSet::new();
        while others.len() < helpers
            && let Some(range) = ranges.next(snapshot, tenant).await?
        {
            let (store, tenant, signed) = (Arc::clone(store), tenant.clone(), Arc::clone(signed));
            let index = others.len();
            others.push((range, None));
            checking
                .spawn(async move { (index, elsewhere(&*store, &tenant, &signed, range).await) });
        }
        let checked = range::check(snapshot, tenant, signed, own).await?;
        let mut reached = own.until;
        let mut finding = rows.add(tenant, checked)?;
        while let Some(done) = checking.join_next().await {
            if let Ok((index, Ok(checked))) = done
                && let Some((_, place)) = others.get_mut(index)
            {
                *place = Some(checked);
            }
        }
        for (range, checked) in others {
            if finding.is_some() {
                break;
            }
            let checked = match checked {
                Some(checked) => checked,
                // No other connection was free, or it failed.
                None => range::check(snapshot, tenant, signed, range).await?,
            };
            reached = range.until;
            finding = rows.add(tenant, checked)?;
        }
        if let Some(finding) = finding {
            return finding.verdict.map(Err);
        }
        progress(unsigned(reached), unsigned(end));
    }
    Ok(Ok(rows))
}

/// Checks a range on another connection.
async fn elsewhere(
    store: &dyn Store,
    tenant: &TenantId,
    signed: &Arc<Signed>,
    range: Range,
) -> Result<CheckedRange, LedgerError> {
    let scope = [tenant.as_str()];
    let reader = store.reader(Scope::Tenants(&scope));
    let mut reader = reader.await.map_err(failed)?;
    range::check(&mut *reader, tenant, signed, range).await
}

fn gave_up() -> LedgerError {
    LedgerError::new(LedgerErrorKind::Unavailable, "the check was given up")
}

/// Compares this tenant and every missing tenant with the high-water mark. Rows that were moved to
/// another tenant are missing from their own.
async fn below_mark(
    snapshot: &mut dyn Connection,
    tenant: &TenantId,
    marks: Read,
) -> Result<Option<String>, LedgerError> {
    let Read::Marks(marks) = marks else {
        let reason = "the record that was here is gone or was replaced: its high-water mark was not \
                      signed by this one";
        return Ok(Some(reason.to_owned()));
    };
    let is_own = |chain: &(String, String)| chain.0 == tenant.as_str();
    let (own, others): (Vec<_>, Vec<_>) = marks.into_iter().partition(|(chain, _)| is_own(chain));
    // The mark has chains of other tenants too.
    snapshot.act_for(Scope::Every).await.map_err(failed)?;
    for ((tenant, writer), head) in own.into_iter().chain(others) {
        let differs = lost::differs(snapshot, &tenant, &writer, &head)
            .await
            .map_err(failed)?;
        if let Some(reason) = differs {
            return Ok(Some(format!("the record of tenant `{tenant}` {reason}")));
        }
    }
    Ok(None)
}

/// Finds questions and grants that this ledger did not sign, or whose use differs from the record.
async fn forged(
    snapshot: &mut dyn Connection,
    tenant: &TenantId,
    key: &[u8; 32],
    used: &HashSet<String>,
) -> Result<Option<String>, LedgerError> {
    let rows = snapshot
        .query(
            "SELECT approval FROM approval_used WHERE tenant = ?1",
            &values![tenant.as_str()],
        )
        .await
        .map_err(failed)?;
    let mut noted = HashSet::new();
    for row in &rows {
        noted.insert(column::<String>(row, "approval")?);
    }
    if let Some(id) = used.symmetric_difference(&noted).next() {
        return Ok(Some(format!("the uses of approval `{id}` were changed")));
    }
    let mut after = String::new();
    loop {
        let rows = snapshot
            .query(
                "SELECT * FROM approval WHERE tenant = ?1 AND id > ?2 ORDER BY id LIMIT ?3",
                &values![tenant.as_str(), &after, APPROVALS_A_PAGE],
            )
            .await
            .map_err(failed)?;
        let Some(last) = rows.last() else {
            break;
        };
        after = column(last, "id")?;
        for row in &rows {
            let is_signed = approvals::row::Columns::read(row, key).map_err(failed)?;
            let (id, state): (&str, &str) = (column(row, "id")?, column(row, "state")?);
            let used_before = state != "used" && used.contains(id);
            if is_signed.is_none() || used_before {
                return Ok(Some(format!(
                    "approval `{id}` was changed after it was written"
                )));
            }
        }
    }
    // One query returns all of them.
    let rows = snapshot
        .query(
            "SELECT * FROM grant_rule WHERE tenant = ?1 ORDER BY id",
            &values![tenant.as_str()],
        )
        .await
        .map_err(failed)?;
    for row in &rows {
        if grants::row::read(row, key).map_err(failed)?.is_none() {
            let id: &str = column(row, "id")?;
            return Ok(Some(format!(
                "grant `{id}` was changed after it was written"
            )));
        }
    }
    Ok(None)
}
