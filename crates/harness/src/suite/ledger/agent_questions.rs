//! Questions of agents: asked once, answered once with text, received once, and never an approval.

use std::{sync::Arc, time::Duration};

use haft_contract::{
    CallId, Principal,
    agent_question::{AgentQuestion, PersonReply},
    host::{
        AgentQuestionId, AgentQuestionState, AgentQuestionStore, AnswerError, AnswerPlace,
        Answerer, ApprovalId, AskedQuestion, GivenAnswer, GivenReply, GivenVerdict,
        LedgerErrorKind, NewAgentQuestion, ReplyError,
    },
};

use super::{LedgerFixture, approvals::question as approval, script::START, write::local};
use crate::{
    PATIENCE, principal,
    principal::{in_session, in_tenant},
    suite::fixture::works,
};

fn question(principal: &Arc<Principal>, text: &str) -> NewAgentQuestion {
    let options = ["red".to_owned(), "blue".to_owned()];
    let mut words = [0; 32];
    for (to, from) in words.iter_mut().zip(text.bytes()) {
        *to = from;
    }
    NewAgentQuestion {
        call: CallId::new(),
        principal: Arc::clone(principal),
        question: Arc::new(works(
            "a question",
            AgentQuestion::new(text, &options, Some(true)),
        )),
        words,
        asked: START,
        expires: START.after(Duration::from_mins(10)),
        most_open: 2,
    }
}

fn ada() -> Answerer {
    Answerer::Person {
        name: "ada".to_owned(),
        place: AnswerPlace::Elsewhere,
    }
}

async fn say(
    store: &dyn AgentQuestionStore,
    asked: &AskedQuestion,
    text: &str,
) -> Result<AskedQuestion, ReplyError> {
    let text = GivenReply::Text(text.to_owned());
    store.reply(&local(), asked.id, text, ada(), START).await
}

fn said(asked: &AskedQuestion) -> (&str, Option<usize>, &str) {
    match &asked.state {
        AgentQuestionState::Answered {
            reply: PersonReply::Said { text, chosen, by },
            ..
        } => (text, *chosen, by),
        other => panic!("{other:?}"),
    }
}

/// The same words in a session find the question and its answer, until a call has received that.
pub async fn an_agents_question_is_asked_and_received_once(fixture: impl LedgerFixture) {
    let store = fixture.ledger().agent_questions();
    let mine = principal();
    let first = works("ask", store.ask(question(&mine, "Which?")).await);
    assert_eq!(first.state, AgentQuestionState::Pending);
    assert_eq!(first.question, question(&mine, "Which?").question);
    assert_eq!(
        works("ask", store.ask(question(&mine, "Which?")).await),
        first
    );
    for other in [
        question(&mine, "How?"),
        question(&in_session("other"), "Which?"),
        question(&in_tenant("elsewhere"), "Which?"),
    ] {
        assert_ne!(works("ask", store.ask(other).await).id, first.id);
    }
    let third = store.ask(question(&mine, "Why?")).await;
    let third = third.expect_err("a third open question");
    assert_eq!(third.kind(), LedgerErrorKind::LimitExceeded);
    let answered = works("answer", say(&*store, &first, "2").await);
    assert_eq!(said(&answered), ("blue", Some(1), "ada"));
    let again = say(&*store, &first, "red").await;
    assert!(
        matches!(again, Err(ReplyError::NotOpen { .. })),
        "{again:?}"
    );
    let found = works("ask", store.ask(question(&mine, "Which?")).await);
    assert_eq!(said(&found), ("blue", Some(1), "ada"));
    works(
        "receive",
        store.received(&local(), first.id, first.call, START).await,
    );
    // Whoever waited already receives it too.
    let waited = works("wait", store.answered(&local(), first.id).await);
    assert_eq!(said(&waited), ("blue", Some(1), "ada"));
    let anew = works("ask", store.ask(question(&mine, "Which?")).await);
    assert_ne!(anew.id, first.id);
    assert_eq!(anew.state, AgentQuestionState::Pending);
}

