//! AU-06: a store that cannot be written refuses calls, keeps what it took, and comes back.

use haft_contract::host::{CallQuery, History as _, Verification};

use crate::{
    child,
    support::{Fixture, tenant},
};

#[tokio::test]
async fn au_06_a_full_disk_refuses_calls_until_there_is_room() {
    let fixture = Fixture::new();
    // Soft limit of about 1 MB for any file; a write beyond it is an error, not a signal.
    let limited = "trap '' XFSZ; ulimit -S -f 2000;";
    let child = child::start("disk_full", &fixture.directory(), Some(limited));
    assert!(child.ended_well());
    let (ledger, recovery) = fixture.recover().await;
    assert!(recovery.is_empty());
    let query = CallQuery {
        limit: 10_000,
        ..CallQuery::default()
    };
    let calls = ledger.calls(&tenant(), &query).await.unwrap();
    assert!(calls.iter().all(|call| call.terminal.is_some()));
    assert_eq!(calls[0].session.as_str(), "after");
    let verified = ledger.verify(&tenant()).await.unwrap();
    assert!(matches!(verified, Verification::Intact { .. }));
}
