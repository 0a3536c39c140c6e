//! Calls, events, sessions, search and file versions, through the contract's traits.

use std::sync::Arc;

use haft_contract::{
    Access, CallEvent, Effects, Terminal, WorkPath, WorkspaceId,
    host::{
        ArtifactId, CallOutcome, CallQuery, Durability, History as _, Ledger as _, Verification,
    },
    ops::FileVersion,
};
use serde_json::json;

use crate::support::{
    Fixture, NOW, at, outcome, planned, principal, request, settled, started, tenant, whole_call,
};

fn query() -> CallQuery {
    CallQuery {
        limit: 20,
        ..CallQuery::default()
    }
}

#[tokio::test]
async fn a_call_is_recorded_from_its_request_to_its_settlement() {
    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    let (id, record) = whole_call(&ledger, "s1", "done").await;
    record.settled().await.unwrap();
    let call = ledger.call(&tenant(), id).await.unwrap().unwrap();
    assert_eq!(call.terminal, Some(Terminal::Succeeded));
    assert_eq!(call.tool.as_deref(), Some("builtin/sample"));
    assert_eq!(call.summary, "src/lib.rs");
    assert_eq!(call.settled, Some(NOW));
    let events = ledger.events(&tenant(), id).await.unwrap();
    let kinds: Vec<_> = events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["opened", "planned", "started", "settled"]);
    assert_eq!(events[0].body["principal"]["session"], "s1");
}

#[tokio::test]
async fn only_the_first_settlement_counts() {
    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    let (id, record) = whole_call(&ledger, "s1", "first").await;
    record.settle(vec![settled(id, Terminal::Failed, "second")]);
    record.settled().await.unwrap();
    let late = vec![settled(id, Terminal::Failed, "third")];
    record.append(late, Durability::Durable).await.unwrap();
    let call = ledger.call(&tenant(), id).await.unwrap().unwrap();
    assert_eq!(call.terminal, Some(Terminal::Succeeded));
    assert_eq!(ledger.counters().second_settlements, 1);
    let events = ledger.events(&tenant(), id).await.unwrap();
    assert_eq!(events.iter().filter(|e| e.kind == "settled").count(), 1);
}

#[tokio::test]
async fn a_second_call_with_the_same_id_leaves_the_first_untouched() {
    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    let (id, record) = whole_call(&ledger, "s1", "first").await;
    record.settled().await.unwrap();
    let mut again = request("s2", "other", json!({}));
    again.id = id;
    let second = ledger.open(&again, NOW).await.unwrap();
    second.settle(vec![settled(id, Terminal::Failed, "second")]);
    second.settled().await.unwrap();
    let call = ledger.call(&tenant(), id).await.unwrap().unwrap();
    assert_eq!(call.session.as_str(), "s1");
    assert_eq!(call.terminal, Some(Terminal::Succeeded));
    assert_eq!(ledger.events(&tenant(), id).await.unwrap().len(), 4);
}

#[tokio::test]
async fn a_dropped_record_is_settled_as_what_is_known_of_it() {
    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    let never = request("s1", "sample", json!({}));
    drop(ledger.open(&never, NOW).await.unwrap());
    let begun = request("s1", "sample", json!({}));
    let record = ledger.open(&begun, NOW).await.unwrap();
    record
        .append(vec![started(begun.id)], Durability::Durable)
        .await
        .unwrap();
    drop(record);
    for (id, expect) in [
        (never.id, Terminal::Cancelled),
        (begun.id, Terminal::Unknown),
    ] {
        let call = ledger.call(&tenant(), id).await.unwrap().unwrap();
        assert_eq!(call.terminal, Some(expect));
    }
}

#[tokio::test]
async fn calls_are_listed_newest_first_and_filtered() {
    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    let mut ids = Vec::new();
    for index in 0..6 {
        let session = if index % 2 == 0 { "even" } else { "odd" };
        let (id, record) = whole_call(&ledger, session, &format!("number{index}")).await;
        record.settled().await.unwrap();
        ids.push(id);
    }
    let listed = |query: CallQuery| {
        let ledger = ledger.clone();
        async move {
            let calls = ledger.calls(&tenant(), &query).await.unwrap();
            calls.into_iter().map(|call| call.id).collect::<Vec<_>>()
        }
    };
    let all = listed(query()).await;
    assert_eq!(all, ids.iter().rev().copied().collect::<Vec<_>>());
    let even = principal("even").session.clone();
    let of_session = CallQuery {
        session: Some(even),
        limit: 2,
        ..query()
    };
    assert_eq!(listed(of_session).await, [ids[4], ids[2]]);
    let fourth = ledger.call(&tenant(), ids[3]).await.unwrap().unwrap();
    let after = CallQuery {
        after: Some(fourth.position),
        ..query()
    };
    assert_eq!(listed(after).await, [ids[4], ids[5]]);
    let failed = CallQuery {
        outcome: Some(CallOutcome::Ended(Terminal::Failed)),
        ..query()
    };
    assert!(listed(failed).await.is_empty());
    let sessions = ledger.sessions(&tenant(), &[], 10).await.unwrap();
    let counts: Vec<_> = sessions.iter().map(|s| (s.id.as_str(), s.calls)).collect();
    assert_eq!(counts, [("even", 3), ("odd", 3)]);
}

