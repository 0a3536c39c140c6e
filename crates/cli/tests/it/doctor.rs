//! `haft doctor`: every line says what is there and what to do.

use std::fs;

use crate::support::Stage;

/// What is said of agents.
fn of_agents(stage: &Stage, printed: &str) -> String {
    let lines = printed.lines();
    let lines = lines.skip_while(|line| !line.contains(" agent  "));
    let lines = lines.take_while(|line| !line.contains(" sandbox "));
    let lines: Vec<&str> = lines.collect();
    stage.normal(&lines.join("\n"))
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn a_good_installation_passes_and_its_default_tier_is_proven() {
    let stage = Stage::new();
    let ran = stage.haft(&["doctor"]).ok();
    // What root handed over is for each machine to say.
    let shown: Vec<&str> = ran
        .lines()
        .filter(|line| !line.contains("control groups") && !line.contains("as root:"))
        .collect();
    insta::assert_snapshot!("doctor", stage.normal(&shown.join("\n")));
    let json = stage.json(&["doctor", "--json"]);
    let checks = json.as_array().unwrap();
    let failed = |check: &&serde_json::Value| check["state"] == "fail";
    assert_eq!(checks.iter().find(failed), None, "{json}");
    for tier in ["sandbox t1", "sandbox t2", "sandbox t3"] {
        let check = checks.iter().find(|check| check["check"] == tier).unwrap();
        let attempts = check["attempts"].as_array().unwrap();
        for attempt in attempts {
            assert_eq!(attempt["result"], "stopped", "{attempt}");
            assert_eq!(attempt["outside"], "succeeded", "{attempt}");
        }
        assert!(attempts.len() >= 11, "{check}");
    }
    assert!(
        !stage.home.join(".local/share/haft/doctor").exists(),
        "what was attacked is removed"
    );
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn the_sandbox_of_a_tool_is_shown_without_starting_anything() {
    let stage = Stage::with_config(
        "[policy]\n[sandbox.limits]\nprocesses = 77\n[sandbox.network]\nallow = [\"docs.rs\"]\n",
    );
    let shown = stage
        .haft(&["doctor", "--show-sandbox", "bash", "touch made"])
        .ok();
    for part in [
        "tier t2\n",
        "-c -- touch made\n",
        &format!("writable   {}\n", stage.work.display()),
        &format!("read-only  {}/haft.toml\n", stage.work.display()),
        "own        /proc",
        "all others refused",
        "77 processes",
        "allowed  docs.rs",
        &format!("HOME={}\n", stage.home.display()),
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!stage.exists("made"));
    let shown = stage.haft(&["doctor", "--show-sandbox", "read", "x"]).ok();
    assert!(shown.contains("starts no process"), "{shown}");
    let error = stage.haft(&["doctor", "--show-sandbox", "bsh"]).fails(10);
    assert!(error.contains("bash"), "{error}");
}

#[test]
fn what_is_wrong_fails_with_a_hint() {
    let stage = Stage::with_config("[policy]\n");
    stage.write("haft.toml", "[policy]\npreset = \"locked\"\n");
    let ran = stage.haft(&["doctor"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.stdout.contains("has changed since it was trusted"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout.contains("hint: read it, then run `haft trust`"),
        "{}",
        ran.stdout
    );
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn each_agent_with_haft_is_said_to_use_what_its_calls_will_use() {
    let stage = Stage::with_config("[policy]\npreset = \"workspace\"\n");
    assert_eq!(of_agents(&stage, &stage.haft(&["doctor"]).ok()), "");
    for install in [
        &["codex"][..],
        &["openclaw", "--workspace", "."],
        &["cursor", "--scope", "project"],
        &["claude-code", "--scope", "local"],
        &["gemini", "--http", "127.0.0.1:8931"],
    ] {
        let words: Vec<&str> = ["mcp", "install"].iter().chain(install).copied().collect();
        stage.haft(&words).ok();
    }
    insta::assert_snapshot!(
        "doctor_agents",
        of_agents(&stage, &stage.haft(&["doctor"]).ok())
    );
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn an_agent_whose_record_program_or_rules_are_others_is_named() {
    let rules = "[agents.codex]\npreset = \"locked\"\n";
    let stage = Stage::with_config(rules);
    for agent in ["codex", "gemini", "goose"] {
        stage.haft(&["mcp", "install", agent]).ok();
    }
    // Somebody takes the sections out again that each install added.
    stage.write("haft.toml", rules);
    stage.haft(&["trust", "--yes"]).ok();
    let program = env!("CARGO_BIN_EXE_haft");
    for (file, other) in [
        (".gemini/settings.json", "/bin/sh"),
        (".config/goose/config.yaml", "/gone/haft"),
    ] {
        let path = stage.home.join(file);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace(program, other)).unwrap();
    }
    let shown = stage.haft(&["doctor"]).ok();
    insta::assert_snapshot!("doctor_agents_amiss", of_agents(&stage, &shown));
    let ran = stage
        .command(&["doctor"])
        .env("HAFT_DATA_DIR", stage.home.join("other"))
        .output()
        .unwrap();
    let shown = of_agents(&stage, &String::from_utf8(ran.stdout).unwrap());
    let codex = "record [HOME]/.local/share/haft, which `haft log` does not show here\n      \
                 hint: `haft mcp install codex` writes the record into its configuration";
    assert!(shown.contains(codex), "{shown}");
}
