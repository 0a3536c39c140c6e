//! A call that a grant allows looks at no other grant, however many there are.

use haft::prelude::*;
use haft_contract::host::{Grant, GrantId, GrantScope, Ledger as _, Timestamp};

const GRANTS: usize = 200;

#[tokio::test]
async fn a_granted_call_reads_the_grant_it_used_and_no_other() {
    let (workspace, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let haft = Haft::open(workspace.path())
        .data_dir(data.path())
        .build()
        .await
        .unwrap();
    let who = haft.principal();
    for number in 0..GRANTS {
        let grant = Grant {
            id: GrantId::new(),
            tenant: who.tenant.clone(),
            user: who.user.clone(),
            rule: format!("write(dir{number}/**)"),
            scope: GrantScope::Agent(who.agent.clone()),
            until: None,
            uses_left: Some(20),
            made_by: "ada".to_owned(),
            made_at: Timestamp(0),
            cause: None,
        };
        haft.ledger().grants().add(grant).await.unwrap();
    }
    let write = async |path: String| {
        let outcome = haft
            .call("write", json!({ "path": path, "content": "x" }))
            .await;
        assert_eq!(outcome.terminal, Terminal::Succeeded, "{outcome:?}");
        assert_eq!(outcome.facts.decision.as_ref().unwrap().grants.len(), 1);
    };
    let read = || haft.ledger().counters().grants_read;
    write("dir7/first.txt".to_owned()).await;
    assert_eq!(read(), 200);
    for number in 0..10 {
        write(format!("dir{number}/a.txt")).await;
    }
    // After each of these eleven uses the next decision read the grant that was used.
    assert_eq!(read(), 210);
    let elsewhere = json!({ "path": "elsewhere/a.txt", "content": "x" });
    let outcome = haft.call("write", elsewhere).await;
    assert_eq!(outcome.terminal, Terminal::Denied, "{outcome:?}");
    haft.close().await.unwrap();
}
