//! The only HTTP client: everything it connects to went through the admission.
//!
//! Each request is first checked by its URL. The admission looks up the host, and the connection
//! goes to exactly the addresses that were checked. No redirect leaves an origin, no proxy of the
//! machine is used, every body is read up to the caller's cap, and no error repeats a URL, which
//! may contain secrets.

use std::{
    collections::BTreeMap,
    error::Error,
    fmt,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use haft_contract::egress::{Host, Resolve};
use http::{HeaderMap, Method, StatusCode};
use reqwest::{
    dns::{Addrs, Name, Resolving},
    redirect::{Action, Attempt, Policy},
};
use url::Url;

use crate::{
    admission::{Admission, AdmissionScope, ConnectError},
    denial::Denial,
};

/// The most origins to which one client keeps connections open.
const MAX_ORIGINS: usize = 16;

/// How long a connection without a request is kept open. Servers written in Node close it after five
/// seconds, and a request that is sent in that moment is lost: it cannot be known whether it arrived.
const KEPT_OPEN: Duration = Duration::from_secs(3);

/// How requests are made.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// The `User-Agent` header.
    pub user_agent: String,
    /// How long connecting may take.
    pub connect_within: Duration,
    /// How long a request may take in total, from the first byte sent to the last received. `None`
    /// for answers that stay open, which their reader limits.
    pub request_within: Option<Duration>,
    /// Which redirects are followed.
    pub redirects: Redirects,
}

/// Which redirects a client follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redirects {
    /// None: the redirect itself is the answer.
    None,
    /// Those that send the same request to the same origin, up to this many.
    SameOrigin(usize),
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            user_agent: concat!("haft/", env!("CARGO_PKG_VERSION")).to_owned(),
            connect_within: Duration::from_secs(10),
            request_within: Some(Duration::from_secs(30)),
            redirects: Redirects::None,
        }
    }
}

/// Makes requests to what its admission allows.
pub struct HttpClient {
    admission: Arc<Admission>,
    options: ClientOptions,
    /// One for each origin, because a lookup must know the port it is for; and for each set of denied
    /// addresses, because a connection that is kept open was checked for those of its own request.
    origins: Mutex<BTreeMap<OriginKey, reqwest::Client>>,
}

/// An origin and the addresses that are denied.
type OriginKey = (String, Arc<[IpAddr]>);

/// One HTTP request, with its whole body.
#[derive(Debug, Clone)]
pub struct HttpRequest {
    /// The method.
    pub method: Method,
    /// Where it goes.
    pub url: Url,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// The head of an answer, and its body as it arrives.
#[derive(Debug)]
pub struct HttpResponse(reqwest::Response);

/// Why there is no answer, or only part of it. Contains no URL, only the host of a denial.
#[derive(Debug)]
#[non_exhaustive]
pub enum HttpError {
    /// The URL is not one that a request can go to.
    Address(&'static str),
    /// It is not allowed.
    Denied(Denial),
    /// The request did not reach the host.
    NotSent(String),
    /// It may have reached the host, but no complete answer came back.
    Lost(String),
    /// The answer is larger than this limit, in bytes.
    TooLarge(usize),
    /// The answer begins with more headers, or longer ones, than are read.
    TooManyHeaders,
}

impl HttpClient {
    /// A client that reaches only one URL that the operator configured.
    pub fn for_endpoint(
        url: &Url,
        resolver: Arc<dyn Resolve>,
        options: ClientOptions,
    ) -> Result<Self, HttpError> {
        let (host, port) = host_and_port(url)?;
        let reach = AdmissionScope::Endpoint { host, port };
        let admission = Admission::new(reach, resolver, options.connect_within);
        Ok(Self::new(Arc::new(admission), options))
    }

    /// A client under an admission.
    pub fn new(admission: Arc<Admission>, options: ClientOptions) -> Self {
        Self {
            admission,
            options,
            origins: Mutex::default(),
        }
    }

    /// Makes a request. Returns once the head of the answer has arrived.
    pub async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        self.send_unless(Arc::default(), request).await
    }

    /// Makes a request, unless that leads to one of these addresses.
    pub(crate) async fn send_unless(
        &self,
        denied: Arc<[IpAddr]>,
        request: HttpRequest,
    ) -> Result<HttpResponse, HttpError> {
        let (host, port) = host_and_port(&request.url)?;
        let admission = self.admission.without(Arc::clone(&denied));
        admission.judge(&host, port)?;
        let client = self.of_origin(&request.url, denied, admission, host, port)?;
        let sent = client
            .request(request.method, request.url)
            .headers(request.headers)
            .body(request.body)
            .send()
            .await;
        sent.map(HttpResponse).map_err(HttpError::of)
    }

