//! A session with a mounted server over any transport: both eras of the protocol, every request
//! with a deadline and cancellation, every list with a cap.
//!
//! We do not use the SDK's session: the SDK matches ids loosely, starts a task for every
//! notification, and drops unknown fields of definitions (ADR 0018).

mod ask;
mod definitions;
mod envelope;
mod headers;
mod listen;
mod negotiate;
pub(crate) mod notices;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use haft_contract::future::BoxFuture;
use serde_json::{Value, json};
use tokio::{sync::broadcast, time::Instant};
use tokio_util::sync::CancellationToken;

pub use self::envelope::ClientIntroduction;
pub(crate) use self::envelope::VERSION_HEADER;
pub(crate) use self::negotiate::{open_http, open_pipe};
use self::{
    ask::{CallQuestions, LogTrickle},
    envelope::RequestEnvelope,
    headers::ParameterHeaders,
    listen::SubscribedResources,
    negotiate::NegotiatedSession,
    notices::Notices,
};
use super::{
    connection::{
        Connection, Definitions, Progress, ProtocolEra, Request, RequestError, ServerChange,
    },
    limits::ROUNDS,
    wire::{
        Event, Outgoing, RequestPurpose, Wire,
        message::{self, Refusal},
    },
};
use crate::client::Client;

/// An open session. Dropping it ends it.
pub(crate) struct Session<W: Wire>(Arc<Inner<W>>);

struct Inner<W: Wire> {
    wire: W,
    agreed: NegotiatedSession,
    introduction: ClientIntroduction,
    ids: AtomicU64,
    notices: Arc<Notices>,
    headers: ParameterHeaders,
    subscribed: SubscribedResources,
    /// Fires when we end the session.
    ended: CancellationToken,
}

struct OutgoingRequest<'a> {
    method: &'a str,
    parameters: &'a Value,
    purpose: RequestPurpose,
    /// The deadline, and the timeout it came from.
    until: Option<(Instant, Duration)>,
    progress: Option<&'a (dyn Fn(Progress) + Send + Sync)>,
    client: Option<&'a Arc<dyn Client>>,
}

impl<W: Wire> Session<W> {
    fn start(
        wire: W,
        agreed: NegotiatedSession,
        introduction: &ClientIntroduction,
        notices: Arc<Notices>,
        ids: AtomicU64,
    ) -> Self {
        let inner = Arc::new(Inner {
            wire,
            agreed,
            introduction: introduction.clone(),
            ids,
            notices,
            headers: ParameterHeaders::default(),
            subscribed: SubscribedResources::default(),
            ended: CancellationToken::new(),
        });
        if inner.agreed.era == ProtocolEra::Modern {
            tokio::spawn(listen::listen(Arc::clone(&inner)));
        }
        Self(inner)
    }
}

impl<W: Wire> Inner<W> {
    fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends one request of our own and waits for its result.
    async fn own(
        &self,
        method: &str,
        parameters: &Value,
        until: (Instant, Duration),
        cancel: &CancellationToken,
    ) -> Result<Value, RequestError> {
        let sending = OutgoingRequest {
            method,
            parameters,
            purpose: RequestPurpose::Own,
            until: Some(until),
            progress: None,
            client: None,
        };
        self.exchange(sending, cancel).await
    }

