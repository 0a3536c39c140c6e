//! Questions to people: asked once, answered once, used once.

use std::{sync::Arc, time::Duration};

use haft_contract::{
    AgentId, CallEvent, CallId, PlanDigest, Principal, Terminal,
    host::{
        AnswerError, AnswerPlace, Answerer, Approval, ApprovalId, ApprovalQuestion, ApprovalState,
        ApprovalStore, Durability, GivenAnswer, GivenVerdict, LedgerErrorKind,
    },
    identity::Scope,
};
use serde_json::json;

use super::{
    LedgerFixture,
    script::{START, happened, request, second, settled, start, start_with},
    write::local,
};
use crate::{
    PATIENCE, principal,
    principal::{in_session, in_tenant},
    suite::fixture::works,
};

/// The same call asked again finds its question and its answer; any other call is a new question.
pub async fn the_same_question_is_asked_once(fixture: impl LedgerFixture) {
    let store = fixture.ledger().approvals();
    let mine = principal();
    let first = works("ask", store.ask(question(&mine, 1)).await);
    assert_eq!(first.state, ApprovalState::Pending);
    assert_eq!(first.principal, mine);
    assert_eq!(first.form.as_deref(), Some(&*question(&mine, 1).form));
    let again = works("ask", store.ask(question(&mine, 1)).await);
    assert_eq!(again, first);
    let mut others = vec![
        question(&mine, 2),
        question(&in_session("other"), 1),
        question(&in_tenant("elsewhere"), 1),
    ];
    others.push(question(&another_agent(&mine), 1));
    for other in others {
        let other = works("ask", store.ask(other).await);
        assert_ne!(other.id, first.id);
    }
    works("answer", approve(&*store, &first).await);
    let again = works("ask", store.ask(question(&mine, 1)).await);
    assert_eq!(again.id, first.id);
    assert!(matches!(again.state, ApprovalState::Approved { .. }));
}

/// A question that was refused, withdrawn, used or expired is asked anew.
pub async fn a_closed_question_is_asked_anew(fixture: impl LedgerFixture) {
    let store = fixture.ledger().approvals();
    let mine = principal();
    let refused = works("ask", store.ask(question(&mine, 1)).await);
    works("answer", refuse(&*store, &refused, "no").await);
    let withdrawn = works("ask", store.ask(question(&mine, 1)).await);
    works(
        "withdraw",
        store.withdraw(&local(), withdrawn.id, START).await,
    );
    let used = approved(&fixture, &mine, 1).await;
    works(
        "start",
        start(&fixture, &mine, Some(used.id), &[], START).await,
    );
    let last = works("ask", store.ask(question(&mine, 1)).await);
    let ids = [refused.id, withdrawn.id, used.id, last.id];
    let distinct: std::collections::BTreeSet<ApprovalId> = ids.into();
    assert_eq!(distinct.len(), ids.len());
    let later = ApprovalQuestion {
        asked: last.expires,
        expires: last.expires.after(Duration::from_mins(1)),
        ..question(&mine, 1)
    };
    let after_lapse = works("ask", store.ask(later).await);
    assert_ne!(after_lapse.id, last.id);
}

/// AP-13: a session has a limited number of open questions; answering one makes room.
pub async fn ap_13_open_questions_of_a_session_are_limited(fixture: impl LedgerFixture) {
    let store = fixture.ledger().approvals();
    let mine = principal();
    let limited = |number| ApprovalQuestion {
        most_open: 2,
        ..question(&mine, number)
    };
    let first = works("ask", store.ask(limited(1)).await);
    works("ask", store.ask(limited(2)).await);
    let over = store.ask(limited(3)).await.expect_err("the third question");
    assert_eq!(over.kind(), LedgerErrorKind::LimitExceeded);
    works("the same again", store.ask(limited(1)).await);
    works(
        "elsewhere",
        store.ask(question(&in_session("other"), 3)).await,
    );
    works("answer", refuse(&*store, &first, "no").await);
    works("ask", store.ask(limited(3)).await);
}

