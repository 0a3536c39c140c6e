//! The groups that are decided before anything runs (SH, AI), against the whole stack: each script
//! in plain bash as the control, under the preset `workspace` in tier T1 with nobody to ask, and in the
//! sandbox with every rule allowing everything: presets leave to tier T2 what it holds, so there each
//! script has to be harmless although it runs.
//!
//! `<P>` is a file outside the workspace, and `./evil` a program that makes it: whoever makes it has
//! got through. What the answers must be is shown for every script in `haft-policy`, tests `shell`.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf, sync::Arc};

use haft::prelude::*;
use haft_contract::ops::Tier;
use serde::Deserialize;

use super::{
    attempt::{Verdict, check, nothing_leaked},
    corpus::{Case, Place},
    log, outside,
    scene::{Said, Scene},
    table,
};

const PRESET: &str = "[policy]\npreset = \"workspace\"";

/// How long a control may take, in seconds.
const LIMIT: &str = "10";

/// Cases that are judged at once.
const AT_ONCE: usize = 4;

/// A group whose cases are scripts.
#[derive(Debug, Deserialize)]
struct Scripts {
    group: String,
    case: Vec<Decided>,
}

/// The words of a case that this runner needs; `haft-policy` reads all of them and knows no others.
#[derive(Debug, Deserialize)]
struct Decided {
    id: String,
    title: String,
    #[serde(default)]
    asks: Vec<String>,
    #[serde(default)]
    denies: Vec<String>,
    rules: Option<String>,
}

impl Decided {
    /// The scripts that make the file outside if nobody stops them.
    fn probes(&self) -> Vec<&str> {
        let all = self.asks.iter().chain(&self.denies).map(String::as_str);
        // Those with rules of their own are about the rules, and those that are repeated to
        // thousands of words are about limits.
        all.filter(|_| self.rules.is_none())
            .filter(|script| script.contains("<P>") || script.contains("./evil"))
            .filter(|script| !script.contains("*20>") && !script.contains("*64>"))
            .collect()
    }
}

/// A scene with what the scripts work on.
struct Stage {
    scene: Arc<Scene>,
    case: Case,
    made: PathBuf,
}

impl Stage {
    fn new(id: &str, place: Place, rules: Option<&str>) -> Self {
        let mut case: Case = toml::from_str(&format!("id = \"{id}\"")).unwrap();
        case.place = place;
        case.rules = rules.map(str::to_owned);
        let scene = Scene::of(&case);
        let made = PathBuf::from(scene.expand("<outside>/P"));
        for name in ["f", "a", "x"] {
            fs::write(scene.at(name), "a\n").unwrap();
        }
        let evil = scene.at("evil");
        fs::write(&evil, format!("#!/bin/sh\ntouch {}\n", made.display())).unwrap();
        fs::set_permissions(evil, fs::Permissions::from_mode(0o755)).unwrap();
        Self { scene, case, made }
    }

    fn script(&self, probe: &str) -> String {
        self.scene.expand(&probe.replace("<P>", "<outside>/P"))
    }

    /// Whether the file is there; it is gone afterwards.
    fn was_made(&self) -> bool {
        let made = self.made.exists();
        let _ = fs::remove_file(&self.made);
        made
    }
}

/// In plain bash: how many of the scripts do what they are after.
fn control(case: &Decided, verdict: &mut Verdict) -> usize {
    let mut worked = 0;
    for probe in case.probes() {
        let stage = Stage::new(&case.id, Place::T2, None);
        let script = stage.script(probe).replace('\'', r"'\''");
        let limited = format!("timeout {LIMIT} bash -c '{script}'");
        outside::run(&limited, &stage.scene.at("."));
        worked += usize::from(stage.was_made());
    }
    let outside = case.probes().iter().any(|probe| probe.contains("<P>"));
    if outside {
        let result = check(worked > 0, || "no script made the file".to_owned());
        verdict.control(&case.title, result);
    }
    worked
}

