//! Serves one request for a call until there is something to tell its client: the outcome, a
//! question to take back, or that the call still waits for a person.
//!
//! What the client declared decides which of the four ways a question takes; see
//! [`QuestionChannel`]. Nothing here knows the SDK: a client is anything that implements
//! [`Caller`].

use std::{
    collections::BTreeSet,
    future::{Future, poll_fn},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use futures_util::future::FutureExt as _;
use haft_contract::{Outcome, future::BoxFuture, host::Timestamp, progress::RenderedProgress};
use serde_json::Value;
use tokio::time::Instant;

use super::{
    for_person::ForPerson,
    open::{OpenQuestion, UnansweredQuestion},
};
use crate::{
    client::{AskError, ClientAbilities},
    server::{
        line::LineQuestion,
        live::{LiveCall, Step},
    },
};

/// How often a client is told that its call waits for a person. Clients that give up on a silent
/// call do so after a minute at the earliest.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// How questions reach a client, depending on what it declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuestionChannel {
    /// It accepts requests from the server while its own is being served (the era with
    /// `initialize`).
    Direct,
    /// It takes questions back as the result of its request, and repeats the request with the
    /// answers (2026-07-28).
    Rounds,
    /// As `Rounds`, and it also accepts a task instead of a result.
    RoundsAndTasks,
}

/// The client of one request, as a call sees it while the request lasts.
pub(crate) trait Caller: Sync {
    /// Reports progress of the call.
    fn progress(&self, progress: RenderedProgress) -> impl Future<Output = ()> + Send;

    /// Passes on a log message.
    fn log(&self, message: Value) -> impl Future<Output = ()> + Send;

    /// Tells it that the call is alive and what it waits for.
    fn waits(&self, message: String) -> impl Future<Output = ()> + Send;

    /// Returns once it no longer wants the answer.
    fn gone(&self) -> impl Future<Output = ()> + Send;

    /// Asks it. Dropping the future tells the client that nobody wants the answer any more.
    fn ask(
        &self,
        question: UnansweredQuestion,
    ) -> impl Future<Output = Result<Value, AskError>> + Send;
}

/// Why serving a request ended.
#[derive(Debug)]
pub(crate) enum WaitEnd {
    /// The call has ended.
    Ended(Arc<Outcome>),
    /// The client must answer the open questions and repeat the request.
    Asks,
    /// The call goes on as a task.
    Task,
    /// The call waits for a person for longer than the client should.
    Left(ForPerson),
    /// The client is gone.
    Gone,
}

/// A call with its open questions, held by whoever serves it now. Dropping it cancels the call.
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

    /// The call alone. Its open questions are answered with "the client is gone".
    pub(super) fn into_live(self) -> LiveCall {
        self.live
    }

    /// The question a person has to answer, and when it lapses.
    pub(super) fn for_person(&self) -> Option<(ForPerson, Timestamp)> {
        self.open.iter().find_map(OpenQuestion::for_person)
    }

    /// What the client still has to answer.
    pub(super) fn unanswered(&self, abilities: ClientAbilities) -> Vec<UnansweredQuestion> {
        let all = self.open.iter().flat_map(OpenQuestion::unanswered);
        all.filter(|asked| abilities.has(asked.kind, &asked.parameters))
            .collect()
    }

    /// Delivers an answer from the client. One that nothing waits for is dropped: it was late or
    /// made up.
    pub(super) fn answer(&mut self, key: &str, answer: &Result<Value, AskError>) {
        let open = std::mem::take(&mut self.open);
        let left = open
            .into_iter()
            .filter_map(|open| open.answer(key, answer.clone()));
        self.open = left.collect();
    }

    /// Processes what has happened without waiting. Returns the outcome, if there is one.
    pub(super) fn look(&mut self) -> Option<Arc<Outcome>> {
        loop {
            match self.live.next().now_or_never() {
                Some(Step::Ended(outcome)) => return Some(outcome),
                Some(Step::Asks(asks)) => self.take_up(asks),
                // There is no request to send these to.
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
        self.rounds += usize::from(asks.for_person.is_none());
        self.open
            .extend(OpenQuestion::new(asks, round, &mut self.keys));
    }

    /// Serves one request until it ends.
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
            let for_person = self.for_person().map(|(id, _)| id);
            match reach {
                // A client that can show the question to its person does so while its model waits.
                // With a task, Claude Code lets the model continue without the result.
                QuestionChannel::Rounds | QuestionChannel::RoundsAndTasks
                    if !unanswered.is_empty() =>
                {
                    return WaitEnd::Asks;
                }
                QuestionChannel::RoundsAndTasks if for_person.is_some() => return WaitEnd::Task,
                QuestionChannel::Rounds | QuestionChannel::RoundsAndTasks => {}
                QuestionChannel::Direct => carry(&mut asking, unanswered, caller),
            }
            standing = WaitingQuestion::of(for_person, standing);
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

/// A question that was sent to the client. Dropping it withdraws it.
struct QuestionInTransit<'a> {
    key: String,
    answer: BoxFuture<'a, Result<Value, AskError>>,
}

/// Sends the questions not yet sent, and withdraws those that nobody waits for any more.
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

/// The first answer to the questions in transit; pending forever if there are none.
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

/// Waits until one of these has nobody waiting for its answer.
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

/// What is due while a question is open.
enum WaitTick {
    /// Tell the client that its call is alive.
    Tell(String),
    /// The client has waited long enough.
    GiveUp(ForPerson),
}

/// Waits for what is due next; forever if no question is open.
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
    let commands = standing.id.commands();
    WaitTick::Tell(format!("waits for a person: {commands}"))
}

/// A question that waits for a person.
struct WaitingQuestion {
    id: ForPerson,
    since: Instant,
    /// When the client is next told.
    beat: Instant,
}

impl WaitingQuestion {
    /// The question that is open now, given the one that was open before.
    fn of(for_person: Option<ForPerson>, before: Option<Self>) -> Option<Self> {
        let id = for_person?;
        let now = Instant::now();
        let fresh = Self {
            id,
            since: now,
            beat: now,
        };
        Some(before.filter(|before| before.id == id).unwrap_or(fresh))
    }
}