    /// Sends a request and handles events until its answer, the deadline or a cancellation.
    async fn exchange(
        &self,
        sending: OutgoingRequest<'_>,
        cancel: &CancellationToken,
    ) -> Result<Value, RequestError> {
        let id = self.next_id();
        let outgoing = self.outgoing(id, &sending)?;
        let overdue = async {
            match sending.until {
                Some((until, _)) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let work = async {
            let mut exchange = self.wire.open(outgoing).await?;
            let mut asking = CallQuestions::new(sending.client);
            let mut logs = LogTrickle::new(sending.client);
            let mut so_far = f64::NEG_INFINITY;
            loop {
                match exchange.next().await? {
                    Event::Answer(answer) => return answer,
                    Event::Progress(progress) => {
                        // A report that does not increase is not progress.
                        if progress.progress > so_far
                            && let Some(report) = sending.progress
                        {
                            so_far = progress.progress;
                            report(progress);
                        }
                    }
                    Event::Log(message) => logs.pass(message),
                    Event::Asked {
                        id,
                        method,
                        parameters,
                    } => {
                        let answer = asking.answer(&method, parameters, cancel).await;
                        self.wire.send(message::answer(&id, answer)).await?;
                    }
                    Event::Notice { method, parameters } => self.notices.take(&method, &parameters),
                }
            }
        };
        let mut abandoned = AbandonGuard {
            of: self,
            id: Some(id),
        };
        let outcome = tokio::select! {
            biased;
            outcome = work => outcome,
            () = cancel.cancelled() => return Err(RequestError::Cancelled),
            () = self.ended.cancelled() => return Err(RequestError::Lost("it was closed".to_owned())),
            () = overdue => {
                let allowed = sending.until.map_or(Duration::ZERO, |(_, allowed)| allowed);
                return Err(RequestError::Slow(allowed));
            }
        };
        abandoned.id = None;
        outcome
    }

    fn outgoing(&self, id: u64, sending: &OutgoingRequest<'_>) -> Result<Outgoing, RequestError> {
        let dressed = RequestEnvelope::new(
            sending.parameters,
            id,
            &self.agreed,
            &self.introduction,
            sending.client,
        );
        let headers = if self.agreed.era == ProtocolEra::Modern && self.wire.has_headers() {
            let mut headers = self.headers.of(sending.method, sending.parameters);
            headers.extend(envelope::version_header(&self.agreed.version));
            headers
        } else {
            Vec::new()
        };
        Ok(Outgoing {
            id,
            purpose: sending.purpose,
            message: message::request(id, sending.method, &dressed)?,
            headers,
        })
    }

    /// Sends a call's request, answers the server's questions in between, and returns its result.
    async fn call(
        &self,
        request: Request,
        cancel: &CancellationToken,
    ) -> Result<Value, RequestError> {
        let until = (Instant::now() + request.deadline, request.deadline);
        let mut parameters = request.parameters;
        let mut asking = CallQuestions::new(request.client.as_ref());
        let mut rounds = 0;
        loop {
            let sending = OutgoingRequest {
                method: request.method,
                parameters: &parameters,
                purpose: RequestPurpose::Call,
                until: Some(until),
                progress: request.progress.as_deref(),
                client: request.client.as_ref(),
            };
            let result = match self.exchange(sending, cancel).await {
                // The server's schema changed since we read it. Whether the new one may be called
                // is not the session's decision.
                Err(RequestError::Answered { code, message, .. })
                    if code == envelope::HEADER_MISMATCH && request.method == "tools/call" =>
                {
                    return Err(RequestError::Outdated(message));
                }
                Err(RequestError::Answered {
                    code,
                    data,
                    message,
                }) if code == envelope::MISSING_CAPABILITY => {
                    asking.note_lacking(data.as_ref());
                    return Err(RequestError::Answered {
                        code,
                        message,
                        data,
                    });
                }
                result => result?,
            };
            if self.agreed.era == ProtocolEra::Legacy {
                return Ok(result);
            }
            match result.get("resultType").and_then(Value::as_str) {
                None | Some("complete") => return Ok(result),
                Some("input_required") if rounds < ROUNDS => rounds += 1,
                Some("input_required") => {
                    let why = format!("it asked more than {ROUNDS} times instead of answering");
                    return Err(RequestError::Protocol(why));
                }
                Some(_) => {
                    let why = "its result is of a type that was not agreed on".to_owned();
                    return Err(RequestError::Protocol(why));
                }
            }
            let answering = asking.round(&result, cancel);
            let responses = tokio::select! {
                biased;
                responses = answering => responses?,
                () = cancel.cancelled() => return Err(RequestError::Cancelled),
                () = tokio::time::sleep_until(until.0) => return Err(RequestError::Slow(until.1)),
            };
            let Some(object) = parameters.as_object_mut() else {
                let why = "the parameters of a request are an object".to_owned();
                return Err(RequestError::NotSent(why));
            };
            object.insert("inputResponses".to_owned(), responses);
            match result.get("requestState") {
                Some(state) => object.insert("requestState".to_owned(), state.clone()),
                None => object.remove("requestState"),
            };
        }
    }
}

impl<W: Wire> Connection for Session<W> {
    fn era(&self) -> ProtocolEra {
        self.0.agreed.era
    }

    fn definitions<'a>(
        &'a self,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Definitions, RequestError>> {
        Box::pin(self.0.fetch_definitions(cancel))
    }

    fn request<'a>(
        &'a self,
        request: Request,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Value, RequestError>> {
        Box::pin(async move {
            // The stateless era has one subscription for everything.
            let wanted = match request.method {
                "resources/subscribe" => true,
                "resources/unsubscribe" => false,
                _ => return self.0.call(request, cancel).await,
            };
            if self.0.agreed.era == ProtocolEra::Legacy {
                return self.0.call(request, cancel).await;
            }
            let uri = request.parameters.get("uri").and_then(Value::as_str);
            self.0.subscribed.set(uri.unwrap_or_default(), wanted)?;
            Ok(json!({}))
        })
    }

    fn under_way(&self) -> usize {
        self.0.wire.under_way()
    }

    fn changes(&self) -> broadcast::Receiver<ServerChange> {
        self.0.notices.subscribe()
    }

    fn closed(&self) -> BoxFuture<'_, String> {
        self.0.wire.closed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.0.ended.cancel();
            self.0.wire.close().await;
        })
    }
}

impl<W: Wire> Drop for Session<W> {
    fn drop(&mut self) {
        self.0.ended.cancel();
    }
}

/// Notifies the server when nobody waits for an answer any more, for whatever reason.
struct AbandonGuard<'a, W: Wire> {
    of: &'a Inner<W>,
    id: Option<u64>,
}

impl<W: Wire> Drop for AbandonGuard<'_, W> {
    fn drop(&mut self) {
        let Some(id) = self.id else {
            return;
        };
        if self.of.agreed.era == ProtocolEra::Modern && self.of.wire.closing_cancels() {
            return;
        }
        let parameters =
            json!({ "requestId": id, "reason": "nobody waits for the answer any more" });
        let cancelled = message::notification("notifications/cancelled", &parameters);
        self.of.wire.tell(cancelled);
    }
}

/// The answer to a server's request while no call is in flight.
pub(crate) fn unsolicited(method: &str) -> Result<Value, Refusal> {
    match method {
        "ping" => Ok(json!({})),
        _ => Err(Refusal::unknown(
            "no call is under way that this belongs to",
        )),
    }
}
