//! Servers with scripts behind Haft: mounted by one fleet, their tools called through the one path
//! of a call, with a record on disk.

use haft_mcp::upstream::owner::CredentialOwner;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use haft_backends::{LocalBackend, LocalOptions};
use haft_contract::{
    Outcome, WorkPath,
    host::{Ledger as _, Policy},
    ops::Tier,
};
use haft_ledger::{LedgerOptions, StoredLedger};
use haft_mcp::{
    client::{Client, Clients},
    mounts::CHANGES_KEPT,
    name::{ServerId, ToolNaming},
    pin::{Filter, MemoryStore, Origin},
    upstream::{
        ClientIntroduction,
        connection::{Connect, ProtocolEra},
        http::{HttpConnector, ServerAddress},
        mounted::{MountedResources, MountedToolMaker},
        stdio::{ServerCommand, StdioConnector},
        supervise::{Fleet, Mount, Options, Status, SupervisorDefaults, UnseenServer},
        tool::ToolMounting,
    },
};
use haft_runtime::SystemClock;
use haft_testkit::{FixedPolicy, Harness};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::broadcast;

use super::{corpus::Transport, peer};
use crate::house::accept;

/// How long anything that must come about is waited for.
const COMES_TO_BE: Duration = haft_testkit::PATIENCE;

/// How long about a server that failed is down, so that it is seen to be.
const DOWN: Duration = Duration::from_secs(20);

/// Servers behind a runtime.
pub(crate) struct Place {
    pub(crate) harness: Harness,
    pub(crate) fleet: Arc<Fleet>,
    shared: SupervisorDefaults,
    ledger: StoredLedger,
    /// Who can be asked in a call.
    clients: Arc<Clients>,
    dropped: BTreeMap<ServerId, Dropped>,
    /// Those a person has accepted nothing of, and will not.
    unaccepted: BTreeSet<ServerId>,
    /// Those that can never be started.
    failing: BTreeSet<ServerId>,
    _running: Vec<peer::Running>,
    folder: TempDir,
}

/// What was counted and thrown away of what one server sent.
type Dropped = Box<dyn Fn() -> [u64; 4] + Send + Sync>;

/// A server to mount.
pub(crate) struct Peer {
    pub(crate) id: String,
    pub(crate) script: Value,
    pub(crate) transport: Transport,
    /// Whether a person accepts what it offers.
    pub(crate) accepted: bool,
    /// Whether it can never be started.
    pub(crate) fails: bool,
}

impl Peer {
    /// A server of which everything is accepted.
    pub(crate) fn new(id: &str, script: Value, transport: Transport) -> Self {
        Self {
            id: id.to_owned(),
            script,
            transport,
            accepted: true,
            fails: false,
        }
    }
}

pub(crate) fn id(text: &str) -> ServerId {
    ServerId::parse(text).unwrap()
}

fn origin() -> Origin {
    Origin::new(json!({"command": ["scripted"]}))
}

impl Place {
    /// Mounts the servers, and starts none of them. Everything is allowed.
    pub(crate) async fn with(peers: Vec<Peer>) -> Self {
        Self::decided(peers, FixedPolicy::allow_all()).await
    }

    /// The same, with another policy.
    pub(crate) async fn decided(peers: Vec<Peer>, policy: impl Policy + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let record = folder.path().join("record");
        Self::recorded_in(&record, folder, peers, policy).await
    }

    /// The same once more, as another process with the same record would.
    pub(crate) async fn another(&self, peers: Vec<Peer>, policy: impl Policy + 'static) -> Self {
        let record = self.folder.path().join("record");
        Self::recorded_in(&record, tempfile::tempdir().unwrap(), peers, policy).await
    }

