//! The record of a runtime that only plans: it is empty and refuses to open a call, so that nothing
//! can run.

use std::sync::Arc;

use haft_contract::{
    BoxFuture, CallId, CallRequest, Labels, Principal, SessionId, TenantId, WorkPath, WorkspaceId,
    host::{
        Acceptance, AgentQuestionId, AgentQuestionStore, AnswerError, Answerer, Approval,
        ApprovalId, ApprovalQuestion, ApprovalStore, ArtifactId, ArtifactStore, AskedQuestion,
        CallRecord, ClaimedCall, Epoch, GivenAnswer, GivenReply, Grant, GrantFinder, GrantId,
        GrantStore, History, Ledger, LedgerError, LedgerErrorKind, MemoryStore, NewAgentQuestion,
        ReadArtifact, ReplyError, Timestamp, WriteArtifact,
    },
    memory::{Memory, MemoryId, MemoryOwner},
    ops::FileVersion,
};

#[derive(Debug, Clone, Copy)]
pub(crate) struct NoRecord;

impl Ledger for NoRecord {
    fn open<'a>(
        &'a self,
        _: &'a CallRequest,
        _: Timestamp,
    ) -> BoxFuture<'a, Result<Box<dyn CallRecord>, LedgerError>> {
        Box::pin(async { Err(nothing_is_kept()) })
    }

    fn accept<'a>(
        &'a self,
        _: &'a CallRequest,
        _: Timestamp,
    ) -> BoxFuture<'a, Result<Acceptance, LedgerError>> {
        Box::pin(async { Err(nothing_is_kept()) })
    }

    fn claim<'a>(
        &'a self,
        _: &'a TenantId,
        _: CallId,
        _: Epoch,
        _: Timestamp,
    ) -> BoxFuture<'a, Result<ClaimedCall, LedgerError>> {
        Box::pin(async { Err(nothing_is_kept()) })
    }

    fn artifacts(&self) -> Arc<dyn ArtifactStore> {
        Arc::new(Self)
    }

    fn approvals(&self) -> Arc<dyn ApprovalStore> {
        Arc::new(Self)
    }

    fn agent_questions(&self) -> Arc<dyn AgentQuestionStore> {
        Arc::new(Self)
    }

    fn grants(&self) -> Arc<dyn GrantStore> {
        Arc::new(Self)
    }

    fn memories(&self) -> Arc<dyn MemoryStore> {
        Arc::new(Self)
    }

    fn history(&self) -> Option<Arc<dyn History>> {
        None
    }

    fn last_seen<'a>(
        &'a self,
        _: &'a Principal,
        _: &'a WorkspaceId,
        _: &'a WorkPath,
    ) -> BoxFuture<'a, Result<Option<FileVersion>, LedgerError>> {
        Box::pin(async { Ok(None) })
    }

    fn note_seen(&self, _: &Principal, _: &WorkspaceId, _: &WorkPath, _: &FileVersion) {}

    fn spilled<'a>(
        &'a self,
        _: &'a Principal,
        _: &'a WorkspaceId,
        _: CallId,
    ) -> BoxFuture<'a, Result<Option<ArtifactId>, LedgerError>> {
        Box::pin(async { Ok(None) })
    }

    fn providers_used<'a>(
        &'a self,
        _: &'a TenantId,
        _: &'a SessionId,
        _: usize,
    ) -> BoxFuture<'a, Result<Vec<String>, LedgerError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn used_mark(&self, _: &TenantId, _: &SessionId) -> Option<u64> {
        Some(0)
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async { Ok(()) })
    }
}

impl ArtifactStore for NoRecord {
    fn create(&self) -> BoxFuture<'_, Result<Box<dyn WriteArtifact>, LedgerError>> {
        Box::pin(async { Err(nothing_is_kept()) })
    }

    fn open(&self, _: ArtifactId) -> BoxFuture<'_, Result<Arc<dyn ReadArtifact>, LedgerError>> {
        Box::pin(async { Err(nothing_is_kept()) })
    }
}

impl ApprovalStore for NoRecord {
    fn ask(&self, _: ApprovalQuestion) -> BoxFuture<'_, Result<Approval, LedgerError>> {
        Box::pin(async { Err(nothing_is_kept()) })
    }

    fn answered<'a>(
        &'a self,
        _: &'a TenantId,
        _: ApprovalId,
    ) -> BoxFuture<'a, Result<Approval, LedgerError>> {
        Box::pin(async { Err(nothing_is_kept()) })
    }

    fn answer<'a>(
        &'a self,
        _: &'a TenantId,
        _: ApprovalId,
        _: GivenAnswer,
        _: Timestamp,
    ) -> BoxFuture<'a, Result<Approval, AnswerError>> {
        Box::pin(async { Err(nothing_is_kept().into()) })
    }

    fn withdraw<'a>(
        &'a self,
        _: &'a TenantId,
        _: ApprovalId,
        _: Timestamp,
    ) -> BoxFuture<'a, Result<(), LedgerError>> {
        Box::pin(async { Err(nothing_is_kept()) })
    }

    fn end_session<'a>(
        &'a self,
        _: &'a TenantId,
        _: &'a SessionId,
        _: Timestamp,
    ) -> BoxFuture<'a, Result<(), LedgerError>> {
        Box::pin(async { Err(nothing_is_kept()) })
    }

    fn get<'a>(
        &'a self,
        _: &'a TenantId,
        _: ApprovalId,
    ) -> BoxFuture<'a, Result<Option<Approval>, LedgerError>> {
        Box::pin(async { Err(nothing_is_kept()) })
    }

    fn pending<'a>(
        &'a self,
        _: &'a TenantId,
        _: Timestamp,
        _: usize,
    ) -> BoxFuture<'a, Result<Vec<Approval>, LedgerError>> {
        Box::pin(async { Err(nothing_is_kept()) })
    }
}

