//! Opening, appending, settling, and what survives.

use std::sync::Arc;

use haft_contract::{
    AgentId, CallEvent, CallId, Label, Labels, Principal, Progress, SessionKind, TenantId,
    Terminal, UserId, WorkspaceId,
    event::RecordedEvent,
    host::{Durability, LedgerErrorKind, StoredCall, Verification},
    ops::{FileVersion, Stream},
};
use serde_json::Value;

use super::{
    LedgerFixture,
    script::{
        START, happened, open, record, request, second, settled, spilled, started, started_after,
        started_of,
    },
};
use crate::{
    principal,
    principal::{in_session, in_tenant},
    suite::fixture::{at, works},
};

/// How many calls are open at once in the cases about many.
const MANY: usize = 500;

/// The request, the caller, the tool, the time, and the outcome.
pub async fn a_settled_call_is_recorded(fixture: impl LedgerFixture) {
    let principal = principal();
    let id = record(&fixture, &principal, "cargo test", Terminal::Failed).await;
    let call = stored(&fixture, id).await.expect("the call");
    assert_eq!(call.id, id);
    assert_eq!(
        (call.user.as_str(), call.agent.as_str()),
        ("tester", "agent")
    );
    assert_eq!(
        (call.session, call.session_kind),
        (principal.session.clone(), principal.session_kind)
    );
    assert_eq!(
        (call.asked_tool.as_str(), call.tool.as_deref()),
        ("bash", Some("builtin/bash"))
    );
    assert_eq!((call.opened, call.settled), (START, Some(START)));
    assert_eq!(call.terminal, Some(Terminal::Failed));
    assert!(!call.summary.is_empty());
}

/// A call that is still open is listed, without an outcome.
pub async fn an_open_call_has_no_outcome(fixture: impl LedgerFixture) {
    let request = request(&principal(), "sleep 10");
    let _record = open(&fixture, &request, Durability::Durable).await;
    let call = stored(&fixture, request.id).await.expect("the call");
    assert_eq!((call.terminal, call.settled), (None, None));
}

/// In the order they were appended, with their own times, in one increasing sequence.
pub async fn events_keep_their_order_and_time(fixture: impl LedgerFixture) {
    let request = request(&principal(), "x");
    let record = works("open", fixture.ledger().open(&request, START).await);
    let at_second = |(index, event): (usize, RecordedEvent)| RecordedEvent {
        at: second(index as u64 + 1),
        ..event
    };
    let events: Vec<RecordedEvent> = started(request.id, "x")
        .into_iter()
        .enumerate()
        .map(at_second)
        .collect();
    works(
        "append",
        record
            .append(events[..2].to_vec(), Durability::Queued)
            .await,
    );
    works(
        "append",
        record
            .append(events[2..].to_vec(), Durability::Durable)
            .await,
    );
    record.settle(settled(request.id, Terminal::Succeeded, "x"));
    works("settled", record.settled().await);
    let tenant = local();
    let stored = works(
        "events",
        fixture.history().events(&tenant, request.id).await,
    );
    // Whether opening writes its own record is up to the ledger.
    let after: Vec<_> = stored
        .iter()
        .filter(|event| event.kind != "opened")
        .collect();
    let kinds: Vec<&str> = after.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(
        kinds,
        [
            "resolved",
            "validated",
            "planned",
            "decided",
            "admitted",
            "started",
            "settled"
        ]
    );
    let times: Vec<_> = after.iter().take(6).map(|event| event.at).collect();
    assert_eq!(times, (1..=6).map(second).collect::<Vec<_>>());
    assert!(stored.is_sorted_by(|a, b| a.sequence < b.sequence));
    assert!(after.iter().any(|event| event.body != Value::Null));
}

/// Progress and live output are for watchers, not for the record.
pub async fn passing_events_are_not_kept(fixture: impl LedgerFixture) {
    let request = request(&principal(), "x");
    let record = open(&fixture, &request, Durability::Queued).await;
    let passing = [
        CallEvent::Running,
        CallEvent::Progress(Box::new(Progress::of(1, None, "half").detail(Value::Null))),
        CallEvent::Output {
            stream: Stream::Stdout,
            text: "live".to_owned(),
        },
        CallEvent::RunEnded,
    ];
    let passing = passing.map(|event| happened(request.id, event)).into();
    works("append", record.append(passing, Durability::Durable).await);
    let kinds = kinds(&fixture, request.id).await;
    for kind in ["running", "progress", "output", "run_ended"] {
        assert!(
            !kinds.iter().any(|stored| stored == kind),
            "{kind} was kept"
        );
    }
}

