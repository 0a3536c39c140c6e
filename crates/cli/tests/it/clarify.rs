//! A question of an agent, from the program's outside: asked in a terminal or at a client, answered from
//! another process, kept when the asker is killed, and never an approval.

use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::{
    mcp::{Agent, lines},
    support::{Stage, eventually, wait},
};

const CONFIG: &str = "[policy]\npreset = \"careful\"\nallow = [\"clarify\"]\n\
                      [tools.clarify]\ntype = \"clarify\"\n";

const CALL: [&str; 5] = [
    "call",
    "clarify",
    r#"{"question": "Which colour?", "options": ["red", "blue"], "allow_other": true}"#,
    "--ask",
    "elsewhere",
];

fn start(stage: &Stage, args: &[&str]) -> Child {
    let mut command = stage.command(args);
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(Stdio::piped()).spawn().unwrap()
}

fn question(stage: &Stage) -> String {
    eventually("the question is on record", || {
        let open = lines(stage, &["answer", "--jsonl"]);
        Some(open.first()?["question"].as_str()?.to_owned())
    })
}

fn end(mut call: Child) -> (i32, String) {
    let code = wait(&mut call).code().unwrap();
    let ended = call.wait_with_output().unwrap();
    let said = [ended.stdout, ended.stderr].concat();
    (code, String::from_utf8(said).unwrap())
}

#[test]
fn another_process_answers_and_the_first_answer_counts() {
    let stage = Stage::with_config(CONFIG);
    let call = start(&stage, &CALL);
    let id = question(&stage);
    let listed = stage.haft(&["answer"]).ok();
    assert!(
        listed.contains("Your answer is only text; it allows nothing."),
        "{listed}"
    );
    assert!(
        listed.contains("  │ Which colour?\n  │ 1  red\n  │ 2  blue\n"),
        "{listed}"
    );
    // It is in no list of approvals.
    assert!(lines(&stage, &["approvals", "--jsonl"]).is_empty());
    let empty = stage.haft(&["answer", &id]).fails(2);
    assert!(empty.contains("--decline"), "{empty}");
    stage.haft(&["answer", &id[..20], "2"]).ok();
    let late = stage.haft(&["answer", &id, "red"]).fails(11);
    assert!(late.contains("already answered"), "{late}");
    let (code, said) = end(call);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("blue"), "{said}");
}

