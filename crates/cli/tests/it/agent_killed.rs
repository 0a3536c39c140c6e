//! An agent that ends in the middle: its own process is killed, its terminal is closed, or it ends its
//! servers with one signal after another. What it asked is withdrawn, what it ran is gone, and the
//! record says so. The agent is a real process that starts `haft mcp` on pipes of its own.

use std::{
    fs,
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    mcp::lines,
    support::{Stage, eventually, same_as},
};

const FORM: &str = r#"{"elicitation": {"form": {}}}"#;
const ASKS: &str = "[policy]\npreset = \"careful\"\n";
const RUNS: &str = "[policy]\nallow = [\"bash\"]\n[tools.bash]\nsandbox = \"off\"\n";

/// Starts the server, sends it every message, and reads what it says for ever. It has no other child,
/// so that nobody else holds its end of the pipes.
const AGENT: &str = r#"
coproc SERVER { exec "$0" mcp; }
echo "$SERVER_PID" > "$HOME/server.pid"
for message in "$@"; do printf '%s\n' "$message" >&"${SERVER[1]}"; done
while read -r line <&"${SERVER[0]}"; do printf '%s\n' "$line" >> "$HOME/heard"; done
"#;

/// An agent that has called a tool.
struct Agent {
    process: Child,
    server: u32,
}

impl Agent {
    fn calls(stage: &Stage, capabilities: &str, tool: &str, arguments: &Value) -> Self {
        let capabilities: Value = serde_json::from_str(capabilities).unwrap();
        let messages = [
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": capabilities,
                "clientInfo": {"name": "test", "version": "1"}}}),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
                "params": {"name": tool, "arguments": arguments}}),
        ];
        let mut command = same_as(&stage.command(&[]), Command::new("bash"));
        command
            .args(["-c", AGENT, env!("CARGO_BIN_EXE_haft")])
            .args(messages.map(|message| message.to_string()))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = command.spawn().unwrap();
        let server = eventually("the server is started", || {
            let pid = fs::read_to_string(stage.home.join("server.pid")).ok()?;
            pid.trim().parse().ok()
        });
        Self { process, server }
    }

    /// Kills the agent itself, as nothing can be caught.
    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Sends its server a signal.
    fn signal(&self, signal: &str) {
        let sent = Command::new("kill")
            .args([signal, &self.server.to_string()])
            .status();
        assert!(sent.unwrap().success(), "{signal}");
    }

    fn server_is_gone(&self) {
        let status = format!("/proc/{}/stat", self.server);
        eventually("the server is gone", || {
            let status = fs::read_to_string(&status).unwrap_or_default();
            // One that has ended and is not yet fetched by its parent is gone too.
            (status.is_empty() || status.contains(") Z ")).then_some(())
        });
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The only question that waits.
fn question(stage: &Stage) -> Value {
    eventually("the question is on record", || {
        lines(stage, &["approvals", "--jsonl"]).into_iter().next()
    })
}

/// Nothing waits, the question cannot be answered any more, and the call is on record as cancelled.
fn is_withdrawn(stage: &Stage, question: &Value) {
    assert_eq!(lines(stage, &["approvals", "--jsonl"]), [] as [Value; 0]);
    let text = |name: &str| question[name].as_str().unwrap();
    let (id, digest) = (text("question"), text("digest"));
    let answered = stage.haft(&["approve", id, "--yes", "--digest", digest]);
    assert_ne!(answered.code, 0, "{}", answered.all());
    let calls = lines(stage, &["log", "--jsonl"]);
    let outcomes: Vec<&Value> = calls.iter().map(|call| &call["outcome"]).collect();
    assert_eq!(outcomes, ["cancelled"], "{calls:?}");
    assert!(!stage.exists("made.txt"));
}

fn write() -> Value {
    json!({"path": "made.txt", "content": "x"})
}

/// The processes that have this word in their command line.
fn processes_with(word: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap();
    entries
        .filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(word) && !line.contains("coproc") && !line.contains(" mcp"))
        .collect()
}

#[test]
fn a_killed_agents_question_is_withdrawn() {
    for capabilities in [FORM, "{}"] {
        let stage = Stage::with_config(ASKS);
        let mut agent = Agent::calls(&stage, capabilities, "write", &write());
        let asked = question(&stage);
        agent.kill();
        agent.server_is_gone();
        is_withdrawn(&stage, &asked);
    }
}

#[test]
fn a_killed_agents_commands_are_gone_with_everything_they_started() {
    let stage = Stage::with_config(RUNS);
    let word = format!("98765.{}", std::process::id());
    let command = format!("(trap '' TERM HUP; sleep {word}; sleep {word}) & sleep {word}");
    let mut agent = Agent::calls(&stage, "{}", "bash", &json!({"command": command}));
    let sleeps = format!("sleep {word}");
    eventually("two sleep", || {
        let sleeping = processes_with(&sleeps);
        let started = sleeping.iter().filter(|line| line.starts_with("sleep"));
        (started.count() == 2).then_some(())
    });
    agent.kill();
    agent.server_is_gone();
    assert_eq!(processes_with(&sleeps), [] as [String; 0]);
    let calls = lines(&stage, &["log", "--jsonl"]);
    assert_eq!(calls[0]["outcome"], "cancelled", "{calls:?}");
}

#[test]
fn a_question_is_withdrawn_when_the_agents_terminal_is_closed() {
    let stage = Stage::with_config(ASKS);
    let agent = Agent::calls(&stage, FORM, "write", &write());
    let asked = question(&stage);
    agent.signal("-HUP");
    agent.server_is_gone();
    is_withdrawn(&stage, &asked);
}

#[test]
fn an_agent_that_ends_its_server_with_one_signal_after_another_leaves_nothing_open() {
    let stage = Stage::with_config(RUNS);
    // It has to be killed, so that the second signal comes while the first is still obeyed.
    let command = "trap '' TERM INT HUP; touch started; while :; do sleep 1; done";
    let agent = Agent::calls(&stage, "{}", "bash", &json!({"command": command}));
    eventually("the command runs", || stage.exists("started").then_some(()));
    agent.signal("-INT");
    std::thread::sleep(Duration::from_millis(100));
    agent.signal("-TERM");
    agent.server_is_gone();
    let calls = lines(&stage, &["log", "--jsonl"]);
    assert_eq!(calls[0]["outcome"], "cancelled", "{calls:?}");
}

#[test]
fn a_question_is_withdrawn_by_whoever_looks_next_when_the_server_was_killed_too() {
    let stage = Stage::with_config(ASKS);
    let mut agent = Agent::calls(&stage, FORM, "write", &write());
    let asked = question(&stage);
    agent.signal("-KILL");
    agent.kill();
    agent.server_is_gone();
    is_withdrawn(&stage, &asked);
}
