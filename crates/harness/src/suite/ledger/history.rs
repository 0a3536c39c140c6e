//! Reading the record: queries, sessions, tenants, verification.

use haft_contract::{
    CallId, SessionId, Terminal,
    host::{CallOutcome, CallQuery, Verification},
};

use super::{
    LedgerFixture,
    script::{record, record_at, second},
    write::local,
};
use crate::{
    principal,
    principal::{in_session, in_tenant},
    suite::fixture::works,
};

/// The newest call first, up to the limit, with positions that increase over time.
pub async fn calls_are_newest_first_and_limited(fixture: impl LedgerFixture) {
    let principal = principal();
    let mut ids = Vec::new();
    for number in 0..5 {
        ids.push(
            record(
                &fixture,
                &principal,
                &format!("echo {number}"),
                Terminal::Succeeded,
            )
            .await,
        );
    }
    ids.reverse();
    assert_eq!(query(&fixture, |_| {}).await, ids);
    assert_eq!(query(&fixture, |query| query.limit = 2).await, ids[..2]);
    let all = CallQuery {
        limit: 100,
        ..CallQuery::default()
    };
    let calls = works("calls", fixture.history().calls(&local(), &all).await);
    assert!(calls.is_sorted_by(|a, b| a.position > b.position));
}

/// A reader asks for what came after the last position it has seen.
pub async fn calls_can_be_followed(fixture: impl LedgerFixture) {
    let principal = principal();
    let first = record(&fixture, &principal, "echo 1", Terminal::Succeeded).await;
    let history = fixture.history();
    let seen = works("call", history.call(&local(), first).await).expect("the call");
    let after = |query: &mut CallQuery| query.after = Some(seen.position);
    assert_eq!(query(&fixture, after).await, []);
    let second = record(&fixture, &principal, "echo 2", Terminal::Succeeded).await;
    assert_eq!(query(&fixture, after).await, [second]);
    // A reader who is far behind gets the next ones, not the newest: nothing is skipped.
    let mut wanted = vec![first, second];
    for number in 3..=7 {
        let command = format!("echo {number}");
        wanted.push(record(&fixture, &principal, &command, Terminal::Succeeded).await);
    }
    for search in [None, Some("echo")] {
        let mut next = CallQuery {
            after: Some(0),
            limit: 3,
            search: search.map(str::to_owned),
            ..CallQuery::default()
        };
        let mut followed = Vec::new();
        loop {
            let page = works("calls", fixture.history().calls(&local(), &next).await);
            let Some(last) = page.last() else { break };
            next.after = Some(last.position);
            followed.extend(page.iter().map(|call| call.id));
        }
        assert_eq!(followed, wanted, "{search:?}");
    }
}

/// Mistake 7: each filter filters, alone and together.
pub async fn calls_filter_by_session_and_outcome(fixture: impl LedgerFixture) {
    let (one, two) = (in_session("one"), in_session("two"));
    let good = record(&fixture, &one, "a", Terminal::Succeeded).await;
    let bad = record(&fixture, &one, "b", Terminal::Denied).await;
    let other = record(&fixture, &two, "c", Terminal::Denied).await;
    let session = || SessionId::parse("one").ok();
    assert_eq!(
        query(&fixture, |query| query.session = session()).await,
        [bad, good]
    );
    let denied = |query: &mut CallQuery| query.outcome = Some(CallOutcome::Ended(Terminal::Denied));
    assert_eq!(query(&fixture, denied).await, [other, bad]);
    let both = |query: &mut CallQuery| {
        query.session = session();
        query.outcome = Some(CallOutcome::Ended(Terminal::Denied));
    };
    assert_eq!(query(&fixture, both).await, [bad]);
    assert_eq!(
        query(&fixture, |query| {
            query.outcome = Some(CallOutcome::Ended(Terminal::Unknown));
        })
        .await,
        []
    );
}

/// By tool, by command, by a word of the output; if there are several words, all must match.
pub async fn calls_are_found_by_what_they_touched(fixture: impl LedgerFixture) {
    let principal = principal();
    let test = record(&fixture, &principal, "cargo test", Terminal::Succeeded).await;
    let build = record(&fixture, &principal, "cargo build", Terminal::Succeeded).await;
    for (words, expected) in [
        ("cargo", &[build, test][..]),
        ("test", &[test]),
        ("cargo build", &[build]),
        ("bash", &[build, test]),
        ("output", &[build, test]),
        ("nowhere", &[]),
        ("cargo nowhere", &[]),
    ] {
        let found = query(&fixture, |query| query.search = Some(words.to_owned())).await;
        assert_eq!(found, expected, "{words}");
    }
}

