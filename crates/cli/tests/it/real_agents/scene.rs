//! An agent in a home and a project of its own, with Haft installed in it as a person would do it.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    rc::Rc,
};

use haft_agents::{
    agent::{self, Agent, AgentStand},
    model::{Model, Turn},
};
use serde_json::{Value, json};

use crate::support::{Ran, Stage};

/// A server that says a text again.
const SERVER: &str = include_str!("../../../../mcp/tests/fixtures/plain.py");

/// Commands run in T1: in a user namespace that has one user, the files of root are nobody's, so that
/// Haft does not trust the bubblewrap it finds there. Tiers are tested elsewhere.
const TIER: &str = "\n[tools.bash]\nsandbox = \"basic\"\n";

/// How long an agent may take for one run, in seconds. The slowest needs half a minute by itself.
const RUN_SECONDS: &str = "240";

/// The agent that `haft mcp install` calls so.
pub(crate) fn agent(id: &str) -> &'static dyn Agent {
    let found = agent::ALL.into_iter().find(|agent| agent.id() == id);
    found.expect("an agent of that name")
}

/// An agent, its model, and the workspace it works in.
pub(crate) struct Scene {
    pub(crate) agent: &'static dyn Agent,
    pub(crate) model: Model,
    pub(crate) stage: Rc<Stage>,
    stand: AgentStand,
}

impl Scene {
    /// An agent with Haft in its configuration, in a workspace with these rules.
    pub(crate) fn new(agent: &'static dyn Agent, rules: &str, script: Vec<Turn>) -> Self {
        let scene = Self::without_haft(agent, rules, script);
        scene.install(&[]);
        scene
    }

    /// The same before Haft is installed.
    pub(crate) fn without_haft(agent: &'static dyn Agent, rules: &str, script: Vec<Turn>) -> Self {
        let rules = format!("{rules}{TIER}");
        Self::at(agent, Rc::new(Stage::with_config(&rules)), script)
    }

    /// The same with a mounted server `notes` that nobody has accepted.
    pub(crate) fn mounting(agent: &'static dyn Agent, rules: &str, script: Vec<Turn>) -> Self {
        let stage = Stage::bare();
        let folder = stage.home.join("servers");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("plain.py"), SERVER).unwrap();
        let (folder, script_file) = (folder.display(), folder.join("plain.py"));
        stage.write(
            "haft.toml",
            format!(
                "{rules}{TIER}[[mcp.servers]]\nid = \"notes\"\n\
                 command = [\"python3\", \"{}\", \"good\"]\ncwd = \"{folder}\"\n\
                 sandbox = {{ mode = \"basic\" }}\n",
                script_file.display(),
            ),
        );
        stage.haft(&["trust"]).ok();
        let scene = Self::at(agent, Rc::new(stage), script);
        scene.install(&[]);
        scene
    }

    /// Another agent in the same home and workspace.
    pub(crate) fn join(&self, agent: &'static dyn Agent, script: Vec<Turn>) -> Self {
        let scene = Self::at(agent, Rc::clone(&self.stage), script);
        scene.install(&[]);
        scene
    }

    fn at(agent: &'static dyn Agent, stage: Rc<Stage>, script: Vec<Turn>) -> Self {
        let stand = AgentStand {
            home: stage.home.clone(),
            work: stage.work.clone(),
            peers: peers(),
        };
        let model = Model::start(agent.wire(), script);
        agent.configure(&stand, &model);
        Self {
            agent,
            model,
            stage,
            stand,
        }
    }

    /// Runs `haft mcp install`.
    pub(crate) fn install(&self, more: &[&str]) -> Ran {
        let words = [&["mcp", "install", self.agent.id()], more].concat();
        let ran = self.stage.haft(&words);
        assert_eq!(ran.code, 0, "{}", ran.all());
        ran
    }

    /// The variables of the agent.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let path = format!(
            "{}:/usr/local/bin:/usr/bin:/bin",
            self.stand.node_directory()
        );
        let home = self.stage.home.display().to_string();
        // Most of an agent's start is the compiling of its own script, which is the same in every test.
        let compiled = env::temp_dir().join("compiled-agents");
        let compiled = compiled.display().to_string();
        let mut variables = vec![
            ("PATH".to_owned(), path),
            ("HOME".to_owned(), home),
            ("USER".to_owned(), "ada".to_owned()),
            ("TZ".to_owned(), "UTC".to_owned()),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
            ("TERM".to_owned(), "xterm-256color".to_owned()),
            ("NODE_COMPILE_CACHE".to_owned(), compiled),
        ];
        variables.extend(self.agent.environment(&self.stand, &self.model));
        variables
    }

    /// Starts the agent with one prompt.
    pub(crate) fn start(&self, prompt: &str) -> Command {
        let words = self.agent.headless(&self.stand, prompt);
        let mut command = Command::new("timeout");
        command
            .args(["--kill-after=5", RUN_SECONDS])
            .args(words)
            .current_dir(&self.stage.work)
            .env_clear()
            .envs(self.variables())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Has the agent answer one prompt.
    pub(crate) fn run(&self, prompt: &str) -> Output {
        let ended = self.start(prompt).output().unwrap();
        assert!(
            ended.status.success(),
            "{}: {:?}\n--- stdout\n{}\n--- stderr\n{}",
            self.agent.title(),
            ended.status,
            String::from_utf8_lossy(&ended.stdout),
            String::from_utf8_lossy(&ended.stderr),
        );
        let strange = self.model.strange();
        assert!(strange.is_empty(), "asked of the model: {strange:?}");
        ended
    }

    /// The words that start the agent on a screen.
    pub(crate) fn screen_words(&self) -> Vec<String> {
        let words = self.agent.on_screen(&self.stand);
        words.unwrap_or_else(|| panic!("{} is not driven on a screen", self.agent.title()))
    }

    /// The calls on record, oldest first.
    pub(crate) fn log(&self) -> Vec<Value> {
        lines(&self.stage.haft(&["--jsonl", "log", "--limit", "100"]).ok())
    }

    /// How the calls on record ended, oldest first.
    pub(crate) fn ends(&self) -> Vec<String> {
        let end = |call: &Value| call["outcome"].as_str().map(str::to_owned);
        self.log().iter().filter_map(end).collect()
    }

    /// The questions that wait for an answer.
    pub(crate) fn questions(&self) -> Vec<Value> {
        lines(&self.stage.haft(&["--jsonl", "approvals"]).ok())
    }

    /// Notes what was seen, for the page about agents.
    pub(crate) fn saw(&self, scenario: &str, what: &str) {
        let Some(directory) = env::var_os("HAFT_AGENTS_REPORT") else {
            return;
        };
        fs::create_dir_all(&directory).unwrap();
        let report = json!({
            "agent": self.agent.title(),
            "version": self.agent.version(&self.stand),
            "scenario": scenario,
            "saw": what,
        });
        let name = format!("{scenario}.{}.json", self.agent.id());
        fs::write(Path::new(&directory).join(name), report.to_string()).unwrap();
    }
}

/// What was printed, one value a line.
fn lines(printed: &str) -> Vec<Value> {
    let value = |line: &str| serde_json::from_str(line).unwrap();
    printed.lines().map(value).collect()
}

fn peers() -> PathBuf {
    let peers = env::var_os("HAFT_MCP_PEERS");
    PathBuf::from(peers.expect("HAFT_MCP_PEERS says where agents are installed"))
}