/// The first answer counts, and everybody sees it.
pub async fn only_the_first_answer_counts(fixture: impl LedgerFixture) {
    let store = fixture.ledger().approvals();
    let asked = works("ask", store.ask(question(&principal(), 1)).await);
    let refused = works("answer", refuse(&*store, &asked, "not today").await);
    let ApprovalState::Refused { by, reason, .. } = &refused.state else {
        panic!("{refused:?}");
    };
    assert_eq!((by.as_str(), reason.as_deref()), ("ada", Some("not today")));
    let second = approve(&*store, &asked).await;
    assert!(
        matches!(&second, Err(AnswerError::NotOpen { state }) if *state == refused.state),
        "{second:?}"
    );
    let seen = works("get", store.get(&local(), asked.id).await);
    assert_eq!(seen.map(|seen| seen.state), Some(refused.state));
}

/// AP-05: a question that expired, was refused or withdrawn, or whose session ended takes no answer
/// and starts nothing.
pub async fn ap_05_a_closed_question_takes_no_answer(fixture: impl LedgerFixture) {
    let store = fixture.ledger().approvals();
    let mine = principal();
    let lapsed = works("ask", store.ask(question(&mine, 1)).await);
    let late = store
        .answer(&local(), lapsed.id, yes(&lapsed), lapsed.expires)
        .await;
    assert!(
        matches!(&late, Err(AnswerError::NotOpen { state }) if *state == ApprovalState::Lapsed),
        "{late:?}"
    );
    let withdrawn = works("ask", store.ask(question(&mine, 2)).await);
    works(
        "withdraw",
        store.withdraw(&local(), withdrawn.id, START).await,
    );
    let refused = works("ask", store.ask(question(&mine, 3)).await);
    works("answer", refuse(&*store, &refused, "no").await);
    let ended = works("ask", store.ask(question(&mine, 4)).await);
    let ended_approved = approved(&fixture, &mine, 5).await;
    works(
        "end",
        store.end_session(&local(), &mine.session, START).await,
    );
    for closed in [&withdrawn, &refused, &ended, &ended_approved] {
        let answer = approve(&*store, closed).await;
        assert!(
            matches!(answer, Err(AnswerError::NotOpen { .. })),
            "{answer:?}"
        );
    }
    for closed in [&lapsed, &withdrawn, &refused, &ended, &ended_approved] {
        let conflict = start(&fixture, &mine, Some(closed.id), &[], closed.expires).await;
        assert_eq!(
            conflict.expect_err("no start").kind(),
            LedgerErrorKind::Conflict
        );
    }
    let open = works("pending", store.pending(&local(), START, 10).await);
    assert!(open.iter().all(|open| open.id == lapsed.id), "{open:?}");
}

/// A withdrawal takes back a question, not an answer; the end of a session takes back both.
pub async fn an_answer_is_not_withdrawn_with_its_question(fixture: impl LedgerFixture) {
    let store = fixture.ledger().approvals();
    let mine = principal();
    let answered = approved(&fixture, &mine, 1).await;
    works(
        "withdraw",
        store.withdraw(&local(), answered.id, START).await,
    );
    works(
        "start",
        start(&fixture, &mine, Some(answered.id), &[], START).await,
    );
    let (other, theirs) = (in_session("other"), in_tenant("elsewhere"));
    let other = approved(&fixture, &other, 2).await;
    let elsewhere = works("ask", store.ask(question(&theirs, 2)).await);
    works(
        "end",
        store.end_session(&local(), &mine.session, START).await,
    );
    let untouched = works("get", store.get(&local(), other.id).await).expect("the other's");
    assert_eq!(untouched.state, other.state);
    let untouched = works("get", store.get(&theirs.tenant, elsewhere.id).await);
    assert_eq!(untouched.expect("theirs").state, ApprovalState::Pending);
}

