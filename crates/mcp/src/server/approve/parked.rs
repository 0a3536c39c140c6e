//! Calls that wait while no request waits for them: their client was given a question to take back,
//! a task, or the information that a person has not answered yet.
//!
//! A call is found again by a sealed state that is good once, by the id of its task, or, if its
//! client was given neither, by the same principal making exactly the same request again. Where
//! requests are self-contained, all clients of one token are one principal, so a call whose client
//! was given a state is found by that state alone. A call ends by itself, because questions lapse
//! and calls have deadlines. Its outcome is then kept for a while. A call that is not fetched in
//! time is dropped, and cancelled if it still runs.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use haft_contract::{CallId, host::Timestamp};
use tokio::{task::AbortHandle, time::Instant};

use super::{
    seal::{CallOwner, Claim, RequestDigest, Seals, StateKey},
    serve_wait::OngoingCall,
};

/// The most calls that may be parked. Nobody answers more questions than that.
pub const PARKED_CALLS: usize = 256;

/// How long a call is kept after its question lapses, or after it was last asked for if it has no
/// question.
pub const KEPT: Duration = Duration::from_mins(5);

/// The parked calls, and the seals for their states.
pub(crate) struct ParkedCalls {
    calls: Mutex<HashMap<CallId, ParkedCall>>,
    seals: Seals,
    most: usize,
    myself: Weak<Self>,
}

/// A call held by one request. Dropping it cancels the call.
pub(crate) struct HeldCall {
    pub(crate) ongoing: OngoingCall,
    owner: CallOwner,
    wanted: RequestDigest,
    /// The round that a state claims, while a client holds the state.
    out: Option<u64>,
    next_round: u64,
}

/// A call that waits, or that waited and has ended.
struct ParkedCall {
    held: HeldCall,
    how: ParkReason,
    until: Instant,
    /// Removes the call at `until`. Dropped together with the call.
    _timer: Timer,
}

/// A sleeping task, aborted when dropped.
struct Timer(AbortHandle);

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Why a call is parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParkReason {
    /// The client takes questions back and repeats its request, or was told to repeat it.
    AskedAgain,
    /// The client has a task.
    Task,
}

/// There is no room to park another call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ParkingFull;

impl HeldCall {
    /// A call that was just started.
    pub(crate) fn new(ongoing: OngoingCall, owner: CallOwner, wanted: RequestDigest) -> Self {
        Self {
            ongoing,
            owner,
            wanted,
            out: None,
            next_round: 0,
        }
    }
}

impl ParkedCalls {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new_cyclic(|myself| Self {
            calls: Mutex::default(),
            seals: Seals::new(&StateKey::fresh()),
            most,
            myself: Weak::clone(myself),
        })
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<CallId, ParkedCall>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many calls are waiting or kept.
    pub(crate) fn len(&self) -> usize {
        self.calls().len()
    }

    /// Parks a call until a while after its question lapses. Returns until when.
    pub(crate) fn park(
        &self,
        mut held: HeldCall,
        how: ParkReason,
        now: Timestamp,
    ) -> Result<Instant, ParkingFull> {
        held.ongoing.goes_on_alone();
        let call = held.ongoing.live().id();
        let lapses = held.ongoing.for_person();
        let left = lapses.map_or(Duration::ZERO, |(_, expires)| expires.since(now));
        let until = Instant::now() + left + KEPT;
        {
            let mut calls = self.calls();
            if calls.len() >= self.most {
                return Err(ParkingFull);
            }
            let parked = ParkedCall {
                held,
                how,
                until,
                _timer: self.end_at(call, until),
            };
            calls.insert(call, parked);
        }
        Ok(until)
    }

    /// Parks a call, and returns the state with which its client claims it.
    pub(crate) fn park_sealed(
        &self,
        mut held: HeldCall,
        now: Timestamp,
    ) -> Result<String, ParkingFull> {
        let call = held.ongoing.live().id();
        let claim = Claim {
            call,
            round: held.next_round,
        };
        held.next_round += 1;
        held.out = Some(claim.round);
        let (owner, wanted) = (held.owner, held.wanted);
        let until = self.park(held, ParkReason::AskedAgain, now)?;
        let good = until.saturating_duration_since(Instant::now());
        Ok(self.seals.seal(claim, owner, wanted, good))
    }

