//! A call that waits for a person, in every way a client can be asked, and what clients try that
//! they should not.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use haft_contract::{
    CallEvent,
    host::{ApprovalAnswer, ApprovalId, GrantRequest, GrantScope, Ledger as _, Verdict},
};
use haft_mcp::server::{
    SessionScope,
    approve::{DrawQuestion, Elicitation, GrantChoice, ProtocolApprover, QuestionText},
};
use haft_testkit::FixedPolicy;
use serde_json::{Value, json};

use super::{Era, Stage, Wire};

const FORM: &str = r#"{"elicitation": {"form": {}}}"#;
const TASKS: &str = r#"{"extensions": {"io.modelcontextprotocol/tasks": {}}}"#;
const BOTH: &str =
    r#"{"elicitation": {"form": {}}, "extensions": {"io.modelcontextprotocol/tasks": {}}}"#;

/// A runtime that asks about everything but `speak`, whose questions are drawn by `draw`.
fn asking_with(elicitation: Elicitation, patience: Duration, draw: DrawQuestion) -> Stage {
    Stage::configured(
        |harness, calls| {
            harness
                .policy(FixedPolicy::by(|question| {
                    match question.tool.key.tool.as_str() {
                        "speak" => Verdict::Allow,
                        _ => Verdict::Ask,
                    }
                }))
                .approver(ProtocolApprover::new(Arc::clone(calls), elicitation, draw))
        },
        |endpoint| endpoint.approval_wait(patience),
        SessionScope::OfEndpoint,
    )
}

fn asking(elicitation: Elicitation) -> Stage {
    asking_with(elicitation, Duration::from_millis(300), drawn("the plan\n"))
}

/// A drawing that is always this text and remembers nothing.
fn drawn(text: &'static str) -> DrawQuestion {
    Arc::new(move |_, _| {
        Some(QuestionText {
            text: text.to_owned(),
            choices: Vec::new(),
        })
    })
}

fn able(capabilities: &str) -> Value {
    serde_json::from_str(capabilities).unwrap()
}

fn call(text: &str) -> Value {
    json!({"name": "append", "arguments": {"path": "log", "line": text}})
}

fn allow() -> Value {
    json!({"action": "accept", "content": {}})
}

/// The same call with the answer to its only question.
fn answered(text: &str, asks: &Value, answer: &Value) -> Value {
    let mut again = call(text);
    let questions = asks["result"]["inputRequests"].as_object().unwrap();
    assert_eq!(questions.len(), 1, "{asks}");
    let key = questions.keys().next().unwrap().clone();
    again["inputResponses"] = json!({ key: answer });
    again["requestState"] = asks["result"]["requestState"].clone();
    again
}

impl Stage {
    fn log(&self) -> Option<String> {
        let bytes = self.harness.tree.bytes("log")?;
        Some(String::from_utf8(bytes).unwrap())
    }