/// Promise 3: never two outcomes.
pub async fn only_the_first_settlement_counts(fixture: impl LedgerFixture) {
    let request = request(&principal(), "x");
    let record = open(&fixture, &request, Durability::Queued).await;
    record.settle(settled(request.id, Terminal::Succeeded, "first"));
    record.settle(settled(request.id, Terminal::Cancelled, "second"));
    works("settled", record.settled().await);
    record.settle(settled(request.id, Terminal::Failed, "third"));
    works("flush", fixture.ledger().flush().await);
    let call = stored(&fixture, request.id).await.expect("the call");
    assert_eq!(call.terminal, Some(Terminal::Succeeded));
    let kinds = kinds(&fixture, request.id).await;
    assert_eq!(kinds.iter().filter(|kind| *kind == "settled").count(), 1);
}

/// A late event is refused or dropped; the settlement stays last.
pub async fn nothing_follows_a_settlement(fixture: impl LedgerFixture) {
    let request = request(&principal(), "x");
    let record = open(&fixture, &request, Durability::Queued).await;
    record.settle(settled(request.id, Terminal::Succeeded, "x"));
    works("settled", record.settled().await);
    let late = happened(
        request.id,
        CallEvent::FileChanged {
            path: at("late.txt"),
            after: None,
            artifact: None,
        },
    );
    let _ = record.append(vec![late], Durability::Durable).await;
    works("flush", fixture.ledger().flush().await);
    let kinds = kinds(&fixture, request.id).await;
    assert_eq!(kinds.last().map(String::as_str), Some("settled"));
}

/// Opening reserved the room: many settlements at once are all accepted.
pub async fn settling_never_lacks_room(fixture: impl LedgerFixture) {
    let principal = principal();
    let ledger = fixture.ledger();
    let mut records = Vec::new();
    for number in 0..MANY {
        let request = request(&principal, &format!("echo {number}"));
        let record = works("open", ledger.open(&request, START).await);
        records.push((request.id, record));
    }
    // No `await` in between: nothing can make room.
    for (id, record) in &records {
        record.settle(settled(*id, Terminal::Succeeded, "x"));
    }
    for (id, record) in &records {
        works("settled", record.settled().await);
        let call = stored(&fixture, *id).await.expect("the call");
        assert_eq!(call.terminal, Some(Terminal::Succeeded));
    }
}

/// Concurrent writers lose nothing and keep the chain intact.
pub async fn many_calls_at_once_are_all_recorded(fixture: impl LedgerFixture) {
    let principal = principal();
    let mut tasks = Vec::new();
    for number in 0..MANY {
        let ledger = fixture.ledger();
        let request = request(&principal, &format!("echo {number}"));
        tasks.push(tokio::spawn(async move {
            let record = works("open", ledger.open(&request, START).await);
            let events = started(request.id, "echo");
            works("append", record.append(events, Durability::Durable).await);
            record.settle(settled(request.id, Terminal::Succeeded, "x"));
            works("settled", record.settled().await);
            request.id
        }));
    }
    for task in tasks {
        let id = works("a task", task.await);
        let call = stored(&fixture, id).await.expect("the call");
        assert_eq!(call.terminal, Some(Terminal::Succeeded));
    }
    let verified = works("verify", fixture.history().verify(&local()).await);
    assert!(
        matches!(verified, Verification::Intact { .. }),
        "{verified:?}"
    );
}

/// Promise 4: an awaited intent is there after a crash.
pub async fn a_durable_append_survives_reopening(mut fixture: impl LedgerFixture) {
    let request = request(&principal(), "rm file");
    let record = open(&fixture, &request, Durability::Durable).await;
    drop(record);
    fixture.reopen().await;
    let kinds = kinds(&fixture, request.id).await;
    assert!(kinds.iter().any(|kind| kind == "started"), "{kinds:?}");
    let call = stored(&fixture, request.id).await.expect("the call");
    assert_eq!(
        (call.asked_tool.as_str(), call.tool.as_deref()),
        ("bash", Some("builtin/bash"))
    );
}

/// An awaited outcome is there after a crash, and does not change.
pub async fn a_settlement_survives_reopening(mut fixture: impl LedgerFixture) {
    let id = record(&fixture, &principal(), "x", Terminal::TimedOut).await;
    fixture.reopen().await;
    let call = stored(&fixture, id).await.expect("the call");
    assert_eq!(call.terminal, Some(Terminal::TimedOut));
    let kinds = kinds(&fixture, id).await;
    assert_eq!(kinds.iter().filter(|kind| *kind == "settled").count(), 1);
}

