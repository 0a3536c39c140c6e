//! Standing approvals: kept, counted down by starts, ended.

use std::{sync::Arc, time::Duration};

use haft_contract::{
    AgentId, Principal, UserId, WorkspaceId,
    host::{
        Durability, Grant, GrantFinder, GrantId, GrantKey, GrantScope, GrantedWorkspace,
        LedgerErrorKind, Timestamp,
    },
};

use super::{
    LedgerFixture,
    script::{START, request, second, start, start_with},
    write::{here, local},
};
use crate::{
    EveryGrant, principal,
    principal::{in_session, in_tenant},
    suite::fixture::works,
};

/// A grant comes back as it was made, with where and for whom it holds.
pub async fn a_grant_holds_where_it_was_made_for(fixture: impl LedgerFixture) {
    let store = fixture.ledger().grants();
    let mine = principal();
    let session = Grant {
        scope: GrantScope::Session(mine.session.clone()),
        ..grant(&mine)
    };
    let project = Grant {
        scope: GrantScope::Project(granted(here())),
        cause: Some(haft_contract::CallId::new()),
        made_at: second(1),
        ..grant(&mine)
    };
    let agent = Grant {
        made_at: second(2),
        until: Some(second(100)),
        uses_left: Some(3),
        ..grant(&mine)
    };
    for grant in [&session, &project, &agent] {
        works("add", store.add(grant.clone()).await);
    }
    let all = [session.clone(), project.clone(), agent.clone()];
    assert_eq!(works("list", store.list(&local(), START).await), all);
    let other_session = in_session("other");
    let other_agent = who(&mine, |who| who.agent = AgentId::parse("b").expect("an id"));
    let other_user = who(&mine, |who| who.user = UserId::parse("b").expect("an id"));
    let cases = [
        (&mine, here(), all.to_vec()),
        (&mine, elsewhere(), vec![session.clone(), agent.clone()]),
        (&other_session, here(), vec![project.clone(), agent]),
        (&other_agent, here(), vec![session, project]),
        (&other_user, here(), vec![]),
        (&in_tenant("elsewhere"), here(), vec![]),
    ];
    for (who, workspace, expected) in cases {
        let holding = works(
            "holding",
            store.holding(who, &workspace, START, &EveryGrant).await,
        );
        assert_eq!(holding, expected, "{who:?} in {workspace}");
    }
}

/// Two workspaces with the same display name are two: a grant for one does not hold in the other,
/// nor after a restart.
pub async fn a_grant_knows_its_workspace_by_id(mut fixture: impl LedgerFixture) {
    let mine = principal();
    let theirs = Grant {
        scope: GrantScope::Project(granted(elsewhere())),
        ..grant(&mine)
    };
    works("add", fixture.ledger().grants().add(theirs.clone()).await);
    for reopened in [false, true] {
        if reopened {
            fixture.reopen().await;
        }
        let store = fixture.ledger().grants();
        let holding = store.holding(&mine, &here(), START, &EveryGrant).await;
        assert_eq!(works("holding", holding), []);
        let holding = store.holding(&mine, &elsewhere(), START, &EveryGrant).await;
        assert_eq!(works("holding", holding), std::slice::from_ref(&theirs));
    }
}

/// A grant is found by the keys of its rule, and stays so while it is used.
pub async fn a_grant_is_found_by_its_keys(mut fixture: impl LedgerFixture) {
    let mine = principal();
    let made: Vec<Grant> = (0..20)
        .map(|number| Grant {
            rule: number.to_string(),
            uses_left: Some(20),
            made_at: second(number),
            ..grant(&mine)
        })
        .collect();
    for grant in &made {
        works("add", fixture.ledger().grants().add(grant.clone()).await);
    }
    for reopened in [false, true] {
        if reopened {
            fixture.reopen().await;
        }
        for used in &made {
            let store = fixture.ledger().grants();
            let finder = ByRule(vec![rule_key(&used.rule), rule_key("no rule")]);
            let holding = works(
                "holding",
                store.holding(&mine, &here(), START, &finder).await,
            );
            let found = holding.iter().find(|grant| grant.id == used.id);
            let uses_left = found.and_then(|grant| grant.uses_left);
            assert_eq!(uses_left, Some(if reopened { 19 } else { 20 }));
            works(
                "start",
                start(&fixture, &mine, None, &[used.id], START).await,
            );
        }
    }
}

/// A grant ends when its time is up, and at once when it is revoked.
pub async fn a_grant_ends(fixture: impl LedgerFixture) {
    let store = fixture.ledger().grants();
    let mine = principal();
    let timed = Grant {
        until: Some(second(10)),
        ..grant(&mine)
    };
    let lasting = Grant {
        made_at: second(1),
        ..grant(&mine)
    };
    for grant in [&timed, &lasting] {
        works("add", store.add(grant.clone()).await);
    }
    let again = store.add(lasting.clone()).await.expect_err("the same id");
    assert_eq!(again.kind(), LedgerErrorKind::Conflict);
    let at = |at: Timestamp| {
        let (store, mine) = (Arc::clone(&store), Arc::clone(&mine));
        async move {
            works(
                "holding",
                store.holding(&mine, &here(), at, &EveryGrant).await,
            )
        }
    };
    assert_eq!(at(second(9)).await, [timed.clone(), lasting.clone()]);
    assert_eq!(at(second(10)).await, std::slice::from_ref(&lasting));
    assert_eq!(
        works("list", store.list(&local(), second(10)).await),
        std::slice::from_ref(&lasting)
    );
    let ended = start(&fixture, &mine, None, &[timed.id], second(10)).await;
    assert_eq!(ended.expect_err("ended").kind(), LedgerErrorKind::Conflict);
    works(
        "start",
        start(&fixture, &mine, None, &[lasting.id], START).await,
    );
    let elsewhere = in_tenant("elsewhere").tenant.clone();
    assert!(!works("revoke", store.revoke(&elsewhere, lasting.id).await));
    assert!(works("revoke", store.revoke(&local(), lasting.id).await));
    assert!(!works("again", store.revoke(&local(), lasting.id).await));
    assert_eq!(at(second(10)).await, []);
    let revoked = start(&fixture, &mine, None, &[lasting.id], START).await;
    assert_eq!(
        revoked.expect_err("revoked").kind(),
        LedgerErrorKind::Conflict
    );
}

