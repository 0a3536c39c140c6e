//! Standing approvals: made and ended by the writer, read through a cache that finds the few that can
//! matter to a call, because every decision asks for them.
//!
//! A cached grant may be slightly out of date. That is safe: a start uses each grant it depends on
//! in its own transaction (`checked_start.rs`), and one that has ended meanwhile refuses the start.

mod cache;
mod changes;
mod index;
pub(crate) mod row;

use std::sync::{Arc, atomic::Ordering};

use haft_contract::{
    BoxFuture, Principal, SessionId, TenantId, WorkspaceId,
    host::{Grant, GrantFinder, GrantId, GrantStore, LedgerError, LedgerErrorKind, Timestamp},
};

pub(crate) use self::cache::GrantCache;
use self::cache::{KnownChanges, UserGrants};
use crate::{
    change::{Change, ChangeContext, conflict},
    counters::LedgerCounters,
    queue::Queue,
    reading::failed,
    store::{Row, Scope, Store, StoreError, values},
};

/// How many rows of grants are read at once.
const PAGE: usize = 1_000;

/// So many more make no difference to the size of the cache.
const FEW: usize = 100;

pub(crate) struct Grants {
    pub(crate) queue: Arc<Queue>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) key: [u8; 32],
    pub(crate) cache: Arc<GrantCache>,
    pub(crate) counting: Arc<LedgerCounters>,
    /// How many a tenant may have.
    pub(crate) most: usize,
}

impl GrantStore for Grants {
    fn add(&self, grant: Grant) -> BoxFuture<'_, Result<(), LedgerError>> {
        let most = limit(self.most);
        Box::pin(async move { self.queue.change(AddGrant { grant, most }).await? })
    }

    fn holding<'a>(
        &'a self,
        principal: &'a Principal,
        workspace: &'a WorkspaceId,
        now: Timestamp,
        finder: &'a dyn GrantFinder,
    ) -> BoxFuture<'a, Result<Vec<Grant>, LedgerError>> {
        Box::pin(async move {
            let user = self.cache.of(principal);
            if !user.is_fresh() {
                let _reading = user.reading.lock().await;
                if !user.is_fresh() {
                    self.read_changes(&user, principal, finder).await?;
                }
            }
            Ok(user.find(principal, workspace, now, finder))
        })
    }

    fn list<'a>(
        &'a self,
        tenant: &'a TenantId,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Vec<Grant>, LedgerError>> {
        Box::pin(async move {
            let scope = [tenant.as_str()];
            let mut reader = self
                .store
                .reader(Scope::Tenants(&scope))
                .await
                .map_err(failed)?;
            let rows = reader
                .query(
                    "SELECT * FROM grant_rule WHERE tenant = ?1 ORDER BY made_at, id LIMIT ?2",
                    &values![tenant.as_str(), limit(self.most)],
                )
                .await
                .map_err(failed)?;
            let mut grants = Vec::with_capacity(rows.len());
            for row in &rows {
                grants.extend(row::read(row, &self.key).map_err(failed)?);
            }
            grants.retain(|grant| grant.is_alive(now));
            Ok(grants)
        })
    }

    fn revoke<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: GrantId,
    ) -> BoxFuture<'a, Result<bool, LedgerError>> {
        Box::pin(async move {
            let tenant = tenant.clone();
            self.queue.change(Revoke { tenant, id }).await
        })
    }
}

impl Grants {
    /// Takes in what changed since a person's grants were last read.
    async fn read_changes(
        &self,
        user: &UserGrants,
        principal: &Principal,
        finder: &dyn GrantFinder,
    ) -> Result<(), LedgerError> {
        let moment = user.moment();
        let scope = [principal.tenant.as_str()];
        let reader = self.store.reader(Scope::Tenants(&scope));
        let mut reader = reader.await.map_err(failed)?;
        let reader = &mut *reader;
        let mut known = user.known();
        let mut left = self.most;
        let newest = loop {
            let page = left.min(PAGE);
            let (mut newest, rows) = changes::since(reader, principal, known.changed, limit(page))
                .await
                .map_err(failed)?;
            if known.changed == 0 {
                // Nothing is known that could have been removed before.
                known.removed = newest.removed;
            } else if newest.changed < known.changed {
                // The record was replaced by an older one.
                user.forget();
                known = KnownChanges::default();
                continue;
            }
            for row in &rows {
                self.take_in(user, row, finder)?;
                known.changed = row.get("changed").map_err(failed)?;
            }
            left -= rows.len().min(left);
            if rows.len() < page {
                break newest;
            }
            if left == 0 {
                // The rest next time.
                newest.changed = known.changed;
                break newest;
            }
        };
        if newest.removed > known.removed {
            let ids = changes::ids(reader, principal, limit(self.most)).await;
            user.retain(&ids.map_err(failed)?);
        }
        let doubted = user.doubted();
        for id in &doubted {
            match row::find(reader, &principal.tenant, *id)
                .await
                .map_err(failed)?
            {
                Some(row) => self.take_in(user, &row, finder)?,
                None => user.put(*id, None, finder),
            }
        }
        user.checked(moment, newest, &doubted);
        if self.most - left > FEW {
            self.cache.make_room(principal);
        }
        Ok(())
    }

