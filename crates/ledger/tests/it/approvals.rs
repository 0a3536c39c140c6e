//! Questions and grants where more than one process, a crash or somebody with a database editor is
//! involved. What every ledger does is in the suite.

use std::{sync::Arc, time::Duration};

use haft_contract::{
    Terminal, WorkspaceId,
    host::{
        AnswerError, AnswerPlace, Answerer, Approval, ApprovalId, ApprovalQuestion, ApprovalState,
        CallRecord, Durability, GivenAnswer, GivenVerdict, Grant, GrantId, GrantScope,
        History as _, Ledger as _, LedgerError, LedgerErrorKind, Verification,
    },
};
use haft_ledger::StoredLedger;
use haft_testkit::{EveryGrant, TestClock};
use serde_json::json;

use crate::{
    child,
    engine::EngineFixture,
    support::{
        Fixture, NOW, approve, approved, principal, question, request, settled, start_with, tenant,
    },
};

/// How long something that another process does may take to be seen.
const SOON: Duration = haft_testkit::PATIENCE;

async fn start(
    ledger: &StoredLedger,
    approval: Option<ApprovalId>,
    grants: &[GrantId],
) -> Result<Box<dyn CallRecord>, LedgerError> {
    let asked = request("s1", "sample", json!({}));
    let record = ledger.open(&asked, NOW).await.unwrap();
    let events = vec![start_with(asked.id, approval, grants)];
    record.append(events, Durability::Durable).await?;
    record.settle(vec![settled(asked.id, Terminal::Succeeded, "")]);
    record.settled().await.unwrap();
    Ok(record)
}

async fn refused(ledger: &StoredLedger, approval: Option<ApprovalId>, grants: &[GrantId]) {
    match start(ledger, approval, grants).await {
        Ok(_) => panic!("it started"),
        Err(error) => assert_eq!(error.kind(), LedgerErrorKind::Conflict, "{error}"),
    }
}

async fn intact(ledger: &StoredLedger) {
    let verified = ledger.verify(&tenant()).await.unwrap();
    assert!(
        matches!(verified, Verification::Intact { .. }),
        "{verified:?}"
    );
}

