//! The calls in flight: how many are allowed, which they are, how to stop one, and how to stop all
//! when the runtime shuts down.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use haft_contract::{
    CallId, CallRequest, ErrorKind, Principal, TenantId, ToolError, WorkspaceId,
    host::Timestamp,
    outcome::{DeniedBy, Facts},
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{
    call_stage::{CallStage, StageMark},
    halt::HaltedCall,
    limits::Limits,
};

/// A call that has begun and not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InFlightCall {
    /// Which call.
    pub call: CallId,
    /// The tool, as the request names it.
    pub tool: String,
    /// Who asks.
    pub principal: Arc<Principal>,
    /// Where it works.
    pub workspace: WorkspaceId,
    /// When it began here.
    pub since: Timestamp,
    /// How far it has got.
    pub stage: CallStage,
}

/// What became of the calls in flight when a runtime was shut down.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// How many ended by themselves within the grace.
    pub finished: usize,
    /// Those that were stopped, the oldest first, as they were then.
    pub stopped: Vec<InFlightCall>,
    /// How many of these did not end even so. The next start settles them.
    pub left: usize,
}

/// Every call that has begun and not ended.
#[derive(Default)]
pub(crate) struct InFlight {
    calls: Mutex<Calls>,
    /// Notified when the last call has ended, once no more are accepted.
    none_left: Notify,
}

#[derive(Default)]
struct Calls {
    begun: HashMap<CallId, BegunCall>,
    /// How many belong to each tenant, if there is a cap per tenant.
    by_tenant: HashMap<TenantId, usize>,
    /// No more are accepted.
    closed: bool,
}

struct BegunCall {
    token: CancellationToken,
    /// What it is; nothing for a call that is only planned or not claimed yet.
    known: Option<KnownCall>,
}

struct KnownCall {
    tool: String,
    principal: Arc<Principal>,
    workspace: WorkspaceId,
    since: Timestamp,
    stage: StageMark,
}

impl Calls {
    /// The oldest first.
    fn list(&self) -> Vec<InFlightCall> {
        let known = self.begun.iter().filter_map(|(call, begun)| {
            let known = begun.known.as_ref()?;
            Some(InFlightCall {
                call: *call,
                tool: known.tool.clone(),
                principal: Arc::clone(&known.principal),
                workspace: known.workspace.clone(),
                since: known.since,
                stage: known.stage.get(),
            })
        });
        let mut list: Vec<_> = known.collect();
        list.sort_by_key(|call| (call.since, call.call));
        list
    }
}

impl InFlight {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn len(&self) -> usize {
        self.calls().begun.len()
    }

    /// Which they are, the oldest first.
    pub(crate) fn list(&self) -> Vec<InFlightCall> {
        self.calls().list()
    }

    /// Stops a call. Returns whether it was in flight.
    pub(crate) fn cancel(&self, call: CallId) -> bool {
        let begun = self.calls();
        let token = begun.begun.get(&call).map(|begun| begun.token.clone());
        drop(begun);
        token.map(|token| token.cancel()).is_some()
    }