    /// Takes in one row. A row that is not signed counts as not there.
    fn take_in(
        &self,
        user: &UserGrants,
        row: &Row,
        finder: &dyn GrantFinder,
    ) -> Result<(), LedgerError> {
        self.counting.grants_read.fetch_add(1, Ordering::Relaxed);
        let id: String = row.get("id").map_err(failed)?;
        if let Some(id) = GrantId::parse(&id) {
            user.put(id, row::read(row, &self.key).map_err(failed)?, finder);
        }
        Ok(())
    }
}

/// Uses this principal's grant once; returns whether that was possible.
pub(crate) async fn use_up(
    changing: &mut ChangeContext<'_>,
    principal: &Principal,
    id: GrantId,
    now: Timestamp,
) -> Result<bool, StoreError> {
    // Two starts at once must not both have the last use.
    let row = row::find_locked(changing.connection, &principal.tenant, id).await?;
    let grant = match &row {
        Some(row) => row::read(row, changing.key)?,
        None => None,
    };
    let Some(mut grant) = grant else {
        return Ok(false);
    };
    if grant.user != principal.user || !grant.is_alive(now) {
        return Ok(false);
    }
    if let Some(left) = grant.uses_left {
        grant.uses_left = Some(left.saturating_sub(1));
        let change = changes::raise(changing, &grant.tenant, &grant.user).await?;
        row::update_uses(changing.connection, changing.key, &grant, change).await?;
    }
    Ok(true)
}

/// Ends the grants that were made for a session.
pub(crate) async fn end_session(
    changing: &mut ChangeContext<'_>,
    tenant: &TenantId,
    session: &SessionId,
) -> Result<(), StoreError> {
    let rows = changing
        .connection
        .query(
            "SELECT DISTINCT person FROM grant_rule
             WHERE tenant = ?1 AND scope = 'session' AND bound_to = ?2",
            &values![tenant.as_str(), session.as_str()],
        )
        .await?;
    if rows.is_empty() {
        return Ok(());
    }
    let removed = changing
        .connection
        .execute(
            "DELETE FROM grant_rule WHERE tenant = ?1 AND scope = 'session' AND bound_to = ?2",
            values![tenant.as_str(), session.as_str()],
        )
        .await?;
    changes::count(
        changing,
        tenant,
        -i64::try_from(removed).unwrap_or(i64::MAX),
    )
    .await?;
    for row in &rows {
        changes::raise_removed(changing, tenant, row.get("person")?).await?;
    }
    Ok(())
}

struct AddGrant {
    grant: Grant,
    most: i64,
}

impl Change for AddGrant {
    type Output = Result<(), LedgerError>;

    fn tenant(&self) -> Option<&TenantId> {
        Some(&self.grant.tenant)
    }

    async fn make(&self, changing: &mut ChangeContext<'_>) -> Result<Self::Output, StoreError> {
        let Grant { tenant, user, .. } = &self.grant;
        if changes::counted(changing, tenant).await? >= self.most {
            let kept = changes::count_again(changing, tenant).await?;
            if kept >= self.most {
                return Ok(Err(LedgerError::new(
                    LedgerErrorKind::LimitExceeded,
                    format!("there are {kept} standing approvals; revoke some first"),
                )));
            }
        }
        let change = changes::raise(changing, tenant, user).await?;
        if row::insert(changing.connection, changing.key, &self.grant, change).await? {
            changes::count(changing, tenant, 1).await?;
            return Ok(Ok(()));
        }
        Ok(Err(conflict("there is a grant with this id already")))
    }
}

struct Revoke {
    tenant: TenantId,
    id: GrantId,
}

impl Change for Revoke {
    type Output = bool;

    fn tenant(&self) -> Option<&TenantId> {
        Some(&self.tenant)
    }

    async fn make(&self, changing: &mut ChangeContext<'_>) -> Result<Self::Output, StoreError> {
        let Some(row) = row::find(changing.connection, &self.tenant, self.id).await? else {
            return Ok(false);
        };
        changing
            .connection
            .execute(
                "DELETE FROM grant_rule WHERE tenant = ?1 AND id = ?2",
                values![self.tenant.as_str(), &self.id.to_string()],
            )
            .await?;
        changes::count(changing, &self.tenant, -1).await?;
        changes::raise_removed(changing, &self.tenant, row.get("person")?).await?;
        Ok(true)
    }
}

fn limit(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
