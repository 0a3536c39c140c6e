//! What agents keep beyond a session: whose it is, that it can be forgotten, and that what it was made
//! of counts as read.

use haft_contract::{
    AgentId, CallId, Label, Labels, Principal, UserId,
    host::{Durability, LedgerErrorKind, Timestamp},
    memory::{MAX_MEMORIES, Memory, MemoryId, MemoryOwner},
};

use super::{
    LedgerFixture,
    script::{START, request, second, started_after},
    write::local,
};
use crate::{
    principal,
    principal::{in_session, in_tenant},
    suite::fixture::works,
};

/// A memory comes back as it was saved, to its own agent and user only, also after a crash.
pub async fn a_memory_belongs_to_its_agent_and_user(mut fixture: impl LedgerFixture) {
    let mine = principal();
    let other = |change: fn(&mut Principal)| {
        let mut other = Principal::clone(&mine);
        change(&mut other);
        other
    };
    let first = Memory {
        read_from: sources(&["mcp:a", "mcp:b"]),
        ..memory(&mine, "first\nof two lines", START)
    };
    let second = memory(&mine, "second", second(1));
    let everywhere = Memory {
        read_from: Labels::NONE.with(Label::anything()),
        ..memory(&in_tenant("elsewhere"), "not ours", START)
    };
    let store = fixture.ledger().memories();
    for memory in [&second, &first, &everywhere] {
        let kept = works("save", store.save(memory.clone()).await);
        assert_eq!(kept, *memory);
    }
    drop(store);
    for reopened in [false, true] {
        if reopened {
            fixture.reopen().await;
        }
        let store = fixture.ledger().memories();
        let both = [first.clone(), second.clone()];
        let others = [
            other(|who| who.agent = AgentId::parse("b").expect("an id")),
            other(|who| who.user = UserId::parse("b").expect("an id")),
        ];
        assert_eq!(works("of", store.of(&MemoryOwner::of(&mine)).await), both);
        // Whatever the session: that is what they are for.
        let session = MemoryOwner::of(&in_session("other"));
        assert_eq!(works("of", store.of(&session).await), both);
        for other in others {
            assert_eq!(works("of", store.of(&MemoryOwner::of(&other)).await), []);
        }
        assert_eq!(works("list", store.list(&local(), 10).await), both);
        assert_eq!(works("list", store.list(&local(), 1).await), both[..1]);
        let listed = store.list(&everywhere.owner.tenant, 10).await;
        assert_eq!(works("list", listed), std::slice::from_ref(&everywhere));
    }
}

/// A memory is gone once its owner forgets it, and nobody else can make it go.
pub async fn a_memory_is_forgotten_by_its_owner_alone(mut fixture: impl LedgerFixture) {
    let mine = MemoryOwner::of(&principal());
    let mut other = mine.clone();
    other.agent = AgentId::parse("b").expect("an id");
    let elsewhere = MemoryOwner::of(&in_tenant("elsewhere"));
    let (stays, goes) = (
        memory(&principal(), "stays", START),
        memory(&principal(), "goes", second(1)),
    );
    let store = fixture.ledger().memories();
    for memory in [&stays, &goes] {
        works("save", store.save(memory.clone()).await);
    }
    for (owner, had) in [
        (&other, false),
        (&elsewhere, false),
        (&mine, true),
        (&mine, false),
    ] {
        assert_eq!(works("forget", store.forget(owner, goes.id).await), had);
    }
    drop(store);
    fixture.reopen().await;
    let store = fixture.ledger().memories();
    let left = works("of", store.of(&mine).await);
    assert_eq!(left, std::slice::from_ref(&stays));
}

/// One owner's memories are limited, and forgetting makes room.
pub async fn memories_of_an_owner_are_limited(fixture: impl LedgerFixture) {
    let store = fixture.ledger().memories();
    let mine = principal();
    let mut last = None;
    for number in 0..MAX_MEMORIES {
        let memory = memory(&mine, &number.to_string(), START);
        last = Some(memory.id);
        works("save", store.save(memory).await);
    }
    let more = || memory(&mine, "one more", START);
    let refused = store.save(more()).await.expect_err("too many");
    assert_eq!(refused.kind(), LedgerErrorKind::LimitExceeded);
    let mut other = memory(&mine, "another agent's", START);
    other.owner.agent = AgentId::parse("b").expect("an id");
    works("another", store.save(other).await);
    let owner = MemoryOwner::of(&mine);
    let last = last.expect("one was saved");
    assert!(works("forget", store.forget(&owner, last).await));
    works("save", store.save(more()).await);
}

/// The sources of a memory that a session reads are sources the session has read from, in every
/// process and after a crash; a start that was judged without them is refused.
pub async fn what_a_memory_was_made_of_counts_as_read(mut fixture: impl LedgerFixture) {
    let (mine, other) = (in_session("mine"), in_session("other"));
    let ledger = fixture.ledger();
    let mark = ledger.used_mark(&mine.tenant, &mine.session);
    let others_mark = ledger.used_mark(&other.tenant, &other.session);
    let store = ledger.memories();
    let read = sources(&["mcp:a", "mcp:b"]);
    // The second time it changes nothing.
    for _ in 0..2 {
        works("note", store.note_read(&mine, &read).await);
    }
    if mark.is_some() {
        assert_ne!(ledger.used_mark(&mine.tenant, &mine.session), mark);
        let marked = ledger.used_mark(&other.tenant, &other.session);
        assert_eq!(marked, others_mark);
    }
    for (judged_with, starts) in [
        (Labels::NONE, false),
        (sources(&["mcp:a"]), false),
        (read.clone(), true),
    ] {
        let request = request(&mine, "x");
        let record = works("open", ledger.open(&request, START).await);
        let events = started_after("builtin", request.id, &judged_with);
        let started = record.append(events, Durability::Durable).await;
        let refused = started.err().map(|error| error.kind());
        assert_eq!(refused, (!starts).then_some(LedgerErrorKind::ReadMore));
    }
    let anything = Labels::NONE.with(Label::anything());
    works("note", store.note_read(&other, &anything).await);
    drop((store, ledger));
    for reopened in [false, true] {
        if reopened {
            fixture.reopen().await;
        }
        for (who, expect) in [
            (&mine, read.clone()),
            (&other, anything.clone()),
            (&in_tenant("elsewhere"), Labels::NONE),
        ] {
            let ledger = fixture.ledger();
            let used = ledger.providers_used(&who.tenant, &who.session, 10).await;
            assert_eq!(Labels::of_providers(&works("used", used)), expect);
        }
    }
}

fn sources(labels: &[&str]) -> Labels {
    let label = |label: &&str| Label::parse(label).expect("a label");
    labels.iter().map(label).collect()
}

fn memory(principal: &Principal, text: &str, saved: Timestamp) -> Memory {
    Memory {
        id: MemoryId::new(),
        owner: MemoryOwner::of(principal),
        text: text.to_owned(),
        read_from: Labels::NONE,
        session: principal.session.clone(),
        call: CallId::new(),
        saved,
    }
}
