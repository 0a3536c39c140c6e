//! Ctrl-C stops a call properly: the tree is gone, what it printed is kept, the outcome is on
//! record. What cannot be settled in time is settled by the next start.

use std::{
    fs,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

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
    pid(&stage);
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
}

/// The program could not stop anything any more; its warden did.
#[test]
fn a_killed_program_takes_its_commands_with_it() {
    let command = "setsid sleep 300 & echo $! > other; echo $$ > pid; sleep 300";
    let config = format!(
        "[policy]\nallow = [{command:?}]\n[tools.bash]\nsandbox = \"off\"\n",
        command = format!("bash({command})")
    );
    let stage = Stage::with_config(&config);
    let mut child = stage.command(&["call", "bash", command]).spawn().unwrap();
    let shell = pid(&stage);
    let other: u32 = stage.read("other").trim().parse().unwrap();
    child.kill().unwrap();
    wait(&mut child);
    let killed = Instant::now();
    for pid in [shell, other] {
        eventually("it is gone", || {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
            stat.map_or(true, |stat| stat.contains(") Z "))
                .then_some(())
        });
    }
    assert!(
        killed.elapsed() < Duration::from_secs(2),
        "{:?}",
        killed.elapsed()
    );
}

/// A call of the command line is a session of its own, and says what that means for a process it
/// leaves running.
#[test]
fn a_process_left_in_the_background_ends_with_the_command() {
    let command = "echo $$ > pid; echo up; sleep 300";
    let config = format!(
        "[policy]\nallow = [{command:?}]\n[tools.bash]\nsandbox = \"off\"\n",
        command = format!("bash({command})")
    );
    let stage = Stage::with_config(&config);
    let input = format!("{{\"command\": {command:?}, \"background\": true}}");
    let ran = stage.haft(&["call", "bash", &input]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    assert!(ran.stdout.contains("up"), "{}", ran.all());
    assert!(ran.stdout.contains("p1 running"), "{}", ran.all());
    assert!(
        ran.stderr.contains("has ended with this command"),
        "{}",
        ran.all()
    );
    let pid = pid(&stage);
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "it lives on");
}
