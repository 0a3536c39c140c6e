//! One directory, several back ends: each agent works where `haft.toml` says, nothing of one serves the
//! other, and the record has both. Against a real OpenSSH server, and a real Podman.

use std::{fs, path::PathBuf};

use haft_testkit::openssh_server::OpenSshServer;
use serde_json::{Value, json};

use crate::{
    mcp::{Agent, modern},
    support::{Ran, Stage},
};

/// A workspace here, and one on a machine where the agent `builder` works.
struct Two {
    stage: Stage,
    server: OpenSshServer,
}

impl Two {
    fn new(rules: &str) -> Self {
        let (stage, server) = (Stage::bare(), OpenSshServer::start());
        let two = Self { stage, server };
        fs::create_dir(two.there("")).unwrap();
        let ssh = two.server.settings(&two.there(""));
        let users = "[agents.builder]\nbackend = \"ssh:build\"\n";
        let text = format!("{rules}\n[ssh.build]\n{ssh}\n{users}");
        two.stage.write("haft.toml", text);
        two
    }

    /// A path over there.
    fn there(&self, path: &str) -> PathBuf {
        self.server.file("home/app").join(path)
    }

    fn read_there(&self, path: &str) -> String {
        fs::read_to_string(self.there(path)).unwrap()
    }

    /// A call, by nobody in particular or by the builder.
    fn write(&self, agent: Option<&str>, path: &str, content: &str) -> Ran {
        let (path, content) = (format!("path={path}"), format!("content={content}"));
        let mut words = vec!["call", "write", &path, &content];
        words.extend(agent.into_iter().flat_map(|agent| ["--agent", agent]));
        self.stage.haft(&words)
    }

    /// As the builder's own shell would run the program.
    fn as_builder(&self, words: &[&str]) -> Ran {
        let mut command = self.stage.command(words);
        let ran = command.env("HAFT_AGENT", "builder").output().unwrap();
        Ran {
            code: ran.status.code().unwrap(),
            stdout: String::from_utf8(ran.stdout).unwrap(),
            stderr: String::from_utf8(ran.stderr).unwrap(),
        }
    }
}

const FREE: &str = "[policy]\npreset = \"workspace\"\n";

#[test]
#[ignore = "ci: needs OpenSSH"]
fn each_agent_works_on_its_back_end_and_the_record_has_both() {
    let two = Two::new(FREE);
    let trusted = two.stage.haft(&["trust"]).ok();
    for part in [
        "`ssh:build` is `",
        "on `tester@127.0.0.1`, over SSH",
        "`ssh:build` for agent `builder` (haft.toml:",
    ] {
        assert!(trusted.contains(part), "{part}: {trusted}");
    }
    two.stage.write("same.txt", "before");
    fs::write(two.there("same.txt"), "before there").unwrap();
    two.write(None, "same.txt", "mine").ok();
    two.write(Some("builder"), "same.txt", "theirs").ok();
    assert_eq!(two.stage.read("same.txt"), "mine");
    assert_eq!(two.read_there("same.txt"), "theirs");

    let log = two.stage.json(&["log", "--json"]);
    let log = log.as_array().unwrap();
    assert_eq!(log.len(), 2, "{log:?}");
    let place = |call: &Value| call["workspace"].as_str().unwrap().to_owned();
    let over_there = format!("ssh:127.0.0.1#build:{}", two.there("").display());
    let over_there = over_there.trim_end_matches('/');
    assert_ne!(place(&log[0]), place(&log[1]));
    assert!(log.iter().any(|call| place(call) == over_there), "{log:?}");
    let table = two.stage.haft(&["log"]).ok();
    assert!(table.contains("ssh:127.0.0.1#build:"), "{table}");
    let last = two.stage.json(&["show", "last", "--json"]);
    assert_eq!(last["agent"], "builder", "{last}");
    let sessions = two.stage.json(&["sessions", "--json"]);
    assert_eq!(sessions.as_array().unwrap().len(), 2, "{sessions}");

    // The last call that changed something was made there, and is taken back there.
    two.stage.haft(&["undo"]).ok();
    assert_eq!(two.read_there("same.txt"), "before there");
    assert_eq!(two.stage.read("same.txt"), "mine");
    let here = log.iter().find(|call| place(call) != over_there).unwrap();
    let id = here["call"].as_str().unwrap();
    let diff = two.stage.haft(&["diff", id]).ok();
    assert!(diff.contains("-before") && diff.contains("+mine"), "{diff}");
    two.stage.haft(&["undo", id]).ok();
    assert_eq!(two.stage.read("same.txt"), "before");
    assert_eq!(two.read_there("same.txt"), "before there");
}

