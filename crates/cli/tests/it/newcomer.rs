//! Where somebody new goes wrong, and what they are told: each hint is the one that helps.

use crate::support::{Ran, Stage};

/// Runs the program in a directory of the workspace.
fn inside(stage: &Stage, directory: &str, args: &[&str]) -> Ran {
    let mut command = stage.command(args);
    let ended = command.current_dir(stage.work.join(directory)).output();
    let ended = ended.unwrap();
    Ran {
        code: ended.status.code().unwrap(),
        stdout: String::from_utf8(ended.stdout).unwrap(),
        stderr: String::from_utf8(ended.stderr).unwrap(),
    }
}

#[test]
fn a_path_that_is_not_found_says_where_paths_start() {
    let stage = Stage::new();
    stage.write("sub/deep/f.txt", "here\n");
    let missed = inside(&stage, "sub/deep", &["call", "read", "f.txt"]);
    let said = stage.normal(&missed.fails(1));
    let hint = "paths are relative to the workspace `[WORK]`; did you mean `sub/deep/f.txt`?";
    assert!(said.contains(hint), "{said}");
    let found = inside(&stage, "sub/deep", &["call", "read", "sub/deep/f.txt"]);
    assert!(found.ok().contains("here"));
    let at_the_root = stage.haft(&["call", "read", "f.txt"]).fails(1);
    assert!(!at_the_root.contains("relative to"), "{at_the_root}");
}

#[test]
fn no_configuration_is_said_once() {
    let stage = Stage::bare();
    let note = "note: no haft.toml applies in";
    let ran = stage.haft(&["call", "list", "path=."]);
    assert_eq!(ran.stderr.matches(note).count(), 1, "{}", ran.all());
    stage.haft(&["init"]).ok();
    let ran = stage.haft(&["call", "list", "path=."]);
    assert!(!ran.stderr.contains(note), "{}", ran.all());
    stage.write("sub/a.txt", "");
    let below = stage.haft(&["-C", "sub", "call", "list", "path=."]);
    assert_eq!(below.stderr.matches(note).count(), 1, "{}", below.all());
}

#[test]
fn init_below_a_workspace_says_so() {
    let stage = Stage::new();
    stage.write("sub/a.txt", "");
    let ran = inside(&stage, "sub", &["init"]);
    let said = stage.normal(&ran.stderr);
    let note = "note: `[WORK]` above it is a workspace too; its rules do not hold here\n";
    assert_eq!(said, note, "{}", ran.all());
}

#[test]
fn trust_refuses_what_would_stop_every_call() {
    let stage = Stage::bare();
    stage.write("haft.toml", "[policy]\nallow = [\"wite(a)\"]\n");
    let said = stage.haft(&["trust"]).fails(7);
    assert!(
        said.contains("haft.toml:2") && said.contains("`write`"),
        "{said}"
    );
    assert_eq!(stage.haft(&["trust", "--list"]).ok(), "");
}

#[test]
fn a_tool_that_is_not_there_has_its_own_exit_code() {
    let stage = Stage::new();
    for args in [&["call", "nope"][..], &["policy", "check", "nope"]] {
        let said = stage.haft(args).fails(10);
        assert!(
            said.contains("hint: `haft tools` lists the tools\n"),
            "{said}"
        );
    }
}

#[test]
fn init_says_what_is_true_of_its_preset() {
    for (preset, call, code) in [
        ("careful", &["call", "list", "path=."][..], 0),
        ("sandboxed", &["call", "write", "notes.txt", "hello"], 0),
        ("workspace", &["call", "write", "notes.txt", "hello"], 0),
        ("locked", &["call", "list", "path=."], 3),
    ] {
        let stage = Stage::bare();
        let said = stage.haft(&["init", "--preset", preset]).ok();
        let line = format!("  haft {}  ", call.join(" "));
        let line = said.lines().find(|shown| shown.starts_with(&line));
        let line = line.unwrap_or_else(|| panic!("{said}"));
        let word = if code == 0 { "allowed" } else { "denied" };
        assert!(line.contains(word), "{line}");
        assert_eq!(stage.haft(call).code, code, "{preset}");
    }
}