/// Grants for a session end with it, and no others do.
pub async fn a_sessions_grants_end_with_it(fixture: impl LedgerFixture) {
    let ledger = fixture.ledger();
    let store = ledger.grants();
    let (mine, theirs) = (principal(), in_tenant("elsewhere"));
    let of_session = |who: &Principal| Grant {
        scope: GrantScope::Session(who.session.clone()),
        ..grant(who)
    };
    let other = in_session("other");
    let made = [of_session(&mine), of_session(&other), grant(&mine)];
    let elsewhere = of_session(&theirs);
    for grant in made.iter().chain([&elsewhere]) {
        works("add", store.add(grant.clone()).await);
    }
    let approvals = ledger.approvals();
    let ended = approvals.end_session(&local(), &mine.session, START).await;
    works("end", ended);
    assert_eq!(works("list", store.list(&local(), START).await), made[1..]);
    assert_eq!(
        works("list", store.list(&theirs.tenant, START).await),
        [elsewhere]
    );
}

/// A counted grant allows its number of starts and no more, however many try at once. A start uses
/// all its grants or none.
pub async fn a_counted_grant_is_used_up(fixture: impl LedgerFixture) {
    let store = fixture.ledger().grants();
    let mine = principal();
    let counted = Grant {
        uses_left: Some(3),
        ..grant(&mine)
    };
    works("add", store.add(counted.clone()).await);
    let unknown = start(&fixture, &mine, None, &[counted.id, GrantId::new()], START).await;
    assert_eq!(
        unknown.expect_err("unknown").kind(),
        LedgerErrorKind::Conflict
    );
    let stranger = who(&mine, |who| who.user = UserId::parse("b").expect("an id"));
    let strange = start(&fixture, &stranger, None, &[counted.id], START).await;
    assert_eq!(
        strange.expect_err("not theirs").kind(),
        LedgerErrorKind::Conflict
    );
    let left = works("list", store.list(&local(), START).await);
    assert_eq!(left, std::slice::from_ref(&counted));
    let starts = (0..10).map(|number| {
        let (ledger, request) = (fixture.ledger(), request(&mine, &format!("echo {number}")));
        let grants = vec![counted.id, counted.id];
        tokio::spawn(async move {
            let record = works("open", ledger.open(&request, START).await);
            let events = start_with(request.id, None, &grants, START);
            record.append(events, Durability::Durable).await
        })
    });
    let mut started = 0;
    for start in starts.collect::<Vec<_>>() {
        match works("a task", start.await) {
            Ok(()) => started += 1,
            Err(error) => assert_eq!(error.kind(), LedgerErrorKind::Conflict, "{error}"),
        }
    }
    assert_eq!(started, 3);
    assert_eq!(works("list", store.list(&local(), START).await), []);
    assert_eq!(
        works(
            "holding",
            store.holding(&mine, &here(), START, &EveryGrant).await
        ),
        []
    );
}

/// Grants and their counts outlive the process.
pub async fn grants_survive_reopening(mut fixture: impl LedgerFixture) {
    let mine = principal();
    let counted = Grant {
        uses_left: Some(2),
        until: Some(START.after(Duration::from_hours(1))),
        ..grant(&mine)
    };
    {
        let store = fixture.ledger().grants();
        works("add", store.add(counted.clone()).await);
        works(
            "start",
            start(&fixture, &mine, None, &[counted.id], START).await,
        );
    }
    fixture.reopen().await;
    let store = fixture.ledger().grants();
    let left = Grant {
        uses_left: Some(1),
        ..counted
    };
    assert_eq!(works("list", store.list(&local(), START).await), [left]);
}

/// Finds grants by these keys, where a rule that is a number has one of its own.
struct ByRule(Vec<GrantKey>);

impl GrantFinder for ByRule {
    fn rule_keys(&self, rule: &str) -> Vec<GrantKey> {
        vec![rule_key(rule)]
    }

    fn call_keys(&self) -> Vec<GrantKey> {
        self.0.clone()
    }
}

fn rule_key(rule: &str) -> GrantKey {
    GrantKey(rule.parse().map_or(u64::MAX, |number: u64| number + 1))
}

fn elsewhere() -> WorkspaceId {
    WorkspaceId::parse("elsewhere").expect("an id")
}

/// A workspace with the same display name as every other.
fn granted(id: WorkspaceId) -> GrantedWorkspace {
    GrantedWorkspace {
        id,
        shown: "/workspace".to_owned(),
    }
}

fn grant(principal: &Principal) -> Grant {
    Grant {
        id: GrantId::new(),
        tenant: principal.tenant.clone(),
        user: principal.user.clone(),
        rule: "bash(cargo test *)".to_owned(),
        scope: GrantScope::Agent(principal.agent.clone()),
        until: None,
        uses_left: None,
        made_by: "ada".to_owned(),
        made_at: START,
        cause: None,
    }
}

fn who(principal: &Principal, change: impl FnOnce(&mut Principal)) -> Arc<Principal> {
    let mut who = principal.clone();
    change(&mut who);
    Arc::new(who)
}
