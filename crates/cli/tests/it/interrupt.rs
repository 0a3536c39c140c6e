//! Ctrl-C stops a call properly: the tree is gone, what it printed is kept, the outcome is on
//! record. What cannot be settled in time is settled by the next start. On the host and in a
//! sandbox alike.

use std::{fs, process::Stdio};

use crate::support::{Stage, eventually, wait};

/// Both ways a command can run, with a number that tells their processes apart.
const WAYS: [(u32, &str); 2] = [
    (1, "[policy]\nallow = [\"bash\"]\n"),
    (
        2,
        "[policy]\nallow = [\"bash\"]\n[tools.bash]\nsandbox = \"off\"\n",
    ),
];

/// A command that prints, leaves a process in a session of its own, says that it runs and waits;
/// and the word by which both are found from outside.
fn long_command(test: u32, way: u32) -> (String, String) {
    let mark = format!("300.{test}{way}{}", std::process::id());
    let command =
        format!("echo started; setsid sleep {mark} & sleep 0.1; touch running; sleep {mark}");
    (command, mark)
}

/// Waits until both processes of the command are there.
fn runs(stage: &Stage, mark: &str) {
    eventually("the command runs", || {
        (stage.exists("running") && with_mark(mark).len() >= 2).then_some(())
    });
}

/// The processes that sleep so long.
fn with_mark(mark: &str) -> Vec<u32> {
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|id: &u32| {
            let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            line == format!("sleep\0{mark}\0").into_bytes()
        })
        .collect()
}

fn signal(pid: u32, name: &str) {
    let sent = std::process::Command::new("kill")
        .args(["-s", name, &pid.to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn an_interrupt_stops_the_tree_and_settles_the_call_as_cancelled() {
    for (way, config) in WAYS {
        let stage = Stage::with_config(config);
        let (command, mark) = long_command(1, way);
        let mut child = stage
            .command(&["call", "bash", &command, "--json"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        runs(&stage, &mark);
        signal(child.id(), "INT");
        assert_eq!(wait(&mut child).code(), Some(5));
        assert_eq!(with_mark(&mark), Vec::<u32>::new(), "the command is gone");
        let shown = stage.json(&["show", "--json"]);
        assert_eq!(shown["outcome"], "cancelled");
        let settled = shown["events"].as_array().unwrap().last().unwrap().clone();
        assert!(
            settled["body"]["content"].to_string().contains("started"),
            "what it printed is kept: {settled}"
        );
    }
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn a_killed_program_takes_its_commands_with_it_and_the_next_start_settles_the_call_as_unknown() {
    for (way, config) in WAYS {
        let stage = Stage::with_config(config);
        let (command, mark) = long_command(2, way);
        let mut child = stage.command(&["call", "bash", &command]).spawn().unwrap();
        runs(&stage, &mark);
        child.kill().unwrap();
        wait(&mut child);
        eventually("the command is gone", || {
            with_mark(&mark).is_empty().then_some(())
        });
        let ran = stage.haft(&["log"]);
        assert!(
            ran.stderr.contains(
                "1 call of an earlier run ended unknown; `haft log --all-workspaces` shows them"
            ),
            "{}",
            ran.all()
        );
        assert!(ran.stdout.contains("unknown"), "{}", ran.all());
        assert_eq!(stage.haft(&["log"]).stderr, "", "settled once, told once");
    }
}

/// A call of the command line is a session of its own, and says what that means for a process it
/// leaves running.
#[test]
#[ignore = "ci: needs bubblewrap"]
fn a_process_left_in_the_background_ends_with_the_command() {
    for (way, config) in WAYS {
        let stage = Stage::with_config(config);
        let (command, mark) = long_command(3, way);
        let input = format!("{{\"command\": {command:?}, \"background\": true}}");
        let ran = stage.haft(&["call", "bash", &input]);
        assert_eq!(ran.code, 0, "{}", ran.all());
        assert!(ran.stdout.contains("started"), "{}", ran.all());
        assert!(ran.stdout.contains("p1 running"), "{}", ran.all());
        assert!(
            ran.stderr.contains("ended with this command"),
            "{}",
            ran.all()
        );
        assert_eq!(with_mark(&mark), Vec::<u32>::new(), "it has ended");
    }
}
