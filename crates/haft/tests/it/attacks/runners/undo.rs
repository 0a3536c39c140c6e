//! UN-01 to UN-05: an undo loses nothing that somebody else did, does what it can, and gives nobody a
//! right they did not have. The tool is registered as `haft undo` does it, for people.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use haft::{Haft, LocalOptions, contract::ProviderId, prelude::*, script::ScriptManifest};
use haft_tools::catalog::undo_tool;
use rustix::fs::Mode;

use crate::attacks::{
    attempt::{Verdict, check},
    corpus::Case,
    place,
    scene::{Said, Scene},
};

/// Rounds of each race, in the group and in the soak.
const FEW: u32 = 240;
const MANY: u32 = 2_000;

async fn undoing(scene: &Arc<Scene>, case: &Case) -> Haft {
    let haft = scene.haft(case, &Said::default()).await;
    let tools = undo_tool().into_iter().collect();
    let registry = haft.runtime().registry();
    registry.register(&ProviderId::builtin(), tools).unwrap();
    haft
}

async fn undo(haft: &Haft, calls: &[&Outcome], paths: &[&str]) -> Arc<Outcome> {
    let calls: Vec<String> = calls.iter().map(|call| call.call.to_string()).collect();
    haft.call("undo", json!({ "calls": calls, "paths": paths }))
        .await
}

fn list<'a>(outcome: &'a Outcome, key: &str) -> Vec<&'a str> {
    let listed = outcome.structured.as_ref().and_then(|all| all.get(key));
    let listed = listed.and_then(Value::as_array).into_iter().flatten();
    let name = |entry: &'a Value| entry.as_str().or_else(|| entry["path"].as_str());
    listed.filter_map(name).collect()
}

/// Saves as editors do: another file that takes the name.
fn save(workspace: &Path, text: &str) {
    let aside = workspace.join("saving");
    fs::write(&aside, text).unwrap();
    fs::rename(aside, workspace.join("f")).unwrap();
}

fn holds(workspace: &Path, text: &str) -> bool {
    let entries = fs::read_dir(workspace).unwrap();
    let mut texts = entries.filter_map(|entry| fs::read_to_string(entry.unwrap().path()).ok());
    texts.any(|found| found == text)
}

/// Saves the file after a while.
fn save_after(workspace: &Path, text: &str, delay: Duration) -> JoinHandle<()> {
    let (aside, name) = (workspace.join("saving"), workspace.join("f"));
    fs::write(&aside, text).unwrap();
    thread::spawn(move || {
        thread::sleep(delay);
        fs::rename(aside, name).unwrap();
    })
}

/// When somebody else saves, counted from the beginning of a call. One round of four goes through the
/// whole of the call. The others close in on the moment that matters: whoever saves before the look is
/// met by the call, and whoever saves after the removal is not.
struct Moment {
    whole: Duration,
    closing_in: Duration,
    step: Duration,
    too_early: bool,
}

impl Moment {
    fn within(whole: Duration) -> Self {
        Self {
            whole,
            closing_in: whole / 2,
            step: whole / 4,
            too_early: true,
        }
    }

    fn of(&self, round: u32) -> Duration {
        match round % 4 {
            0 => self.whole * (round / 4 % 30) / 30,
            _ => self.closing_in,
        }
    }

    /// Learns of a round whether the call met what was saved.
    fn learn(&mut self, round: u32, met: bool) {
        if round.is_multiple_of(4) {
            return;
        }
        if met != self.too_early {
            self.too_early = met;
            self.step = (self.step / 2).max(self.whole / 400);
        }
        self.closing_in = if met {
            (self.closing_in + self.step).min(self.whole)
        } else {
            self.closing_in.saturating_sub(self.step)
        };
    }
}

/// A way in which a file goes from its name.
#[derive(Debug, Clone, Copy)]
enum Way {
    Undo,
    Delete,
    Move,
}

