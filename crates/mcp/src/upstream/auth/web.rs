//! The HTTP client under the SDK's OAuth: every request is judged by the guard, connects to an address
//! that was checked, follows no redirect by itself, and has a cap and a deadline. One is made for one
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

/// The largest answer that is taken, in bytes. Metadata and tokens are a few kilobytes.
pub(super) const MAX_BODY_BYTES: usize = 256 * 1024;

/// The most requests of one login or refresh. An honest one needs about ten.
pub(super) const MAX_REQUESTS: u32 = 40;

/// How long one request may take, from the first byte sent to the last received.
const REQUEST_WITHIN: Duration = Duration::from_secs(20);

/// The longest code of an error that is kept (RFC 6749 has none above 30).
const MAX_CODE_CHARS: usize = 64;

/// A client for one login or refresh.
pub(super) struct Web {
    client: HttpClient,
    guard: Arc<Guard>,
    made: AtomicU32,
    seen: Mutex<SeenFaults>,
    /// Who gave the last answer that was one.
    answered: Mutex<Option<Url>>,
}

/// What went wrong on the way, in types; the SDK would keep only words of it.
#[derive(Debug, Clone, Default)]
pub(super) struct SeenFaults {
    /// What the guard refused last.
    pub(super) refusal: Option<Refusal>,
    /// Who could not be reached last.
    pub(super) unreachable: Option<String>,
    /// The code of the last error an authorization server answered with.
    pub(super) code: Option<String>,
}

/// An error as RFC 6749 has it. Its description is not kept: whoever writes it has seen the token.
#[derive(Deserialize)]
struct OauthErrorBody {
    error: String,
}

impl Web {
    /// A client under a guard.
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

    /// What went wrong so far.
    pub(super) fn seen(&self) -> SeenFaults {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Where the last answer came from that was one.
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

    /// The SDK follows redirects of discovery within one origin, each a request through here; all
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
