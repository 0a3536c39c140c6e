//! Commands are confined on the other side as they are on this one.

use haft_contract::{
    access::Command,
    ops::{ExitStatus, Spawn, Tier},
};

use super::{
    child::{self, all_are_gone, running_in},
    fixture::RemoteFixture,
};
use crate::workspace::at;

async fn run(fixture: &RemoteFixture, tier: Tier, text: &str) -> ExitStatus {
    let spawn = Spawn::new(Command::Shell(text.to_owned()), at("."), tier);
    let mut child = fixture.operations.processes.spawn(spawn).await.unwrap();
    while child.next_chunk().await.is_some() {}
    child.wait().await.unwrap().status
}

/// A command in each tier writes inside and cannot write outside; without one it can.
pub(crate) async fn sandboxes_hold(fixture: &RemoteFixture, tiers: &[Tier]) {
    let ws = &fixture.place.0;
    let made = ws.outside.join("made");
    let text = format!("echo x > inside && echo x > '{}'", made.display());
    for tier in tiers {
        assert!(fixture.operations.tiers.contains(tier), "{tier} is missing");
        let status = run(fixture, *tier, &text).await;
        assert_ne!(status, ExitStatus::Code(0), "{tier}");
        assert_eq!(ws.text("inside"), "x\n", "{tier}");
        assert!(!made.exists(), "{tier}");
        std::fs::remove_file(ws.root.join("inside")).unwrap();
    }
    // The control: outside a sandbox it succeeds.
    assert_eq!(run(fixture, Tier::Host, &text).await, ExitStatus::Code(0));
    assert!(made.exists());
}

/// A sandbox that runs, with a process in it that left its session.
pub(crate) async fn start_sandbox(
    fixture: &RemoteFixture,
    tier: Tier,
) -> Box<dyn haft_contract::ops::ProcessHandle> {
    let text = "(setsid sleep 300 &); echo ready; sleep 300";
    let spawn = Spawn::new(Command::Shell(text.to_owned()), at("."), tier);
    let mut child = fixture.operations.processes.spawn(spawn).await.unwrap();
    assert_eq!(child.next_chunk().await.unwrap().bytes, b"ready\n");
    assert!(!running_in(&fixture.place.0.root).is_empty());
    child
}

#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn the_sandbox_holds_on_the_other_side() {
    sandboxes_hold(&child::fixture().await, &[Tier::T1, Tier::T2]).await;
}

#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn a_sandbox_is_gone_when_its_stream_is() {
    for tier in [Tier::T1, Tier::T2] {
        let fixture = child::fixture().await;
        let child = start_sandbox(&fixture, tier).await;
        let root = fixture.place.0.root.clone();
        drop(child);
        drop(fixture.operations);
        all_are_gone(&root).await;
    }
}
