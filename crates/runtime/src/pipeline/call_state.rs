//! What every stage of a call carries: who asks, where events go, what is known so far.

use std::{sync::Arc, time::Duration};

use haft_contract::{
    CallId, ErrorKind, Label, Labels, Principal, SealedPlan, ToolError, ToolKey,
    erased::ErasedApprover,
    host::{Decision, Verdict},
    ops::OpsError,
    outcome::{DeniedBy, Facts},
};
use tokio_util::sync::CancellationToken;

use super::HaltedCall;
use crate::{
    engine::Engine,
    halt::cancelled,
    input::RenamedParameters,
    labels::Session,
    loops::WatchedCall,
    outgoing::{BudgetAnswer, Counting, is_composed_request, within_budget},
    record::Recording,
    rules::WorkspaceRules,
    workspace::Workspace,
};

pub(crate) struct CallState {
    pub(crate) engine: Arc<Engine>,
    pub(crate) workspace: Arc<Workspace>,
    /// The rules in force when the call was opened. Whatever judges, masks or shows the call reads
    /// these; only `admit` looks at newer ones.
    pub(crate) rules: Arc<WorkspaceRules>,
    pub(crate) recording: Arc<Recording>,
    pub(crate) id: CallId,
    pub(crate) principal: Arc<Principal>,
    /// The run time the caller allows.
    pub(crate) timeout: Option<Duration>,
    pub(crate) cancel: CancellationToken,
    /// Who is asked beside the workspace's approver, if the caller takes its questions itself.
    pub(crate) asker: Option<Arc<dyn ErasedApprover>>,
    /// The call as the loop guard sees it; `None` when the guard is off.
    pub(crate) watched: Option<Arc<WatchedCall>>,
    /// What the session has read from, once the call is planned.
    pub(crate) session: Option<Arc<Session>>,
    /// Whether a person is asked because of what the session has sent to hosts.
    pub(crate) beyond_budget: bool,
    /// The paths that were left out of the plan, and why.
    pub(crate) left_out: Arc<[OpsError]>,
    /// Read-denied patterns that a search over a tree must leave out, once policy has decided.
    pub(crate) withheld: Arc<[String]>,
    pub(crate) tool: Option<ToolKey>,
    /// Whether the tool is in no registry and exists for this call alone.
    pub(crate) apart: bool,
    pub(crate) facts: Facts,
    /// The parameters that were read under another name than the caller wrote.
    pub(crate) renamed: RenamedParameters,
    /// Lines for the model, in addition to what the tool returned.
    pub(crate) notes: Vec<String>,
}

impl CallState {
    /// Stops the call with an error.
    pub(crate) fn halt(self: Box<Self>, error: ToolError) -> HaltedCall {
        let error = self.renamed.as_written(error);
        HaltedCall::new(error, self.tool, self.facts)
    }

    /// Policy's decision, made stricter if the session repeats itself.
    pub(crate) fn weigh(&self, plan: &SealedPlan, decision: Arc<Decision>) -> Arc<Decision> {
        match &self.watched {
            Some(watched) => self.engine.loops.weigh(watched, plan, decision),
            None => decision,
        }
    }

    /// The decision, made stricter if the session would have sent too much to hosts with this call.
    pub(crate) fn weigh_outgoing(
        &mut self,
        plan: &SealedPlan,
        counting: Counting,
        decision: Arc<Decision>,
    ) -> Arc<Decision> {
        let Some(session) = &self.session else {
            return decision;
        };
        // Most calls ask no host for anything, and take no lock here.
        if decision.verdict == Verdict::Deny || !is_composed_request(plan) {
            return decision;
        }
        let (most, read_from) = (self.engine.limits.outgoing_bytes, session.labels());
        let answer = session.outgoing().weigh(plan, &read_from, most, counting);
        self.beyond_budget = matches!(answer, BudgetAnswer::Beyond(_));
        within_budget(answer, most, &read_from, decision)
    }

    /// What the session has read from by now, which may be more than the plan says.
    pub(crate) fn read_from(&self) -> Labels {
        match &self.session {
            Some(session) => session.labels(),
            None => Labels::NONE.with(Label::anything()),
        }
    }

    /// Updates what the session has read from with what the record says now, including what other
    /// processes recorded. If that fails, the call ends.
    pub(crate) async fn caught_up(self: Box<Self>) -> Result<Box<Self>, HaltedCall> {
        let Some(session) = &self.session else {
            return Ok(self);
        };
        let caught_up = session.catch_up(&self.principal, &*self.engine.ledger, &self.cancel);
        match caught_up.await {
            Ok(()) => Ok(self),
            Err(error) => Err(self.not_looked_up(error)),
        }
    }

    /// Stops a call because it is unknown what its session has read from.
    pub(crate) fn not_looked_up(self: Box<Self>, error: ToolError) -> HaltedCall {
        let cancelled = error.kind() == ErrorKind::Cancelled;
        let halt = self.halt(error);
        if cancelled {
            halt
        } else {
            halt.denied_by(DeniedBy::Ledger)
        }
    }

    /// The label of the call's tool, if the session does not have it yet.
    pub(crate) fn new_label(&self) -> Option<Label> {
        let label = Label::of(&self.tool.as_ref()?.provider)?;
        (!self.read_from().contains(&label)).then_some(label)
    }

    /// Stops the call if the caller asked to.
    pub(crate) fn unless_cancelled(self: Box<Self>) -> Result<Box<Self>, HaltedCall> {
        if self.cancel.is_cancelled() {
            return Err(self.halt(cancelled()));
        }
        Ok(self)
    }
}
