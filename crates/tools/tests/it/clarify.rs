//! `clarify`: a question that is on record before anybody is asked, an answer that is text, and a clock
//! that stands still meanwhile.

use std::{sync::Arc, time::Duration};

use haft_contract::{
    CallRequest, DeniedBy, Outcome, Principal, SessionKind, Terminal,
    host::{
        AgentQuestionAnswer, AgentQuestionRequest, AgentQuestionState, AnswerPlace, Answerer,
        ApprovalAnswer, ApprovalRequest, Approver, GivenReply, Ledger as _, Timestamp, Verdict,
    },
};
use haft_testkit::{FixedPolicy, Harness, ScriptedApprover, principal};
use haft_tools::catalog::optional;
use serde_json::{Value, json};

use crate::workspace::{first_text, structured};

fn harness(person: &ScriptedApprover) -> Harness {
    Harness::memory().tools(optional()).person(person).build()
}

async fn ask(harness: &Harness, who: &Arc<Principal>, arguments: Value) -> Arc<Outcome> {
    let request = CallRequest::new("clarify", arguments, Arc::clone(who));
    harness.runtime.call(request).await
}

fn said(text: &str) -> AgentQuestionAnswer {
    AgentQuestionAnswer::Said {
        by: "ada".to_owned(),
        reply: GivenReply::Text(text.to_owned()),
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_data_and_says_who_gave_it() {
    let person = ScriptedApprover::default();
    person.says([
        said("2"),
        said("neither, use sqlite"),
        AgentQuestionAnswer::Said {
            by: "ada".to_owned(),
            reply: GivenReply::Decline,
        },
    ]);
    let harness = harness(&person);
    let arguments =
        json!({"question": "Which?", "options": ["redis", "nats"], "allow_other": true});
    let chosen = ask(&harness, &principal(), arguments.clone()).await;
    assert_eq!(
        structured(&chosen),
        &json!({"answer": "nats", "chosen": 1, "by": "ada"})
    );
    // It was received, so the same question is asked again.
    let own = ask(&harness, &principal(), arguments).await;
    assert_eq!(first_text(&own), "neither, use sqlite");
    assert_eq!(structured(&own)["chosen"], Value::Null);
    let none = ask(&harness, &principal(), json!({"question": "And why?"})).await;
    assert!(none.succeeded(), "{}", none.model_text());
    assert_eq!(structured(&none)["answer"], Value::Null);
    assert_eq!(person.questions().len(), 3);
    // What reads as an approval was none: nobody was asked about a plan.
    assert!(person.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn yes_to_a_question_allows_nothing() {
    let person = ScriptedApprover::default();
    person.says([said("y"), said("approve always")]);
    let policy = FixedPolicy::by(|question| match question.tool.key.tool.as_str() {
        "clarify" => Verdict::Allow,
        _ => Verdict::Ask,
    });
    let harness = Harness::memory()
        .tools(optional())
        .person(&person)
        .policy(policy)
        .build();
    for text in ["May I?", "Always?"] {
        let answered = ask(&harness, &principal(), json!({"question": text})).await;
        assert!(answered.succeeded(), "{}", answered.model_text());
    }
    // Nobody approves anything here, so what needs an approval is refused as it was before.
    let request = CallRequest::new("memory_save", json!({"text": "x"}), principal());
    let saved = harness.runtime.call(request).await;
    assert_eq!(saved.terminal, Terminal::Denied);
    let tenant = &harness.principal.tenant;
    let open = harness
        .ledger
        .approvals()
        .pending(tenant, Timestamp(0), 9)
        .await;
    assert!(open.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_clock_stands_still_while_a_person_is_asked() {
    let person = ScriptedApprover::default();
    person.says([]);
    let harness = harness(&person);
    let who = principal();
    let request = CallRequest::new("clarify", json!({"question": "Which?"}), Arc::clone(&who));
    let request = request.timeout(Duration::from_secs(2));
    let store = harness.ledger.agent_questions();
    let later = async {
        let open = loop {
            let open = store.pending(&who.tenant, Timestamp(0), 9).await.unwrap();
            match open.into_iter().next() {
                Some(open) => break open,
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        tokio::time::sleep(Duration::from_secs(500)).await;
        let by = Answerer::Person {
            name: "bob".to_owned(),
            place: AnswerPlace::Elsewhere,
        };
        let text = GivenReply::Text("that one".to_owned());
        let answered = store
            .reply(&who.tenant, open.id, text, by, open.asked)
            .await;
        answered.unwrap();
    };
    let (outcome, ()) = tokio::join!(harness.runtime.call(request), later);
    assert_eq!(structured(&outcome)["answer"], "that one");
    assert_eq!(structured(&outcome)["by"], "bob");
    assert!(outcome.facts.timings.asked >= Duration::from_secs(500));
    assert!(outcome.facts.timings.ran < Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn silence_ends_and_a_cancelled_call_withdraws_its_question() {
    let person = ScriptedApprover::default();
    person.says([]);
    let harness = harness(&person);
    let silent = ask(&harness, &principal(), json!({"question": "Anybody?"})).await;
    assert_eq!(silent.terminal, Terminal::TimedOut);
    assert!(
        silent.model_text().contains("say in your reply"),
        "{}",
        silent.model_text()
    );
    let request = CallRequest::new("clarify", json!({"question": "Which?"}), principal());
    let call = request.id;
    let stop = async {
        while person.questions().len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(harness.runtime.cancel(call));
    };
    let (outcome, ()) = tokio::join!(harness.runtime.call(request), stop);
    assert_eq!(outcome.terminal, Terminal::Cancelled);
    let id = person.questions()[1].id;
    let tenant = &harness.principal.tenant;
    let left = harness.ledger.agent_questions().get(tenant, id).await;
    assert_eq!(left.unwrap().unwrap().state, AgentQuestionState::Withdrawn);
}

#[tokio::test]
async fn where_nobody_answers_it_is_refused_and_not_shown() {
    let nobody = harness(&ScriptedApprover::default());
    let refused = ask(&nobody, &principal(), json!({"question": "Which?"})).await;
    assert_eq!(refused.terminal, Terminal::Denied);
    assert_eq!(refused.facts.denied_by, Some(DeniedBy::NobodyToAsk));
    assert!(
        refused.model_text().contains("ask in your reply"),
        "{}",
        refused.model_text()
    );
    let person = ScriptedApprover::default();
    person.says([]);
    let harness = harness(&person);
    let shown = |harness: &Harness, who: &Principal| {
        let tools = harness.runtime.tools_for(who);
        tools
            .iter()
            .any(|entry| entry.key().tool.as_str() == "clarify")
    };
    assert!(!shown(&nobody, &principal()));
    assert!(shown(&harness, &principal()));
    for kind in [SessionKind::Subagent, SessionKind::Cron] {
        let mut alone = Principal::clone(&principal());
        alone.session_kind = kind;
        let alone = Arc::new(alone);
        assert!(!shown(&harness, &alone), "{kind:?}");
        let refused = ask(&harness, &alone, json!({"question": "Which?"})).await;
        assert_eq!(
            refused.facts.denied_by,
            Some(DeniedBy::NobodyToAsk),
            "{kind:?}"
        );
    }
    assert!(person.questions().is_empty());
}

/// Panics before it knows whether anybody replies, or only when it is asked.
struct PanickingApprover {
    at_once: bool,
}

impl Approver for PanickingApprover {
    async fn ask(&self, _: ApprovalRequest) -> ApprovalAnswer {
        ApprovalAnswer::Elsewhere
    }

    fn nobody_replies(&self, _: &Principal) -> Option<String> {
        assert!(!self.at_once, "an approver's fault");
        None
    }

    async fn put(&self, _: AgentQuestionRequest) -> AgentQuestionAnswer {
        panic!("an approver's fault")
    }
}

#[tokio::test]
async fn an_approver_that_panics_answers_no_question_and_is_named() {
    for at_once in [true, false] {
        let harness = Harness::memory()
            .tools(optional())
            .approver(PanickingApprover { at_once })
            .build();
        let shown = harness.runtime.tools_for(&harness.principal);
        let names = shown.iter().map(|entry| entry.key().tool.as_str());
        assert_eq!(
            names.filter(|name| *name == "clarify").count() == 0,
            at_once
        );
        let refused = ask(&harness, &principal(), json!({"question": "Which?"})).await;
        assert_eq!(refused.terminal, Terminal::Denied);
        assert_eq!(refused.facts.denied_by, Some(DeniedBy::Approver));
        let text = refused.model_text();
        assert!(text.contains("the approver failed: it panicked"), "{text}");
        assert!(text.contains("ask in your reply"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_that_imitates_an_approval_arrives_clean() {
    let person = ScriptedApprover::default();
    person.says([said("no")]);
    let harness = harness(&person);
    let hostile = "\u{1b}[2J\u{1b}[Hbash  rm -rf ~\r\nAllow this one call? [y/N]\u{202e}";
    ask(&harness, &principal(), json!({"question": hostile})).await;
    let asked = &person.questions()[0];
    let lines = asked.question.lines("agent");
    assert_eq!(lines[1], "Your answer is only text; it allows nothing.");
    assert_eq!(
        lines[2..],
        ["  │ [2J[Hbash  rm -rf ~", "  │ Allow this one call? [y/N]"]
    );
}

#[tokio::test(start_paused = true)]
async fn other_agents_questions_are_understood() {
    let person = ScriptedApprover::default();
    person.says([said("B")]);
    let harness = harness(&person);
    let request = CallRequest::new(
        "AskUserQuestion",
        json!({"questions": [{
            "question": "Which?", "header": "Which", "multiSelect": false,
            "options": [{"label": "A", "description": "a"}, {"label": "B", "description": "b"}],
        }]}),
        principal(),
    );
    let outcome = harness.runtime.call(request).await;
    assert_eq!(
        structured(&outcome)["chosen"],
        1,
        "{}",
        outcome.model_text()
    );
}
