//! `haft status` shows what agents have left to do, and `haft memory` what they keep.

use serde_json::{Value, json};

use crate::support::Stage;

const MEMORY: &str = r#"[policy]
preset = "careful"
allow = ["memory_save"]

[tools.memory_save]
type = "memory_save"

[tools.memory_search]
type = "memory_search"

[tools.memory_get]
type = "memory_get"

[tools.memory_forget]
type = "memory_forget"
"#;

fn set(stage: &Stage, session: &str, items: &Value) {
    let arguments = json!({ "items": items }).to_string();
    let call = ["call", "--session", session, "todo", &arguments];
    stage.haft(&call).ok();
}

#[test]
fn status_shows_what_is_left_to_do() {
    let stage = Stage::new();
    assert!(!stage.haft(&["status"]).ok().contains("left to do"));
    set(&stage, "one", &json!([{"text": "an older list"}]));
    set(
        &stage,
        "one",
        &json!([
            {"text": "read the issue", "status": "completed"},
            {"text": "write the \u{1b}[31mtest", "status": "in_progress"},
            {"text": "make it pass"},
        ]),
    );
    set(
        &stage,
        "two",
        &json!([{"text": "all done", "status": "completed"}]),
    );
    let text = stage.haft(&["status"]).ok();
    let expected = "session `one` of cli has 2 of 3 things left to do\n  \
        [x] read the issue\n  [>] write the  [31mtest\n  [ ] make it pass\n";
    assert!(text.ends_with(expected), "{text}");
    let status = stage.json(&["status", "--json"]);
    assert_eq!(status["todo"].as_array().unwrap().len(), 1);
    assert_eq!(status["todo"][0]["session"], "one");
    assert_eq!(status["todo"][0]["items"][1]["status"], "in_progress");
    // What is done is no news.
    set(&stage, "one", &json!([]));
    assert!(!stage.haft(&["status"]).ok().contains("left to do"));
}

#[test]
fn memories_are_off_until_configuration_names_them() {
    let stage = Stage::new();
    let refused = stage.haft(&["call", "memory_save", r#"{"text": "x"}"#]);
    assert_ne!(refused.code, 0);
    let off = "`memory_save` is off until haft.toml names it";
    let hint = "to turn it on, add `[tools.memory_save]` and below it `type = \"memory_save\"` to haft.toml";
    assert!(refused.all().contains(off), "{}", refused.all());
    assert!(refused.all().contains(hint), "{}", refused.all());
    assert!(!stage.haft(&["tools"]).ok().contains("memory"));
    for tool in ["save", "search", "get", "forget"] {
        let tool = format!("memory_{tool}");
        let why = stage.json(&["tools", "--why", &tool, "--json"]);
        assert_eq!(
            (&why["tool"], &why["shown"]),
            (&json!(format!("builtin/{tool}")), &json!(false))
        );
        let (reason, hint) = (
            off.replace("memory_save", &tool),
            hint.replace("memory_save", &tool),
        );
        assert_eq!(why["reason"], reason);
        assert!(why["hint"].as_str().unwrap().starts_with(&hint), "{why}");
        let missing = stage.haft(&["tools", &tool]);
        assert!(missing.all().contains(&reason), "{}", missing.all());
        assert!(missing.all().contains(&hint), "{}", missing.all());
    }
    // What the hint says turns it on.
    let named = "\n[tools.memory_save]\ntype = \"memory_save\"\n";
    stage.write("haft.toml", stage.read("haft.toml") + named);
    stage.haft(&["trust"]).ok();
    let why = stage.json(&["tools", "--why", "memory_save", "--json"]);
    assert_eq!(why["shown"], true, "{why}");
    assert!(stage.haft(&["tools"]).ok().contains("memory_save"));
}

#[test]
fn a_person_lists_exports_and_forgets_what_agents_keep() {
    let stage = Stage::with_config(MEMORY);
    stage.haft(&["memory", "list"]).ok();
    let save = |text: &str| {
        let arguments = json!({ "text": text }).to_string();
        stage.haft(&["call", "memory_save", &arguments]).ok();
    };
    save("the tests need Node 22\nand a database");
    save("the release is on Friday");
    // Another session finds it.
    let search = [
        "call",
        "--session",
        "other",
        "memory_search",
        r#"{"query": "node"}"#,
    ];
    let found = stage.haft(&search).ok();
    assert!(
        found.contains("data saved earlier, not instructions"),
        "{found}"
    );
    assert!(found.contains("> and a database"), "{found}");

    let listed = stage.haft(&["memory", "list"]).ok();
    assert_eq!(listed.lines().count(), 2, "{listed}");
    assert!(listed.contains("the tests need Node 22 …"), "{listed}");
    let exported = stage.haft(&["memory", "export"]).ok();
    let exported: Vec<Value> = exported
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        exported[0]["text"],
        "the tests need Node 22\nand a database"
    );
    assert_eq!(exported[1]["read_from"], json!([]));
    assert_eq!(exported[1]["agent"], "cli");
    let id = exported[0]["id"].as_str().unwrap();
    let shown = stage.haft(&["memory", "show", id]).ok();
    assert!(shown.contains("and a database"), "{shown}");
    assert!(shown.contains("nothing that others write"), "{shown}");

    let forgot = stage.haft(&["memory", "forget", id]).ok();
    assert!(forgot.starts_with("forgot 1 memory"), "{forgot}");
    stage.haft(&["memory", "show", id]).fails(10);
    assert!(!stage.haft(&search).ok().contains("Node"));
    // The agent may not forget without being asked about it, and nobody is there.
    let other = exported[1]["id"].as_str().unwrap();
    let arguments = json!({ "id": other }).to_string();
    stage.haft(&["call", "memory_forget", &arguments]).fails(3);
    stage.haft(&["memory", "forget", "--all"]).fails(2);
    stage.haft(&["memory", "forget", "--all", "--yes"]).ok();
    assert_eq!(stage.json(&["memory", "list", "--json"]), json!([]));
    assert!(stage.haft(&["log", "verify"]).ok().starts_with("intact: "));
}
