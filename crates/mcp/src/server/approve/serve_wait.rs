//! Serves one request for a call until there is something to tell its client: the outcome, a
//! question to carry back, or that the call still waits for a person.
//!
//! Which of the four ways a question takes follows from what the client declared; see
//! [`QuestionChannel`]. Nothing here knows the SDK: a client is what [`Caller`] says.

use std::{
    collections::BTreeSet,
    future::{Future, poll_fn},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use futures::future::FutureExt as _;
use haft_contract::{
    Outcome,
    future::BoxFuture,
    host::{ApprovalId, Timestamp},
    progress::RenderedProgress,
};
use serde_json::Value;
use tokio::time::Instant;

use super::{
    open::{OpenQuestion, UnansweredQuestion},
    question,
};
use crate::{
    client::{AskError, ClientAbilities},
    server::{
        line::LineQuestion,
        live::{LiveCall, Step},
    },
};

/// How often a client whose call waits for a person is told so. Clients that give up on a silent
/// call do so after a minute at the soonest.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// How questions reach a client, from what it declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuestionChannel {
    /// It takes requests of the server while its own is served (the era with `initialize`).
    Direct,
    /// It takes questions back as the result of its request, and asks again with the answers
    /// (2026-07-28).
    Rounds,
    /// The same, and it also takes a task in place of a result.
    RoundsAndTasks,
}

/// The client of one request, as far as a call needs it while the request lasts.
pub(crate) trait Caller: Sync {
    /// Tells it that the call got further.
    fn progress(&self, progress: RenderedProgress) -> impl Future<Output = ()> + Send;

    /// Passes on a log message.
    fn log(&self, message: Value) -> impl Future<Output = ()> + Send;

    /// Tells it that the call lives and what it waits for.
    fn waits(&self, message: String) -> impl Future<Output = ()> + Send;

    /// Returns once it no longer wants the answer.
    fn gone(&self) -> impl Future<Output = ()> + Send;

    /// Asks it. Dropped, the client is told that nobody wants the answer any more.
    fn ask(
        &self,
        question: UnansweredQuestion,
    ) -> impl Future<Output = Result<Value, AskError>> + Send;
}

/// What there is to tell the client of a request.
#[derive(Debug)]
pub(crate) enum WaitEnd {
    /// The call has ended.
    Ended(Arc<Outcome>),
    /// The client is to answer what is unanswered, and ask again.
    Asks,
    /// The call goes on as a task.
    Task,
    /// The call waits for a person, longer than the client should be kept waiting.
    Left(ApprovalId),
    /// The client is gone.
    Gone,
}

/// A call with what it waits for, in the hands of whoever serves it now. Dropped, the call is
/// cancelled.
pub(crate) struct OngoingCall {
    live: LiveCall,
    open: Vec<OpenQuestion>,
    rounds: usize,
    /// The keys of a mounted server's own that were used.
    keys: BTreeSet<String>,
}

impl OngoingCall {
    pub(crate) fn new(live: LiveCall) -> Self {
        Self {
            live,
            open: Vec::new(),
            rounds: 0,
            keys: BTreeSet::new(),
        }
    }

    /// The call itself.
    pub(crate) fn live(&self) -> &LiveCall {
        &self.live
    }

    /// Lets the call run while nobody waits for it.
    pub(super) fn goes_on_alone(&mut self) {
        self.live.goes_on_alone();
    }

    /// The call alone; what it asked is answered with that its client is gone.
    pub(super) fn into_live(self) -> LiveCall {
        self.live
    }

    /// The question a person has to answer, with when it lapses.
    pub(super) fn approval(&self) -> Option<(ApprovalId, Timestamp)> {
        self.open.iter().find_map(OpenQuestion::approval)
    }

    /// What the client is to answer.
    pub(super) fn unanswered(&self, abilities: ClientAbilities) -> Vec<UnansweredQuestion> {
        let all = self.open.iter().flat_map(OpenQuestion::unanswered);
        all.filter(|asked| abilities.has(asked.kind, &asked.parameters))
            .collect()
    }

    /// Brings an answer of the client's. One that nothing waits for is dropped: it came late, or was
    /// made up.
    pub(super) fn answer(&mut self, key: &str, answer: &Result<Value, AskError>) {
        let open = std::mem::take(&mut self.open);
        let left = open
            .into_iter()
            .filter_map(|open| open.answer(key, answer.clone()));
        self.open = left.collect();
    }

    /// Looks at what happened without waiting for anything: the outcome, if there is one.
    pub(super) fn look(&mut self) -> Option<Arc<Outcome>> {
        loop {
            match self.live.next().now_or_never() {
                Some(Step::Ended(outcome)) => return Some(outcome),
                Some(Step::Asks(asks)) => self.take_up(asks),
                // There is no request to send these on.
                Some(Step::Progress(_) | Step::Log(_)) => {}
                None => {
                    self.open.retain(|open| !open.is_stale());
                    return None;
                }
            }
        }
    }

    fn take_up(&mut self, asks: LineQuestion) {
        let round = self.rounds;
        self.rounds += usize::from(asks.approval.is_none());
        self.open
            .extend(OpenQuestion::new(asks, round, &mut self.keys));
    }