/// A file `f` that holds `mine`, and what takes it away.
enum Prepared {
    Undo(Arc<Outcome>),
    Patch(&'static str),
}

impl Way {
    async fn prepare(self, haft: &Haft, workspace: &Path) -> Prepared {
        for name in ["f", "g"] {
            let _ = fs::remove_file(workspace.join(name));
        }
        let patch = match self {
            Self::Undo => {
                let write = json!({ "path": "f", "content": "mine\n" });
                return Prepared::Undo(haft.call("write", write).await);
            }
            // Both say what the file holds, so that they are not meant for what somebody else saved.
            Self::Delete => "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-mine\n",
            Self::Move => {
                "*** Begin Patch\n*** Update File: f\n*** Move to: g\n@@\n-mine\n+mine too\n\
                 *** End Patch\n"
            }
        };
        save(workspace, "mine\n");
        Prepared::Patch(patch)
    }
}

impl Prepared {
    /// Takes the file away; whether that went well.
    async fn finish(self, haft: &Haft) -> bool {
        match self {
            Self::Undo(created) => {
                let undone = undo(haft, &[&created], &["f"]).await;
                list(&undone, "restored") == ["f"]
            }
            Self::Patch(patch) => {
                let patched = haft.call("patch", json!({ "patch": patch })).await;
                patched.succeeded()
            }
        }
    }
}

/// UN-01.
pub(super) async fn saved_by_others(case: &Case, verdict: &mut Verdict) {
    race(case, verdict, FEW).await;
}

/// UN-01 for long.
pub(super) async fn saved_by_others_for_long(case: &Case, verdict: &mut Verdict) {
    race(case, verdict, MANY).await;
}

async fn race(case: &Case, verdict: &mut Verdict, rounds: u32) {
    let scene = Scene::in_memory(case);
    let workspace = scene.workspace.clone();
    save(&workspace, "mine");
    let looked_at = fs::read_to_string(workspace.join("f")).unwrap();
    save(&workspace, "theirs");
    fs::remove_file(workspace.join("f")).unwrap();
    let lost = looked_at == "mine" && !holds(&workspace, "theirs");
    verdict.control(
        "a look and then a removal",
        check(lost, || "kept".to_owned()),
    );

    let haft = undoing(&scene, case).await;
    for way in [Way::Undo, Way::Delete, Way::Move] {
        let begun = Instant::now();
        way.prepare(&haft, &workspace).await.finish(&haft).await;
        let mut moment = Moment::within(begun.elapsed());
        let (mut lost, mut refused) = (Vec::new(), 0);
        for round in 0..rounds {
            let prepared = way.prepare(&haft, &workspace).await;
            let theirs = format!("theirs {way:?} {round}\n");
            let saver = save_after(&workspace, &theirs, moment.of(round));
            let met = !prepared.finish(&haft).await;
            moment.learn(round, met);
            refused += u32::from(met);
            saver.join().unwrap();
            if !holds(&workspace, &theirs) {
                lost.push(round);
            }
        }
        println!("  {way:?}: {refused} of {rounds} met what somebody saved");
        let kept = check(lost.is_empty(), || {
            format!("{} of {rounds} were lost: {lost:?}", lost.len())
        });
        verdict.attempt(&format!("{way:?}"), kept);
    }
    for name in ["f", "g"] {
        let _ = fs::remove_file(workspace.join(name));
    }
    let created = haft
        .call("write", json!({"path": "f", "content": "mine\n"}))
        .await;
    let undone = undo(&haft, &[&created], &["f"]).await;
    let gone = undone.succeeded() && !workspace.join("f").exists();
    verdict.twin("nobody else saves", check(gone, || undone.model_text()));
    haft.close().await.unwrap();
}

/// UN-02.
pub(super) async fn one_in_the_way(case: &Case, verdict: &mut Verdict) {
    let scene = Scene::of(case);
    fs::write(scene.outside.join("aim"), "theirs").unwrap();
    symlink(scene.outside.join("aim"), scene.at("naive")).unwrap();
    fs::write(scene.at("naive"), "put back").unwrap();
    let followed = fs::read_to_string(scene.outside.join("aim")).unwrap();
    verdict.control(
        "writing back by name",
        check(followed == "put back", || followed.clone()),
    );

    let scene = Scene::of(case);
    let haft = undoing(&scene, case).await;
    let names = ["a", "dir/b", "inside", "y", "z"];
    let mut calls = Vec::new();
    for name in names {
        let path = scene.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "before\n").unwrap();
        let write = json!({ "path": name, "content": "after\n" });
        calls.push(haft.call("write", write).await);
    }
    fs::remove_file(scene.at("a")).unwrap();
    symlink(scene.outside.join("secret"), scene.at("a")).unwrap();
    fs::remove_dir_all(scene.at("dir")).unwrap();
    fs::write(scene.at("dir"), "a file\n").unwrap();
    fs::remove_file(scene.at("inside")).unwrap();
    fs::write(scene.at("elsewhere"), "after\n").unwrap();
    symlink("elsewhere", scene.at("inside")).unwrap();
    let calls: Vec<&Outcome> = calls.iter().map(|call| &**call).collect();
    let undone = undo(&haft, &calls, &names).await;
    let text = |name: &str| fs::read_to_string(scene.at(name)).unwrap_or_default();
    let reported = list(&undone, "impossible") == ["a", "dir/b", "inside"];
    verdict.attempt("each is reported", check(reported, || undone.model_text()));
    let untouched = fs::read_to_string(scene.outside.join("secret")).unwrap() == scene.canary
        && text("dir") == "a file\n"
        && text("elsewhere") == "after\n";
    verdict.attempt(
        "none is written",
        check(untouched, || "something was".to_owned()),
    );
    let back = list(&undone, "restored") == ["y", "z"]
        && ["y", "z"].iter().all(|name| text(name) == "before\n");
    verdict.twin("the others go back", check(back, || undone.model_text()));
    haft.close().await.unwrap();
}

