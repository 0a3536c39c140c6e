//! Haft's server edge with everything the official conformance suite wants to find behind it: as
//! tools of the runtime like any others, or (`through`) as what a mounted server offers. Prints its
//! address and the token, then serves until its input ends.
//!
//! ```sh
//! conformance_server
//! conformance_server through [legacy|modern]
//! ```

#![expect(
    clippy::indexing_slicing,
    reason = "reading JSON by index gives null where there is nothing"
)]

mod beside;
mod script;
mod through;
mod tools;

use std::{
    env,
    error::Error,
    sync::{Arc, OnceLock},
};

use haft_contract::erased::ErasedTool;
use haft_mcp::{
    client::Clients,
    mounts::{CHANGES_KEPT, Mounts},
    server::{
        Endpoint, LiveCalls, SessionScope,
        http::{self, Guard, Token},
    },
};
use haft_runtime::LoopGuard;
use haft_testkit::Harness;
use serde_json::Value;
use tokio::{net::TcpListener, sync::broadcast};
use tokio_util::sync::CancellationToken;

use crate::{beside::FixtureResources, script::World};

/// What is offered; shared with the reference server of the tests.
const FIXTURE: &str = include_str!("../../tests/conformance/fixture.json");

/// Not a secret: it guards a fixture.
const TOKEN: &str = "conformance-conformance-conformance";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let clients = Arc::<Clients>::default();
    let calls = LiveCalls::new(Arc::clone(&clients));
    let mut arguments = env::args().skip(1);
    if arguments.next().as_deref() == Some("through") {
        let harness = harness(Vec::new(), &calls);
        let (fleet, beside) = through::mount(&harness.runtime, &clients, arguments.next()).await?;
        serve(harness, calls, Arc::new(beside)).await?;
        fleet.stop().await;
        return Ok(());
    }
    let fixture: Value = serde_json::from_str(FIXTURE)?;
    let changes = broadcast::Sender::new(CHANGES_KEPT);
    let world = Arc::new(World {
        clients,
        changes: changes.clone(),
        runtime: OnceLock::new(),
    });
    let beside = Arc::new(FixtureResources {
        fixture: fixture.clone(),
        changes,
    });
    let harness = harness(tools::all(&fixture, &world, &beside), &calls);
    // Only the first is set, and there is only one.
    let _ = world.runtime.set(harness.runtime.clone());
    serve(harness, calls, beside).await
}

/// A runtime that allows everything and records in memory.
fn harness(tools: Vec<Arc<dyn ErasedTool>>, calls: &Arc<LiveCalls>) -> Harness {
    let events = Arc::clone(calls);
    Harness::memory()
        .tools(tools)
        .configure(|builder| builder.events(events).loop_guard(LoopGuard::OFF))
        .build()
}

/// Serves until the input ends.
#[expect(clippy::print_stdout, reason = "says where it listens")]
async fn serve(
    harness: Harness,
    calls: Arc<LiveCalls>,
    mounts: Arc<dyn Mounts>,
) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let guard = Guard::new(Token::parse(TOKEN)?).origin(&format!("http://{address}"))?;
    let (runtime, principal) = (harness.runtime, harness.principal);
    let endpoint =
        Endpoint::new(runtime, principal, calls, SessionScope::OfConnection).mounts(mounts);
    println!("http://{address}{} {TOKEN}", http::PATH);

    let cancel = CancellationToken::new();
    let serving = http::serve(Arc::new(endpoint), listener, guard, &cancel);
    let ended = async {
        let drained = || std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        // However it ends, nobody needs the server any more.
        let _ = tokio::task::spawn_blocking(drained).await;
        cancel.cancel();
    };
    tokio::join!(serving, ended);
    Ok(())
}