#[tokio::test]
async fn search_finds_commands_inputs_and_output_of_this_tenant_only() {
    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    let asked = request("s1", "bash", json!({"command": "cargo test --workspace"}));
    let record = ledger.open(&asked, NOW).await.unwrap();
    let shell = Access::shell("cargo test --workspace", WorkPath::root());
    record
        .append(
            vec![planned(asked.id, Effects::UNKNOWN, shell)],
            Durability::Queued,
        )
        .await
        .unwrap();
    record.settle(vec![settled(
        asked.id,
        Terminal::Failed,
        "error in src/parser.rs",
    )]);
    record.settled().await.unwrap();
    let call = ledger.call(&tenant(), asked.id).await.unwrap().unwrap();
    assert_eq!(call.summary, "cargo test --workspace: it went wrong");
    let found = |tenant: &'static str, words: &'static str| {
        let ledger = ledger.clone();
        async move {
            let tenant = tenant.parse().unwrap();
            let query = CallQuery {
                search: Some(words.to_owned()),
                ..query()
            };
            ledger.calls(&tenant, &query).await.unwrap().len()
        }
    };
    for words in [
        "cargo",
        "carg",
        "parser.rs",
        "wrong",
        "bash test",
        "src/parser",
    ] {
        assert_eq!(found("local", words).await, 1, "{words}");
        assert_eq!(found("other", words).await, 0, "{words}");
    }
    // What is typed is words, never query syntax.
    for words in [
        "absent",
        "cargo OR absent",
        "\"",
        "tenant : x",
        "***",
        "cargo NOT test (",
    ] {
        assert_eq!(found("local", words).await, 0, "{words}");
    }
}

#[tokio::test]
async fn the_first_and_the_last_words_of_a_long_output_are_found() {
    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    let middle = "word ".repeat(4_000);
    let output = format!("alpha {middle} needle {middle} omega");
    let (_, record) = whole_call(&ledger, "s1", "input").await;
    record.settled().await.unwrap();
    let asked = request("s1", "sample", json!({}));
    let record = ledger.open(&asked, NOW).await.unwrap();
    record.settle(vec![settled(asked.id, Terminal::Succeeded, &output)]);
    for (words, calls) in [
        ("alpha", 1),
        ("omega", 1),
        ("alpha omega", 1),
        ("needle", 0),
    ] {
        let query = CallQuery {
            search: Some(words.to_owned()),
            ..query()
        };
        let found = ledger.calls(&tenant(), &query).await.unwrap();
        assert_eq!(found.len(), calls, "{words}");
    }
}

#[tokio::test]
async fn an_id_that_is_taken_refuses_that_call_alone_in_its_group() {
    const CALLS: usize = 11;
    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    let (taken, record) = whole_call(&ledger, "s1", "first").await;
    record.settled().await.unwrap();
    for number in 0..CALLS {
        let mut asked = request("s1", "sample", json!({"number": number}));
        if number == 5 {
            asked.id = taken;
        }
        let record = ledger.open(&asked, NOW).await.unwrap();
        record.settle(vec![settled(asked.id, Terminal::Succeeded, "done")]);
    }
    let calls = ledger.calls(&tenant(), &query()).await.unwrap();
    assert_eq!(calls.len(), CALLS);
    assert_eq!(calls.iter().filter(|call| call.id == taken).count(), 1);
    let verified = ledger.verify(&tenant()).await.unwrap();
    let records = 2 + (CALLS as u64 - 1);
    assert_eq!(verified, Verification::Intact { records });
}

#[tokio::test]
async fn seen_versions_survive_a_restart_and_belong_to_a_session() {
    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    let path = WorkPath::relative("a.txt").unwrap();
    for version in ["v1", "v2"] {
        ledger.note_seen(
            &principal("s1"),
            &WorkspaceId::local(),
            &path,
            &FileVersion::new(version),
        );
    }
    ledger.close().await.unwrap();
    let ledger = fixture.open().await;
    let seen = ledger
        .last_seen(&principal("s1"), &WorkspaceId::local(), &path)
        .await
        .unwrap();
    assert_eq!(seen, Some(FileVersion::new("v2")));
    let other = ledger
        .last_seen(&principal("s2"), &WorkspaceId::local(), &path)
        .await
        .unwrap();
    assert_eq!(other, None);
}

#[tokio::test]
async fn spilled_output_is_found_by_its_own_session_only() {
    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    let asked = request("s1", "bash", json!({}));
    let record = ledger.open(&asked, NOW).await.unwrap();
    let artifact = ArtifactId {
        hash: [7; 32],
        bytes: 70_000,
    };
    let mut outcome = outcome(asked.id, Terminal::Succeeded, "cut");
    outcome.facts.artifact = Some(artifact);
    let outcome = Arc::new(outcome);
    record.settle(vec![at(asked.id, CallEvent::Settled { outcome })]);
    let found = ledger
        .spilled(&principal("s1"), &asked.workspace, asked.id)
        .await
        .unwrap();
    assert_eq!(found, Some(artifact));
    let other = ledger
        .spilled(&principal("s2"), &asked.workspace, asked.id)
        .await
        .unwrap();
    assert_eq!(other, None);
}