/// After a flush there is nothing left to lose.
pub async fn flushing_makes_everything_durable(mut fixture: impl LedgerFixture) {
    let request = request(&principal(), "x");
    let record = open(&fixture, &request, Durability::Queued).await;
    record.settle(settled(request.id, Terminal::Succeeded, "x"));
    works("flush", fixture.ledger().flush().await);
    drop(record);
    fixture.reopen().await;
    let call = stored(&fixture, request.id).await.expect("the call");
    assert_eq!(call.terminal, Some(Terminal::Succeeded));
}

/// Promises 3 and 4: an interrupted call ends as unknown, once, however many restarts follow.
pub async fn open_calls_are_unknown_after_reopening(mut fixture: impl LedgerFixture) {
    let request = request(&principal(), "rm file");
    let record = open(&fixture, &request, Durability::Durable).await;
    drop(record);
    for _ in 0..2 {
        fixture.reopen().await;
        let call = stored(&fixture, request.id).await.expect("the call");
        assert_eq!(call.terminal, Some(Terminal::Unknown));
        let kinds = kinds(&fixture, request.id).await;
        assert_eq!(kinds.iter().filter(|kind| *kind == "settled").count(), 1);
    }
    let verified = works("verify", fixture.history().verify(&local()).await);
    assert!(
        matches!(verified, Verification::Intact { .. }),
        "{verified:?}"
    );
}

/// What one session saw, another has not; the newest version counts.
pub async fn a_file_is_seen_per_session(fixture: impl LedgerFixture) {
    let ledger = fixture.ledger();
    let (mine, other) = (in_session("mine"), in_session("other"));
    let path = at("src/lib.rs");
    assert_eq!(
        works("last_seen", ledger.last_seen(&mine, &here(), &path).await),
        None
    );
    for version in ["v1", "v2"] {
        ledger.note_seen(&mine, &here(), &path, &FileVersion::new(version));
    }
    let seen = works("last_seen", ledger.last_seen(&mine, &here(), &path).await);
    assert_eq!(seen, Some(FileVersion::new("v2")));
    assert_eq!(
        works("last_seen", ledger.last_seen(&other, &here(), &path).await),
        None
    );
    assert_eq!(
        works(
            "last_seen",
            ledger.last_seen(&mine, &here(), &at("src")).await
        ),
        None
    );
    let elsewhere = in_tenant("elsewhere");
    assert_eq!(
        works(
            "last_seen",
            ledger.last_seen(&elsewhere, &here(), &path).await
        ),
        None
    );
}

/// The providers of a session's started calls, whichever caller started them, also after a restart.
pub async fn a_session_knows_whose_tools_it_used(mut fixture: impl LedgerFixture) {
    let (mine, other) = (in_session("mine"), in_session("other"));
    let mut somebody = Principal::clone(&mine);
    somebody.agent = AgentId::parse("somebody").expect("an identifier");
    let calls = [
        (&mine, "mcp__a", true),
        (&mine, "mcp__a", true),
        (&mine, "mcp__planned", false),
        (&Arc::new(somebody), "mcp__b", true),
        (&other, "mcp__c", true),
        (&in_tenant("elsewhere"), "mcp__d", true),
    ];
    for (principal, provider, starts) in calls {
        let request = request(principal, "x");
        let record = works("open", fixture.ledger().open(&request, START).await);
        let mut events = started_of(provider, request.id);
        if !starts {
            events.pop();
        }
        works("append", record.append(events, Durability::Durable).await);
    }
    for _ in 0..2 {
        let ledger = fixture.ledger();
        for (session, expect) in [
            (&mine, &["mcp__a", "mcp__b"][..]),
            (&other, &["mcp__c"]),
            (&in_session("new"), &[]),
        ] {
            let used = ledger
                .providers_used(&session.tenant, &session.session, 10)
                .await;
            let mut used = works("used", used);
            used.sort_unstable();
            assert_eq!(used, expect);
        }
        let most = ledger.providers_used(&mine.tenant, &mine.session, 1).await;
        assert_eq!(works("used", most).len(), 1);
        drop(ledger);
        fixture.reopen().await;
    }
}