    async fn recorded_in(
        record: &Path,
        folder: TempDir,
        peers: Vec<Peer>,
        policy: impl Policy + 'static,
    ) -> Self {
        let options = LedgerOptions::new(record, Arc::new(SystemClock));
        let (ledger, _) = StoredLedger::open(options).await.unwrap();
        let harness = Harness::memory().policy(policy);
        let harness = harness.ledger(Arc::new(ledger.clone())).build();
        let shared = SupervisorDefaults {
            store: Arc::new(MemoryStore::default()),
            registry: Arc::clone(harness.runtime.registry()),
            clock: Arc::new(SystemClock),
            changes: broadcast::channel(CHANGES_KEPT).0,
        };
        let backend = LocalBackend::open(folder.path(), LocalOptions::default()).unwrap();
        let unaccepted = peers.iter().filter(|one| !one.accepted);
        let unaccepted = unaccepted.map(|one| id(&one.id)).collect();
        let failing = peers.iter().filter(|one| one.fails);
        let failing = failing.map(|one| id(&one.id)).collect();
        let clients = Arc::<Clients>::default();
        let mut running = Vec::new();
        let mut dropped: BTreeMap<ServerId, Dropped> = BTreeMap::new();
        let mut mounts = Vec::new();
        for one in peers {
            let script = folder.path().join(format!("{}.json", one.id));
            fs::write(&script, one.script.to_string()).unwrap();
            let introduction = introduction(&one.script);
            let connect: Arc<dyn Connect> = match one.transport {
                Transport::Pipes => {
                    let command = ServerCommand {
                        argv: peer::over_pipes(&script),
                        cwd: WorkPath::root(),
                        environment: [].into(),
                        tier: Tier::Host,
                        egress: None,
                        pinned: None,
                    };
                    let processes = backend.operations().processes;
                    let connector = StdioConnector::new(processes, command, introduction);
                    let connector = Arc::new(connector);
                    let counts = Arc::clone(&connector);
                    dropped.insert(id(&one.id), Box::new(move || counts.dropped().counts()));
                    connector
                }
                Transport::Http => {
                    let (process, port) = peer::Running::over_http(&script);
                    running.push(process);
                    let url = format!("http://127.0.0.1:{port}/mcp");
                    let address = ServerAddress::parse(&url).unwrap();
                    let connector = Arc::new(HttpConnector::new(address, introduction).unwrap());
                    let counts = Arc::clone(&connector);
                    dropped.insert(id(&one.id), Box::new(move || counts.dropped().counts()));
                    connector
                }
            };
            mounts.push(Mount {
                server: id(&one.id),
                naming: ToolNaming::Prefixed,
                filter: Filter::default(),
                origin: origin(),
                owner: CredentialOwner::local(),
                connect,
                make: Arc::new(MountedToolMaker(ToolMounting::new(Arc::clone(&clients)))),
                options: Options {
                    start_timeout: COMES_TO_BE,
                    first_backoff: DOWN,
                    ..Options::default()
                },
            });
        }
        let fleet = Fleet::start(mounts, &shared, UnseenServer::Leave).unwrap();
        Self {
            harness,
            fleet: Arc::new(fleet),
            shared,
            ledger,
            clients,
            dropped,
            unaccepted,
            failing,
            _running: running,
            folder,
        }
    }

    /// Starts every server, has a person accept what it offers, and waits until that counts.
    pub(crate) async fn accept_all(&self) {
        let mut accepted = BTreeMap::new();
        for one in self.fleet.status() {
            if self.reached(&one.server).await && !self.unaccepted.contains(&one.server) {
                let count = accept(&*self.shared.store, &one.server, &origin());
                accepted.insert(one.server, count);
            }
        }
        // Nothing that is new may also mean that nobody has looked yet.
        let counts = |one: &Status| {
            let count = accepted.get(&one.server);
            count.is_none_or(|count| one.counts.new == 0 && one.counts.accepted >= *count)
        };
        self.until(|all| all.iter().all(counts)).await;
    }

