//! The calls in flight: how many are allowed, how to stop one, and how to stop all when the runtime
//! shuts down.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use haft_contract::{
    CallId, ErrorKind, TenantId, ToolError,
    outcome::{DeniedBy, Facts},
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{halt::HaltedCall, limits::Limits};

/// Every call that has begun and not ended.
#[derive(Default)]
pub(crate) struct InFlight {
    calls: Mutex<Calls>,
    /// Notified when the last call has ended, once no more are accepted.
    none_left: Notify,
}

#[derive(Default)]
struct Calls {
    tokens: HashMap<CallId, CancellationToken>,
    /// How many belong to each tenant, if there is a cap per tenant.
    by_tenant: HashMap<TenantId, usize>,
    /// No more are accepted.
    closed: bool,
}

impl InFlight {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn len(&self) -> usize {
        self.calls().tokens.len()
    }

    /// Stops a call. Returns whether it was in flight.
    pub(crate) fn cancel(&self, call: CallId) -> bool {
        let token = self.calls().tokens.get(&call).cloned();
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
            tokens, by_tenant, ..
        } = &mut *calls;
        let in_flight = tokens.len();
        let Entry::Vacant(place) = tokens.entry(call) else {
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
        place.insert(cancel.clone());
        Ok(InFlightSlot {
            of: self,
            call,
            tenant: tenant.cloned(),
        })
    }

    /// Refuses every further call, stops the current ones, and waits for them to end. Returns how
    /// many did not end in time.
    pub(crate) async fn shut_down(&self, wait: Duration) -> usize {
        let tokens: Vec<CancellationToken> = {
            let mut calls = self.calls();
            calls.closed = true;
            calls.tokens.values().cloned().collect()
        };
        tokens.iter().for_each(CancellationToken::cancel);
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
        self.len()
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

impl Drop for InFlightSlot<'_> {
    fn drop(&mut self) {
        let mut calls = self.of.calls();
        let token = calls.tokens.remove(&self.call);
        if let Some(tenant) = &self.tenant
            && let Some(count) = calls.by_tenant.get_mut(tenant)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                calls.by_tenant.remove(tenant);
            }
        }
        // Only a shutdown waits for this, and it closes before it waits.
        if calls.closed && calls.tokens.is_empty() {
            self.of.none_left.notify_waiters();
        }
        drop(calls);
        if let Some(token) = token {
            token.cancel();
        }
    }
}