/// A start that states what its session has read is recorded only if the session has read nothing
/// else by then, and `used_mark` shows whether it has.
pub async fn mc_27_a_start_is_refused_when_its_session_has_read_more(fixture: impl LedgerFixture) {
    let (mine, other) = (in_session("mine"), in_session("other"));
    let ledger = fixture.ledger();
    let mark = |whose: &Principal| ledger.used_mark(&whose.tenant, &whose.session);
    let label = |text: &str| Label::parse(text).expect("a label");
    let a = Labels::NONE.with(label("mcp:a"));
    let both = a.with(label("mcp:b"));
    let anything = Labels::NONE.with(Label::anything());
    let before = mark(&mine);
    for (number, (principal, provider, judged_with, starts)) in [
        (&mine, "builtin", &Labels::NONE, true),
        (&mine, "mcp__a", &Labels::NONE, true),
        (&mine, "builtin", &Labels::NONE, false),
        (&mine, "mcp__a", &Labels::NONE, false),
        (&other, "mcp__b", &Labels::NONE, true),
        (&mine, "builtin", &a, true),
        (&mine, "mcp__b", &a, true),
        (&mine, "mcp__a", &a, false),
        (&mine, "mcp__a", &both, true),
        (&mine, "builtin", &anything, true),
        (&in_tenant("elsewhere"), "builtin", &Labels::NONE, true),
    ]
    .into_iter()
    .enumerate()
    {
        let request = request(principal, "x");
        let record = works("open", ledger.open(&request, START).await);
        let marked = mark(&mine);
        let events = started_after(provider, request.id, judged_with);
        // A start that states what was read waits for the answer, whether it asks to or not.
        let durability = [Durability::Durable, Durability::Queued][number % 2];
        let started = record.append(events, durability).await;
        let refused = started.err().map(|error| error.kind());
        let expect = (!starts).then_some(LedgerErrorKind::ReadMore);
        assert_eq!(refused, expect, "start {number}");
        let is_new = [1, 6].contains(&number);
        // Where there is no mark, the session's providers are asked for every time.
        if marked.is_some() {
            assert_eq!(mark(&mine) != marked, is_new, "start {number}");
        }
        works("flush", ledger.flush().await);
        let history = fixture.history();
        let events = history.events(&principal.tenant, request.id).await;
        let events = works("events", events);
        let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
        assert_eq!(kinds.contains(&"started"), starts, "start {number}");
        assert!(kinds.contains(&"admitted"), "what precedes it stays");
    }
    assert!(before.is_none() || mark(&mine) != before);
}

/// Only the session that made the call finds its spilled output.
pub async fn spilled_output_belongs_to_its_session(fixture: impl LedgerFixture) {
    let ledger = fixture.ledger();
    let mut writer = works("create", ledger.artifacts().create().await);
    works("write", writer.write(b"all of it").await);
    let artifact = works("finish", writer.finish().await);
    let mine = in_session("mine");
    let (kept, plain) = (request(&mine, "long"), request(&mine, "short"));
    let record = open(&fixture, &kept, Durability::Queued).await;
    record.settle(spilled(kept.id, artifact));
    works("settled", record.settled().await);
    let record = open(&fixture, &plain, Durability::Queued).await;
    record.settle(settled(plain.id, Terminal::Succeeded, "x"));
    works("settled", record.settled().await);
    assert_eq!(
        works(
            "spilled",
            ledger.spilled(&mine, &kept.workspace, kept.id).await
        ),
        Some(artifact)
    );
    assert_eq!(
        works(
            "spilled",
            ledger.spilled(&mine, &kept.workspace, plain.id).await
        ),
        None
    );
    assert_eq!(
        works(
            "spilled",
            ledger.spilled(&mine, &kept.workspace, CallId::new()).await
        ),
        None
    );
    for stranger in [in_session("other"), in_tenant("elsewhere")] {
        assert_eq!(
            works(
                "spilled",
                ledger.spilled(&stranger, &kept.workspace, kept.id).await
            ),
            None
        );
    }
}

