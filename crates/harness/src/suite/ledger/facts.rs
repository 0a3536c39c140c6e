//! Filters, open calls, sessions and workspaces, and counts, with several workspaces on one record.

use std::{sync::Arc, time::Duration};

use haft_contract::{
    AgentId, CallId, Facts, Principal, ProviderId, SessionId, Terminal, ToolKey, WorkspaceId,
    event::{CallEvent, RecordedEvent},
    host::{
        ApprovalId, CallFilter, CallOutcome, CallQuery, CallRecord, Durability, StatsGroup,
        StatsKey, StatsQuery, StatsRow, Verification,
    },
    plan::PlanDigest,
};

use super::{
    LedgerFixture,
    script::{START, open_at, request, second, settled_with, started_of, tool},
    write::local,
};
use crate::{
    principal,
    principal::{in_session, in_tenant},
    suite::fixture::works,
};

/// How long every call of this file ran, and waited for a person.
const RAN: Duration = Duration::from_millis(1_500);
const WAITED: Duration = Duration::from_secs(2);

/// Each filter filters, alone and together, before the record has caught up with the calls and after, in
/// both directions.
pub async fn calls_filter_by_workspace_agent_tool_and_time(fixture: impl LedgerFixture) {
    let (here, there) = (workspace("here"), workspace("there"));
    let (claude, codex) = (agent("claude"), agent("codex"));
    let mut calls = Vec::new();
    for (number, (who, place)) in (1..).zip([
        (&claude, &here),
        (&codex, &here),
        (&claude, &there),
        (&claude, &here),
    ]) {
        let of_mcp = number == 4;
        calls.push(call(&fixture, who, place, second(number * 10), of_mcp).await);
    }
    let of = |workspace: &WorkspaceId| CallFilter::of_workspace(workspace.clone());
    let named = |agent: Option<&str>, tool: Option<&str>| CallFilter {
        agent: agent.map(str::to_owned),
        tool: tool.map(str::to_owned),
        ..CallFilter::default()
    };
    let between = |since: u64, until: u64| CallFilter {
        since: Some(second(since)),
        until: Some(second(until)),
        ..CallFilter::default()
    };
    let wanted = [
        (of(&here), vec![3, 1, 0]),
        (of(&there), vec![2]),
        (of(&workspace("nowhere")), vec![]),
        (named(Some("codex"), None), vec![1]),
        (named(None, Some("bash")), vec![3, 2, 1, 0]),
        (named(None, Some("builtin/bash")), vec![2, 1, 0]),
        (named(None, Some("github/bash")), vec![3]),
        (named(None, Some("read")), vec![]),
        (between(20, 40), vec![2, 1]),
        (
            CallFilter {
                workspaces: vec![here.clone()],
                ..between(15, 45)
            },
            vec![3, 1],
        ),
        (
            CallFilter {
                workspaces: vec![here.clone(), workspace("nowhere"), there.clone()],
                ..CallFilter::default()
            },
            vec![3, 2, 1, 0],
        ),
    ];
    for is_caught_up in [false, true] {
        if is_caught_up {
            catch_up(&fixture).await;
        }
        for (filter, expect) in &wanted {
            let expect: Vec<CallId> = expect.iter().map(|index| calls[*index]).collect();
            let mut query = CallQuery {
                filter: filter.clone(),
                limit: 10,
                ..CallQuery::default()
            };
            assert_eq!(found(&fixture, &query).await, expect, "{filter:?}");
            query.after = Some(0);
            let oldest_first: Vec<CallId> = expect.iter().rev().copied().collect();
            assert_eq!(found(&fixture, &query).await, oldest_first, "{filter:?}");
            query.after = None;
            query.limit = 1;
            let newest = expect.get(..1.min(expect.len())).unwrap_or_default();
            assert_eq!(found(&fixture, &query).await, newest, "{filter:?}");
            query.limit = 10;
            query.outcome = Some(CallOutcome::Ended(Terminal::Succeeded));
            assert_eq!(found(&fixture, &query).await, expect, "{filter:?}");
            query.outcome = Some(CallOutcome::Ended(Terminal::Denied));
            assert_eq!(found(&fixture, &query).await, [], "{filter:?}");
        }
    }
}

