//! MCP in an HTTP server of somebody else: principals of two tenants, in workspaces of their own, in
//! both eras, over real connections.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use haft_contract::{Principal, WorkspaceId};
use haft_host::serving::{HttpOptions, McpService};
use http::{Request, header};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::configured_host::{ConfiguredHost, principal};

/// How long a client waits.
const PATIENCE: Duration = Duration::from_secs(30);

/// The sessions of one tenant at once.
const TENANT_SESSIONS: usize = 3;

const CONFIG: &str =
    "[policy]\npreset = \"careful\"\nallow = [\"write\"]\ndeny = [\"write(secret.txt)\"]\n";

/// Somebody whom the outer server knows by a token, and the workspace they are in.
struct Credential {
    token: &'static str,
    principal: Arc<Principal>,
    workspace: WorkspaceId,
}

/// The service in a server that knows tokens.
struct OuterServer {
    house: ConfiguredHost,
    address: SocketAddr,
    cancel: CancellationToken,
}

/// A client with a token.
struct TokenClient {
    url: String,
    token: &'static str,
    http: Client,
}

impl OuterServer {
    /// Serves `ann` of `acme` in two workspaces, and `bob` of `beta` in one.
    async fn start() -> Self {
        let house = ConfiguredHost::open(CONFIG).await;
        let added = [
            ("ann", "acme", "acme-one", "ann-one"),
            ("ann", "acme", "acme-two", "ann-two"),
            ("bob", "beta", "beta-one", "bob-one"),
        ]
        .map(|(user, of, name, token)| {
            let workspace = house.workspace(of, name);
            let credential = Credential {
                token,
                principal: principal(of, user),
                workspace: workspace.id().clone(),
            };
            (credential, workspace)
        });
        let cancel = CancellationToken::new();
        let options = HttpOptions::default().tenant_sessions(TENANT_SESSIONS);
        let service = Arc::new(house.served.mcp_service(options, &cancel));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(
            listener,
            Arc::new(added.into()),
            service,
            cancel.clone(),
        ));
        Self {
            house,
            address,
            cancel,
        }
    }

    fn client(&self, token: &'static str) -> TokenClient {
        TokenClient {
            url: format!("http://{}/mcp", self.address),
            token,
            http: Client::builder()
                .no_proxy()
                .timeout(PATIENCE)
                .build()
                .unwrap(),
        }
    }

    async fn end(self) {
        self.cancel.cancel();
        self.house.served.host().close().await.unwrap();
    }
}

type Added = (Credential, Arc<haft_host::HostedWorkspace>);

/// A server as anybody might write one: who the caller is and where it works are its own affair.
async fn serve(
    listener: TcpListener,
    known: Arc<Vec<Added>>,
    service: Arc<McpService>,
    cancel: CancellationToken,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = cancel.cancelled() => return,
        };
        let (stream, _) = accepted.unwrap();
        let (known, service) = (Arc::clone(&known), Arc::clone(&service));
        let answer = service_fn(move |request: Request<Incoming>| {
            let (known, service) = (Arc::clone(&known), Arc::clone(&service));
            async move {
                let token = request.headers()[header::AUTHORIZATION].to_str().unwrap();
                let (credential, _) = known
                    .iter()
                    .find(|(credential, _)| token == format!("Bearer {}", credential.token))
                    .unwrap();
                let who = Arc::clone(&credential.principal);
                let workspace = credential.workspace.clone();
                Ok::<_, Infallible>(service.answer(who, workspace, request).await)
            }
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
    }
}

impl TokenClient {
    fn post(&self, body: &Value) -> RequestBuilder {
        self.http
            .post(&self.url)
            .bearer_auth(self.token)
            .header(header::ACCEPT, "application/json, text/event-stream")
            .json(body)
    }

    /// A request that stands for itself.
    async fn modern(&self, method: &str, mut parameters: Value) -> Value {
        let name = parameters["name"].as_str().unwrap_or_default().to_owned();
        parameters["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        });
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters});
        let mut request = self
            .post(&body)
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", method);
        if !name.is_empty() {
            request = request.header("mcp-name", name);
        }
        request.send().await.unwrap().json().await.unwrap()
    }

    /// Tries to begin a session.
    async fn begin(&self) -> Response {
        let parameters = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": parameters});
        self.post(&body).send().await.unwrap()
    }

    /// Begins a session.
    async fn session(&self) -> String {
        let began = self.begin().await;
        assert_eq!(began.status(), 200);
        let session = began.headers()["mcp-session-id"]
            .to_str()
            .unwrap()
            .to_owned();
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.in_session(&session, &ready).await.status(), 202);
        session
    }

    async fn in_session(&self, session: &str, body: &Value) -> Response {
        let request = self.post(body).header("mcp-session-id", session);
        let request = request.header("mcp-protocol-version", "2025-11-25");
        request.send().await.unwrap()
    }

    /// A call in a session.
    async fn legacy(&self, session: &str, parameters: &Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": parameters});
        let answer = self.in_session(session, &body).await;
        assert_eq!(answer.status(), 200);
        let text = answer.text().await.unwrap();
        let events = text.lines().filter_map(|line| line.strip_prefix("data:"));
        let mut events = events.filter_map(|data| serde_json::from_str::<Value>(data.trim()).ok());
        events.find(|event| event["id"] == 7).expect("an answer")
    }
}

