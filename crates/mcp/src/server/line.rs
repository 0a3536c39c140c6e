//! The line between a running call and whoever waits for it at the server edge: questions, log
//! messages and progress go out on it, answers come back.
//!
//! A line belongs to the call, not to a request: one request after another may wait for a call that
//! waits for a person. What the current client can be asked and wants to receive is set with
//! [`CallLine::hears`].

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use haft_contract::{
    future::BoxFuture,
    host::Timestamp,
    progress::{Progress, RenderedProgress},
    streamed::LatestLine,
};
use serde_json::Value;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    approve::{ForPerson, Window},
    severity::Severity,
};
use crate::client::{AskError, Client, ClientAbilities, Question, QuestionKind};

/// How many questions of one call may be queued for its client.
pub const QUESTIONS_KEPT: usize = 8;

/// How many log messages of one call may be queued; more are dropped while it is full.
pub const LOGS_KEPT: usize = 64;

/// What the current client can be asked and wants to receive.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientInterests {
    /// The name it gives itself.
    pub client: Option<Arc<str>>,
    /// What it can be asked.
    pub abilities: ClientAbilities,
    /// How much of a question it shows.
    pub window: Window,
    /// The lowest log severity it wants; `None` if it wants no logs.
    pub logs_from: Option<Severity>,
}

/// Something a call asks, with the reply channel. If it is dropped unanswered, the asker learns
/// that its client is gone.
#[derive(Debug)]
pub struct LineQuestion {
    /// What is asked.
    pub questions: Vec<Question>,
    /// What a person is asked, and when that lapses; `None` if a mounted server asks.
    pub for_person: Option<(ForPerson, Timestamp)>,
    reply: oneshot::Sender<Result<Vec<Value>, AskError>>,
}

impl LineQuestion {
    /// Answers with one value per question, in order.
    pub fn answer(self, answers: Result<Vec<Value>, AskError>) {
        // Nobody waits any more if the call was stopped in the meantime.
        let _ = self.reply.send(answers);
    }

    /// Whether nobody waits for the answer any more.
    pub fn is_unwanted(&self) -> bool {
        self.reply.is_closed()
    }

    /// Ready once nobody waits for the answer any more.
    pub fn poll_unwanted(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.reply.poll_closed(cx)
    }
}

/// What a call has put out, and what it said about its own progress.
#[derive(Debug, Default)]
struct ToldOutput {
    bytes: u64,
    latest: LatestLine,
    own: Option<RenderedProgress>,
    deadline: Option<Duration>,
    /// When it is stopped.
    ends: Option<Instant>,
}

/// The newest report of a call, with where it comes from.
#[derive(Debug, Clone)]
pub(super) enum Report {
    /// The tool reported its progress.
    Own(RenderedProgress),
    /// It put out a line or an item.
    Line(RenderedProgress),
}

/// The call's end of the line.
#[derive(Debug)]
pub struct CallLine {
    questions: mpsc::Sender<LineQuestion>,
    logs: mpsc::Sender<Value>,
    progress: watch::Sender<Option<Report>>,
    told: Mutex<ToldOutput>,
    hears: Mutex<ClientInterests>,
    /// The last question that the client could not be asked.
    lacking: Mutex<Option<QuestionKind>>,
}

/// The end held by whoever waits for the call.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) questions: mpsc::Receiver<LineQuestion>,
    pub(super) logs: mpsc::Receiver<Value>,
    pub(super) progress: watch::Receiver<Option<Report>>,
}

impl CallLine {
    pub(super) fn open(hears: ClientInterests) -> (Self, Listener) {
        let (asks_in, questions) = mpsc::channel(QUESTIONS_KEPT);
        let (logs_in, logs) = mpsc::channel(LOGS_KEPT);
        let (progress_in, progress) = watch::channel(None);
        let line = Self {
            questions: asks_in,
            logs: logs_in,
            progress: progress_in,
            told: Mutex::default(),
            hears: Mutex::new(hears),
            lacking: Mutex::new(None),
        };
        let listener = Listener {
            questions,
            logs,
            progress,
        };
        (line, listener)
    }

    /// Sets what the client of the next request can be asked and wants to receive.
    pub fn hears(&self, hears: ClientInterests) {
        *self.hears.lock().unwrap_or_else(PoisonError::into_inner) = hears;
    }

