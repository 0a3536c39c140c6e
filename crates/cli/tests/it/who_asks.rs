//! Who asks over MCP: the kind of session, the channel, scopes and parent agents of `haft mcp`, by
//! its options, by its environment, and narrowed by the client for one request.

use serde_json::{Value, json};

use crate::{
    mcp::{Agent, lines, modern},
    support::Stage,
};

const RULES: &str = r#"
[policy]
preset = "workspace"

[tools.write]
session = "main"

[tools.edit]
scopes = ["files.edit"]

[tools.patch]
subagents = "disabled"

[sessions.dm]
deny = ["read(private/**)"]

[channels.telegram]
deny = ["grep"]
"#;

fn stage() -> Stage {
    let stage = Stage::with_config(RULES);
    stage.write("private/a", "secret");
    stage.write("a", "text");
    stage
}

/// Parameters as the protocol wants them, and the caller that they narrow to.
fn from(caller: Option<Value>, parameters: Value) -> Value {
    let mut parameters = modern(parameters);
    if let Some(caller) = caller {
        parameters["_meta"]["dev.haft/caller"] = caller;
    }
    parameters
}

/// The tools that a request is shown.
fn shown(agent: &mut Agent, caller: Option<Value>) -> Vec<String> {
    let listed = agent.ask("tools/list", &from(caller, json!({})));
    let tools = listed["result"]["tools"].as_array();
    let tools = tools.unwrap_or_else(|| panic!("{listed}"));
    let name = |tool: &Value| tool["name"].as_str().unwrap().to_owned();
    tools.iter().map(name).collect()
}

fn shows(tools: &[String], tool: &str) -> bool {
    tools.iter().any(|name| name == tool)
}

fn call(agent: &mut Agent, tool: &str, input: Value, caller: Option<Value>) -> Value {
    let parameters = json!({"name": tool, "arguments": input});
    agent.ask("tools/call", &from(caller, parameters))
}

fn is_denied(answer: &Value) -> bool {
    answer["result"]["_meta"]["dev.haft/terminal"] == "denied"
}

/// What a direct message must neither see nor run.
fn check_dm(stage: &Stage, agent: &mut Agent) {
    let tools = shown(agent, None);
    assert!(
        !shows(&tools, "write") && shows(&tools, "read"),
        "{tools:?}"
    );
    let write = json!({"path": "b", "content": "x"});
    let denied = call(agent, "write", write, None);
    assert!(is_denied(&denied), "{denied}");
    assert!(!stage.exists("b"));
    let private = call(agent, "read", json!({"path": "private/a"}), None);
    assert!(is_denied(&private), "{private}");
    assert!(!private.to_string().contains("secret"));
    let read = call(agent, "read", json!({"path": "a"}), None);
    assert_eq!(read["result"]["isError"], json!(false), "{read}");
}

#[test]
fn a_direct_message_neither_sees_nor_runs_what_is_for_main() {
    let stage = stage();
    check_dm(&stage, &mut Agent::start(&stage, &["--session-kind", "dm"]));
    let mut command = stage.command(&["mcp"]);
    command.env("HAFT_SESSION_KIND", "dm");
    check_dm(&stage, &mut Agent::of(command));
    let mut main = Agent::start(&stage, &[]);
    let tools = shown(&mut main, None);
    assert!(shows(&tools, "write"), "{tools:?}");
    let log = lines(&stage, &["log", "--jsonl"]);
    let shown = stage.haft(&["show", log[0]["call"].as_str().unwrap(), "--json"]);
    let shown: Value = serde_json::from_str(&shown.ok()).unwrap();
    assert_eq!(shown["session_kind"], "dm", "{shown}");
}

#[test]
fn scopes_channels_and_parents_come_by_option_or_variable() {
    let stage = stage();
    let mut plain = Agent::start(&stage, &[]);
    let tools = shown(&mut plain, None);
    assert!(
        !shows(&tools, "edit") && shows(&tools, "patch"),
        "{tools:?}"
    );
    let options = [
        "--scope",
        "files.edit",
        "--channel",
        "telegram",
        "--parent-agent",
        "chief",
    ];
    let mut command = stage.command(&["mcp"]);
    command
        .env("HAFT_SCOPES", "mail, files.edit")
        .env("HAFT_CHANNEL", "telegram")
        .env("HAFT_PARENT_AGENTS", "chief");
    for mut agent in [Agent::start(&stage, &options), Agent::of(command)] {
        let tools = shown(&mut agent, None);
        assert!(shows(&tools, "edit"), "{tools:?}");
        assert!(
            !shows(&tools, "patch") && !shows(&tools, "grep"),
            "{tools:?}"
        );
        // It is a sub-agent's session, so not the operator's own.
        assert!(!shows(&tools, "write"), "{tools:?}");
    }
    let mut command = stage.command(&["mcp"]);
    command.env("HAFT_SESSION_KIND", "owner");
    let ran = command.output().unwrap();
    let error = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(2), "{error}");
    assert!(error.contains("HAFT_SESSION_KIND is `owner`"), "{error}");
}

#[test]
fn a_client_narrows_itself_for_a_request_and_never_widens() {
    let stage = stage();
    let mut agent = Agent::start(&stage, &["--scope", "files.edit"]);
    let write = || json!({"path": "b", "content": "x"});
    let dm = || Some(json!({"sessionKind": "dm"}));
    let denied = call(&mut agent, "write", write(), dm());
    assert!(is_denied(&denied), "{denied}");
    let private = call(&mut agent, "read", json!({"path": "private/a"}), dm());
    assert!(is_denied(&private), "{private}");
    let all = shown(&mut agent, None);
    let child = json!({"agent": "child", "scopes": []});
    let fewer = shown(&mut agent, Some(child));
    for tool in ["write", "edit", "patch"] {
        assert!(shows(&all, tool) && !shows(&fewer, tool), "{tool}");
    }
    assert!(shows(&fewer, "read"), "{fewer:?}");
    // The next request is the connection's own again.
    let written = call(&mut agent, "write", write(), None);
    assert_eq!(written["result"]["isError"], json!(false), "{written}");
    drop(agent);

    let mut dm = Agent::start(&stage, &["--session-kind", "dm", "--scope", "mail"]);
    for wider in [
        json!({"sessionKind": "main"}),
        json!({"scopes": ["files.edit"]}),
        json!({"user": "root"}),
    ] {
        let refused = call(&mut dm, "read", json!({"path": "a"}), Some(wider.clone()));
        let message = refused["error"]["message"].as_str();
        let message = message.unwrap_or_else(|| panic!("{wider}: {refused}"));
        assert!(message.contains("can only narrow who asks"), "{message}");
    }
}

#[test]
fn why_a_tool_is_missing_is_said() {
    let stage = stage();
    let why = |args: &[&str]| {
        let args: Vec<&str> = ["tools", "--why"].iter().chain(args).copied().collect();
        stage.haft(&args).stdout
    };
    let scope = why(&["edit"]);
    assert!(
        scope.contains("does not carry scope `files.edit`"),
        "{scope}"
    );
    let route = why(&["patch", "--parent-agent", "chief"]);
    assert!(
        route.contains("because another agent started it"),
        "{route}"
    );
    let kind = why(&["write", "--session-kind", "dm"]);
    assert!(kind.contains("tools.write.session"), "{kind}");
}
