//! One request over HTTP: its answer arrives whole, or at the end of an event stream.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use haft_contract::future::BoxFuture;
use haft_egress::HttpResponse;
use http::{StatusCode, header};

use super::{
    deliver::{Address, failed, whole},
    server_questions::{QuestionSlot, ServerRequest},
    sse::{self, Decoder, EventError},
};
use crate::upstream::{
    connection::{ProtocolEra, RequestError},
    limits::{MESSAGE_BYTES, RESUMPTIONS},
    wire::{
        self, Event, Exchange,
        message::{self, Incoming},
    },
};

/// The wait before a broken stream is resumed, if the server names none.
const DEFAULT_RETRY: Duration = Duration::from_secs(1);

pub(super) struct Events {
    response: Option<HttpResponse>,
    decoder: Decoder,
    waiting: VecDeque<sse::Event>,
    /// The id of the last event, if the stream can be resumed after it.
    last: Option<String>,
    retry: Duration,
}

impl Events {
    pub(super) fn new(response: HttpResponse) -> Self {
        Self {
            response: Some(response),
            decoder: Decoder::default(),
            waiting: VecDeque::new(),
            last: None,
            retry: DEFAULT_RETRY,
        }
    }

    /// The data of the next event that has any; none at the end of the stream.
    pub(super) async fn next(&mut self) -> Result<Option<String>, RequestError> {
        loop {
            while let Some(event) = self.waiting.pop_front() {
                if event.id.is_some() {
                    self.last = event.id;
                }
                self.retry = event.retry.unwrap_or(self.retry);
                if !event.data.is_empty() {
                    return Ok(Some(event.data));
                }
            }
            let Some(response) = &mut self.response else {
                return Ok(None);
            };
            match response.chunk().await.map_err(failed)? {
                Some(chunk) => self
                    .decoder
                    .push(&chunk, &mut self.waiting)
                    .map_err(unreadable)?,
                None => self.response = None,
            }
        }
    }
}

fn unreadable(what: EventError) -> RequestError {
    RequestError::Protocol(match what {
        EventError::TooLarge => format!("it sent an event of more than {MESSAGE_BYTES} bytes"),
        EventError::NotText => "it sent an event that is not UTF-8".to_owned(),
    })
}

pub(super) struct HttpExchange {
    id: u64,
    answering: StreamedAnswer,
    /// Where a call receives the server's questions from outside its own answer.
    place: Option<QuestionSlot>,
}

/// The answer as it arrives.
struct StreamedAnswer {
    address: Arc<Address>,
    body: Body,
    /// How often the stream was resumed since the last data.
    resumed: usize,
}

enum ExchangeEvent {
    Text(String),
    Asked(ServerRequest),
}

enum Body {
    /// The answer is one body.
    Whole(Option<HttpResponse>),
    /// The answer arrives at the end of a stream.
    Stream(Events),
}

impl HttpExchange {
    /// Inspects the response head.
    pub(super) async fn new(
        id: u64,
        address: Arc<Address>,
        place: Option<QuestionSlot>,
        response: HttpResponse,
    ) -> Result<Self, RequestError> {
        if !response.status().is_success() {
            return Err(address.failure(response).await);
        }
        address.note_session(&response);
        let body = if is_stream(&response) {
            Body::Stream(Events::new(response))
        } else if response.status() == StatusCode::ACCEPTED {
            let why = "it took a request for a notification".to_owned();
            return Err(RequestError::Protocol(why));
        } else {
            Body::Whole(Some(response))
        };
        let answering = StreamedAnswer {
            address,
            body,
            resumed: 0,
        };
        Ok(Self {
            id,
            answering,
            place,
        })
    }

    /// The next event, from the answer or alongside it.
    async fn heard(&mut self) -> Result<ExchangeEvent, RequestError> {
        // A whole body cannot be resumed once its read was dropped.
        let streamed = matches!(self.answering.body, Body::Stream(_));
        let Some(place) = self.place.as_mut().filter(|_| streamed) else {
            return self.answering.text().await.map(ExchangeEvent::Text);
        };
        tokio::select! {
            biased;
            asked = place.next() => Ok(ExchangeEvent::Asked(asked)),
            text = self.answering.text() => text.map(ExchangeEvent::Text),
        }
    }
}

impl StreamedAnswer {
    async fn text(&mut self) -> Result<String, RequestError> {
        loop {
            let events = match &mut self.body {
                Body::Whole(response) => {
                    return match response.take() {
                        Some(response) => whole(response).await,
                        None => Err(unanswered()),
                    };
                }
                Body::Stream(events) => events,
            };
            match events.next().await {
                Ok(Some(data)) => {
                    self.resumed = 0;
                    return Ok(data);
                }
                Ok(None) => self.resume(unanswered()).await?,
                Err(error @ RequestError::Lost(_)) => self.resume(error).await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Resumes a broken stream, if the older era allows it.
    async fn resume(&mut self, broken: RequestError) -> Result<(), RequestError> {
        let Body::Stream(events) = &mut self.body else {
            return Err(broken);
        };
        let resumable =
            self.address.era() == Some(ProtocolEra::Legacy) && self.resumed < RESUMPTIONS;
        let Some(last) = events.last.clone().filter(|_| resumable) else {
            return Err(broken);
        };
        self.resumed += 1;
        tokio::time::sleep(events.retry).await;
        let response = self
            .address
            .get(Some(&last))
            .await
            .map_err(|_| broken.clone())?;
        if !response.status().is_success() || !is_stream(&response) {
            return Err(broken);
        }
        events.response = Some(response);
        events.decoder = Decoder::default();
        Ok(())
    }
}

fn unanswered() -> RequestError {
    RequestError::Lost("the answer broke off".to_owned())
}

pub(super) fn is_stream(response: &HttpResponse) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE);
    kind.and_then(|kind| kind.to_str().ok())
        .is_some_and(|kind| kind.trim_start().starts_with("text/event-stream"))
}

impl Exchange for HttpExchange {
    fn next(&mut self) -> BoxFuture<'_, Result<Event, RequestError>> {
        Box::pin(async move {
            loop {
                let text = match self.heard().await? {
                    ExchangeEvent::Text(text) => text,
                    ExchangeEvent::Asked((id, method, parameters)) => {
                        return Ok(Event::Asked {
                            id,
                            method,
                            parameters,
                        });
                    }
                };
                let incoming = message::read(&text)
                    .map_err(|fault| RequestError::Protocol(format!("in its answer, {fault}")))?;
                match incoming {
                    Incoming::Answer { id, answer } if id == self.id => {
                        return Ok(Event::Answer(answer.parse()));
                    }
                    Incoming::Answer { .. } => self.answering.address.dropped.unknown_answer(),
                    Incoming::Notice { method, parameters } => match method.as_str() {
                        "notifications/progress" => match wire::progress(&parameters, self.id) {
                            Some(progress) => return Ok(Event::Progress(progress)),
                            None => self.answering.address.dropped.broken(),
                        },
                        "notifications/message" => return Ok(Event::Log(parameters)),
                        _ => return Ok(Event::Notice { method, parameters }),
                    },
                    // In the stateless era servers send no requests.
                    Incoming::Asked { .. }
                        if self.answering.address.era() == Some(ProtocolEra::Modern) =>
                    {
                        self.answering.address.dropped.broken();
                    }
                    Incoming::Asked {
                        id,
                        method,
                        parameters,
                    } => {
                        return Ok(Event::Asked {
                            id,
                            method,
                            parameters,
                        });
                    }
                }
            }
        })
    }
}
