//! Waits for a call on behalf of a request: tells its client of progress and log messages, puts the
//! call's questions to it, and stops the call when the client no longer wants it.
//!
//! Questions are sent from the request's own task, because that is what ties them to the stream the
//! client reads its answer from.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, stream::FuturesUnordered};
use haft_contract::{CallRequest, Outcome, progress::RenderedProgress};
use rmcp::{
    Peer, RoleServer,
    model::{
        CancelledNotificationParam, CustomNotification, CustomRequest, ProgressNotificationParam,
        ProgressToken, ProtocolVersion, RequestId, ServerNotification, ServerRequest,
    },
    service::{PeerRequestOptions, RequestContext, ServiceError},
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{
    endpoint::Endpoint,
    line::{Asks, Hears},
    live::{LiveCall, Step},
    severity::Severity,
};
use crate::client::{Abilities, AskError, Question};

/// How long a client has to answer one question.
const ANSWER_WAIT: Duration = Duration::from_mins(10);

/// How long withdrawing questions may hold up a call that has ended.
const WITHDRAW_WAIT: Duration = Duration::from_secs(1);

/// The request that waits for a call.
pub(super) struct Waiting<'a> {
    /// The request.
    pub(super) context: &'a RequestContext<RoleServer>,
    /// Whether its client can be sent requests of ours.
    pub(super) reachable: bool,
    /// The log messages its connection wants, if it said so.
    pub(super) logs_from: Option<Severity>,
    /// Cancelled when its connection ends.
    pub(super) gone: &'a CancellationToken,
}

/// Whether a request stands for itself, as from 2026-07-28 on.
pub(super) fn stands_for_itself(context: &RequestContext<RoleServer>) -> bool {
    context
        .protocol_version()
        .is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

impl Waiting<'_> {
    /// Makes a call and waits for its outcome.
    pub(super) async fn call(&self, endpoint: &Endpoint, request: CallRequest) -> Arc<Outcome> {
        let live = endpoint
            .calls
            .start(&endpoint.runtime, request, self.hears());
        self.conduct(live).await
    }

    /// Waits for a call's outcome.
    async fn conduct(&self, mut live: LiveCall) -> Arc<Outcome> {
        let mut voice = Voice::new(self.context);
        let mut asking = FuturesUnordered::new();
        let mut stopped = false;
        let outcome = loop {
            tokio::select! {
                step = live.next() => match step {
                    Step::Ended(outcome) => break outcome,
                    Step::Progress(report) => voice.progress(&report).await,
                    Step::Log(message) => voice.log(message).await,
                    Step::Asks(asks) => asking.push(put(&self.context.peer, asks)),
                },
                Some(()) = asking.next() => {}
                () = self.unwanted(), if !stopped => {
                    stopped = true;
                    live.cancel();
                }
            }
        };
        // What is still being asked is asked in vain now, and the client is told so.
        let withdrawn = async { while asking.next().await.is_some() {} };
        let _ = tokio::time::timeout(WITHDRAW_WAIT, withdrawn).await;
        outcome
    }

    /// Returns once nobody wants the answer any more.
    async fn unwanted(&self) {
        tokio::select! {
            () = self.context.ct.cancelled() => {}
            () = self.gone.cancelled() => {}
        }
    }

    fn hears(&self) -> Hears {
        if stands_for_itself(self.context) {
            let level = self.context.meta.get("io.modelcontextprotocol/logLevel");
            return Hears {
                abilities: Abilities::default(),
                logs_from: level.and_then(Value::as_str).and_then(Severity::parse),
            };
        }
        Hears {
            abilities: self.abilities(),
            logs_from: self.logs_from,
        }
    }

    fn abilities(&self) -> Abilities {
        let declared = self.context.client_capabilities();
        let Some(declared) = declared.filter(|_| self.reachable) else {
            return Abilities::default();
        };
        let elicitation = declared.elicitation.as_ref();
        Abilities {
            // Before there were two modes, the capability was empty and meant the form.
            elicit_form: elicitation.is_some_and(|can| can.form.is_some() || can.url.is_none()),
            elicit_url: elicitation.is_some_and(|can| can.url.is_some()),
            sample: declared.sampling.is_some(),
            roots: declared.roots.is_some(),
        }
    }
}

