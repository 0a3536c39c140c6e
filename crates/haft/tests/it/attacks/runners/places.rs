//! Cases that depend on where something is or whose it is: another tenant's directory, a
//! directory that ignores case, a file of another user.

use std::{env, fs, os::unix::fs::chown, path::PathBuf, time::Instant};

use haft::prelude::*;
use haft_sandbox::jail::Mounts;

use crate::attacks::{
    attempt::{self, Verdict, calling, check, judge},
    corpus::{Case, Place},
    scene::{Said, Scene},
};

/// Names the directory that `.ci/run` fills, as root, with what only root can make.
const FIXTURES: &str = "HAFT_ATTACK_FIXTURES";

/// Somebody else, on every machine.
const NOBODY: u32 = 65_534;

/// PE-27: what is there and what is not get the same answer in the same time.
pub(super) async fn existence(case: &Case, verdict: &mut Verdict) {
    const ROUNDS: usize = 200;
    let scene = Scene::of(case);
    let said = Said::default();
    let haft = scene.haft(case, &said).await;
    let mut took = [Vec::new(), Vec::new()];
    let mut answers = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (at, name) in ["secret", "absent"].into_iter().enumerate() {
            let path = scene.expand(&format!("<outside>/{name}"));
            let begun = Instant::now();
            let outcome = haft.call("read", json!({ "path": path })).await;
            took[at].push(begun.elapsed());
            answers[at].push(outcome.model_text().replace(name, "NAME"));
        }
    }
    let [there, absent] = took.map(|mut all| {
        all.sort();
        all[all.len() / 2]
    });
    verdict.attempt(
        "the answers",
        check(answers[0] == answers[1], || {
            format!("{} and {}", answers[0][0], answers[1][0])
        }),
    );
    let (longer, shorter) = (there.max(absent), there.min(absent));
    verdict.attempt(
        "the times",
        check(longer < shorter * 2, || {
            format!("{there:?} where it exists, {absent:?} where it does not")
        }),
    );
    haft.close().await.unwrap();
}

/// PE-21: a directory that ignores case, where the kernel has such.
pub(super) async fn ignored_case(case: &Case, verdict: &mut Verdict) {
    let made = env::var(FIXTURES).map(|fixtures| PathBuf::from(fixtures).join("casefold/work"));
    let made = made.ok().filter(|directory| directory.is_dir());
    let Some(directory) = made else {
        // Where no directory can ignore case there is nothing to attack, and nothing is counted.
        if fs::exists("/sys/fs/ext4/features/casefold").unwrap() {
            let missing = format!(
                "this kernel has directories that ignore case, and `casefold/work` in ${FIXTURES} \
                 is none: run `.ci/run` as root, or mount a tmpfs with `-o casefold` and `chattr \
                 +F` a directory in it"
            );
            verdict.control("a directory that ignores case", Err(missing));
        }
        println!("PE-21: no directory here ignores case; only the benign half is shown");
        return;
    };
    let work = tempfile::tempdir_in(directory).unwrap();
    fs::write(work.path().join("probe"), "").unwrap();
    verdict.control(
        "PROBE is probe",
        check(work.path().join("PROBE").exists(), || {
            "the directory does not ignore case".to_owned()
        }),
    );
    let case: Case = toml::from_str(&format!(
        "id = \"PE-21\"\nworkspace = {:?}",
        work.path().to_str().unwrap()
    ))
    .unwrap_or_else(|error| panic!("{}: {error}", case.id));
    let scene = Scene::of(&case);
    let said = Said::default();
    let haft = scene.haft(&case, &said).await;
    for path in [
        ".Git/hooks/x",
        ".GIT",
        ".git/HOOKS/x",
        ".BashRC",
        ".g\u{200c}it/config",
    ] {
        let call = calling(
            "write",
            json!({ "path": path, "content": "x" }),
            "denied denied",
        );
        verdict.attempt(path, judge(&scene, &haft, &said, &call).await);
    }
    let call = calling(
        "write",
        json!({ "path": "Readme", "content": "x" }),
        "succeeded",
    );
    verdict.twin("Readme", judge(&scene, &haft, &said, &call).await);
    haft.close().await.unwrap();
}