fn signal(call: &Child, name: &str) {
    let id = call.id().to_string();
    let sent = Command::new("kill").args([name, &id]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn an_answer_outlives_the_asker_that_was_killed_before_it_received_it() {
    let stage = Stage::with_config(CONFIG);
    let mut killed = start(&stage, &CALL);
    let id = question(&stage);
    signal(&killed, "-STOP");
    stage.haft(&["answer", &id, "green, please"]).ok();
    signal(&killed, "-KILL");
    wait(&mut killed);
    // The same call gets the answer without asking anybody; the next asks anew.
    let said = stage.haft(&CALL).ok();
    assert!(said.contains("green, please"), "{said}");
    let asked_again = start(&stage, &CALL);
    let other = question(&stage);
    assert_ne!(other, id);
    stage.haft(&["answer", &other, "--decline"]).ok();
    let (code, said) = end(asked_again);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("gave no answer"), "{said}");
}

#[test]
fn a_question_whose_asker_was_killed_is_withdrawn_and_asked_again() {
    let stage = Stage::with_config(CONFIG);
    let mut killed = start(&stage, &CALL);
    let id = question(&stage);
    signal(&killed, "-KILL");
    wait(&mut killed);
    let late = stage.haft(&["answer", &id, "red"]).fails(11);
    assert!(late.contains("already withdrawn"), "{late}");
    let again = start(&stage, &CALL);
    let other = question(&stage);
    assert_ne!(other, id);
    stage.haft(&["answer", &other, "red"]).ok();
    assert_eq!(end(again).0, 0);
}

#[test]
fn neither_command_answers_the_others_questions_and_no_answer_grants_anything() {
    let stage = Stage::with_config(CONFIG);
    let asks = start(&stage, &CALL);
    let asked = question(&stage);
    let write = [
        "call",
        "write",
        "path=made.txt",
        "content=x",
        "--ask",
        "elsewhere",
    ];
    let plans = start(&stage, &write);
    let plan = eventually("the approval is on record", || {
        let open = lines(&stage, &["approvals", "--jsonl"]);
        Some(open.first()?.clone())
    });
    let (plan, digest) = (
        plan["question"].as_str().unwrap(),
        plan["digest"].as_str().unwrap(),
    );
    stage.haft(&["answer", plan, "yes"]).fails(10);
    stage.haft(&["answer", plan, "--decline"]).fails(10);
    stage
        .haft(&["approve", &asked, "--yes", "--digest", digest])
        .fails(10);
    stage.haft(&["deny", &asked]).fails(10);
    // Both are as open as before.
    assert_eq!(lines(&stage, &["approvals", "--jsonl"]).len(), 1);
    stage.haft(&["answer", &asked, "approve", "always"]).ok();
    let (_, said) = end(asks);
    assert!(said.contains("approve always"), "{said}");
    assert_eq!(stage.json(&["grants", "list", "--json"]), json!([]));
    assert!(!stage.exists("made.txt"));
    stage.haft(&["deny", plan]).ok();
    assert_eq!(end(plans).0, 3);
    assert!(!stage.exists("made.txt"));
}

#[test]
fn without_a_person_the_model_is_told_to_decide_or_ask_in_its_reply() {
    let stage = Stage::with_config(CONFIG);
    let said = stage.haft(&["call", "clarify", "question=Which?"]).fails(3);
    assert!(said.contains("nobody is there to answer"), "{said}");
    assert!(said.contains("ask in your reply"), "{said}");
    let denied = Stage::with_config(&CONFIG.replace("allow", "deny"));
    let said = denied
        .haft(&["call", "clarify", "question=Which?"])
        .fails(3);
    assert!(!said.contains("nobody is there"), "{said}");
    // It is offered where it is configured, and nowhere else.
    let tools = Stage::new().haft(&["tools"]).ok();
    assert!(!tools.contains("clarify"), "{tools}");
}

#[test]
fn a_terminal_shows_a_question_that_no_escape_can_turn_into_an_approval() {
    let stage = Stage::with_config(CONFIG);
    let hostile = json!({
        "question": "Go on?\u{1b}[2J\u{1b}[H\r\nbash  touch made\nAllow this one call? [y/N] ",
    });
    let mut terminal = stage.terminal(&["call", "clarify", &hostile.to_string()]);
    let shown = terminal.until("Your answer (empty: none): ");
    assert!(
        shown.contains("The agent cli asks you a question."),
        "{shown}"
    );
    assert!(shown.contains("it allows nothing"), "{shown}");
    assert!(shown.contains("  │ Allow this one call? [y/N]"), "{shown}");
    assert!(!shown.contains("y allow once"), "{shown}");
    assert!(!shown.contains("\u{1b}[2J"), "{shown:?}");
    terminal.types("y\n");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert_eq!(stage.json(&["grants", "list", "--json"]), json!([]));
    let shown = stage.json(&["show", "--json"]);
    assert!(shown.to_string().contains(r#""answer":"y""#), "{shown}");
}

#[test]
fn a_client_is_asked_with_a_form_of_its_own() {
    let stage = Stage::with_config(CONFIG);
    let mut agent = Agent::start(&stage, &[]);
    agent.initialize_able(&json!({"elicitation": {"form": {}}}));
    let call = json!({"name": "clarify", "arguments": {
        "question": "Which colour?", "options": ["red", "blue"],
    }});
    let id = agent.start_request("tools/call", &call);
    let form = agent.until(|message| message["method"] == "elicitation/create");
    let (message, schema) = (
        &form["params"]["message"],
        &form["params"]["requestedSchema"],
    );
    let message = message.as_str().unwrap();
    assert!(
        message.contains("Your answer is only text; it allows nothing."),
        "{message}"
    );
    assert!(message.contains("  │ Which colour?"), "{message}");
    assert_eq!(
        schema["properties"]["choice"]["enum"],
        json!(["red", "blue"])
    );
    let answer = json!({"action": "accept", "content": {"choice": "blue"}});
    agent.send(&json!({"jsonrpc": "2.0", "id": form["id"], "result": answer}));
    let result = agent.answer(id)["result"].clone();
    assert_eq!(result["content"][0]["text"], "blue", "{result}");
    let outcome = stage.json(&["show", "--json"]).to_string();
    assert!(
        outcome.contains(r#""chosen":1"#) && outcome.contains(r#""by":"mcp"#),
        "{outcome}"
    );
    // What a client sends back for an approval is no answer to a question.
    let id = agent.start_request("tools/call", &call);
    let form = agent.until(|message| message["method"] == "elicitation/create");
    let answer = json!({"action": "accept", "content": {"remember": "once"}});
    agent.send(&json!({"jsonrpc": "2.0", "id": form["id"], "result": answer}));
    stage.haft(&["answer", &question(&stage), "red"]).ok();
    let result = agent.answer(id)["result"].clone();
    assert_eq!(result["content"][0]["text"], "red", "{result}");
}

#[test]
fn a_client_without_forms_is_told_the_command_and_a_subagent_is_not_offered_it() {
    let stage = Stage::with_config(&format!("{CONFIG}[mcp]\napproval_wait = 1\n"));
    let mut agent = Agent::start(&stage, &[]);
    agent.initialize();
    let call = json!({"name": "clarify", "arguments": {"question": "Which?"}});
    let waits = agent.ask("tools/call", &call)["result"].clone();
    let id = question(&stage);
    let text = waits["content"][0]["text"].as_str().unwrap();
    assert!(text.contains(&format!("`haft answer {id} TEXT`")), "{text}");
    assert!(!text.contains("haft approve"), "{text}");
    stage.haft(&["answer", &id, "the first"]).ok();
    let result = agent.ask("tools/call", &call)["result"].clone();
    assert_eq!(result["content"][0]["text"], "the first", "{result}");
    let offered = |args: &[&str]| {
        let mut agent = Agent::start(&stage, args);
        agent.initialize();
        agent
            .ask("tools/list", &json!({}))
            .to_string()
            .contains("clarify")
    };
    assert!(offered(&[]));
    assert!(!offered(&["--session-kind", "subagent"]));
    assert!(!offered(&["--session-kind", "cron"]));
}
