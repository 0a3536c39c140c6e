//! Waits for a call on behalf of a request: what its client declared, what it is sent in the
//! meantime, and how it is asked. The wait itself is in [`super::approve`].
//!
//! Questions are sent from the request's own task, because that ties them to the stream from which
//! the client reads its answer.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use haft_contract::{CallRequest, progress::RenderedProgress};
use rmcp::{
    ErrorData, Peer, RoleServer,
    model::{
        CancelledNotificationParam, ClientCapabilities, CustomNotification, CustomRequest,
        InputResponses, ProgressNotificationParam, ProgressToken, ProtocolVersion, RequestId,
        ServerNotification, ServerRequest,
    },
    service::{PeerRequestOptions, RequestContext, ServiceError},
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{
    approve::{
        CallReply, Caller, QuestionChannel, Request, RequestDigest, UnansweredQuestion, Window,
    },
    endpoint::Endpoint,
    line::ClientInterests,
    live::LiveCall,
    result,
    severity::Severity,
};
use crate::client::{AskError, ClientAbilities};

/// How long a client has to answer one question.
const ANSWER_WAIT: Duration = Duration::from_mins(10);

/// How far a heartbeat advances progress: it must increase, and should not look like a step of the
/// call.
const SIGN_OF_LIFE: f64 = 1e-6;

/// The longest client name that is recorded.
const MAX_NAME: usize = 64;

/// A request that waits for a call.
pub(super) struct WaitingRequest<'a> {
    /// The SDK's view of the request.
    pub(super) context: &'a RequestContext<RoleServer>,
    /// Whether we can send requests to its client.
    pub(super) reachable: bool,
    /// The log level of its connection, if it set one.
    pub(super) logs_from: Option<Severity>,
    /// Cancelled when its connection ends.
    pub(super) gone: &'a CancellationToken,
}

/// What a request asks for, and what it carries from an earlier round.
pub(super) struct RequestRound {
    /// What is requested.
    pub(super) wanted: RequestDigest,
    /// What its result may be instead of an answer.
    pub(super) takes: ReplyKinds,
    /// The state of an earlier round.
    pub(super) state: Option<String>,
    /// The answers to an earlier round's questions.
    pub(super) answers: Option<InputResponses>,
}

/// What the result of a request may be instead of an answer, depending on its method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplyKinds {
    /// Nothing else.
    Answers,
    /// Questions.
    Questions,
    /// Questions, or a task.
    QuestionsAndTasks,
}

/// Whether a request is self-contained, as of 2026-07-28.
pub(super) fn stands_for_itself(context: &RequestContext<RoleServer>) -> bool {
    context
        .protocol_version()
        .is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

/// What the client of a request declared that it can be asked.
pub(super) fn abilities(context: &RequestContext<RoleServer>) -> ClientAbilities {
    let declared = context.client_capabilities();
    declared.map_or_else(ClientAbilities::default, |declared| abilities_in(&declared))
}

/// The error for a call that failed because its client did not declare that it can be asked
/// something.
pub(super) fn lacking(endpoint: &Endpoint, told: &CallReply) -> Option<ErrorData> {
    let CallReply::Ended(outcome) = told else {
        return None;
    };
    if outcome.succeeded() {
        return None;
    }
    let kind = endpoint.calls.lacked(outcome.call)?;
    Some(result::lacking(kind, outcome))
}

fn abilities_in(declared: &ClientCapabilities) -> ClientAbilities {
    let elicitation = declared.elicitation.as_ref();
    ClientAbilities {
        // Before there were two modes, the capability was empty and meant the form.
        elicit_form: elicitation.is_some_and(|can| can.form.is_some() || can.url.is_none()),
        elicit_url: elicitation.is_some_and(|can| can.url.is_some()),
        sample: declared.sampling.is_some(),
        roots: declared.roots.is_some(),
    }
}

impl WaitingRequest<'_> {
    /// Makes a call, or finds the one that waits for exactly this request, and waits with it until
    /// there is something to tell the client.
    pub(super) async fn call(
        &self,
        endpoint: &Endpoint,
        call: CallRequest,
        asked: RequestRound,
    ) -> Result<CallReply, ErrorData> {
        let hears = self.hears(asked.takes);
        let request = Request {
            owner: endpoint.owner_of(&call.principal),
            wanted: asked.wanted,
            state: asked.state.as_deref(),
            answers: asked.answers,
            reach: self.reach(asked.takes),
            abilities: hears.abilities,
        };
        let for_later = hears.clone();
        let make = || endpoint.calls.start(&endpoint.runtime, call, hears);
        let again = |live: &LiveCall| live.line().hears(for_later);
        let voice = ClientChannel::new(self.context, self.gone);
        let approvals = &endpoint.approvals;
        approvals.serve(request, &voice, make, again).await
    }

    fn reach(&self, takes: ReplyKinds) -> QuestionChannel {
        if !stands_for_itself(self.context) {
            return QuestionChannel::Direct;
        }
        let declared = self.context.client_capabilities();
        match takes {
            ReplyKinds::QuestionsAndTasks => rounds(declared.as_ref()),
            ReplyKinds::Answers | ReplyKinds::Questions => QuestionChannel::Rounds,
        }
    }

    fn hears(&self, takes: ReplyKinds) -> ClientInterests {
        let client = self.context.client_info();
        let name = client.as_ref().map(|client| client.name.as_str());
        let version = client.as_ref().map(|client| client.version.as_str());
        let window = Window::of(name, version);
        let client = name.map(named);
        if stands_for_itself(self.context) {
            let level = self.context.meta.get("io.modelcontextprotocol/logLevel");
            return ClientInterests {
                client,
                abilities: match takes {
                    ReplyKinds::Answers => ClientAbilities::default(),
                    ReplyKinds::Questions | ReplyKinds::QuestionsAndTasks => {
                        abilities(self.context)
                    }
                },
                window,
                logs_from: level.and_then(Value::as_str).and_then(Severity::parse),
            };
        }
        ClientInterests {
            client,
            abilities: if self.reachable {
                abilities(self.context)
            } else {
                ClientAbilities::default()
            },
            window,
            logs_from: self.logs_from,
        }
    }
}

