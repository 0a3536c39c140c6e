//! UN-01: somebody else saves a file in the moment in which it is removed or renamed. What they saved is
//! never lost: it is there under its name, or kept beside it.

use std::{
    fs,
    path::Path,
    sync::{Arc, Barrier},
    thread,
};

use haft_contract::{
    ErrorKind,
    ops::{FileVersion, OpsError},
};

use crate::workspace::{Workspace, at};

/// Rounds of each race.
const ROUNDS: u32 = 400;

/// In one of so many rounds they save when the removal is over: the one that has to succeed.
const AFTERWARDS: u32 = 40;

/// What is in the workspace, by content.
fn holds(root: &Path, text: &str) -> bool {
    fs::read_dir(root)
        .unwrap()
        .filter_map(|entry| fs::read_to_string(entry.unwrap().path()).ok())
        .any(|found| found == text)
}

/// Saves as editors do: another file that takes the name.
fn save(root: &Path, text: &str) {
    let aside = root.join("saving");
    fs::write(&aside, text).unwrap();
    fs::rename(aside, root.join("f")).unwrap();
}

/// How the rounds went.
#[derive(Default, Debug)]
struct Rounds {
    done: u32,
    conflicts: u32,
}

async fn race<F>(act: F) -> Rounds
where
    F: AsyncFn(&Workspace, &FileVersion) -> Result<(), OpsError>,
{
    let ws = Workspace::in_memory();
    let mut rounds = Rounds::default();
    for round in 0..ROUNDS {
        let _ = fs::remove_file(ws.root.join("g"));
        save(&ws.root, "mine");
        // Looked at before anybody else is there: what is removed has to be this one.
        let version = ws.files.stat(&at("f")).await.unwrap().version;
        let theirs = format!("theirs {round}");
        let (outcome, afterwards) = if round % AFTERWARDS == 0 {
            let outcome = act(&ws, &version).await;
            save(&ws.root, &theirs);
            (outcome, true)
        } else {
            let barrier = Arc::new(Barrier::new(2));
            let saving = thread::spawn({
                let (barrier, root, theirs) =
                    (Arc::clone(&barrier), ws.root.clone(), theirs.clone());
                move || {
                    barrier.wait();
                    // Sometimes before, sometimes in the middle, sometimes after, as the machine likes.
                    for _ in 0..(round % AFTERWARDS) * 20 {
                        std::hint::spin_loop();
                    }
                    save(&root, &theirs);
                }
            });
            barrier.wait();
            let outcome = act(&ws, &version).await;
            saving.join().unwrap();
            (outcome, false)
        };
        match outcome {
            Ok(()) => rounds.done += 1,
            Err(error) if afterwards => panic!("round {round}: nobody was in the way: {error}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                rounds.conflicts += 1;
            }
        }
        assert!(
            holds(&ws.root, &theirs),
            "round {round}: what they saved is lost"
        );
    }
    println!("{rounds:?}");
    rounds
}

#[tokio::test]
async fn un_01_what_somebody_else_saves_survives_a_removal() {
    let rounds = race(async |ws, version| ws.files.remove_version(&at("f"), version).await).await;
    assert!(rounds.done >= ROUNDS / AFTERWARDS, "{rounds:?}");
}

#[tokio::test]
async fn un_01_what_somebody_else_saves_survives_a_rename() {
    let rounds =
        race(async |ws, version| ws.files.rename_version(&at("f"), &at("g"), version).await).await;
    assert!(rounds.done >= ROUNDS / AFTERWARDS, "{rounds:?}");
}

/// The control: checking first and then removing loses what was saved in between.
#[tokio::test]
async fn un_01_control_a_check_and_then_a_removal_loses_it() {
    let ws = Workspace::in_memory();
    save(&ws.root, "mine");
    let version = ws.files.stat(&at("f")).await.unwrap().version;
    let same = ws.files.stat(&at("f")).await.unwrap().version == version;
    save(&ws.root, "theirs");
    assert!(same);
    let scope = haft_contract::ops::RemoveScope::File;
    ws.files.remove(&at("f"), scope).await.unwrap();
    assert!(!holds(&ws.root, "theirs"));
    // And by version it does not.
    save(&ws.root, "theirs");
    let refused = ws
        .files
        .remove_version(&at("f"), &version)
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert!(holds(&ws.root, "theirs"));
}

#[tokio::test]
async fn a_file_of_this_version_is_removed_and_renamed() {
    let ws = Workspace::new();
    ws.put("a", "x");
    let version = ws.files.stat(&at("a")).await.unwrap().version;
    ws.files
        .rename_version(&at("a"), &at("d/b"), &version)
        .await
        .unwrap();
    assert!(!ws.root.join("a").exists());
    let version = ws.files.stat(&at("d/b")).await.unwrap().version;
    ws.put("taken", "y");
    let taken = ws
        .files
        .rename_version(&at("d/b"), &at("taken"), &version)
        .await;
    assert_eq!(taken.unwrap_err().kind(), ErrorKind::AlreadyExists);
    let version = ws.files.stat(&at("d/b")).await.unwrap().version;
    ws.files.remove_version(&at("d/b"), &version).await.unwrap();
    assert_eq!(fs::read_dir(ws.root.join("d")).unwrap().count(), 0);
    let gone = ws.files.remove_version(&at("d/b"), &version).await;
    assert_eq!(gone.unwrap_err().kind(), ErrorKind::NotFound);
}