    /// The call that a state claims. A state is good once, for the request and the owner it was
    /// sealed for.
    pub(crate) fn claim(
        &self,
        state: &str,
        owner: CallOwner,
        wanted: RequestDigest,
    ) -> Option<HeldCall> {
        let claim = self.seals.open(state, owner, wanted)?;
        let mut calls = self.calls();
        if calls.get(&claim.call)?.held.out != Some(claim.round) {
            tracing::warn!(call = %claim.call, "a request state came a second time");
            return None;
        }
        let mut held = calls.remove(&claim.call)?.held;
        held.out = None;
        Some(held)
    }

    /// The call that waits for the same request of the same principal. Skips tasks, because their
    /// clients have the task id, and calls whose client has a state.
    pub(crate) fn join(&self, owner: CallOwner, wanted: RequestDigest) -> Option<HeldCall> {
        let mut calls = self.calls();
        let same = |parked: &ParkedCall| {
            parked.held.owner == owner
                && parked.held.wanted == wanted
                && parked.how != ParkReason::Task
                && parked.held.out.is_none()
        };
        let call = calls
            .iter()
            .find_map(|(call, parked)| same(parked).then_some(*call))?;
        calls.remove(&call).map(|parked| parked.held)
    }

    /// Runs a function on a call that is a task of this principal.
    pub(crate) fn task<T>(
        &self,
        call: CallId,
        owner: CallOwner,
        look: impl FnOnce(&mut OngoingCall, Instant) -> T,
    ) -> Option<T> {
        let mut calls = self.calls();
        let parked = calls
            .get_mut(&call)
            .filter(|parked| parked.held.owner == owner && parked.how == ParkReason::Task)?;
        Some(look(&mut parked.held.ongoing, parked.until))
    }

    /// Ends the parked calls of an owner's session, because its connection is over.
    pub(crate) fn end(&self, owner: CallOwner) {
        self.remove_if(|parked| parked.held.owner.is_in_session_of(owner));
    }

    fn remove_if(&self, over: impl Fn(&ParkedCall) -> bool) {
        let mut calls = self.calls();
        let ended: Vec<ParkedCall> = calls
            .extract_if(|_, parked| over(parked))
            .map(|(_, parked)| parked)
            .collect();
        // Dropping a call wakes whatever it waits for, so do it outside the lock.
        drop(calls);
        drop(ended);
    }

    fn end_at(&self, call: CallId, until: Instant) -> Timer {
        let parking = Weak::clone(&self.myself);
        let sleeping = tokio::spawn(async move {
            tokio::time::sleep_until(until).await;
            if let Some(parking) = parking.upgrade() {
                parking.remove_if(|parked| {
                    parked.held.ongoing.live().id() == call && parked.until <= until
                });
            }
        });
        Timer(sleeping.abort_handle())
    }
}

