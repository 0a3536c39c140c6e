//! What is particular to HTTP, against a server that answers as the test says.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use haft_contract::future::BoxFuture;
use haft_mcp::upstream::{
    ClientIntroduction,
    authorize::{Authorize, BearerToken, RefusalResponse, Unauthorized},
    connection::{Connect as _, ConnectError, Connection, ProtocolEra, RequestError},
    http::{HttpConnector, ServerAddress},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::CancellationToken;

use super::{Person, call, definitions, text};

/// How often the server lets others run before it opens a stream.
const YIELDS: usize = 1_000;

/// A request as a server sees it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    verb: String,
    headers: BTreeMap<String, String>,
    body: Value,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub(crate) fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    /// An answer in JSON.
    fn result(&self, result: Value) -> String {
        let answer = json!({ "jsonrpc": "2.0", "id": self.body["id"], "result": result });
        reply(
            200,
            "content-type: application/json\r\n",
            &answer.to_string(),
        )
    }

    fn error(&self, status: u16, code: i64) -> String {
        let error = json!({ "code": code, "message": "no" });
        let answer = json!({ "jsonrpc": "2.0", "id": self.body["id"], "error": error });
        reply(
            status,
            "content-type: application/json\r\n",
            &answer.to_string(),
        )
    }

    /// What every stateless server answers.
    pub(crate) fn modern(&self) -> String {
        match self.method() {
            "server/discover" => self.result(json!({
                "supportedVersions": ["2026-07-28"],
                "capabilities": { "tools": {} },
                "resultType": "complete",
            })),
            "tools/list" => self.result(json!({ "tools": [] })),
            _ => self.result(json!({ "content": [{ "type": "text", "text": "ok" }] })),
        }
    }
}

fn reply(status: u16, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} x\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

/// A server, and what it has seen.
pub(crate) struct Scripted {
    url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Scripted {
    pub(crate) async fn new(answer: impl Fn(&Seen) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let (keep, answer) = (Arc::clone(&seen), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (keep, answer) = (Arc::clone(&keep), Arc::clone(&answer));
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    let Some(request) = read(&mut stream).await else {
                        return;
                    };
                    if request.verb == "GET" {
                        // Late, as on a busy machine: whoever does not wait for it is first.
                        for _ in 0..YIELDS {
                            tokio::task::yield_now().await;
                        }
                    }
                    let answer = answer(&request);
                    keep.lock().unwrap().push(request);
                    let _ = stream.get_mut().write_all(answer.as_bytes()).await;
                });
            }
        });
        Self { url, seen }
    }

    fn address(&self) -> ServerAddress {
        ServerAddress::parse(&self.url).unwrap()
    }

    pub(crate) async fn connect(&self) -> Arc<dyn Connection> {
        connect(self.address()).await.unwrap()
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

async fn connect(address: ServerAddress) -> Result<Arc<dyn Connection>, ConnectError> {
    let connector = HttpConnector::new(address, ClientIntroduction::default()).unwrap();
    connector.connect(&CancellationToken::new()).await
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Seen> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    let verb = line.split(' ').next()?.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        line.clear();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = headers
        .get("content-length")
        .map_or(0, |n| n.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let body = serde_json::from_slice(&body).unwrap_or_default();
    Some(Seen {
        verb,
        headers,
        body,
    })
}

/// Has an old token until it is refused, then a new one.
#[derive(Default)]
struct Renewing {
    refusals: Mutex<Vec<Unauthorized>>,
}

impl Authorize for Renewing {
    fn token(&self) -> BoxFuture<'_, Option<BearerToken>> {
        let token = match self.refusals.lock().unwrap().len() {
            0 => "old",
            _ => "new",
        };
        Box::pin(std::future::ready(Some(BearerToken::new(token.to_owned()))))
    }

    fn on_unauthorized(&self, refusal: Unauthorized) -> BoxFuture<'_, RefusalResponse> {
        self.refusals.lock().unwrap().push(refusal);
        Box::pin(std::future::ready(RefusalResponse::TryAgain))
    }
}

fn unauthorized() -> String {
    reply(401, "www-authenticate: Bearer scope=\"files\"\r\n", "")
}

