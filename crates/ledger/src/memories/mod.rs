//! What agents save for themselves: kept and removed by the writer, read as it is stored. A memory is
//! no part of the record, because it must be possible to forget it; the calls that saved and read it
//! are. Read next: `docs/adr/0051-*.md`.

pub(crate) mod row;

use std::sync::Arc;

use haft_contract::{
    BoxFuture, Label, Labels, Principal, SessionId, TenantId,
    host::{LedgerError, LedgerErrorKind, MemoryStore},
    memory::{MAX_MEMORIES, Memory, MemoryId, MemoryOwner},
};

use crate::{
    change::{Change, ChangeContext, conflict},
    queue::{Queue, unavailable},
    reading::{failed, row_limit},
    redact::Redactor,
    store::{Scope, Store, StoreError, Value, values},
    used_marks::UsedMarks,
};

pub(crate) struct Memories {
    pub(crate) queue: Arc<Queue>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) key: [u8; 32],
    pub(crate) used_marks: Arc<UsedMarks>,
}

impl MemoryStore for Memories {
    fn save(&self, memory: Memory) -> BoxFuture<'_, Result<Memory, LedgerError>> {
        Box::pin(async move { self.queue.change(SaveMemory(memory)).await? })
    }

    fn of<'a>(&'a self, owner: &'a MemoryOwner) -> BoxFuture<'a, Result<Vec<Memory>, LedgerError>> {
        Box::pin(async move {
            let select = "SELECT * FROM memory WHERE tenant = ?1 AND person = ?2 AND agent = ?3
                 ORDER BY at, id LIMIT ?4";
            let values = values![
                owner.tenant.as_str(),
                owner.user.as_str(),
                owner.agent.as_str(),
                row_limit(MAX_MEMORIES)
            ];
            self.read(&owner.tenant, select, &values).await
        })
    }

    fn list<'a>(
        &'a self,
        tenant: &'a TenantId,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Memory>, LedgerError>> {
        Box::pin(async move {
            let select = "SELECT * FROM memory WHERE tenant = ?1 ORDER BY at, id LIMIT ?2";
            let values = values![tenant.as_str(), row_limit(limit)];
            self.read(tenant, select, &values).await
        })
    }

    fn forget<'a>(
        &'a self,
        owner: &'a MemoryOwner,
        id: MemoryId,
    ) -> BoxFuture<'a, Result<bool, LedgerError>> {
        Box::pin(async move {
            let owner = owner.clone();
            self.queue.change(ForgetMemory { owner, id }).await
        })
    }

    fn note_read<'a>(
        &'a self,
        principal: &'a Principal,
        read_from: &'a Labels,
    ) -> BoxFuture<'a, Result<(), LedgerError>> {
        Box::pin(async move {
            let (tenant, session) = (&principal.tenant, &principal.session);
            let noted = NoteRead {
                tenant: tenant.clone(),
                session: session.clone(),
                providers: read_from.iter().map(Label::recorded_provider).collect(),
            };
            self.queue.change(noted).await?;
            // Once it is in the record: whoever sees the new number reads this.
            self.used_marks.change(tenant, session).map_err(|error| {
                tracing::error!(%error, "other processes cannot be told what a session has read");
                unavailable("other processes cannot be told what the session reads from")
            })
        })
    }
}

impl Memories {
    async fn read(
        &self,
        tenant: &TenantId,
        select: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Memory>, LedgerError> {
        let scope = [tenant.as_str()];
        let reader = self.store.reader(Scope::Tenants(&scope)).await;
        let rows = reader.map_err(failed)?.query(select, values).await;
        let mut memories = Vec::new();
        for row in &rows.map_err(failed)? {
            memories.extend(row::read(row, &self.key).map_err(failed)?);
        }
        Ok(memories)
    }
}

struct SaveMemory(Memory);

impl Change for SaveMemory {
    type Output = Result<Memory, LedgerError>;

    const IS_ABOUT_CALLS: bool = false;

    fn tenant(&self) -> Option<&TenantId> {
        Some(&self.0.owner.tenant)
    }

    fn prepare(&mut self, redactor: &Redactor) {
        self.0.text = redactor.text(&self.0.text).into_owned();
    }

    async fn make(&self, changing: &mut ChangeContext<'_>) -> Result<Self::Output, StoreError> {
        let MemoryOwner {
            tenant,
            user,
            agent,
        } = &self.0.owner;
        let kept = changing
            .connection
            .number(
                "SELECT count(*) FROM memory WHERE tenant = ?1 AND person = ?2 AND agent = ?3",
                &values![tenant.as_str(), user.as_str(), agent.as_str()],
            )
            .await?;
        if kept >= row_limit(MAX_MEMORIES) {
            return Ok(Err(LedgerError::new(
                LedgerErrorKind::LimitExceeded,
                format!("this agent has {kept} memories, which is the most it may have"),
            )));
        }
        if row::insert(changing.connection, changing.key, &self.0).await? {
            return Ok(Ok(self.0.clone()));
        }
        Ok(Err(conflict("there is a memory with this id already")))
    }
}

struct ForgetMemory {
    owner: MemoryOwner,
    id: MemoryId,
}

impl Change for ForgetMemory {
    type Output = bool;

    const IS_ABOUT_CALLS: bool = false;

    fn tenant(&self) -> Option<&TenantId> {
        Some(&self.owner.tenant)
    }

    async fn make(&self, changing: &mut ChangeContext<'_>) -> Result<Self::Output, StoreError> {
        let MemoryOwner {
            tenant,
            user,
            agent,
        } = &self.owner;
        let removed = changing
            .connection
            .execute(
                "DELETE FROM memory WHERE tenant = ?1 AND id = ?2 AND person = ?3 AND agent = ?4",
                values![
                    tenant.as_str(),
                    &self.id.to_string(),
                    user.as_str(),
                    agent.as_str()
                ],
            )
            .await?;
        Ok(removed > 0)
    }
}

/// Notes what a session has read from by way of a memory.
struct NoteRead {
    tenant: TenantId,
    session: SessionId,
    providers: Vec<String>,
}

impl Change for NoteRead {
    type Output = ();

    const IS_ABOUT_CALLS: bool = false;

    fn tenant(&self) -> Option<&TenantId> {
        Some(&self.tenant)
    }

    async fn make(&self, changing: &mut ChangeContext<'_>) -> Result<Self::Output, StoreError> {
        let rows: Vec<Vec<Value<'_>>> = self
            .providers
            .iter()
            .map(|provider| values![self.tenant.as_str(), self.session.as_str(), provider].to_vec())
            .collect();
        changing
            .connection
            .execute_all(
                "INSERT INTO memory_source (tenant, session, provider) VALUES (?1, ?2, ?3)
                 ON CONFLICT DO NOTHING",
                &rows,
            )
            .await?;
        Ok(())
    }
}
