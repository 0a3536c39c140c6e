//! The person who logs in. They are shown a page, and its redirect comes back: through a loopback
//! listener on this machine, or by pasting the address elsewhere.

use std::{
    convert::Infallible,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use haft_contract::future::BoxFuture;
use haft_egress::{ClientOptions, HttpClient, HttpRequest, SystemResolver};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::TcpListener,
    sync::{Semaphore, mpsc},
    time::timeout,
};
use url::Url;

use super::{fault::LoginError, guard::shown};

/// How long a person may take to log in.
pub const VISIT_WITHIN: Duration = Duration::from_mins(5);

/// The path of the listener that the page redirects to.
const BACK: &str = "/callback";

/// The most connections to the listener at a time. A browser opens a few in advance.
const MAX_CONNECTIONS: usize = 16;

/// How long a connection may take to send its request head.
const HEAD_WITHIN: Duration = Duration::from_secs(10);

/// The largest request head, in bytes: a redirect with a long code.
const MAX_HEAD_BYTES: usize = 32 * 1024;

/// What the browser shows at the end. Plain text that repeats nothing from the address.
const DONE: &str = "Haft has the answer. You can close this page and go back to the terminal.\n";
const NOT_THIS: &str = "This is not the answer to the login that is waiting.\n";

/// Shows a login page to somebody and returns the redirect.
pub trait Person: Send + Sync {
    /// The address the page should redirect to.
    fn redirect(&self) -> Url;

    /// Visits a page and returns the address it redirected to. Has its own time limit.
    fn visit<'a>(&'a self, page: &'a Url) -> BoxFuture<'a, Result<Url, LoginError>>;
}

/// Visits pages that redirect at once without asking anyone, as test authorization servers do. It
/// replaces the person, so that a whole login can run without one.
pub struct RedirectFollower {
    redirect: Url,
}

impl RedirectFollower {
    /// `redirect` is the address to redirect to; nobody needs to listen on it.
    pub fn new(redirect: Url) -> Self {
        Self { redirect }
    }
}

impl Person for RedirectFollower {
    fn redirect(&self) -> Url {
        self.redirect.clone()
    }

    fn visit<'a>(&'a self, page: &'a Url) -> BoxFuture<'a, Result<Url, LoginError>> {
        Box::pin(async move {
            let options = ClientOptions {
                request_within: Some(HEAD_WITHIN),
                ..ClientOptions::default()
            };
            let resolver = Arc::new(SystemResolver::default());
            let unreachable = |_| LoginError::Unreachable(shown(page));
            let client = HttpClient::for_endpoint(page, resolver, options).map_err(unreachable)?;
            let request = HttpRequest::new(Method::GET, page.clone());
            let answer = client.send(request).await.map_err(unreachable)?;
            let location = answer.headers().get(header::LOCATION);
            let location = location.and_then(|location| location.to_str().ok());
            let back = location.and_then(|location| page.join(location).ok());
            back.ok_or(LoginError::Callback("the page has no redirect address"))
        })
    }
}

/// A loopback listener that waits for the redirect.
pub struct Loopback {
    listener: TcpListener,
    at: SocketAddr,
    redirect: Url,
}

impl Loopback {
    /// Listens on a port of 127.0.0.1; 0 picks any free one.
    pub async fn bind(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let at = listener.local_addr()?;
        let redirect = Url::parse(&format!("http://{at}{BACK}")).map_err(io::Error::other)?;
        Ok(Self {
            listener,
            at,
            redirect,
        })
    }

    /// The listener's redirect address.
    pub fn redirect(&self) -> &Url {
        &self.redirect
    }

    /// Waits for a page's redirect. A request with another state, from any other page that knows
    /// the port, is rejected and does not end the wait.
    pub async fn wait(&self, page: &Url, limit: Duration) -> Result<Url, LoginError> {
        let state = page.query_pairs().find(|(name, _)| name == "state");
        let state = state.map(|(_, state)| state.into_owned());
        let state = Arc::new(state.ok_or(LoginError::Callback("the page has no state"))?);
        let (found, mut back) = mpsc::channel(1);
        let served = self.serve(&state, &found);
        let waited = timeout(limit, async {
            tokio::select! {
                back = back.recv() => back,
                () = served => None,
            }
        });
        match waited.await {
            Ok(Some(back)) => Ok(back),
            Ok(None) => Err(LoginError::Cancelled),
            Err(_) => Err(LoginError::Slow(limit)),
        }
    }

    async fn serve(&self, state: &Arc<String>, found: &mpsc::Sender<Url>) {
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else {
                return;
            };
            // A connection that closed before it was accepted is not an error.
            let Ok((stream, _)) = self.listener.accept().await else {
                continue;
            };
            let (state, found) = (Arc::clone(state), found.clone());
            let (at, redirect) = (self.at, self.redirect.clone());
            tokio::spawn(async move {
                let service = service_fn(move |request: Request<Incoming>| {
                    let (status, text, back) = judge(&request, at, &redirect, &state);
                    if let Some(back) = back {
                        // Full: another answer to the same login came first.
                        let _ = found.try_send(back);
                    }
                    async move { Ok::<_, Infallible>(page_of(status, text)) }
                });
                let served = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD_WITHIN)
                    .max_buf_size(MAX_HEAD_BYTES)
                    .keep_alive(false)
                    .serve_connection(TokioIo::new(stream), service);
                // A browser that disconnects halfway is not an error either.
                let _ = timeout(HEAD_WITHIN * 2, served).await;
                drop(place);
            });
        }
    }
}

/// The response, and the redirect if it is the expected one.
fn judge(
    request: &Request<Incoming>,
    at: SocketAddr,
    redirect: &Url,
    state: &str,
) -> (StatusCode, &'static str, Option<Url>) {
    let host = request.headers().get(header::HOST);
    let host = host.and_then(|host| host.to_str().ok());
    // A host name made to resolve to this machine is not this machine's address.
    if host != Some(at.to_string().as_str()) || request.method() != Method::GET {
        return (StatusCode::BAD_REQUEST, NOT_THIS, None);
    }
    if request.uri().path() != BACK {
        return (StatusCode::NOT_FOUND, NOT_THIS, None);
    }
    let mut back = redirect.clone();
    back.set_query(request.uri().query());
    let carries = back
        .query_pairs()
        .any(|(name, value)| name == "state" && value == state);
    if !carries {
        return (StatusCode::BAD_REQUEST, NOT_THIS, None);
    }
    (StatusCode::OK, DONE, Some(back))
}

fn page_of(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    for (name, value) in [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}
