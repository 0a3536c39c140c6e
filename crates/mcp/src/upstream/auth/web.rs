//! The HTTP client under the SDK's OAuth. Every request passes the guard, connects to a checked
//! address, follows no redirect by itself, and has a size cap and a deadline. One client serves one
//! login or refresh and makes a bounded number of requests.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use haft_egress::{ClientOptions, HttpClient, HttpError, HttpRequest, HttpResponse, Redirects};
use http::header::LOCATION;
use rmcp::transport::auth::{
    OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRequest,
};
use serde::Deserialize;
use url::Url;

use super::guard::{Guard, Refusal, shown};

/// The largest accepted answer, in bytes. Metadata and tokens are a few kilobytes.
pub(super) const MAX_BODY_BYTES: usize = 256 * 1024;

/// The most requests in one login or refresh. An honest one needs about ten.
pub(super) const MAX_REQUESTS: u32 = 40;

/// How long one request may take, from the first byte sent to the last received.
const REQUEST_WITHIN: Duration = Duration::from_secs(20);

/// The longest error code that is kept (RFC 6749 has none above 30).
const MAX_CODE_CHARS: usize = 64;

/// The HTTP client of one login or refresh.
pub(super) struct Web {
    client: HttpClient,
    guard: Arc<Guard>,
    made: AtomicU32,
    seen: Mutex<SeenFaults>,
    /// Where the last successful answer came from.
    answered: Mutex<Option<Url>>,
}

/// What went wrong on the way, typed; the SDK would keep only text.
#[derive(Debug, Clone, Default)]
pub(super) struct SeenFaults {
    /// The guard's last refusal.
    pub(super) refusal: Option<Refusal>,
    /// The last host that could not be reached.
    pub(super) unreachable: Option<String>,
    /// The last error code from an authorization server.
    pub(super) code: Option<String>,
}

/// An error as RFC 6749 defines it. Its description is not kept: its author has seen the token.
#[derive(Deserialize)]
struct OauthErrorBody {
    error: String,
}

impl Web {
    pub(super) fn new(guard: Arc<Guard>) -> Self {
        let options = ClientOptions {
            request_within: Some(REQUEST_WITHIN),
            redirects: Redirects::None,
            ..ClientOptions::default()
        };
        Self {
            client: HttpClient::new(guard.admission(), options),
            guard,
            made: AtomicU32::new(0),
            seen: Mutex::new(SeenFaults::default()),
            answered: Mutex::new(None),
        }
    }

    /// What has gone wrong so far.
    pub(super) fn seen(&self) -> SeenFaults {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Where the last successful answer came from.
    pub(super) fn answered_last(&self) -> Option<Url> {
        let answered = self.answered.lock();
        answered.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, note: impl FnOnce(&mut SeenFaults)) {
        note(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn refuse(&self, refusal: Refusal) -> OAuthHttpClientError {
        self.note(|seen| seen.refusal = Some(refusal.clone()));
        Box::new(refusal)
    }

    async fn send(
        &self,
        request: http::Request<Vec<u8>>,
    ) -> Result<http::Response<Vec<u8>>, OAuthHttpClientError> {
        let url = Url::parse(&request.uri().to_string())?;
        if self.made.fetch_add(1, Ordering::Relaxed) >= MAX_REQUESTS {
            return Err(self.refuse(Refusal::TooManyRequests(MAX_REQUESTS)));
        }
        self.guard.admit(&url).map_err(|why| self.refuse(why))?;
        let (head, body) = request.into_parts();
        let request = HttpRequest {
            method: head.method,
            url: url.clone(),
            headers: head.headers,
            body: body.into(),
        };
        let sent = self.client.send(request).await;
        let mut response = sent.map_err(|error| self.failed(&url, error))?;
        let mut builder = http::Response::builder().status(response.status());
        if let Some(headers) = builder.headers_mut() {
            headers.clone_from(response.headers());
        }
        self.check_redirect(&url, &response)?;
        let body = response.body(MAX_BODY_BYTES).await;
        let body = body.map_err(|error| self.failed(&url, error))?;
        if response.status().is_client_error() {
            self.note_code(&body);
        }
        if response.status().is_success() {
            let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
            *answered = Some(url);
        }
        Ok(builder.body(body)?)
    }

    fn failed(&self, url: &Url, error: HttpError) -> OAuthHttpClientError {
        match error {
            HttpError::Denied(denial) => self.refuse(denial.into()),
            HttpError::TooLarge(limit) => self.refuse(Refusal::TooLarge {
                host: shown(url),
                limit,
            }),
            other => {
                self.note(|seen| seen.unreachable = Some(shown(url)));
                Box::new(other)
            }
        }
    }

    /// The SDK follows discovery redirects within one origin, each as a request through here; all
    /// others end here, so that the reason has a type.
    fn check_redirect(
        &self,
        from: &Url,
        response: &HttpResponse,
    ) -> Result<(), OAuthHttpClientError> {
        if !response.status().is_redirection() {
            return Ok(());
        }
        let Some(location) = response.headers().get(LOCATION) else {
            return Ok(());
        };
        let to = location.to_str().ok().and_then(|to| from.join(to).ok());
        if to.as_ref().is_some_and(|to| to.origin() == from.origin()) {
            return Ok(());
        }
        let to = to.map_or_else(|| "?".to_owned(), |to| shown(&to));
        let from = shown(from);
        Err(self.refuse(Refusal::Redirect { from, to }))
    }

    fn note_code(&self, body: &[u8]) {
        let Ok(OauthErrorBody { error }) = serde_json::from_slice(body) else {
            return;
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if error.len() <= MAX_CODE_CHARS && !error.is_empty() && error.chars().all(plain) {
            self.note(|seen| seen.code = Some(error));
        }
    }
}

impl OAuthHttpClient for Web {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(self.send(request.request))
    }
}