/// How to ask a client whose request is self-contained and may become a task.
fn rounds(declared: Option<&ClientCapabilities>) -> QuestionChannel {
    if declared.is_some_and(ClientCapabilities::supports_tasks) {
        QuestionChannel::RoundsAndTasks
    } else {
        QuestionChannel::Rounds
    }
}

/// The client of a self-contained call that wants nothing while the call runs and carries nothing
/// from an earlier round.
pub(super) struct SilentClient<'a> {
    /// What it declared.
    pub(super) capabilities: &'a ClientCapabilities,
    /// The name it gives itself.
    pub(super) name: Option<&'a str>,
    /// Cancelled when serving ends.
    pub(super) gone: &'a CancellationToken,
}

impl SilentClient<'_> {
    /// Makes a call, or finds the one that waits for exactly this request, and waits with it until
    /// there is something to tell the client.
    pub(super) async fn call(
        &self,
        endpoint: &Endpoint,
        method: &str,
        call: CallRequest,
    ) -> Result<CallReply, ErrorData> {
        let hears = ClientInterests {
            client: self.name.map(named),
            abilities: abilities_in(self.capabilities),
            window: Window::of(self.name, None),
            logs_from: None,
        };
        let request = Request {
            owner: endpoint.owner_of(&call.principal),
            wanted: RequestDigest::call(method, &call),
            state: None,
            answers: None,
            reach: rounds(Some(self.capabilities)),
            abilities: hears.abilities,
        };
        let for_later = hears.clone();
        // It is sent nothing, so a client that does not read cannot hold up a call that runs on its
        // task.
        let make = || endpoint.calls.start_here(&endpoint.runtime, call, hears);
        let again = |live: &LiveCall| live.line().hears(for_later);
        endpoint.approvals.serve(request, self, make, again).await
    }
}

impl Caller for SilentClient<'_> {
    async fn progress(&self, _: RenderedProgress) {}

    async fn waits(&self, _: String) {}

    async fn log(&self, _: Value) {}

    /// Never called: this client takes questions back as the result of its request.
    async fn ask(&self, _: UnansweredQuestion) -> Result<Value, AskError> {
        Err(AskError::Gone)
    }

    async fn gone(&self) {
        self.gone.cancelled().await;
    }
}

/// The name of a client, reduced to characters that need no escaping anywhere.
fn named(name: &str) -> Arc<str> {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "._-".contains(c) {
            c
        } else {
            '-'
        }
    };
    let name: String = name.chars().take(MAX_NAME).map(plain).collect();
    name.into()
}

/// How a request's client is notified while it waits, and how it is asked.
struct ClientChannel<'a> {
    context: &'a RequestContext<RoleServer>,
    gone: &'a CancellationToken,
    token: Option<ProgressToken>,
    last: Mutex<Option<f64>>,
}

