//! A connection that is lost in the middle of a command: nothing of it lives on in the container,
//! and the next call connects anew.

use haft_backends::container::ContainerBackend;
use haft_contract::{
    ErrorKind,
    access::Command,
    ops::{Spawn, Tier},
};
use haft_testkit::{eventually, until_none};

use super::engine::{Container, fixture, options, podman};
use crate::{
    remote::{
        child::{all_are_gone, running_in},
        client_program::{clients, is_killed, is_let_go},
    },
    suites::LocalFixture,
    workspace::at,
};

#[tokio::test]
#[ignore = "ci: needs Podman"]
async fn when_the_client_is_killed_its_commands_are_gone() {
    is_killed(&fixture().await, "podman").await;
}

/// Nothing of it stays behind when Haft lets go.
#[tokio::test]
#[ignore = "ci: needs Podman"]
async fn letting_go_ends_the_client_and_the_commands() {
    is_let_go(fixture().await, "podman").await;
}

/// A stopped command takes along what left its session, while the connection goes on.
#[tokio::test]
#[ignore = "ci: needs Podman"]
async fn a_stopped_command_is_gone_with_its_tree() {
    let fixture = fixture().await;
    let root = &fixture.place.0.root;
    let text = "(setsid /bin/sleep 4321 & exec 1>&- 2>&-); echo ready; sleep 100000";
    let spawn = Spawn::new(Command::Shell(text.to_owned()), at("."), Tier::Host);
    let mut child = fixture.operations.processes.spawn(spawn).await.unwrap();
    assert_eq!(child.next_chunk().await.unwrap().bytes, b"ready\n");
    eventually("both run", || running_in(root).len() >= 2).await;
    drop(child);
    all_are_gone(root).await;
    fixture.operations.files.stat(&at(".")).await.unwrap();
    assert!(!clients("podman").is_empty());
}

#[tokio::test]
#[ignore = "ci: needs Podman"]
async fn a_container_that_stops_and_starts_again_is_worked_in_again() {
    let place = LocalFixture::new();
    let root = place.0.root.to_str().unwrap();
    let container = Container::start(&["--volume", &format!("{root}:{root}")]);
    let operations = ContainerBackend::connect(options(&container.name), root)
        .await
        .unwrap();
    let text = Command::Shell("echo ready; sleep 300".to_owned());
    let spawn = Spawn::new(text, at("."), Tier::Host);
    let mut child = operations.processes.spawn(spawn).await.unwrap();
    assert_eq!(child.next_chunk().await.unwrap().bytes, b"ready\n");
    podman(&["stop", "--time", "0", &container.name]);
    let error = child.wait().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    until_none("nothing runs", || running_in(&place.0.root)).await;
    let error = operations.files.stat(&at(".")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("podman start"), "{error}");
    podman(&["start", &container.name]);
    operations.files.stat(&at(".")).await.unwrap();
}
