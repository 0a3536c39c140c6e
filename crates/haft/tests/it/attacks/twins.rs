//! The benign twins of the sandbox: what developers do all day (`attacks/twins.toml`), once outside
//! as the control and once through Haft in tier T2. A command that fails only there is a false
//! denial, and the build fails.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use haft::{Haft, LocalOptions, Preset, contract::ops::Layer, prelude::*};
use serde::Deserialize;
use tempfile::TempDir;

use super::place;
use crate::days::runner::toolchain::toolchain;

const TEXT: &str = include_str!("../../../../../attacks/twins.toml");

/// Stands for the temporary directory, which outside is one of this run's own.
const TEMPORARY: &str = "<tmp>";

/// How long one may take.
const LIMIT: Duration = Duration::from_mins(2);

/// How many twins the data holds.
pub(crate) fn count() -> usize {
    toml::from_str::<Twins>(TEXT).unwrap().twin.len()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Twins {
    /// Scripts that make a workspace, by name. They are run outside.
    place: BTreeMap<String, String>,
    twin: Vec<Twin>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Twin {
    name: String,
    place: String,
    /// Programs it takes that a machine may lack. Without them the test fails.
    #[serde(default)]
    needs: Vec<String>,
    run: String,
    shows: String,
}

/// What twins run in: a workspace that is made anew for each, and a home beside it.
struct Ground {
    base: TempDir,
    search_path: String,
}

impl Ground {
    fn new(toolchain: &Path) -> Self {
        let base = tempfile::Builder::new().prefix("twin-").tempdir().unwrap();
        fs::create_dir(base.path().join("app")).unwrap();
        fs::create_dir(base.path().join("data")).unwrap();
        let search_path = format!(
            "{}:{}",
            toolchain.join("bin").display(),
            LocalOptions::default().search_path
        );
        Self { base, search_path }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }

    /// Makes the workspace of a twin. The directory itself stays: it is held open.
    fn prepare(&self, script: &str) -> Result<(), String> {
        for entry in fs::read_dir(self.at("app")).unwrap() {
            let path = entry.unwrap().path();
            if path.symlink_metadata().unwrap().is_dir() {
                fs::remove_dir_all(path).unwrap();
            } else {
                fs::remove_file(path).unwrap();
            }
        }
        for name in ["home", "tmp"] {
            let _ = fs::remove_dir_all(self.at(name));
            fs::create_dir(self.at(name)).unwrap();
        }
        self.run(script).map(drop)
    }

    /// Runs a script outside, with the variables a command of Haft's has.
    fn run(&self, script: &str) -> Result<String, String> {
        let script = script.replace(TEMPORARY, self.at("tmp").to_str().unwrap());
        let mut command = Command::new("timeout");
        command
            .arg(LIMIT.as_secs().to_string())
            .args(["bash", "-c", &script])
            .current_dir(self.at("app"))
            .env_clear()
            .env("PATH", &self.search_path)
            .env("HOME", self.at("home"))
            .env("TMPDIR", self.at("tmp"))
            .env("USER", "haft")
            .env("LANG", "C.UTF-8")
            .env("LC_ALL", "C.UTF-8")
            .env("TERM", "dumb")
            .env("SHELL", "/bin/bash")
            .env("GIT_EDITOR", "false")
            .stdin(Stdio::null());
        let output = command.output().unwrap();
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        if output.status.success() {
            Ok(text)
        } else {
            Err(format!("{}: {text:.1500}", output.status))
        }
    }

    /// A Haft over the workspace, whose commands are in tier T2 and find the toolchain.
    async fn haft(&self, toolchain: &Path) -> Haft {
        let options = LocalOptions {
            search_path: self.search_path.clone(),
            sandbox: place::sandbox(&[toolchain]),
            ..LocalOptions::default()
        };
        Haft::open(self.at("app"))
            .data_dir(self.at("data"))
            .local(options)
            .preset(Preset::Workspace)
            .allow("@all")
            .sandbox("bash", SandboxMode::Full)
            .build()
            .await
            .unwrap()
    }
}

/// Runs a script in the sandbox. A refusal is a false denial even if the script bears it, unless it
/// is of the network, which is not granted here: `npm` asks for news of itself on its way.
async fn inside(haft: &Haft, script: &str) -> Result<String, String> {
    let limit = u64::try_from(LIMIT.as_millis()).unwrap();
    let command = script.replace(TEMPORARY, "/tmp");
    let arguments = json!({ "command": command, "timeout_ms": limit });
    let outcome = haft.call("bash", arguments).await;
    let refusals: Vec<String> = outcome
        .facts
        .refusals
        .iter()
        .filter(|refusal| refusal.layer != Layer::Egress)
        .map(ToString::to_string)
        .collect();
    if outcome.succeeded() && refusals.is_empty() {
        Ok(outcome.text())
    } else {
        Err(format!("{refusals:?} {:.1500}", outcome.model_text()))
    }
}

impl Twin {
    fn judge(&self, result: Result<String, String>) -> Result<(), String> {
        match result {
            Ok(text) if text.contains(&self.shows) => Ok(()),
            Ok(text) => Err(format!("{:?} is not in {text:.1500}", self.shows)),
            Err(error) => Err(error),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "ci: needs bubblewrap"]
async fn sb_00_ordinary_commands_pass_in_t2() {
    let twins: Twins = toml::from_str(TEXT).unwrap();
    let only = super::stage::only();
    let toolchain = toolchain();
    let (outside, confined) = (Arc::new(Ground::new(&toolchain)), Ground::new(&toolchain));
    let haft = confined.haft(&toolchain).await;
    let chosen = |twin: &&Twin| only.as_ref().is_none_or(|only| twin.name.contains(only));
    let chosen: Vec<&Twin> = twins.twin.iter().filter(chosen).collect();
    assert!(!chosen.is_empty(), "no twin is called that");
    let needed: BTreeSet<&String> = chosen.iter().flat_map(|twin| &twin.needs).collect();
    let is_missing = |program: &&&String| outside.run(&format!("command -v {program}")).is_err();
    let missing: Vec<&&String> = needed.iter().filter(is_missing).collect();
    assert!(
        missing.is_empty(),
        "these programs are not installed: {missing:?}; `.ci/run` as root installs them"
    );
    let (mut run, mut lost, mut denied) = (0, Vec::new(), Vec::new());
    for twin in chosen {
        let prepare = &twins.place[&twin.place];
        let begun = Instant::now();
        run += 1;
        outside.prepare(prepare).unwrap();
        confined.prepare(prepare).unwrap();
        let control = tokio::task::spawn_blocking({
            let (outside, script) = (Arc::clone(&outside), twin.run.clone());
            move || outside.run(&script)
        });
        let result = inside(&haft, &twin.run).await;
        if let Err(error) = twin.judge(control.await.unwrap()) {
            lost.push(format!("{}: {error}", twin.name));
        }
        let result = twin.judge(result);
        let word = if result.is_ok() { "passed" } else { "DENIED" };
        println!("{word}  {} ({:?})", twin.name, begun.elapsed());
        if let Err(error) = result {
            denied.push(format!("{}: {error}", twin.name));
        }
    }
    haft.close().await.unwrap();
    println!("{} false denials of {run} ordinary commands", denied.len());
    assert!(
        lost.is_empty() && denied.is_empty(),
        "{} false denials:\n{}\n{} controls failed:\n{}",
        denied.len(),
        denied.join("\n"),
        lost.len(),
        lost.join("\n")
    );
}
