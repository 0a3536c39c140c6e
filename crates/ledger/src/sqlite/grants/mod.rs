//! Standing approvals on SQLite: made and ended by the writer, read through a short-lived cache,
//! because every decision asks for them.
//!
//! A cached grant may be slightly out of date. That is safe: a start uses each grant it depends on
//! in its own transaction (`checked_start.rs`), and one that has ended meanwhile refuses the start.

mod cache;
pub(super) mod row;

use std::sync::Arc;

use haft_contract::{
    BoxFuture, Principal, SessionId, TenantId, WorkspaceId,
    host::{Grant, GrantId, GrantStore, LedgerError, LedgerErrorKind, Timestamp},
};
use sqlx::SqlitePool;

pub(crate) use self::cache::GrantCache;
use super::{
    change::{Change, ChangeContext},
    checked_start::conflict,
    read::{MAX_ROWS, failed, row_limit},
};
use crate::queue::Queue;

pub(super) struct Grants {
    pub(super) queue: Arc<Queue>,
    pub(super) pool: SqlitePool,
    pub(super) key: [u8; 32],
    pub(super) remembered: Arc<GrantCache>,
}

impl GrantStore for Grants {
    fn add(&self, grant: Grant) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move {
            let added = self.queue.change(AddGrant(grant)).await;
            self.remembered.forget();
            added?
        })
    }

    fn holding<'a>(
        &'a self,
        principal: &'a Principal,
        workspace: &'a WorkspaceId,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Vec<Grant>, LedgerError>> {
        Box::pin(async move {
            let of_user = if let Some(grants) = self.remembered.of(principal) {
                grants
            } else {
                let moment = self.remembered.moment();
                let grants = self.of_user(principal).await?;
                self.remembered.remember(principal, moment, grants)
            };
            let holding = of_user.iter();
            Ok(holding
                .filter(|grant| grant.holds(principal, workspace, now))
                .cloned()
                .collect())
        })
    }

    fn list<'a>(
        &'a self,
        tenant: &'a TenantId,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Vec<Grant>, LedgerError>> {
        Box::pin(async move {
            let rows = sqlx::query(
                "SELECT * FROM grant_rule WHERE tenant = ?1 ORDER BY made_at, id LIMIT ?2",
            )
            .bind(tenant.as_str())
            .bind(row_limit(MAX_ROWS))
            .fetch_all(&self.pool)
            .await
            .map_err(failed)?;
            let mut grants = self.understood(&rows)?;
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
            let revoked = self.queue.change(Revoke { tenant, id }).await;
            self.remembered.forget();
            revoked
        })
    }
}

impl Grants {
    async fn of_user(&self, principal: &Principal) -> Result<Vec<Grant>, LedgerError> {
        let rows = sqlx::query(
            "SELECT * FROM grant_rule WHERE tenant = ?1 AND user = ?2
             ORDER BY made_at, id LIMIT ?3",
        )
        .bind(principal.tenant.as_str())
        .bind(principal.user.as_str())
        .bind(row_limit(MAX_ROWS))
        .fetch_all(&self.pool)
        .await
        .map_err(failed)?;
        self.understood(&rows)
    }

    fn understood(&self, rows: &[sqlx::sqlite::SqliteRow]) -> Result<Vec<Grant>, LedgerError> {
        let mut grants = Vec::with_capacity(rows.len());
        for row in rows {
            grants.extend(row::read(row, &self.key).map_err(failed)?);
        }
        Ok(grants)
    }
}

/// Uses this principal's grant once; returns whether that was possible.
pub(super) async fn use_up(
    changing: &mut ChangeContext<'_>,
    principal: &Principal,
    id: GrantId,
    now: Timestamp,
) -> Result<bool, sqlx::Error> {
    let row = sqlx::query("SELECT * FROM grant_rule WHERE tenant = ?1 AND id = ?2")
        .bind(principal.tenant.as_str())
        .bind(id.to_string())
        .fetch_optional(&mut *changing.connection)
        .await?;
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
        row::update_uses(changing.connection, changing.key, &grant).await?;
    }
    Ok(true)
}

/// Ends the grants that were made for a session.
pub(super) async fn end_session(
    changing: &mut ChangeContext<'_>,
    tenant: &TenantId,
    session: &SessionId,
) -> Result<(), sqlx::Error> {
    sqlx::query("DELETE FROM grant_rule WHERE tenant = ?1 AND scope = 'session' AND bound_to = ?2")
        .bind(tenant.as_str())
        .bind(session.as_str())
        .execute(&mut *changing.connection)
        .await?;
    Ok(())
}

struct AddGrant(Grant);

impl Change for AddGrant {
    type Output = Result<(), LedgerError>;

    async fn make(&self, changing: &mut ChangeContext<'_>) -> Result<Self::Output, sqlx::Error> {
        let kept: i64 = sqlx::query_scalar("SELECT count(*) FROM grant_rule WHERE tenant = ?1")
            .bind(self.0.tenant.as_str())
            .fetch_one(&mut *changing.connection)
            .await?;
        if kept >= row_limit(MAX_ROWS) {
            return Ok(Err(LedgerError::new(
                LedgerErrorKind::LimitExceeded,
                format!("there are {kept} standing approvals; revoke some first"),
            )));
        }
        if row::insert(changing.connection, changing.key, &self.0).await? {
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

    async fn make(&self, changing: &mut ChangeContext<'_>) -> Result<Self::Output, sqlx::Error> {
        let removed = sqlx::query("DELETE FROM grant_rule WHERE tenant = ?1 AND id = ?2")
            .bind(self.tenant.as_str())
            .bind(self.id.to_string())
            .execute(&mut *changing.connection)
            .await?;
        Ok(removed.rows_affected() > 0)
    }
}