impl fmt::Debug for ParkedCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parking")
            .field("calls", &self.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use haft_contract::{CallRequest, host::Clock as _};
    use haft_runtime::SystemClock;
    use haft_testkit::{Harness, sample};
    use serde_json::json;

    use super::*;
    use crate::{
        client::Clients,
        server::{line::ClientInterests, live::LiveCalls},
    };

    struct ParkingFixture {
        harness: Harness,
        calls: Arc<LiveCalls>,
        parking: Arc<ParkedCalls>,
    }

    impl ParkingFixture {
        fn of(most: usize) -> Self {
            Self {
                harness: Harness::memory().tools(sample::all()).build(),
                calls: LiveCalls::new(Arc::<Clients>::default()),
                parking: ParkedCalls::new(most),
            }
        }

        /// A call that runs forever, and the digest of its request.
        fn call(
            &self,
            principal: &haft_contract::Principal,
            hint: u64,
        ) -> (HeldCall, CallOwner, RequestDigest) {
            let arguments = json!({"ms": 3_600_000 + hint});
            let call = CallRequest::new("sleep", arguments, Arc::new(principal.clone()));
            let (owner, wanted) = (
                CallOwner::of(principal),
                RequestDigest::call("tools/call", &call),
            );
            let live = self
                .calls
                .start(&self.harness.runtime, call, ClientInterests::default());
            (
                HeldCall::new(OngoingCall::new(live), owner, wanted),
                owner,
                wanted,
            )
        }
    }

    #[tokio::test]
    async fn so_many_calls_wait_and_no_more() {
        let house = ParkingFixture::of(1);
        let principal = Arc::clone(&house.harness.principal);
        let (first, ..) = house.call(&principal, 1);
        let (second, ..) = house.call(&principal, 2);
        let now = SystemClock.now();
        assert!(
            house
                .parking
                .park(first, ParkReason::AskedAgain, now)
                .is_ok()
        );
        let refused = house.parking.park(second, ParkReason::AskedAgain, now);
        assert_eq!(refused.err(), Some(ParkingFull));
        house.parking.end(CallOwner::of(&principal));
        assert_eq!(house.parking.len(), 0);
    }

    #[tokio::test]
    async fn a_call_is_found_again_by_its_owner_alone() {
        let house = ParkingFixture::of(9);
        let principal = Arc::clone(&house.harness.principal);
        let (held, owner, wanted) = house.call(&principal, 1);
        let call = held.ongoing.live().id();
        let now = SystemClock.now();
        house.parking.park(held, ParkReason::Task, now).unwrap();
        let mut other = (*principal).clone();
        other.session = haft_contract::SessionId::parse("another").unwrap();
        let stranger = CallOwner::of(&other);
        assert!(house.parking.task(call, stranger, |_, _| ()).is_none());
        assert!(house.parking.task(call, owner, |_, _| ()).is_some());
        // A task can only be found by its id.
        assert!(house.parking.join(owner, wanted).is_none());
        let (held, owner, wanted) = house.call(&principal, 2);
        house
            .parking
            .park(held, ParkReason::AskedAgain, now)
            .unwrap();
        assert!(house.parking.join(stranger, wanted).is_none());
        assert!(house.parking.join(owner, wanted).is_some());
        assert!(house.parking.join(owner, wanted).is_none());
    }

    #[tokio::test]
    async fn mc_14_a_call_with_a_state_out_is_found_by_that_state_alone() {
        let house = ParkingFixture::of(9);
        let principal = Arc::clone(&house.harness.principal);
        let (held, owner, wanted) = house.call(&principal, 1);
        let first = house.parking.park_sealed(held, SystemClock.now()).unwrap();
        assert!(house.parking.join(owner, wanted).is_none());
        let held = house.parking.claim(&first, owner, wanted).unwrap();
        let second = house.parking.park_sealed(held, SystemClock.now()).unwrap();
        assert!(house.parking.claim(&first, owner, wanted).is_none());
        let held = house.parking.claim(&second, owner, wanted).unwrap();
        assert_eq!(house.parking.len(), 0);
        // Its client was told to repeat the call, and has no state any more.
        let now = SystemClock.now();
        house
            .parking
            .park(held, ParkReason::AskedAgain, now)
            .unwrap();
        assert!(house.parking.claim(&second, owner, wanted).is_none());
        assert!(house.parking.join(owner, wanted).is_some());
    }

    #[tokio::test]
    async fn a_call_that_was_fetched_leaves_nothing_that_sleeps() {
        let house = ParkingFixture::of(9);
        let principal = Arc::clone(&house.harness.principal);
        let (mut held, owner, wanted) = house.call(&principal, 1);
        let tasks = || {
            let metrics = tokio::runtime::Handle::current().metrics();
            metrics.num_alive_tasks()
        };
        tokio::task::yield_now().await;
        let before = tasks();
        for _ in 0..100 {
            let state = house.parking.park_sealed(held, SystemClock.now()).unwrap();
            held = house.parking.claim(&state, owner, wanted).unwrap();
        }
        while tasks() > before {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_fetches_is_dropped_and_its_call_with_it() {
        let house = ParkingFixture::of(9);
        let principal = Arc::clone(&house.harness.principal);
        let (held, ..) = house.call(&principal, 1);
        house
            .parking
            .park(held, ParkReason::AskedAgain, SystemClock.now())
            .unwrap();
        tokio::time::sleep(KEPT / 2).await;
        assert_eq!(house.parking.len(), 1);
        tokio::time::sleep(KEPT).await;
        assert_eq!((house.parking.len(), house.calls.len()), (0, 0));
    }
}
