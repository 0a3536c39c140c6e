//! Large catalogs, through the program: an agent is listed what it can read, finds the rest, and
//! calls it under the same rules and on the same record as ever.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::{Value, json};

use crate::{
    mcp::{Agent, Server, lines, modern},
    support::{Stage, eventually},
};

const SERVER: &str = include_str!("../peers/many.py");

/// Enough to be over any budget that is not configured.
const MANY: usize = 250;

const CATALOG_TOOLS: [&str; 4] = [
    "call_tool_destructive",
    "call_tool_read",
    "call_tool_write",
    "find_tools",
];

/// A workspace that mounts a server of so many tools and a few more, whose hints count, accepted.
fn mounting(tools: usize, config: &str) -> Stage {
    let stage = unaccepted(tools, config);
    accept(&stage);
    stage
}

fn unaccepted(tools: usize, config: &str) -> Stage {
    let stage = Stage::bare();
    let folder = stage.home.join("servers");
    fs::create_dir(&folder).unwrap();
    let script = folder.join("many.py");
    fs::write(&script, SERVER).unwrap();
    let entry = format!(
        "{config}\n[[mcp.servers]]\nid = \"many\"\ntrust_annotations = true\n\
         command = [\"python3\", \"{}\", \"{tools}\"]\ncwd = \"{}\"\n",
        script.display(),
        folder.display(),
    );
    stage.write("haft.toml", entry);
    stage.haft(&["trust"]).ok();
    stage.haft(&["mcp", "review", "many"]).ok();
    stage
}

fn accept(stage: &Stage) {
    stage.haft(&["mcp", "accept", "many", "--all"]).ok();
}

fn names(listed: &Value) -> Vec<String> {
    let tools = listed["result"]["tools"].as_array();
    let tools = tools.unwrap_or_else(|| panic!("{listed}"));
    let name = |tool: &Value| tool["name"].as_str().unwrap().to_owned();
    tools.iter().map(name).collect()
}

fn search_lists(names: &[String]) -> bool {
    let catalog = CATALOG_TOOLS.iter();
    let has_all = catalog.filter(|tool| names.iter().any(|name| name == *tool));
    has_all.count() == CATALOG_TOOLS.len() && !names.iter().any(|name| name.starts_with("mcp__"))
}

fn call(tool: &str, arguments: &Value) -> Value {
    json!({"name": tool, "arguments": arguments})
}

fn wrapped(class: &str, tool: &str, arguments: &Value) -> Value {
    let inner = json!({"tool": tool, "arguments": arguments});
    call(&format!("call_tool_{class}"), &inner)
}