    /// The client for an origin; connections to it are kept open.
    fn of_origin(
        &self,
        url: &Url,
        denied: Arc<[IpAddr]>,
        admission: Admission,
        host: Host,
        port: u16,
    ) -> Result<reqwest::Client, HttpError> {
        let origin = (url.origin().ascii_serialization(), denied);
        let mut origins = self.origins.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = origins.get(&origin) {
            return Ok(client.clone());
        }
        let mut builder = reqwest::Client::builder()
            .user_agent(self.options.user_agent.as_str())
            .no_proxy()
            // Whatever else in the program asks of the same library.
            .http1_only()
            .referer(false)
            .connect_timeout(self.options.connect_within)
            .pool_idle_timeout(KEPT_OPEN)
            // A request of which anything was sent may have been seen: whether to send it again is for
            // whoever made it. Below, one is sent anew only if its kept connection took none of it.
            .retry(reqwest::retry::never())
            .redirect(match self.options.redirects {
                Redirects::None => Policy::none(),
                Redirects::SameOrigin(most) => {
                    Policy::custom(move |attempt| within_origin(attempt, most))
                }
            })
            .dns_resolver(Arc::new(AdmittedLookup {
                admission: Arc::new(admission),
                host,
                port,
            }));
        if let Some(limit) = self.options.request_within {
            builder = builder.timeout(limit);
        }
        let client = builder.build().map_err(HttpError::of)?;
        if origins.len() >= MAX_ORIGINS {
            origins.clear();
        }
        origins.insert(origin, client.clone());
        Ok(client)
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient")
            .field("admission", &self.admission)
            .finish_non_exhaustive()
    }
}

impl HttpRequest {
    /// A request without headers and body.
    pub fn new(method: Method, url: Url) -> Self {
        Self {
            method,
            url,
            headers: HeaderMap::new(),
            body: Bytes::new(),
        }
    }
}

impl HttpResponse {
    /// The status.
    pub fn status(&self) -> StatusCode {
        self.0.status()
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        self.0.headers()
    }

    /// The next bytes of the body; `None` at its end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, HttpError> {
        self.0.chunk().await.map_err(HttpError::lost)
    }

    /// The rest of the body, if it is no larger than this.
    pub async fn body(&mut self, limit: usize) -> Result<Vec<u8>, HttpError> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if chunk.len() > limit.saturating_sub(body.len()) {
                return Err(HttpError::TooLarge(limit));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

impl HttpError {
    fn of(error: reqwest::Error) -> Self {
        if let Some(denial) = denial_in(&error) {
            return Self::Denied(denial);
        }
        if begins_with_too_much(&error) {
            return Self::TooManyHeaders;
        }
        let before = error.is_connect() || error.is_builder();
        let words = with_causes(error);
        if before {
            Self::NotSent(words)
        } else {
            Self::Lost(words)
        }
    }

    fn lost(error: reqwest::Error) -> Self {
        Self::Lost(with_causes(error))
    }
}

impl From<Denial> for HttpError {
    fn from(denial: Denial) -> Self {
        Self::Denied(denial)
    }
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(why) => f.write_str(why),
            Self::Denied(denial) => denial.fmt(f),
            Self::NotSent(why) | Self::Lost(why) => f.write_str(why),
            Self::TooLarge(limit) => write!(f, "the answer is larger than {limit} bytes"),
            Self::TooManyHeaders => {
                f.write_str("the answer has too many headers, or too long ones")
            }
        }
    }
}

impl Error for HttpError {}

/// The host and the port of a URL that a request can go to.
pub fn host_and_port(url: &Url) -> Result<(Host, u16), HttpError> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(HttpError::Address("it is neither `http` nor `https`"));
    }
    let host = Host::parse(url.host_str().unwrap_or_default())
        .map_err(|_| HttpError::Address("it does not name a host that can be reached"))?;
    let port = url.port_or_known_default();
    let port = port.ok_or(HttpError::Address("it does not name a port"))?;
    Ok((host, port))
}

/// The resolver under the client of one origin: it returns only checked addresses, and nothing else
/// is connected to.
struct AdmittedLookup {
    admission: Arc<Admission>,
    host: Host,
    port: u16,
}

impl reqwest::dns::Resolve for AdmittedLookup {
    fn resolve(&self, name: Name) -> Resolving {
        let (admission, host, port) = (Arc::clone(&self.admission), self.host.clone(), self.port);
        Box::pin(async move {
            if Host::parse(name.as_str()).ok().as_ref() != Some(&host) {
                return Err("the name differs from the host of the request".into());
            }
            match admission.resolve(&host, port).await {
                Ok(addresses) => Ok(Box::new(addresses.into_iter()) as Addrs),
                Err(ConnectError::Denied(denial)) => Err(Box::new(denial) as _),
                Err(ConnectError::Unreachable(error)) => Err(Box::new(error) as _),
            }
        })
    }
}

/// Follows a redirect only if the same request goes to the same server.
fn within_origin(attempt: Attempt<'_>, most: usize) -> Action {
    let same_request = matches!(attempt.status().as_u16(), 307 | 308);
    let same_server = attempt
        .previous()
        .first()
        .is_some_and(|first| first.origin() == attempt.url().origin());
    if same_request && same_server && attempt.previous().len() <= most {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

/// The denial among an error's causes, however deep.
fn denial_in(error: &(dyn Error + 'static)) -> Option<Denial> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(denial) = error.downcast_ref::<Denial>() {
            return Some(denial.clone());
        }
        cause = error.source();
    }
    None
}

/// Whether the library gave up reading the head of an answer: it reads 100 headers and 400 KiB. It says so
/// in words only.
fn begins_with_too_much(error: &(dyn Error + 'static)) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        if error.to_string() == "message head is too large" {
            return true;
        }
        cause = error.source();
    }
    false
}

/// An error with its causes but without the URL, which may contain secrets.
fn with_causes(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words = format!("{words}: {error}");
        cause = error.source();
    }
    words
}