/// Search text is never a query language: no error, no surprise.
pub async fn odd_search_text_is_only_text(fixture: impl LedgerFixture) {
    record(&fixture, &principal(), "cargo test", Terminal::Succeeded).await;
    for words in [
        "\"",
        "'",
        "*",
        "(",
        "AND",
        "NOT x",
        "cargo*\"",
        "tool:x",
        "%",
        "_",
        "-",
        "",
        "  ",
        "\0",
        "'; DROP TABLE calls; --",
        "NEAR(a b)",
        "^x",
        "{a}",
        "ｌｓ",
    ] {
        let found = CallQuery {
            search: Some(words.to_owned()),
            limit: 10,
            ..CallQuery::default()
        };
        works(words, fixture.history().calls(&local(), &found).await);
    }
    assert_eq!(
        query(&fixture, |_| {}).await.len(),
        1,
        "the calls are still there"
    );
}

/// The most recently active session comes first; each knows its first and last call and their
/// number.
pub async fn sessions_are_most_recent_first(fixture: impl LedgerFixture) {
    for (session, at) in [("old", 1), ("busy", 2), ("new", 3), ("busy", 4)] {
        let principal = in_session(session);
        record_at(&fixture, &principal, "x", Terminal::Succeeded, second(at)).await;
    }
    let history = fixture.history();
    let sessions = works("sessions", history.sessions(&local(), &[], 10).await);
    let told: Vec<_> = sessions
        .iter()
        .map(|session| {
            (
                session.id.as_str(),
                session.first,
                session.last,
                session.calls,
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("busy", second(2), second(4), 2),
            ("new", second(3), second(3), 1),
            ("old", second(1), second(1), 1),
        ]
    );
    assert_eq!(sessions[0].agent, "agent");
    assert_eq!(
        works("sessions", history.sessions(&local(), &[], 1).await).len(),
        1
    );
}

/// PE-27: another tenant's calls, events, sessions and chain are invisible.
pub async fn tenants_do_not_see_each_other(fixture: impl LedgerFixture) {
    let (mine, theirs) = (in_tenant("mine"), in_tenant("theirs"));
    let id = record(&fixture, &theirs, "their secret", Terminal::Succeeded).await;
    let history = fixture.history();
    let tenant = &mine.tenant;
    let all = CallQuery {
        limit: 10,
        ..CallQuery::default()
    };
    assert_eq!(works("call", history.call(tenant, id).await), None);
    assert_eq!(works("calls", history.calls(tenant, &all).await), []);
    assert_eq!(works("events", history.events(tenant, id).await), []);
    assert_eq!(
        works("sessions", history.sessions(tenant, &[], 10).await),
        []
    );
    let verified = works("verify", history.verify(tenant).await);
    assert_eq!(verified, Verification::Intact { records: 0 });
    let search = CallQuery {
        search: Some("secret".to_owned()),
        ..all
    };
    assert_eq!(works("calls", history.calls(tenant, &search).await), []);
    assert!(works("call", history.call(&theirs.tenant, id).await).is_some());
}

/// An unchanged chain is intact; the count grows with the record.
pub async fn an_untouched_chain_is_intact(fixture: impl LedgerFixture) {
    let history = fixture.history();
    let mut before = 0;
    for number in 0..3 {
        record(
            &fixture,
            &principal(),
            &format!("echo {number}"),
            Terminal::Succeeded,
        )
        .await;
        match works("verify", history.verify(&local()).await) {
            Verification::Intact { records } => {
                assert!(records > before, "{records} records after call {number}");
                before = records;
            }
            broken @ Verification::Broken { .. } => panic!("{broken:?}"),
        }
    }
}

/// A record changed behind the ledger's back is found and named, the first one first.
pub async fn a_changed_record_is_named(fixture: impl LedgerFixture) {
    let history = fixture.history();
    let mut records = Vec::new();
    for number in 0..3 {
        let id = record(
            &fixture,
            &principal(),
            &format!("echo {number}"),
            Terminal::Succeeded,
        )
        .await;
        let events = works("events", history.events(&local(), id).await);
        records.push(events[events.len() / 2].record);
    }
    fixture.tamper(&local(), records[2]).await;
    fixture.tamper(&local(), records[1]).await;
    match works("verify", history.verify(&local()).await) {
        Verification::Broken { sequence, reason } => {
            assert_eq!(sequence, records[1], "{reason}");
        }
        intact @ Verification::Intact { .. } => panic!("{intact:?}"),
    }
}

async fn query(fixture: &impl LedgerFixture, change: impl FnOnce(&mut CallQuery)) -> Vec<CallId> {
    let mut query = CallQuery {
        limit: 100,
        ..CallQuery::default()
    };
    change(&mut query);
    let calls = works("calls", fixture.history().calls(&local(), &query).await);
    calls.into_iter().map(|call| call.id).collect()
}
