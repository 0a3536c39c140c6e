//! Panics in the host's own code: a listener's stays with it, and an approver's is a denial that
//! says so.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use haft_contract::{
    CallEvent, Principal, SealedPlan, Terminal,
    event::{EventSink, RecordedEvent},
    host::{ApprovalAnswer, ApprovalRequest, Approver},
    outcome::DeniedBy,
};
use serde_json::json;

use crate::questions::Questions;

/// Panics at the first event of this kind.
struct PanicsAt {
    kind: &'static str,
    told: Arc<AtomicUsize>,
}

impl EventSink for PanicsAt {
    fn happened(&self, happened: &RecordedEvent) {
        self.told.fetch_add(1, Ordering::SeqCst);
        assert_ne!(happened.event.kind(), self.kind, "a listener's fault");
    }
}

#[tokio::test]
async fn a_listener_that_panics_is_told_nothing_more_and_changes_no_call() {
    for kind in ["opened", "started", "settled"] {
        let told: Arc<AtomicUsize> = Arc::default();
        let listener = PanicsAt {
            kind,
            told: Arc::clone(&told),
        };
        let questions = Questions::new(|builder| {
            builder
                .policy(haft_testkit::FixedPolicy::allow_all())
                .configure(|runtime| runtime.events(Arc::new(listener)))
        });
        let harness = &questions.harness;
        let first = harness.succeed("act", json!({})).await;
        let heard = told.load(Ordering::SeqCst);
        let kinds = harness.events.kinds(first.call);
        let at = kinds.iter().position(|known| *known == kind);
        assert_eq!(Some(heard - 1), at, "{kind} in {kinds:?}");
        harness.succeed("act", json!({})).await;
        assert_eq!(told.load(Ordering::SeqCst), heard, "{kind}");
        assert_eq!(questions.runs(), 2);
        // The record and the other listeners miss nothing.
        assert!(questions.ledger.kinds(first.call).contains(&"settled"));
        assert_eq!(harness.events.count("settled"), 2);
    }
}

#[tokio::test]
async fn a_listener_that_panics_while_a_dropped_call_is_settled_leaves_the_settlement() {
    let listener = PanicsAt {
        kind: "settled",
        told: Arc::default(),
    };
    let questions =
        Questions::new(|builder| builder.configure(|runtime| runtime.events(Arc::new(listener))));
    let waiting = questions.begin(json!({}));
    let asked = questions.open(1).await;
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    let kinds = questions.ledger.kinds(asked[0].call);
    assert_eq!(kinds.last(), Some(&"settled"), "{kinds:?}");
}

/// Where an approver panics.
#[derive(Debug, Clone, Copy, PartialEq)]
enum PanicsIn {
    Nobody,
    Ask,
    Answer,
}

impl Approver for PanicsIn {
    fn nobody(&self, _: &Principal, _: &SealedPlan) -> Option<String> {
        assert_ne!(*self, Self::Nobody, "an approver's fault");
        None
    }

    fn ask(&self, request: ApprovalRequest) -> impl Future<Output = ApprovalAnswer> + Send {
        assert_ne!(*self, Self::Ask, "an approver's fault");
        async move {
            tokio::task::yield_now().await;
            assert!(request.expires.0 == 0, "an approver's fault");
            request.approve("nobody")
        }
    }
}

#[tokio::test]
async fn an_approver_that_panics_denies_with_that_reason_and_leaves_no_question() {
    for place in [PanicsIn::Nobody, PanicsIn::Ask, PanicsIn::Answer] {
        let questions = Questions::new(|builder| builder.approver(place));
        let outcome = questions.harness.call("act", json!({})).await;
        assert_eq!(outcome.terminal, Terminal::Denied, "{place:?}");
        assert_eq!(outcome.facts.denied_by, Some(DeniedBy::Approver));
        let text = outcome.model_text();
        assert!(text.contains("the approver failed: it panicked"), "{text}");
        assert!(!text.contains("fault in Haft"), "{text}");
        assert_eq!(questions.runs(), 0);
        assert!(questions.pending().await.is_empty());
        let said = questions.harness.events.of(outcome.call);
        let recorded = said.iter().find_map(|event| match event {
            CallEvent::ApprovalAnswered { answer } => Some(ApprovalAnswer::clone(answer)),
            _ => None,
        });
        let reason = "it panicked".to_owned();
        assert_eq!(recorded, Some(ApprovalAnswer::Failed { reason }));
    }
}
