//! Cases about what a change leaves behind: links, capabilities, the spool of long output.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::Path,
    process::Command,
};

use haft::{Haft, prelude::*};
use rustix::fs::{XattrFlags, getxattr, setxattr};

use crate::attacks::{
    attempt::{Verdict, calling, check, judge},
    corpus::{Case, Place},
    scene::{Said, Scene},
};

/// SL-06: what a copy makes is another file.
pub(super) async fn copy_is_no_link(case: &Case, verdict: &mut Verdict) {
    let scene = Scene::of(case);
    let haft = scene.haft(case, &Said::default()).await;
    let outcome = haft
        .call("copy", json!({ "source": "a", "destination": "b" }))
        .await;
    let [a, b] = ["a", "b"].map(|name| fs::metadata(scene.at(name)).unwrap());
    let apart = outcome.succeeded() && a.ino() != b.ino() && a.nlink() == 1 && b.nlink() == 1;
    verdict.attempt("inodes", check(apart, || format!("{a:?} {b:?}")));
    haft.close().await.unwrap();
}

/// `cap_net_raw+ep`, as the kernel stores it.
const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const ATTRIBUTE: &str = "security.capability";

/// SL-19: a capability is not carried to a new file. Runs where this user may set one.
pub(super) async fn capability(case: &Case, verdict: &mut Verdict) {
    if case.place != Place::Local {
        return;
    }
    let scene = Scene::of(case);
    let has = |path: &Path| getxattr(path, ATTRIBUTE, &mut [0_u8; 64]).is_ok();
    setxattr(scene.at("f"), ATTRIBUTE, &CAPABILITY, XattrFlags::empty()).unwrap();
    let copied = Command::new("cp")
        .arg("--preserve=all")
        .args([scene.at("f"), scene.at("naive")])
        .status()
        .unwrap();
    verdict.control(
        "cp --preserve=all",
        check(copied.success() && has(&scene.at("naive")), || {
            "the capability was not copied".to_owned()
        }),
    );
    let said = Said::default();
    let haft = scene.haft(case, &said).await;
    let copy = calling(
        "copy",
        json!({ "source": "f", "destination": "g" }),
        "succeeded",
    );
    let judged = judge(&scene, &haft, &said, &copy).await;
    let bare = check(!has(&scene.at("g")), || "the copy has it".to_owned());
    verdict.attempt("copy", judged.and(bare));
    let edit = json!({ "path": "f", "old_string": "old", "new_string": "new" });
    let judged = judge(&scene, &haft, &said, &calling("edit", edit, "succeeded")).await;
    let bare = check(!has(&scene.at("f")), || "the edited file has it".to_owned());
    verdict.attempt("edit", judged.and(bare));
    haft.close().await.unwrap();
    let twin = fs::read_to_string(scene.at("g")).unwrap();
    verdict.twin(
        "the content is copied",
        check(twin == "old", || twin.clone()),
    );
}

/// SL-13: the record and its spool are private and planted links are not followed.
pub(super) async fn spool(case: &Case, verdict: &mut Verdict) {
    // The control: a spool below a name that somebody else made.
    let scene = Scene::of(case);
    symlink(&scene.outside, scene.data.join("record")).unwrap();
    fs::write(scene.data.join("record/spool"), "x").unwrap();
    let followed = scene.outside.join("spool").exists();
    verdict.control(
        "a naive spool",
        check(followed, || "not followed".to_owned()),
    );

    let scene = Scene::of(case);
    symlink(&scene.outside, scene.data.join("record")).unwrap();
    let around = scene.around();
    let opened = Haft::open(&scene.workspace)
        .data_dir(&scene.data)
        .build()
        .await;
    verdict.attempt(
        "a planted record",
        check(opened.is_err(), || "opened".to_owned()),
    );
    let untouched = check(scene.around() == around, || {
        "the outside was changed".to_owned()
    });
    verdict.attempt("a planted record", untouched);

    let scene = Scene::of(case);
    let said = Said::default();
    let haft = scene.haft(case, &said).await;
    let long = calling("bash", json!({ "command": "seq 100000" }), "succeeded");
    verdict.twin("long output", judge(&scene, &haft, &said, &long).await);
    let mut open = Vec::new();
    let mut spilled = 0;
    let mut waiting = vec![scene.data.join("record")];
    while let Some(path) = waiting.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        if metadata.is_dir() {
            waiting.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        } else if metadata.len() > 500_000 && path.to_str().unwrap().contains("artifacts") {
            spilled += 1;
        }
        if metadata.is_dir() && metadata.permissions().mode() & 0o077 != 0 {
            open.push(path);
        }
    }
    verdict.attempt(
        "directories of the record",
        check(open.is_empty() && spilled > 0, || {
            format!("{open:?} can be entered by others; {spilled} spilled")
        }),
    );
    haft.close().await.unwrap();
}