/// Page after page, newest first, is the whole list, whatever filters are together: nothing twice, nothing
/// left out, and nothing of what was recorded after the first page.
pub async fn calls_are_paged_newest_first(fixture: impl LedgerFixture) {
    let (here, there) = (workspace("here"), workspace("there"));
    let mut open = Vec::new();
    for number in 0..12_u32 {
        let who = Principal {
            agent: agent(if number % 3 == 0 { "codex" } else { "claude" })
                .agent
                .clone(),
            ..in_session(if number % 4 == 0 { "side" } else { "main" })
                .as_ref()
                .clone()
        };
        let (who, at) = (Arc::new(who), second(u64::from(number)));
        let place = if number % 5 == 0 { &there } else { &here };
        match number % 4 {
            3 => drop(call(&fixture, &who, place, at, true).await),
            2 => {
                let denied = opened(&fixture, &who, place, at).await;
                settle_as(&denied, Terminal::Denied, false).await;
            }
            1 if number > 6 => open.push(opened(&fixture, &who, place, at).await),
            _ => drop(call(&fixture, &who, place, at, false).await),
        }
    }
    let all = CallQuery {
        limit: 100,
        ..CallQuery::default()
    };
    let all = works("calls", fixture.history().calls(&local(), &all).await);
    assert!(all.is_sorted_by(|newer, older| newer.position > older.position));
    let queries = filters_together(&here, &there);
    for is_caught_up in [false, true] {
        if is_caught_up {
            catch_up(&fixture).await;
        }
        for query in &queries {
            let mut query = query.clone();
            let wanted = all.iter().filter(|call| query.wants(call));
            let wanted: Vec<CallId> = wanted.map(|call| call.id).collect();
            assert_eq!(pages(&fixture, &mut query).await, wanted, "{query:?}");
        }
    }
    // What comes later is on no later page, and both ends together are a range, oldest first.
    let [newest, .., oldest] = all.as_slice() else {
        panic!("{all:?}");
    };
    call(&fixture, &principal(), &here, second(60), false).await;
    let mut query = CallQuery {
        before: Some(newest.position),
        limit: 100,
        ..CallQuery::default()
    };
    let mut inside: Vec<CallId> = all.iter().skip(1).map(|call| call.id).collect();
    assert_eq!(found(&fixture, &query).await, inside);
    query.after = Some(oldest.position);
    inside.pop();
    inside.reverse();
    assert_eq!(found(&fixture, &query).await, inside);
    for call in &open {
        settle(call, false).await;
    }
}

/// Every filter with every other, in pages of two.
fn filters_together(here: &WorkspaceId, there: &WorkspaceId) -> Vec<CallQuery> {
    let session = SessionId::parse("main").ok();
    let outcomes = [
        None,
        Some(CallOutcome::Open),
        Some(CallOutcome::Ended(Terminal::Denied)),
        Some(CallOutcome::Ended(Terminal::Succeeded)),
    ];
    let tools = [
        None,
        Some("bash"),
        Some("builtin/bash"),
        Some("github/bash"),
    ];
    let mut queries = Vec::new();
    for session in [None, session] {
        for agent in [None, Some("claude".to_owned())] {
            for tool in tools {
                let tool = tool.map(str::to_owned);
                for outcome in outcomes {
                    for workspaces in [
                        vec![],
                        vec![here.clone()],
                        vec![here.clone(), there.clone()],
                    ] {
                        let filter = CallFilter {
                            workspaces,
                            agent: agent.clone(),
                            tool: tool.clone(),
                            ..CallFilter::default()
                        };
                        queries.push(CallQuery {
                            filter,
                            session: session.clone(),
                            outcome,
                            limit: 2,
                            ..CallQuery::default()
                        });
                    }
                }
            }
        }
    }
    queries
}

/// All pages of a query, one after the other.
async fn pages(fixture: &impl LedgerFixture, query: &mut CallQuery) -> Vec<CallId> {
    let mut read = Vec::new();
    loop {
        let page = works("calls", fixture.history().calls(&local(), query).await);
        let Some(last) = page.last() else {
            return read;
        };
        query.before = Some(last.position);
        read.extend(page.iter().map(|call| call.id));
    }
}

/// A call is open until it is settled, whatever the record has caught up with in between.
pub async fn open_calls_are_listed_until_they_end(fixture: impl LedgerFixture) {
    let (here, there) = (workspace("here"), workspace("there"));
    let done = call(&fixture, &principal(), &here, second(1), false).await;
    let first = opened(&fixture, &principal(), &here, second(2)).await;
    let second_call = opened(&fixture, &principal(), &there, second(3)).await;
    let open = |workspace: Option<&WorkspaceId>| CallQuery {
        filter: CallFilter {
            workspaces: workspace.into_iter().cloned().collect(),
            ..CallFilter::default()
        },
        outcome: Some(CallOutcome::Open),
        limit: 10,
        ..CallQuery::default()
    };
    for is_caught_up in [false, true] {
        if is_caught_up {
            catch_up(&fixture).await;
        }
        let (one, two) = (first.0, second_call.0);
        assert_eq!(found(&fixture, &open(None)).await, [two, one]);
        assert_eq!(found(&fixture, &open(Some(&here))).await, [one]);
    }
    settle(&first, false).await;
    assert_eq!(found(&fixture, &open(Some(&here))).await, []);
    assert_eq!(found(&fixture, &open(None)).await, [second_call.0]);
    catch_up(&fixture).await;
    assert_eq!(found(&fixture, &open(None)).await, [second_call.0]);
    settle(&second_call, false).await;
    assert_eq!(found(&fixture, &open(None)).await, []);
    let of_here = CallQuery {
        outcome: None,
        ..open(Some(&here))
    };
    assert_eq!(found(&fixture, &of_here).await, [first.0, done]);
}

