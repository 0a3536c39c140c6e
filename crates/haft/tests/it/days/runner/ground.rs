//! Where the calls of a day run: the project as its data says, a home directory beside it, and Hafts
//! over it, set up as `haft init` and `haft call` do it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use haft::{
    Haft, HaftBuilder, LocalOptions, Preset,
    contract::Outcome,
    prelude::SandboxMode,
    sandbox::{Limits, Profile, SandboxOptions, helper::Helper},
};
use haft_backends::ChangeOptions;
use haft_host::config::template;
use serde_json::json;
use tempfile::TempDir;

use super::{corpus::Day, toolchain::toolchain};

/// How long a command may take outside.
const LIMIT: Duration = Duration::from_mins(2);

/// What a judge runs so that calls can name a process: a command that no day holds.
const STAYS: &str = "sleep 86399";

/// What is not put back: it is large, and made by programs that see for themselves what is current.
const NOT_PUT_BACK: [&str; 3] = ["/target", "/node_modules", "/.venv"];

/// The temporary directory as models name it. In the sandbox it is a command's own.
const TEMPORARY: &str = "/tmp/";

pub(crate) struct Ground {
    _base: TempDir,
    root: PathBuf,
    toolchain: PathBuf,
    search_path: String,
}

impl Ground {
    /// The project of a day, made anew.
    pub(crate) fn new(day: &Day) -> Self {
        let base = tempfile::Builder::new().prefix("day-").tempdir().unwrap();
        let root = base.path().canonicalize().unwrap();
        let toolchain = toolchain();
        let programs = toolchain.join("bin");
        let search_path = LocalOptions::default().search_path;
        let ground = Self {
            _base: base,
            root,
            search_path: format!("{}:{search_path}", programs.display()),
            toolchain,
        };
        for name in ["app", "data", "home", "saved", "tmp"] {
            fs::create_dir(ground.at(name)).unwrap();
        }
        for (path, text) in &day.files {
            put(&ground.workspace().join(path), text);
        }
        for (path, text) in &day.beside {
            put(&ground.at(path), text);
        }
        let rules = template::haft_toml(Preset::Workspace.as_str());
        put(&ground.workspace().join("haft.toml"), &rules);
        let prepared = ground.run(&format!("set -e\n{}", day.prepare));
        assert_eq!(prepared.0, Some(0), "{}: {}", day.name, prepared.1);
        ground
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn workspace(&self) -> PathBuf {
        self.at("app")
    }

    /// Replaces what stands for a place or a process.
    pub(crate) fn expand(&self, text: &str, process: Option<&str>) -> String {
        let path = |name: &str| self.at(name).to_str().unwrap().to_owned();
        text.replace("<ws>", &path("app"))
            .replace("<home>", &path("home"))
            .replace("<beside>", self.root.to_str().unwrap())
            .replace("<process>", process.unwrap_or("none"))
    }

    /// Those of the programs that are not there.
    pub(crate) fn missing<'p>(&self, programs: &[&'p str]) -> Vec<&'p str> {
        let script = "for name; do command -v $name >/dev/null || echo $name; done";
        let (_, text) = self.run(&format!("set -- {}\n{script}", programs.join(" ")));
        let is_missing = |program: &&&str| text.lines().any(|line| line == **program);
        programs.iter().filter(is_missing).copied().collect()
    }

    /// Runs a script as a plain process of a developer; its exit code and what it printed.
    pub(crate) fn run(&self, script: &str) -> (Option<i32>, String) {
        let temporary = format!("{}/", self.at("tmp").display());
        let script = script.replace(TEMPORARY, &temporary);
        let output = Command::new("timeout")
            .arg(LIMIT.as_secs().to_string())
            .args(["bash", "-c", &script])
            .current_dir(self.workspace())
            .env_clear()
            .env("PATH", &self.search_path)
            .env("HOME", self.at("home"))
            .env("TMPDIR", self.at("tmp"))
            .env("USER", "dana")
            .env("LANG", "C.UTF-8")
            .env("LC_ALL", "C.UTF-8")
            .env("TERM", "dumb")
            .env("SHELL", "/bin/bash")
            .env("GIT_EDITOR", "false")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        (output.status.code(), text)
    }

    /// Keeps the workspace as it is now.
    pub(crate) fn save(&self) {
        self.copy("app", "saved");
    }

    /// Puts the workspace back as it was kept.
    pub(crate) fn restore(&self) {
        self.copy("saved", "app");
    }

    fn copy(&self, from: &str, to: &str) {
        let status = Command::new("rsync")
            // Two changes within a second differ.
            .args(["-a", "--delete", "--modify-window=-1"])
            .args(NOT_PUT_BACK.map(|path| format!("--exclude={path}")))
            .arg(format!("{}/", self.at(from).display()))
            .arg(self.at(to))
            .status();
        assert!(status.unwrap().success(), "rsync failed");
    }

    /// A Haft that judges calls under a preset, and a process that it keeps: sessions know no
    /// process of another one.
    pub(crate) async fn judge(&self, preset: Preset, helper: &Helper) -> (Haft, String) {
        let haft = self
            .open(preset.as_str(), helper)
            .policy_text("haft.toml", template::haft_toml(preset.as_str()))
            .allow(format!("bash({STAYS})"))
            .build()
            .await
            .unwrap();
        let arguments = json!({ "command": STAYS, "background": true });
        let outcome = haft.call("bash", arguments).await;
        let process = process_of(&outcome);
        let process = process.unwrap_or_else(|| panic!("{}", outcome.model_text()));
        (haft, process.to_owned())
    }

    /// A Haft that runs calls in the sandbox; whoever is asked says yes.
    pub(crate) async fn confined(&self, helper: &Helper) -> Haft {
        self.open("confined", helper)
            .policy_text("haft.toml", template::haft_toml("workspace"))
            .approve_with(|request| async move { request.approve("dana") })
            .build()
            .await
            .unwrap()
    }

    /// A Haft that allows everything and confines nothing.
    pub(crate) async fn unconfined(&self, helper: &Helper) -> Haft {
        self.open("unconfined", helper)
            .preset(Preset::Workspace)
            .allow("@all")
            .sandbox("bash", SandboxMode::Off)
            .build()
            .await
            .unwrap()
    }

    fn open(&self, name: &str, helper: &Helper) -> HaftBuilder {
        let data = self.at("data").join(name);
        fs::create_dir(&data).unwrap();
        let options = LocalOptions {
            search_path: self.search_path.clone(),
            user: "dana".to_owned(),
            sandbox: SandboxOptions {
                helper: helper.clone(),
                profile: Profile {
                    home: Some(self.at("home")),
                    read_only: vec![self.toolchain.clone()],
                    ..Profile::default()
                },
                limits: Limits::for_this_machine(),
                quarantine: Some(data.join("quarantine")),
                ..SandboxOptions::default()
            },
            changes: Some(ChangeOptions::new(&data)),
            ..LocalOptions::default()
        };
        Haft::open(self.workspace()).data_dir(data).local(options)
    }
}

/// The id of the process that a call started and that stays.
pub(crate) fn process_of(outcome: &Outcome) -> Option<&str> {
    let process = outcome.structured.as_ref()?.get("process")?;
    process.get("id")?.as_str()
}

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}
