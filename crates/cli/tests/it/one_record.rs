//! What an agent does is in the record that its person looks at, under the rules that the person sees,
//! however few variables the agent passes on; and `haft doctor` says which they are.

use std::{fs, path::PathBuf, process::Command};

use serde_json::{Value, json};

use crate::{mcp, support::Stage};

/// A person whose variables say where things are.
struct Person {
    stage: Stage,
    variables: Vec<(&'static str, PathBuf)>,
}

impl Person {
    fn with(variables: &[(&'static str, &str)]) -> Self {
        let stage = Stage::bare();
        let variables = variables
            .iter()
            .map(|(name, path)| (*name, stage.home.join(path)))
            .collect();
        Self { stage, variables }
    }

    /// Runs the program with the person's variables, and returns what it printed.
    fn haft(&self, args: &[&str]) -> String {
        let mut command = self.stage.command(args);
        command.envs(self.variables.iter().map(|(name, path)| (name, path)));
        let ran = command.output().unwrap();
        let errors = String::from_utf8(ran.stderr).unwrap();
        assert!(ran.status.success(), "{args:?}: {errors}");
        String::from_utf8(ran.stdout).unwrap()
    }

    fn log(&self) -> Vec<Value> {
        let printed = self.haft(&["log", "--jsonl"]);
        let line = |line: &str| serde_json::from_str(line).unwrap();
        printed.lines().map(line).collect()
    }

    /// The entry in Codex's configuration.
    fn entry(&self) -> toml::Table {
        let path = self.stage.home.join(".codex/config.toml");
        let config: toml::Table = fs::read_to_string(path).unwrap().parse().unwrap();
        config["mcp_servers"]["haft"].as_table().unwrap().clone()
    }

    fn arguments(&self) -> Vec<String> {
        let entry = self.entry();
        let arguments = entry["args"].as_array().unwrap().iter();
        arguments
            .map(|word| word.as_str().unwrap().to_owned())
            .collect()
    }

    /// The agent's server, started as Codex does: with a home, a path and what the entry says.
    fn started(&self) -> mcp::Agent {
        let entry = self.entry();
        let mut command = Command::new(entry["command"].as_str().unwrap());
        command
            .args(self.arguments())
            .current_dir(&self.stage.work)
            .env_clear()
            .env("HOME", &self.stage.home)
            .env("PATH", "/usr/bin:/bin")
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        for (name, value) in entry
            .get("env")
            .and_then(toml::Value::as_table)
            .into_iter()
            .flatten()
        {
            command.env(name, value.as_str().unwrap());
        }
        let mut agent = mcp::Agent::of(command);
        agent.initialize();
        agent
    }
}

fn read(path: &str) -> Value {
    json!({"name": "read", "arguments": {"path": path}})
}

#[test]
fn what_an_agent_with_few_variables_does_is_in_the_record_its_person_sees() {
    for variables in [
        &[("XDG_DATA_HOME", "data")][..],
        &[("XDG_DATA_HOME", "data"), ("XDG_CONFIG_HOME", "config")],
        &[("HAFT_DATA_DIR", "record"), ("HAFT_CONFIG", "rules.toml")],
        &[],
    ] {
        let person = Person::with(variables);
        person.stage.write("a.txt", "hello\n");
        fs::write(person.stage.home.join("rules.toml"), "[policy]\n").unwrap();
        person.haft(&["mcp", "install", "codex"]);
        let mut agent = person.started();
        let answer = agent.ask("tools/call", &read("a.txt"));
        assert!(answer.to_string().contains("hello"), "{answer}");
        assert_eq!(agent.close().2, 0);
        let log = person.log();
        assert_eq!(log.len(), 1, "{variables:?}: {log:?}");
        assert_eq!(log[0]["agent"], "codex", "{log:?}");
    }
}

#[test]
fn an_agent_obeys_its_persons_own_rules_and_the_workspaces() {
    let person = Person::with(&[("XDG_DATA_HOME", "data"), ("XDG_CONFIG_HOME", "config")]);
    let stage = &person.stage;
    fs::create_dir_all(stage.home.join("config/haft")).unwrap();
    let own = stage.home.join("config/haft/haft.toml");
    fs::write(own, "[policy]\ndeny = [\"read(own.txt)\"]\n").unwrap();
    stage.write("haft.toml", "[policy]\ndeny = [\"read(theirs.txt)\"]\n");
    person.haft(&["trust"]);
    for file in ["own.txt", "theirs.txt", "a.txt"] {
        stage.write(file, "hello\n");
    }
    person.haft(&["mcp", "install", "codex"]);
    let mut agent = person.started();
    for (file, readable) in [("own.txt", false), ("theirs.txt", false), ("a.txt", true)] {
        let answer = agent.ask("tools/call", &read(file));
        assert_eq!(
            answer["result"]["isError"],
            json!(!readable),
            "{file}: {answer}"
        );
    }
}

#[test]
fn nothing_is_written_that_is_the_default_and_what_holds_no_longer_goes() {
    let mut person = Person::with(&[("XDG_CONFIG_HOME", "config"), ("XDG_DATA_HOME", "data")]);
    person.haft(&["mcp", "install", "codex"]);
    let data = person.stage.home.join("data/haft").display().to_string();
    assert_eq!(
        person.arguments(),
        ["mcp", "--agent", "codex", "--data-dir", &data]
    );
    let config = person.stage.home.join("config").display().to_string();
    assert_eq!(
        person.entry()["env"]["XDG_CONFIG_HOME"].as_str(),
        Some(&*config)
    );
    for variables in [
        &[][..],
        &[
            ("XDG_DATA_HOME", ".local/share"),
            ("XDG_CONFIG_HOME", ".config"),
        ],
    ] {
        let path = |(name, path): &(_, &str)| (*name, person.stage.home.join(path));
        person.variables = variables.iter().map(path).collect();
        let said = person.haft(&["mcp", "install", "codex"]);
        let first = if variables.is_empty() {
            "installed"
        } else {
            "already"
        };
        assert!(said.starts_with(first), "{said}");
        assert_eq!(person.arguments(), ["mcp", "--agent", "codex"]);
        assert!(!person.entry().contains_key("env"));
    }
}

#[test]
fn who_asks_and_in_which_conversation_is_for_the_agent_to_say() {
    let person = Person::with(&[("HAFT_AGENT", "me"), ("HAFT_SESSION", "today")]);
    person.haft(&["mcp", "install", "codex"]);
    assert_eq!(person.arguments(), ["mcp", "--agent", "codex"]);
    let person = Person::with(&[("HAFT_WORKSPACE", ""), ("HAFT_LOG", "x")]);
    person.haft(&["mcp", "install", "codex", "--workspace", "sub"]);
    let fixed = person.stage.work.join("sub").display().to_string();
    assert_eq!(
        person.arguments(),
        ["mcp", "--agent", "codex", "--workspace", &fixed]
    );
}

#[test]
fn import_writes_the_same_entry() {
    let person = Person::with(&[("XDG_DATA_HOME", "data")]);
    let path = person.stage.home.join(".codex/config.toml");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "[mcp_servers.x]\ncommand = \"/srv/x\"\n").unwrap();
    person.haft(&["mcp", "import", "codex", "--yes"]);
    let data = person.stage.home.join("data/haft").display().to_string();
    assert_eq!(
        person.arguments(),
        ["mcp", "--agent", "codex", "--data-dir", &data]
    );
}
