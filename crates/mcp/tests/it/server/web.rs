//! A client over HTTP that sends what a test says, so that tests see what is sent and not what a
//! library makes of it.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use haft_mcp::server::{
    Endpoint,
    http::{self, Guard, Token},
};
use reqwest::{Client, RequestBuilder, Response, header};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::wire::{PATIENCE, meta};

/// How long a client with a session has to come back in these tests.
pub(crate) const COME_BACK: Duration = Duration::from_millis(500);

pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A client of a served endpoint.
pub(crate) struct Web {
    pub(crate) address: SocketAddr,
    pub(crate) client: Client,
    token: &'static str,
}

impl Web {
    /// Serves an endpoint until cancelled; a client of it.
    pub(crate) async fn serve(endpoint: Arc<Endpoint>, cancel: CancellationToken) -> Self {
        let guard = Guard::new(Token::parse(TOKEN).unwrap());
        Self::serve_guarded(endpoint, guard, cancel).await
    }

    /// The same behind another guard.
    pub(crate) async fn serve_guarded(
        endpoint: Arc<Endpoint>,
        guard: Guard,
        cancel: CancellationToken,
    ) -> Self {
        let listener = http::listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            http::serve_patiently(endpoint, listener, guard, COME_BACK, &cancel).await;
        });
        Self::to(address)
    }

    fn to(address: SocketAddr) -> Self {
        let client = Client::builder().no_proxy().timeout(PATIENCE);
        Self {
            address,
            client: client.build().unwrap(),
            token: TOKEN,
        }
    }

    /// Another client, with a credential of its own.
    pub(crate) fn holding(&self, token: &'static str) -> Self {
        Self {
            token,
            ..Self::to(self.address)
        }
    }

    /// Another client, with connections of its own.
    pub(crate) fn afresh(&self) -> Self {
        Self::to(self.address)
    }

    /// Where it is served.
    pub(crate) fn url(&self) -> String {
        format!("http://{}{}", self.address, http::PATH)
    }

    /// A POST with what every request needs.
    pub(crate) fn post(&self, body: &Value) -> RequestBuilder {
        self.client
            .post(self.url())
            .bearer_auth(self.token)
            .header(header::ACCEPT, "application/json, text/event-stream")
            .json(body)
    }

    /// A request that stands for itself.
    pub(crate) fn modern(&self, method: &str, parameters: Value) -> RequestBuilder {
        self.modern_as(1, method, parameters)
    }

    /// The same under another id.
    pub(crate) fn modern_as(&self, id: i64, method: &str, mut parameters: Value) -> RequestBuilder {
        let given = parameters["_meta"].take();
        let mut with = meta(&json!({}));
        for (key, value) in given.as_object().into_iter().flatten() {
            with[key] = value.clone();
        }
        parameters["_meta"] = with;
        let name = parameters["name"].as_str().or(parameters["uri"].as_str());
        let name = name.unwrap_or_default().to_owned();
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": parameters});
        let request = self
            .post(&body)
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", method);
        match name.as_str() {
            "" => request,
            name => request.header("mcp-name", name),
        }
    }

    /// Begins a session and returns its id.
    pub(crate) async fn begin(&self) -> String {
        let parameters = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": parameters});
        let began = self.post(&body).send().await.unwrap();
        assert_eq!(began.status(), 200);
        let session = began.headers()["mcp-session-id"]
            .to_str()
            .unwrap()
            .to_owned();
        let began = events(began).await;
        assert_eq!(began[0]["result"]["protocolVersion"], "2025-11-25");
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let ready = self.in_session(&session, &ready).send().await.unwrap();
        assert_eq!(ready.status(), 202);
        session
    }

    /// A message of a session.
    pub(crate) fn in_session(&self, session: &str, body: &Value) -> RequestBuilder {
        self.post(body)
            .header("mcp-session-id", session)
            .header("mcp-protocol-version", "2025-11-25")
    }
}

/// The messages of an answer that is a stream.
pub(crate) async fn events(response: Response) -> Vec<Value> {
    let text = response.text().await.unwrap();
    text.lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .filter_map(|data| serde_json::from_str(data.trim()).ok())
        .collect()
}
