//! Serves one request for a call, from what its client sent to the reply. The call was just made,
//! or it was waiting and is claimed with a state or requested again.

use std::{fmt, sync::Arc, time::Duration};

use haft_contract::{CallId, Outcome, Principal, host::Clock as _};
use haft_runtime::SystemClock;
use rmcp::{
    ErrorData,
    model::{CreateTaskResult, DetailedTask, InputRequests, InputRequiredResult, InputResponses},
};

use super::{
    for_person::ForPerson,
    parked::{HeldCall, PARKED_CALLS, ParkReason, ParkedCalls, ParkingFull},
    seal::{CallOwner, RequestDigest},
    serve_wait::{Caller, OngoingCall, QuestionChannel, WaitEnd},
    tasks, wire,
};
use crate::{
    client::ClientAbilities,
    server::live::{LiveCall, Step},
};

/// How long a client waits for a person whom it cannot ask, unless the operator configures it. Many
/// clients give up on a call after a minute.
pub const APPROVAL_WAIT: Duration = Duration::from_secs(50);

/// An endpoint's state about calls that wait.
pub(crate) struct Approvals {
    parking: Arc<ParkedCalls>,
    patience: Duration,
}

/// The parts of a request that matter for finding its call.
pub(crate) struct Request<'a> {
    /// Who makes the request.
    pub(crate) owner: CallOwner,
    /// What is requested.
    pub(crate) wanted: RequestDigest,
    /// The state it brings.
    pub(crate) state: Option<&'a str>,
    /// The answers it brings.
    pub(crate) answers: Option<InputResponses>,
    /// How its client can be asked.
    pub(crate) reach: QuestionChannel,
    /// What its client can be asked.
    pub(crate) abilities: ClientAbilities,
}

/// The reply to the client.
pub(crate) enum CallReply {
    /// The call has ended.
    Ended(Arc<Outcome>),
    /// The client must answer questions and repeat the request.
    InputRequired(InputRequiredResult),
    /// The call goes on as a task.
    Task(CreateTaskResult),
    /// The call waits for a person.
    Waits(WaitingForPerson),
}

/// A call that waits for a person while its client does not wait with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaitingForPerson {
    pub(crate) call: CallId,
    pub(crate) about: ForPerson,
}

impl fmt::Display for WaitingForPerson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}\nquestion: {}\nhint: a person answers with {}; then make the same call again, with the \
             same arguments, to get its result. This does not ask anybody twice",
            self.about.sentence(),
            self.about,
            self.about.commands()
        )
    }
}

impl Approvals {
    pub(crate) fn new() -> Self {
        Self {
            parking: ParkedCalls::new(PARKED_CALLS),
            patience: APPROVAL_WAIT,
        }
    }

    /// Sets how long clients are kept waiting.
    pub(crate) fn patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// How many calls wait without a request, or are kept.
    pub(crate) fn parked(&self) -> usize {
        self.parking.len()
    }

    /// Ends a principal's waiting calls, because its connection is over.
    pub(crate) fn end(&self, principal: &Principal) {
        self.parking.end(CallOwner::of(principal));
    }

    /// Serves one request: finds or makes its call, and waits together with its client.
    pub(crate) async fn serve<C: Caller>(
        &self,
        request: Request<'_>,
        caller: &C,
        make: impl FnOnce() -> LiveCall,
        again: impl FnOnce(&LiveCall),
    ) -> Result<CallReply, ErrorData> {
        let mut held = self.find(&request, make, again)?;
        // An answer counts only with the state that came with its question. Somebody who makes the
        // same call was not asked.
        let answers = request.state.and(request.answers);
        for (key, answer) in answers.unwrap_or_default() {
            held.ongoing.answer(&key, &Ok(answer));
        }
        let owner = request.owner;
        loop {
            let (reach, abilities) = (request.reach, request.abilities);
            let served = held.ongoing.attend(caller, reach, abilities, self.patience);
            match served.await {
                WaitEnd::Ended(outcome) => return Ok(CallReply::Ended(outcome)),
                WaitEnd::Gone => return Ok(CallReply::Ended(stop(held.ongoing).await)),
                WaitEnd::Asks => {
                    let requests = wire::requests(&mut held.ongoing, abilities);
                    if !requests.is_empty() {
                        return self.ask_back(held, requests);
                    }
                }
                WaitEnd::Task => return self.as_task(held, owner),
                WaitEnd::Left(about) => {
                    let call = held.ongoing.live().id();
                    let now = SystemClock.now();
                    let so_far = SoFar::of(&held.ongoing);
                    let parked = self.parking.park(held, ParkReason::AskedAgain, now);
                    parked.map_err(|full| so_far.full(full))?;
                    return Ok(CallReply::Waits(WaitingForPerson { call, about }));
                }
            }
        }
    }

