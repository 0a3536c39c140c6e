//! The contract's reading trait, on a store: each method waits until what was appended before can be read,
//! catches up with what it needs, and asks.

use haft_contract::{
    BoxFuture, CallId, TenantId, WorkspaceId,
    event::RecordedEvent,
    host::{
        CallQuery, History, LedgerError, ReplayableCall, StatsQuery, StatsRow, StoredCall,
        StoredEvent, StoredSession, StoredWorkspace, Timestamp, Verification,
    },
};

use crate::{
    history::{changes, facts, read, replay},
    ledger::StoredLedger,
};

impl History for StoredLedger {
    fn call<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
    ) -> BoxFuture<'a, Result<Option<StoredCall>, LedgerError>> {
        Box::pin(async move {
            let (store, _) = self.settled_store().await;
            read::call(&*store, tenant, id).await
        })
    }

    fn calls<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: &'a CallQuery,
    ) -> BoxFuture<'a, Result<Vec<StoredCall>, LedgerError>> {
        Box::pin(async move {
            let store = match query.search {
                Some(_) => self.caught_up_store().await?,
                None => self.settled_store().await.0,
            };
            read::calls(&*store, tenant, query).await
        })
    }

    fn catch_up(&self) -> BoxFuture<'_, Result<u64, LedgerError>> {
        Box::pin(async move {
            self.settled_store().await;
            self.catch_up_with_some().await
        })
    }

    fn events<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, LedgerError>> {
        Box::pin(async move {
            let (store, _) = self.settled_store().await;
            read::events(&*store, tenant, id).await
        })
    }

    fn replayable<'a>(
        &'a self,
        tenant: &'a TenantId,
        since: Timestamp,
        after: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<ReplayableCall>, LedgerError>> {
        Box::pin(async move {
            let (store, _) = self.settled_store().await;
            replay::replayable(&*store, tenant, since, after, limit).await
        })
    }

    fn changes<'a>(
        &'a self,
        tenant: &'a TenantId,
        calls: &'a [CallId],
    ) -> BoxFuture<'a, Result<Vec<RecordedEvent>, LedgerError>> {
        Box::pin(async move {
            let (store, _) = self.settled_store().await;
            changes::changes(&*store, tenant, calls).await
        })
    }

    fn sessions<'a>(
        &'a self,
        tenant: &'a TenantId,
        workspaces: &'a [WorkspaceId],
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredSession>, LedgerError>> {
        Box::pin(async move {
            let store = self.caught_up_store().await?;
            facts::sessions(&*store, tenant, workspaces, limit).await
        })
    }

    fn workspaces<'a>(
        &'a self,
        tenant: &'a TenantId,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredWorkspace>, LedgerError>> {
        Box::pin(async move {
            let store = self.caught_up_store().await?;
            facts::workspaces(&*store, tenant, limit).await
        })
    }

    fn stats<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: &'a StatsQuery,
    ) -> BoxFuture<'a, Result<Vec<StatsRow>, LedgerError>> {
        Box::pin(async move {
            let store = self.caught_up_store().await?;
            facts::stats(&*store, tenant, query).await
        })
    }

    fn verify<'a>(
        &'a self,
        tenant: &'a TenantId,
    ) -> BoxFuture<'a, Result<Verification, LedgerError>> {
        Box::pin(self.verify_with(tenant, &|_, _| {}))
    }
}