#[test]
#[ignore = "ci: needs OpenSSH"]
fn a_grant_of_one_back_end_does_not_serve_the_other() {
    let two = Two::new("[policy]\npreset = \"careful\"\nask = [\"write\"]\n");
    two.stage.haft(&["trust"]).ok();
    let denied = |agent: Option<&str>| two.write(agent, "a.txt", "x").code != 0;
    assert!(denied(None) && denied(Some("builder")));
    let add = ["grants", "add", "--yes", "write(a.txt)"];
    two.stage.haft(&add).ok();
    assert!(denied(Some("builder")));
    two.write(None, "a.txt", "x").ok();
    assert!(!two.there("a.txt").exists());
    let listed = two.stage.json(&["grants", "list", "--json"]);
    let id = listed[0]["id"].as_str().unwrap().to_owned();
    two.stage.haft(&["grants", "revoke", &id]).ok();
    assert!(denied(None));

    two.as_builder(&add).ok();
    assert!(denied(None));
    two.write(Some("builder"), "a.txt", "there").ok();
    assert_eq!(two.read_there("a.txt"), "there");
    // It is one of this directory, so it is listed here too.
    let listed = two.stage.json(&["grants", "list", "--json"]);
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
}

#[test]
#[ignore = "ci: needs OpenSSH"]
fn the_back_end_in_force_is_said_with_its_reason() {
    let two = Two::new(FREE);
    two.stage.haft(&["trust"]).ok();
    let why = |words: &[&str]| {
        let all = [&["tools", "--why", "write", "--json"], words].concat();
        two.stage.json(&all)
    };
    let (cli, builder) = (why(&[]), why(&["--agent", "builder"]));
    assert_eq!(cli["backend"], "local");
    assert_eq!(builder["backend"], "ssh:build");
    let because = builder["backend_because"].as_str().unwrap();
    assert!(
        because.contains("in [agents.builder] says so (haft.toml:"),
        "{because}"
    );
    let doctor = two.stage.haft(&["doctor"]).stdout;
    assert!(doctor.contains("`local` for agent `cli`"), "{doctor}");
    assert!(
        doctor.contains("`ssh:build` for agent `builder`"),
        "{doctor}"
    );
    let doctor = two.as_builder(&["doctor"]).stdout;
    assert!(
        doctor.contains("`ssh:build` for agent `builder`: `backend` in"),
        "{doctor}"
    );
}

/// Over MCP, one process serves callers of both, and whoever was given a back end cannot leave it.
#[test]
#[ignore = "ci: needs OpenSSH"]
fn over_mcp_the_caller_decides_and_cannot_leave_its_back_end() {
    let two = Two::new(FREE);
    two.stage.haft(&["trust"]).ok();
    let write = |agent: &mut Agent, content: &str, caller: Option<&str>| {
        let input = json!({"path": "m.txt", "content": content});
        let mut parameters = modern(json!({"name": "write", "arguments": input}));
        if let Some(name) = caller {
            parameters["_meta"]["dev.haft/caller"] = json!({"agent": name});
        }
        let answer = agent.ask("tools/call", &parameters);
        let terminal = &answer["result"]["_meta"]["dev.haft/terminal"];
        assert_eq!(terminal, "succeeded", "{answer}");
    };
    let mut main = Agent::start(&two.stage, &["--agent", "main"]);
    write(&mut main, "main", None);
    write(&mut main, "main's builder", Some("builder"));
    drop(main);
    assert_eq!(two.stage.read("m.txt"), "main");
    assert_eq!(two.read_there("m.txt"), "main's builder");
    let mut builder = Agent::start(&two.stage, &["--agent", "builder"]);
    write(&mut builder, "builder's other", Some("other"));
    drop(builder);
    assert_eq!(two.stage.read("m.txt"), "main");
    assert_eq!(two.read_there("m.txt"), "builder's other");
}

/// A back end that cannot be reached is an error of those who work there, and never the default.
#[test]
#[ignore = "ci: needs OpenSSH"]
fn a_back_end_that_does_not_answer_is_never_replaced_by_this_machine() {
    let two = Two::new(FREE);
    two.stage.haft(&["trust"]).ok();
    let Two { stage, server } = two;
    drop(server);
    let words = ["call", "write", "path=a.txt", "content=x"];
    stage.haft(&words).ok();
    let refused = stage.haft(
        &[
            &words[..2],
            &["path=b.txt", "content=x", "--agent", "builder"],
        ]
        .concat(),
    );
    assert_ne!(refused.code, 0);
    assert!(stage.exists("a.txt") && !stage.exists("b.txt"));
    let mut main = Agent::start(&stage, &["--agent", "main"]);
    let mut parameters =
        modern(json!({"name": "write", "arguments": {"path": "c.txt", "content": "x"}}));
    parameters["_meta"]["dev.haft/caller"] = json!({"agent": "builder"});
    let answer = main.ask("tools/call", &parameters);
    let said = answer.to_string();
    assert!(
        said.contains("the back end `ssh:build` cannot be used"),
        "{said}"
    );
    assert!(!stage.exists("c.txt"));
}
