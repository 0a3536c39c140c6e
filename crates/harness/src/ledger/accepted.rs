//! Calls accepted for any instance to claim.

use std::{collections::BTreeMap, sync::Arc};

use haft_contract::{
    CallId, CallRequest, TenantId,
    host::{Acceptance, Epoch, LedgerError, LedgerErrorKind, Timestamp},
};

use super::{CallRow, State, record};

/// All accepted calls.
#[derive(Clone, Default)]
pub(super) struct AcceptedCalls(BTreeMap<(TenantId, CallId), AcceptedCall>);

#[derive(Clone)]
struct AcceptedCall {
    request: CallRequest,
    /// The claim that holds it; `None` before the first.
    epoch: Option<Epoch>,
}

impl AcceptedCalls {
    /// Whether a call was accepted for others to run.
    pub(super) fn has(&self, call: CallId) -> bool {
        self.0.keys().any(|(_, accepted)| *accepted == call)
    }

    /// Whether the claim in this epoch holds a call.
    pub(super) fn holds(&self, tenant: &str, call: CallId, epoch: Epoch) -> bool {
        let mut calls = self.0.iter();
        calls.any(|((of, id), accepted)| {
            of.as_str() == tenant && *id == call && accepted.epoch == Some(epoch)
        })
    }
}

impl State {
    pub(super) fn accept(
        &mut self,
        request: &CallRequest,
        at: Timestamp,
    ) -> Result<Acceptance, LedgerError> {
        let key = (request.principal.tenant.clone(), request.id);
        if let Some(known) = self.accepted.0.get(&key) {
            return if is_same(&known.request, request) {
                Ok(Acceptance::AcceptedBefore)
            } else {
                Err(taken("another request was accepted under this id"))
            };
        }
        if self.calls.iter().any(|call| call.id == request.id) {
            return Err(taken("a call with this id is on record"));
        }
        self.open(request, at);
        let accepted = AcceptedCall {
            request: request.clone(),
            epoch: None,
        };
        self.accepted.0.insert(key, accepted);
        Ok(Acceptance::Accepted)
    }

    pub(super) fn claim(
        &mut self,
        tenant: &TenantId,
        call: CallId,
        epoch: Epoch,
        at: Timestamp,
    ) -> Result<CallRequest, LedgerError> {
        let key = (tenant.clone(), call);
        let Some(accepted) = self.accepted.0.get_mut(&key) else {
            let message = format!("no call `{call}` was accepted");
            return Err(LedgerError::new(LedgerErrorKind::NotFound, message));
        };
        if self.calls.iter().any(|row| row.id == call && row.settled) {
            return Err(over());
        }
        if let Some(held) = accepted.epoch.filter(|held| epoch <= *held) {
            let message = format!("the call is held by a claim in epoch {held}");
            return Err(LedgerError::new(LedgerErrorKind::Superseded, message));
        }
        accepted.epoch = Some(epoch);
        let request = accepted.request.clone();
        if self.is_in_doubt(call) {
            let body = record::unknown(call);
            for row in self.calls.iter_mut().filter(|row| row.id == call) {
                row.settled = true;
            }
            self.push(tenant.as_str(), call, at, "settled", body);
            return Err(over());
        }
        Ok(request)
    }

    /// Adds a newly opened call.
    pub(super) fn open(&mut self, request: &CallRequest, at: Timestamp) {
        let tenant = request.principal.tenant.to_string();
        self.calls.push(CallRow {
            id: request.id,
            principal: Arc::clone(&request.principal),
            workspace: request.workspace.clone(),
            asked_tool: request.tool.clone(),
            opened: at,
            settled: false,
        });
        let body = record::opened(request);
        self.push(&tenant, request.id, at, "opened", body);
    }

    /// Whether a call has started and may have changed something.
    fn is_in_doubt(&self, call: CallId) -> bool {
        let rows = || self.rows.iter().filter(|row| row.call == call);
        let planned = rows().rfind(|row| row.kind == "planned");
        let repeats = planned.is_some_and(|row| row.body["may_be_repeated"] == true);
        rows().any(|row| row.kind == "started") && !repeats
    }
}

fn is_same(one: &CallRequest, other: &CallRequest) -> bool {
    one.tool == other.tool
        && one.arguments == other.arguments
        && one.principal == other.principal
        && one.workspace == other.workspace
        && one.timeout == other.timeout
}

fn taken(message: &str) -> LedgerError {
    LedgerError::new(LedgerErrorKind::Conflict, message)
}

fn over() -> LedgerError {
    LedgerError::new(LedgerErrorKind::Over, "the call already has its outcome")
}

/// The error for continuing with a claim that a newer one has superseded.
pub(super) fn superseded(epoch: Epoch) -> LedgerError {
    let message = format!("a claim newer than epoch {epoch} holds the call");
    LedgerError::new(LedgerErrorKind::Superseded, message)
}
