//! `[timeouts]`: calls run as long as it says, models read what it says, and a name that no tool has
//! is an error.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{mcp::Agent, support::Stage};

const ALLOWING: &str = "[policy]\nallow = [\"bash(sleep *)\"]\n";

#[test]
#[ignore = "ci: needs bubblewrap"]
fn a_command_is_stopped_after_the_time_that_is_configured() {
    let stage = Stage::with_config(&format!("{ALLOWING}[timeouts]\nbash = 1\n"));
    let said = stage.haft(&["call", "bash", "command=sleep 600"]).fails(4);
    assert!(said.contains("stopped after 1.0 s"), "{said}");
    // A tool of the same kind under another name is another tool.
    let named = format!("{ALLOWING}[timeouts]\ndefault = 1\nbash = 2\n");
    let stage = Stage::with_config(&named);
    let said = stage.haft(&["call", "bash", "command=sleep 600"]).fails(4);
    assert!(said.contains("stopped after 2.0 s"), "{said}");
    // Whoever asks for another time gets it.
    let asking = ["call", "bash", "command=sleep 2", "timeout_ms=60000"];
    stage.haft(&asking).ok();
}

#[test]
fn a_model_reads_the_time_in_force() {
    let bash = |stage: &Stage| {
        let mut agent = Agent::start(stage, &[]);
        agent.initialize();
        let listed = agent.ask("tools/list", &json!({}));
        let tools = listed["result"]["tools"].as_array().unwrap();
        let bash = tools.iter().find(|tool| tool["name"] == "bash").unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let of_parameter = &bash["inputSchema"]["properties"]["timeout_ms"]["description"];
        (text(&bash["description"]), text(of_parameter))
    };
    let (tool, parameter) = bash(&Stage::with_config("[policy]\n"));
    assert!(tool.contains("It may run 120 seconds unless"), "{tool}");
    assert!(parameter.contains("Defaults to 120000,"), "{parameter}");
    let stage = Stage::with_config("[policy]\n[timeouts]\ndefault = 45\nbash = 300\n");
    let (tool, parameter) = bash(&stage);
    assert!(tool.contains("It may run 300 seconds unless"), "{tool}");
    assert!(tool.contains("at most 600 seconds"), "{tool}");
    assert!(!tool.contains("120"), "{tool}");
    assert!(parameter.contains("Defaults to 300000,"), "{parameter}");
}

/// The time of one action: the others of its tool keep theirs, and a model reads it.
#[test]
fn an_action_is_stopped_after_the_time_that_is_configured_for_it() {
    let rules = "[policy]\nallow = [\"bash\", \"process\"]\n[tools.bash]\nsandbox = \"off\"\n";
    let stage = Stage::with_config(&format!("{rules}[timeouts]\n\"process.poll\" = 1\n"));
    let mut agent = Agent::start(&stage, &[]);
    agent.initialize();
    let listed = agent.ask("tools/list", &json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let process = tools.iter().find(|tool| tool["name"] == "process");
    let described = process.unwrap()["description"].as_str().unwrap();
    assert!(
        described.ends_with("Actions may run: `poll` 1 second."),
        "{described}"
    );
    let mut call = |tool: &str, arguments: Value| {
        let parameters = json!({"name": tool, "arguments": arguments});
        agent.ask("tools/call", &parameters)
    };
    let command = json!({"command": "sleep 600", "background": true});
    let started = call("bash", command);
    assert!(
        started
            .to_string()
            .contains("[in the background: p1 running"),
        "{started}"
    );
    let id = "p1";
    // It asks for five minutes, and would wait for all of them.
    let began = Instant::now();
    let poll = json!({"action": "poll", "id": id, "wait_ms": 300_000});
    let polled = call("process", poll).to_string();
    assert!(polled.contains("[p1 running, "), "{polled}");
    assert!(polled.contains("nothing new"), "{polled}");
    assert!(began.elapsed() < Duration::from_secs(250), "{polled}");
    let killed = call("process", json!({"action": "kill", "id": id}));
    assert_eq!(killed["result"]["isError"], json!(false), "{killed}");
    agent.close();
}

#[test]
fn a_name_that_no_tool_has_and_more_than_the_maximum_are_errors_with_their_line() {
    let stage = Stage::bare();
    for (line, problem, hint) in [
        ("bsh = 5", "there is no such tool", "did you mean `bash`?"),
        ("zzzzzz = 5", "there is no such tool", "`haft tools` lists"),
        ("exec = 5", "another name of `bash`", "write `bash`"),
        (
            "bash = 601",
            "never runs longer than 600 seconds",
            "write 600 or less",
        ),
        (
            "\"process.pol\" = 5",
            "no action `pol`",
            "did you mean `poll`?",
        ),
        ("\"bash.x\" = 5", "no action `x`", "write `bash`"),
        ("mcp__a__b = 5", "a mounted server", "`call_timeout`"),
    ] {
        stage.write("haft.toml", format!("[policy]\n[timeouts]\n{line}\n"));
        let error = stage.haft(&["trust"]).fails(7);
        assert!(error.contains("haft.toml:3"), "{error}");
        assert!(error.contains(problem) && error.contains(hint), "{error}");
    }
    let fine = "[policy]\n[timeouts]\ndefault = 600\nundo = 60\n\"process.poll\" = 20\n";
    stage.write("haft.toml", fine);
    stage.haft(&["trust"]).ok();
    let shown = stage.haft(&["config", "show"]).ok();
    assert!(shown.contains("process.poll"), "{shown}");
}
