//! What happens around calls: progress, a call that is stopped, an agent that is killed, two agents at
//! once, tools that come while an agent runs.

use std::{fs, process::Command};

use haft_agents::{agent::Agent, model::Turn};
use serde_json::json;

use super::{Scene, agent, for_agents, screen::Seat};
use crate::support::eventually;

const RUNS: &str = "[policy]\nallow = [\"bash\", \"read\", \"mcp__*\"]\n";

const ASKS: &str = "[policy]\npreset = \"careful\"\n";

/// A length of sleep that nothing else on the machine sleeps for.
fn sleep() -> String {
    format!("3{:06}", std::process::id())
}

/// Whether a process with this argument runs.
fn runs(argument: &str) -> bool {
    let all = fs::read_dir("/proc").unwrap();
    all.filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok())
        .any(|line| {
            let mut words = line.split(|byte| *byte == 0);
            words.next() == Some(b"sleep") && words.next() == Some(argument.as_bytes())
        })
}

/// Esc in the middle of a command: the tree is gone and the record says so.
fn stopped(agent: &'static dyn Agent) {
    let sleep = sleep();
    let command = format!("sleep {sleep} & echo started; sleep {sleep}");
    let script = vec![
        Turn::call("bash", json!({"command": command})),
        Turn::say("that is all"),
    ];
    let scene = Scene::new(agent, RUNS, script);
    let seat = Seat::take(&scene);
    seat.ask("sleep a while");
    eventually("the command runs", || runs(&sleep).then_some(()));
    let keys = agent.knows().stop;
    seat.press(keys);
    eventually("the tree is gone", || (!runs(&sleep)).then_some(()));
    let ended = eventually("the call is settled", || {
        scene.ends().pop().filter(|end| end != "open")
    });
    assert_eq!(ended, "cancelled");
    scene.saw(
        "stopped",
        &format!("keys: {}; the call is cancelled", keys.join(", ")),
    );
}

/// Progress of a long command is on the agent's screen.
fn progress(agent: &'static dyn Agent) {
    let command = "for n in 1 2 3 4 5 6 7 8; do echo line $n of eight; sleep 1; done";
    let script = vec![
        Turn::call("bash", json!({"command": command})),
        Turn::say("that is all"),
    ];
    let scene = Scene::new(agent, RUNS, script);
    let seat = Seat::take(&scene);
    seat.ask("count");
    seat.until("of eight");
    assert!(scene.model.given().is_empty(), "the call has ended");
    seat.until("that is all");
    scene.saw("progress", "the newest line of output is on the screen");
}

/// An agent that is killed while a question is open takes it along.
fn killed(agent: &'static dyn Agent) {
    let script = vec![Turn::call("bash", json!({"command": "touch made.txt"}))];
    let scene = Scene::new(agent, ASKS, script);
    let mut running = scene.start("make it").spawn().unwrap();
    eventually("the question is there", || scene.questions().pop());
    // `timeout` is the parent of the agent; both are killed, as a session that is ended kills both.
    let kill = |signal: &str, pid: u32| {
        let children = format!("/proc/{pid}/task/{pid}/children");
        let children = fs::read_to_string(children).unwrap_or_default();
        for child in children.split_whitespace() {
            Command::new("kill").args([signal, child]).status().unwrap();
        }
        Command::new("kill")
            .args([signal, &pid.to_string()])
            .status()
            .unwrap();
    };
    kill("-KILL", running.id());
    running.wait().unwrap();
    eventually("the question is withdrawn", || {
        scene.questions().is_empty().then_some(())
    });
    let ended = eventually("the call is settled", || {
        scene.ends().pop().filter(|end| end != "open")
    });
    assert_eq!(ended, "cancelled");
    assert!(!scene.stage.exists("made.txt"));
    scene.saw("killed", "its question is withdrawn, the call is cancelled");
}

/// Two agents in one workspace: each gets its own results, and one record has both.
fn two(first: &'static dyn Agent) {
    let script = |name: &str| {
        vec![
            Turn::call(
                "bash",
                json!({"command": format!("echo {name} > {name}.txt; sleep 1")}),
            ),
            Turn::call("read", json!({"path": format!("{name}.txt")})),
            Turn::say("that is all"),
        ]
    };
    let one = Scene::new(first, RUNS, script("first"));
    let other = one.join(agent("codex"), script("second"));
    let running = [
        one.start("work").spawn().unwrap(),
        other.start("work").spawn().unwrap(),
    ];
    for running in running {
        let ended = running.wait_with_output().unwrap();
        assert!(ended.status.success(), "{ended:?}");
    }
    assert!(
        one.model.given()[1].text.contains("first"),
        "{:?}",
        one.model.given()
    );
    assert!(
        other.model.given()[1].text.contains("second"),
        "{:?}",
        other.model.given()
    );
    let log = one.log();
    let mut agents: Vec<&str> = log
        .iter()
        .filter_map(|call| call["agent"].as_str())
        .collect();
    agents.sort_unstable();
    assert_eq!(
        agents,
        ["claude-code", "claude-code", "codex", "codex"],
        "{log:#?}"
    );
    one.saw(
        "two_agents",
        "with Codex in one workspace; one record has both",
    );
}

/// Tools of a mounted server that is accepted while the agent runs are offered to its model, and the
/// server is called through Haft.
fn list_changed(agent: &'static dyn Agent) {
    let script = vec![
        Turn::say("what next"),
        Turn::call(
            "mcp__notes__say",
            json!({"text": "from the mounted server"}),
        ),
        Turn::say("that is all"),
    ];
    let scene = Scene::mounting(agent, RUNS, script);
    let seat = Seat::take(&scene);
    seat.ask("begin");
    seat.until("what next");
    let mounted = "mcp__notes__say".to_owned();
    let told = || {
        scene
            .model
            .requests()
            .last()
            .is_some_and(|it| it.to_string().contains(&mounted))
    };
    assert!(!told());
    scene.stage.haft(&["mcp", "review", "notes"]).ok();
    scene.stage.haft(&["mcp", "accept", "notes", "--all"]).ok();
    // The running `haft mcp` looks at what was accepted every second, and then tells its client.
    std::thread::sleep(std::time::Duration::from_secs(4));
    seat.ask("go on");
    seat.until("that is all");
    assert!(told(), "{:?}", scene.model.offered_by_haft());
    let given = seat.given(1);
    assert!(given.contains("from the mounted server"), "{given}");
    scene.saw(
        "list_changed",
        "a tool accepted meanwhile is known with the next prompt and works",
    );
}

mod esc_in_the_middle {
    use super::*;
    for_agents! { stopped: claude_code = "claude-code", codex = "codex", pi = "pi", }
}

mod progress_on_the_screen {
    use super::*;
    for_agents! { progress: claude_code = "claude-code", pi = "pi", }
}

mod killed_with_an_open_question {
    use super::*;
    for_agents! { killed: claude_code = "claude-code", gemini = "gemini", pi = "pi", }
}

mod two_agents_in_one_workspace {
    use super::*;
    for_agents! { two: claude_code = "claude-code", }
}

mod tools_that_come_while_it_runs {
    use super::*;
    for_agents! { list_changed: claude_code = "claude-code", pi = "pi", }
}