/// AP-02: an answer to another plan does not count.
pub async fn ap_02_an_answer_binds_the_plan(fixture: impl LedgerFixture) {
    let store = fixture.ledger().approvals();
    let asked = works("ask", store.ask(question(&principal(), 1)).await);
    let other = GivenAnswer {
        digest: PlanDigest([9; 32]),
        ..yes(&asked)
    };
    let answer = store.answer(&local(), asked.id, other, START).await;
    assert!(matches!(answer, Err(AnswerError::OtherPlan)), "{answer:?}");
    works("the right one", approve(&*store, &asked).await);
}

/// AP-06: nobody answers their own question, or any question without the scope.
pub async fn ap_06_nobody_answers_their_own_question(fixture: impl LedgerFixture) {
    let store = fixture.ledger().approvals();
    let mine = principal();
    let asked = works("ask", store.ask(question(&mine, 1)).await);
    let reviewer = Principal {
        agent: AgentId::parse("reviewer").expect("an identifier"),
        scopes: [Scope::parse("approve").expect("a scope")].into(),
        ..Principal::clone(&in_session("review"))
    };
    let mut unfit = [(); 5].map(|()| reviewer.clone());
    unfit[0].scopes.clear();
    unfit[1].agent = mine.agent.clone();
    unfit[2].ancestors = vec![mine.agent.clone()];
    unfit[3].session = mine.session.clone();
    unfit[4].tenant = in_tenant("elsewhere").tenant.clone();
    for unfit in unfit {
        let answer = answer_as(&*store, &asked, &unfit).await;
        assert!(
            matches!(answer, Err(AnswerError::NotYours)),
            "{unfit:?}: {answer:?}"
        );
    }
    works("a reviewer", answer_as(&*store, &asked, &reviewer).await);
}

/// AP-04: another tenant neither sees, answers, withdraws nor uses a question.
pub async fn ap_04_another_tenants_question_is_unknown(fixture: impl LedgerFixture) {
    let store = fixture.ledger().approvals();
    let (mine, theirs) = (principal(), in_tenant("elsewhere"));
    let asked = works("ask", store.ask(question(&mine, 1)).await);
    let tenant = &theirs.tenant;
    assert_eq!(works("get", store.get(tenant, asked.id).await), None);
    assert_eq!(works("pending", store.pending(tenant, START, 10).await), []);
    let answer = store.answer(tenant, asked.id, yes(&asked), START).await;
    assert!(matches!(answer, Err(AnswerError::Unknown)), "{answer:?}");
    let withdrawn = store.withdraw(tenant, asked.id, START).await;
    assert_eq!(
        withdrawn.expect_err("theirs").kind(),
        LedgerErrorKind::NotFound
    );
    let waited = store.answered(tenant, asked.id).await;
    assert_eq!(
        waited.expect_err("theirs").kind(),
        LedgerErrorKind::NotFound
    );
    works("answer", approve(&*store, &asked).await);
    for stranger in [theirs, in_session("other"), another_agent(&mine)] {
        let conflict = start(&fixture, &stranger, Some(asked.id), &[], START).await;
        assert_eq!(
            conflict.expect_err("no start").kind(),
            LedgerErrorKind::Conflict
        );
    }
    works(
        "its own",
        start(&fixture, &mine, Some(asked.id), &[], START).await,
    );
}

