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

use reqwest::{
    dns::{Addrs, Name, Resolve, Resolving},
    header::LOCATION,
    redirect::Policy,
};
use rmcp::transport::auth::{
    OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRequest,
};
use serde::Deserialize;
use url::Url;

use super::guard::{Guard, Refusal, refusal_in, shown};

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
    client: reqwest::Client,
    guard: Arc<Guard>,
    made: AtomicU32,
    seen: Mutex<Seen>,
    /// Who gave the last answer that was one.
    answered: Mutex<Option<Url>>,
}

/// What went wrong on the way, in types; the SDK would keep only words of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// What the guard refused last.
    pub(super) refusal: Option<Refusal>,
    /// Who could not be reached last.
    pub(super) unreachable: Option<String>,
    /// The code of the last error an authorization server answered with.
    pub(super) code: Option<String>,
}

/// An error as RFC 6749 has it. Its description is not kept: whoever writes it has seen the token.
#[derive(Deserialize)]
struct Answered {
    error: String,
}

impl Web {
    /// A client under a guard.
    pub(super) fn new(guard: Arc<Guard>) -> Result<Self, reqwest::Error> {
        let client = reqwest::Client::builder()
            .redirect(Policy::none())
            .referer(false)
            .no_proxy()
            .https_only(!guard.at_home())
            .timeout(REQUEST_WITHIN)
            .user_agent(concat!("haft/", env!("CARGO_PKG_VERSION")))
            .dns_resolver(Arc::new(Lookup(Arc::clone(&guard))))
            .build()?;
        Ok(Self {
            client,
            guard,
            made: AtomicU32::new(0),
            seen: Mutex::new(Seen::default()),
            answered: Mutex::new(None),
        })
    }

    /// What went wrong so far.
    pub(super) fn seen(&self) -> Seen {
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

    fn note(&self, note: impl FnOnce(&mut Seen)) {
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
        let request = reqwest::Request::try_from(request)?;
        let mut response = match self.client.execute(request).await {
            Ok(response) => response,
            Err(error) => {
                match refusal_in(&error) {
                    Some(refusal) => return Err(self.refuse(refusal)),
                    None => self.note(|seen| seen.unreachable = Some(shown(&url))),
                }
                return Err(Box::new(error.without_url()));
            }
        };
        let mut builder = http::Response::builder().status(response.status());
        if let Some(headers) = builder.headers_mut() {
            headers.clone_from(response.headers());
        }
        self.check_redirect(&url, &response)?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| {
            self.note(|seen| seen.unreachable = Some(shown(&url)));
            error.without_url()
        })? {
            if chunk.len() > MAX_BODY_BYTES.saturating_sub(body.len()) {
                return Err(self.refuse(Refusal::TooLarge {
                    host: shown(&url),
                    limit: MAX_BODY_BYTES,
                }));
            }
            body.extend_from_slice(&chunk);
        }
        if response.status().is_client_error() {
            self.note_code(&body);
        }
        if response.status().is_success() {
            let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
            *answered = Some(url);
        }
        Ok(builder.body(body)?)
    }

    /// The SDK follows redirects of discovery within one origin, each a request through here; all
    /// others end here, so that the reason has a type.
    fn check_redirect(
        &self,
        from: &Url,
        response: &reqwest::Response,
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
        let Ok(Answered { error }) = serde_json::from_slice(body) else {
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

/// The resolver under the client: what it returns was checked, and nothing else is connected to.
struct Lookup(Arc<Guard>);

impl Resolve for Lookup {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = Arc::clone(&self.0);
        Box::pin(async move {
            let addresses = guard.resolve(name.as_str()).await?;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}
