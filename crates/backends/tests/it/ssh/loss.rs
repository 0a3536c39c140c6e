//! A connection that is killed in the middle of a command, on either side: the whole remote tree
//! is gone within two seconds, and the next call connects anew.

use haft_contract::ErrorKind;
use haft_testkit::until_none;

use super::server::{SshServer, children, fixture, kill, name, over};
use crate::{
    remote::child::{all_are_gone, start_hidden},
    workspace::at,
};

/// Our own `ssh`.
fn clients() -> Vec<u32> {
    let all = children(std::process::id());
    all.into_iter().filter(|pid| name(*pid) == "ssh").collect()
}

#[tokio::test]
#[ignore = "ci: needs OpenSSH"]
async fn when_the_ssh_program_is_killed_the_remote_tree_is_gone() {
    let fixture = fixture().await;
    let mut child = start_hidden(&fixture).await;
    let ours = clients();
    assert_eq!(ours.len(), 1);
    ours.into_iter().for_each(kill);
    let error = child.wait().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    all_are_gone(&fixture.place.0.root).await;
    // The next call connects anew.
    fixture.operations.files.stat(&at(".")).await.unwrap();
    assert_eq!(clients().len(), 1);
}

#[tokio::test]
#[ignore = "ci: needs OpenSSH"]
async fn when_the_servers_session_is_killed_the_remote_tree_is_gone() {
    let server = SshServer::start();
    server.install_helper();
    // Whoever asked whether it listens may not have gone yet.
    until_none("no session", || server.sessions()).await;
    let fixture = over(server).await;
    let mut child = start_hidden(&fixture).await;
    let sessions = fixture.kept::<SshServer>().sessions();
    assert!(!sessions.is_empty());
    sessions.into_iter().for_each(kill);
    let error = child.wait().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    all_are_gone(&fixture.place.0.root).await;
    fixture.operations.files.stat(&at(".")).await.unwrap();
}

/// Nothing of it stays behind when Haft lets go.
#[tokio::test]
#[ignore = "ci: needs OpenSSH"]
async fn letting_go_ends_the_ssh_program_and_the_remote_tree() {
    let fixture = fixture().await;
    let child = start_hidden(&fixture).await;
    let root = fixture.place.0.root.clone();
    drop(child);
    drop(fixture.operations);
    all_are_gone(&root).await;
    until_none("no client", clients).await;
}
