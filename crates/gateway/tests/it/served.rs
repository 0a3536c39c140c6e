//! A gateway on a port of its own, and a client for it.

use std::{fs, net::SocketAddr, path::PathBuf, time::Duration};

use haft_contract::{TenantId, host::Timestamp, identity::Scope};
use haft_gateway::{ApiKeyText, Gateway, KeyEnvironment, RecordUse};
use haft_host::{
    config::{ConfigPlaces, Env, resolve::Overrides},
    serving::ServedHostBuilder,
};
use haft_ledger::{Credential, CredentialKind};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

/// Rules under which reading is allowed, writing below `free/` too, and everything else is asked about.
pub(crate) const CAREFUL: &str = "[policy]\npreset = \"careful\"\nallow = [\"write(free/**)\"]\n";

/// How long anything may take before a test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A gateway in front of a host, and everything around it on disk.
pub(crate) struct Served {
    pub(crate) gateway: Gateway,
    address: SocketAddr,
    ending: CancellationToken,
    serving: JoinHandle<()>,
    directory: TempDir,
}

/// An answer, read whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Value,
}

/// Somebody with a key.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) http: reqwest::Client,
    pub(crate) base: String,
    pub(crate) key: String,
}

impl Served {
    pub(crate) async fn open(config: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for name in ["own", "home", "config/haft", "acme", "beta", "second"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        for name in ["own", "acme", "beta", "second"] {
            fs::write(
                root.join(name).join("notes.txt"),
                format!("this is {name}\n"),
            )
            .unwrap();
        }
        let workspaces = [("acme", "acme"), ("beta", "beta"), ("local", "second")];
        let workspaces = workspaces.map(|(tenant, name)| {
            let path = root.join(name);
            format!(
                "[[serve.workspaces]]\ntenant = \"{tenant}\"\npath = \"{}\"\n",
                path.display()
            )
        });
        let config = format!("{config}\n{}", workspaces.concat());
        fs::write(root.join("config/haft/haft.toml"), config).unwrap();
        Self::start(directory).await
    }

    async fn start(directory: TempDir) -> Self {
        let root = directory.path().canonicalize().unwrap();
        let env = Env {
            config_home: Some(root.join("config")),
            data_home: Some(root.join("data")),
            home: Some(root.join("home")),
            user: Some("ada".to_owned()),
            current_dir: root.join("own"),
            ..Env::default()
        };
        let overrides = Overrides::default();
        let places = ConfigPlaces::find(&env, &overrides).unwrap();
        let settings = places.settings().unwrap();
        let serve = settings.serve.clone();
        let own = settings.places.workspace.clone();
        let builder = ServedHostBuilder::from_settings(settings, &env).unwrap();
        let opening = builder.takes_workspaces().open(&env, &overrides);
        let served = Box::pin(opening).await;
        let opening = Gateway::open(served.unwrap(), &own, RecordUse::Own, &serve);
        let gateway = Box::pin(opening).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let ending = CancellationToken::new();
        let serving = {
            let (gateway, ending) = (gateway.clone(), ending.clone());
            tokio::spawn(async move { haft_gateway::serve(&gateway, listener, &ending).await })
        };
        Self {
            gateway,
            address,
            ending,
            serving,
            directory,
        }
    }

    /// Ends this gateway as it should end, and starts another on the same record.
    pub(crate) async fn again(self) -> Self {
        let directory = self.close().await;
        Self::start(directory).await
    }

    pub(crate) async fn close(self) -> TempDir {
        self.ending.cancel();
        self.serving.await.unwrap();
        self.gateway.close(Duration::ZERO).await.unwrap();
        self.directory
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap()
    }

    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Somebody of a tenant with these scopes.
    pub(crate) async fn client(&self, tenant: &str, agent: &str, scopes: &[&str]) -> Client {
        let key = ApiKeyText::make(KeyEnvironment::Test).unwrap();
        let credential = Credential {
            id: key.id().clone(),
            kind: CredentialKind::ApiKey,
            tenant: TenantId::parse(tenant).unwrap(),
            user: "ada".parse().unwrap(),
            agent: Some(agent.parse().unwrap()),
            name: format!("{agent} of {tenant}"),
            scopes: scopes
                .iter()
                .map(|scope| Scope::parse(scope).unwrap())
                .collect(),
            workspaces: Vec::new(),
            made_by: "a test".to_owned(),
            made: Timestamp(0),
            expires: None,
            revoked: None,
        };
        let credentials = self.gateway.credentials();
        credentials.add(credential, key.hash()).await.unwrap();
        Client {
            http: reqwest::Client::new(),
            base: self.base(),
            key: key.text().to_owned(),
        }
    }

    /// Somebody who may do everything.
    pub(crate) async fn admin(&self, tenant: &str) -> Client {
        let scopes = ["call", "read", "approve", "admin"];
        self.client(tenant, "person-at-desk", &scopes).await
    }

    pub(crate) fn file(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root().join(path)).ok()
    }
}

impl Client {
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}{path}", self.base);
        self.http
            .request(method, url)
            .bearer_auth(&self.key)
            .timeout(PATIENCE)
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        answer(self.request(Method::GET, path)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        answer(self.request(Method::DELETE, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        answer(self.request(Method::POST, path).json(&body)).await
    }

    /// Makes a call and waits for it.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Answer {
        let body = serde_json::json!({"tool": tool, "arguments": arguments});
        self.post("/v1/calls", body).await
    }
}

/// Sends a request and reads the answer whole.
pub(crate) async fn answer(request: RequestBuilder) -> Answer {
    let answer = request.send().await.unwrap();
    let (status, headers) = (answer.status(), answer.headers().clone());
    let text = answer.text().await.unwrap();
    let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
    Answer {
        status,
        headers,
        body,
    }
}

impl Answer {
    pub(crate) fn is(&self, status: u16) -> &Self {
        assert_eq!(self.status.as_u16(), status, "{:#}", self.body);
        self
    }

    pub(crate) fn text(&self, pointer: &str) -> &str {
        let found = self.body.pointer(pointer).and_then(Value::as_str);
        found.unwrap_or_else(|| panic!("no {pointer} in {:#}", self.body))
    }

    pub(crate) fn items(&self) -> &[Value] {
        let items = self.body["items"].as_array();
        items.unwrap_or_else(|| panic!("no items in {:#}", self.body))
    }

    /// The kind of a problem, without the part that all have.
    pub(crate) fn problem(&self) -> &str {
        let media = &self.headers["content-type"];
        assert_eq!(media, "application/problem+json", "{:#}", self.body);
        self.text("/type")
            .strip_prefix("urn:haft:problem:")
            .unwrap()
    }
}

/// Looks again until there is something.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(mut look: impl FnMut() -> F) -> T {
    let looking = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, looking)
        .await
        .expect("it does not come")
}
