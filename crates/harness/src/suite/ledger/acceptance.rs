//! Calls that one instance accepts and another runs: two instances on one store.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use haft_contract::{
    CallId, CallRequest, Effects, Labels, Terminal,
    host::{
        Acceptance, CallQuery, ClaimedCall, Durability, Epoch, History, Ledger, LedgerErrorKind,
        Verification,
    },
};

use super::{
    LedgerFixture,
    script::{
        START, request, second, settled, started, started_after, started_of, started_with_effects,
    },
};
use crate::{
    principal,
    principal::{in_session, in_tenant},
    suite::fixture::works,
};

/// How many calls two instances race for.
const RACES: usize = 40;

/// How many calls each of two instances records while a third follows.
const FOLLOWED: usize = 60;

/// How long a follower gets to see everything on record.
const FOLLOWS_WITHIN: Duration = Duration::from_secs(30);

/// An accepted call is on record and open, across a restart too, until someone claims it. The
/// claimant gets the request as received, including what the record does not show.
pub async fn an_accepted_call_waits_for_whoever_claims_it(mut fixture: impl LedgerFixture) {
    let request = request(&principal(), "curl -u ada:hunter22-hunter22 http://x");
    let accepted = fixture.ledger().accept(&request, START).await;
    assert_eq!(works("accept", accepted), Acceptance::Accepted);
    for _ in 0..2 {
        let history = fixture.history();
        let tenant = &request.principal.tenant;
        let call = works("call", history.call(tenant, request.id).await).expect("the call");
        assert_eq!((call.terminal, call.opened), (None, START));
        drop(history);
        fixture.reopen().await;
    }
    let other = fixture.another().await;
    let claimed = works("claim", claim(&*other, &request, Epoch::FIRST).await);
    assert_eq!(claimed.request.arguments, request.arguments);
    assert_eq!(claimed.request.principal, request.principal);
    assert_eq!(claimed.request.workspace, request.workspace);
    finish(&claimed, Terminal::Succeeded).await;
    ended(&fixture, &request, Terminal::Succeeded).await;
}

/// A request sent twice, to any instance, is one call; an id belongs to one request.
pub async fn the_same_request_is_accepted_once(fixture: impl LedgerFixture) {
    let (ledger, other) = (fixture.ledger(), fixture.another().await);
    let first = request(&principal(), "make");
    assert_eq!(
        works("accept", ledger.accept(&first, START).await),
        Acceptance::Accepted
    );
    for ledger in [&ledger, &other] {
        let again = ledger.accept(&first, second(1)).await;
        assert_eq!(works("accept", again), Acceptance::AcceptedBefore);
        let mut different = first.clone();
        "other".clone_into(&mut different.tool);
        let refused = ledger.accept(&different, second(1)).await;
        let kind = refused.err().map(|error| error.kind());
        assert_eq!(kind, Some(LedgerErrorKind::Conflict));
    }
    // The id of a call that was opened here.
    let opened = request(&principal(), "make");
    let record = works("open", ledger.open(&opened, START).await);
    works("flush", ledger.flush().await);
    let refused = other.accept(&opened, START).await;
    let kind = refused.err().map(|error| error.kind());
    assert_eq!(kind, Some(LedgerErrorKind::Conflict));
    drop(record);
    let claimed = works("claim", claim(&*other, &first, Epoch::FIRST).await);
    finish(&claimed, Terminal::Succeeded).await;
    let again = ledger.accept(&first, second(2)).await;
    assert_eq!(works("accept", again), Acceptance::AcceptedBefore);
    let events = works(
        "events",
        fixture
            .history()
            .events(&first.principal.tenant, first.id)
            .await,
    );
    let opened = events.iter().filter(|event| event.kind == "opened").count();
    assert_eq!(opened, 1);
}

