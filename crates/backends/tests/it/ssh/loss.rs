//! A connection that is killed in the middle of a command, on either side: the whole remote tree
//! is gone within two seconds, and the next call connects anew.

use haft_contract::ErrorKind;
use haft_testkit::until_none;

use super::server::{SshServer, fixture, over};
use crate::{
    processes::kill,
    remote::{
        child::{all_are_gone, start_hidden},
        client_program::{clients, is_killed, is_let_go},
    },
    workspace::at,
};

#[tokio::test]
#[ignore = "ci: needs OpenSSH"]
async fn when_the_ssh_program_is_killed_the_remote_tree_is_gone() {
    is_killed(&fixture().await, "ssh").await;
    assert_eq!(clients("ssh").len(), 1);
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
    is_let_go(fixture().await, "ssh").await;
}
