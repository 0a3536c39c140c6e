//! A model's turn as a stream: its calls run side by side, and what happens to them is read as it
//! happens. At the end there is one answer for each call, in the order of the calls.
//!
//! Calls go through [`Runtime`] like any other; there is no second way to run one. Nobody who reads
//! slowly slows a call. Read next: `item.rs` for what is yielded, `running.rs` for how.
//!
//! [`Runtime`]: haft_runtime::Runtime

mod asker;
mod item;
mod running;

use std::{sync::Arc, time::Duration};

use haft_contract::{
    CallId, CallRequest, ErrorKind, Facts, ModelCallId, Outcome, Terminal, outcome::Failure,
};
use haft_runtime::EVENTS_HELD;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub(crate) use self::asker::AskedRequest;
pub use self::item::{TurnCall, TurnItem};
use self::running::RunningCalls;
use crate::{
    embedded::Haft,
    model::{ModelAnswer, ModelCall, Shape},
};

/// The tool calls of one message of a model.
///
/// Nothing runs before the turn is read with [`next`](Self::next) or run with
/// [`finish`](Self::finish). Dropping it stops its calls.
///
/// Where a rule asks, the turn yields a [`Question`](crate::Question) and the call waits; an approver
/// of the host is asked as well, and the first answer counts. A turn that is only finished asks
/// nobody but that approver.
///
/// ```
/// use haft::{TurnItem, model::Shape, prelude::*};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// # let (workspace, data) = (tempfile::tempdir()?, tempfile::tempdir()?);
/// # let haft = Haft::open(workspace.path()).data_dir(data.path()).build().await?;
/// # let message = json!({"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function",
/// #     "function": {"name": "write", "arguments": {"path": "a.txt", "content": "hello\n"}}}]});
/// let mut turn = haft.turn(Shape::OpenAi, &message);
/// while let Some(item) = turn.next().await {
///     match item {
///         TurnItem::Output { text, .. } => print!("{text}"),
///         TurnItem::Question { question, .. } => {
///             println!("{}", question.text()?);
///             question.approve().await?;
///         }
///         TurnItem::Ended { call, outcome } => println!("{}: {}", call.id(), outcome.terminal),
///         _ => {}
///     }
/// }
/// let messages = turn.finish().await.messages();
/// assert_eq!(messages[0]["tool_call_id"], "call_1");
/// # haft.close().await?;
/// # Ok(()) })
/// # }
/// ```
#[must_use = "nothing runs before the turn is read or finished"]
pub struct Turn {
    haft: Haft,
    shape: Shape,
    calls: Vec<Arc<TurnCall>>,
    /// The calls that can be read, until they are started.
    requests: Vec<(usize, CallRequest)>,
    /// The outcome of each call, once it has one.
    outcomes: Vec<Option<Arc<Outcome>>>,
    timeout: Option<Duration>,
    cancel: CancellationToken,
    holds: usize,
    running: Option<RunningCalls>,
}

/// The answers to all calls of a turn.
#[derive(Debug, Clone)]
pub struct TurnAnswers {
    shape: Shape,
    answers: Vec<ModelAnswer>,
}

impl Haft {
    /// The tool calls of a model's message, to be run and watched. Takes the message, or the part of
    /// it that holds the calls.
    pub fn turn(&self, shape: Shape, message: &Value) -> Turn {
        Turn::new(self, shape, shape.calls(message))
    }

    /// Runs the calls of a model concurrently, as far as their accesses allow, and answers in the
    /// order of the calls. A malformed call is answered too.
    pub async fn answer(&self, calls: Vec<ModelCall>) -> Vec<ModelAnswer> {
        // The shape only matters for messages.
        Turn::new(self, Shape::OpenAi, calls).finish().await.answers
    }

    /// Answers the `tool_calls` of an OpenAI chat message with the messages to append to the
    /// conversation. Takes the array, or the message that holds it.
    pub async fn answer_openai(&self, tool_calls: &Value) -> Vec<Value> {
        self.turn(Shape::OpenAi, tool_calls).finish().await.each()
    }

    /// Answers the function calls of an OpenAI response with the items of the next input. Takes
    /// the `output` array, or the response that holds it.
    pub async fn answer_openai_responses(&self, output: &Value) -> Vec<Value> {
        let turn = self.turn(Shape::OpenAiResponses, output);
        turn.finish().await.each()
    }

    /// Answers the `tool_use` blocks of an Anthropic message with the blocks of the next user
    /// message. Takes the `content` array, or the message that holds it.
    pub async fn answer_anthropic(&self, content: &Value) -> Vec<Value> {
        self.turn(Shape::Anthropic, content).finish().await.each()
    }
}