/// If two claim a call in the same epoch, one gets it.
pub async fn a_claim_is_exclusive(fixture: impl LedgerFixture) {
    let (one, two) = (fixture.ledger(), fixture.another().await);
    for _ in 0..RACES {
        let request = request(&principal(), "make");
        works("accept", one.accept(&request, START).await);
        let (first, second) = tokio::join!(
            claim(&*one, &request, Epoch::FIRST),
            claim(&*two, &request, Epoch::FIRST)
        );
        let (won, lost) = match (first, second) {
            (Ok(won), Err(lost)) | (Err(lost), Ok(won)) => (won, lost),
            (Ok(_), Ok(_)) => panic!("both have claimed the call"),
            (Err(one), Err(other)) => panic!("nobody has claimed the call: {one}, {other}"),
        };
        assert_eq!(lost.kind(), LedgerErrorKind::Superseded);
        finish(&won, Terminal::Succeeded).await;
        ended(&fixture, &request, Terminal::Succeeded).await;
    }
}

/// Calls that nobody accepted, that belong to another tenant, or that are over.
pub async fn a_claim_is_refused_where_there_is_nothing_to_claim(fixture: impl LedgerFixture) {
    let ledger = fixture.ledger();
    let unknown = request(&principal(), "make");
    refused(&*ledger, &unknown, Epoch::FIRST, LedgerErrorKind::NotFound).await;
    // A call that runs where it was opened belongs to nobody else.
    let record = works("open", ledger.open(&unknown, START).await);
    works("flush", ledger.flush().await);
    refused(&*ledger, &unknown, Epoch::FIRST, LedgerErrorKind::NotFound).await;
    record.settle(settled(unknown.id, Terminal::Succeeded, ""));
    works("settled", record.settled().await);
    let theirs = request(&in_tenant("elsewhere"), "make");
    works("accept", ledger.accept(&theirs, START).await);
    let mut mine = theirs.clone();
    mine.principal = principal();
    refused(&*ledger, &mine, Epoch::FIRST, LedgerErrorKind::NotFound).await;
    let claimed = works("claim", claim(&*ledger, &theirs, Epoch::FIRST).await);
    finish(&claimed, Terminal::Failed).await;
    let next = Epoch::FIRST.next();
    refused(&*ledger, &theirs, next, LedgerErrorKind::Over).await;
}

/// Once a newer claim holds a call, the older one starts nothing: no start is recorded, durable or
/// queued.
pub async fn a_superseded_claim_can_start_nothing(fixture: impl LedgerFixture) {
    let (one, two) = (fixture.ledger(), fixture.another().await);
    for durability in [Durability::Durable, Durability::Queued] {
        let request = request(&principal(), "make");
        works("accept", one.accept(&request, START).await);
        let stale = works("claim", claim(&*one, &request, Epoch::FIRST).await);
        let next = Epoch::FIRST.next();
        let holder = works("claim", claim(&*two, &request, next).await);
        refused(&*one, &request, Epoch::FIRST, LedgerErrorKind::Superseded).await;
        let start = started(request.id, "make");
        let refused = stale.record.append(start.clone(), durability).await;
        let kind = refused.err().map(|error| error.kind());
        assert_eq!(kind, Some(LedgerErrorKind::Superseded), "{durability:?}");
        works("append", holder.record.append(start, durability).await);
        drop(stale);
        finish(&holder, Terminal::Succeeded).await;
        ended(&fixture, &request, Terminal::Succeeded).await;
        let starts = kinds(&fixture, &request).await;
        let starts = starts.iter().filter(|kind| *kind == "started").count();
        assert_eq!(starts, 1, "{durability:?}");
    }
}

/// A worker taken for dead comes back: the outcome it saw is kept as evidence, and the newer
/// claim's outcome counts, whichever is first.
pub async fn a_superseded_claim_cannot_settle(fixture: impl LedgerFixture) {
    let (one, two) = (fixture.ledger(), fixture.another().await);
    for stale_first in [true, false] {
        let request = request(&principal(), "make");
        works("accept", one.accept(&request, START).await);
        let stale = works("claim", claim(&*one, &request, Epoch::FIRST).await);
        let reads = started_with_effects(request.id, Effects::READ_ONLY);
        works(
            "append",
            stale.record.append(reads, Durability::Durable).await,
        );
        let holder = works("claim", claim(&*two, &request, Epoch::FIRST.next()).await);
        if !stale_first {
            finish(&holder, Terminal::Succeeded).await;
        }
        let late = settled(request.id, Terminal::Failed, "too late");
        stale.record.settle(late);
        let told = stale.record.settled().await.err().map(|error| error.kind());
        assert_eq!(told, Some(LedgerErrorKind::Superseded));
        if stale_first {
            finish(&holder, Terminal::Succeeded).await;
        }
        ended(&fixture, &request, Terminal::Succeeded).await;
        let kinds = kinds(&fixture, &request).await;
        let count = |kind: &str| kinds.iter().filter(|each| *each == kind).count();
        assert_eq!(
            (count("settled"), count("settled_late")),
            (1, 1),
            "{kinds:?}"
        );
    }
    let verified = fixture.history().verify(&principal().tenant).await;
    assert!(
        matches!(works("verify", verified), Verification::Intact { .. }),
        "evidence is part of the chain"
    );
}

