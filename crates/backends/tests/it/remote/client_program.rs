//! What is left when the program of a connection (`ssh`, `podman`) is killed or let go of: nothing.

use haft_contract::ErrorKind;
use haft_testkit::until_none;

use super::{
    child::{all_are_gone, start_hidden},
    fixture::RemoteFixture,
};
use crate::{
    processes::{children, kill, name},
    workspace::at,
};

/// Our own clients of this name, and what each started under the same one.
pub(crate) fn clients(program: &str) -> Vec<u32> {
    let mut found = Vec::new();
    let mut waiting = vec![std::process::id()];
    while let Some(parent) = waiting.pop() {
        for child in children(parent) {
            if name(child) == program {
                found.push(child);
                waiting.push(child);
            }
        }
    }
    found
}

/// Kills the client in the middle of a command: the whole tree over there is gone, and the next call
/// connects anew.
pub(crate) async fn is_killed(fixture: &RemoteFixture, program: &str) {
    let mut child = start_hidden(fixture).await;
    let ours = clients(program);
    assert!(!ours.is_empty());
    ours.into_iter().for_each(kill);
    let error = child.wait().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    all_are_gone(&fixture.place.0.root).await;
    fixture.operations.files.stat(&at(".")).await.unwrap();
    assert!(!clients(program).is_empty());
}

/// Lets go of everything in the middle of a command: the tree over there is gone, and so is the client.
pub(crate) async fn is_let_go(fixture: RemoteFixture, program: &str) {
    let child = start_hidden(&fixture).await;
    let root = fixture.place.0.root.clone();
    drop(child);
    drop(fixture.operations);
    all_are_gone(&root).await;
    until_none("no client", || clients(program)).await;
}