/// Another user, another agent, or a session of another kind gets neither spilled output nor seen
/// versions by naming the same session.
pub async fn sharing_a_session_id_shares_nothing(mut fixture: impl LedgerFixture) {
    let mine = in_session("shared");
    let path = at("src/lib.rs");
    let kept = request(&mine, "long");
    let artifact = {
        let ledger = fixture.ledger();
        let mut writer = works("create", ledger.artifacts().create().await);
        works("write", writer.write(b"all of it").await);
        let artifact = works("finish", writer.finish().await);
        let record = open(&fixture, &kept, Durability::Queued).await;
        record.settle(spilled(kept.id, artifact));
        works("settled", record.settled().await);
        ledger.note_seen(&mine, &here(), &path, &FileVersion::new("v1"));
        works("flush", ledger.flush().await);
        artifact
    };
    let strangers = [
        Principal {
            user: UserId::parse("mallory").expect("an identifier"),
            ..Principal::clone(&mine)
        },
        Principal {
            agent: AgentId::parse("another").expect("an identifier"),
            ..Principal::clone(&mine)
        },
        Principal {
            session_kind: SessionKind::Group,
            ..Principal::clone(&mine)
        },
    ];
    for reopened in [false, true] {
        if reopened {
            fixture.reopen().await;
        }
        let ledger = fixture.ledger();
        for stranger in &strangers {
            let seen = works(
                "last_seen",
                ledger.last_seen(stranger, &here(), &path).await,
            );
            assert_eq!(seen, None, "{stranger:?}");
            let spilled = works(
                "spilled",
                ledger.spilled(stranger, &kept.workspace, kept.id).await,
            );
            assert_eq!(spilled, None, "{stranger:?}");
        }
        let seen = works("last_seen", ledger.last_seen(&mine, &here(), &path).await);
        assert_eq!(seen, Some(FileVersion::new("v1")));
        let spilled = works(
            "spilled",
            ledger.spilled(&mine, &kept.workspace, kept.id).await,
        );
        assert_eq!(spilled, Some(artifact));
    }
}

/// The same principal, session and relative path: versions seen and output spilled in one workspace
/// are not there in another, nor after a restart. A call records its workspace.
pub async fn workspaces_do_not_see_each_other(mut fixture: impl LedgerFixture) {
    let mine = in_session("both");
    let path = at("src/lib.rs");
    let elsewhere = WorkspaceId::parse("elsewhere").expect("an identifier");
    let kept = request(&mine, "long").in_workspace(elsewhere.clone());
    let artifact = {
        let ledger = fixture.ledger();
        let mut writer = works("create", ledger.artifacts().create().await);
        works("write", writer.write(b"all of it").await);
        let artifact = works("finish", writer.finish().await);
        let record = open(&fixture, &kept, Durability::Queued).await;
        record.settle(spilled(kept.id, artifact));
        works("settled", record.settled().await);
        ledger.note_seen(&mine, &here(), &path, &FileVersion::new("v1"));
        works("flush", ledger.flush().await);
        artifact
    };
    for reopened in [false, true] {
        if reopened {
            fixture.reopen().await;
        }
        let ledger = fixture.ledger();
        let seen = works("last_seen", ledger.last_seen(&mine, &here(), &path).await);
        assert_eq!(seen, Some(FileVersion::new("v1")));
        let seen = ledger.last_seen(&mine, &elsewhere, &path).await;
        assert_eq!(works("last_seen", seen), None);
        let found = ledger.spilled(&mine, &elsewhere, kept.id).await;
        assert_eq!(works("spilled", found), Some(artifact));
        let found = ledger.spilled(&mine, &here(), kept.id).await;
        assert_eq!(works("spilled", found), None);
        let call = stored(&fixture, kept.id).await.expect("the call");
        assert_eq!(call.workspace, elsewhere);
    }
    // What is recorded in the other workspace does not affect what was seen here.
    let ledger = fixture.ledger();
    ledger.note_seen(&mine, &elsewhere, &path, &FileVersion::new("v2"));
    let seen = works("last_seen", ledger.last_seen(&mine, &here(), &path).await);
    assert_eq!(seen, Some(FileVersion::new("v1")));
    let verified = works("verify", fixture.history().verify(&local()).await);
    assert!(
        matches!(verified, Verification::Intact { .. }),
        "{verified:?}"
    );
}

/// The workspace all other calls of the suite run in.
pub(super) fn here() -> WorkspaceId {
    WorkspaceId::local()
}

pub(super) fn local() -> TenantId {
    principal().tenant.clone()
}

async fn stored(fixture: &impl LedgerFixture, id: CallId) -> Option<StoredCall> {
    let history = fixture.history();
    works("call", history.call(&local(), id).await)
}

async fn kinds(fixture: &impl LedgerFixture, id: CallId) -> Vec<String> {
    let history: Arc<_> = fixture.history();
    let events = works("events", history.events(&local(), id).await);
    events.into_iter().map(|event| event.kind).collect()
}
