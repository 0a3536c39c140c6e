//! The parts of a case that happen in a sandbox: commands, and the helper's attempts to make system
//! calls. Each is judged by what came of it outside, not by how it ended.
//!
//! Every one can be run again with a layer of the sandbox left out; see `layers.rs`.

use std::{collections::BTreeSet, fmt::Write as _, sync::Arc};

use haft::{
    Haft,
    contract::ops::{Layer, Tier},
    prelude::*,
};
use haft_testkit::PATIENCE;

use super::{
    attempt::{Verdict, check, left, nothing_leaked, recorded},
    canary::Forms,
    corpus::{Case, Commanded, Probe},
    outside, place,
    scene::{Said, Scene},
};

/// Runs the commands and attempts of a case in its sandbox, and their controls outside.
pub(crate) async fn run(case: &Case, verdict: &mut Verdict) {
    let here =
        |command: &&Commanded| command.places.is_empty() || command.places.contains(&case.place);
    let commands: Vec<&Commanded> = case.command.iter().filter(here).collect();
    if commands.is_empty() && case.probe.is_empty() {
        return;
    }
    for probe in &case.probe {
        if let Some(tried) = control_of(probe) {
            verdict.control(tried, outside_succeeds(case, tried));
        }
    }
    let scene = Scene::of(case);
    let said = Said::default();
    let haft = scene.haft(case, &said).await;
    for command in commands {
        let held = holds(&scene, &haft, &said, command, Judging::Everything).await;
        verdict.attempt(&format!("`{:.160}`", command.run), held);
    }
    for probe in &case.probe {
        let held = refused(&scene, &haft, &said, probe, Judging::Everything).await;
        verdict.attempt(&probe.attempt, held);
    }
    haft.close().await.unwrap();
    verdict.attempt("the search for the secret", nothing_leaked(&scene, &said));
}

/// What came of each command and attempt of a case with some layers left out.
pub(crate) async fn without(
    case: &Case,
    layers: &BTreeSet<Layer>,
) -> Vec<(String, Result<(), String>)> {
    let mut results = Vec::new();
    let commands = case
        .command
        .iter()
        .filter(|command| !command.only_with_all_layers);
    for command in commands {
        let (scene, said, haft) = fresh(case, layers).await;
        let held = holds(&scene, &haft, &said, command, Judging::Effects).await;
        results.push((command.run.clone(), held));
        haft.close().await.unwrap();
    }
    if !case.probe.is_empty() {
        let (scene, said, haft) = fresh(case, layers).await;
        for probe in &case.probe {
            let held = refused(&scene, &haft, &said, probe, Judging::Effects).await;
            results.push((probe.attempt.clone(), held));
        }
        haft.close().await.unwrap();
    }
    results
}

async fn fresh(case: &Case, layers: &BTreeSet<Layer>) -> (Arc<Scene>, Said, Haft) {
    let scene = Scene::of(case);
    let said = Said::default();
    let haft = scene.haft_without(case, &said, layers.clone()).await;
    (scene, said, haft)
}

/// The attempt that must succeed outside, if any user can see it succeed.
fn control_of(probe: &Probe) -> Option<&str> {
    let tried = probe.control.as_deref().unwrap_or(&probe.attempt);
    (!tried.is_empty()).then_some(tried)
}

/// An attempt without a sandbox, in a scene of its own.
fn outside_succeeds(case: &Case, tried: &str) -> Result<(), String> {
    let scene = Scene::of(case);
    let script = scene.expand(&format!("<probe> {tried}"));
    let (_, text) = outside::run(&script, &scene.workspace);
    check(text.contains(SUCCEEDED), || format!("{text:.400}"))
}

const SUCCEEDED: &str = "\"result\":\"succeeded\"";
const REFUSED: &str = "\"result\":\"refused\"";

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judging {
    /// Everything, also what is said of it.
    Everything,
    /// What came of it alone: without a layer, another one may refuse with other words.
    Effects,
}

