//! Commands are confined on the other machine as they are on this one.
//!
//! Only T1 here: the server of these tests runs in a user namespace, in which what belongs to root
//! belongs to nobody, and a bubblewrap that is not root's is rightly not used.
//! `remote/tiers.rs` does the same with T2, over pipes.

use haft_contract::ops::Tier;

use super::server::fixture;
use crate::{
    processes::kill,
    remote::{
        child::all_are_gone,
        client_program::clients,
        tiers::{sandboxes_hold, start_sandbox},
    },
};

#[tokio::test]
#[ignore = "ci: needs OpenSSH"]
async fn the_sandbox_holds_on_the_other_machine() {
    sandboxes_hold(&fixture().await, &[Tier::T1]).await;
}

#[tokio::test]
#[ignore = "ci: needs OpenSSH"]
async fn a_sandbox_is_gone_when_its_connection_is() {
    let fixture = fixture().await;
    let _child = start_sandbox(&fixture, Tier::T1).await;
    clients("ssh").into_iter().for_each(kill);
    all_are_gone(&fixture.place.0.root).await;
}