impl AgentQuestionStore for NoRecord {
    fn ask(&self, _: NewAgentQuestion) -> BoxFuture<'_, Result<AskedQuestion, LedgerError>> {
        Box::pin(async { Err(nothing_is_kept()) })
    }

    fn answered<'a>(
        &'a self,
        _: &'a TenantId,
        _: AgentQuestionId,
    ) -> BoxFuture<'a, Result<AskedQuestion, LedgerError>> {
        Box::pin(async { Err(nothing_is_kept()) })
    }

    fn reply<'a>(
        &'a self,
        _: &'a TenantId,
        _: AgentQuestionId,
        _: GivenReply,
        _: Answerer,
        _: Timestamp,
    ) -> BoxFuture<'a, Result<AskedQuestion, ReplyError>> {
        Box::pin(async { Err(nothing_is_kept().into()) })
    }

    fn received<'a>(
        &'a self,
        _: &'a TenantId,
        _: AgentQuestionId,
        _: CallId,
        _: Timestamp,
    ) -> BoxFuture<'a, Result<(), LedgerError>> {
        Box::pin(async { Err(nothing_is_kept()) })
    }

    fn withdraw<'a>(
        &'a self,
        _: &'a TenantId,
        _: AgentQuestionId,
        _: Timestamp,
    ) -> BoxFuture<'a, Result<(), LedgerError>> {
        Box::pin(async { Err(nothing_is_kept()) })
    }

    fn get<'a>(
        &'a self,
        _: &'a TenantId,
        _: AgentQuestionId,
    ) -> BoxFuture<'a, Result<Option<AskedQuestion>, LedgerError>> {
        Box::pin(async { Err(nothing_is_kept()) })
    }

    fn pending<'a>(
        &'a self,
        _: &'a TenantId,
        _: Timestamp,
        _: usize,
    ) -> BoxFuture<'a, Result<Vec<AskedQuestion>, LedgerError>> {
        Box::pin(async { Err(nothing_is_kept()) })
    }
}

/// No standing approvals are known, so a plan shows what the rules alone decide.
impl GrantStore for NoRecord {
    fn add(&self, _: Grant) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async { Err(nothing_is_kept()) })
    }

    fn holding<'a>(
        &'a self,
        _: &'a Principal,
        _: &'a WorkspaceId,
        _: Timestamp,
        _: &'a dyn GrantFinder,
    ) -> BoxFuture<'a, Result<Vec<Grant>, LedgerError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn list<'a>(
        &'a self,
        _: &'a TenantId,
        _: Timestamp,
    ) -> BoxFuture<'a, Result<Vec<Grant>, LedgerError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn revoke<'a>(
        &'a self,
        _: &'a TenantId,
        _: GrantId,
    ) -> BoxFuture<'a, Result<bool, LedgerError>> {
        Box::pin(async { Ok(false) })
    }
}

impl MemoryStore for NoRecord {
    fn save(&self, _: Memory) -> BoxFuture<'_, Result<Memory, LedgerError>> {
        Box::pin(async { Err(nothing_is_kept()) })
    }

    fn of<'a>(&'a self, _: &'a MemoryOwner) -> BoxFuture<'a, Result<Vec<Memory>, LedgerError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn list<'a>(
        &'a self,
        _: &'a TenantId,
        _: usize,
    ) -> BoxFuture<'a, Result<Vec<Memory>, LedgerError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn forget<'a>(
        &'a self,
        _: &'a MemoryOwner,
        _: MemoryId,
    ) -> BoxFuture<'a, Result<bool, LedgerError>> {
        Box::pin(async { Ok(false) })
    }

    fn note_read<'a>(
        &'a self,
        _: &'a Principal,
        _: &'a Labels,
    ) -> BoxFuture<'a, Result<(), LedgerError>> {
        Box::pin(async { Err(nothing_is_kept()) })
    }
}

fn nothing_is_kept() -> LedgerError {
    LedgerError::new(
        LedgerErrorKind::Unavailable,
        "this runtime has no record, so it plans calls but does not run them",
    )
}
