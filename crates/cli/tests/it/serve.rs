//! `haft serve` and `haft keys`: the built program, as a person starts it and a program asks it.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::Child,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{Stage, eventually, wait};

/// The program, serving.
struct Serving {
    child: Child,
    address: String,
    /// What it said after where it serves.
    said: String,
}

impl Serving {
    fn start(stage: &Stage, args: &[&str]) -> Self {
        let words = [&["serve", "--listen", "127.0.0.1:0"], args].concat();
        let mut child = stage.command(&words).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        // Notes about an earlier run come first.
        while !line.starts_with("serving http://") {
            line.clear();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended");
        }
        let address = line
            .trim()
            .strip_prefix("serving http://")
            .unwrap()
            .to_owned();
        let mut serving = Self {
            child,
            address,
            said: String::new(),
        };
        if !args.is_empty() {
            stderr.read_line(&mut serving.said).unwrap();
        }
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        serving
    }

    /// The status and the body of an answer.
    fn ask(&self, key: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = body.to_string();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Authorization: Bearer {key}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    fn call(&self, key: &str, body: &Value) -> (u16, Value) {
        self.ask(key, "POST", "/v1/calls", body)
    }

    fn end(mut self, signal: Signal) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        wait(&mut self.child).code()
    }
}

impl Drop for Serving {
    /// A test that fails leaves no server behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn key(stage: &Stage, scopes: &[&str]) -> String {
    let mut args = vec!["keys", "create", "a bot", "--agent", "bot"];
    args.extend(scopes.iter().flat_map(|scope| ["--scope", scope]));
    stage.haft(&args).ok().trim().to_owned()
}

#[test]
fn a_key_calls_until_it_is_revoked() {
    let stage = Stage::new();
    stage.write("notes.txt", "hello");
    let key = key(&stage, &["call"]);
    assert!(key.starts_with("haft_live_"), "{key}");
    let serving = Serving::start(&stage, &[]);
    let read = json!({"tool": "read", "arguments": {"path": "notes.txt"}});

    let (status, answer) = serving.call(&key, &read);

    assert_eq!(
        (status, &answer["state"]),
        (200, &json!("succeeded")),
        "{answer}"
    );
    assert_eq!(serving.call("haft_live_x", &read).0, 401);
    let listed = stage.json(&["keys", "list", "--json"]);
    assert!(!listed.to_string().contains(&key));
    let id = listed[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(key.split('_').nth(2), Some(&*id));
    stage.haft(&["keys", "revoke", &id]).ok();
    assert_eq!(serving.call(&key, &read).0, 401);
    assert!(
        stage
            .haft(&["keys", "revoke", &id])
            .all()
            .contains("no live key")
    );
    assert_eq!(serving.end(Signal::TERM), Some(0));
}

#[test]
fn the_first_start_prints_a_link_and_later_ones_if_asked() {
    let stage = Stage::new();
    for expect in [
        "log in as administrator: http://",
        "log in as administrator: http://",
    ] {
        let serving = Serving::start(&stage, &["--login"]);
        assert!(serving.said.starts_with(expect), "{}", serving.said);
        assert_eq!(serving.end(Signal::TERM), Some(0));
    }
    let checked = stage.haft(&["serve", "--check"]);
    assert_eq!(checked.code, 0, "{}", checked.all());
    assert!(checked.stderr.contains("ready"), "{}", checked.all());
}

/// A process that is killed loses nothing that it accepted: the next one takes the call up, its question is
/// still the same one, and the answer counts.
#[test]
fn f3_a_question_is_still_open_after_the_server_was_killed() {
    let stage = Stage::new();
    let key = key(&stage, &["call"]);
    let serving = Serving::start(&stage, &[]);
    let write = json!({
        "tool": "write",
        "arguments": {"path": "a.txt", "content": "hello"},
        "wait_ms": 0,
    });
    let (status, accepted) = serving.call(&key, &write);
    assert_eq!(status, 202, "{accepted}");
    let call = accepted["call"].as_str().unwrap();
    let asked = || {
        let open = stage.json(&["approvals", "--json"]);
        open.get(0).cloned()
    };
    let question = eventually("a question", asked);
    assert_eq!(question["call"], call);

    serving.end(Signal::KILL);
    let serving = Serving::start(&stage, &[]);

    let again = eventually("the question again", asked);
    assert_eq!(again["question"], question["question"]);
    let (id, digest) = (
        again["question"].as_str().unwrap(),
        again["digest"].as_str().unwrap(),
    );
    stage
        .haft(&["approve", id, "--yes", "--digest", digest])
        .ok();
    let ended = eventually("its end", || {
        let (_, found) = serving.ask(&key, "GET", &format!("/v1/calls/{call}"), &Value::Null);
        (found["outcome"] != "open").then_some(found)
    });
    assert_eq!(ended["outcome"], "succeeded", "{ended}");
    assert_eq!(stage.read("a.txt"), "hello");
    assert_eq!(serving.end(Signal::TERM), Some(0));
}

#[test]
fn what_a_workspace_says_is_never_served() {
    let stage = Stage::bare();
    stage.write("haft.toml", "[serve]\nlisten = \"127.0.0.1:1\"\n");
    let refused = stage.haft(&["trust"]);
    assert_ne!(refused.code, 0, "{}", refused.all());
    assert!(
        refused.stderr.contains("your own haft.toml"),
        "{}",
        refused.all()
    );
}