/// Under the preset in tier T1, where the text alone decides, with nobody to ask: denied, and nothing
/// changed.
async fn decided(case: &Decided, verdict: &mut Verdict) {
    let stage = Stage::new(&case.id, Place::T1, Some(PRESET));
    let said = Said::default();
    let haft = stage.scene.haft(&stage.case, &said).await;
    for probe in case.probes() {
        let inside = stage.scene.inside();
        let outcome = haft
            .call("bash", json!({ "command": stage.script(probe) }))
            .await;
        let denied = check(outcome.terminal == Terminal::Denied, || {
            format!("it was {:?}", outcome.terminal)
        });
        let untouched = check(!stage.was_made() && stage.scene.inside() == inside, || {
            "it changed something".to_owned()
        });
        verdict.attempt(probe, denied.and(untouched));
    }
    haft.close().await.unwrap();
}

/// In the sandbox, as if everything had been approved: whatever it does, it does not get outside. How
/// many of the scripts ran there.
async fn confined(case: &Decided, verdict: &mut Verdict) -> usize {
    let mut ran = 0;
    let stage = Stage::new(&case.id, Place::T2, None);
    let said = Said::default();
    let haft = stage.scene.haft(&stage.case, &said).await;
    for probe in case.probes() {
        let around = stage.scene.around();
        let arguments = json!({ "command": stage.script(probe), "timeout_ms": 5000 });
        let outcome = haft.call("bash", arguments).await;
        ran += usize::from(outcome.facts.tier == Some(Tier::T2));
        said.note(&format!("{outcome:?}"));
        let held = check(!stage.was_made() && stage.scene.around() == around, || {
            "it got out of the sandbox".to_owned()
        });
        verdict.attempt(probe, held);
    }
    haft.close().await.unwrap();
    let leaked = nothing_leaked(&stage.scene, &said);
    verdict.attempt("the search for the secret", leaked);
    ran
}

/// A case in plain bash, under the preset and in the sandbox; how many scripts worked and ran.
async fn judge(case: Arc<Decided>) -> (Verdict, usize, usize) {
    let plain = tokio::task::spawn_blocking({
        let case = Arc::clone(&case);
        move || {
            let mut verdict = Verdict::default();
            let worked = control(&case, &mut verdict);
            (verdict, worked)
        }
    });
    let (mut verdict, worked) = plain.await.unwrap();
    decided(&case, &mut verdict).await;
    let ran = confined(&case, &mut verdict).await;
    let faults = verdict.faults.iter_mut();
    faults.for_each(|fault| *fault = format!("{}: {fault}", case.id));
    println!("{} {:?} {}", case.id, verdict.tally, case.title);
    (verdict, worked, ran)
}

async fn hold(text: &str, fewest: usize) {
    log::keep();
    let scripts: Scripts = toml::from_str(text).unwrap();
    let (mut total, mut worked, mut ran) = (Verdict::default(), 0, 0);
    let cases = scripts.case.into_iter();
    let mut cases = cases.filter(|case| !case.probes().is_empty());
    let mut judging = tokio::task::JoinSet::new();
    loop {
        // A script that waits until its time is up keeps no other from running.
        while judging.len() < AT_ONCE
            && let Some(case) = cases.next()
        {
            judging.spawn(Box::pin(judge(Arc::new(case))));
        }
        let Some(judged) = judging.join_next().await else {
            break;
        };
        let (verdict, worked_in_bash, ran_in_sandbox) = judged.unwrap();
        worked += worked_in_bash;
        ran += ran_in_sandbox;
        total.add(verdict);
    }
    println!("{}", table::sum(&scripts.group, Place::T2, total.tally));
    println!("{worked} scripts made the file in plain bash, {ran} ran in the sandbox");
    assert!(total.faults.is_empty(), "{}", total.faults.join("\n"));
    assert!(worked >= fewest, "only {worked} scripts work in plain bash");
    assert!(ran >= worked, "only {ran} scripts ran in the sandbox");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "ci: needs bubblewrap; a sandbox for every script"]
async fn sh_01_to_sh_58_scripts_are_denied_and_harmless_in_t2() {
    hold(include_str!("../../../../../attacks/sh.toml"), 80).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "ci: needs bubblewrap; a sandbox for every script"]
async fn ai_01_to_ai_20_scripts_are_denied_and_harmless_in_t2() {
    hold(include_str!("../../../../../attacks/ai.toml"), 30).await;
}
