//! `haft approvals --watch`: the open questions, live on the whole screen, answered by key.
//!
//! Three independent parts: `state.rs` and `update.rs` turn events into state and actions and touch
//! nothing; `render.rs` draws a state; `screen.rs` owns the terminal. This file moves events
//! between them and the store.

mod agent_question;
mod detail;
mod render;
mod screen;
mod state;
#[cfg(test)]
mod tests;
mod update;

use std::{sync::Arc, time::Duration};

use haft_contract::{
    TenantId,
    host::{
        AnswerError, AnswerPlace, Answerer, ApprovalStore, Clock as _, GivenAnswer, Ledger as _,
        LedgerError,
    },
};
use haft_host::recorded_question::{is_about, is_asked_in, why_asked};
use haft_ledger::StoredLedger;
use haft_runtime::SystemClock;
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::{
    agent_question::ReplyChoice,
    screen::Screen,
    state::WatchState,
    update::{Event, WatchAction},
};
use crate::{
    exit::Exit, scope::RecordScope, stop::Stop, terminal::Output, view::question::MAX_LISTED,
};

/// How often the record is polled.
const LOOK: Duration = Duration::from_millis(250);

/// Follows the questions until the person leaves.
pub(crate) async fn run(
    desk: WatchedQuestions,
    home: Option<String>,
    output: Output,
) -> Result<Exit, Stop> {
    let mut ends = EndSignals::listen().map_err(|error| no_screen(&error))?;
    let mut screen = Screen::open(output.stdout_colours()).map_err(|error| no_screen(&error))?;
    let size = screen.size().map_err(|error| no_screen(&error))?;
    let mut watch = WatchState::new(size).home(home);
    watch.names_workspaces = desk.scope.has_several();
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let event = tokio::select! {
            biased;
            () = ends.asked() => return Ok(Exit::Ok),
            event = screen.event() => match event {
                Some(event) => Some(event),
                // The terminal is gone.
                None => return Ok(Exit::Ok),
            },
            _ = looks.tick() => None,
        };
        let wishes = if let Some(event) = event {
            watch.update(event, SystemClock.now())
        } else {
            desk.refresh(&mut watch).await;
            Vec::new()
        };
        for wish in wishes {
            match wish {
                WatchAction::Leave => return Ok(Exit::Ok),
                WatchAction::Answer(given) => {
                    let answered = desk.answer(*given).await;
                    watch.update(answered, SystemClock.now());
                    desk.refresh(&mut watch).await;
                }
                WatchAction::Reply(given) => {
                    let replied = desk.reply(*given).await;
                    watch.update(replied, SystemClock.now());
                    desk.refresh(&mut watch).await;
                }
            }
        }
        if let Some(item) = watch.unexplained().cloned() {
            let why = why_asked(&desk.ledger, &desk.tenant, item.call).await;
            watch.update(Event::Explained { id: item.id, why }, SystemClock.now());
        }
        screen.draw(&watch).map_err(|error| no_screen(&error))?;
    }
}

/// The store, who answers, and which workspaces are meant.
pub(crate) struct WatchedQuestions {
    pub(crate) ledger: StoredLedger,
    pub(crate) store: Arc<dyn ApprovalStore>,
    pub(crate) tenant: TenantId,
    pub(crate) name: String,
    pub(crate) scope: RecordScope,
}

impl WatchedQuestions {
    /// Shows what waits now.
    async fn refresh(&self, watch: &mut WatchState) {
        for event in [self.agents_ask().await, self.look().await] {
            watch.update(event, SystemClock.now());
        }
    }

    async fn agents_ask(&self) -> Event {
        let store = self.ledger.agent_questions();
        let pending = store.pending(&self.tenant, SystemClock.now(), MAX_LISTED);
        match pending.await {
            Ok(pending) => {
                let mut wanted = Vec::with_capacity(pending.len());
                for asked in pending {
                    if is_asked_in(&self.ledger, &self.tenant, asked.call, self.scope.only()).await
                    {
                        wanted.push(asked);
                    }
                }
                Event::AgentsAsk(wanted)
            }
            Err(error) => Event::Trouble(error.to_string()),
        }
    }

    async fn reply(&self, given: ReplyChoice) -> Event {
        let by = Answerer::Person {
            name: self.name.clone(),
            place: AnswerPlace::Elsewhere,
        };
        let (store, now) = (self.ledger.agent_questions(), SystemClock.now());
        let replied = store.reply(&self.tenant, given.id, given.reply, by, now);
        let replied = replied.await.map(drop);
        Event::Replied(replied.map_err(|error| error.to_string()))
    }

    async fn look(&self) -> Event {
        let now = SystemClock.now();
        let pending = self.store.pending(&self.tenant, now, MAX_LISTED).await;
        match pending {
            Ok(pending) => {
                let mut fresh = Vec::with_capacity(pending.len());
                for question in pending {
                    if is_about(&self.ledger, &question, self.scope.only()).await {
                        fresh.push(question);
                    }
                }
                Event::Fresh(fresh)
            }
            Err(error) => Event::Trouble(error.to_string()),
        }
    }

    async fn answer(&self, given: update::AnswerChoice) -> Event {
        let answer = GivenAnswer {
            verdict: given.verdict.clone(),
            digest: given.digest,
            by: Answerer::Person {
                name: self.name.clone(),
                place: AnswerPlace::Elsewhere,
            },
        };
        let now = SystemClock.now();
        let answered = self.store.answer(&self.tenant, given.id, answer, now).await;
        Event::Answered {
            result: answered.map_err(|error| say(&error)),
            given: Box::new(given),
        }
    }
}

fn say(error: &AnswerError) -> String {
    match error {
        AnswerError::Store(error) => LedgerError::to_string(error),
        AnswerError::Unknown
        | AnswerError::NotOpen { .. }
        | AnswerError::NotYours
        | AnswerError::OtherPlan
        | AnswerError::NotShown => error.to_string(),
    }
}

fn no_screen(error: &std::io::Error) -> Stop {
    Stop::new(
        Exit::Failed,
        format!("the screen cannot be used: {error}"),
        "`haft approvals` lists the questions; `haft approve` and `haft deny` answer one",
    )
}

/// The signals that end the program. The screen is restored first.
struct EndSignals {
    signals: [Signal; 3],
}

impl EndSignals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            signals: [
                signal(SignalKind::terminate())?,
                signal(SignalKind::interrupt())?,
                signal(SignalKind::hangup())?,
            ],
        })
    }

    async fn asked(&mut self) {
        let [terminate, interrupt, hangup] = &mut self.signals;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