/// A call whose worker died before it started is claimed again, in a newer epoch.
pub async fn a_claimed_call_outlives_whoever_claimed_it(mut fixture: impl LedgerFixture) {
    let request = request(&principal(), "make");
    works("accept", fixture.ledger().accept(&request, START).await);
    let claimed = works(
        "claim",
        claim(&*fixture.ledger(), &request, Epoch::FIRST).await,
    );
    // Like a killed process: nothing is settled.
    std::mem::forget(claimed.record);
    fixture.reopen().await;
    let ledger = fixture.ledger();
    refused(
        &*ledger,
        &request,
        Epoch::FIRST,
        LedgerErrorKind::Superseded,
    )
    .await;
    let claimed = works(
        "claim",
        claim(&*ledger, &request, Epoch::FIRST.next()).await,
    );
    finish(&claimed, Terminal::Succeeded).await;
    ended(&fixture, &request, Terminal::Succeeded).await;
}

/// A call that had started and may have changed something is never run again: its outcome is
/// unknown, and the record says so.
pub async fn a_started_call_in_doubt_is_unknown(fixture: impl LedgerFixture) {
    let (one, two) = (fixture.ledger(), fixture.another().await);
    let request = request(&principal(), "make");
    works("accept", one.accept(&request, START).await);
    let gone = works("claim", claim(&*one, &request, Epoch::FIRST).await);
    let start = started(request.id, "make");
    works(
        "append",
        gone.record.append(start, Durability::Durable).await,
    );
    let next = Epoch::FIRST.next();
    refused(&*two, &request, next, LedgerErrorKind::Over).await;
    ended(&fixture, &request, Terminal::Unknown).await;
    gone.record
        .settle(settled(request.id, Terminal::Succeeded, ""));
    assert!(gone.record.settled().await.is_err());
    ended(&fixture, &request, Terminal::Unknown).await;
}

/// A call that only reads, or declares itself repeatable, is handed out again after its start.
pub async fn a_started_call_that_may_be_repeated_is_claimed_again(fixture: impl LedgerFixture) {
    let (one, two) = (fixture.ledger(), fixture.another().await);
    let mut idempotent = Effects::UNKNOWN;
    idempotent.idempotent = true;
    for effects in [Effects::READ_ONLY, idempotent] {
        let request = request(&principal(), "make");
        works("accept", one.accept(&request, START).await);
        let gone = works("claim", claim(&*one, &request, Epoch::FIRST).await);
        let start = started_with_effects(request.id, effects);
        works(
            "append",
            gone.record.append(start.clone(), Durability::Durable).await,
        );
        let again = works("claim", claim(&*two, &request, Epoch::FIRST.next()).await);
        works(
            "append",
            again.record.append(start, Durability::Durable).await,
        );
        finish(&again, Terminal::Succeeded).await;
        ended(&fixture, &request, Terminal::Succeeded).await;
    }
}

/// A follower of the record sees every call, although two instances write at the same time.
pub async fn followers_miss_nothing(fixture: impl LedgerFixture) {
    let (one, two) = (fixture.ledger(), fixture.another().await);
    let write = |ledger: Arc<dyn Ledger>| async move {
        let mut written = Vec::new();
        for _ in 0..FOLLOWED {
            let request = request(&principal(), "make");
            let record = works("open", ledger.open(&request, START).await);
            let start = started(request.id, "make");
            works("append", record.append(start, Durability::Durable).await);
            record.settle(settled(request.id, Terminal::Succeeded, ""));
            works("settled", record.settled().await);
            written.push(request.id);
        }
        written
    };
    let history = fixture.history();
    let follow = follow(&*history, 2 * FOLLOWED);
    let (first, second, followed) = tokio::join!(write(one), write(two), follow);
    let written: BTreeSet<CallId> = first.into_iter().chain(second).collect();
    assert_eq!(followed, written);
}