/// A session with the same name in two workspaces is two, and a workspace is known by the root its plans
/// show.
pub async fn sessions_and_workspaces_are_told_apart(fixture: impl LedgerFixture) {
    let (here, there) = (workspace("here"), workspace("there"));
    for (session, place, at) in [
        ("main", &here, 1),
        ("main", &there, 2),
        ("side", &here, 3),
        ("main", &here, 4),
    ] {
        call(&fixture, &in_session(session), place, second(at), false).await;
    }
    let history = fixture.history();
    let told = async |only: &[WorkspaceId]| {
        let sessions = works("sessions", history.sessions(&local(), only, 10).await);
        let told = sessions.into_iter().map(|session| {
            let Some(name) = session.workspace.as_str().strip_prefix("ws-") else {
                panic!("{session:?}");
            };
            (session.id.to_string(), name.to_owned(), session.calls)
        });
        told.collect::<Vec<_>>()
    };
    let line = |session: &str, place: &str, calls| (session.to_owned(), place.to_owned(), calls);
    let all = [
        line("main", "here", 2),
        line("side", "here", 1),
        line("main", "there", 1),
    ];
    assert_eq!(told(&[]).await, all);
    let (one, other) = (here.clone(), there.clone());
    assert_eq!(
        told(std::slice::from_ref(&other)).await,
        [line("main", "there", 1)]
    );
    assert_eq!(told(&[other, one]).await, all);
    let workspaces = works("workspaces", history.workspaces(&local(), 10).await);
    let told: Vec<_> = workspaces
        .iter()
        .map(|one| (one.id.clone(), one.shown.as_deref(), one.calls, one.last))
        .collect();
    let shown = Some("memory:/workspace");
    assert_eq!(
        told,
        [(here, shown, 3, second(4)), (there, shown, 1, second(2)),]
    );
    let nobody = in_tenant("nobody").tenant.clone();
    assert_eq!(
        works("workspaces", history.workspaces(&nobody, 10).await),
        []
    );
    let verified = works("verify", history.verify(&local()).await);
    assert!(
        matches!(verified, Verification::Intact { .. }),
        "{verified:?}"
    );
}

/// Counts by day, tool, agent and workspace, and all together, of what a filter means, and of nobody else's
/// calls.
pub async fn calls_are_counted_in_groups(fixture: impl LedgerFixture) {
    const DAY: u64 = 24 * 60 * 60;
    let (here, there) = (workspace("here"), workspace("there"));
    let (claude, codex) = (agent("claude"), agent("codex"));
    call(&fixture, &claude, &here, second(10), false).await;
    call(&fixture, &claude, &here, second(11), true).await;
    call(&fixture, &codex, &there, second(12 + DAY), false).await;
    let denied = opened(&fixture, &codex, &here, second(13 + DAY)).await;
    settle_as(&denied, Terminal::Denied, true).await;
    let _open = opened(&fixture, &codex, &here, second(14 + DAY)).await;
    call(&fixture, &in_tenant("other"), &here, second(10), false).await;
    let stats = async |by: StatsKey, filter: CallFilter| {
        let query = StatsQuery {
            filter,
            by,
            limit: 10,
        };
        works("stats", fixture.history().stats(&local(), &query).await)
    };
    let days = stats(StatsKey::Day { offset_us: 0 }, CallFilter::default()).await;
    let day = START.0 / (24 * 60 * 60 * 1_000_000);
    let ended = 2;
    let expect = |group: StatsGroup, calls, asked, denied, ended: u32| StatsRow {
        calls,
        asked,
        denied,
        ran: RAN * ended,
        waited: WAITED * u32::try_from(asked).unwrap_or_default(),
        bytes: u64::from(ended) * 6,
        ..StatsRow::empty(group)
    };
    assert_eq!(
        days,
        [
            expect(StatsGroup::Day(day + 1), 3, 1, 1, ended),
            expect(StatsGroup::Day(day), 2, 0, 0, ended),
        ]
    );
    let name = |name: &str| StatsGroup::Name(name.to_owned());
    let by_agent = stats(StatsKey::Agent, CallFilter::default()).await;
    assert_eq!(
        by_agent,
        [
            expect(name("codex"), 3, 1, 1, 2),
            expect(name("claude"), 2, 0, 0, 2),
        ]
    );
    let by_tool = stats(StatsKey::Tool, CallFilter::of_workspace(here.clone())).await;
    assert_eq!(
        by_tool,
        [
            expect(name("builtin/bash"), 3, 1, 1, 2),
            expect(name("github/bash"), 1, 0, 0, 1),
        ]
    );
    let by_workspace = stats(StatsKey::Workspace, CallFilter::default()).await;
    let counts: Vec<_> = by_workspace
        .iter()
        .map(|row| (&row.group, row.calls))
        .collect();
    assert_eq!(
        counts,
        [(&name(here.as_str()), 4), (&name(there.as_str()), 1)]
    );
    // Fewer groups than there are, but all calls.
    for (by, calls) in [
        (StatsKey::Agent, 3_u64),
        (StatsKey::Day { offset_us: 0 }, 3),
        (StatsKey::All, 5),
    ] {
        let one = StatsQuery {
            filter: CallFilter::default(),
            by,
            limit: 1,
        };
        let one = works("stats", fixture.history().stats(&local(), &one).await);
        let counts: Vec<u64> = one.iter().map(|row| row.calls).collect();
        assert_eq!(counts, [calls], "{by:?}");
    }
    let all = stats(StatsKey::All, CallFilter::of_workspace(here)).await;
    assert_eq!(all, [expect(StatsGroup::All, 4, 1, 1, 3)]);
    let none = stats(
        StatsKey::All,
        CallFilter::of_workspace(workspace("nowhere")),
    )
    .await;
    assert_eq!(none, []);
}

