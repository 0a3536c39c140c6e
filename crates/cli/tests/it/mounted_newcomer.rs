//! Mounted MCP servers for somebody who sets them up for the first time: what is wrong is said where
//! it is met, with what to write or run next.

use std::fs;

use crate::{
    mounted::Mounting,
    support::{Stage, eventually},
};

/// A workspace whose one server is this entry.
fn with_entry(entry: &str) -> Stage {
    Stage::with_config(&format!("[[mcp.servers]]\nid = \"a\"\n{entry}\n"))
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn rules_grants_and_hints_know_mounted_tools() {
    let mounted = Mounting::asking(&[("a", "\"good\"", "")]);
    mounted.accept("a");
    let denied = mounted.haft(&["call", "mcp__a__say", "text=hi"]).fails(3);
    let command = "haft grants add 'mcp__a__say' --project";
    assert!(denied.contains(command), "{denied}");
    let check = ["policy", "check", "mcp__a__say", "text=hi"];
    let asks = mounted.haft(&check);
    assert_eq!(asks.code, 9, "{}", asks.all());
    assert!(asks.stdout.contains(command), "{}", asks.all());
    let misspelt = ["grants", "add", "mcp__b__say", "--yes"];
    mounted.haft(&misspelt).fails(2);
    let granted = ["grants", "add", "mcp__a__say", "--yes"];
    mounted.haft(&granted).ok();
    assert_eq!(mounted.haft(&check).code, 0);
    let said = mounted.haft(&["call", "mcp__a__say", "text=hi"]).ok();
    assert_eq!(said, "said hi\n");
}

#[test]
fn a_server_of_a_file_that_is_not_trusted_says_so() {
    let stage = Stage::bare();
    stage.write(
        "haft.toml",
        "[[mcp.servers]]\nid = \"a\"\ncommand = [\"/bin/cat\"]\n",
    );
    let unknown = stage.haft(&["mcp", "review", "a"]).fails(10);
    assert!(unknown.contains("run `haft trust`"), "{unknown}");
    let status = stage.haft(&["mcp", "status"]);
    assert!(
        status.stderr.contains("run `haft trust`"),
        "{}",
        status.all()
    );
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn a_tool_of_a_server_nobody_has_looked_at_names_the_command_that_does() {
    let mounted = Mounting::new(&[("a", "\"good\"", "")]);
    for args in [
        &["call", "mcp__a__say", "text=hi"][..],
        &["tools", "mcp__a__say"],
        &["policy", "check", "mcp__a__say", "text=hi"],
    ] {
        let ran = mounted.haft(args);
        assert!(ran.code != 0, "{}", ran.all());
        assert!(ran.stderr.contains("`haft mcp review a`"), "{}", ran.all());
    }
    mounted.accept("a");
    let other = mounted.haft(&["call", "mcp__a__shout"]).fails(10);
    assert!(other.contains("`haft mcp review a --all`"), "{other}");
    let other = mounted.haft(&["call", "mcp__b__say"]).fails(10);
    assert!(other.contains("no server `b` is mounted"), "{other}");
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn status_and_doctor_show_how_a_server_failed_until_it_starts() {
    let mounted = Mounting::new(&[("a", "\"exits\"", "")]);
    assert_eq!(mounted.status("a")["state"], "never started");
    mounted.haft(&["mcp", "review", "a"]).fails(1);
    let status = mounted.status("a");
    assert_eq!(status["state"], "failed", "{status}");
    let error = status["last_error"].as_str().unwrap();
    assert!(error.contains("it exited with code 4"), "{error}");
    assert!(error.contains("cannot find"), "{error}");
    let doctor = mounted.haft(&["doctor"]);
    assert!(doctor.stdout.contains("`a`: failed"), "{}", doctor.all());
    // The same entry, and a server that starts.
    let script = mounted.servers.join("plain.py");
    let good = fs::read_to_string(&script).unwrap();
    fs::write(&script, good.replace("how == \"exits\"", "False")).unwrap();
    mounted.accept("a");
    let status = mounted.status("a");
    assert_eq!(status["state"], "known", "{status}");
    assert!(status["last_error"].is_null(), "{status}");
    let doctor = mounted.haft(&["doctor"]);
    assert!(
        doctor.stdout.contains("`a`: known, tools: 1"),
        "{}",
        doctor.all()
    );
}

#[test]
fn a_file_outside_the_sandbox_is_named_with_the_setting_that_shows_it() {
    let stage = Stage::bare();
    let script = stage.home.join("server.py");
    fs::write(&script, "").unwrap();
    stage.write(
        "haft.toml",
        format!(
            "[[mcp.servers]]\nid = \"a\"\ncommand = [\"python3\", \"{}\"]\n",
            script.display()
        ),
    );
    stage.haft(&["trust"]).ok();
    let failed = stage.haft(&["mcp", "review", "a"]).fails(1);
    assert!(failed.contains("`sandbox.read_only`"), "{failed}");
    let shown = format!("add \"{}\"", stage.home.display());
    assert!(failed.contains(&shown), "{failed}");
    let missing = with_entry("command = [\"no-such-program\"]");
    let failed = missing.haft(&["mcp", "review", "a"]).fails(1);
    assert!(
        failed.contains("there is no program `no-such-program`"),
        "{failed}"
    );
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn what_a_server_prints_where_messages_belong_is_shown() {
    let ends = with_entry("command = [\"/bin/echo\", \"listening on port 3000\"]");
    let failed = ends.haft(&["mcp", "review", "a"]).fails(1);
    assert!(failed.contains("it exited with code 0"), "{failed}");
    let stray =
        "it printed to standard output, which is for MCP messages only: listening on port 3000";
    assert!(failed.contains(stray), "{failed}");
    let stays = with_entry(
        "command = [\"/usr/bin/python3\", \"-c\", \"print('listening on port 3000', flush=True); \
         __import__('time').sleep(3600)\"]\nstart_timeout = 3",
    );
    let failed = stays.haft(&["mcp", "review", "a"]).fails(1);
    assert!(failed.contains("within 3 s"), "{failed}");
    assert!(failed.contains(stray), "{failed}");
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn a_program_with_another_hash_is_told_with_both() {
    let wanted = "0".repeat(64);
    let entry = format!("command = [\"/bin/echo\"]\nsha256 = \"{wanted}\"");
    let program = fs::canonicalize("/bin/echo").unwrap();
    let entry = entry.replace("/bin/echo", program.to_str().unwrap());
    let stage = with_entry(&entry);
    let failed = stage.haft(&["mcp", "review", "a"]).fails(1);
    assert!(
        failed.contains(&format!("{wanted} was trusted")),
        "{failed}"
    );
    assert!(failed.contains("`sha256` in its entry"), "{failed}");
    let hash = sha256(&fs::read(program).unwrap());
    assert!(failed.contains(&hash), "{failed}");
    fs::write(
        stage.work.join("haft.toml"),
        stage.read("haft.toml").replace(&wanted, &hash),
    )
    .unwrap();
    stage.haft(&["trust"]).ok();
    let failed = stage.haft(&["mcp", "review", "a"]).fails(1);
    assert!(failed.contains("it exited with code 0"), "{failed}");
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    let hash = sha2::Sha256::digest(bytes);
    hash.iter()
        .fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn a_refused_connection_names_the_setting_of_that_server() {
    let connect = "import socket, os, sys, urllib.request; \
                   urllib.request.urlopen('http://b.example.org/')";
    let entry = format!(
        "command = [\"/usr/bin/python3\", \"-c\", \"{connect}\"]\n\
         sandbox = {{ network = [\"a.example.org\"] }}"
    );
    let stage = with_entry(&entry);
    let failed = stage.haft(&["mcp", "review", "a"]).fails(1);
    let setting = "`sandbox.network` of the server `a` in haft.toml";
    assert!(failed.contains(setting), "{failed}");
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn what_review_shows_is_indented_and_not_counted() {
    let mounted = Mounting::new(&[("a", "\"good\"", "")]);
    let shown = mounted.haft(&["mcp", "review", "a"]).ok();
    assert!(shown.contains("          \"type\": \"string\""), "{shown}");
    assert!(!shown.contains("spaces⟩"), "{shown}");
    mounted.describes(&format!("a{}b", " ".repeat(40)));
    let shown = mounted.haft(&["mcp", "review", "a", "--fetch"]).ok();
    assert!(shown.contains("a⟨40 spaces⟩b"), "{shown}");
}

#[test]
fn a_question_answered_elsewhere_says_why_it_is_asked() {
    let stage = Stage::new();
    let call = ["call", "--ask", "elsewhere", "write", "a.txt", "x"];
    let mut waiting = stage.command(&call).spawn().unwrap();
    let id = eventually("it asks", || {
        let listed = stage.haft(&["approvals", "--jsonl"]).ok();
        let question: serde_json::Value = serde_json::from_str(listed.lines().next()?).unwrap();
        Some(question["question"].as_str().unwrap().to_owned())
    });
    let shown = stage.haft(&["approve", &id]).fails(2);
    assert!(shown.contains("asked because no rule allows"), "{shown}");
    assert!(shown.contains("(preset careful)"), "{shown}");
    stage.haft(&["deny", &id]).ok();
    waiting.wait().unwrap();
}

#[test]
fn small_mistakes_of_the_command_line_are_answered_with_an_example() {
    let stage = Stage::new();
    for (given, example) in [
        ("8931", "127.0.0.1:8931"),
        ("localhost:9000", "127.0.0.1:9000"),
    ] {
        let refused = stage.haft(&["mcp", "--http", given]).fails(2);
        assert!(refused.contains(example), "{refused}");
    }
    let ran = stage.haft(&["mcp", "token", "--new"]);
    assert!(
        ran.stderr.contains("keeps the token it started with"),
        "{}",
        ran.all()
    );
    let shell = "[[mcp.servers]]\nid = \"a\"\ncommand = [\"/bin/sh\", \"-c\", \"x\"]\n";
    stage.write("haft.toml", shell);
    let refused = stage.haft(&["trust"]).fails(7);
    assert!(
        refused.contains("[\"/bin/sh\", \"/path/to/start.sh\"]"),
        "{refused}"
    );
}