    async fn question(&self) -> haft_contract::host::Approval {
        let approvals = self.harness.ledger.approvals();
        let tenant = &self.harness.principal.tenant;
        loop {
            let now = haft_contract::host::Timestamp(0);
            let open = approvals.pending(tenant, now, 10).await.unwrap();
            if let Some(open) = open.into_iter().next() {
                return open;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Answers as `haft approve` does, from the record.
    async fn approve_elsewhere(&self) -> ApprovalId {
        use haft_contract::host::{AnswerPlace, Answerer, GivenAnswer, GivenVerdict, Timestamp};
        let open = self.question().await;
        let given = GivenAnswer {
            verdict: GivenVerdict::Approve,
            digest: open.digest,
            by: Answerer::Person {
                name: "ada".to_owned(),
                place: AnswerPlace::Elsewhere,
            },
        };
        let tenant = &self.harness.principal.tenant;
        let approvals = self.harness.ledger.approvals();
        let at = Timestamp(open.asked.0 + 1);
        approvals.answer(tenant, open.id, given, at).await.unwrap();
        open.id
    }
}

async fn elicited(wire: &mut Wire, answer: Value) -> Value {
    let asked = wire.hear("elicitation/create").await;
    wire.send(json!({"jsonrpc": "2.0", "id": asked["id"], "result": answer}))
        .await;
    asked
}

#[tokio::test(start_paused = true)]
async fn a_client_of_the_old_era_is_asked_on_its_stream() {
    let stage = asking(Elicitation::Ask);
    let (mut wire, _) = stage.connect_able(Era::Legacy, able(FORM)).await;
    let id = wire.start("tools/call", call("x")).await;
    let asked = elicited(&mut wire, allow()).await;
    let schema = &asked["params"]["requestedSchema"];
    assert_eq!(*schema, json!({"type": "object", "properties": {}}));
    assert_eq!(asked["params"]["message"], "the plan\n");
    let result = wire.answer(id).await;
    assert_eq!(result["result"]["isError"], json!(false), "{result}");
    assert_eq!(stage.log().as_deref(), Some("x\n"));
    // The record says whose answer it was.
    let answers: Vec<String> = stage
        .harness
        .events
        .all()
        .into_iter()
        .filter_map(|happened| match happened.event {
            CallEvent::ApprovalAnswered { answer } => Some(format!("{answer:?}")),
            _ => None,
        })
        .collect();
    assert!(answers[0].contains("mcp:test"), "{answers:?}");
}

#[tokio::test(start_paused = true)]
async fn no_is_no_and_a_dismissed_form_is_no_answer() {
    let stage = asking(Elicitation::Ask);
    let (mut wire, _) = stage.connect_able(Era::Legacy, able(FORM)).await;
    let id = wire.start("tools/call", call("x")).await;
    elicited(&mut wire, json!({"action": "decline"})).await;
    let result = wire.answer(id).await.to_string();
    assert!(result.contains("refused"), "{result}");
    for nothing in [
        json!({"action": "cancel"}),
        json!({"action": "accept", "content": {"answer": "deny"}}),
        json!({"action": "accept", "content": {"remember": "for ever"}}),
        json!({"action": "accept", "content": "once"}),
        json!({"content": {}}),
    ] {
        let id = wire.start("tools/call", call(&nothing.to_string())).await;
        elicited(&mut wire, nothing).await;
        let result = wire.answer(id).await.to_string();
        assert!(result.contains("waits until a person approves"), "{result}");
    }
    assert_eq!(stage.log(), None);
}

/// Every use of `append`, in this session.
fn every_append(principal: &haft_contract::Principal) -> GrantChoice {
    GrantChoice {
        words: "in this session: append".to_owned(),
        grant: GrantRequest {
            rules: vec!["append".to_owned()],
            scope: GrantScope::Session(principal.session.clone()),
            until: None,
            uses: None,
        },
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_person_chooses_to_remember_is_their_wish_and_the_call_is_allowed() {
    let draw: DrawQuestion = Arc::new(|request, _| {
        Some(QuestionText {
            text: "the plan\n".to_owned(),
            choices: vec![every_append(&request.principal)],
        })
    });
    let stage = asking_with(Elicitation::Ask, Duration::from_millis(300), draw);
    let (mut wire, _) = stage.connect_able(Era::Legacy, able(FORM)).await;
    let id = wire.start("tools/call", call("x")).await;
    let always = json!({"remember": "in this session: append"});
    let asked = elicited(&mut wire, json!({"action": "accept", "content": always})).await;
    let field = &asked["params"]["requestedSchema"]["properties"]["remember"];
    assert_eq!(field["enum"], json!(["once", "in this session: append"]));
    assert_eq!(field["default"], "once");
    let result = wire.answer(id).await;
    assert_eq!(result["result"]["isError"], json!(false), "{result}");
    assert_eq!(stage.log().as_deref(), Some("x\n"));
    let wishes: Vec<GrantRequest> = stage
        .harness
        .events
        .all()
        .into_iter()
        .filter_map(|happened| match happened.event {
            CallEvent::ApprovalAnswered { answer } => match *answer {
                ApprovalAnswer::Approved { grant, .. } => grant,
                _ => None,
            },
            _ => None,
        })
        .collect();
    let principal = &stage.harness.principal;
    assert_eq!(wishes, [every_append(principal).grant]);
    // The rules here ask whatever is granted, so the wish is not kept, and the result says so.
    assert!(result.to_string().contains("was not kept"), "{result}");
}

#[tokio::test(start_paused = true)]
async fn a_question_answered_elsewhere_is_withdrawn_at_the_client() {
    let stage = asking(Elicitation::Ask);
    let (mut wire, _) = stage.connect_able(Era::Legacy, able(FORM)).await;
    let id = wire.start("tools/call", call("x")).await;
    let asked = wire.hear("elicitation/create").await;
    stage.approve_elsewhere().await;
    let withdrawn = wire.hear("notifications/cancelled").await;
    assert_eq!(withdrawn["params"]["requestId"], asked["id"]);
    let result = wire.answer(id).await;
    assert_eq!(result["result"]["isError"], json!(false), "{result}");
}

#[tokio::test(start_paused = true)]
async fn a_client_of_the_new_era_takes_the_question_back() {
    let stage = asking(Elicitation::Ask);
    let (mut wire, _) = stage.connect_able(Era::Modern, able(FORM)).await;
    let asks = wire.ask("tools/call", call("x")).await;
    assert_eq!(asks["result"]["resultType"], "input_required", "{asks}");
    assert_eq!(stage.endpoint.parked(), 1);
    assert_eq!(stage.log(), None);
    let result = wire.ask("tools/call", answered("x", &asks, &allow())).await;
    assert_eq!(result["result"]["isError"], json!(false), "{result}");
    assert_eq!(stage.log().as_deref(), Some("x\n"));
    assert_eq!(stage.endpoint.parked(), 0);
    stage.until_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn mc_14_a_state_is_opaque_bound_and_good_once() {
    let stage = asking(Elicitation::Ask);
    let (mut wire, _) = stage.connect_able(Era::Modern, able(FORM)).await;
    let asks = wire.ask("tools/call", call("x")).await;
    let good = answered("x", &asks, &allow());
    let sealed = good["requestState"].as_str().unwrap().to_owned();
    // Touched, of another call, and made up.
    let mut touched = good.clone();
    touched["requestState"] = json!(format!("{sealed}x"));
    let mut other_call = good.clone();
    other_call["arguments"]["line"] = json!("y");
    let mut other_tool = good.clone();
    other_tool["name"] = json!("echo");
    let mut made_up = good.clone();
    made_up["requestState"] = json!("rs1.AAAA.AAAA");
    for bad in [touched, other_call, other_tool, made_up] {
        let refused = wire.ask("tools/call", bad).await;
        assert_eq!(refused["error"]["code"], json!(-32602), "{refused}");
    }
    assert_eq!(stage.log(), None);
    // The right one still is good, once.
    let result = wire.ask("tools/call", good.clone()).await;
    assert_eq!(result["result"]["isError"], json!(false), "{result}");
    let again = wire.ask("tools/call", good).await;
    assert_eq!(again["error"]["code"], json!(-32602), "{again}");
    assert_eq!(stage.log().as_deref(), Some("x\n"));
}

#[tokio::test(start_paused = true)]
async fn mc_14_another_client_of_the_same_token_does_not_get_at_a_call_by_asking_the_same() {
    let stage = asking(Elicitation::Ask);
    let (mut one, _) = stage.connect_able(Era::Modern, able(FORM)).await;
    let (mut other, _) = stage.connect_able(Era::Modern, able(FORM)).await;
    let form = json!({"mode": "form", "message": "your name?",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}});
    let speak = json!({"name": "speak", "arguments": {"ask": ["elicitation/create", form]}});
    let asks = one.ask("tools/call", speak.clone()).await;
    assert_eq!(asks["result"]["resultType"], "input_required", "{asks}");
    // Word for word the same, and without the state: a call of its own, beside the first.
    let apart = other.ask("tools/call", speak.clone()).await;
    assert_eq!(apart["result"]["resultType"], "input_required", "{apart}");
    assert_eq!((stage.endpoint.parked(), stage.calls.len()), (2, 2));
    // Each answers its own.
    for (wire, asks, name) in [(&mut one, &asks, "Ada"), (&mut other, &apart, "Eve")] {
        let questions = asks["result"]["inputRequests"].as_object().unwrap();
        let key = questions.keys().next().unwrap().clone();
        let mut again = speak.clone();
        again["inputResponses"] = json!({key: {"action": "accept", "content": {"name": name}}});
        again["requestState"] = asks["result"]["requestState"].clone();
        let result = wire.ask("tools/call", again).await;
        let answered = result["result"]["structuredContent"].to_string();
        assert!(answered.contains(name), "{result}");
    }
    stage.until_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn mc_14_a_state_is_no_other_principals() {
    let stage = Stage::configured(
        |harness, calls| {
            harness
                .policy(FixedPolicy::ask_all())
                .approver(ProtocolApprover::new(
                    Arc::clone(calls),
                    Elicitation::Ask,
                    drawn("plan"),
                ))
        },
        |endpoint| endpoint,
        SessionScope::OfEndpoint,
    );
    let (mut wire, _) = stage.connect_able(Era::Modern, able(FORM)).await;
    let asks = wire.ask("tools/call", call("x")).await;
    let good = answered("x", &asks, &allow());
    // Another endpoint of the same process: other principal, other key.
    let mut other = (*stage.harness.principal).clone();
    other.session = haft_contract::SessionId::parse("another").unwrap();
    let endpoint = haft_mcp::server::Endpoint::new(
        stage.harness.runtime.clone(),
        Arc::new(other),
        Arc::clone(&stage.calls),
        SessionScope::OfEndpoint,
    );
    let stranger = Stage {
        endpoint: Arc::new(endpoint),
        ..stage
    };
    let (mut wire, _) = stranger.connect_able(Era::Modern, able(FORM)).await;
    let refused = wire.ask("tools/call", good).await;
    assert_eq!(refused["error"]["code"], json!(-32602), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_nobody_asked_for_is_dropped() {
    let stage = asking(Elicitation::Ask);
    let (mut wire, _) = stage.connect_able(Era::Modern, able(FORM)).await;
    // Sent along with the first request, before there is a question.
    let mut early = call("x");
    early["inputResponses"] = json!({"haft:approval:0": allow()});
    let asks = wire.ask("tools/call", early).await;
    assert_eq!(asks["result"]["resultType"], "input_required", "{asks}");
    // Under another key.
    let mut wrong = answered("x", &asks, &allow());
    wrong["inputResponses"] = json!({"haft:approval:0": allow()});
    let asks = wire.ask("tools/call", wrong).await;
    assert_eq!(asks["result"]["resultType"], "input_required", "{asks}");
    assert_eq!(stage.log(), None);
}

#[tokio::test(start_paused = true)]
async fn ap_08_what_is_too_long_to_show_cannot_be_allowed_at_the_client() {
    let draw: DrawQuestion = Arc::new(|request, _| {
        Some(QuestionText {
            text: "x".repeat(64 * 1024),
            choices: vec![every_append(&request.principal)],
        })
    });
    let stage = asking_with(Elicitation::Ask, Duration::from_millis(100), draw);
    let (mut wire, _) = stage.connect_able(Era::Legacy, able(FORM)).await;
    let id = wire.start("tools/call", call("x")).await;
    let asked = elicited(&mut wire, allow()).await;
    let message = asked["params"]["message"].as_str().unwrap();
    assert!(message.contains("CANNOT BE ALLOWED HERE"), "{message}");
    let properties = &asked["params"]["requestedSchema"]["properties"];
    assert_eq!(*properties, json!({}));
    let result = wire.answer(id).await.to_string();
    assert!(result.contains("waits until a person approves"), "{result}");
    assert_eq!(stage.log(), None);
}

#[tokio::test(start_paused = true)]
async fn ap_09_a_form_that_is_not_the_one_with_the_digest_is_not_asked_about() {
    let draw: DrawQuestion = Arc::new(|_, _| None);
    let stage = asking_with(Elicitation::Ask, Duration::from_millis(50), draw);
    let (mut wire, _) = stage.connect_able(Era::Legacy, able(FORM)).await;
    let result = wire.call("append", call("x")["arguments"].clone()).await;
    assert_eq!(result["isError"], json!(true));
    assert!(wire.heard.is_empty(), "{:?}", wire.heard);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_tasks_gets_one() {
    let stage = asking(Elicitation::Ask);
    let (mut wire, _) = stage.connect_able(Era::Modern, able(TASKS)).await;
    let made = wire.ask("tools/call", call("x")).await;
    assert_eq!(made["result"]["resultType"], "task", "{made}");
    let task = json!({"taskId": made["result"]["taskId"]});
    let task_now = wire.ask("tasks/get", task.clone()).await;
    assert_eq!(task_now["result"]["status"], "working", "{task_now}");
    let message = task_now["result"]["statusMessage"].as_str().unwrap();
    assert!(message.contains("haft approve "), "{message}");
    stage.approve_elsewhere().await;
    let done = loop {
        let task_now = wire.ask("tasks/get", task.clone()).await;
        if task_now["result"]["status"] != "working" {
            break task_now;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert_eq!(done["result"]["status"], "completed", "{done}");
    assert_eq!(done["result"]["result"]["isError"], json!(false));
    assert_eq!(stage.log().as_deref(), Some("x\n"));
    // It is kept, and the call is in the record under the id of the task.
    let again = wire.ask("tasks/get", task).await;
    assert_eq!(again["result"]["status"], "completed", "{again}");
}

/// A client that can put a form before its person is asked first: with a task at once, agents let
/// their model go on without the result. Once the form is dismissed, the call waits as a task.
#[tokio::test(start_paused = true)]
async fn a_client_that_can_be_asked_gets_a_task_only_once_it_was() {
    let stage = asking(Elicitation::Ask);
    let (mut wire, _) = stage.connect_able(Era::Modern, able(BOTH)).await;
    let asks = wire.ask("tools/call", call("x")).await;
    assert_eq!(asks["result"]["resultType"], "input_required", "{asks}");
    wire.ask("tools/call", answered("x", &asks, &allow())).await;
    assert_eq!(stage.log().as_deref(), Some("x\n"));

    let asks = wire.ask("tools/call", call("y")).await;
    let dismissed = json!({"action": "cancel"});
    let made = wire
        .ask("tools/call", answered("y", &asks, &dismissed))
        .await;
    assert_eq!(made["result"]["resultType"], "task", "{made}");
    let id = made["result"]["taskId"].clone();
    wire.ask("tasks/cancel", json!({"taskId": id})).await;
    loop {
        let task_now = wire.ask("tasks/get", json!({"taskId": id})).await;
        if task_now["result"]["status"] == "cancelled" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(stage.log().as_deref(), Some("x\n"));
    let unknown = json!({"taskId": haft_contract::CallId::new().to_string()});
    let refused = wire.ask("tasks/get", unknown).await;
    assert_eq!(refused["error"]["code"], json!(-32602), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_can_be_asked_nothing_is_told_how_a_person_answers() {
    for era in Era::BOTH {
        let stage = asking(Elicitation::Ask);
        let (mut wire, _) = stage.connect(era).await;
        let mut wanted = call("x");
        wanted["_meta"] = json!({"progressToken": 7});
        let told = wire.ask("tools/call", wanted).await;
        assert_eq!(told["result"]["isError"], json!(true), "{told}");
        let open = stage.question().await;
        let text = told["result"]["content"][0]["text"].as_str().unwrap();
        for word in [
            &format!("haft approve {}", open.id),
            "haft approvals --watch",
            "make the same call again",
        ] {
            assert!(text.contains(word), "{text}");
        }
        let alive = wire.hear("notifications/progress").await;
        let message = alive["params"]["message"].as_str().unwrap();
        assert!(message.contains("waits for a person"), "{message}");
        // Asked again, it is the same call that waits, and one question.
        let told = wire.ask("tools/call", call("x")).await;
        assert_eq!(told["result"]["isError"], json!(true), "{told}");
        assert_eq!(stage.calls.len(), 1);
        assert_eq!(stage.question().await.id, open.id);
        // Other words are another call.
        wire.ask("tools/call", call("z")).await;
        assert_eq!(stage.calls.len(), 2);
        stage.approve_elsewhere().await;
        let result = wire.ask("tools/call", call("x")).await;
        assert_eq!(result["result"]["isError"], json!(false), "{result}");
        assert_eq!(stage.log().as_deref(), Some("x\n"));
        // The client goes, and so does what waits for it.
        drop(wire);
        stage.until_quiet().await;
        assert_eq!(stage.endpoint.parked(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn ap_06_a_client_is_not_asked_where_it_should_not_be() {
    // The operator says so.
    let stage = asking(Elicitation::Never);
    let (mut wire, _) = stage.connect_able(Era::Legacy, able(FORM)).await;
    let told = wire.call("append", call("x")["arguments"].clone()).await;
    assert_eq!(told["isError"], json!(true));
    assert!(wire.heard.is_empty(), "{:?}", wire.heard);
    let (mut wire, _) = stage.connect_able(Era::Modern, able(FORM)).await;
    let told = wire.ask("tools/call", call("y")).await;
    assert_eq!(told["result"]["isError"], json!(true), "{told}");
}

#[tokio::test(start_paused = true)]
async fn questions_of_mounted_servers_take_the_same_doors() {
    let stage = asking(Elicitation::Ask);
    let (mut wire, _) = stage.connect_able(Era::Modern, able(FORM)).await;
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let ask = json!({"message": "who?", "requestedSchema": schema});
    let speak = json!({"name": "speak", "arguments": {"ask": ["elicitation/create", ask]}});
    let asks = wire.ask("tools/call", speak.clone()).await;
    assert_eq!(asks["result"]["resultType"], "input_required", "{asks}");
    let questions = asks["result"]["inputRequests"].as_object().unwrap();
    let (key, question) = questions.iter().next().unwrap();
    assert_eq!(key, "q");
    assert_eq!(question["params"]["message"], "who?");
    let mut again = speak;
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    again["inputResponses"] = json!({key: answer});
    again["requestState"] = asks["result"]["requestState"].clone();
    let result = wire.ask("tools/call", again).await;
    let said = &result["result"]["structuredContent"]["answered"][0];
    assert_eq!(said["content"]["name"], "Ada", "{result}");
}

#[tokio::test(start_paused = true)]
async fn mc_13_a_mounted_server_sends_nobody_to_a_dangerous_address() {
    let stage = asking(Elicitation::Ask);
    let url = json!({"elicitation": {"url": {}}});
    for era in Era::BOTH {
        let (mut wire, _) = stage.connect_able(era, url.clone()).await;
        let ask = json!({"mode": "url", "message": "?", "url": "javascript:alert(1)",
            "elicitationId": "1"});
        let arguments = json!({"ask": ["elicitation/create", ask]});
        let result = wire.call("speak", arguments).await.to_string();
        assert!(result.contains("https"), "{result}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_client_waited_for_ends_with_it_though_a_server_hangs() {
    let stage = Stage::configured(
        |harness, calls| {
            harness
                .policy(FixedPolicy::by(|question| {
                    match question.tool.key.tool.as_str() {
                        "append" => Verdict::Ask,
                        _ => Verdict::Allow,
                    }
                }))
                .approver(ProtocolApprover::new(
                    Arc::clone(calls),
                    Elicitation::Never,
                    drawn("plan"),
                ))
        },
        |endpoint| endpoint.approval_wait(Duration::from_millis(50)),
        SessionScope::OfConnection,
    );
    let (mut wire, _) = stage.connect(Era::Legacy).await;
    let subscribed = wire.ask("resources/subscribe", json!({"uri": "s+file:///a"}));
    assert!(subscribed.await.get("result").is_some());
    wire.ask("tools/call", call("x")).await;
    assert_eq!(stage.endpoint.parked(), 1);
    stage.mounts.takes_ms.store(3_600_000, Ordering::SeqCst);
    drop(wire);
    let ended = async {
        while stage.endpoint.parked() > 0 || stage.mounts.wishes.lock().unwrap().len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(super::wire::PATIENCE, ended)
        .await
        .expect("its call is dropped at once");
    // The server that hangs is told to stop, in time.
    stage.until_quiet().await;
}