/// A command did not get what it was after.
async fn holds(
    scene: &Arc<Scene>,
    haft: &Haft,
    said: &Said,
    command: &Commanded,
    judging: Judging,
) -> Result<(), String> {
    command.first.iter().for_each(|step| scene.step(step));
    let outcome = call(scene, haft, said, &command.run).await?;
    let text = outcome.model_text();
    for shows in command
        .shows
        .iter()
        .filter(|_| judging == Judging::Everything)
    {
        let shows = scene.expand(shows);
        check(text.contains(&shows), || {
            format!("{shows:?} is not in {text:.600}")
        })?;
    }
    for hides in &command.hides {
        let hides = scene.expand(hides);
        check(!text.contains(&hides), || {
            format!("{hides:?} is in {text:.600}")
        })?;
    }
    command
        .leaves
        .iter()
        .try_for_each(|leaves| left(scene, leaves))?;
    match judging {
        Judging::Everything => told(&outcome, command.told.as_deref()),
        Judging::Effects => Ok(()),
    }
}

/// One of the helper's attempts was refused, or ended for making it.
async fn refused(
    scene: &Arc<Scene>,
    haft: &Haft,
    said: &Said,
    probe: &Probe,
    judging: Judging,
) -> Result<(), String> {
    let script = format!("<probe> {}", probe.attempt);
    let outcome = call(scene, haft, said, &script).await?;
    let text = outcome.model_text();
    if probe.unheard {
        return Ok(());
    }
    check(!text.contains(SUCCEEDED), || format!("{text:.600}"))?;
    if judging == Judging::Effects {
        return Ok(());
    }
    // A call through a foreign entry point ends the process, so it has no time to say anything.
    let killed =
        outcome.facts.signal.is_some() || outcome.facts.exit_code.is_some_and(|code| code > 128);
    check(text.contains(REFUSED) || killed, || {
        format!("neither refused nor ended: {text:.600}")
    })?;
    told(&outcome, probe.told.as_deref())
}

/// Runs a command, and looks at everything around it.
async fn call(
    scene: &Arc<Scene>,
    haft: &Haft,
    said: &Said,
    command: &str,
) -> Result<Arc<Outcome>, String> {
    let around = scene.around();
    let command = unread(&scene.expand(command));
    let arguments = json!({ "command": command, "timeout_ms": PATIENCE.as_millis() });
    let outcome = haft.call("bash", arguments).await;
    said.note(&format!("{outcome:?}"));
    let kind = outcome.error.as_ref().map(|failure| failure.kind);
    let ran = matches!(
        kind,
        None | Some(ErrorKind::CommandFailed | ErrorKind::LimitExceeded)
    );
    check(ran, || {
        format!("it was not run: {:.600}", outcome.model_text())
    })?;
    check(outcome.facts.tier == Some(Tier::T2), || {
        format!("it ran in {:?}", outcome.facts.tier)
    })?;
    recorded(haft, &outcome).await?;
    let text = outcome.model_text();
    if let Some(form) = Forms::of(&scene.canary).within(text.as_bytes()) {
        return Err(format!("it printed the secret {form}"));
    }
    check(scene.around() == around, || {
        "something outside the workspace was changed".to_owned()
    })?;
    scene.reached()?;
    Ok(outcome)
}

/// The same script in a form that shell analysis cannot read. It would stop many of these before
/// anything runs; what is tried here is the sandbox, which must hold whatever reaches it.
fn unread(script: &str) -> String {
    let mut octal = String::new();
    for byte in script.bytes() {
        write!(octal, "\\{byte:03o}").unwrap();
    }
    format!("eval \"$(printf '{octal}')\"")
}

/// The outcome says what the sandbox refused.
fn told(outcome: &Outcome, expect: Option<&str>) -> Result<(), String> {
    let Some(expect) = expect else { return Ok(()) };
    let refusals: Vec<String> = outcome
        .facts
        .refusals
        .iter()
        .map(ToString::to_string)
        .collect();
    check(
        refusals.iter().any(|refusal| refusal.contains(expect)),
        || format!("the outcome does not tell of `{expect}`: {refusals:?}"),
    )
}

/// The helper is where it must be; said once, before everything else fails for it.
#[test]
fn the_helper_is_built() {
    let (_, text) = outside::run(
        &format!(
            "{} __haft-helper probe landlock-create",
            place::helper().display()
        ),
        std::path::Path::new("/"),
    );
    assert!(text.contains(SUCCEEDED), "{text}");
}