impl Turn {
    fn new(haft: &Haft, shape: Shape, asked: Vec<ModelCall>) -> Self {
        let mut turn = Self {
            haft: haft.clone(),
            shape,
            calls: Vec::with_capacity(asked.len()),
            requests: Vec::with_capacity(asked.len()),
            outcomes: Vec::with_capacity(asked.len()),
            timeout: None,
            cancel: CancellationToken::new(),
            holds: EVENTS_HELD,
            running: None,
        };
        for (index, ModelCall { id, asked }) in asked.into_iter().enumerate() {
            turn.push(index, id.map(ModelCallId::new), asked);
        }
        turn
    }

    fn push(
        &mut self,
        index: usize,
        model_call: Option<ModelCallId>,
        asked: Result<crate::model::ModelRequest, crate::model::ShapeError>,
    ) {
        let (call, tool, outcome) = match asked {
            Ok(asked) => {
                let mut request = self.haft.request(asked.tool, Value::Null);
                request.arguments = asked.arguments;
                request.model_call.clone_from(&model_call);
                let (call, tool) = (request.id, request.tool.clone());
                self.requests.push((index, request));
                (call, Some(tool), None)
            }
            Err(error) => {
                let outcome = Arc::new(error.outcome());
                (outcome.call, None, Some(outcome))
            }
        };
        self.outcomes.push(outcome);
        self.calls.push(Arc::new(TurnCall {
            index,
            call,
            model_call,
            tool,
        }));
    }

    /// Limits how long each of its calls may run. The time does not run while a person is asked.
    /// Has no effect on a turn that has begun.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Stops every call when the token is cancelled. Has no effect on a turn that has begun.
    pub fn cancel(mut self, cancel: CancellationToken) -> Self {
        self.cancel = cancel;
        self
    }

    /// How much progress, output and how many items wait to be read before further ones are dropped;
    /// [`EVENTS_HELD`] unless set. Has no effect on a turn that has begun.
    pub fn holds(mut self, events: usize) -> Self {
        self.holds = events;
        self
    }

    /// Its calls, in the order of the message.
    pub fn calls(&self) -> &[Arc<TurnCall>] {
        &self.calls
    }

    /// What happens next; `None` once every call has ended. The first call of this starts the calls.
    /// Cancel safe.
    pub async fn next(&mut self) -> Option<TurnItem> {
        if self.running.is_none() {
            self.running = Some(RunningCalls::watched(self));
        }
        let running = self.running.as_mut()?;
        running
            .next(&self.haft, &self.calls, &mut self.outcomes)
            .await
    }

    /// Runs the calls to their ends, or what is left of them, and answers every one. From here on
    /// nobody reads the turn's questions.
    pub async fn finish(mut self) -> TurnAnswers {
        let mut running = match self.running.take() {
            Some(running) => running,
            None => RunningCalls::unwatched(&mut self),
        };
        running.finish(&mut self.outcomes).await;
        let outcomes = std::mem::take(&mut self.outcomes).into_iter();
        let answers = self.calls.iter().zip(outcomes).map(|(call, outcome)| {
            let outcome = outcome.unwrap_or_else(|| lost(call));
            ModelAnswer::new(call.model_call().map(str::to_owned), outcome)
        });
        TurnAnswers {
            shape: self.shape,
            answers: answers.collect(),
        }
    }
}

impl TurnAnswers {
    /// What to append to the conversation, in the provider's format: every call is answered exactly
    /// once, malformed ones too. Nothing if the message called no tool.
    pub fn messages(&self) -> Vec<Value> {
        self.shape.messages(&self.answers)
    }

    /// One entry for each call: a message, an item or, with Anthropic, a block of a user message.
    pub fn each(&self) -> Vec<Value> {
        let answers = self.answers.iter();
        answers.map(|answer| self.shape.answer(answer)).collect()
    }

    /// The answers with their outcomes, in the order of the calls.
    pub fn answers(&self) -> &[ModelAnswer] {
        &self.answers
    }

    /// Whether the message called no tool.
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }
}

/// The outcome of a call whose task was lost.
fn lost(call: &TurnCall) -> Arc<Outcome> {
    let call: CallId = call.call;
    Arc::new(Outcome {
        call,
        tool: None,
        terminal: Terminal::Failed,
        content: Vec::new(),
        structured: None,
        error: Some(Failure {
            kind: ErrorKind::Internal,
            message: "the runtime broke down on this call".to_owned(),
            at: None,
            hint: Some("this is a fault in Haft; the log has the detail".to_owned()),
        }),
        facts: Facts::default(),
    })
}

impl std::fmt::Debug for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turn")
            .field("calls", &self.calls)
            .finish_non_exhaustive()
    }
}
