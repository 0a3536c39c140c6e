//! Group commit: calls that wait for the disk at the same time wait for it together.

use haft_contract::host::{History as _, Verification};

use crate::support::{Fixture, tenant, whole_call};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_wait_at_once_share_their_commits() {
    const CALLS: u64 = 400;
    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    let calls: Vec<_> = (0..CALLS)
        .map(|_| {
            let ledger = ledger.clone();
            tokio::spawn(async move {
                let (_, record) = whole_call(&ledger, "s1", "together").await;
                record.settled().await.unwrap();
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    let counters = ledger.counters();
    assert_eq!(counters.records, CALLS * 2);
    assert!(
        counters.commits < CALLS / 4,
        "{CALLS} calls took {} commits",
        counters.commits
    );
    let verified = ledger.verify(&tenant()).await.unwrap();
    assert_eq!(verified, Verification::Intact { records: CALLS * 2 });
}