#[tokio::test]
async fn a_token_that_is_refused_is_replaced_and_the_request_sent_once_more() {
    let server = Scripted::new(|request| match request.header("authorization") {
        Some("Bearer new") => request.modern(),
        Some(_) | None => unauthorized(),
    })
    .await;
    let authorize = Arc::new(Renewing::default());
    let address = server
        .address()
        .authorize(Arc::clone(&authorize) as Arc<dyn Authorize>);
    let connection = connect(address).await.unwrap();
    assert_eq!(connection.era(), ProtocolEra::Modern);
    let refusals = authorize.refusals.lock().unwrap().clone();
    assert_eq!(refusals.len(), 1);
    assert_eq!(refusals[0].status, 401);
    assert_eq!(
        refusals[0].www_authenticate.as_deref(),
        Some("Bearer scope=\"files\"")
    );
    assert_eq!(refusals[0].sent, Some(BearerToken::new("old".to_owned())));
}

#[tokio::test]
async fn a_server_that_wants_a_login_says_so() {
    let server = Scripted::new(|_| unauthorized()).await;
    let refused = connect(server.address()).await.err();
    assert_eq!(refused, Some(ConnectError::LoginNeeded));
    // A token that does not help is not sent for ever.
    let address = server.address().authorize(Arc::new(Renewing::default()));
    assert_eq!(
        connect(address).await.err(),
        Some(ConnectError::LoginNeeded)
    );
    assert_eq!(server.seen().len(), 3);
}

#[tokio::test]
async fn a_redirect_to_somewhere_else_is_not_followed() {
    let elsewhere = Scripted::new(Seen::modern).await;
    let to = elsewhere.url.clone();
    let server = Scripted::new(move |_| reply(307, &format!("location: {to}\r\n"), "")).await;
    let address = server.address().header("x-api-key", "secret").unwrap();
    let refused = connect(address).await.err().unwrap();
    assert!(refused.to_string().contains("redirects to"), "{refused}");
    assert!(elsewhere.seen().is_empty());
}

#[tokio::test]
async fn requests_of_the_stateless_era_say_in_headers_what_they_are() {
    let server = Scripted::new(Seen::modern).await;
    let address = server.address().header("x-api-key", "secret").unwrap();
    let connection = connect(address).await.unwrap();
    super::run(&*connection, call("a b", json!({}))).await;
    let called = server
        .seen()
        .into_iter()
        .find(|seen| seen.method() == "tools/call");
    let called = called.unwrap();
    assert_eq!(called.header("mcp-protocol-version"), Some("2026-07-28"));
    assert_eq!(called.header("mcp-method"), Some("tools/call"));
    assert_eq!(called.header("mcp-name"), Some("a b"));
    assert_eq!(called.header("x-api-key"), Some("secret"));
    let meta = &called.body["params"]["_meta"];
    assert_eq!(
        meta["io.modelcontextprotocol/protocolVersion"],
        json!("2026-07-28")
    );
    assert_eq!(
        meta["io.modelcontextprotocol/clientCapabilities"],
        json!({})
    );
}

#[tokio::test]
async fn mc_22_headers_follow_the_schema_the_server_has_now() {
    let lists = Mutex::new(0);
    let server = Scripted::new(move |request| match request.method() {
        "tools/list" => {
            let mut lists = lists.lock().unwrap();
            *lists += 1;
            let region = match *lists {
                1 => json!({ "type": "string" }),
                _ => json!({ "type": "string", "x-mcp-header": "Region" }),
            };
            let schema = json!({ "type": "object", "properties": { "region": region } });
            request.result(json!({ "tools": [{ "name": "t", "inputSchema": schema }] }))
        }
        "tools/call" if request.header("mcp-param-region") != Some("eu") => {
            request.error(400, -32020)
        }
        _ => request.modern(),
    })
    .await;
    let connection = server.connect().await;
    definitions(&*connection).await;
    // Nobody accepted the schema it has now, so nothing is sent by it.
    let never = CancellationToken::new();
    let refused = connection
        .request(call("t", json!({ "region": "eu" })), &never)
        .await;
    assert!(
        matches!(refused, Err(RequestError::Outdated(_))),
        "{refused:?}"
    );
    let calls = |seen: &Seen| seen.method() == "tools/call";
    assert_eq!(server.seen().iter().filter(|seen| calls(seen)).count(), 1);
    definitions(&*connection).await;
    let called = super::run(&*connection, call("t", json!({ "region": "eu" }))).await;
    assert_eq!(text(&called), "ok");
}