fn notes() -> Value {
    json!({"name": "read", "arguments": {"path": "notes.txt"}})
}

fn write(path: &str) -> Value {
    json!({"name": "write", "arguments": {"path": path, "content": "made"}})
}

#[tokio::test]
async fn each_principal_works_in_its_own_workspace_in_both_eras() {
    let outer = OuterServer::start().await;
    for (token, name) in [
        ("ann-one", "acme-one"),
        ("ann-two", "acme-two"),
        ("bob-one", "beta-one"),
    ] {
        let client = outer.client(token);
        let session = client.session().await;
        let listed = client.modern("tools/list", json!({})).await;
        assert!(listed.to_string().contains("\"read\""), "{listed}");
        for (era, file) in [("modern", "new.txt"), ("legacy", "newer.txt")] {
            let call = async |parameters: Value| match era {
                "modern" => client.modern("tools/call", parameters).await,
                _ => client.legacy(&session, &parameters).await,
            };
            let read = call(notes()).await.to_string();
            assert!(read.contains(&format!("this is {name}")), "{era}: {read}");
            let written = call(write(file)).await;
            assert_eq!(written["result"]["isError"], false, "{era}: {written}");
            let made = outer.house.root().join("tenants").join(name).join(file);
            assert!(made.exists(), "{era}: {made:?}");
            let denied = call(write("secret.txt")).await;
            assert_eq!(denied["result"]["isError"], true, "{era}: {denied}");
            let terminal = &denied["result"]["_meta"]["dev.haft/terminal"];
            assert_eq!(terminal, "denied", "{era}: {denied}");
        }
    }
    outer.end().await;
}

/// Not with another tenant's credential, and not in another workspace of the same principal.
#[tokio::test]
async fn a_session_does_not_exist_for_anybody_else() {
    let outer = OuterServer::start().await;
    let (ann, bob) = (outer.client("ann-one"), outer.client("bob-one"));
    let session = ann.session().await;
    let elsewhere = outer.client("ann-two");
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": notes()});
    for stranger in [&bob, &elsewhere] {
        let stolen = stranger.in_session(&session, &call).await;
        assert_eq!(stolen.status(), 404, "{}", stranger.token);
        for method in ["GET", "DELETE"] {
            let request = stranger
                .http
                .request(method.parse().unwrap(), &stranger.url);
            let request = request
                .bearer_auth(stranger.token)
                .header(header::ACCEPT, "text/event-stream")
                .header("mcp-session-id", &session);
            let answer = request.send().await.unwrap();
            assert_eq!(answer.status(), 404, "{method} {}", stranger.token);
        }
    }
    let own = ann.legacy(&session, &notes()).await.to_string();
    assert!(own.contains("this is acme-one"), "{own}");
    outer.end().await;
}

#[tokio::test]
async fn one_tenant_does_not_take_all_sessions() {
    let outer = OuterServer::start().await;
    let (ann, elsewhere) = (outer.client("ann-one"), outer.client("ann-two"));
    let mut begun = vec![ann.session().await];
    for _ in 1..TENANT_SESSIONS {
        begun.push(elsewhere.session().await);
    }
    let refused = ann.begin().await;
    assert_eq!(refused.status(), 503);
    let refused = refused.text().await.unwrap();
    assert!(refused.contains("of your tenant"), "{refused}");
    outer.client("bob-one").session().await;
    // Whoever needs none is served, and one that ends makes room.
    let listed = ann.modern("tools/list", json!({})).await;
    assert!(listed["result"]["tools"].is_array(), "{listed}");
    let ended = ann.http.delete(&ann.url).bearer_auth(ann.token);
    let ended = ended.header("mcp-session-id", &begun[0]).send().await;
    assert_eq!(ended.unwrap().status(), 204);
    ann.session().await;
    outer.end().await;
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_and_the_end_of_serving_ends_streams() {
    let outer = OuterServer::start().await;
    let ann = outer.client("ann-one");
    let large = json!({"x": "x".repeat(16 << 20)});
    // The server may close before everything was sent.
    if let Ok(refused) = ann.post(&large).send().await {
        assert_eq!(refused.status(), 413);
    }
    let session = ann.session().await;
    let stream = ann.http.get(&ann.url).bearer_auth(ann.token);
    let stream = stream
        .header(header::ACCEPT, "text/event-stream")
        .header("mcp-session-id", &session)
        .header("mcp-protocol-version", "2025-11-25");
    let stream = stream.send().await.unwrap();
    assert_eq!(stream.status(), 200);
    outer.cancel.cancel();
    let rest = tokio::time::timeout(PATIENCE, stream.text()).await;
    drop(rest.expect("the stream ends"));
    outer.house.served.host().close().await.unwrap();
}