async fn verify_names(ledger: &StoredLedger, what: &str) {
    match ledger.verify(&tenant()).await.unwrap() {
        Verification::Broken { reason, .. } => assert!(reason.contains(what), "{reason}"),
        intact @ Verification::Intact { .. } => panic!("{what}: {intact:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ap_01_two_ledgers_race_a_hundred_starts_and_one_wins() {
    let fixture = Fixture::new();
    let ledgers = [fixture.open().await, fixture.open().await];
    let approval = approved(&ledgers[0], 1).await;
    let starts: Vec<_> = (0..100)
        .map(|number: usize| {
            let ledger = ledgers[number % 2].clone();
            tokio::spawn(async move { start(&ledger, Some(approval.id), &[]).await.map(drop) })
        })
        .collect();
    let mut won = 0;
    for start in starts {
        match start.await.unwrap() {
            Ok(()) => won += 1,
            Err(error) => assert_eq!(error.kind(), LedgerErrorKind::Conflict, "{error}"),
        }
    }
    assert_eq!(won, 1);
    let started = "SELECT count(*) FROM record WHERE CAST(body AS TEXT) LIKE '%[\"started\",%'";
    assert_eq!(fixture.number(started).await, 1);
    intact(&ledgers[1]).await;
}

#[tokio::test]
async fn ap_01_processes_race_to_start_and_one_wins() {
    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    approved(&ledger, 1).await;
    let children: Vec<_> = (0..6)
        .map(|_| child::start("start_approved", &fixture.directory(), None))
        .collect();
    for child in children {
        assert!(child.ended_well());
    }
    let started = "SELECT count(*) FROM record WHERE CAST(body AS TEXT) LIKE '%[\"started\",%'";
    assert_eq!(fixture.number(started).await, 1);
    intact(&ledger).await;
}

#[tokio::test]
async fn ap_14_a_crash_between_answer_and_start_leaves_one_use() {
    let fixture = Fixture::new();
    child::play("approved", &fixture.directory()).kill();
    let (ledger, recovery) = fixture.recover().await;
    // The call that asked never started; its question and the answer are there.
    assert_eq!(recovery.never_started.len(), 1);
    let found = ledger.approvals().ask(question("s1", 1)).await.unwrap();
    assert!(matches!(found.state, ApprovalState::Approved { .. }));
    drop(start(&ledger, Some(found.id), &[]).await.unwrap());
    drop(ledger);
    let ledger = fixture.open().await;
    refused(&ledger, Some(found.id), &[]).await;
    intact(&ledger).await;
}

#[tokio::test]
async fn ap_10_a_question_of_a_killed_process_is_pending() {
    let fixture = Fixture::new();
    child::play("asked", &fixture.directory()).kill();
    let (ledger, recovery) = fixture.recover().await;
    assert_eq!(recovery.never_started.len(), 1);
    let store = ledger.approvals();
    let pending = store.pending(&tenant(), NOW, 10).await.unwrap();
    let [asked] = &pending[..] else {
        panic!("{pending:?}");
    };
    assert_eq!(asked.call, recovery.never_started[0]);
    let call = ledger.call(&tenant(), asked.call).await.unwrap().unwrap();
    assert_eq!(call.terminal, Some(Terminal::Cancelled));
    approve(&ledger, asked).await.unwrap();
    drop(start(&ledger, Some(asked.id), &[]).await.unwrap());
}

/// Whatever is edited in the row of a question, it approves nothing and is named.
#[tokio::test]
async fn au_05_an_edited_question_is_void() {
    edited_question(&Fixture::new()).await;
}

pub(crate) async fn edited_question<F: EngineFixture>(fixture: &F) {
    let ledger = fixture.open().await;
    let pending = ledger.approvals().ask(question("s1", 1)).await.unwrap();
    let given = approved(&ledger, 2).await;
    fixture
        .tamper("CREATE TABLE approval_before AS SELECT * FROM approval")
        .await;
    for edit in [
        "UPDATE approval SET state = 'approved', answered_by = 'eve', answered_at = asked_at",
        "UPDATE approval SET expires_at = expires_at + 1",
        "UPDATE approval SET asked_at = asked_at + 1",
        "UPDATE approval SET session = 's9'",
        "UPDATE approval SET person = 'mallory'",
        "UPDATE approval SET agent = 'mallory'",
        "UPDATE approval SET principal = replace(principal, 'ada', 'eve')",
        "UPDATE approval SET digest = zeroblob(32)",
        "UPDATE approval SET form = '{}'",
        "UPDATE approval SET form = NULL",
        "UPDATE approval SET summary = 'nothing'",
        "UPDATE approval SET call = zeroblob(16)",
        "UPDATE approval SET answered_by = 'eve'",
        "UPDATE approval SET answered_at = 1",
        "UPDATE approval SET reason = 'fine'",
        "UPDATE approval SET used_by = zeroblob(16)",
        "UPDATE approval SET mac = zeroblob(32)",
    ] {
        fixture.tamper(edit).await;
        let store = ledger.approvals();
        let answer = approve(&ledger, &pending).await;
        assert!(matches!(answer, Err(AnswerError::Unknown)), "{edit}");
        assert_eq!(
            store.pending(&tenant(), NOW, 10).await.unwrap(),
            [],
            "{edit}"
        );
        for id in [pending.id, given.id] {
            assert_eq!(store.get(&tenant(), id).await.unwrap(), None, "{edit}");
            refused(&ledger, Some(id), &[]).await;
        }
        verify_names(&ledger, &format!("approval `{}`", pending.id)).await;
        fixture.tamper(&F::put_back("approval")).await;
    }
    intact(&ledger).await;
    drop(start(&ledger, Some(given.id), &[]).await.unwrap());
}

/// The signature cannot tell an older copy of a row, but the record of the start can.
#[tokio::test]
async fn au_05_an_older_copy_of_a_used_approval_is_void() {
    older_copy_of_an_approval(&Fixture::new()).await;
}

pub(crate) async fn older_copy_of_an_approval<F: EngineFixture>(fixture: &F) {
    let ledger = fixture.open().await;
    let given = approved(&ledger, 1).await;
    fixture
        .tamper("CREATE TABLE approval_before AS SELECT * FROM approval")
        .await;
    drop(start(&ledger, Some(given.id), &[]).await.unwrap());
    fixture.tamper(&F::put_back("approval")).await;
    refused(&ledger, Some(given.id), &[]).await;
    verify_names(&ledger, &format!("approval `{}`", given.id)).await;
}

#[tokio::test]
async fn au_05_an_edited_grant_is_void() {
    edited_grant(&Fixture::new()).await;
}

pub(crate) async fn edited_grant<F: EngineFixture>(fixture: &F) {
    let ledger = fixture.open().await;
    let mine = principal("s1");
    let grant = Grant {
        id: GrantId::new(),
        tenant: tenant(),
        user: mine.user.clone(),
        rule: "bash(cargo test)".to_owned(),
        scope: GrantScope::Agent(mine.agent.clone()),
        until: Some(NOW.after(Duration::from_hours(1))),
        uses_left: Some(2),
        made_by: "ada".to_owned(),
        made_at: NOW,
        cause: None,
    };
    let store = ledger.grants();
    store.add(grant.clone()).await.unwrap();
    fixture
        .tamper("CREATE TABLE grant_rule_before AS SELECT * FROM grant_rule")
        .await;
    for edit in [
        "UPDATE grant_rule SET rule = 'bash(*)'",
        "UPDATE grant_rule SET person = 'mallory'",
        "UPDATE grant_rule SET scope = 'project'",
        "UPDATE grant_rule SET bound_to = 'mallory'",
        "UPDATE grant_rule SET until_at = NULL",
        "UPDATE grant_rule SET uses_left = 1000",
        "UPDATE grant_rule SET made_by = 'eve'",
        "UPDATE grant_rule SET made_at = 1",
        "UPDATE grant_rule SET cause = zeroblob(16)",
    ] {
        fixture.tamper(edit).await;
        assert_eq!(store.list(&tenant(), NOW).await.unwrap(), [], "{edit}");
        refused(&ledger, None, &[grant.id]).await;
        // The refusal made it read the grant again.
        let holding = store
            .holding(&mine, &WorkspaceId::local(), NOW, &EveryGrant)
            .await
            .unwrap();
        assert_eq!(holding, [], "{edit}");
        verify_names(&ledger, &format!("grant `{}`", grant.id)).await;
        fixture.tamper(&F::put_back("grant_rule")).await;
    }
    intact(&ledger).await;
    drop(start(&ledger, None, &[grant.id]).await.unwrap());
}

/// A question with a secret in it is not kept whole, so it is not answered from the record.
#[tokio::test]
async fn ap_08_what_cannot_be_shown_whole_is_answered_where_it_was_asked() {
    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    let store = ledger.approvals();
    let secret = "sk-aaaaaaaaaaaaaaaaaaaaaaaa";
    let hidden = [
        json!({ "command": format!("curl -H 'x-key: {secret}' example.org") }),
        json!({ "content": "x".repeat(2 * 1024 * 1024) }),
    ];
    for (number, form) in (1..).zip(hidden) {
        let asked = ApprovalQuestion {
            form: Arc::new(form),
            summary: format!("curl {secret}"),
            ..question("s1", number)
        };
        let asked = store.ask(asked).await.unwrap();
        assert_eq!(asked.form, None);
        assert!(!asked.summary.contains(secret), "{}", asked.summary);
        let elsewhere = approve(&ledger, &asked).await;
        assert!(matches!(elsewhere, Err(AnswerError::NotShown)));
        let here = GivenAnswer {
            verdict: GivenVerdict::Approve,
            digest: asked.digest,
            by: Answerer::Person {
                name: "ada".to_owned(),
                place: AnswerPlace::Here,
            },
        };
        let answered = store.answer(&tenant(), asked.id, here, NOW).await.unwrap();
        assert!(matches!(answered.state, ApprovalState::Approved { .. }));
    }
    ledger.close().await.unwrap();
    for entry in std::fs::read_dir(fixture.directory()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            let found = bytes.windows(secret.len()).any(|w| w == secret.as_bytes());
            assert!(!found, "{}", path.display());
        }
    }
}

/// A start that could not be recorded has used nothing, also once the store is back.
#[tokio::test]
async fn a_failed_start_uses_nothing() {
    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    let given = approved(&ledger, 1).await;
    let asked = request("s1", "sample", json!({}));
    let record = ledger.open(&asked, NOW).await.unwrap();
    ledger.flush().await.unwrap();
    fixture
        .tamper(
            "CREATE TRIGGER full BEFORE INSERT ON record
             BEGIN SELECT RAISE(ABORT, 'the disk is full'); END;
             CREATE TRIGGER full_too BEFORE INSERT ON approval
             BEGIN SELECT RAISE(ABORT, 'the disk is full'); END",
        )
        .await;
    let events = vec![start_with(asked.id, Some(given.id), &[])];
    let failed = record.append(events, Durability::Durable).await;
    assert_eq!(failed.unwrap_err().kind(), LedgerErrorKind::Unavailable);
    let failed = ledger.approvals().ask(question("s1", 2)).await;
    assert_eq!(failed.unwrap_err().kind(), LedgerErrorKind::Unavailable);
    fixture
        .tamper("DROP TRIGGER full; DROP TRIGGER full_too")
        .await;
    let back = async {
        while ledger.flush().await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, back).await.unwrap();
    record.settle(vec![settled(asked.id, Terminal::Denied, "")]);
    record.settled().await.unwrap();
    let kinds: Vec<String> = ledger
        .events(&tenant(), asked.id)
        .await
        .unwrap()
        .into_iter()
        .map(|event| event.kind)
        .collect();
    assert_eq!(kinds, ["opened", "settled"]);
    drop(start(&ledger, Some(given.id), &[]).await.unwrap());
    intact(&ledger).await;
}

/// Old questions and dead grants go; the rest stays.
#[tokio::test]
async fn old_questions_and_dead_grants_are_removed_at_a_start() {
    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    let asked: Vec<Approval> = {
        let mut asked = Vec::new();
        for number in 1..=3 {
            asked.push(approved(&ledger, number).await);
        }
        asked
    };
    let mine = principal("s1");
    for until in [Some(NOW.after(Duration::from_hours(1))), None] {
        let grant = Grant {
            id: GrantId::new(),
            tenant: tenant(),
            user: mine.user.clone(),
            rule: "bash(ls)".to_owned(),
            scope: GrantScope::Session(mine.session.clone()),
            until,
            uses_left: None,
            made_by: "ada".to_owned(),
            made_at: NOW,
            cause: None,
        };
        ledger.grants().add(grant).await.unwrap();
    }
    ledger.close().await.unwrap();
    let mut options = fixture.options();
    let later = NOW.after(Duration::from_hours(40 * 24));
    options.clock = Arc::new(TestClock::at(later));
    let (ledger, _) = StoredLedger::open(options).await.unwrap();
    let left = "SELECT count(*) FROM approval";
    // The newest change stays: whoever waits counts from it.
    assert_eq!(fixture.number(left).await, 1);
    assert_eq!(ledger.grants().list(&tenant(), NOW).await.unwrap().len(), 1);
    let store = ledger.approvals();
    let last = store.get(&tenant(), asked[2].id).await.unwrap().unwrap();
    assert_eq!(last.state, ApprovalState::Lapsed);
    intact(&ledger).await;
}

/// A start that arrives only with the settlement has happened: it is recorded, its approval is
/// used, and if that was used before, `verify` says so. The ledger goes on.
#[tokio::test]
async fn a_start_that_is_over_is_recorded_whatever_it_rested_on() {
    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    let given = approved(&ledger, 1).await;
    for _ in 0..2 {
        let asked = request("s1", "sample", json!({}));
        let record = ledger.open(&asked, NOW).await.unwrap();
        record.settle(vec![
            start_with(asked.id, Some(given.id), &[]),
            settled(asked.id, Terminal::Succeeded, ""),
        ]);
        record.settled().await.unwrap();
        refused(&ledger, Some(given.id), &[]).await;
    }
    let started = "SELECT count(*) FROM record WHERE CAST(body AS TEXT) LIKE '%[\"started\",%'";
    assert_eq!(fixture.number(started).await, 2);
    verify_names(&ledger, "more than one call was started").await;
}
