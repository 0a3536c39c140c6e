//! The form that an agent puts before its person: what it shows, and what each answer does.

use serde_json::{Value, json};

use crate::{
    mcp::{Agent, lines},
    support::Stage,
};

const CAREFUL: &str = "[policy]\npreset = \"careful\"\n[mcp]\napproval_wait = 1\n";

fn agent(stage: &Stage) -> Agent {
    let mut agent = Agent::start(stage, &[]);
    agent.initialize_able(&json!({"elicitation": {"form": {}}}));
    agent
}

fn write(path: &str, content: &str) -> Value {
    json!({"name": "write", "arguments": {"path": path, "content": content}})
}

/// Makes a call that asks, and gives this answer. The form, and the result.
fn asked(agent: &mut Agent, call: &Value, answer: impl Fn(&Value) -> Value) -> (Value, Value) {
    let id = agent.start_request("tools/call", call);
    let form = agent.until(|message| message["method"] == "elicitation/create");
    let result = answer(&form["params"]);
    agent.send(&json!({"jsonrpc": "2.0", "id": form["id"], "result": result}));
    (form["params"].clone(), agent.answer(id)["result"].clone())
}

#[test]
fn a_form_is_short_and_a_bare_accept_allows_the_call_once() {
    let stage = Stage::with_config(CAREFUL);
    let mut agent = agent(&stage);
    let accept = |_: &Value| json!({"action": "accept"});
    let (form, result) = asked(&mut agent, &write("a.txt", "x"), accept);
    assert_eq!(result["isError"], json!(false), "{result}");
    assert_eq!(stage.read("a.txt"), "x");
    let form = json!({"message": form["message"], "requestedSchema": form["requestedSchema"]});
    let form = serde_json::to_string_pretty(&form).unwrap();
    insta::assert_snapshot!("form", stage.normal(&form));
    // Once: the next is asked about again.
    let decline = |_: &Value| json!({"action": "decline"});
    let (_, result) = asked(&mut agent, &write("a.txt", "y"), decline);
    assert!(result.to_string().contains("refused"), "{result}");
    assert_eq!(stage.read("a.txt"), "x");
    assert_eq!(stage.json(&["grants", "list", "--json"]), json!([]));
}

#[test]
fn what_the_form_offers_to_remember_is_kept_as_it_says_and_nothing_else_is() {
    let stage = Stage::with_config(CAREFUL);
    let mut agent = agent(&stage);
    let made_up = |_: &Value| json!({"action": "accept", "content": {"remember": "write(**)"}});
    let (_, result) = asked(&mut agent, &write("b.txt", "x"), made_up);
    assert_eq!(result["isError"], json!(true), "{result}");
    assert!(!stage.exists("b.txt"));
    let always = |form: &Value| {
        let choices = &form["requestedSchema"]["properties"]["remember"]["enum"];
        let choices = choices.as_array().unwrap().iter();
        let project = choices.clone().find(|choice| {
            let words = choice.as_str().unwrap();
            words.starts_with("in this project, for every agent: ")
        });
        let project = project.unwrap_or_else(|| panic!("{form}"));
        json!({"action": "accept", "content": {"remember": project}})
    };
    let (_, result) = asked(&mut agent, &write("a.txt", "x"), always);
    assert_eq!(result["isError"], json!(false), "{result}");
    let grants = stage.json(&["grants", "list", "--json"]);
    assert_eq!(grants.as_array().unwrap().len(), 1, "{grants}");
    assert_eq!(grants[0]["rule"], "write(a.txt)", "{grants}");
    assert_eq!(grants[0]["scope"], "project", "{grants}");
    // The same file is not asked about again, another one is.
    let result = agent.ask("tools/call", &write("a.txt", "y"));
    assert_eq!(result["result"]["isError"], json!(false), "{result}");
    assert_eq!(stage.read("a.txt"), "y");
    let decline = |_: &Value| json!({"action": "decline"});
    asked(&mut agent, &write("c.txt", "x"), decline);
    assert!(!stage.exists("c.txt"));
}

#[test]
fn a_change_that_is_too_long_for_a_form_is_allowed_by_no_answer_to_it() {
    let stage = Stage::with_config(CAREFUL);
    let mut agent = agent(&stage);
    let long = "x\n".repeat(300);
    let accept = |_: &Value| json!({"action": "accept", "content": {"remember": "once"}});
    let (form, result) = asked(&mut agent, &write("a.txt", &long), accept);
    let message = form["message"].as_str().unwrap();
    assert!(message.contains("CANNOT BE ALLOWED HERE"), "{message}");
    assert_eq!(form["requestedSchema"]["properties"], json!({}));
    assert_eq!(result["isError"], json!(true), "{result}");
    assert!(!stage.exists("a.txt"));
    assert_eq!(lines(&stage, &["approvals", "--jsonl"]).len(), 1);
}
