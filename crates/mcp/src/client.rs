//! The client a call came from, for tools that need to ask or tell it something: a mounted server
//! that elicits, samples or logs while one of its tools runs.
//!
//! The server edge knows the client and registers it here under the call's id. A mounted tool finds
//! it by the id in its context. Neither edge names the other. JSON values have the protocol's form.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use haft_contract::{CallId, future::BoxFuture};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// What a client declared that it can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "as the protocol names them")]
pub struct ClientAbilities {
    /// `elicitation/create` with a form.
    pub elicit_form: bool,
    /// `elicitation/create` with a URL to open.
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

    /// Whether a question of this kind with these parameters can be asked.
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
    /// Its key, unique within the call, so that an answer can be matched to it.
    pub key: String,
    /// What is asked.
    pub kind: QuestionKind,
    /// The parameters of the request, in the protocol's form.
    pub parameters: Value,
}

/// The kind of question, by the protocol's method.
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
    /// The protocol's method.
    pub fn method(self) -> &'static str {
        match self {
            Self::Elicit => "elicitation/create",
            Self::Sample => "sampling/createMessage",
            Self::Roots => "roots/list",
        }
    }

    const ALL: [Self; 3] = [Self::Elicit, Self::Sample, Self::Roots];

    /// The kind of question that a method asks.
    pub fn of_method(method: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.method() == method)
    }

    /// The capability that declares a client can be asked this.
    pub fn capability(self) -> &'static str {
        match self {
            Self::Elicit => "elicitation",
            Self::Sample => "sampling",
            Self::Roots => "roots",
        }
    }

    /// The kind of question that a client with this capability can be asked.
    pub fn of_capability(capability: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|kind| kind.capability() == capability)
    }
}

/// Why a client gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The client did not declare that it can be asked this.
    #[error("the client of this call cannot be asked `{0}`")]
    NotAble(&'static str),
    /// The client is gone, or the call was cancelled.
    #[error("the client of this call is gone")]
    Gone,
    /// The client answered with an error.
    #[error("the client refused: {message}")]
    Refused {
        /// The protocol's error code.
        code: i64,
        /// What the client said.
        message: String,
    },
}

/// The client of one call.
pub trait Client: Send + Sync {
    /// What it can be asked.
    fn abilities(&self) -> ClientAbilities;

    /// Asks, and waits for all answers. They are in the order of the questions. Each is the result
    /// of the request in the protocol's form.
    fn ask<'a>(
        &'a self,
        questions: Vec<Question>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Vec<Value>, AskError>>;

    /// Reports that the server needs to ask this but cannot, because the client did not declare
    /// that it can be asked. The client may want to know why its call failed.
    fn lacks(&self, kind: QuestionKind) {
        let _ = kind;
    }

    /// Passes on a log message (the parameters of `notifications/message`), if the client wants
    /// messages of its level.
    fn log(&self, message: Value);

    /// The least severe log level it wants, by the protocol's name; `None` if it wants no logs. A
    /// server of the stateless era is asked for this level.
    fn log_level(&self) -> Option<String> {
        None
    }
}

/// The clients of the calls that are running now.
#[derive(Default)]
pub struct Clients {
    by_call: Mutex<HashMap<CallId, Arc<dyn Client>>>,
}

/// Keeps a client registered. Dropped when its call is over.
pub struct AttachedClient {
    clients: Arc<Clients>,
    call: CallId,
}

impl Clients {
    fn by_call(&self) -> MutexGuard<'_, HashMap<CallId, Arc<dyn Client>>> {
        self.by_call.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a client for as long as the returned value lives. There is at most one entry per
    /// call in flight, and the runtime caps those.
    #[must_use]
    pub fn attach(self: &Arc<Self>, call: CallId, client: Arc<dyn Client>) -> AttachedClient {
        self.by_call().insert(call, client);
        AttachedClient {
            clients: Arc::clone(self),
            call,
        }
    }

    /// The client of a call; `None` if the call came another way.
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
