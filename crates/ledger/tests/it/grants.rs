//! Many grants: using one reads no other, and another process's changes are read without the rest.

use std::time::Duration;

use haft_contract::{
    Terminal, WorkspaceId,
    host::{Durability, Grant, GrantId, GrantScope, Ledger as _, LedgerError, LedgerErrorKind},
};
use haft_ledger::{LedgerOptions, StoredLedger};
use haft_testkit::{EveryGrant, PATIENCE};
use serde_json::json;

use crate::support::{Fixture, NOW, principal, request, settled, start_with, tenant};

fn grant(number: usize, uses_left: Option<u32>) -> Grant {
    let mine = principal("s1");
    Grant {
        id: GrantId::new(),
        tenant: tenant(),
        user: mine.user.clone(),
        rule: format!("bash(make target{number})"),
        scope: GrantScope::Agent(mine.agent.clone()),
        until: None,
        uses_left,
        made_by: "ada".to_owned(),
        made_at: NOW,
        cause: None,
    }
}

async fn add(ledger: &StoredLedger, count: usize, uses_left: Option<u32>) -> Vec<Grant> {
    let grants: Vec<Grant> = (0..count).map(|number| grant(number, uses_left)).collect();
    for grant in &grants {
        ledger.grants().add(grant.clone()).await.unwrap();
    }
    grants
}

async fn holding(ledger: &StoredLedger) -> Vec<Grant> {
    let (mine, here) = (principal("s1"), WorkspaceId::local());
    let store = ledger.grants();
    store.holding(&mine, &here, NOW, &EveryGrant).await.unwrap()
}

/// How many uses are left of a grant that holds.
async fn uses_left(ledger: &StoredLedger, id: GrantId) -> Option<u32> {
    let holding = holding(ledger).await;
    let found = holding.iter().find(|grant| grant.id == id);
    found.and_then(|grant| grant.uses_left)
}

async fn use_once(ledger: &StoredLedger, id: GrantId) -> Result<(), LedgerError> {
    let asked = request("s1", "sample", json!({}));
    let record = ledger.open(&asked, NOW).await.unwrap();
    let events = vec![start_with(asked.id, None, &[id])];
    record.append(events, Durability::Durable).await?;
    record.settle(vec![settled(asked.id, Terminal::Succeeded, "")]);
    record.settled().await
}

#[tokio::test]
async fn using_a_grant_reads_no_other() {
    const MANY: usize = 300;
    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    let counted = add(&ledger, MANY, Some(5)).await;
    let unlimited = add(&ledger, 1, None).await;
    let read = || ledger.counters().grants_read;
    assert_eq!(holding(&ledger).await.len(), MANY + 1);
    let all = read();
    assert_eq!(all, 301);
    for _ in 0..20 {
        use_once(&ledger, unlimited[0].id).await.unwrap();
        assert_eq!(holding(&ledger).await.len(), MANY + 1);
    }
    assert_eq!(read() - all, 0);
    for grant in &counted[..20] {
        use_once(&ledger, grant.id).await.unwrap();
        assert_eq!(uses_left(&ledger, grant.id).await, Some(4));
    }
    assert_eq!(read() - all, 20);
    // One that is added or removed, and one that can no longer be used.
    let one_more = add(&ledger, 1, Some(1)).await;
    assert_eq!(holding(&ledger).await.len(), MANY + 2);
    use_once(&ledger, one_more[0].id).await.unwrap();
    let refused = use_once(&ledger, one_more[0].id).await.unwrap_err();
    assert_eq!(refused.kind(), LedgerErrorKind::Conflict);
    assert_eq!(holding(&ledger).await.len(), MANY + 1);
    let store = ledger.grants();
    assert!(store.revoke(&tenant(), counted[0].id).await.unwrap());
    assert_eq!(holding(&ledger).await.len(), MANY);
    assert!(read() - all <= 24, "{}", read() - all);
}

#[tokio::test]
async fn another_processs_changes_are_read_without_the_rest() {
    const MANY: usize = 300;
    let fixture = Fixture::new();
    let (here, there) = (fixture.open().await, fixture.open().await);
    let grants = add(&there, MANY, Some(5)).await;
    assert_eq!(holding(&here).await.len(), MANY);
    let all = here.counters().grants_read;
    use_once(&there, grants[7].id).await.unwrap();
    until(async || uses_left(&here, grants[7].id).await == Some(4)).await;
    let made = add(&there, 2, None).await;
    until(async || holding(&here).await.len() == MANY + 2).await;
    for gone in [&grants[7], &made[0]] {
        there.grants().revoke(&tenant(), gone.id).await.unwrap();
    }
    until(async || holding(&here).await.len() == MANY).await;
    assert_eq!(here.counters().grants_read - all, 3);
}

/// Waits for something another process does.
async fn until(mut happened: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !happened().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap();
}

#[tokio::test]
async fn grants_that_have_ended_make_room() {
    let fixture = Fixture::new();
    let options = LedgerOptions {
        max_grants: 3,
        ..fixture.options()
    };
    let (ledger, _) = StoredLedger::open(options).await.unwrap();
    let kept = add(&ledger, 2, None).await;
    let once = add(&ledger, 1, Some(1)).await;
    let store = ledger.grants();
    let refused = store.add(grant(3, None)).await.unwrap_err();
    assert_eq!(refused.kind(), LedgerErrorKind::LimitExceeded);
    use_once(&ledger, once[0].id).await.unwrap();
    store.add(grant(4, None)).await.unwrap();
    let refused = store.add(grant(5, None)).await.unwrap_err();
    assert_eq!(refused.kind(), LedgerErrorKind::LimitExceeded);
    assert!(store.revoke(&tenant(), kept[0].id).await.unwrap());
    store.add(grant(6, None)).await.unwrap();
    assert_eq!(holding(&ledger).await.len(), 3);
}