    /// Has a server started, again where the machine was too busy for the first time.
    async fn reached(&self, server: &ServerId) -> bool {
        let began = Instant::now();
        loop {
            match self.fleet.reach(server).await {
                Ok(()) => return true,
                Err(_) if self.failing.contains(server) => return false,
                Err(error) => assert!(began.elapsed() < COMES_TO_BE, "{server}: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until the servers are as they must be.
    async fn until(&self, are: impl Fn(&[Status]) -> bool) {
        let began = Instant::now();
        while !are(&self.fleet.status()) {
            let status = self.fleet.status();
            assert!(
                began.elapsed() < COMES_TO_BE,
                "it never came to be: {status:?}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) fn status(&self, server: &str) -> Status {
        let mut all = self.fleet.status().into_iter();
        all.find(|one| one.server == id(server)).unwrap()
    }

    /// How a server is, once it is as it must be, or as it is after long waiting.
    pub(crate) async fn once(&self, server: &str, is: impl Fn(&Status) -> bool) -> Status {
        let began = Instant::now();
        loop {
            let status = self.status(server);
            if is(&status) || began.elapsed() > COMES_TO_BE {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The tools models are shown of a server, by its own names.
    pub(crate) fn listed(&self, server: &str) -> Vec<String> {
        let prefix = format!("mcp__{server}__");
        let listed = self.harness.runtime.tools_for(&self.harness.principal);
        let names = listed.iter().map(|tool| tool.key().tool.as_str());
        names
            .filter_map(|name| name.strip_prefix(&prefix).map(str::to_owned))
            .collect()
    }

    pub(crate) async fn call(&self, server: &str, tool: &str, arguments: Value) -> Arc<Outcome> {
        let name = format!("mcp__{server}__{tool}");
        self.harness.call(&name, arguments).await
    }

    /// The same with so much time, for a client that can be asked, if there is one.
    pub(crate) async fn call_within(
        &self,
        (server, tool): (&str, &str),
        arguments: Value,
        time: Duration,
        client: Option<Arc<dyn Client>>,
    ) -> Arc<Outcome> {
        let name = format!("mcp__{server}__{tool}");
        let request = self.harness.request(&name, arguments).timeout(time);
        let _attached = client.map(|client| self.clients.attach(request.id, client));
        self.harness.runtime.call(request).await
    }

    /// How often a server was asked for something so far.
    pub(crate) fn asked(&self, server: &str, method: &str) -> usize {
        let path = self.folder.path().join(format!("{server}.json.asked"));
        let asked = fs::read_to_string(path).unwrap_or_default();
        asked.lines().filter(|line| *line == method).count()
    }

    /// Waits until a server was asked for something more often than this.
    pub(crate) async fn asked_more(&self, server: &str, method: &str, than: usize) -> bool {
        let began = Instant::now();
        while self.asked(server, method) <= than {
            if began.elapsed() > COMES_TO_BE {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        true
    }

    /// Whether a tool is taken for one that destroys.
    pub(crate) fn is_destructive(&self, server: &str, tool: &str) -> bool {
        let all = self.harness.runtime.registry().snapshot();
        let entry = all.get(&format!("mcp__{server}__{tool}")).unwrap();
        entry.spec().effects.destructive
    }

    /// How the record says a call ended, once it says so.
    pub(crate) async fn recorded(&self, outcome: &Outcome) -> Option<haft_contract::Terminal> {
        let history = self.ledger.history().unwrap();
        let tenant = &self.harness.principal.tenant;
        let began = Instant::now();
        loop {
            let stored = history.call(tenant, outcome.call).await.unwrap();
            let terminal = stored.and_then(|call| call.terminal);
            if terminal.is_some() || began.elapsed() > COMES_TO_BE {
                return terminal;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Messages that were counted and thrown away: lines that were none, broken ones, answers to
    /// nothing, notifications in excess.
    pub(crate) fn dropped(&self, server: &str) -> [u64; 4] {
        (self.dropped.get(&id(server)).unwrap())()
    }

    /// What is offered beside tools.
    pub(crate) fn beside(&self) -> MountedResources {
        MountedResources::new(Arc::clone(&self.fleet) as _, Vec::new())
    }

    pub(crate) async fn end(self) {
        self.fleet.stop().await;
        self.ledger.close().await.unwrap();
    }
}

/// The era is known, so that a busy machine is not taken for an older server.
fn introduction(script: &Value) -> ClientIntroduction {
    let only = match script["era"].as_str() {
        Some("modern") => ProtocolEra::Modern,
        _ => ProtocolEra::Legacy,
    };
    ClientIntroduction {
        only: Some(only),
        ..ClientIntroduction::default()
    }
}