/// No id of one kind names anything of the other, so no answer can settle the other kind.
pub async fn an_agents_question_is_no_approval_and_an_approval_no_question(
    fixture: impl LedgerFixture,
) {
    let ledger = fixture.ledger();
    let (questions, approvals) = (ledger.agent_questions(), ledger.approvals());
    let mine = principal();
    let asked = works("ask", questions.ask(question(&mine, "Which?")).await);
    let plan = works("ask", approvals.ask(approval(&mine, 1)).await);
    let as_approval: ApprovalId = asked.id.as_uuid().into();
    let as_question: AgentQuestionId = plan.id.as_uuid().into();
    let yes = GivenAnswer {
        verdict: GivenVerdict::Approve,
        digest: plan.digest,
        by: ada(),
    };
    let approved = approvals.answer(&local(), as_approval, yes, START).await;
    assert!(
        matches!(approved, Err(AnswerError::Unknown)),
        "{approved:?}"
    );
    let text = GivenReply::Text("yes".to_owned());
    let said = questions
        .reply(&local(), as_question, text, ada(), START)
        .await;
    assert!(matches!(said, Err(ReplyError::Unknown)), "{said:?}");
    assert!(
        approvals
            .withdraw(&local(), as_approval, START)
            .await
            .is_err()
    );
    assert!(
        questions
            .withdraw(&local(), as_question, START)
            .await
            .is_err()
    );
    assert!(works("get", approvals.get(&local(), as_approval).await).is_none());
    assert!(works("get", questions.get(&local(), as_question).await).is_none());
    let waiting = works("list", approvals.pending(&local(), START, 10).await);
    assert_eq!(waiting, [plan]);
    let waiting = works("list", questions.pending(&local(), START, 10).await);
    assert_eq!(waiting, [asked]);
}

/// A waiter is told, whichever instance takes the answer.
pub async fn whoever_waits_for_an_agents_question_is_told(fixture: impl LedgerFixture) {
    let store = fixture.ledger().agent_questions();
    let asked = works("ask", store.ask(question(&principal(), "Which?")).await);
    // It must stay open: what is dropped closes.
    let another = fixture.another().await;
    let other = another.agent_questions();
    let tenant = local();
    let answer = async { works("answer", say(&*other, &asked, "green").await) };
    let (told, _) = tokio::join!(
        tokio::time::timeout(PATIENCE, store.answered(&tenant, asked.id)),
        answer
    );
    let told = works("wait", works("in time", told));
    assert_eq!(said(&told), ("green", None, "ada"));
}

/// A question that was withdrawn, that lapsed, or whose session ended takes no answer.
pub async fn an_agents_question_ends(fixture: impl LedgerFixture) {
    let ledger = fixture.ledger();
    let store = ledger.agent_questions();
    let mine = principal();
    let withdrawn = works("ask", store.ask(question(&mine, "Which?")).await);
    works(
        "withdraw",
        store.withdraw(&local(), withdrawn.id, START).await,
    );
    let ended = works("ask", store.ask(question(&mine, "How?")).await);
    let session = &mine.session;
    works(
        "end",
        ledger
            .approvals()
            .end_session(&local(), session, START)
            .await,
    );
    let lapsed = works("ask", store.ask(question(&mine, "Why?")).await);
    let late = lapsed.expires;
    for (asked, at) in [(withdrawn, START), (ended, START), (lapsed, late)] {
        let reply = GivenReply::Decline;
        let answered = store.reply(&local(), asked.id, reply, ada(), at).await;
        assert!(
            matches!(answered, Err(ReplyError::NotOpen { .. })),
            "{answered:?}"
        );
    }
}

/// An open question, and an answer nobody has received, are there after a crash.
pub async fn an_agents_question_survives_reopening(mut fixture: impl LedgerFixture) {
    let mine = principal();
    let store = fixture.ledger().agent_questions();
    let open = works("ask", store.ask(question(&mine, "Which?")).await);
    drop(store);
    fixture.reopen().await;
    let store = fixture.ledger().agent_questions();
    assert_eq!(
        works("ask", store.ask(question(&mine, "Which?")).await),
        open
    );
    works("answer", say(&*store, &open, "red").await);
    drop(store);
    fixture.reopen().await;
    let store = fixture.ledger().agent_questions();
    let found = works("ask", store.ask(question(&mine, "Which?")).await);
    assert_eq!(found.id, open.id);
    assert_eq!(said(&found), ("red", Some(0), "ada"));
}
