//! `haft call` and `haft batch`: arguments in, outcomes and exit codes out.

use serde_json::{Value, json};

use crate::support::Stage;

#[test]
#[ignore = "ci: needs bubblewrap"]
fn json_output_has_one_shape() {
    let stage = Stage::new();
    stage.write("a.txt", "one\ntwo\n");
    let ran = stage.haft(&["call", "read", "path=a.txt", "--json"]);
    insta::assert_snapshot!("call_json", stage.normal(&ran.ok()));
    let ran = stage.haft(&["call", "bash", "--json", r#"{"command": "rm a.txt"}"#]);
    assert_eq!(ran.code, 3);
    insta::assert_snapshot!("call_json_denied", stage.normal(&ran.stdout));
}

/// A program reads every mistake of a call from its outcome, each with its place.
#[test]
fn json_output_has_every_mistake_in_the_arguments() {
    let stage = Stage::new();
    let ran = stage.haft(&["call", "read", "--json", r#"{"limit": "x", "pth": "a"}"#]);
    assert_ne!(ran.code, 0);
    let outcome: Value = serde_json::from_str(&ran.stdout).unwrap();
    let mistakes = outcome["structured"]["mistakes"].as_array();
    let mistakes = mistakes.unwrap_or_else(|| panic!("{outcome}"));
    for place in ["/limit", "/pth", "/path"] {
        let told = mistakes.iter().find(|mistake| mistake["at"] == place);
        assert!(told.is_some_and(|it| it["hint"].is_string()), "{outcome}");
    }
    assert_eq!(mistakes.len(), 3, "{outcome}");
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn the_exit_code_tells_how_a_call_ended() {
    let stage = Stage::with_config(
        "[policy]\nallow = [\"bash(exit 3)\", \"bash(sleep 30)\"]\ndeny = [\"read(**/.env)\"]\n",
    );
    stage.write(".env", "SECRET=1");
    stage.haft(&["call", "list", "path=."]).ok();
    let failed = stage.haft(&["call", "bash", "exit 3"]).fails(1);
    assert!(failed.contains("exit code 3"), "{failed}");
    let denied = stage.haft(&["call", "read", ".env"]).fails(3);
    assert!(denied.contains("haft.toml:3"), "{denied}");
    stage
        .haft(&["call", "bash", "sleep 30", "--timeout", "300ms"])
        .fails(4);
    let unknown = stage.haft(&["call", "raed", "x"]).fails(10);
    assert!(unknown.contains("`read`"), "{unknown}");
    let usage = stage.haft(&["call"]).fails(2);
    assert!(usage.contains("Usage:"), "{usage}");
    let twice = stage.haft(&["call", "read", "path=a", "path=b"]).fails(2);
    assert!(
        twice.ends_with("hint: give each parameter once\n"),
        "{twice}"
    );
}

#[test]
fn r9_arguments_come_as_pairs_as_json_as_words_and_from_standard_input() {
    let stage = Stage::new();
    stage.write("a.txt", "found\n");
    for args in [
        &["call", "read", "a.txt"][..],
        &["call", "read", "path=a.txt"],
        &["call", "Read", "file_path=a.txt"],
        &["call", "read", r#"{"path": "a.txt"}"#],
        &["call", "read", r#"{"arguments": {"path": "a.txt"}}"#],
        &["call", "read", "a.txt", "limit=1"],
    ] {
        let ran = stage.haft(args);
        assert!(
            ran.code == 0 && ran.stdout.contains("found"),
            "{args:?}: {}",
            ran.all()
        );
    }
    let ran = stage.haft_with(&["call", "read", "-"], r#"{"path": "a.txt"}"#);
    assert!(ran.ok().contains("found"));
    let ran = stage.haft(&["call", "read", "pth=a.txt"]);
    assert!(ran.fails(1).contains("path"));
}

#[test]
fn a_pipe_gets_the_content_and_nothing_else() {
    let stage = Stage::new();
    stage.write("a.txt", "one\n");
    let ran = stage.haft(&["call", "read", "a.txt"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert!(!ran.stdout.contains("explain"));
}

#[test]
fn a_batch_answers_in_the_order_of_its_calls() {
    let stage = Stage::new();
    let mut lines = String::new();
    for number in 0..40 {
        stage.write(&format!("{number}.txt"), format!("content {number}\n"));
        lines.push_str(
            &json!({"tool": "read", "arguments": {"path": format!("{number}.txt")}}).to_string(),
        );
        lines.push('\n');
    }
    lines.push_str("{\"tool\": \"read\", \"arguments\": \"{\\\"path\\\": \\\"0.txt\\\"}\"}\n\n");
    let ran = stage.haft_with(&["batch"], &lines);
    assert_eq!(ran.code, 0, "{}", ran.all());
    let answers: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers.len(), 41);
    for (number, answer) in answers.iter().take(40).enumerate() {
        let text = answer["content"][0]["text"].as_str().unwrap();
        assert!(
            text.contains(&format!("content {number}")),
            "{number}: {answer}"
        );
    }

    stage.write("calls.jsonl", "{\"tool\":\"read\",\"arguments\":{\"path\":\"0.txt\"}}\n{\"tool\":\"write\",\"arguments\":{\"path\":\"x\",\"content\":\"\"}}\n{\"tool\":\"read\",\"arguments\":{\"path\":\"none\"}}\n");
    let ran = stage.haft(&["batch", "calls.jsonl"]);
    assert_eq!(
        ran.code,
        3,
        "the first call that did not succeed: {}",
        ran.all()
    );
    let outcomes: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["outcome"].clone())
        .collect();
    assert_eq!(outcomes, ["succeeded", "denied", "failed"]);
}

#[test]
fn a_bad_line_stops_a_batch_before_anything_runs() {
    let stage = Stage::new();
    let ran = stage.haft_with(&["batch"], "{\"tool\":\"list\"}\n{\"tol\":1}\n");
    let error = ran.fails(2);
    assert!(
        error.contains("line 2") && error.contains("nothing was run"),
        "{error}"
    );
    assert_eq!(stage.haft(&["log", "--jsonl"]).ok(), "");
}

#[test]
fn r25_a_scope_is_part_of_who_calls() {
    let stage = Stage::new();
    let ran = stage.haft(&[
        "call",
        "list",
        "path=.",
        "--scope",
        "calendar.write",
        "--session",
        "s1",
        "--agent",
        "bot",
    ]);
    ran.ok();
    let shown = stage.json(&["show", "last", "--json"]);
    assert_eq!(
        (&shown["session"], &shown["agent"]),
        (&json!("s1"), &json!("bot"))
    );
    let opened = &shown["events"][0]["body"];
    assert_eq!(
        opened["principal"]["scopes"],
        json!(["calendar.write"]),
        "{opened}"
    );
}
