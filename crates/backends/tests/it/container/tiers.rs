//! Commands are confined in the container as they are on this machine, in the tiers that it allows;
//! the others are refused.

use haft_contract::{
    ErrorKind,
    access::Command,
    ops::{Spawn, Tier},
};

use super::engine::fixture;
use crate::{remote::tiers::sandboxes_hold, workspace::at};

#[tokio::test]
#[ignore = "ci: needs Podman"]
async fn the_sandbox_holds_in_the_container() {
    sandboxes_hold(&fixture().await, &[Tier::T1]).await;
}

#[tokio::test]
#[ignore = "ci: needs Podman"]
async fn a_tier_that_the_container_does_not_allow_is_refused() {
    let fixture = fixture().await;
    assert!(!fixture.operations.tiers.contains(&Tier::T2));
    let text = Command::Shell("touch made".to_owned());
    let spawn = Spawn::new(text, at("."), Tier::T2);
    let error = fixture
        .operations
        .processes
        .spawn(spawn)
        .await
        .err()
        .unwrap();
    assert_eq!(error.kind(), ErrorKind::TierUnavailable, "{error}");
    assert!(!fixture.place.0.root.join("made").exists());
}