    /// Reserves a slot for a call, released when dropped, which also cancels the call's token.
    pub(crate) fn take(
        &self,
        call: CallId,
        tenant: &TenantId,
        cancel: &CancellationToken,
        limits: &Limits,
    ) -> Result<InFlightSlot<'_>, NotTaken> {
        let limit = limits.calls_in_flight;
        // If one tenant may have as many calls as all together, there is no need to count.
        let of_tenant = limits.calls_in_flight_per_tenant;
        let tenant = (of_tenant < limit).then_some(tenant);
        let mut calls = self.calls();
        if calls.closed {
            return Err(NotTaken::ShuttingDown);
        }
        let Calls {
            begun, by_tenant, ..
        } = &mut *calls;
        let in_flight = begun.len();
        let Entry::Vacant(place) = begun.entry(call) else {
            return Err(NotTaken::Twice);
        };
        if in_flight >= limit {
            return Err(NotTaken::Full(limit));
        }
        if let Some(tenant) = tenant {
            let count = by_tenant.entry(tenant.clone()).or_default();
            if *count >= of_tenant {
                return Err(NotTaken::TenantFull(of_tenant));
            }
            *count += 1;
        }
        place.insert(BegunCall {
            token: cancel.clone(),
            known: None,
        });
        Ok(InFlightSlot {
            of: self,
            call,
            tenant: tenant.cloned(),
        })
    }

    /// Refuses every further call, gives the current ones the grace, stops those that are left, and
    /// waits for them to end.
    pub(crate) async fn shut_down(&self, grace: Duration, wait: Duration) -> ShutdownReport {
        let before = {
            let mut calls = self.calls();
            calls.closed = true;
            calls.begun.len()
        };
        self.until_none_left(grace).await;
        let (stopped, tokens) = {
            let calls = self.calls();
            let tokens = calls.begun.values().map(|begun| begun.token.clone());
            (calls.list(), tokens.collect::<Vec<_>>())
        };
        tokens.iter().for_each(CancellationToken::cancel);
        self.until_none_left(wait).await;
        ShutdownReport {
            finished: before.saturating_sub(tokens.len()),
            stopped,
            left: self.len(),
        }
    }

    /// Waits until no call is in flight, at most this long.
    async fn until_none_left(&self, wait: Duration) {
        let ended = async {
            loop {
                let told = self.none_left.notified();
                if self.len() == 0 {
                    break;
                }
                told.await;
            }
        };
        // A timeout shows in the number that is left.
        let _ = tokio::time::timeout(wait, ended).await;
    }
}

/// Why a call is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotTaken {
    /// A call with the same id is in flight.
    Twice,
    /// The limit on all calls is reached.
    Full(usize),
    /// The limit on the tenant's calls is reached.
    TenantFull(usize),
    /// The runtime, and with it the record, is shutting down.
    ShuttingDown,
}

impl NotTaken {
    pub(crate) fn halt(self) -> HaltedCall {
        let unavailable = |message| ToolError::new(ErrorKind::Unavailable, message);
        match self {
            Self::Twice => halt(ToolError::invalid_input(
                "a call with this id is in flight already",
            )),
            Self::Full(limit) => halt(
                unavailable(format!("{limit} calls are in flight already"))
                    .hint("repeat the call when fewer are in flight"),
            ),
            Self::TenantFull(limit) => halt(
                unavailable(format!(
                    "{limit} calls of this tenant are in flight already"
                ))
                .hint("repeat the call when fewer are in flight"),
            ),
            Self::ShuttingDown => {
                let message = "Haft is shutting down and accepts no more calls".to_owned();
                let error = unavailable(message).hint("repeat the call when Haft runs again");
                halt(error).denied_by(DeniedBy::Ledger)
            }
        }
    }
}

fn halt(error: ToolError) -> HaltedCall {
    HaltedCall::new(error, None, Facts::default())
}

/// A call's reserved slot. Dropping it stops whatever the call has started and left behind.
pub(crate) struct InFlightSlot<'a> {
    of: &'a InFlight,
    call: CallId,
    /// The tenant it counts towards.
    tenant: Option<TenantId>,
}

impl InFlightSlot<'_> {
    /// Says what the call is, for whoever lists what is in flight.
    pub(crate) fn describe(&self, request: &CallRequest, since: Timestamp) -> StageMark {
        let stage = StageMark::default();
        let known = KnownCall {
            tool: request.tool.clone(),
            principal: Arc::clone(&request.principal),
            workspace: request.workspace.clone(),
            since,
            stage: stage.clone(),
        };
        if let Some(begun) = self.of.calls().begun.get_mut(&self.call) {
            begun.known = Some(known);
        }
        stage
    }
}

impl Drop for InFlightSlot<'_> {
    fn drop(&mut self) {
        let mut calls = self.of.calls();
        let begun = calls.begun.remove(&self.call);
        if let Some(tenant) = &self.tenant
            && let Some(count) = calls.by_tenant.get_mut(tenant)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                calls.by_tenant.remove(tenant);
            }
        }
        // Only a shutdown waits for this, and it closes before it waits.
        if calls.closed && calls.begun.is_empty() {
            self.of.none_left.notify_waiters();
        }
        drop(calls);
        if let Some(begun) = begun {
            begun.token.cancel();
        }
    }
}
