//! Going through many recorded calls: deciding about them again, undoing what they did.

use haft_contract::{
    CallEvent, CallId, Terminal,
    event::RecordedEvent,
    host::{ApprovalAnswer, ArtifactId, Durability, ReplayableCall, Timestamp},
    ops::FileVersion,
};

use super::{
    LedgerFixture,
    script::{happened, open, record, record_at, request, second, settled},
    write::local,
};
use crate::{
    principal,
    principal::in_tenant,
    suite::fixture::{at, works},
};

/// Calls come oldest first, starting at a moment, in batches that skip nothing.
pub async fn calls_are_replayed_in_batches(fixture: impl LedgerFixture) {
    let (mine, theirs) = (principal(), in_tenant("elsewhere"));
    let mut ids = Vec::new();
    for number in 0..7 {
        let command = format!("echo {number}");
        let opened = second(number);
        ids.push(record_at(&fixture, &mine, &command, Terminal::Succeeded, opened).await);
        record_at(&fixture, &theirs, &command, Terminal::Succeeded, opened).await;
    }
    let mut replayed: Vec<ReplayableCall> = Vec::new();
    loop {
        let after = replayed.last().map(|last| last.call.position);
        let batch = replayable(&fixture, second(2), after, 2).await;
        if batch.is_empty() {
            break;
        }
        assert!(batch.len() <= 2);
        replayed.extend(batch);
    }
    let found: Vec<CallId> = replayed.iter().map(|replayed| replayed.call.id).collect();
    assert_eq!(found, ids[2..]);
    for replayed in &replayed {
        assert_eq!(replayed.principal, mine);
    }
}

/// A call comes with its request, its plan, the decision and a person's answer.
pub async fn a_replayed_call_has_what_was_decided(fixture: impl LedgerFixture) {
    let asked = request(&principal(), "cargo test");
    let record = open(&fixture, &asked, Durability::Queued).await;
    let answer = Box::new(ApprovalAnswer::Refused {
        by: "ada".to_owned(),
        reason: Some("not today".to_owned()),
    });
    let answered = vec![happened(asked.id, CallEvent::ApprovalAnswered { answer })];
    works("append", record.append(answered, Durability::Queued).await);
    record.settle(settled(asked.id, Terminal::Denied, ""));
    works("settled", record.settled().await);
    let bare = request(&principal(), "nothing");
    let never_planned = works("open", fixture.ledger().open(&bare, second(0)).await);

    let calls = replayable(&fixture, second(0), None, 10).await;
    let [whole, bare] = &calls[..] else {
        panic!("{calls:?}");
    };
    assert_eq!(whole.call.id, asked.id);
    assert_eq!(whole.opened["tool"], "bash");
    assert!(whole.opened.to_string().contains("cargo test"));
    let planned = whole.planned.as_ref().expect("a plan");
    assert_eq!(planned["tool"], "builtin/bash");
    let decided = whole.decided.as_ref().expect("a decision");
    assert_eq!(decided["verdict"], "allow");
    let answered = whole.answered.as_ref().expect("an answer");
    assert_eq!(answered["answer"], "refused");
    assert_eq!(answered["reason"], "not today");
    assert_eq!(
        (&bare.planned, &bare.decided, &bare.answered),
        (&None, &None, &None)
    );
    drop(never_planned);
}

/// Changes to files and rows come back as they happened, for the requested calls and no others.
pub async fn changes_come_back_as_they_happened(fixture: impl LedgerFixture) {
    let artifact = ArtifactId {
        hash: [7; 32],
        bytes: 12,
    };
    let changes = |name: &str| {
        [
            CallEvent::PreimageKept {
                path: at(name),
                artifact: Some(artifact),
                before: Some(FileVersion::new("v1")),
                mode: Some(0o640),
            },
            CallEvent::FileChanged {
                path: at(name),
                after: Some(FileVersion::new("v2")),
                artifact: Some(artifact),
            },
            CallEvent::PreimageKept {
                path: at("new"),
                artifact: None,
                before: None,
                mode: None,
            },
            CallEvent::FileChanged {
                path: at("new"),
                after: None,
                artifact: None,
            },
            CallEvent::RowsChanged {
                rows: 2,
                writes: vec!["crm.orders.status".to_owned()],
                reads: vec!["crm.orders.id".to_owned()],
                artifact: Some(artifact),
                missed: None,
            },
            CallEvent::RowsChanged {
                rows: 1,
                writes: vec!["crm.log.*".to_owned()],
                reads: Vec::new(),
                artifact: None,
                missed: Some("no primary key".to_owned()),
            },
            CallEvent::ChangesScanned {
                files: 3,
                missed: Some("target is ignored".to_owned()),
            },
        ]
    };
    let mut expected: Vec<RecordedEvent> = Vec::new();
    let mut ids = Vec::new();
    for name in ["src/a.rs", "src/b.rs", "src/c.rs"] {
        let asked = request(&principal(), name);
        let record = open(&fixture, &asked, Durability::Queued).await;
        let events: Vec<_> = changes(name).map(|event| happened(asked.id, event)).into();
        if name != "src/b.rs" {
            expected.extend(events.iter().cloned());
            ids.push(asked.id);
        }
        works("append", record.append(events, Durability::Queued).await);
        record.settle(settled(asked.id, Terminal::Succeeded, ""));
        works("settled", record.settled().await);
    }
    let history = fixture.history();
    // In another order, and with an unknown id.
    let asked = [ids[1], CallId::new(), ids[0], ids[1]];
    let found = works("changes", history.changes(&local(), &asked).await);
    assert_eq!(found, expected);
    let elsewhere = in_tenant("elsewhere");
    let theirs = works("changes", history.changes(&elsewhere.tenant, &ids).await);
    assert_eq!(theirs, []);
    let untouched = record(&fixture, &principal(), "ls", Terminal::Succeeded).await;
    assert_eq!(
        works("changes", history.changes(&local(), &[untouched]).await),
        []
    );
}

async fn replayable(
    fixture: &impl LedgerFixture,
    since: Timestamp,
    after: Option<u64>,
    limit: usize,
) -> Vec<ReplayableCall> {
    let history = fixture.history();
    works(
        "replayable",
        history.replayable(&local(), since, after, limit).await,
    )
}