    fn find(
        &self,
        request: &Request<'_>,
        make: impl FnOnce() -> LiveCall,
        again: impl FnOnce(&LiveCall),
    ) -> Result<HeldCall, ErrorData> {
        let owner = request.owner;
        let found = match request.state {
            Some(state) => {
                let claimed = self.parking.claim(state, owner, request.wanted);
                Some(claimed.ok_or_else(not_good)?)
            }
            None => self.parking.join(owner, request.wanted),
        };
        if let Some(held) = found {
            again(held.ongoing.live());
            return Ok(held);
        }
        Ok(HeldCall::new(
            OngoingCall::new(make()),
            owner,
            request.wanted,
        ))
    }

    fn ask_back(&self, held: HeldCall, requests: InputRequests) -> Result<CallReply, ErrorData> {
        let so_far = SoFar::of(&held.ongoing);
        let state = self.parking.park_sealed(held, SystemClock.now());
        let state = state.map_err(|full| so_far.full(full))?;
        let asks = InputRequiredResult::new(Some(requests), Some(state));
        Ok(CallReply::InputRequired(asks))
    }

    fn as_task(&self, held: HeldCall, owner: CallOwner) -> Result<CallReply, ErrorData> {
        let call = held.ongoing.live().id();
        let so_far = SoFar::of(&held.ongoing);
        let parked = self.parking.park(held, ParkReason::Task, SystemClock.now());
        parked.map_err(|full| so_far.full(full))?;
        let task = self
            .parking
            .task(call, owner, |ongoing, until| tasks::seed(ongoing, until));
        let task = task.ok_or_else(no_task)?;
        Ok(CallReply::Task(CreateTaskResult::new(task)))
    }

    /// The current state of a task.
    pub(crate) fn task(
        &self,
        id: &str,
        principal: &Principal,
        abilities: ClientAbilities,
    ) -> Result<DetailedTask, ErrorData> {
        self.with_task(id, principal, |ongoing, until| {
            tasks::detail(ongoing, abilities, until)
        })
    }

    /// Delivers answers to a task.
    pub(crate) fn update_task(
        &self,
        id: &str,
        principal: &Principal,
        answers: InputResponses,
    ) -> Result<(), ErrorData> {
        self.with_task(id, principal, |ongoing, _| tasks::update(ongoing, answers))
    }

    /// Stops a task, which then ends as cancelled.
    pub(crate) fn cancel_task(&self, id: &str, principal: &Principal) -> Result<(), ErrorData> {
        self.with_task(id, principal, |ongoing, _| ongoing.live().cancel())
    }

    fn with_task<T>(
        &self,
        id: &str,
        principal: &Principal,
        look: impl FnOnce(&mut OngoingCall, tokio::time::Instant) -> T,
    ) -> Result<T, ErrorData> {
        let call = CallId::parse(id).ok_or_else(no_task)?;
        let looked = self.parking.task(call, CallOwner::of(principal), look);
        looked.ok_or_else(no_task)
    }
}

/// Stops a call that nobody wants any more, and waits for it to end.
async fn stop(ongoing: OngoingCall) -> Arc<Outcome> {
    let mut live = ongoing.into_live();
    live.cancel();
    loop {
        if let Step::Ended(outcome) = live.next().await {
            return outcome;
        }
    }
}

fn not_good() -> ErrorData {
    ErrorData::invalid_params(
        "this request state is not valid: it was already used, has expired, or belongs to another \
         request; \
         make the call again without it",
        None,
    )
}

fn no_task() -> ErrorData {
    ErrorData::invalid_params("there is no such task, or it is no longer kept", None)
}

/// How far a call had got that was stopped because there was no room to park it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SoFar {
    /// It waited for an approval, without which nothing runs.
    Waited,
    /// It was running: a mounted server asked something.
    Began,
}

impl SoFar {
    fn of(ongoing: &OngoingCall) -> Self {
        match ongoing.for_person() {
            Some(_) => Self::Waited,
            None => Self::Began,
        }
    }

    fn full(self, ParkingFull: ParkingFull) -> ErrorData {
        let and = match self {
            Self::Waited => "nothing has happened. Make it again when some are answered",
            Self::Began => {
                "it had begun: check whether it took effect before you make it again, when some are \
                 answered"
            }
        };
        let message = format!(
            "{PARKED_CALLS} calls wait for answers already, so this one was stopped; {and}"
        );
        ErrorData::internal_error(message, None)
    }
}

impl fmt::Debug for Approvals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Approvals")
            .field("parking", &self.parking)
            .finish_non_exhaustive()
    }
}
