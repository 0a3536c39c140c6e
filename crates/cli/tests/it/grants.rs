//! Standing approvals through the built program, on a real record: made, used, counted, ended.

use std::time::Instant;

use serde_json::Value;

use crate::support::{PATIENCE, Stage};

/// Makes a grant and returns its id.
#[track_caller]
fn add(stage: &Stage, args: &[&str]) -> String {
    let mut all = vec!["grants", "add", "--json", "--yes"];
    all.extend_from_slice(args);
    let made = stage.json(&all);
    made[0]["id"].as_str().unwrap().to_owned()
}

fn list(stage: &Stage) -> Vec<Value> {
    let listed = stage.json(&["grants", "list", "--json"]);
    listed.as_array().unwrap().clone()
}

#[track_caller]
fn asks(stage: &Stage, args: &[&str]) {
    let said = stage.haft(args).fails(3);
    assert!(said.contains("there is nobody to ask"), "{said}");
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn a_grant_lets_a_call_pass_until_it_is_revoked() {
    let stage = Stage::new();
    let call = ["call", "bash", "touch made"];
    asks(&stage, &call);
    let id = add(&stage, &["bash(touch made)"]);
    let checked = ["policy", "check", "bash", "touch made"];
    assert!(stage.haft(&checked).ok().contains("grant "));
    stage.haft(&call).ok();
    assert!(stage.exists("made"));
    let explained = stage.json(&["explain", "--json"]);
    assert_eq!(explained["decision"]["verdict"], "allow");
    assert_eq!(explained["decision"]["rule"]["text"], "bash(touch made)");
    let source = format!("grant {}", &id[..13]);
    assert_eq!(explained["decision"]["rule"]["source"], source);
    asks(&stage, &["call", "bash", "touch other"]);

    let listed = list(&stage);
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0]["scope"], "project");
    assert_eq!(listed[0]["bound_to"], stage.work.to_str().unwrap());
    assert_eq!(listed[0]["made_by"], "ada");
    let text = stage.haft(&["grants", "list"]).ok();
    assert!(
        text.contains("bash(touch made)  in the workspace"),
        "{text}"
    );
    assert!(text.contains("until it is revoked"), "{text}");

    let ended = stage.haft(&["grants", "revoke", &id[..13]]).ok();
    assert_eq!(ended, "ended: bash(touch made)\n");
    asks(&stage, &call);
    assert!(list(&stage).is_empty());
    stage.haft(&["grants", "revoke", &id]).fails(10);
    assert!(stage.haft(&["log", "verify"]).ok().starts_with("intact: "));
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn a_counted_grant_serves_so_many_calls() {
    let stage = Stage::new();
    add(&stage, &["bash(touch *)", "--uses", "2"]);
    stage.haft(&["call", "bash", "touch a"]).ok();
    assert_eq!(list(&stage)[0]["uses_left"], 1);
    stage.haft(&["call", "bash", "touch b"]).ok();
    assert!(list(&stage).is_empty());
    asks(&stage, &["call", "bash", "touch c"]);
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn a_grant_ends_when_its_time_has_come() {
    let stage = Stage::new();
    add(&stage, &["bash(touch made)", "--for", "1s"]);
    let start = Instant::now();
    while !list(&stage).is_empty() {
        assert!(start.elapsed() < PATIENCE, "it never ended");
    }
    asks(&stage, &["call", "bash", "touch made"]);
    let past = [
        "grants",
        "add",
        "--yes",
        "bash(ls)",
        "--until",
        "2001-01-01T00:00:00Z",
    ];
    let said = stage.haft(&past).fails(2);
    assert!(said.contains("it would have ended already"), "{said}");
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn a_grant_holds_for_whom_and_where_it_says() {
    let stage = Stage::new();
    let call = ["call", "bash", "touch made"];
    add(&stage, &["bash(touch made)", "--session", "talk"]);
    asks(&stage, &call);
    stage
        .haft(&["call", "--session", "talk", "bash", "touch made"])
        .ok();
    stage.haft(&["grants", "revoke", "--all"]).ok();

    add(&stage, &["bash(touch made)", "--agent", "robot"]);
    asks(&stage, &call);
    stage
        .haft(&["call", "--agent", "robot", "bash", "touch made"])
        .ok();
    // It holds in every workspace, so it is not one of this.
    let kept = stage.haft(&["grants", "revoke", "--all"]);
    assert!(
        kept.stderr.contains("`--all-workspaces` ends them"),
        "{}",
        kept.all()
    );
    assert_eq!(list(&stage).len(), 1);
    stage
        .haft(&["grants", "revoke", "--all", "--all-workspaces"])
        .ok();
    assert!(list(&stage).is_empty());

    // Another workspace, and another person on the same record.
    add(&stage, &["bash(touch made)", "--project"]);
    let elsewhere = stage.home.join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let elsewhere = elsewhere.to_str().unwrap();
    asks(&stage, &["call", "-C", elsewhere, "bash", "touch made"]);
    let other = stage.command(&call).env("USER", "eve").output().unwrap();
    assert_eq!(other.status.code(), Some(3));
    stage.haft(&call).ok();
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn a_grant_never_opens_a_denial() {
    let stage = Stage::with_config("[policy]\ndeny = [\"bash(touch)\", \"write(secret/**)\"]\n");
    add(&stage, &["bash(touch made)", "write(secret/**)"]);
    for call in [
        ["call", "bash", "touch made"].as_slice(),
        &["call", "write", "path=secret/a", "content=x"],
    ] {
        let said = stage.haft(call).fails(3);
        assert!(said.contains("denies"), "{said}");
    }
    let locked = Stage::with_config("[policy]\npreset = \"locked\"\n");
    add(&locked, &["bash(touch made)"]);
    locked.haft(&["call", "bash", "touch made"]).fails(3);
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn ap_11_what_runs_anything_is_granted_only_word_for_word() {
    let stage = Stage::new();
    for (rule, says) in [
        ("bash", "it would allow every command"),
        ("bash(*)", "can never match"),
        ("bash(bash -lc *)", "`bash` runs whatever its arguments say"),
        ("bash(env *)", "`env` runs whatever its arguments say"),
        (
            "bash(python -c *)",
            "`python` runs whatever its arguments say",
        ),
        (
            "bash(git -c alias.x=!sh *)",
            "makes the program do something else",
        ),
        ("@all", "more tools than it names"),
        ("nonsuch(x)", "nonsuch"),
    ] {
        let said = stage.haft(&["grants", "add", "--yes", rule]).fails(2);
        assert!(said.contains(says), "{rule}: {said}");
        assert!(said.contains("hint: "), "{said}");
    }
    assert!(list(&stage).is_empty());
    add(&stage, &["bash(bash -c 'touch made')"]);
    asks(&stage, &["call", "bash", "bash -c 'touch other'"]);
    stage.haft(&["call", "bash", "bash -c 'touch made'"]).ok();
    assert!(stage.exists("made") && !stage.exists("other"));
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn ap_12_a_prefix_does_not_reach_what_does_something_else() {
    let stage = Stage::new();
    add(&stage, &["bash(git *)"]);
    for script in [
        "git -c alias.x='!touch made' x",
        "git status; touch made",
        "git $(touch made)",
    ] {
        asks(&stage, &["call", "bash", script]);
    }
    assert!(!stage.exists("made"));
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn what_a_denial_without_a_person_says_is_true() {
    let stage = Stage::new();
    for (call, made) in [
        (["call", "bash", "echo 'a b' > made"].as_slice(), "made"),
        (
            &["call", "write", "path=src/it's.txt", "content=x"],
            "src/it's.txt",
        ),
    ] {
        let said = stage.haft(call).fails(3);
        let hint = said
            .split_once("run `")
            .and_then(|(_, rest)| rest.split_once("`, or"));
        let (command, _) = hint.unwrap_or_else(|| panic!("no command in {said}"));
        let program = std::path::Path::new(env!("CARGO_BIN_EXE_haft"));
        let folder = program.parent().unwrap().to_str().unwrap();
        let line = format!("PATH={folder}:$PATH; {command} --yes");
        let prepared = stage.command(&["-c", &line]);
        let mut shell = crate::support::same_as(&prepared, std::process::Command::new("bash"));
        let ran = shell.output().unwrap();
        assert!(
            ran.status.success(),
            "{line}: {}",
            String::from_utf8_lossy(&ran.stderr)
        );
        stage.haft(call).ok();
        assert!(stage.exists(made));
    }
}

#[test]
fn a_person_sees_what_a_grant_means_before_it_is_kept() {
    let stage = Stage::new();
    let said = stage.haft(&["grants", "add", "bash(touch *)"]).fails(2);
    assert!(
        said.contains("add `--yes` to do it without a question"),
        "{said}"
    );
    for (answer, code, kept) in [("n\n", 3, 0), ("y\n", 0, 1)] {
        let mut terminal = stage.terminal(&["grants", "add", "bash(touch *)", "--for", "2h"]);
        let shown = terminal.until("[y/N]");
        for part in [
            "the program `touch` with any words",
            "in the workspace",
            "until 20",
        ] {
            assert!(shown.contains(part), "{part:?} is missing in {shown}");
        }
        terminal.types(answer);
        let (ended, screen) = terminal.end();
        assert_eq!(ended, code, "{screen}");
        assert_eq!(list(&stage).len(), kept);
    }
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn what_is_approved_again_and_again_is_suggested() {
    let stage = Stage::new();
    let nothing = stage.json(&["grants", "suggest", "--json"]);
    assert_eq!(nothing, serde_json::json!([]));
    for number in 0..5 {
        let script = format!("touch made{number}");
        let mut terminal = stage.terminal(&["call", "bash", &script]);
        terminal.until("[y/N]");
        terminal.types("y\n");
        let (code, screen) = terminal.end();
        assert_eq!(code, 0, "{screen}");
    }
    // Denied because there was no person to ask, so approved by nobody.
    for _ in 0..5 {
        asks(&stage, &["call", "bash", "rm -r made0"]);
    }
    let suggested = stage.json(&["grants", "suggest", "--json"]);
    assert_eq!(suggested.as_array().unwrap().len(), 1, "{suggested}");
    assert_eq!(suggested[0]["rules"], serde_json::json!(["bash(touch *)"]));
    assert_eq!(suggested[0]["approved"], 5);
    assert_eq!(
        suggested[0]["command"],
        "haft grants add 'bash(touch *)' --project"
    );
    let text = stage.haft(&["grants", "suggest"]).ok();
    assert!(
        text.contains("you approved `touch …` 5 times: allow it in this workspace?"),
        "{text}"
    );
    // What is allowed already is not suggested again.
    add(&stage, &["bash(touch *)", "--project"]);
    assert_eq!(stage.json(&["grants", "suggest", "--json"]), nothing);
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn nobody_is_offered_a_rule_for_what_ruins_a_machine() {
    let bare = Stage::with_config("[policy]\npreset = \"careful\"\n");
    for script in ["rm -rf ~", "cd . && sudo ls", "dd if=/dev/zero of=/dev/sdz"] {
        let said = bare.haft(&["call", "bash", script]).fails(3);
        assert!(
            !said.contains("grants add") && !said.contains("to `allow`"),
            "{script}: {said}"
        );
        assert!(said.contains("run it yourself"), "{script}: {said}");
    }
    // After `haft init`, a rule denies them, and what is not understood is not asked about for it.
    let stage = Stage::bare();
    stage.haft(&["init", "--preset", "workspace"]).ok();
    for script in ["rm -rf ~", "sudo ls", "mkfs.ext4 x", ":(){ :|:& };:"] {
        let said = stage.haft(&["call", "bash", script]).fails(3);
        assert!(said.contains("haft.toml:"), "{script}: {said}");
        assert!(said.contains("denies"), "{script}: {said}");
    }
    stage.haft(&["call", "bash", "X=a; echo $X > made"]).ok();
    assert_eq!(stage.read("made"), "a\n");
}