fn mode(path: &Path) -> u32 {
    let metadata = fs::metadata(path).unwrap();
    metadata.permissions().mode() & 0o7777
}

/// UN-03.
pub(super) async fn kept_rights(case: &Case, verdict: &mut Verdict) {
    let scene = Scene::of(case);
    let haft = undoing(&scene, case).await;
    let put = |name: &str, bits: u32| {
        fs::write(scene.at(name), "old\n").unwrap();
        fs::set_permissions(scene.at(name), fs::Permissions::from_mode(bits)).unwrap();
    };
    for (bits, expected) in [(0o600, 0o600), (0o640, 0o640), (0o4700, 0o700)] {
        put("gone", bits);
        let patch = "*** Begin Patch\n*** Delete File: gone\n*** End Patch\n";
        let removed = haft.call("patch", json!({ "patch": patch })).await;
        let undone = undo(&haft, &[&removed], &["gone"]).await;
        let found = scene.at("gone").exists().then(|| mode(&scene.at("gone")));
        verdict.attempt(
            &format!("{bits:o} comes back"),
            check(found == Some(expected), || {
                format!("{found:?} {}", undone.model_text())
            }),
        );
    }
    for tool in ["write", "edit", "patch"] {
        for (bits, expected) in [(0o600, 0o600), (0o6750, 0o750)] {
            let name = format!("{tool}-{bits:o}");
            put(&name, bits);
            let input = match tool {
                "write" => json!({ "path": name, "content": "new\n", "force": true }),
                "edit" => json!({ "path": name, "edits": [{ "old": "old", "new": "new" }] }),
                _ => json!({ "patch": format!(
                    "*** Begin Patch\n*** Update File: {name}\n@@\n-old\n+new\n*** End Patch\n"
                ) }),
            };
            let outcome = haft.call(tool, input).await;
            let found = mode(&scene.at(&name));
            verdict.attempt(
                &name,
                check(outcome.succeeded() && found == expected, || {
                    format!("{found:o} {}", outcome.model_text())
                }),
            );
        }
    }
    put("program", 0o755);
    let edit = json!({"path": "program", "edits": [{"old": "old", "new": "new"}]});
    let outcome = haft.call("edit", edit).await;
    let runs = outcome.succeeded() && mode(&scene.at("program")) == 0o755;
    verdict.twin("a program stays one", check(runs, || outcome.model_text()));
    haft.close().await.unwrap();
}