#[tokio::test]
async fn mc_14_a_server_that_only_ever_asks_is_given_up() {
    let server = Scripted::new(|request| match request.method() {
        "tools/call" => request.result(json!({
            "resultType": "input_required",
            "requestState": "opaque",
            "inputRequests": { "again": { "method": "elicitation/create",
                "params": { "mode": "form", "message": "?", "requestedSchema": {} } } },
        })),
        _ => request.modern(),
    })
    .await;
    let connection = server.connect().await;
    let person = Arc::new(Person::default());
    let request = haft_mcp::upstream::connection::Request {
        client: Some(Arc::clone(&person) as Arc<dyn haft_mcp::client::Client>),
        ..call("t", json!({}))
    };
    let never = CancellationToken::new();
    let asked = connection.request(request, &never).await;
    assert!(matches!(asked, Err(RequestError::Protocol(_))), "{asked:?}");
    let questions = person.asked.lock().unwrap().clone();
    assert_eq!(questions.len(), 10);
    // Every question has a name of its own, and every retry carries the state as it came.
    assert_eq!(questions[0].key, "again");
    assert_eq!(questions[1].key, "again#2");
    let retried: Vec<_> = server.seen();
    let retried = retried
        .iter()
        .rfind(|seen| seen.method() == "tools/call")
        .unwrap();
    assert_eq!(retried.body["params"]["requestState"], json!("opaque"));
}

/// What a server with sessions answers to what begins one.
fn legacy(request: &Seen) -> Option<String> {
    match (request.verb.as_str(), request.method()) {
        (_, "server/discover") => Some(request.error(400, -32000)),
        (_, "initialize") => {
            let result = json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
                "serverInfo": { "name": "s", "version": "1" } });
            let answer = json!({ "jsonrpc": "2.0", "id": request.body["id"], "result": result });
            let headers = "content-type: application/json\r\nmcp-session-id: seven\r\n";
            Some(reply(200, headers, &answer.to_string()))
        }
        (_, "notifications/initialized" | "notifications/cancelled") => Some(reply(202, "", "")),
        ("GET", _) if request.header("last-event-id").is_none() => Some(reply(405, "", "")),
        _ => None,
    }
}

#[tokio::test]
async fn a_stream_that_breaks_is_taken_up_again_where_the_server_can() {
    let asked = Mutex::new(Value::Null);
    let stream = "content-type: text/event-stream\r\n";
    let server = Scripted::new(move |request| {
        legacy(request).unwrap_or_else(|| {
            if request.verb == "POST" {
                *asked.lock().unwrap() = request.body["id"].clone();
                return reply(200, stream, "id: 1\nretry: 10\ndata:\n\n");
            }
            assert_eq!(request.header("last-event-id"), Some("1"));
            assert_eq!(request.header("mcp-session-id"), Some("seven"));
            let result = json!({ "content": [{ "type": "text", "text": "late" }] });
            let id = asked.lock().unwrap().clone();
            let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result });
            reply(200, stream, &format!("id: 2\ndata: {answer}\n\n"))
        })
    })
    .await;
    let connection = server.connect().await;
    assert_eq!(connection.era(), ProtocolEra::Legacy);
    let late = super::run(&*connection, call("t", json!({}))).await;
    assert_eq!(text(&late), "late");
}

/// Otherwise what the server asks in the middle of the call would reach nobody.
#[tokio::test]
async fn the_first_call_waits_until_the_servers_own_stream_is_open() {
    let stream = "content-type: text/event-stream\r\n";
    let server = Scripted::new(move |request| match request.verb.as_str() {
        "GET" => reply(200, stream, ""),
        _ => legacy(request).unwrap_or_else(|| request.modern()),
    })
    .await;
    let introduction = ClientIntroduction {
        listening: Duration::from_mins(10),
        ..ClientIntroduction::default()
    };
    let connector = HttpConnector::new(server.address(), introduction).unwrap();
    let connection = connector.connect(&CancellationToken::new()).await.unwrap();
    super::run(&*connection, call("t", json!({}))).await;
    let seen = server.seen();
    let position = |found: fn(&Seen) -> bool| seen.iter().position(found).unwrap();
    let opened = position(|seen| seen.verb == "GET");
    assert!(opened < position(|seen| seen.method() == "tools/call"));
}

#[tokio::test]
async fn a_session_the_server_has_forgotten_ends_the_connection() {
    let server =
        Scripted::new(|request| legacy(request).unwrap_or_else(|| reply(404, "", ""))).await;
    let connection = server.connect().await;
    let never = CancellationToken::new();
    let forgotten = connection.request(call("t", json!({})), &never).await;
    assert!(
        matches!(forgotten, Err(RequestError::NotSent(_))),
        "{forgotten:?}"
    );
    assert!(connection.closed().await.contains("forgotten"));
}