/// PE-28 where mounting takes root: a workspace with something mounted in it, made beforehand.
pub(super) async fn mounted(case: &Case, verdict: &mut Verdict) {
    if case.place == Place::Local {
        return;
    }
    let base = env::var(FIXTURES).map(|fixtures| PathBuf::from(fixtures).join("mounted"));
    let base = base
        .ok()
        .filter(|base| base.join("app/mnt/secret").exists());
    let Some(base) = base else {
        let missing = format!(
            "`mounted/app/mnt` in ${FIXTURES} shows nothing of `mounted/app-evil`: run `.ci/run` as \
             root, or bind one to the other"
        );
        return verdict.control("a mount in a workspace", Err(missing));
    };
    let secret = fs::read_to_string(base.join("app-evil/secret")).unwrap();
    let seen = fs::read_to_string(base.join("app/mnt/secret")).is_ok_and(|text| text == secret);
    verdict.control("cat mnt/secret", check(seen, || "not seen".to_owned()));
    let text = format!(
        "id = \"PE-28\"\nworkspace = {:?}",
        base.join("app").to_str().unwrap()
    );
    let mut here: Case = toml::from_str(&text).unwrap();
    here.place = case.place;
    for mounts in [Mounts::Refuse, Mounts::Cross] {
        here.cross_mounts = mounts == Mounts::Cross;
        let scene = Scene::of(&here);
        let haft = scene.haft(&here, &Said::default()).await;
        let read = haft.call("read", json!({ "path": "mnt/secret" })).await;
        let command = "cat mnt/secret; ls -A mnt; echo x > mnt/new; ls -d mnt";
        let shown = haft.call("bash", json!({ "command": command })).await;
        haft.close().await.unwrap();
        let [by_tool, by_command] =
            [&read, &shown].map(|outcome| outcome.text().contains(secret.trim()));
        let made = base.join("app-evil/new").exists();
        let _ = fs::remove_file(base.join("app-evil/new"));
        match mounts {
            Mounts::Refuse => {
                verdict.attempt("read", check(!by_tool, || read.model_text()));
                if case.place == Place::T2 {
                    verdict.attempt("bash", check(!by_command && !made, || shown.model_text()));
                }
            }
            Mounts::Cross => {
                verdict.twin("read, granted", check(by_tool, || read.model_text()));
                verdict.twin(
                    "shown, granted",
                    check(by_command && made, || shown.model_text()),
                );
            }
        }
    }
}

/// SL-05: a second name, in the workspace, of another user's file.
pub(super) async fn hard_link(case: &Case, verdict: &mut Verdict) {
    let scene = Scene::of(case);
    let theirs = file_of_another_user(&scene, verdict);
    let secret = fs::read(&theirs).unwrap();
    fs::hard_link(&theirs, scene.at("link")).unwrap();
    fs::write(scene.at("own"), "inside").unwrap();
    fs::hard_link(scene.at("own"), scene.at("twin")).unwrap();
    verdict.control(
        "cat link",
        check(fs::read(scene.at("link")).unwrap() == secret, || {
            "the link does not lead to the file".to_owned()
        }),
    );
    let said = Said::default();
    let haft = scene.haft(case, &said).await;
    for (tool, arguments) in [
        ("read", json!({ "path": "link" })),
        ("write", json!({ "path": "link", "content": "x" })),
        (
            "edit",
            json!({ "path": "link", "old_string": "a", "new_string": "b" }),
        ),
        ("copy", json!({ "source": "link", "destination": "stolen" })),
        (
            "copy",
            json!({ "source": "own", "destination": "link", "overwrite": true }),
        ),
    ] {
        let call = calling(tool, arguments, "failed access_denied");
        let judged = judge(&scene, &haft, &said, &call).await;
        let untouched = check(fs::read(&theirs).unwrap() == secret, || {
            "changed".to_owned()
        });
        verdict.attempt(tool, judged.and(untouched));
    }
    // A search passes over what it may not open.
    for path in [".", "link"] {
        let mut search = calling(
            "grep",
            json!({ "pattern": "canary|root", "path": path }),
            "succeeded",
        );
        search.shows = vec!["no match".to_owned()];
        verdict.attempt("grep", judge(&scene, &haft, &said, &search).await);
    }
    verdict.attempt(
        "the search for the secret",
        attempt::nothing_leaked(&scene, &said),
    );
    let mut twin = calling("read", json!({ "path": "twin" }), "succeeded");
    twin.shows = vec!["inside".to_owned()];
    verdict.twin(
        "two names of an own file",
        judge(&scene, &haft, &said, &twin).await,
    );
    haft.close().await.unwrap();
}

/// A file that this user may link to and does not own. Giving one away takes root.
fn file_of_another_user(scene: &Scene, verdict: &mut Verdict) -> PathBuf {
    if let Ok(fixtures) = env::var(FIXTURES) {
        return PathBuf::from(fixtures).join("file-of-root");
    }
    let theirs = scene.outside.join("theirs");
    fs::write(&theirs, &scene.canary).unwrap();
    let given = chown(&theirs, Some(NOBODY), Some(NOBODY)).map_err(|error| {
        format!(
            "{error}: giving a file away takes root. Run `.ci/run` as root; or, as root, make a \
             file `file-of-root` of mode 666 in a directory on the file system of $TMPDIR and name \
             the directory in {FIXTURES}"
        )
    });
    verdict.control("a file of another user", given);
    theirs
}
