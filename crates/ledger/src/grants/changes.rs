//! Changes to grants are numbered for each person, so that a reader who knows the grants up to one
//! change reads only what changed since. The numbers are not signed: a wrong one hides a change from
//! readers, and a start reads its grants anyway.

use std::collections::HashSet;

use haft_contract::{Principal, TenantId, UserId, host::GrantId};

use super::cache::KnownChanges;
use crate::{
    change::ChangeContext,
    store::{Connection, Row, StoreError, values},
};

/// The number of a new change to a person's grants.
pub(super) async fn raise(
    changing: &mut ChangeContext<'_>,
    tenant: &TenantId,
    user: &UserId,
) -> Result<i64, StoreError> {
    let change = changing
        .connection
        .number(
            "INSERT INTO grant_change (tenant, person, changed, removed) VALUES (?1, ?2, 1, 0)
             ON CONFLICT (tenant, person) DO UPDATE SET changed = grant_change.changed + 1
             RETURNING changed",
            &values![tenant.as_str(), user.as_str()],
        )
        .await?;
    changing.grants_changed.push((tenant.clone(), user.clone()));
    Ok(change)
}

/// Notes that grants of a person were removed.
pub(super) async fn raise_removed(
    changing: &mut ChangeContext<'_>,
    tenant: &TenantId,
    user: &str,
) -> Result<(), StoreError> {
    changing
        .connection
        .execute(
            "INSERT INTO grant_change (tenant, person, changed, removed) VALUES (?1, ?2, 1, 1)
             ON CONFLICT (tenant, person) DO UPDATE
             SET changed = grant_change.changed + 1, removed = grant_change.changed + 1",
            values![tenant.as_str(), user],
        )
        .await?;
    // A name that is none belongs to a row that was not signed, which nobody has cached.
    if let Ok(user) = UserId::parse(user) {
        changing.grants_changed.push((tenant.clone(), user));
    }
    Ok(())
}

/// The last changes to a person's grants, and the rows that changed after a known one, in the order
/// of their changes.
pub(super) async fn since(
    connection: &mut dyn Connection,
    principal: &Principal,
    known: i64,
    limit: i64,
) -> Result<(KnownChanges, Vec<Row>), StoreError> {
    // One statement, because this is asked for every quarter of a second.
    let mut rows = connection
        .query(
            "SELECT last.changed AS last_change, last.removed AS last_removal, grant_rule.*
             FROM grant_change AS last LEFT JOIN grant_rule
             ON grant_rule.tenant = last.tenant AND grant_rule.person = last.person
                 AND grant_rule.changed > ?3
             WHERE last.tenant = ?1 AND last.person = ?2
             ORDER BY grant_rule.changed LIMIT ?4",
            &values![
                principal.tenant.as_str(),
                principal.user.as_str(),
                known,
                limit
            ],
        )
        .await?;
    let Some(first) = rows.first() else {
        return Ok((KnownChanges::default(), rows));
    };
    let last = KnownChanges {
        changed: first.get("last_change")?,
        removed: first.get("last_removal")?,
    };
    if first.get::<Option<&str>>("id")?.is_none() {
        rows.clear();
    }
    Ok((last, rows))
}

/// The ids of all grants of a person.
pub(super) async fn ids(
    connection: &mut dyn Connection,
    principal: &Principal,
    limit: i64,
) -> Result<HashSet<GrantId>, StoreError> {
    let rows = connection
        .query(
            "SELECT id FROM grant_rule WHERE tenant = ?1 AND person = ?2 LIMIT ?3",
            &values![principal.tenant.as_str(), principal.user.as_str(), limit],
        )
        .await?;
    let mut ids = HashSet::with_capacity(rows.len());
    for row in &rows {
        ids.extend(GrantId::parse(row.get("id")?));
    }
    Ok(ids)
}

/// How many grants a tenant has, or more.
pub(super) async fn counted(
    changing: &mut ChangeContext<'_>,
    tenant: &TenantId,
) -> Result<i64, StoreError> {
    let counted = changing
        .connection
        .scalar(
            "SELECT kept FROM grant_count WHERE tenant = ?1",
            &values![tenant.as_str()],
        )
        .await?;
    Ok(counted.unwrap_or(0))
}

/// Adds to the count.
pub(super) async fn count(
    changing: &mut ChangeContext<'_>,
    tenant: &TenantId,
    more: i64,
) -> Result<(), StoreError> {
    changing
        .connection
        .execute(
            "INSERT INTO grant_count (tenant, kept) VALUES (?1, ?2)
             ON CONFLICT (tenant) DO UPDATE SET kept = grant_count.kept + excluded.kept",
            values![tenant.as_str(), more],
        )
        .await?;
    Ok(())
}

/// Removes a tenant's grants that have ended, and counts the others.
pub(super) async fn count_again(
    changing: &mut ChangeContext<'_>,
    tenant: &TenantId,
) -> Result<i64, StoreError> {
    // Whoever has cached one of these does not use it either.
    changing
        .connection
        .execute(
            "DELETE FROM grant_rule WHERE tenant = ?1 AND (until_at < ?2 OR uses_left = 0)",
            values![tenant.as_str(), changing.now.0],
        )
        .await?;
    let kept = changing
        .connection
        .number(
            "SELECT count(*) FROM grant_rule WHERE tenant = ?1",
            &values![tenant.as_str()],
        )
        .await?;
    let counted = counted(changing, tenant).await?;
    count(changing, tenant, kept - counted).await?;
    Ok(kept)
}
