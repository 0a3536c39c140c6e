//! A mounted server behind a served endpoint: the whole way from a client to somebody else's server
//! and back, with everything it offers accepted as a person would.

use haft_mcp::upstream::owner::CredentialOwner;
use std::{sync::Arc, time::Duration};

use haft_ledger::{LedgerOptions, StoredLedger};
use haft_mcp::{
    client::Clients,
    mounts::CHANGES_KEPT,
    name::{ServerId, ToolNaming},
    pin::{Filter, MemoryStore, Origin, Pins, Store, vet},
    server::{Endpoint, LiveCalls, SessionScope, stdio},
    upstream::{
        connection::Connect,
        mounted::{MountedResources, MountedToolMaker},
        supervise::{Fleet, Mount, Options, SupervisorDefaults, UnseenServer},
        tool::ToolMounting,
    },
};
use haft_runtime::{LoopGuard, Runtime, SystemClock};
use haft_testkit::{FixedPolicy, memory, principal};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::{
    caller::{Caller, Over},
    server::{
        web::Web,
        wire::{Era, PATIENCE, Wire},
    },
};

/// The id of the mounted server.
pub(crate) const SERVER: &str = "peer";

/// A mounted server behind a served endpoint.
pub(crate) struct House {
    pub(crate) runtime: Runtime,
    pub(crate) calls: Arc<LiveCalls>,
    pub(crate) clients: Arc<Clients>,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) endpoint: Arc<Endpoint>,
    web: Web,
    cancel: CancellationToken,
    _record: TempDir,
}

/// What a tool of the mounted server is called.
pub(crate) fn named(tool: &str) -> String {
    format!("mcp__{SERVER}__{tool}")
}

impl House {
    /// Mounts a server, and waits until all it offers can be used.
    pub(crate) async fn of(connect: Arc<dyn Connect>, options: Options) -> Self {
        let clients = Arc::<Clients>::default();
        let calls = LiveCalls::new(Arc::clone(&clients));
        let record = tempfile::tempdir().unwrap();
        let runtime = runtime(&calls, &record).await;
        let server = ServerId::parse(SERVER).unwrap();
        let origin = Origin::new(json!({"command": [SERVER]}));
        let mount = Mount {
            server: server.clone(),
            naming: ToolNaming::Prefixed,
            filter: Filter::default(),
            origin: origin.clone(),
            owner: CredentialOwner::local(),
            connect,
            make: Arc::new(MountedToolMaker(ToolMounting::new(Arc::clone(&clients)))),
            options,
        };
        let shared = SupervisorDefaults {
            store: Arc::new(MemoryStore::default()),
            registry: Arc::clone(runtime.registry()),
            clock: Arc::new(SystemClock),
            changes: broadcast::Sender::new(CHANGES_KEPT),
        };
        let fleet = Arc::new(Fleet::start(vec![mount], &shared, UnseenServer::Start).unwrap());
        fleet.reach(&server).await.unwrap();
        let count = accept(&*shared.store, &server, &origin);
        until_accepted(&fleet, count).await;
        let endpoint = Endpoint::new(
            runtime.clone(),
            principal(),
            Arc::clone(&calls),
            SessionScope::OfConnection,
        );
        let beside = MountedResources::new(Arc::clone(&fleet) as _, Vec::new());
        let endpoint = Arc::new(endpoint.mounts(Arc::new(beside)));
        let cancel = CancellationToken::new();
        let web = Web::serve(Arc::clone(&endpoint), cancel.clone()).await;
        Self {
            runtime,
            calls,
            clients,
            fleet,
            endpoint,
            web,
            cancel,
            _record: record,
        }
    }

    /// A client of it.
    pub(crate) async fn client(&self, over: Over, era: Era) -> Caller {
        match over {
            Over::Pipes => {
                let (ours, theirs) = tokio::io::duplex(64 * 1024);
                let (read, write) = tokio::io::split(theirs);
                let (endpoint, cancel) = (Arc::clone(&self.endpoint), self.cancel.clone());
                tokio::spawn(async move {
                    stdio::serve(endpoint, read, write, &cancel).await.unwrap();
                });
                Caller::over_pipes(Wire::begin(ours, era, json!({})).await)
            }
            Over::Http => Caller::over_http(&self.web, era).await,
        }
    }

    /// Where it is served over HTTP.
    pub(crate) fn url(&self) -> String {
        self.web.url()
    }

    /// Waits until no call runs.
    pub(crate) async fn until_quiet(&self) {
        let quiet = async {
            while self.runtime.in_flight() > 0 || !self.calls.is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, quiet).await.expect("quiet");
    }

    /// Ends it, clients, server and all.
    pub(crate) async fn end(&self) {
        self.cancel.cancel();
        self.fleet.stop().await;
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

/// A runtime that allows everything and records in a file, as `haft mcp` does.
async fn runtime(calls: &Arc<LiveCalls>, record: &TempDir) -> Runtime {
    let options = LedgerOptions::new(record.path().join("record"), Arc::new(SystemClock));
    let (ledger, _) = StoredLedger::open(options).await.unwrap();
    let (operations, _) = memory::operations();
    Runtime::builder()
        .operations(operations)
        .policy(Arc::new(FixedPolicy::allow_all()))
        .ledger(Arc::new(ledger))
        .events(Arc::clone(calls) as _)
        .loop_guard(LoopGuard::OFF)
        .build()
        .unwrap()
}

/// Accepts all that a server offered, as a person would; how much that is.
pub(crate) fn accept(store: &dyn Store, server: &ServerId, origin: &Origin) -> usize {
    let seen = store.seen(server, origin).unwrap().unwrap();
    let vetted = vet(
        server,
        ToolNaming::Prefixed,
        &Filter::default(),
        &seen.definitions,
    )
    .unwrap();
    let mut all = |pins: &mut Pins| {
        pins.review(&vetted.items);
        for item in &vetted.items {
            pins.accept(item).unwrap();
        }
    };
    store
        .change(server, origin, &vetted.items, &mut all)
        .unwrap();
    vetted.items.len()
}

/// Waits until so much counts as accepted, and nothing waits to be.
pub(crate) async fn until_accepted(fleet: &Fleet, count: usize) {
    let waits = || {
        let all = fleet.status();
        let accepted: usize = all.iter().map(|one| one.counts.accepted).sum();
        accepted < count || all.iter().any(|one| one.counts.new > 0)
    };
    let accepted = async {
        while waits() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, accepted)
        .await
        .expect("accepted");
}