    fn heard(&self) -> ClientInterests {
        let hears = self.hears.lock();
        hears.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The name of the current client.
    pub fn client(&self) -> Option<Arc<str>> {
        self.heard().client
    }

    /// How much of a question the current client shows.
    pub fn window(&self) -> Window {
        self.heard().window
    }

    /// The last question that the client could not be asked.
    pub(super) fn lacking(&self) -> Option<QuestionKind> {
        *self.lacking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a progress report; only the newest is kept.
    pub(super) fn report(&self, progress: &RenderedProgress) {
        self.told().own = Some(progress.clone());
        let report = Report::Own(progress.clone());
        self.progress.send_replace(Some(report));
    }

    /// Takes output of a command, whose latest line is shown as progress.
    pub(super) fn output(&self, text: &str) {
        let mut told = self.told();
        told.latest.push(text);
        let line = told.latest.get().to_owned();
        self.line(told, text.len(), line);
    }

    /// Takes an item, as a person sees it.
    pub(super) fn item(&self, line: &str) {
        self.line(self.told(), line.len(), line.to_owned());
    }

    /// Reports a line. A tool that counts its own steps is left at the step it reported.
    fn line(&self, mut told: MutexGuard<'_, ToldOutput>, bytes: usize, line: String) {
        told.bytes += bytes as u64;
        if line.is_empty() {
            return;
        }
        let report = match &told.own {
            Some(own) if own.step > 0 || own.total.is_some() => {
                let mut own = own.clone();
                own.status = line;
                own
            }
            Some(_) | None => Progress::of(told.bytes, None, line).detail(Value::Null),
        };
        drop(told);
        self.progress.send_replace(Some(Report::Line(report)));
    }

    /// Notes how long the call may run.
    pub(super) fn planned(&self, deadline: Duration) {
        self.told().deadline = Some(deadline);
    }

    /// Notes that the tool runs from now on.
    pub(super) fn runs(&self) {
        let mut told = self.told();
        told.ends = told.deadline.map(|deadline| Instant::now() + deadline);
    }

    /// How long it may still run, if it runs.
    pub(super) fn time_left(&self) -> Option<Duration> {
        let ends = self.told().ends?;
        Some(ends.saturating_duration_since(Instant::now()))
    }

    fn told(&self) -> MutexGuard<'_, ToldOutput> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks whoever waits for the call, with what a person is asked and when it lapses, if they are, and
    /// waits for the answers. The caller must know what the client can be asked.
    pub async fn put(
        &self,
        questions: Vec<Question>,
        for_person: Option<(ForPerson, Timestamp)>,
    ) -> Result<Vec<Value>, AskError> {
        let (reply, answers) = oneshot::channel();
        let asks = LineQuestion {
            questions,
            for_person,
            reply,
        };
        self.questions
            .send(asks)
            .await
            .map_err(|_| AskError::Gone)?;
        answers.await.unwrap_or(Err(AskError::Gone))
    }
}

impl Client for CallLine {
    fn abilities(&self) -> ClientAbilities {
        self.heard().abilities
    }

    fn ask<'a>(
        &'a self,
        questions: Vec<Question>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Vec<Value>, AskError>> {
        Box::pin(async move {
            let abilities = self.abilities();
            if let Some(question) = questions
                .iter()
                .find(|asked| !abilities.has(asked.kind, &asked.parameters))
            {
                self.lacks(question.kind);
                return Err(AskError::NotAble(question.kind.method()));
            }
            tokio::select! {
                answers = self.put(questions, None) => answers,
                () = cancel.cancelled() => Err(AskError::Gone),
            }
        })
    }

    fn lacks(&self, kind: QuestionKind) {
        *self.lacking.lock().unwrap_or_else(PoisonError::into_inner) = Some(kind);
    }

    fn log_level(&self) -> Option<String> {
        let wanted = self.heard().logs_from;
        wanted.map(|level| level.as_str().to_owned())
    }

    fn log(&self, message: Value) {
        let level = message.get("level").and_then(Value::as_str);
        let level = level.and_then(Severity::parse);
        let wanted = self.heard().logs_from;
        if level.is_some() && wanted.is_some() && level >= wanted {
            // A slow client loses messages, not the call.
            let _ = self.logs.try_send(message);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::client::QuestionKind;

    fn question(kind: QuestionKind, parameters: Value) -> Question {
        Question {
            key: "q".to_owned(),
            kind,
            parameters,
        }
    }

    #[tokio::test]
    async fn a_client_is_asked_only_what_it_said_it_can_be_asked() {
        let mut hears = ClientInterests::default();
        hears.abilities.elicit_form = true;
        let (line, _listener) = CallLine::open(hears);
        let cancel = CancellationToken::new();
        let url = question(QuestionKind::Elicit, json!({"mode": "url"}));
        let sample = question(QuestionKind::Sample, json!({}));
        for refused in [url, sample] {
            let answer = line.ask(vec![refused], &cancel).await;
            assert!(matches!(answer, Err(AskError::NotAble(_))), "{answer:?}");
        }
    }

    #[tokio::test]
    async fn an_asker_learns_that_nobody_listens() {
        let (line, listener) = CallLine::open(ClientInterests::default());
        drop(listener);
        assert_eq!(line.put(Vec::new(), None).await, Err(AskError::Gone));
    }

    #[test]
    fn only_log_messages_that_are_wanted_are_kept() {
        let mut hears = ClientInterests::default();
        let (line, mut listener) = CallLine::open(hears.clone());
        let error = json!({"level": "error", "data": 1});
        line.log(error.clone());
        assert!(listener.logs.try_recv().is_err());
        assert_eq!(line.log_level(), None);
        hears.logs_from = Some(Severity::Warning);
        line.hears(hears);
        assert_eq!(line.log_level().as_deref(), Some("warning"));
        line.log(json!({"level": "info", "data": 2}));
        line.log(json!({"level": "no such level"}));
        line.log(error.clone());
        assert_eq!(listener.logs.try_recv(), Ok(error));
        assert!(listener.logs.try_recv().is_err());
    }
}