/// The tools on record, the oldest first.
fn recorded(stage: &Stage) -> Vec<String> {
    let log = lines(stage, &["log", "--jsonl"]);
    let tool = |call: &Value| {
        call["tool"]
            .as_str()
            .unwrap_or_else(|| panic!("{call}"))
            .to_owned()
    };
    log.iter().map(tool).collect()
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn a_list_that_outgrows_the_budget_becomes_a_search_and_clients_are_told() {
    let stage = unaccepted(MANY, "");
    let mut agent = Agent::start(&stage, &[]);
    agent.initialize();
    let before = names(&agent.ask("tools/list", &json!({})));
    assert_eq!(before.len(), 12, "only what Haft has itself: {before:?}");
    accept(&stage);
    agent.until(|message| message["method"] == "notifications/tools/list_changed");
    let after = names(&agent.ask("tools/list", &json!({})));
    assert!(search_lists(&after), "{after:?}");
    assert_eq!(after.len(), 12 + CATALOG_TOOLS.len(), "{after:?}");
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn few_tools_are_listed_whole_and_the_mode_can_be_chosen() {
    let stage = mounting(3, "");
    let listed = |args: &[&str]| {
        let mut agent = Agent::start(&stage, args);
        names(&agent.ask("tools/list", &modern(json!({}))))
    };
    let whole = listed(&[]);
    assert!(
        whole.contains(&"mcp__many__forecast".to_owned()),
        "{whole:?}"
    );
    assert!(!whole.contains(&"find_tools".to_owned()), "{whole:?}");
    assert_eq!(listed(&["--catalog", "full"]), whole);
    let search = listed(&["--catalog", "search"]);
    assert!(search_lists(&search), "{search:?}");
    let stage = mounting(3, "[mcp]\ncatalog_budget = 100\n");
    let mut agent = Agent::start(&stage, &[]);
    let over = names(&agent.ask("tools/list", &modern(json!({}))));
    assert!(search_lists(&over), "{over:?}");
    let wrong = stage.haft(&["mcp", "--catalog", "some"]).fails(2);
    assert!(wrong.contains("search"), "{wrong}");
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn a_tool_is_found_by_a_word_of_its_parameter_and_called_through_pipes_in_both_eras() {
    let stage = mounting(MANY, "[policy]\nallow = [\"mcp__many__forecast\"]\n");
    let find = call("find_tools", &json!({"query": "latitude", "limit": 1}));
    let forecast = wrapped("read", "mcp__many__forecast", &json!({"latitude": "52"}));
    let mut legacy = Agent::start(&stage, &["--agent", "legacy"]);
    legacy.initialize();
    let mut newer = Agent::start(&stage, &["--agent", "newer"]);
    let asked = [
        (
            legacy.ask("tools/call", &find),
            legacy.ask("tools/call", &forecast),
        ),
        (
            newer.ask("tools/call", &modern(find)),
            newer.ask("tools/call", &modern(forecast)),
        ),
    ];
    for (found, said) in asked {
        let found = &found["result"]["structuredContent"]["tools"];
        assert_eq!(found[0]["name"], "mcp__many__forecast", "{found}");
        assert_eq!(found[0]["call_with"], "call_tool_read", "{found}");
        assert!(found[0]["input_schema"]["properties"]["latitude"].is_object());
        let text = &said["result"]["content"][0]["text"];
        assert_eq!(text, "forecast {\"latitude\": \"52\"}", "{said}");
    }
    // The record has the tool that ran, not the one that stood for it.
    let each = ["builtin/find_tools", "mcp__many/mcp__many__forecast"];
    let mut log = recorded(&stage);
    log.sort();
    assert_eq!(log, [each[0], each[0], each[1], each[1]]);
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn the_same_over_http() {
    let stage = mounting(MANY, "[policy]\nallow = [\"mcp__many__forecast\"]\n");
    let server = Server::start(&stage, &[]);
    let own = format!(
        "Host: {}\r\nAuthorization: Bearer {}\r\n",
        server.address, server.token
    );
    let send = |headers: &str, method: &str, parameters: &Value| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters});
        server.post(&format!("{own}{headers}"), &body)
    };
    let find = call("find_tools", &json!({"query": "latitude"}));
    let forecast = wrapped("read", "mcp__many__forecast", &json!({"latitude": "52"}));
    let in_era = |method: &str, name: &str| {
        format!(
            "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{}",
            if name.is_empty() {
                String::new()
            } else {
                format!("Mcp-Name: {name}\r\n")
            }
        )
    };
    let newer = [
        send(&in_era("tools/list", ""), "tools/list", &modern(json!({}))),
        send(
            &in_era("tools/call", "find_tools"),
            "tools/call",
            &modern(find.clone()),
        ),
        send(
            &in_era("tools/call", "call_tool_read"),
            "tools/call",
            &modern(forecast.clone()),
        ),
    ];
    let hello = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    });
    let began = send("", "initialize", &hello);
    let session = began.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("mcp-session-id").then_some(value)
    });
    let session = session.unwrap_or_else(|| panic!("{began}"));
    let session = format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-11-25\r\n");
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    server.post(&format!("{own}{session}"), &initialized);
    let legacy = [
        send(&session, "tools/list", &json!({})),
        send(&session, "tools/call", &find),
        send(&session, "tools/call", &forecast),
    ];
    for [listed, found, said] in [newer, legacy] {
        assert!(listed.contains("find_tools"), "{listed}");
        assert!(!listed.contains("\"mcp__many__"), "{listed}");
        assert!(found.contains("mcp__many__forecast"), "{found}");
        assert!(
            said.contains(r#"forecast {\"latitude\": \"52\"}"#),
            "{said}"
        );
    }
    server.stop();
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn a_tool_is_called_with_the_one_of_its_class_and_stays_denied_where_it_is_denied() {
    let rules = "[policy]\nallow = [\"mcp__many__*\"]\ndeny = [\"mcp__many__secret\"]\n";
    let stage = mounting(MANY, rules);
    let mut agent = Agent::start(&stage, &[]);
    agent.initialize();
    let text = json!({"text": "x"});
    let mut told = |class: &str, tool: &str| {
        let answer = agent.ask("tools/call", &wrapped(class, tool, &text));
        let said = answer["result"]["content"][0]["text"].as_str();
        let said = said.unwrap_or_else(|| panic!("{answer}")).to_owned();
        (answer["result"]["isError"] == true, said)
    };
    for (class, tool, right) in [
        ("read", "mcp__many__put", "call_tool_write"),
        ("read", "mcp__many__drop", "call_tool_destructive"),
        ("write", "mcp__many__drop", "call_tool_destructive"),
    ] {
        let (failed, said) = told(class, tool);
        assert!(failed, "{said}");
        assert!(said.contains(&format!("call it with `{right}`")), "{said}");
    }
    for class in ["read", "write", "destructive"] {
        let (failed, said) = told(class, "mcp__many__secret");
        assert!(failed, "{said}");
        assert!(
            said.contains("there is no tool `mcp__many__secret`"),
            "{said}"
        );
    }
    assert_eq!(
        told("write", "mcp__many__put"),
        (false, "put {\"text\": \"x\"}".to_owned())
    );
    let find = call(
        "find_tools",
        &json!({"query": "mcp__many__secret", "limit": 50}),
    );
    let found = agent.ask("tools/call", &find);
    assert!(!found.to_string().contains("__secret"), "{found}");
    let log = recorded(&stage);
    let ran: Vec<&String> = log
        .iter()
        .filter(|tool| tool.starts_with("mcp__"))
        .collect();
    assert_eq!(ran, ["mcp__many/mcp__many__put"], "{log:?}");
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn a_person_is_asked_about_the_tool_that_runs() {
    let rules = "[policy]\nask = [\"mcp__many__put\"]\n[mcp]\ncatalog = \"search\"\n";
    let stage = mounting(3, rules);
    let mut agent = Agent::start(&stage, &[]);
    agent.initialize();
    let put = wrapped("write", "mcp__many__put", &json!({"text": "kept"}));
    let id = agent.start_request("tools/call", &put);
    let question = eventually("it asks", || lines(&stage, &["approvals", "--jsonl"]).pop());
    assert!(
        question.to_string().contains("mcp__many__put"),
        "{question}"
    );
    assert!(!question.to_string().contains("call_tool"), "{question}");
    let asked = question["question"].as_str().unwrap();
    let digest = question["digest"].as_str().unwrap();
    stage
        .haft(&["approve", asked, "--yes", "--digest", digest])
        .ok();
    let said = agent.answer(id);
    assert!(said.to_string().contains("kept"), "{said}");
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn cost_says_what_each_tool_and_server_takes_and_what_each_mode_lists() {
    let stage = unaccepted(MANY, "");
    let silent = "[[mcp.servers]]\nid = \"silent\"\ncommand = [\"python3\", \"x.py\"]\n";
    stage.write("haft.toml", stage.read("haft.toml") + silent);
    stage.haft(&["trust"]).ok();
    let said = stage.haft(&["mcp", "cost"]).ok();
    assert!(said.contains("254 more tools"), "{said}");
    assert!(said.contains("auto lists every tool"), "{said}");
    accept(&stage);
    let said = stage.haft(&["mcp", "cost"]).ok();
    for part in [
        "never started, so nothing is known of it: `haft mcp review silent`",
        "mcp__many__forecast",
        "exceed the budget of 20000 tokens",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let cost = stage.json(&["--json", "mcp", "cost"]);
    let servers = cost["servers"].as_array().unwrap();
    let ids: Vec<&str> = servers
        .iter()
        .map(|it| it["server"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["many", "builtin", "silent"], "the most costly first");
    let sum = |tools: &Value| -> u64 {
        let tools = tools.as_array().unwrap().iter();
        tools.map(|tool| tool["tokens"].as_u64().unwrap()).sum()
    };
    for server in servers {
        assert_eq!(server["tokens"], json!(sum(&server["tools"])), "{server}");
    }
    assert_eq!(cost["tokens"], json!(sum(&cost["servers"])));
    assert_eq!(
        (&cost["mode"], &cost["listed"]),
        (&json!("auto"), &json!("search"))
    );
    let modes = cost["modes"].as_array().unwrap();
    let mode = |word: &str| modes.iter().find(|it| it["mode"] == word).unwrap();
    assert_eq!(mode("full")["tokens"], cost["tokens"]);
    assert_eq!(mode("full")["tools"], json!(MANY + 4 + 12));
    assert_eq!(mode("search")["tools"], json!(12 + CATALOG_TOOLS.len()));
    assert_eq!(mode("auto")["tokens"], mode("search")["tokens"]);

    // The figures are the same where nothing searches, and the hint is not what is so already.
    stage.write(
        "haft.toml",
        format!("[mcp]\ncatalog = \"full\"\n{}", stage.read("haft.toml")),
    );
    stage.haft(&["trust"]).ok();
    let full = stage.json(&["--json", "mcp", "cost"]);
    assert_eq!(full["modes"], cost["modes"]);
    assert_eq!(
        (&full["mode"], &full["listed"]),
        (&json!("full"), &json!("full"))
    );
}

#[test]
fn a_tool_of_ones_own_may_be_called_as_those_that_search_where_nothing_searches() {
    let stage = Stage::bare();
    let config = "[policy]\n[scripts]\nfolders = [\"tools\"]\n[mcp]\ncatalog = \"full\"\n";
    stage.write("haft.toml", config);
    let manifest = "name = \"find_tools\"\ndescription = \"Finds spanners.\"\nprogram = \"find_tools\"\n\
                    effects = \"read_only\"\n\n[input]\ntype = \"object\"\n";
    stage.write("tools/find_tools.toml", manifest);
    stage.write("tools/find_tools", "#!/bin/sh\necho found\n");
    for (path, mode) in [
        ("tools", 0o755),
        ("tools/find_tools.toml", 0o644),
        ("tools/find_tools", 0o755),
    ] {
        fs::set_permissions(stage.work.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    stage.haft(&["trust"]).ok();
    let mut agent = Agent::start(&stage, &[]);
    agent.initialize();
    let listed = names(&agent.ask("tools/list", &json!({})));
    assert!(listed.iter().any(|name| name == "find_tools"), "{listed:?}");
    let cost = stage.json(&["--json", "mcp", "cost"]);
    let servers = cost["servers"].as_array().unwrap();
    let scripts = servers.iter().find(|it| it["server"] == "script").unwrap();
    assert_eq!(scripts["tools"][0]["tool"], json!("find_tools"), "{cost}");
}