    /// Serves one request.
    pub(crate) async fn attend<C: Caller>(
        &mut self,
        caller: &C,
        reach: QuestionChannel,
        abilities: ClientAbilities,
        patience: Duration,
    ) -> WaitEnd {
        let mut asking: Vec<QuestionInTransit<'_>> = Vec::new();
        let mut standing: Option<WaitingQuestion> = None;
        loop {
            self.open.retain(|open| !open.is_stale());
            let unanswered = self.unanswered(abilities);
            let approval = self.approval().map(|(id, _)| id);
            match reach {
                // A client that can put the question before its person does so while its model
                // waits: with a task Claude Code lets the model go on without the result.
                QuestionChannel::Rounds | QuestionChannel::RoundsAndTasks
                    if !unanswered.is_empty() =>
                {
                    return WaitEnd::Asks;
                }
                QuestionChannel::RoundsAndTasks if approval.is_some() => return WaitEnd::Task,
                QuestionChannel::Rounds | QuestionChannel::RoundsAndTasks => {}
                QuestionChannel::Direct => carry(&mut asking, unanswered, caller),
            }
            standing = WaitingQuestion::of(approval, standing);
            // While a person is asked at the client, the client waits as long as they take.
            let gives_up = asking.is_empty().then_some(patience);
            let Self { live, open, .. } = self;
            tokio::select! {
                biased;
                () = caller.gone() => return WaitEnd::Gone,
                step = live.next() => match step {
                    Step::Ended(outcome) => return WaitEnd::Ended(outcome),
                    Step::Asks(asks) => self.take_up(asks),
                    Step::Progress(progress) => caller.progress(progress).await,
                    Step::Log(message) => caller.log(message).await,
                },
                (key, answer) = first_answer(&mut asking) => self.answer(&key, &answer),
                () = one_is_stale(open) => {}
                next = next_beat(&mut standing, gives_up) => match next {
                    WaitTick::Tell(message) => caller.waits(message).await,
                    WaitTick::GiveUp(id) => return WaitEnd::Left(id),
                },
            }
        }
    }
}

/// A question on its way to the client and back. Dropped, it is withdrawn.
struct QuestionInTransit<'a> {
    key: String,
    answer: BoxFuture<'a, Result<Value, AskError>>,
}

/// Sends what is not yet on its way, and withdraws what nobody waits for any more.
fn carry<'a, C: Caller>(
    asking: &mut Vec<QuestionInTransit<'a>>,
    unanswered: Vec<UnansweredQuestion>,
    caller: &'a C,
) {
    asking.retain(|carried| unanswered.iter().any(|asked| asked.key == carried.key));
    for question in unanswered {
        if !asking.iter().any(|carried| carried.key == question.key) {
            asking.push(QuestionInTransit {
                key: question.key.clone(),
                answer: Box::pin(caller.ask(question)),
            });
        }
    }
}

/// The first answer of those that are on their way; never, if none is.
async fn first_answer(
    asking: &mut Vec<QuestionInTransit<'_>>,
) -> (String, Result<Value, AskError>) {
    poll_fn(|cx| {
        let answered = asking.iter_mut().enumerate().find_map(|(at, carried)| {
            match carried.answer.as_mut().poll(cx) {
                Poll::Ready(answer) => Some((at, answer)),
                Poll::Pending => None,
            }
        });
        match answered {
            Some((at, answer)) => Poll::Ready((asking.remove(at).key, answer)),
            None => Poll::Pending,
        }
    })
    .await
}

/// Waits until nobody waits for one of these any more.
async fn one_is_stale(open: &mut [OpenQuestion]) {
    poll_fn(|cx| {
        if open.iter_mut().any(|open| open.poll_stale(cx).is_ready()) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

/// What is due while a question stands.
enum WaitTick {
    /// The client is told that its call lives.
    Tell(String),
    /// The client has waited long enough.
    GiveUp(ApprovalId),
}

/// Waits for what is due next; for ever while nothing stands.
async fn next_beat(standing: &mut Option<WaitingQuestion>, gives_up: Option<Duration>) -> WaitTick {
    let Some(standing) = standing else {
        return std::future::pending().await;
    };
    let end = gives_up.map(|patience| standing.since + patience);
    if let Some(end) = end.filter(|end| *end <= standing.beat) {
        tokio::time::sleep_until(end).await;
        return WaitTick::GiveUp(standing.id);
    }
    tokio::time::sleep_until(standing.beat).await;
    standing.beat = Instant::now() + HEARTBEAT;
    let commands = question::commands(standing.id);
    WaitTick::Tell(format!("waits for a person: {commands}"))
}

/// A question that waits for a person.
struct WaitingQuestion {
    id: ApprovalId,
    since: Instant,
    /// When the client is told next.
    beat: Instant,
}

impl WaitingQuestion {
    /// What stands now, given what stood before.
    fn of(approval: Option<ApprovalId>, before: Option<Self>) -> Option<Self> {
        let id = approval?;
        let now = Instant::now();
        let fresh = Self {
            id,
            since: now,
            beat: now,
        };
        Some(before.filter(|before| before.id == id).unwrap_or(fresh))
    }
}