/// UN-04.
pub(super) async fn reserved_names(case: &Case, verdict: &mut Verdict) {
    let manifest = |name: &str| {
        ScriptManifest::parse(&format!(
            "name = '{name}'\ndescription = 'does x'\nprogram = 'x.sh'"
        ))
    };
    // The name is free until somebody runs `haft undo`, so that nothing else would refuse it.
    let scene = Scene::of(case);
    let haft = scene.haft(case, &Said::default()).await;
    let free = haft
        .tools()
        .iter()
        .all(|tool| tool.key().tool.as_str() != "undo");
    verdict.control("the name is free", check(free, || "it is taken".to_owned()));
    haft.close().await.unwrap();
    for name in ["undo", "haft", "mcp__x__y"] {
        let refused = manifest(name).is_err();
        verdict.attempt(name, check(refused, || "it was taken".to_owned()));
    }
    let honest = manifest("undo_migration");
    verdict.twin(
        "undo_migration",
        check(honest.is_ok(), || format!("{honest:?}")),
    );
}

/// UN-05. A name that is a link, a file or open to others stands for one that somebody else made: to us
/// they are all the same, not ours alone.
pub(super) async fn taken_name(case: &Case, verdict: &mut Verdict) {
    let name = format!("haft-{}", rustix::process::geteuid().as_raw());
    for taken in ["a link", "a file", "open to others", "nothing"] {
        let scene = Scene::of(case);
        let temporary = scene.workspace.with_file_name("tmp");
        fs::create_dir(&temporary).unwrap();
        fs::set_permissions(&temporary, fs::Permissions::from_mode(0o1777)).unwrap();
        let usual = temporary.join(&name);
        match taken {
            "a link" => symlink(&scene.outside, &usual).unwrap(),
            "a file" => fs::write(&usual, "").unwrap(),
            "open to others" => {
                fs::create_dir(&usual).unwrap();
                fs::set_permissions(&usual, fs::Permissions::from_mode(0o777)).unwrap();
            }
            _ => {}
        }
        if taken == "open to others" {
            fs::write(usual.join("planted"), "").unwrap();
            verdict.control(
                "others can put something there",
                check(mode(&usual) == 0o777, || "they cannot".to_owned()),
            );
        }
        let local = LocalOptions {
            temporary: temporary.display().to_string(),
            sandbox: place::sandbox(&[]),
            ..LocalOptions::default()
        };
        let opened = place::open(case.place, &scene.workspace, local).await;
        let haft = opened
            .data_dir(&scene.data)
            .allow("@all")
            .sandbox("bash", SandboxMode::Basic)
            .build()
            .await
            .unwrap();
        let before = rustix::process::umask(Mode::empty());
        let command = "cd \"$TMPDIR\" && touch file && stat -c '%a %u' . .. ../.. && pwd -P";
        let outcome = haft.call("bash", json!({ "command": command })).await;
        rustix::process::umask(before);
        let text = outcome.text();
        let private = format!("700 {}", rustix::process::geteuid().as_raw());
        let ours = outcome.succeeded() && text.matches(&private).count() == 3;
        // Where nothing stands in the way, the usual name is used.
        let there = text.contains(&format!("/{name}/")) == (taken == "nothing");
        let judged = check(ours && there, || outcome.model_text());
        match taken {
            "nothing" => verdict.twin("the name is free", judged),
            taken => verdict.attempt(taken, judged),
        }
        haft.close().await.unwrap();
    }
}