/// Polls for calls after the last position seen until it has this many.
async fn follow(history: &dyn History, calls: usize) -> BTreeSet<CallId> {
    let tenant = principal().tenant.clone();
    let (mut seen, mut after) = (BTreeSet::new(), Some(0));
    let following = async {
        while seen.len() < calls {
            let query = CallQuery {
                after,
                limit: calls,
                ..CallQuery::default()
            };
            let found = works("calls", history.calls(&tenant, &query).await);
            after = found.iter().map(|call| call.position).max().or(after);
            seen.extend(found.iter().map(|call| call.id));
            tokio::task::yield_now().await;
        }
    };
    // Calls still missing then were skipped.
    let _ = tokio::time::timeout(FOLLOWS_WITHIN, following).await;
    seen
}

/// MC-19: what a session has read through one instance is known to the other before that starts
/// anything.
pub async fn what_a_session_read_is_seen_by_the_other_instance(fixture: impl LedgerFixture) {
    let (one, two) = (fixture.ledger(), fixture.another().await);
    let session = in_session("shared");
    let (tenant, id) = (&session.tenant, &session.session);
    let before = two.used_mark(tenant, id);
    let reads = request(&session, "x");
    let record = works("open", one.open(&reads, START).await);
    let start = started_after("mcp__wiki", reads.id, &Labels::NONE);
    works("append", record.append(start, Durability::Durable).await);
    let mark = two.used_mark(tenant, id);
    assert!(
        mark.is_none() || mark != before,
        "there is something new to look at, or it is looked at anyway"
    );
    assert_eq!(
        works("used", two.providers_used(tenant, id, 10).await),
        ["mcp__wiki"]
    );
    let judged_too_early = request(&session, "x");
    let other = works("open", two.open(&judged_too_early, START).await);
    let start = started_after("mcp__mail", judged_too_early.id, &Labels::NONE);
    let refused = other.append(start, Durability::Durable).await;
    let kind = refused.err().map(|error| error.kind());
    assert_eq!(kind, Some(LedgerErrorKind::ReadMore));
    // A start that was not judged by what was read is not held up by it.
    let plain = started_of("mcp__mail", judged_too_early.id);
    works("append", other.append(plain, Durability::Durable).await);
}

async fn claim(
    ledger: &dyn Ledger,
    request: &CallRequest,
    epoch: Epoch,
) -> Result<ClaimedCall, haft_contract::host::LedgerError> {
    let tenant = &request.principal.tenant;
    ledger.claim(tenant, request.id, epoch, START).await
}

async fn refused(ledger: &dyn Ledger, request: &CallRequest, epoch: Epoch, kind: LedgerErrorKind) {
    match claim(ledger, request, epoch).await {
        Ok(_) => panic!("the call was claimed"),
        Err(error) => assert_eq!(error.kind(), kind, "{error}"),
    }
}

/// Settles a claimed call and waits until that is durable.
async fn finish(claimed: &ClaimedCall, terminal: Terminal) {
    let events = settled(claimed.request.id, terminal, "done");
    claimed.record.settle(events);
    works("settled", claimed.record.settled().await);
}

/// Asserts that a call has this outcome on both instances.
async fn ended(fixture: &impl LedgerFixture, request: &CallRequest, terminal: Terminal) {
    let call = fixture
        .history()
        .call(&request.principal.tenant, request.id)
        .await;
    let call = works("call", call).expect("the call");
    assert_eq!(call.terminal, Some(terminal));
}

async fn kinds(fixture: &impl LedgerFixture, request: &CallRequest) -> Vec<String> {
    let events = fixture
        .history()
        .events(&request.principal.tenant, request.id)
        .await;
    works("events", events)
        .into_iter()
        .map(|event| event.kind)
        .collect()
}