#[test]
fn a_denial_says_what_would_change_it_and_explain_does_not_send_to_explain() {
    let stage = Stage::new();
    stage.write(".env", "secret");
    let said = stage.haft(&["call", "read", ".env"]).fails(3);
    let hint = "hint: change that rule if this should be allowed, then run `haft trust`\n";
    assert!(said.contains(hint), "{said}");
    assert_eq!(said.matches("haft explain").count(), 1, "{said}");
    let explained = stage.haft(&["explain"]).ok();
    assert!(!explained.contains("haft explain"), "{explained}");

    let stage = Stage::bare();
    stage.haft(&["init", "--preset", "locked"]).ok();
    let said = stage.haft(&["call", "write", "a", "b"]).fails(3);
    assert!(
        said.contains("add \"write(a)\" to `allow` under [policy] in haft.toml"),
        "{said}"
    );
}

#[test]
fn a_misspelt_agent_is_named() {
    let stage = Stage::with_config("[agents.writer]\n");
    let said = stage.haft(&["call", "--agent", "writter", "write", "a", "b"]);
    let said = said.fails(3);
    let hint = "did you mean the agent `writer`? Or add a section [agents.writter] to haft.toml";
    assert!(said.contains(hint), "{said}");
}

#[test]
fn ordinary_source_is_not_taken_for_a_key() {
    let stage = Stage::new();
    stage.write("src/id_map.rs", "struct IdMap;\n");
    stage.write("id_ed25519", "key\n");
    stage.haft(&["call", "read", "src/id_map.rs"]).ok();
    stage.haft(&["call", "read", "id_ed25519"]).fails(3);
}

#[test]
fn haft_log_shows_the_events_of_a_call() {
    let stage = Stage::new();
    let mut command = stage.command(&["call", "list", "path=."]);
    let ended = command.env("HAFT_LOG", "debug").output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(
        said.contains("planned") && said.contains("settled"),
        "{said}"
    );
}

#[test]
fn one_tool_is_shown_with_its_parameters() {
    let stage = Stage::new();
    let shown = stage.haft(&["tools", "read"]).ok();
    for part in [
        "builtin/read\n",
        "parameter path  string  required",
        "deadline",
        "aliases",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(stage.json(&["tools", "Read", "--json"])["name"], "read");
    let missed = stage.haft(&["tools", "raed"]).fails(10);
    assert!(missed.contains("did you mean `read`?"), "{missed}");
}

#[test]
fn rules_say_whose_they_are() {
    let stage = Stage::bare();
    let config = "[policy]\ndeny = [\"read(a)\"]\n[agents.writer]\nallow = [\"write(docs/**)\"]\n[sessions.dm]\ndeny = [\"copy\"]\n";
    stage.write("haft.toml", config);
    let trusted = stage.haft(&["trust"]).ok();
    let line = "allows    `write(docs/**)` (haft.toml:4) for [agents.writer]\n";
    assert!(trusted.contains(line), "{trusted}");
    let shown = stage.haft(&["policy", "show"]).ok();
    for line in [
        "deny      `read(a)` at haft.toml:2\n",
        "allow     `write(docs/**)` at haft.toml:4  for [agents.writer]\n",
        "deny      `copy` at haft.toml:6  for [sessions.dm]\n",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    let rules = stage.json(&["policy", "show", "--json"]);
    let whose = |text: &str| {
        let rules = rules["rules"].as_array().unwrap();
        let rule = rules.iter().find(|rule| rule["text"] == text).unwrap();
        rule["for"].clone()
    };
    assert_eq!(whose("copy"), "[sessions.dm]");
    assert!(whose("read(a)").is_null());
}

#[test]
fn show_is_short_and_log_says_what_it_looked_for() {
    let stage = Stage::new();
    let lines: Vec<String> = (0..500).map(|line| format!("line {line}")).collect();
    stage.write("long.txt", lines.join("\n"));
    stage.haft(&["call", "read", "long.txt"]).ok();
    let shown = stage.haft(&["show"]).ok();
    assert!(shown.lines().count() < 120, "{shown}");
    assert!(shown.contains("`haft call read_output call="), "{shown}");
    let nothing = stage.haft(&["log", "veriffy"]);
    assert_eq!(
        stage.normal(&nothing.stderr),
        "no calls match `veriffy` in [WORK]\n"
    );
}

#[test]
fn a_mistake_on_the_command_line_is_json_where_json_is_wanted() {
    let stage = Stage::new();
    let said = stage.haft(&["--json", "cal"]).fails(2);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["exit_code"], 2);
    assert!(said["error"].as_str().unwrap().contains("cal"));
    assert!(stage.haft(&["help"]).ok().contains("Usage: haft"));
    let coloured = stage.haft(&["--color", "always", "tools"]).ok();
    assert!(coloured.contains("\u{1b}["), "{coloured}");
}
