//! The requests of a webhook: signed, bounded in time and size, never redirected, and only over TLS
//! except to this machine.

use std::{net::IpAddr, sync::Arc, time::Duration};

use haft_contract::host::{ApprovalId, Clock};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url, redirect};

use super::{WebhookError, WebhookKey, sign::Direction, wire::Answer};

/// How long a connection may take to come about.
const CONNECT_WAIT: Duration = Duration::from_secs(10);
/// How long one request may take in all.
const REQUEST_WAIT: Duration = Duration::from_secs(30);
/// The largest answer that is read.
const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// How far the clocks of both sides may be apart, and how old an answer may be.
const MAX_SKEW_SECONDS: u64 = 300;

const TIMESTAMP: &str = "haft-timestamp";
const SIGNATURE: &str = "haft-signature";

/// A service at an address.
pub(super) struct Http {
    client: Client,
    url: Url,
    key: WebhookKey,
    clock: Arc<dyn Clock>,
}

/// What a service said.
pub(super) enum Reply {
    /// Nobody has answered yet.
    Pending,
    /// Somebody has.
    Answer(Answer),
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
        let client = Client::builder()
            .redirect(redirect::Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT_WAIT)
            .timeout(REQUEST_WAIT)
            .build()
            .map_err(|error| WebhookError::SetUp(error.to_string()))?;
        Ok(Self {
            client,
            url: parsed,
            key,
            clock,
        })
    }

    /// Hands a question over.
    pub(super) async fn post(&self, id: ApprovalId, body: &[u8]) -> Result<Reply, String> {
        let request = self
            .client
            .post(self.url.clone())
            .header("content-type", "application/json")
            .body(body.to_vec());
        self.send(request, id, body).await
    }

    /// Asks whether a question has been answered.
    pub(super) async fn look(&self, id: ApprovalId) -> Result<Reply, String> {
        let mut url = self.url.clone();
        let path = format!("{}/{id}", url.path().trim_end_matches('/'));
        url.set_path(&path);
        self.send(self.client.get(url), id, b"").await
    }

    async fn send(
        &self,
        request: RequestBuilder,
        id: ApprovalId,
        body: &[u8],
    ) -> Result<Reply, String> {
        let now = self.seconds();
        let signature = self.key.sign(Direction::Question, now, id, body);
        let request = request.header(TIMESTAMP, now).header(SIGNATURE, signature);
        // The address is the operator's and may hold a token; it is no part of what is logged.
        let response = request
            .send()
            .await
            .map_err(|error| error.without_url().to_string())?;
        match response.status() {
            StatusCode::ACCEPTED => Ok(Reply::Pending),
            StatusCode::OK => self.read(response, id).await.map(Reply::Answer),
            other => Err(format!("it answered with status {}", other.as_u16())),
        }
    }

    async fn read(&self, mut response: Response, id: ApprovalId) -> Result<Answer, String> {
        let header = |name: &str| {
            let value = response.headers().get(name)?;
            value.to_str().ok().map(str::to_owned)
        };
        let seconds: i64 = header(TIMESTAMP)
            .and_then(|text| text.parse().ok())
            .ok_or("the answer does not say when it was given")?;
        let signature = header(SIGNATURE).ok_or("the answer is not signed")?;
        let mut body = Vec::new();
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| error.without_url().to_string())?
        {
            if body.len() + chunk.len() > MAX_ANSWER_BYTES {
                return Err(format!(
                    "the answer is larger than {MAX_ANSWER_BYTES} bytes"
                ));
            }
            body.extend_from_slice(&chunk);
        }
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

/// Questions travel over TLS, or stay on this machine.
fn check(url: &Url) -> Result<(), WebhookError> {
    let refuse = |why: &str| WebhookError::Url {
        url: url.to_string(),
        why: why.to_owned(),
    };
    let Some(host) = url.host_str() else {
        return Err(refuse("it names no host"));
    };
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refuse("it holds a password; the key signs what is sent"));
    }
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let local = host == "localhost"
        || bare
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback());
    match url.scheme() {
        "https" => Ok(()),
        "http" if local => Ok(()),
        "http" => Err(WebhookError::NotSecret(url.to_string())),
        _ => Err(refuse("it is neither `https` nor `http`")),
    }
}