/// AP-01: one approval starts one call, however many try at once; the others are not recorded as
/// started, but their other events are.
pub async fn ap_01_an_approval_starts_one_call(fixture: impl LedgerFixture) {
    let mine = principal();
    let approval = approved(&fixture, &mine, 1).await;
    let mut tasks = Vec::new();
    for number in 0..20 {
        let ledger = fixture.ledger();
        let request = request(&mine, &format!("echo {number}"));
        let id = approval.id;
        tasks.push(tokio::spawn(async move {
            let record = works("open", ledger.open(&request, START).await);
            let events = start_with(request.id, Some(id), &[], START);
            let result = record.append(events, Durability::Durable).await;
            (request.id, record, result)
        }));
    }
    let mut winners = Vec::new();
    for task in tasks {
        let (id, record, result) = works("a task", task.await);
        let events = works("events", fixture.history().events(&local(), id).await);
        let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
        assert!(kinds.contains(&"planned"), "{kinds:?}");
        match result {
            Ok(()) => {
                assert!(kinds.contains(&"started"), "{kinds:?}");
                winners.push(id);
            }
            Err(error) => {
                assert_eq!(error.kind(), LedgerErrorKind::Conflict, "{error}");
                assert!(!kinds.contains(&"started"), "{kinds:?}");
            }
        }
        record.settle(settled(id, Terminal::Succeeded, ""));
        works("settled", record.settled().await);
    }
    assert_eq!(winners.len(), 1);
    let store = fixture.ledger().approvals();
    let used = works("get", store.get(&local(), approval.id).await).expect("the approval");
    assert_eq!(used.state, ApprovalState::Used { by: winners[0] });
    let verified = works("verify", fixture.history().verify(&local()).await);
    assert!(
        matches!(verified, haft_contract::host::Verification::Intact { .. }),
        "{verified:?}"
    );
}

/// A waiter learns about an answer, a withdrawal and the end of the session; an earlier answer is
/// there at once.
pub async fn whoever_waits_is_told(fixture: impl LedgerFixture) {
    let store = fixture.ledger().approvals();
    let mine = principal();
    let mut waits = Vec::new();
    for number in 1..=4 {
        let asked = works("ask", store.ask(question(&mine, number)).await);
        for _ in 0..2 {
            let (store, id) = (Arc::clone(&store), asked.id);
            let wait = async move { store.answered(&local(), id).await };
            waits.push((number, tokio::spawn(tokio::time::timeout(PATIENCE, wait))));
        }
        tokio::task::yield_now().await;
        match number {
            1 => drop(works("answer", approve(&*store, &asked).await)),
            2 => drop(works("answer", refuse(&*store, &asked, "no").await)),
            3 => works("withdraw", store.withdraw(&local(), asked.id, START).await),
            _ => works(
                "end",
                store.end_session(&local(), &mine.session, START).await,
            ),
        }
        let known = tokio::time::timeout(PATIENCE, store.answered(&local(), asked.id)).await;
        works("known", works("in time", known));
    }
    for (number, wait) in waits {
        let state = works("told", works("in time", works("a task", wait.await))).state;
        let fits = match number {
            1 => matches!(
                state,
                ApprovalState::Approved { .. } | ApprovalState::Withdrawn
            ),
            2 => matches!(state, ApprovalState::Refused { .. }),
            _ => state == ApprovalState::Withdrawn,
        };
        assert!(fits, "{number}: {state:?}");
    }
}

/// Open questions are listed oldest first, up to a limit, without expired ones.
pub async fn open_questions_are_listed(fixture: impl LedgerFixture) {
    let store = fixture.ledger().approvals();
    let mut asked = Vec::new();
    for number in 1..=4 {
        let question = ApprovalQuestion {
            asked: second(u64::from(number)),
            expires: second(100 * u64::from(number)),
            ..question(&principal(), number)
        };
        asked.push(works("ask", store.ask(question).await));
    }
    works("answer", refuse(&*store, &asked[1], "no").await);
    let ids = |approvals: Vec<Approval>| -> Vec<ApprovalId> {
        approvals.iter().map(|approval| approval.id).collect()
    };
    let all = works("pending", store.pending(&local(), second(5), 10).await);
    assert_eq!(ids(all), [asked[0].id, asked[2].id, asked[3].id]);
    let some = works("pending", store.pending(&local(), second(5), 2).await);
    assert_eq!(ids(some), [asked[0].id, asked[2].id]);
    let later = works("pending", store.pending(&local(), second(300), 10).await);
    assert_eq!(ids(later), [asked[3].id]);
}

