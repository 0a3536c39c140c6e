//! Asks a service of yours over HTTP: the question is posted, and the answer comes with the
//! response or is polled for until the question lapses.
//!
//! Requests and answers are signed with one shared key, and an answer names the question and the
//! digest of what was shown, so that none can be forged, replayed, or moved to another question. An
//! invalid answer is no answer: nothing here ever turns a failure into a yes.
//! `docs/guide/webhook.md` describes the protocol for authors of the other side.

mod agent_question;
mod http;
mod sign;
mod wire;

use std::{fmt, sync::Arc, time::Duration};

use haft_contract::{
    Principal,
    host::{
        AgentQuestionAnswer, AgentQuestionRequest, ApprovalAnswer, ApprovalRequest, Approver, Clock,
    },
};
use haft_runtime::SystemClock;
use serde::de::DeserializeOwned;

pub use self::sign::WebhookKey;
use self::{
    agent_question::WebhookReply,
    http::{Http, Reply},
    wire::WebhookAnswer,
};

/// The pause before the first poll for an answer.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The pauses grow up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// An approver that asks a service over HTTP.
pub struct Webhook {
    http: Http,
    clock: Arc<dyn Clock>,
    first_pause: Duration,
    longest_pause: Duration,
}

/// Why a webhook cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookError {
    /// The address is invalid.
    #[error("`{url}` is not an address: {why}")]
    Url {
        /// The address as given.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The address is not private. Questions hold what agents are about to do, so they never travel
    /// in the clear.
    #[error("`{0}` is not `https`, and plain `http` is for this machine only")]
    NotSecret(String),
    /// The key is too short.
    #[error("the key has {0} bytes, and needs at least {min}", min = WebhookKey::MIN_BYTES)]
    ShortKey(usize),
    /// The connections cannot be set up.
    #[error("connections cannot be set up: {0}")]
    SetUp(String),
}

impl Webhook {
    /// A webhook at an address, with the key that both sides sign with.
    pub fn new(url: &str, key: WebhookKey) -> Result<Self, WebhookError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        Ok(Self {
            http: Http::new(url, key, Arc::clone(&clock))?,
            clock,
            first_pause: FIRST_PAUSE,
            longest_pause: LONGEST_PAUSE,
        })
    }

    /// Sets the pauses between polls: the first, and the longest they grow to.
    #[must_use]
    pub fn pauses(mut self, first: Duration, longest: Duration) -> Self {
        self.first_pause = first;
        self.longest_pause = longest;
        self
    }
}

impl Webhook {
    /// Posts a question and looks for its answer until there is one. Whoever waits drops this when the
    /// question lapses or its call is cancelled.
    async fn answer<T: DeserializeOwned, A>(
        &self,
        id: &str,
        question: &[u8],
        read: impl Fn(T) -> Result<A, &'static str>,
    ) -> A {
        let mut pause = self.first_pause;
        let mut posted = false;
        loop {
            let reply = if posted {
                self.http.look(id).await
            } else {
                self.http.post(id, question).await
            };
            match reply {
                Ok(Reply::Pending) => posted = true,
                Ok(Reply::Answer(answer)) => match read(answer) {
                    Ok(answer) => return answer,
                    Err(why) => tracing::warn!(id, why, "an answer was refused"),
                },
                Err(why) => tracing::warn!(id, why, "the webhook did not answer"),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 3 / 2).min(self.longest_pause);
        }
    }
}

impl Approver for Webhook {
    async fn ask(&self, request: ApprovalRequest) -> ApprovalAnswer {
        let question = wire::question(&request, self.clock.now());
        let id = request.id.to_string();
        let read = |answer: WebhookAnswer| answer.to(&request);
        self.answer(&id, &question, read).await
    }

    fn nobody_replies(&self, _: &Principal) -> Option<String> {
        None
    }

    async fn put(&self, request: AgentQuestionRequest) -> AgentQuestionAnswer {
        let question = agent_question::body(&request, self.clock.now());
        let id = request.id.to_string();
        let read = |answer: WebhookReply| answer.to(&request);
        self.answer(&id, &question, read).await
    }
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").finish_non_exhaustive()
    }
}
