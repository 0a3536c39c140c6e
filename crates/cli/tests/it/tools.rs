//! `haft tools`: the list, its renderings, and why a tool is not in it.

use serde_json::{Value, json};

use crate::support::Stage;

fn names(list: &Value, pointer: &str) -> Vec<String> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|tool| tool.pointer(pointer).unwrap().as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn r3_every_provider_gets_its_own_form() {
    let stage = Stage::new();
    let expected = [
        "bash",
        "copy",
        "edit",
        "find",
        "grep",
        "list",
        "patch",
        "process",
        "read",
        "read_output",
        "todo",
        "write",
    ];
    let mcp = stage.json(&["tools", "--format", "mcp"]);
    assert_eq!(names(&mcp, "/name"), expected);
    assert!(mcp[0].get("inputSchema").is_some());
    let openai = stage.json(&["tools", "--format", "openai"]);
    assert_eq!(names(&openai, "/function/name"), expected);
    assert_eq!(openai[0]["type"], "function");
    let anthropic = stage.json(&["tools", "--format", "anthropic"]);
    assert_eq!(names(&anthropic, "/name"), expected);
    assert!(anthropic[0].get("input_schema").is_some());
    let text = stage.haft(&["tools"]).ok();
    assert_eq!(text.lines().count(), expected.len());
}

#[test]
fn mistake_7_filters_filter() {
    let stage = Stage::new();
    let searched = stage.json(&["tools", "--json", "--group", "search"]);
    assert_eq!(names(&searched, "/name"), ["find", "grep"]);
    assert_eq!(
        stage.json(&["tools", "--json", "--group", "none"]),
        json!([])
    );
    assert!(
        !names(
            &stage.json(&["tools", "--json", "--search", "regular expression"]),
            "/name"
        )
        .is_empty()
    );
}

#[test]
fn r26_a_denied_tool_is_not_listed_and_can_be_explained() {
    let stage = Stage::with_config("[policy]\ndeny = [\"bash\"]\n");
    assert!(!names(&stage.json(&["tools", "--json"]), "/name").contains(&"bash".to_owned()));
    let why = stage.haft(&["tools", "--why", "bash"]).ok();
    assert!(
        why.contains("hidden") && why.contains("haft.toml:2"),
        "{why}"
    );
    assert_eq!(
        stage.json(&["tools", "--why", "read", "--json"])["shown"],
        true
    );
    let why = stage.haft(&["tools", "--why", "Bash"]).ok();
    assert!(why.contains("`Bash` is another name of `bash`"), "{why}");
    let error = stage.haft(&["tools", "--why", "grpe"]).fails(10);
    assert!(error.contains("did you mean `grep`?"), "{error}");
}