/// AP-10: a question outlives the process that asked it, as pending; its call does not.
pub async fn ap_10_a_question_survives_reopening(mut fixture: impl LedgerFixture) {
    let mine = principal();
    let (asked, call, given) = {
        let store = fixture.ledger().approvals();
        let request = request(&mine, "rm file");
        let record = works("open", fixture.ledger().open(&request, START).await);
        let question = ApprovalQuestion {
            call: request.id,
            ..question(&mine, 1)
        };
        let asked = works("ask", store.ask(question).await);
        let event = CallEvent::ApprovalAsked {
            id: asked.id,
            digest: asked.digest,
            expires: asked.expires,
        };
        let events = vec![happened(request.id, event)];
        works("append", record.append(events, Durability::Durable).await);
        let given = approved(&fixture, &mine, 2).await;
        drop(record);
        (asked, request.id, given)
    };
    fixture.reopen().await;
    let store = fixture.ledger().approvals();
    let found = works("get", store.get(&local(), asked.id).await).expect("the question");
    assert_eq!(found, asked);
    let settled = works("call", fixture.history().call(&local(), call).await);
    assert!(settled.expect("the call").terminal.is_some());
    let again = works("ask", store.ask(question(&mine, 1)).await);
    assert_eq!(again.id, asked.id);
    works("answer", approve(&*store, &asked).await);
    for approval in [&asked, &given] {
        works(
            "once",
            start(&fixture, &mine, Some(approval.id), &[], START).await,
        );
    }
    fixture.reopen().await;
    for approval in [&asked, &given] {
        let conflict = start(&fixture, &mine, Some(approval.id), &[], START).await;
        assert_eq!(
            conflict.expect_err("no start").kind(),
            LedgerErrorKind::Conflict
        );
    }
}

/// A principal's question, a different one for each number.
pub(super) fn question(principal: &Arc<Principal>, number: u8) -> ApprovalQuestion {
    ApprovalQuestion {
        call: CallId::new(),
        principal: Arc::clone(principal),
        digest: PlanDigest([number; 32]),
        form: Arc::new(json!({ "tool": "bash", "number": number })),
        summary: format!("question {number}"),
        asked: START,
        expires: START.after(Duration::from_hours(1)),
        most_open: 100,
    }
}

fn yes(asked: &Approval) -> GivenAnswer {
    GivenAnswer {
        verdict: GivenVerdict::Approve,
        digest: asked.digest,
        by: Answerer::Person {
            name: "ada".to_owned(),
            place: AnswerPlace::Elsewhere,
        },
    }
}

async fn approve(store: &dyn ApprovalStore, asked: &Approval) -> Result<Approval, AnswerError> {
    let tenant = asked.principal.tenant.clone();
    store.answer(&tenant, asked.id, yes(asked), START).await
}

async fn answer_as(
    store: &dyn ApprovalStore,
    asked: &Approval,
    who: &Principal,
) -> Result<Approval, AnswerError> {
    let answer = GivenAnswer {
        by: Answerer::Credential(Arc::new(who.clone())),
        ..yes(asked)
    };
    store.answer(&local(), asked.id, answer, START).await
}

async fn refuse(
    store: &dyn ApprovalStore,
    asked: &Approval,
    reason: &str,
) -> Result<Approval, AnswerError> {
    let answer = GivenAnswer {
        verdict: GivenVerdict::Refuse {
            reason: Some(reason.to_owned()),
        },
        ..yes(asked)
    };
    store.answer(&local(), asked.id, answer, START).await
}

async fn approved(
    fixture: &impl LedgerFixture,
    principal: &Arc<Principal>,
    number: u8,
) -> Approval {
    let store = fixture.ledger().approvals();
    let asked = works("ask", store.ask(question(principal, number)).await);
    works("answer", approve(&*store, &asked).await)
}

fn another_agent(principal: &Principal) -> Arc<Principal> {
    Arc::new(Principal {
        agent: AgentId::parse("another").expect("an identifier"),
        ..principal.clone()
    })
}
