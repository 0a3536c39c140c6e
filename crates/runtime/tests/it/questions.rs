//! Questions as records: asked once, answered once from wherever, used once, and never left behind
//! by a call that no longer waits.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft_contract::{
    Effects, Outcome, Principal, Terminal,
    host::{
        AnswerError, AnswerPlace, Answerer, Approval, ApprovalState, ApprovalStore as _,
        GivenAnswer, GivenVerdict, Timestamp, Verdict,
    },
    outcome::DeniedBy,
};
use haft_runtime::{Limits, NobodyToAsk, digest_of};
use haft_testkit::{
    FixedPolicy, Harness, MemoryLedger, ScriptedApprover, TestClock, approver::ScriptedAnswer,
    harness::HarnessBuilder, principal,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::scripted::Scripted;

/// Runs counted, in a harness where everything asks and the answer comes from elsewhere.
pub(crate) struct Questions {
    pub(crate) harness: Arc<Harness>,
    pub(crate) ledger: MemoryLedger,
    pub(crate) runs: Arc<AtomicUsize>,
}

impl Questions {
    pub(crate) fn new(change: impl FnOnce(HarnessBuilder) -> HarnessBuilder) -> Self {
        Self::on(MemoryLedger::new(), change)
    }

    pub(crate) fn on(
        ledger: MemoryLedger,
        change: impl FnOnce(HarnessBuilder) -> HarnessBuilder,
    ) -> Self {
        let runs: Arc<AtomicUsize> = Arc::default();
        let counted = Arc::clone(&runs);
        let tool = Scripted::new("act", move |_, _| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { Ok(json!("done")) }
        })
        .effects(Effects::CHANGES)
        .tool();
        let builder = Harness::memory()
            .tools(vec![tool])
            .policy(FixedPolicy::ask_all())
            .person(&ScriptedApprover::always(ScriptedAnswer::Elsewhere))
            .ledger(Arc::new(ledger.clone()));
        Self {
            harness: Arc::new(change(builder).build()),
            ledger,
            runs,
        }
    }

    pub(crate) fn plain() -> Self {
        Self::new(|builder| builder)
    }

    pub(crate) fn begin(&self, arguments: Value) -> tokio::task::JoinHandle<Arc<Outcome>> {
        let harness = Arc::clone(&self.harness);
        tokio::spawn(async move { harness.call("act", arguments).await })
    }

    pub(crate) async fn pending(&self) -> Vec<Approval> {
        let tenant = &self.harness.principal.tenant;
        let far = Timestamp(0);
        self.ledger.pending(tenant, far, 1000).await.unwrap()
    }

    /// The open questions, once there are as many.
    pub(crate) async fn open(&self, count: usize) -> Vec<Approval> {
        loop {
            let pending = self.pending().await;
            if pending.len() == count {
                return pending;
            }
            tokio::task::yield_now().await;
        }
    }

    pub(crate) async fn answer(
        &self,
        asked: &Approval,
        verdict: GivenVerdict,
    ) -> Result<Approval, AnswerError> {
        let given = GivenAnswer {
            verdict,
            digest: asked.digest,
            by: Answerer::Person {
                name: "ada".to_owned(),
                place: AnswerPlace::Elsewhere,
            },
        };
        let tenant = &self.harness.principal.tenant;
        let at = asked.asked;
        self.ledger.answer(tenant, asked.id, given, at).await
    }

    pub(crate) async fn state(&self, asked: &Approval) -> ApprovalState {
        let tenant = &self.harness.principal.tenant;
        let found = self.ledger.get(tenant, asked.id).await.unwrap();
        found.expect("the question").state
    }

    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

fn denied(outcome: &Outcome, by: DeniedBy, says: &str) {
    assert_eq!(
        outcome.terminal,
        Terminal::Denied,
        "{}",
        outcome.model_text()
    );
    assert_eq!(
        outcome.facts.denied_by,
        Some(by),
        "{}",
        outcome.model_text()
    );
    let text = outcome.model_text();
    assert!(text.contains(says), "{text}");
}

#[tokio::test]
async fn an_answer_from_elsewhere_lets_the_call_pass_and_is_used_up() {
    let questions = Questions::plain();
    let call = questions.begin(json!({"n": 1}));
    let asked = questions.open(1).await.remove(0);
    assert_eq!(digest_of(asked.form.as_ref().unwrap()), asked.digest);
    questions
        .answer(&asked, GivenVerdict::Approve)
        .await
        .unwrap();
    let outcome = call.await.unwrap();
    assert!(outcome.succeeded(), "{}", outcome.model_text());
    let used = ApprovalState::Used { by: outcome.call };
    assert_eq!(questions.state(&asked).await, used);
    assert_eq!(questions.harness.runtime.open_questions(), 0);
}

#[tokio::test]
async fn a_refusal_from_elsewhere_reaches_the_model_with_its_reason() {
    let questions = Questions::plain();
    let call = questions.begin(json!({}));
    let asked = questions.open(1).await.remove(0);
    let refuse = GivenVerdict::Refuse {
        reason: Some("not today".to_owned()),
    };
    questions.answer(&asked, refuse).await.unwrap();
    denied(
        &call.await.unwrap(),
        DeniedBy::Person,
        "ada refused: not today",
    );
    assert_eq!(questions.runs(), 0);
}

#[tokio::test]
async fn ap_01_a_hundred_identical_calls_share_one_question_and_one_of_them_runs() {
    let questions = Questions::plain();
    let calls: Vec<_> = (0..100).map(|_| questions.begin(json!({"n": 1}))).collect();
    while questions.harness.runtime.in_flight() < 100 {
        tokio::task::yield_now().await;
    }
    let asked = questions.open(1).await.remove(0);
    // Every call must be waiting before the one answer comes.
    while questions.harness.events.count("approval_asked") < 100 {
        tokio::task::yield_now().await;
    }
    questions
        .answer(&asked, GivenVerdict::Approve)
        .await
        .unwrap();
    let mut succeeded = 0;
    for call in calls {
        let outcome = call.await.unwrap();
        if outcome.succeeded() {
            succeeded += 1;
        } else {
            denied(
                &outcome,
                DeniedBy::Expired,
                "the approval was used by another call",
            );
        }
    }
    assert_eq!((succeeded, questions.runs()), (1, 1));
}

#[tokio::test]
async fn ap_10_a_question_outlives_its_process_as_pending_and_its_answer_serves_once() {
    let before = Questions::plain();
    let lost = before.begin(json!({"n": 1}));
    let asked = before.open(1).await.remove(0);
    let after = Questions::on(before.ledger.after_crash(), |builder| builder);
    assert_eq!(after.state(&asked).await, ApprovalState::Pending);
    // The same call asked again waits on the same question.
    let again = after.begin(json!({"n": 1}));
    while after.harness.events.count("approval_asked") < 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(after.open(1).await.remove(0).id, asked.id);
    again.abort();
    let _ = again.await;
    lost.abort();
    // An answer nobody waits for serves the next call of the same plan, and no other.
    let after = Questions::on(before.ledger.after_crash(), |builder| builder);
    after.answer(&asked, GivenVerdict::Approve).await.unwrap();
    assert!(after.harness.call("act", json!({"n": 1})).await.succeeded());
    let once_more = after.begin(json!({"n": 1}));
    assert_ne!(after.open(1).await.remove(0).id, asked.id);
    once_more.abort();
    assert_eq!(after.runs(), 1);
}

#[tokio::test]
async fn ap_05_a_call_that_is_cancelled_or_dropped_takes_its_question_back() {
    let questions = Questions::plain();
    // Cancelled.
    let cancel = CancellationToken::new();
    let request = questions.harness.request("act", json!({"n": 1}));
    let runtime = questions.harness.runtime.clone();
    let token = cancel.clone();
    let call = tokio::spawn(async move { runtime.call_until(request, token).await });
    let asked = questions.open(1).await.remove(0);
    cancel.cancel();
    assert_eq!(call.await.unwrap().terminal, Terminal::Cancelled);
    assert_eq!(questions.state(&asked).await, ApprovalState::Withdrawn);
    // Dropped.
    let call = questions.begin(json!({"n": 2}));
    let asked = questions.open(1).await.remove(0);
    call.abort();
    questions.open(0).await;
    assert_eq!(questions.state(&asked).await, ApprovalState::Withdrawn);
    let late = questions.answer(&asked, GivenVerdict::Approve).await;
    assert!(matches!(late, Err(AnswerError::NotOpen { .. })), "{late:?}");
    assert_eq!(questions.runs(), 0);
}

#[tokio::test]
async fn a_call_that_is_dropped_at_any_moment_leaves_no_question_behind() {
    let questions = Questions::plain();
    let mut asked = 0;
    for polls in 1..40 {
        let mut call = Box::pin(questions.harness.call("act", json!({ "polls": polls })));
        for _ in 0..polls {
            assert!(futures_util::poll!(&mut call).is_pending());
            asked += usize::from(!questions.pending().await.is_empty());
            tokio::task::yield_now().await;
        }
        drop(call);
        // Whatever was on its way to the record arrives, and is taken back.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        questions.open(0).await;
        assert_eq!(questions.harness.runtime.open_questions(), 0);
    }
    assert!(asked > 0, "some of them were asked about");
}

#[tokio::test]
async fn of_several_that_wait_only_the_last_to_leave_takes_the_question_back() {
    let questions = Questions::plain();
    let first = questions.begin(json!({"n": 1}));
    let second = questions.begin(json!({"n": 1}));
    while questions.harness.events.count("approval_asked") < 2 {
        tokio::task::yield_now().await;
    }
    let asked = questions.open(1).await.remove(0);
    first.abort();
    let _ = first.await;
    tokio::task::yield_now().await;
    questions
        .answer(&asked, GivenVerdict::Approve)
        .await
        .unwrap();
    assert!(second.await.unwrap().succeeded());
}

#[tokio::test]
async fn ap_05_the_end_of_a_session_takes_back_what_is_open_and_what_is_unused() {
    let questions = Questions::plain();
    let call = questions.begin(json!({"n": 1}));
    let asked = questions.open(1).await.remove(0);
    questions
        .harness
        .runtime
        .end_session(&questions.harness.principal)
        .await;
    denied(
        &call.await.unwrap(),
        DeniedBy::Expired,
        "the question was withdrawn",
    );
    let late = questions.answer(&asked, GivenVerdict::Approve).await;
    assert!(matches!(late, Err(AnswerError::NotOpen { .. })), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn ap_10_a_question_nobody_answers_lapses_and_denies() {
    // The machine's clock would go on while the runtime's time stands still.
    let questions = Questions::new(|builder| {
        builder.configure(|runtime| runtime.clock(Arc::new(TestClock::new())))
    });
    let call = questions.begin(json!({"n": 1}));
    let asked = questions.open(1).await.remove(0);
    let outcome = call.await.unwrap();
    denied(&outcome, DeniedBy::Expired, "nobody answered in time");
    assert_eq!(questions.state(&asked).await, ApprovalState::Lapsed);
    let late = questions.answer(&asked, GivenVerdict::Approve).await;
    assert!(matches!(late, Err(AnswerError::NotOpen { .. })), "{late:?}");
    assert_eq!(outcome.facts.timings.asked, Limits::default().approval_wait);
    assert_eq!(questions.runs(), 0);
}

#[tokio::test]
async fn where_nobody_can_be_asked_no_question_is_left_behind() {
    let questions =
        Questions::new(|builder| builder.approver(NobodyToAsk::new("run `haft policy allow act`")));
    let outcome = questions.harness.call("act", json!({})).await;
    denied(
        &outcome,
        DeniedBy::NobodyToAsk,
        "run `haft policy allow act`",
    );
    assert!(questions.pending().await.is_empty());
    // One that learns only when it is asked leaves none behind either.
    let person = ScriptedApprover::always(ScriptedAnswer::Nobody);
    let questions = Questions::new(|builder| builder.person(&person));
    let outcome = questions.harness.call("act", json!({})).await;
    denied(&outcome, DeniedBy::NobodyToAsk, "nobody to ask");
    assert!(questions.pending().await.is_empty());
}

#[tokio::test]
async fn ap_13_a_flood_of_questions_is_capped_for_each_session_alone() {
    let limits = Limits {
        open_approvals: 5,
        ..Limits::default()
    };
    let questions = Questions::new(|builder| builder.limits(limits));
    let waiting: Vec<_> = (0..5).map(|n| questions.begin(json!({"n": n}))).collect();
    questions.open(5).await;
    let outcome = questions.harness.call("act", json!({"n": 5})).await;
    denied(&outcome, DeniedBy::Policy, "5 open questions already");
    // The same question again is no new one.
    let same = questions.begin(json!({"n": 4}));
    while questions.harness.events.count("approval_asked") < 6 {
        tokio::task::yield_now().await;
    }
    assert_eq!(questions.pending().await.len(), 5);
    // Another session is not in the way of this one.
    let other: Arc<Principal> = principal::in_session("other");
    let request = haft_contract::CallRequest::new("act", json!({"n": 5}), other);
    let runtime = questions.harness.runtime.clone();
    let other = tokio::spawn(async move { runtime.call(request).await });
    questions.open(6).await;
    for call in waiting.into_iter().chain([same, other]) {
        call.abort();
    }
}

#[tokio::test]
async fn a_local_answer_after_one_from_elsewhere_does_not_count() {
    // The local person says no, but only once the record says yes.
    #[derive(Clone)]
    struct Late(MemoryLedger);
    impl haft_contract::host::Approver for Late {
        async fn ask(
            &self,
            request: haft_contract::host::ApprovalRequest,
        ) -> haft_contract::host::ApprovalAnswer {
            let given = GivenAnswer {
                verdict: GivenVerdict::Approve,
                digest: request.digest,
                by: Answerer::Person {
                    name: "ada".to_owned(),
                    place: AnswerPlace::Elsewhere,
                },
            };
            let tenant = request.principal.tenant.clone();
            let answered = self
                .0
                .answer(&tenant, request.id, given, Timestamp(0))
                .await;
            answered.expect("the first answer");
            request.refuse("eve", None)
        }
    }
    let ledger = MemoryLedger::new();
    let approver = Late(ledger.clone());
    let questions = Questions::on(ledger, |builder| builder.approver(approver));
    let outcome = questions.harness.call("act", json!({})).await;
    assert!(outcome.succeeded(), "{}", outcome.model_text());
}

/// Rules that change while the person looks.
async fn rules_change(to: Verdict, version: &'static str) -> (Arc<Outcome>, usize) {
    let rules = Arc::new(Mutex::new((Verdict::Ask, "one")));
    let (verdict, named) = (Arc::clone(&rules), Arc::clone(&rules));
    let policy = FixedPolicy::by(move |_| verdict.lock().unwrap().0)
        .versioned(move || named.lock().unwrap().1.to_owned());
    let questions = Questions::new(|builder| builder.policy(policy));
    let call = questions.begin(json!({}));
    let asked = questions.open(1).await.remove(0);
    *rules.lock().unwrap() = (to, version);
    questions
        .answer(&asked, GivenVerdict::Approve)
        .await
        .unwrap();
    (call.await.unwrap(), questions.runs())
}

#[tokio::test]
async fn ap_15_rules_that_deny_by_the_time_of_the_start_win_over_a_yes() {
    let (outcome, runs) = rules_change(Verdict::Deny, "two").await;
    denied(&outcome, DeniedBy::Policy, "the test says deny");
    assert_eq!(runs, 0);
    // The same rules: the yes counts.
    let (outcome, runs) = rules_change(Verdict::Ask, "one").await;
    assert!(outcome.succeeded() && runs == 1, "{}", outcome.model_text());
}

#[tokio::test]
async fn ap_03_other_rules_void_a_yes_even_where_they_would_ask_again() {
    let (outcome, runs) = rules_change(Verdict::Ask, "two").await;
    denied(&outcome, DeniedBy::Expired, "the rules changed");
    assert_eq!(runs, 0);
}

#[tokio::test]
async fn ap_03_another_tool_under_the_same_name_voids_a_yes() {
    let questions = Questions::plain();
    let call = questions.begin(json!({}));
    let asked = questions.open(1).await.remove(0);
    let other = Scripted::echo("act").spec(|mut spec| {
        spec.description = "does something else".to_owned();
        spec
    });
    let provider = haft_contract::ProviderId::builtin();
    let registry = questions.harness.runtime.registry();
    registry.replace(&provider, other.tool()).unwrap();
    questions
        .answer(&asked, GivenVerdict::Approve)
        .await
        .unwrap();
    denied(&call.await.unwrap(), DeniedBy::Expired, "the tool changed");
    assert_eq!(questions.runs(), 0);
}

#[tokio::test]
async fn ap_04_another_principal_neither_finds_nor_uses_a_yes() {
    let questions = Questions::plain();
    let call = questions.begin(json!({}));
    let asked = questions.open(1).await.remove(0);
    questions
        .answer(&asked, GivenVerdict::Approve)
        .await
        .unwrap();
    assert!(call.await.unwrap().succeeded());
    let own = principal();
    let others = [
        Principal {
            session: "other".parse().unwrap(),
            ..(*own).clone()
        },
        Principal {
            agent: "other".parse().unwrap(),
            ..(*own).clone()
        },
        Principal {
            user: "other".parse().unwrap(),
            ..(*own).clone()
        },
        Principal {
            tenant: "other".parse().unwrap(),
            ..(*own).clone()
        },
        Principal {
            ancestors: vec!["other".parse().unwrap()],
            ..(*own).clone()
        },
    ];
    for other in others {
        let waiting = questions.begin(json!({}));
        let asked = questions.open(1).await.remove(0);
        // Their own question has another digest, and answering it under their tenant fails.
        let request = haft_contract::CallRequest::new("act", json!({}), Arc::new(other.clone()));
        let runtime = questions.harness.runtime.clone();
        let theirs = tokio::spawn(async move { runtime.call(request).await });
        questions
            .answer(&asked, GivenVerdict::Approve)
            .await
            .unwrap();
        assert!(waiting.await.unwrap().succeeded());
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert!(!theirs.is_finished(), "{other:?} got somebody else's yes");
        theirs.abort();
        let _ = theirs.await;
        questions.open(0).await;
    }
}

#[tokio::test]
async fn what_led_to_a_refused_start_stays_on_record() {
    let questions = Questions::plain();
    let first = questions.begin(json!({}));
    let second = questions.begin(json!({}));
    while questions.harness.events.count("approval_asked") < 2 {
        tokio::task::yield_now().await;
    }
    let asked = questions.open(1).await.remove(0);
    questions
        .answer(&asked, GivenVerdict::Approve)
        .await
        .unwrap();
    let outcomes = [first.await.unwrap(), second.await.unwrap()];
    let loser = outcomes
        .iter()
        .find(|outcome| !outcome.succeeded())
        .unwrap();
    denied(loser, DeniedBy::Expired, "used by another call");
    let kinds = questions.ledger.kinds(loser.call);
    for kind in [
        "planned",
        "decided",
        "approval_asked",
        "approval_answered",
        "settled",
    ] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
    assert!(!kinds.contains(&"started"), "{kinds:?}");
}
