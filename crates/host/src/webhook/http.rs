//! The HTTP requests of a webhook: signed, bounded in time and size, never redirected, and only
//! over TLS except to this machine.

use std::{sync::Arc, time::Duration};

use haft_contract::host::Clock;
use haft_egress::{
    ClientOptions, HttpClient, HttpRequest, HttpResponse, Redirects, SystemResolver, host_and_port,
    is_this_machine,
};
use http::{HeaderValue, Method, StatusCode};
use serde::de::DeserializeOwned;
use url::Url;

use super::{WebhookError, WebhookKey, sign::Direction};

/// How long connecting may take.
const CONNECT_WAIT: Duration = Duration::from_secs(10);
/// How long one request may take in total.
const REQUEST_WAIT: Duration = Duration::from_secs(30);
/// The largest answer that is read.
const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// How far the clocks of both sides may differ, and how old an answer may be.
const MAX_SKEW_SECONDS: u64 = 300;

const TIMESTAMP: &str = "haft-timestamp";
const SIGNATURE: &str = "haft-signature";

/// The client for one service.
pub(super) struct Http {
    client: HttpClient,
    url: Url,
    key: WebhookKey,
    clock: Arc<dyn Clock>,
}

/// A service's reply.
pub(super) enum Reply<T> {
    /// Nobody has answered yet.
    Pending,
    /// Somebody has answered.
    Answer(T),
}

impl Http {
    pub(super) fn new(
        url: &str,
        key: WebhookKey,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, WebhookError> {
        let parsed = Url::parse(url).map_err(|error| WebhookError::Url {
            url: url.to_owned(),
            why: error.to_string(),
        })?;
        check(&parsed)?;
        let options = ClientOptions {
            connect_within: CONNECT_WAIT,
            request_within: Some(REQUEST_WAIT),
            redirects: Redirects::None,
            ..ClientOptions::default()
        };
        let resolver = Arc::new(SystemResolver::default());
        let client = HttpClient::for_endpoint(&parsed, resolver, options)
            .map_err(|error| WebhookError::SetUp(error.to_string()))?;
        Ok(Self {
            client,
            url: parsed,
            key,
            clock,
        })
    }

    /// Posts a question.
    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        id: &str,
        body: &[u8],
    ) -> Result<Reply<T>, String> {
        let mut request = HttpRequest::new(Method::POST, self.url.clone());
        let json = HeaderValue::from_static("application/json");
        request.headers.insert("content-type", json);
        request.body = body.to_vec().into();
        self.send(request, id).await
    }

    /// Asks whether a question has been answered.
    pub(super) async fn look<T: DeserializeOwned>(&self, id: &str) -> Result<Reply<T>, String> {
        let mut url = self.url.clone();
        let path = format!("{}/{id}", url.path().trim_end_matches('/'));
        url.set_path(&path);
        self.send(HttpRequest::new(Method::GET, url), id).await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        mut request: HttpRequest,
        id: &str,
    ) -> Result<Reply<T>, String> {
        let now = self.seconds();
        let signature = self.key.sign(Direction::Question, now, id, &request.body);
        let signature = HeaderValue::from_str(&signature).map_err(|error| error.to_string())?;
        request.headers.insert(TIMESTAMP, now.into());
        request.headers.insert(SIGNATURE, signature);
        let sent = self.client.send(request).await;
        let response = sent.map_err(|error| error.to_string())?;
        match response.status() {
            StatusCode::ACCEPTED => Ok(Reply::Pending),
            StatusCode::OK => self.read(response, id).await.map(Reply::Answer),
            other => Err(format!("it answered with status {}", other.as_u16())),
        }
    }

    async fn read<T: DeserializeOwned>(
        &self,
        mut response: HttpResponse,
        id: &str,
    ) -> Result<T, String> {
        let header = |name: &str| {
            let value = response.headers().get(name)?;
            value.to_str().ok().map(str::to_owned)
        };
        let seconds: i64 = header(TIMESTAMP)
            .and_then(|text| text.parse().ok())
            .ok_or("the answer does not say when it was given")?;
        let signature = header(SIGNATURE).ok_or("the answer is not signed")?;
        let body = response.body(MAX_ANSWER_BYTES).await;
        let body = body.map_err(|error| error.to_string())?;
        if !self
            .key
            .verifies(Direction::Answer, seconds, id, &body, &signature)
        {
            return Err("the answer is not signed with the key of this webhook".to_owned());
        }
        if self.seconds().abs_diff(seconds) > MAX_SKEW_SECONDS {
            return Err("the answer is old, or the clocks are far apart".to_owned());
        }
        serde_json::from_slice(&body).map_err(|error| format!("the answer cannot be read: {error}"))
    }

    fn seconds(&self) -> i64 {
        self.clock.now().0.div_euclid(1_000_000)
    }
}

/// Checks that questions travel over TLS or stay on this machine.
fn check(url: &Url) -> Result<(), WebhookError> {
    let refuse = |why: &str| WebhookError::Url {
        url: url.to_string(),
        why: why.to_owned(),
    };
    if url.host_str().is_none() {
        return Err(refuse("it does not name a host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refuse("it contains a password; the key signs what is sent"));
    }
    let local = host_and_port(url).is_ok_and(|(host, _)| is_this_machine(&host));
    match url.scheme() {
        "https" => Ok(()),
        "http" if local => Ok(()),
        "http" => Err(WebhookError::NotSecret(url.to_string())),
        _ => Err(refuse("it is neither `https` nor `http`")),
    }
}
