//! A server that wants a login and the authorization server that gives it, on one loopback port. It
//! checks what a client sends (PKCE, resource, redirect, state) and has flaws on request.

use std::{
    collections::{HashMap, HashSet},
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use url::Url;

/// What is wrong with the fixture; nothing by default.
#[derive(Default, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flaw of its own")]
pub(super) struct Flaws {
    /// `iss` in the redirect: left out, or somebody else's.
    pub(super) iss: Iss,
    /// What is said of PKCE instead of S256; an empty list says nothing at all.
    pub(super) pkce: Option<Vec<&'static str>>,
    /// The resource that the metadata names instead of the server.
    pub(super) resource: Option<String>,
    /// The issuer that the metadata names instead of the real one.
    pub(super) issuer: Option<String>,
    /// Where the resource's metadata redirects to.
    pub(super) redirect: Option<String>,
    /// The authorization servers named instead of the real one.
    pub(super) servers: Option<Vec<String>>,
    /// How large the metadata is made.
    pub(super) padding: usize,
    /// The page to log in on, instead of the real one.
    pub(super) page: Option<String>,
    /// The token endpoint, instead of the real one.
    pub(super) token_endpoint: Option<String>,
    /// Whether the person says no.
    pub(super) denies: bool,
    /// Whether the state of the redirect is another one.
    pub(super) other_state: bool,
    /// No registration of clients.
    pub(super) no_registration: bool,
    /// Registered clients get a secret, which must be presented.
    pub(super) secret: bool,
    /// The type of the tokens, instead of `Bearer`.
    pub(super) token_type: Option<&'static str>,
    /// The authorization server publishes nothing.
    pub(super) silent: bool,
    /// Nor does the server, which says no more than that it wants a login.
    pub(super) mute: bool,
    /// Refreshing answers with an error of the server.
    pub(super) refresh_breaks: bool,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Iss {
    #[default]
    Right,
    Missing,
    Wrong,
}

#[derive(Default)]
struct State {
    flaws: Flaws,
    codes: HashMap<String, Code>,
    access: HashSet<String>,
    refresh: HashSet<String>,
    clients: HashMap<String, Option<String>>,
    faults: Vec<String>,
    scopes_asked: Vec<String>,
    /// Every token that was ever given out, for a search in what was printed.
    secrets: Vec<String>,
}

struct Code {
    challenge: String,
    redirect: String,
    client: String,
    scope: String,
}

/// The running fixture.
pub(super) struct Fixture {
    pub(super) base: Url,
    state: Arc<Mutex<State>>,
    pub(super) refreshes: Arc<AtomicUsize>,
    pub(super) requests: Arc<AtomicUsize>,
}

/// How long tokens last, in seconds.
pub(super) const LASTS: u64 = 3600;

impl Fixture {
    pub(super) async fn start(flaws: Flaws) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let base = Url::parse(&base).unwrap();
        let state = Arc::new(Mutex::new(State {
            flaws,
            ..State::default()
        }));
        let fixture = Self {
            base: base.clone(),
            state: Arc::clone(&state),
            refreshes: Arc::default(),
            requests: Arc::default(),
        };
        let (refreshes, requests) = (fixture.refreshes.clone(), fixture.requests.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (state, base) = (Arc::clone(&state), base.clone());
                let (refreshes, requests) = (refreshes.clone(), requests.clone());
                tokio::spawn(async move {
                    let service = service_fn(move |request| {
                        requests.fetch_add(1, Ordering::SeqCst);
                        let (state, base, refreshes) =
                            (Arc::clone(&state), base.clone(), refreshes.clone());
                        async move {
                            Ok::<_, Infallible>(answer(request, &base, &state, &refreshes).await)
                        }
                    });
                    let _ = http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        fixture
    }

    pub(super) fn server(&self) -> Url {
        self.base.join("/mcp").unwrap()
    }

    /// What the client did wrong, as the fixture saw it.
    pub(super) fn faults(&self) -> Vec<String> {
        self.state.lock().unwrap().faults.clone()
    }

    /// The scopes of the last page that was visited.
    pub(super) fn scopes_asked(&self) -> String {
        self.state.lock().unwrap().scopes_asked.join(" ")
    }

    pub(super) fn secrets(&self) -> Vec<String> {
        self.state.lock().unwrap().secrets.clone()
    }

    /// Whether a token opens the server.
    pub(super) fn takes(&self, token: &str) -> bool {
        self.state.lock().unwrap().access.contains(token)
    }

    /// Makes every token given so far worthless.
    pub(super) fn revoke_access(&self) {
        self.state.lock().unwrap().access.clear();
    }

    pub(super) fn revoke_refresh(&self) {
        self.state.lock().unwrap().refresh.clear();
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Flaws)) {
        change(&mut self.state.lock().unwrap().flaws);
    }
}

type Answer = Response<Full<Bytes>>;

async fn answer(
    request: Request<Incoming>,
    base: &Url,
    state: &Mutex<State>,
    refreshes: &AtomicUsize,
) -> Answer {
    let path = request.uri().path().to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let authorization = request.headers().get(header::AUTHORIZATION);
    let authorization = authorization.map(|value| value.to_str().unwrap().to_owned());
    let body = request.into_body().collect().await.unwrap().to_bytes();
    if path == "/token" {
        // Long enough that callers who do not wait for each other are seen.
        tokio::time::sleep(std::time::Duration::from_millis(30)).await;
    }
    let mut state = state.lock().unwrap();
    let withheld = match path.as_str() {
        "/.well-known/oauth-authorization-server" => state.flaws.silent || state.flaws.mute,
        "/.well-known/oauth-protected-resource/mcp" => state.flaws.mute,
        _ => false,
    };
    if withheld {
        return text(StatusCode::NOT_FOUND, "nothing here");
    }
    match path.as_str() {
        "/mcp" => resource(base, authorization.as_deref(), &state),
        "/.well-known/oauth-protected-resource/mcp" => described(base, &state.flaws),
        "/.well-known/oauth-authorization-server" | "/odd/.well-known/anything" => {
            metadata(base, &state.flaws)
        }
        "/register" => register(&body, &mut state),
        "/authorize" => authorize(base, &query, &mut state),
        "/token" => token(base, &body, authorization.as_deref(), &mut state, refreshes),
        // A chain of redirects that never ends.
        path if path.starts_with("/loop") => {
            let next = path.len() % 40;
            see_other(&format!("/loop{}", "x".repeat(next)))
        }
        _ => text(StatusCode::NOT_FOUND, "nothing here"),
    }
}

fn resource(base: &Url, authorization: Option<&str>, state: &State) -> Answer {
    let token = authorization.and_then(|value| value.strip_prefix("Bearer "));
    if token.is_some_and(|token| state.access.contains(token)) {
        return text(StatusCode::OK, "welcome");
    }
    let metadata = format!("{base}.well-known/oauth-protected-resource/mcp");
    let challenge = format!("Bearer resource_metadata=\"{metadata}\", scope=\"read\"");
    let mut answer = text(StatusCode::UNAUTHORIZED, "who are you?");
    if state.flaws.mute {
        return answer;
    }
    let headers = answer.headers_mut();
    headers.insert(header::WWW_AUTHENTICATE, challenge.parse().unwrap());
    answer
}

fn described(base: &Url, flaws: &Flaws) -> Answer {
    if let Some(to) = &flaws.redirect {
        return see_other(to);
    }
    let issuer = base.as_str().trim_end_matches('/').to_owned();
    json_of(&json!({
        "resource": flaws.resource.clone().unwrap_or_else(|| format!("{issuer}/mcp")),
        "authorization_servers": flaws.servers.clone().unwrap_or_else(|| vec![issuer]),
        "padding": "x".repeat(flaws.padding),
    }))
}

fn metadata(base: &Url, flaws: &Flaws) -> Answer {
    let at = base.as_str().trim_end_matches('/');
    let mut metadata = json!({
        "issuer": flaws.issuer.clone().unwrap_or_else(|| at.to_owned()),
        "authorization_endpoint": flaws.page.clone().unwrap_or_else(|| format!("{at}/authorize")),
        "token_endpoint": flaws.token_endpoint.clone().unwrap_or_else(|| format!("{at}/token")),
        "response_types_supported": ["code"],
        "authorization_response_iss_parameter_supported": true,
    });
    let methods = flaws.pkce.clone().unwrap_or_else(|| vec!["plain", "S256"]);
    if !methods.is_empty() {
        metadata["code_challenge_methods_supported"] = json!(methods);
    }
    if !flaws.no_registration {
        metadata["registration_endpoint"] = json!(format!("{at}/register"));
    }
    json_of(&metadata)
}

fn register(body: &[u8], state: &mut State) -> Answer {
    let request: Value = serde_json::from_slice(body).unwrap();
    let id = format!("client-{}", state.clients.len());
    let secret = state.flaws.secret.then(|| format!("secret-of-{id}"));
    state.secrets.extend(secret.clone());
    state.clients.insert(id.clone(), secret.clone());
    let mut made = json!({"client_id": id, "redirect_uris": request["redirect_uris"]});
    if let Some(secret) = secret {
        made["client_secret"] = json!(secret);
    }
    json_of(&made)
}

fn authorize(base: &Url, query: &str, state: &mut State) -> Answer {
    let asked = form(query.as_bytes());
    let get = |name: &str| asked.get(name).cloned().unwrap_or_default();
    let issuer = base.as_str().trim_end_matches('/').to_owned();
    for (name, expected) in [
        ("response_type", "code".to_owned()),
        ("code_challenge_method", "S256".to_owned()),
        ("resource", format!("{issuer}/mcp")),
    ] {
        if get(name) != expected {
            state
                .faults
                .push(format!("page: {name} is `{}`", get(name)));
        }
    }
    if get("state").len() < 16 || get("code_challenge").len() != 43 {
        state.faults.push("page: no state or challenge".to_owned());
    }
    state.scopes_asked = get("scope").split(' ').map(str::to_owned).collect();
    let mut back = Url::parse(&get("redirect_uri")).unwrap();
    let returned = if state.flaws.other_state {
        "another".to_owned()
    } else {
        get("state")
    };
    back.query_pairs_mut().append_pair("state", &returned);
    match state.flaws.iss {
        Iss::Right => drop(back.query_pairs_mut().append_pair("iss", &issuer)),
        Iss::Missing => {}
        Iss::Wrong => drop(
            back.query_pairs_mut()
                .append_pair("iss", "https://evil.example"),
        ),
    }
    if state.flaws.denies {
        back.query_pairs_mut()
            .append_pair("error", "access_denied")
            .append_pair("error_description", "no \u{1b}[31mthanks");
        return see_other(back.as_str());
    }
    let code = format!("code-{}-of-a-login", state.codes.len());
    state.secrets.push(code.clone());
    state.codes.insert(
        code.clone(),
        Code {
            challenge: get("code_challenge"),
            redirect: get("redirect_uri"),
            client: get("client_id"),
            scope: get("scope"),
        },
    );
    back.query_pairs_mut().append_pair("code", &code);
    see_other(back.as_str())
}

fn token(
    base: &Url,
    body: &[u8],
    authorization: Option<&str>,
    state: &mut State,
    refreshes: &AtomicUsize,
) -> Answer {
    let asked = form(body);
    let get = |name: &str| asked.get(name).cloned().unwrap_or_default();
    if get("resource") != format!("{base}mcp") {
        state
            .faults
            .push(format!("token: resource is `{}`", get("resource")));
    }
    if let Some(secret) = state.clients.values().flatten().next() {
        let expected = format!(
            "Basic {}",
            base64::engine::general_purpose::STANDARD.encode(format!("client-0:{secret}"))
        );
        if authorization != Some(expected.as_str()) {
            return error("invalid_client");
        }
    }
    let scope = match get("grant_type").as_str() {
        "authorization_code" => {
            let Some(code) = state.codes.remove(&get("code")) else {
                return error("invalid_grant");
            };
            let hash = Sha256::digest(get("code_verifier").as_bytes());
            if URL_SAFE_NO_PAD.encode(hash) != code.challenge {
                state
                    .faults
                    .push("token: the verifier is another one".to_owned());
            }
            if get("redirect_uri") != code.redirect {
                state
                    .faults
                    .push("token: the redirect is another one".to_owned());
            }
            if authorization.is_none() && get("client_id") != code.client {
                state
                    .faults
                    .push("token: the client is another one".to_owned());
            }
            code.scope
        }
        "refresh_token" => {
            refreshes.fetch_add(1, Ordering::SeqCst);
            if state.flaws.refresh_breaks {
                return text(StatusCode::BAD_GATEWAY, "later");
            }
            // Each is good once: whoever uses one twice is logged out.
            if !state.refresh.remove(&get("refresh_token")) {
                return error("invalid_grant");
            }
            get("scope")
        }
        _ => return error("unsupported_grant_type"),
    };
    let number = state.secrets.len();
    let (access, refresh) = (
        format!("access-token-{number}"),
        format!("refresh-token-{number}"),
    );
    state.secrets.extend([access.clone(), refresh.clone()]);
    state.access.insert(access.clone());
    state.refresh.insert(refresh.clone());
    json_of(&json!({
        "access_token": access,
        "token_type": state.flaws.token_type.unwrap_or("Bearer"),
        "expires_in": LASTS,
        "refresh_token": refresh,
        "scope": scope,
        "id_token": format!("id-token-{number}"),
    }))
}

fn form(body: &[u8]) -> HashMap<String, String> {
    url::form_urlencoded::parse(body).into_owned().collect()
}

fn error(code: &str) -> Answer {
    let mut answer = json_of(&json!({"error": code, "error_description": "because"}));
    *answer.status_mut() = StatusCode::BAD_REQUEST;
    answer
}

fn see_other(to: &str) -> Answer {
    let mut answer = text(StatusCode::FOUND, "");
    answer
        .headers_mut()
        .insert(header::LOCATION, to.parse().unwrap());
    answer
}

fn json_of(value: &Value) -> Answer {
    Response::builder()
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(value.to_string().into()))
        .unwrap()
}

fn text(status: StatusCode, text: &'static str) -> Answer {
    Response::builder()
        .status(status)
        .body(Full::new(Bytes::from_static(text.as_bytes())))
        .unwrap()
}
