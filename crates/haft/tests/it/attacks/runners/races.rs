//! SL-07 and SL-08 through the whole pipeline: a directory is swapped for a symlink to the
//! outside, over and over, while calls work in it. The operations beneath are raced for 20,000
//! rounds each in `haft-backends`; here plan, approval of the plan and run race too.

use std::{fs, os::unix::fs::symlink, path::Path, sync::Arc, time::Duration};

use haft::{Haft, prelude::*};

use super::swapper::Swapper;
use crate::attacks::{
    attempt::{self, Verdict, check},
    corpus::Case,
    scene::{Said, Scene},
};

/// Calls of each kind, in the group and in the soak. Each race has its swaps whatever the count, see
/// [`FEWEST_SWAPS`].
const FEW: usize = 150;
const MANY: usize = 1_000;

/// Rounds after which a control that has not lost counts as one that cannot.
const CONTROL_ROUNDS: usize = 2_000_000;

/// Swaps without which there was no race.
const FEWEST_SWAPS: u64 = 50;

/// A tool, and its arguments in a round.
type Raced = (&'static str, fn(usize) -> Value);

/// `d` is a directory with a harmless file called `secret`; `link` leads to the real one.
fn prepare(case: &Case) -> Arc<Scene> {
    let scene = Scene::in_memory(case);
    fs::create_dir(scene.at("d")).unwrap();
    fs::write(scene.at("d/secret"), "harmless").unwrap();
    fs::write(scene.at("source"), "copied").unwrap();
    symlink(&scene.outside, scene.at("link")).unwrap();
    scene
}

/// Checks where a path leads and then uses it, as a tool that trusts names does.
fn naive(scene: &Scene, path: &Path, act: impl Fn(&Path) -> bool) -> Result<(), String> {
    let swapper = Swapper::start(&scene.workspace);
    for round in 0..CONTROL_ROUNDS {
        let real = fs::canonicalize(path.parent().unwrap());
        if real.is_ok_and(|real| real.starts_with(&scene.workspace)) && act(path) {
            println!(
                "the control lost after {round} rounds, {} swaps",
                swapper.swaps()
            );
            return Ok(());
        }
    }
    Err(format!("{CONTROL_ROUNDS} rounds without an escape"))
}

/// SL-07.
pub(super) async fn reads(case: &Case, verdict: &mut Verdict) {
    race_reads(case, verdict, FEW).await;
}

/// SL-07 for long.
pub(super) async fn reads_for_long(case: &Case, verdict: &mut Verdict) {
    race_reads(case, verdict, MANY).await;
}

async fn race_reads(case: &Case, verdict: &mut Verdict, rounds: usize) {
    let scene = prepare(case);
    let lost = naive(&scene, &scene.at("d/secret"), |path| {
        fs::read_to_string(path).is_ok_and(|text| text == scene.canary)
    });
    verdict.control("realpath, then read", lost);

    let scene = prepare(case);
    let said = Said::default();
    let haft = scene.haft(case, &said).await;
    for (tool, arguments) in [
        ("read", json!({ "path": "d/secret" })),
        ("grep", json!({ "pattern": ".", "path": "d" })),
    ] {
        let raced = race(&scene, &haft, rounds, tool, |_| arguments.clone()).await;
        verdict.attempt(tool, raced);
    }
    haft.close().await.unwrap();
    verdict.attempt(
        "the search for the secret",
        attempt::nothing_leaked(&scene, &said),
    );
    let twin = haft_without_race(case).await;
    verdict.twin("the same without a race", twin);
}

/// SL-08.
pub(super) async fn changes(case: &Case, verdict: &mut Verdict) {
    race_changes(case, verdict, FEW).await;
}

/// SL-08 for long.
pub(super) async fn changes_for_long(case: &Case, verdict: &mut Verdict) {
    race_changes(case, verdict, MANY).await;
}

async fn race_changes(case: &Case, verdict: &mut Verdict, rounds: usize) {
    let scene = prepare(case);
    let made = scene.outside.join("new");
    let lost = naive(&scene, &scene.at("d/new"), |path| {
        let _ = fs::write(path, "x");
        made.exists()
    });
    verdict.control("realpath, then write", lost);

    let scene = prepare(case);
    let said = Said::default();
    let haft = scene.haft(case, &said).await;
    let calls: [Raced; 6] = [
        (
            "write",
            |round| json!({ "path": "d/new", "content": round.to_string() }),
        ),
        (
            "edit",
            |_| json!({ "path": "d/secret", "old_string": "harmless", "new_string": "harmless!" }),
        ),
        (
            "copy",
            |round| json!({ "source": "source", "destination": format!("d/{round}") }),
        ),
        (
            "copy",
            |round| json!({ "source": "d/secret", "destination": format!("stolen-{round}") }),
        ),
        ("patch", |round| {
            let patch = format!(
                "*** Begin Patch\n*** Add File: d/{}/{round}/x\n+x\n*** End Patch\n",
                round % 7
            );
            json!({ "patch": patch })
        }),
        ("patch", |round| {
            let patch = format!("*** Begin Patch\n*** Delete File: d/{round}\n*** End Patch\n");
            json!({ "patch": patch })
        }),
    ];
    let around = scene.around();
    for (tool, arguments) in calls {
        verdict.attempt(tool, race(&scene, &haft, rounds, tool, arguments).await);
    }
    let untouched = check(scene.around() == around, || {
        "the outside was changed".to_owned()
    });
    verdict.attempt("the outside", untouched);
    let stolen = (0..rounds)
        .filter_map(|round| fs::read_to_string(scene.at(&format!("stolen-{round}"))).ok())
        .filter(|text| text.contains("canary"))
        .count();
    verdict.attempt(
        "copies",
        check(stolen == 0, || format!("{stolen} hold the secret")),
    );
    haft.close().await.unwrap();
    verdict.attempt(
        "the search for the secret",
        attempt::nothing_leaked(&scene, &said),
    );
    verdict.twin("the same without a race", haft_without_race(case).await);
}

/// SL-16: the directory that is bound as the workspace is another one from moment to moment.
pub(super) async fn rebound(case: &Case, verdict: &mut Verdict) {
    const CALLS: usize = 80;
    let scene = Scene::of(case);
    let swapper = Swapper::between(&scene.workspace, &scene.outside, Duration::from_millis(3));
    let named = (0..CONTROL_ROUNDS)
        .any(|_| fs::read_to_string(scene.at("secret")).is_ok_and(|text| text == scene.canary));
    drop(swapper);
    verdict.control(
        "the name leads elsewhere",
        check(named, || "it never did".to_owned()),
    );

    let scene = Scene::of(case);
    let said = Said::default();
    let haft = scene.haft(case, &said).await;
    let (mut ran, mut moved, mut other) = (0, 0, Vec::new());
    {
        let swapper = Swapper::between(&scene.workspace, &scene.outside, Duration::from_millis(3));
        for _ in 0..CALLS {
            let command = "cat secret .ssh/id_rsa; echo x > made; echo ran";
            let outcome = haft.call("bash", json!({ "command": command })).await;
            said.note(&format!("{outcome:?}"));
            match outcome.error.as_ref().map(|failure| failure.kind) {
                None => ran += 1,
                Some(ErrorKind::WorkspaceMoved) => moved += 1,
                Some(_) => other.push(outcome.model_text()),
            }
        }
        println!(
            "{CALLS} commands: {ran} ran, {moved} refused, {} otherwise, {} swaps",
            other.len(),
            swapper.swaps()
        );
    }
    // Which of the two names leads where depends on when the swapping ended.
    let made = [&scene.workspace, &scene.outside]
        .iter()
        .any(|root| root.join("made").exists() && root.join("secret").exists());
    verdict.attempt(
        "the other directory",
        check(!made, || "was written to".to_owned()),
    );
    verdict.attempt(
        "refusals",
        check(moved > 0, || "the swap was never met".to_owned()),
    );
    verdict.attempt("refusals", check(other.is_empty(), || other[0].clone()));
    haft.close().await.unwrap();
    let leaked = attempt::nothing_leaked(&scene, &said);
    verdict.attempt("the search for the secret", leaked);
    let scene = Scene::of(case);
    let haft = scene.haft(case, &Said::default()).await;
    let outcome = haft
        .call("bash", json!({ "command": "echo x > made; cat made" }))
        .await;
    verdict.twin(
        "the same without a race",
        check(outcome.succeeded(), || outcome.model_text()),
    );
    haft.close().await.unwrap();
}

/// Makes calls while the swap goes on; an answer that holds the secret is an escape.
async fn race(
    scene: &Arc<Scene>,
    haft: &Haft,
    rounds: usize,
    tool: &str,
    arguments: impl Fn(usize) -> Value,
) -> Result<(), String> {
    let swapper = Swapper::start(&scene.workspace);
    let (mut worked, mut made) = (0, 0);
    // Where calls are quick and the swapping thread gets no turn, more of them are made.
    while made < rounds || (swapper.swaps() < FEWEST_SWAPS && made < rounds * 100) {
        let round = made;
        made += 1;
        let outcome = haft.call(tool, arguments(round)).await;
        let text = outcome.model_text();
        check(!text.contains(&scene.canary), || {
            format!("escaped in round {round}")
        })?;
        worked += usize::from(outcome.succeeded());
    }
    let swaps = swapper.swaps();
    println!("{tool}: {made} calls, {worked} worked, {swaps} swaps, 0 escapes");
    check(swaps >= FEWEST_SWAPS, || {
        "the race did not take place".to_owned()
    })?;
    check(worked < made, || "the swap was never met".to_owned())
}

async fn haft_without_race(case: &Case) -> Result<(), String> {
    let scene = prepare(case);
    let haft = scene.haft(case, &Said::default()).await;
    for (tool, arguments) in [
        ("read", json!({ "path": "d/secret" })),
        ("write", json!({ "path": "d/new", "content": "x" })),
        (
            "edit",
            json!({ "path": "d/secret", "old_string": "harmless", "new_string": "safe" }),
        ),
        (
            "copy",
            json!({ "source": "source", "destination": "d/copy" }),
        ),
    ] {
        let outcome = haft.call(tool, arguments).await;
        check(outcome.succeeded(), || {
            format!("{tool}: {}", outcome.model_text())
        })?;
    }
    haft.close().await.map_err(|error| error.to_string())
}
