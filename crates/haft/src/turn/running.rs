//! The calls of a turn while they run: a task for each, one channel for what they show and one for
//! what they ask. Dropping it stops them.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use haft_contract::{
    CallEvent, CallId, CallRequest, Outcome, erased::ErasedApprover, event::RecordedEvent,
};
use haft_runtime::{EventFilter, HostEvent, HostEvents};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Turn, TurnCall, TurnItem, lost};
use crate::{
    asker::{self, AskedRequest, TurnAsker, question_channel},
    embedded::Haft,
    question::Question,
};

pub(super) struct RunningCalls {
    tasks: JoinSet<(usize, Arc<Outcome>)>,
    /// What the calls show, if somebody reads the turn.
    events: Option<HostEvents>,
    questions: mpsc::Receiver<AskedRequest>,
    /// The places of the calls in the turn.
    places: HashMap<CallId, usize>,
    ready: VecDeque<TurnItem>,
    holds: usize,
    /// Stops the calls when this is dropped.
    _stop: DropGuard,
}

impl RunningCalls {
    /// Starts a turn that is read.
    pub(super) fn watched(turn: &mut Turn) -> Self {
        let (asker, questions) = question_channel(turn.calls.len());
        let calls = turn.requests.iter().map(|(_, request)| request.id);
        let filter = EventFilter::calls(calls).only_live();
        let events = turn.haft.runtime().events_held(filter, turn.holds);
        let mut running = Self::start(turn, Some(asker), questions);
        running.events = Some(events);
        // Calls that cannot be read have ended before they began.
        let unreadable = turn.calls.iter().zip(&turn.outcomes);
        running.ready = unreadable
            .filter_map(|(call, outcome)| Some(ended(call, outcome.as_ref()?)))
            .collect();
        running
    }

    /// Starts a turn that nobody reads: its calls ask nobody but the host's approver.
    pub(super) fn unwatched(turn: &mut Turn) -> Self {
        let (_, questions) = question_channel(0);
        Self::start(turn, None, questions)
    }

    fn start(
        turn: &mut Turn,
        asker: Option<TurnAsker>,
        questions: mpsc::Receiver<AskedRequest>,
    ) -> Self {
        let asker = asker.map(|asker| Arc::new(asker) as Arc<dyn ErasedApprover>);
        let stop = turn.cancel.child_token();
        let requests = std::mem::take(&mut turn.requests);
        let places = requests.iter().map(|(index, request)| (request.id, *index));
        let places = places.collect();
        let mut tasks = JoinSet::new();
        for (index, mut request) in requests {
            request.timeout = turn.timeout;
            let (haft, stop, asker) = (turn.haft.clone(), stop.clone(), asker.clone());
            tasks.spawn(async move { (index, run(&haft, request, stop, asker).await) });
        }
        Self {
            tasks,
            events: None,
            questions,
            places,
            ready: VecDeque::new(),
            holds: turn.holds,
            _stop: stop.drop_guard(),
        }
    }

    /// What happens next; `None` once every call has ended.
    pub(super) async fn next(
        &mut self,
        haft: &Haft,
        calls: &[Arc<TurnCall>],
        outcomes: &mut [Option<Arc<Outcome>>],
    ) -> Option<TurnItem> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(item);
            }
            tokio::select! {
                biased;
                Some(asked) = self.questions.recv() => {
                    if let Some(call) = self.call(asked.request.call, calls) {
                        let question = Question::asked(haft, asked, call.model_call.clone());
                        let question = Box::new(question);
                        return Some(TurnItem::Question { call, question });
                    }
                }
                joined = self.tasks.join_next() => match joined {
                    Some(Ok((index, outcome))) => self.end(index, outcome, calls, outcomes),
                    // Its outcome follows when all others have ended.
                    Some(Err(_)) => {}
                    None if self.end_lost(calls, outcomes) => {}
                    None => return None,
                },
                Some(event) = next_event(&mut self.events) => {
                    if let Some(item) = self.item(event, calls) {
                        return Some(item);
                    }
                }
            }
        }
    }

    /// Waits for the calls without reading them further.
    pub(super) async fn finish(&mut self, outcomes: &mut [Option<Arc<Outcome>>]) {
        self.events = None;
        asker::close(&mut self.questions);
        while let Some(joined) = self.tasks.join_next().await {
            if let Ok((index, outcome)) = joined
                && let Some(place) = outcomes.get_mut(index)
            {
                *place = Some(outcome);
            }
        }
    }

    /// Notes the end of a call, after what it showed before.
    fn end(
        &mut self,
        index: usize,
        outcome: Arc<Outcome>,
        calls: &[Arc<TurnCall>],
        outcomes: &mut [Option<Arc<Outcome>>],
    ) {
        // Other calls may show things faster than this takes them.
        for _ in 0..=self.holds {
            let Some(event) = self.events.as_mut().and_then(HostEvents::try_next) else {
                break;
            };
            let item = self.item(event, calls);
            self.ready.extend(item);
        }
        if let (Some(call), Some(place)) = (calls.get(index), outcomes.get_mut(index)) {
            self.ready.push_back(ended(call, &outcome));
            *place = Some(outcome);
        }
    }

    /// Ends the calls whose tasks were lost. Returns whether there were any.
    fn end_lost(&mut self, calls: &[Arc<TurnCall>], outcomes: &mut [Option<Arc<Outcome>>]) -> bool {
        let mut any = false;
        for (call, place) in calls.iter().zip(outcomes) {
            if place.is_none() {
                let outcome = lost(call);
                self.ready.push_back(ended(call, &outcome));
                *place = Some(outcome);
                any = true;
            }
        }
        any
    }

    fn call(&self, id: CallId, calls: &[Arc<TurnCall>]) -> Option<Arc<TurnCall>> {
        let index = self.places.get(&id)?;
        calls.get(*index).map(Arc::clone)
    }

    /// What a reader sees of an event; `None` for what is told otherwise.
    fn item(&self, event: HostEvent, calls: &[Arc<TurnCall>]) -> Option<TurnItem> {
        let observed = match event {
            HostEvent::Happened(observed) => observed,
            HostEvent::Missed(missed) if missed.live > 0 => {
                let events = missed.live;
                return Some(TurnItem::Missed { events });
            }
            HostEvent::Missed(_) | HostEvent::FromRecord(_) => return None,
        };
        let RecordedEvent { call, event, .. } = observed.happened;
        let call = self.call(call, calls)?;
        match event {
            CallEvent::Progress(progress) => Some(TurnItem::Progress { call, progress }),
            CallEvent::Output { stream, text } => Some(TurnItem::Output { call, stream, text }),
            CallEvent::Item(item) => Some(TurnItem::Item { call, item }),
            // Ends and questions come from the calls themselves, so that no full channel loses one.
            _ => None,
        }
    }
}

async fn run(
    haft: &Haft,
    request: CallRequest,
    stop: CancellationToken,
    asker: Option<Arc<dyn ErasedApprover>>,
) -> Arc<Outcome> {
    match asker {
        Some(asker) => haft.runtime().call_asking(request, stop, asker).await,
        None => haft.runtime().call_until(request, stop).await,
    }
}

async fn next_event(events: &mut Option<HostEvents>) -> Option<HostEvent> {
    match events {
        Some(events) => events.next().await,
        None => None,
    }
}

fn ended(call: &Arc<TurnCall>, outcome: &Arc<Outcome>) -> TurnItem {
    TurnItem::Ended {
        call: Arc::clone(call),
        outcome: Arc::clone(outcome),
    }
}