/// What a request's client is told while it waits.
struct Voice<'a> {
    context: &'a RequestContext<RoleServer>,
    token: Option<ProgressToken>,
    last: Option<f64>,
}

impl<'a> Voice<'a> {
    fn new(context: &'a RequestContext<RoleServer>) -> Self {
        Self {
            context,
            token: context.meta.get_progress_token(),
            last: None,
        }
    }

    /// Passes progress on, to a client that asked for it, if it increased.
    async fn progress(&mut self, report: &RenderedProgress) {
        let Some(token) = &self.token else {
            return;
        };
        let (progress, total) = amounts(report);
        if self.last.is_some_and(|last| progress <= last) {
            return;
        }
        self.last = Some(progress);
        let mut told = ProgressNotificationParam::new(token.clone(), progress);
        told.total = total;
        if !report.status.is_empty() {
            told.message = Some(report.status.clone());
        }
        self.send(self.context.peer.notify_progress(told)).await;
    }

    async fn log(&self, message: Value) {
        let message = CustomNotification::new("notifications/message", Some(message));
        let message = ServerNotification::CustomNotification(message);
        self.send(self.context.peer.send_notification(message))
            .await;
    }

    /// A client that does not read holds up neither the end of its call nor its own cancel.
    async fn send(&self, sending: impl Future<Output = Result<(), ServiceError>>) {
        tokio::select! {
            sent = sending => {
                if let Err(error) = sent {
                    tracing::debug!(%error, "a client could not be told");
                }
            }
            () = self.context.ct.cancelled() => {}
        }
    }
}

/// How far, and of how much: as a mounted server reported it where the tool kept that, else in steps.
fn amounts(report: &RenderedProgress) -> (f64, Option<f64>) {
    let reported = |name: &str| report.detail.get(name).and_then(Value::as_f64);
    #[expect(clippy::cast_precision_loss, reason = "steps to show, far below 2^53")]
    let (step, total) = (report.step as f64, report.total.map(|total| total as f64));
    match reported("progress") {
        Some(progress) => (progress, reported("total")),
        None => (step, total),
    }
}

/// Puts the questions of a call to its client, one after another, and the answers back.
async fn put(peer: &Peer<RoleServer>, mut asks: Asks) {
    let mut answers = Vec::with_capacity(asks.questions.len());
    for question in std::mem::take(&mut asks.questions) {
        match put_one(peer, question, &mut asks).await {
            Ok(answer) => answers.push(answer),
            Err(error) => return asks.answer(Err(error)),
        }
    }
    asks.answer(Ok(answers));
}

async fn put_one(
    peer: &Peer<RoleServer>,
    question: Question,
    asks: &mut Asks,
) -> Result<Value, AskError> {
    let request = CustomRequest::new(question.kind.method(), Some(question.parameters));
    let request = ServerRequest::CustomRequest(request);
    let options = PeerRequestOptions::with_timeout(ANSWER_WAIT);
    let sent = peer.send_request_with_option(request, options).await;
    let sent = sent.map_err(|error| refusal(&error))?;
    let id = sent.id.clone();
    tokio::select! {
        answer = sent.await_response() => {
            let answer = answer.map_err(|error| refusal(&error))?;
            serde_json::to_value(answer).map_err(|error| AskError::Refused {
                code: -32603,
                message: error.to_string(),
            })
        }
        () = asks.unwanted() => {
            withdraw(peer, id).await;
            Err(AskError::Gone)
        }
    }
}

async fn withdraw(peer: &Peer<RoleServer>, id: RequestId) {
    let reason = Some("the call that asked has ended".to_owned());
    let told = peer.notify_cancelled(CancelledNotificationParam::new(Some(id), reason));
    if let Err(error) = told.await {
        tracing::debug!(%error, "a question could not be withdrawn");
    }
}

fn refusal(error: &ServiceError) -> AskError {
    match error {
        ServiceError::McpError(error) => AskError::Refused {
            code: i64::from(error.code.0),
            message: error.message.to_string(),
        },
        ServiceError::TransportClosed | ServiceError::TransportSend(_) => AskError::Gone,
        error => AskError::Refused {
            code: -32603,
            message: error.to_string(),
        },
    }
}
