//! Ctrl-C stops a call properly: the tree is gone, what it printed is kept, the outcome is on
//! record. What cannot be settled in time is settled by the next start.

use std::{fs, path::Path, process::Stdio};

use crate::support::{Stage, eventually, wait};

const CONFIG: &str = "[policy]\nallow = [\"bash(echo started; echo $$ > pid; sleep 300)\", \"bash(trap '' TERM; echo $$ > pid; sleep 300; sleep 300)\"]\n[tools.bash]\nsandbox = \"off\"\n";

fn pid(stage: &Stage) -> u32 {
    eventually("the command runs", || {
        fs::read_to_string(stage.work.join("pid"))
            .ok()?
            .trim()
            .parse()
            .ok()
    })
}

fn signal(pid: u32, name: &str) {
    let sent = std::process::Command::new("kill")
        .args(["-s", name, &pid.to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
}

#[test]
fn an_interrupt_stops_the_tree_and_settles_the_call_as_cancelled() {
    let stage = Stage::with_config(CONFIG);
    let mut child = stage
        .command(&[
            "call",
            "bash",
            "echo started; echo $$ > pid; sleep 300",
            "--json",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let command = pid(&stage);
    signal(child.id(), "INT");
    assert_eq!(wait(&mut child).code(), Some(5));
    assert!(
        !Path::new(&format!("/proc/{command}")).exists(),
        "the command is gone"
    );
    let shown = stage.json(&["show", "--json"]);
    assert_eq!(shown["outcome"], "cancelled");
    let settled = shown["events"].as_array().unwrap().last().unwrap().clone();
    assert!(
        settled["body"]["content"].to_string().contains("started"),
        "what it printed is kept: {settled}"
    );
}

#[test]
fn a_killed_program_leaves_a_call_that_the_next_start_settles_as_unknown() {
    let stage = Stage::with_config(CONFIG);
    let mut child = stage
        .command(&["call", "bash", "echo started; echo $$ > pid; sleep 300"])
        .spawn()
        .unwrap();
    let command = pid(&stage);
    child.kill().unwrap();
    wait(&mut child);
    let ran = stage.haft(&["log"]);
    assert!(
        ran.stderr
            .contains("1 call of an earlier run ended unknown; `haft log` shows them"),
        "{}",
        ran.all()
    );
    assert!(ran.stdout.contains("unknown"), "{}", ran.all());
    assert_eq!(stage.haft(&["log"]).stderr, "", "settled once, told once");
    // The program could not stop it any more; the test does, so that nothing is left behind.
    let _ = std::process::Command::new("kill")
        .args(["-9", "--", &format!("-{command}")])
        .status();
}