fn workspace(name: &str) -> WorkspaceId {
    WorkspaceId::parse(&format!("ws-{name}")).expect("an id")
}

fn agent(name: &str) -> Arc<Principal> {
    Arc::new(Principal {
        agent: AgentId::parse(name).expect("a name"),
        ..principal().as_ref().clone()
    })
}

/// The tool of another provider that some calls are of.
fn github() -> ToolKey {
    let provider = ProviderId::parse("github").expect("a provider");
    ToolKey::new(provider, tool().tool)
}

type OpenedCall = (CallId, Box<dyn CallRecord>);

/// Opens a call of the tool `bash` in a workspace.
async fn opened(
    fixture: &impl LedgerFixture,
    who: &Arc<Principal>,
    workspace: &WorkspaceId,
    at: haft_contract::host::Timestamp,
) -> OpenedCall {
    let request = request(who, "echo").in_workspace(workspace.clone());
    let record = open_at(fixture, &request, at, Durability::Durable).await;
    (request.id, record)
}

async fn settle(call: &OpenedCall, asked: bool) {
    settle_as(call, Terminal::Succeeded, asked).await;
}

async fn settle_as((id, record): &OpenedCall, terminal: Terminal, asked: bool) {
    let mut facts = Facts::default();
    facts.timings.ran = RAN;
    let mut events = Vec::new();
    if asked {
        facts.timings.asked = WAITED;
        events.push(RecordedEvent {
            call: *id,
            at: START,
            event: CallEvent::ApprovalAsked {
                id: ApprovalId::new(),
                digest: PlanDigest([7; 32]),
                expires: second(60),
            },
        });
    }
    events.extend(settled_with(*id, terminal, "output", facts));
    record.settle(events);
    works("settled", record.settled().await);
}

/// Records a whole call.
async fn call(
    fixture: &impl LedgerFixture,
    who: &Arc<Principal>,
    workspace: &WorkspaceId,
    at: haft_contract::host::Timestamp,
    of_mcp: bool,
) -> CallId {
    let request = request(who, "echo").in_workspace(workspace.clone());
    let ledger = fixture.ledger();
    let record = if of_mcp {
        let record = works("open", ledger.open(&request, at).await);
        let events = started_of("github", request.id);
        works("append", record.append(events, Durability::Queued).await);
        record
    } else {
        open_at(fixture, &request, at, Durability::Queued).await
    };
    let mut facts = Facts::default();
    facts.timings.ran = RAN;
    let mut events = settled_with(request.id, Terminal::Succeeded, "output", facts);
    if of_mcp {
        for happened in &mut events {
            if let CallEvent::Settled { outcome } = &mut happened.event {
                Arc::make_mut(outcome).tool = Some(github());
            }
        }
    }
    record.settle(events);
    works("settled", record.settled().await);
    request.id
}

async fn found(fixture: &impl LedgerFixture, query: &CallQuery) -> Vec<CallId> {
    let calls = fixture.history().calls(&local(), query).await;
    let calls = works("calls", calls).into_iter();
    calls.map(|call| call.id).collect()
}

async fn catch_up(fixture: &impl LedgerFixture) {
    while works("catch_up", fixture.history().catch_up().await) > 0 {}
}
