//! The client a call came from, for tools that have something to ask or to tell it: a mounted
//! server that elicits, samples or logs while one of its tools runs.
//!
//! The server edge knows the client and puts it here under the call's id; a mounted tool finds it by
//! the id in its context. Neither edge names the other. JSON is as the protocol has it.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use haft_contract::{CallId, future::BoxFuture};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// What a client said it can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "as the protocol names them")]
pub struct ClientAbilities {
    /// `elicitation/create` with a form.
    pub elicit_form: bool,
    /// `elicitation/create` with an address to open.
    pub elicit_url: bool,
    /// `sampling/createMessage`.
    pub sample: bool,
    /// `roots/list`.
    pub roots: bool,
}

impl ClientAbilities {
    /// Whether a question of this kind can be asked in any way.
    pub fn has_any(self, kind: QuestionKind) -> bool {
        match kind {
            QuestionKind::Elicit => self.elicit_form || self.elicit_url,
            QuestionKind::Sample => self.sample,
            QuestionKind::Roots => self.roots,
        }
    }

    /// Whether a question of this kind, with these parameters, can be asked.
    pub fn has(self, kind: QuestionKind, parameters: &Value) -> bool {
        match kind {
            QuestionKind::Elicit => match parameters.get("mode").and_then(Value::as_str) {
                Some("url") => self.elicit_url,
                Some(_) | None => self.elicit_form,
            },
            QuestionKind::Sample => self.sample,
            QuestionKind::Roots => self.roots,
        }
    }
}

/// Something a server asks the client in the middle of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// What to call it: unique within the call, so that an answer finds it again.
    pub key: String,
    /// What is asked.
    pub kind: QuestionKind,
    /// The parameters of the request, as the protocol has them.
    pub parameters: Value,
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QuestionKind {
    /// `elicitation/create`.
    Elicit,
    /// `sampling/createMessage`.
    Sample,
    /// `roots/list`.
    Roots,
}

impl QuestionKind {
    /// The method of the protocol.
    pub fn method(self) -> &'static str {
        match self {
            Self::Elicit => "elicitation/create",
            Self::Sample => "sampling/createMessage",
            Self::Roots => "roots/list",
        }
    }

    const ALL: [Self; 3] = [Self::Elicit, Self::Sample, Self::Roots];

    /// The question a method asks.
    pub fn of_method(method: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.method() == method)
    }

    /// The capability by which a client declares that it can be asked this.
    pub fn capability(self) -> &'static str {
        match self {
            Self::Elicit => "elicitation",
            Self::Sample => "sampling",
            Self::Roots => "roots",
        }
    }

    /// The question a client with this capability can be asked.
    pub fn of_capability(capability: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|kind| kind.capability() == capability)
    }
}

/// Why a client gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The client did not say that it can be asked this.
    #[error("the client of this call cannot be asked `{0}`")]
    NotAble(&'static str),
    /// The client is gone, or the call was cancelled.
    #[error("the client of this call is gone")]
    Gone,
    /// The client answered with an error.
    #[error("the client refused: {message}")]
    Refused {
        /// The code of the protocol.
        code: i64,
        /// What the client said.
        message: String,
    },
}

/// The client of one call.
pub trait Client: Send + Sync {
    /// What it can be asked.
    fn abilities(&self) -> ClientAbilities;

    /// Asks, and waits for all answers, in the order of the questions. Each answer is the result of
    /// the request, as the protocol has it.
    fn ask<'a>(
        &'a self,
        questions: Vec<Question>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Vec<Value>, AskError>>;

    /// Hears that the server has to ask this and cannot, because the client did not say that it can
    /// be asked: the client may want to know why its call failed.
    fn lacks(&self, kind: QuestionKind) {
        let _ = kind;
    }

    /// Passes on a log message (the parameters of `notifications/message`), if the client wants
    /// messages of its level.
    fn log(&self, message: Value);

    /// The least severe level of log messages it wants, in the protocol's word; none if it wants
    /// none. A server of the stateless era is asked for this level.
    fn log_level(&self) -> Option<String> {
        None
    }
}

/// The clients of the calls that run now.
#[derive(Default)]
pub struct Clients {
    by_call: Mutex<HashMap<CallId, Arc<dyn Client>>>,
}

/// Keeps a client findable; dropped when its call is over.
pub struct AttachedClient {
    clients: Arc<Clients>,
    call: CallId,
}

impl Clients {
    fn by_call(&self) -> MutexGuard<'_, HashMap<CallId, Arc<dyn Client>>> {
        self.by_call.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a client findable for as long as what is returned lives. At most one entry for every
    /// call in flight, whose number the runtime caps.
    #[must_use]
    pub fn attach(self: &Arc<Self>, call: CallId, client: Arc<dyn Client>) -> AttachedClient {
        self.by_call().insert(call, client);
        AttachedClient {
            clients: Arc::clone(self),
            call,
        }
    }

    /// The client of a call; none where the call came another way.
    pub fn of(&self, call: CallId) -> Option<Arc<dyn Client>> {
        self.by_call().get(&call).cloned()
    }

    /// How many are attached.
    pub fn len(&self) -> usize {
        self.by_call().len()
    }

    /// Whether none is attached.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Drop for AttachedClient {
    fn drop(&mut self) {
        self.clients.by_call().remove(&self.call);
    }
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clients")
            .field("calls", &self.len())
            .finish()
    }
}

impl fmt::Debug for AttachedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attached")
            .field("call", &self.call)
            .finish_non_exhaustive()
    }
}