impl<'a> ClientChannel<'a> {
    fn new(context: &'a RequestContext<RoleServer>, gone: &'a CancellationToken) -> Self {
        Self {
            context,
            gone,
            token: context.meta.get_progress_token(),
            last: Mutex::new(None),
        }
    }

    /// Records a step and returns it, if it is ahead of the last.
    fn ahead(&self, step: impl FnOnce(Option<f64>) -> f64) -> Option<f64> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let progress = step(*last);
        if last.is_some_and(|last| progress <= last) {
            return None;
        }
        *last = Some(progress);
        Some(progress)
    }

    /// Sends, but never lets a client that does not read hold up the end of its call or its own
    /// cancel.
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

impl Caller for ClientChannel<'_> {
    /// Forwards progress to a client that asked for it, if it increased.
    async fn progress(&self, report: RenderedProgress) {
        let (progress, total) = amounts(&report);
        let Some(token) = &self.token else {
            return;
        };
        // What a mounted server counts is passed on as it is. A tool may say something new without a
        // step, and the protocol wants a larger number for it.
        let mounted = report.detail.get("progress").is_some();
        let on = self.ahead(|last| match last {
            Some(last) if progress <= last && !mounted => last + SIGN_OF_LIFE,
            Some(_) | None => progress,
        });
        let Some(progress) = on else {
            return;
        };
        let mut told = ProgressNotificationParam::new(token.clone(), progress);
        told.total = total;
        if !report.status.is_empty() {
            told.message = Some(report.status);
        }
        self.send(self.context.peer.notify_progress(told)).await;
    }

    async fn waits(&self, message: String) {
        let Some(token) = &self.token else {
            return;
        };
        let on = self.ahead(|last| last.map_or(0.0, |last| last + SIGN_OF_LIFE));
        if let Some(progress) = on {
            let mut told = ProgressNotificationParam::new(token.clone(), progress);
            told.message = Some(message);
            self.send(self.context.peer.notify_progress(told)).await;
        }
    }

    async fn log(&self, message: Value) {
        let message = CustomNotification::new("notifications/message", Some(message));
        let message = ServerNotification::CustomNotification(message);
        self.send(self.context.peer.send_notification(message))
            .await;
    }

    async fn ask(&self, question: UnansweredQuestion) -> Result<Value, AskError> {
        let peer = &self.context.peer;
        let request = CustomRequest::new(question.kind.method(), Some(question.parameters));
        let request = ServerRequest::CustomRequest(request);
        let options = PeerRequestOptions::with_timeout(ANSWER_WAIT);
        let sent = peer.send_request_with_option(request, options).await;
        let sent = sent.map_err(|error| refusal(&error))?;
        let standing = PendingElicitation {
            peer,
            id: Some(sent.id.clone()),
        };
        let answer = sent.await_response().await;
        standing.answered();
        let answer = answer.map_err(|error| refusal(&error))?;
        serde_json::to_value(answer).map_err(|error| AskError::Refused {
            code: -32603,
            message: error.to_string(),
        })
    }

    async fn gone(&self) {
        tokio::select! {
            () = self.context.ct.cancelled() => {}
            () = self.gone.cancelled() => {}
        }
    }
}

/// The progress and its total: as reported by a mounted server if the tool kept that, otherwise in
/// steps.
fn amounts(report: &RenderedProgress) -> (f64, Option<f64>) {
    let reported = |name: &str| report.detail.get(name).and_then(Value::as_f64);
    #[expect(clippy::cast_precision_loss, reason = "steps to show, far below 2^53")]
    let (step, total) = (report.step as f64, report.total.map(|total| total as f64));
    match reported("progress") {
        Some(progress) => (progress, reported("total")),
        None => (step, total),
    }
}

/// A question sent to the client. Dropping it unanswered withdraws it.
struct PendingElicitation<'a> {
    peer: &'a Peer<RoleServer>,
    id: Option<RequestId>,
}

impl PendingElicitation<'_> {
    fn answered(mut self) {
        self.id = None;
    }
}

impl Drop for PendingElicitation<'_> {
    fn drop(&mut self) {
        let (Some(id), Ok(handle)) = (self.id.take(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        let peer = self.peer.clone();
        handle.spawn(async move {
            let reason = Some("nobody waits for the answer any more".to_owned());
            let told = peer.notify_cancelled(CancelledNotificationParam::new(Some(id), reason));
            if let Err(error) = told.await {
                tracing::debug!(%error, "a question could not be withdrawn");
            }
        });
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
