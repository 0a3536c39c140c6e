//! Putting git's state back where names are in each other's way, and what stays as it was. Changes are
//! those that real git made, and what git says afterwards decides.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command, sync::Arc};

use haft_contract::{
    ErrorKind,
    ops::{ChangedFile, Changes, OpsError, PartChange, RepositoryOps},
};

use crate::{
    changes::{Watched, shell},
    changes_git::repository,
};

/// Which of the two states of a change to go to.
#[derive(Clone, Copy)]
enum Direction {
    Back,
    Forth,
}

/// What an undo of these changes, or an undo of that undo, asks for.
async fn part_changes(
    watched: &Watched,
    changes: &Changes,
    direction: Direction,
) -> Vec<PartChange> {
    let mut parts = Vec::new();
    for ChangedFile {
        path,
        before,
        after,
    } in &changes.files
    {
        let (from, to) = match direction {
            Direction::Back => (after, before),
            Direction::Forth => (before, after),
        };
        let bytes = match to {
            Some(to) => Some(watched.text(to.artifact.unwrap()).await.into_bytes()),
            None => None,
        };
        parts.push(PartChange {
            path: path.clone(),
            expected: from.as_ref().map(|from| from.version.clone()),
            bytes,
            mode: to.as_ref().map(|to| to.mode),
        });
    }
    parts
}

fn operations(watched: &Watched) -> Arc<dyn RepositoryOps> {
    watched.ws.backend.operations().repository.unwrap()
}

/// Takes back what a command did.
async fn take_back(watched: &Watched, changes: &Changes) -> Result<(), OpsError> {
    let parts = part_changes(watched, changes, Direction::Back).await;
    operations(watched).replace(&parts).await.map(drop)
}

/// Every ref, `HEAD`, the reflogs, and the locks that somebody left.
fn picture(root: &Path) -> String {
    let script = "git for-each-ref; git symbolic-ref HEAD; grep -r . .git/logs | sort; \
                  find .git -name '*.lock'; git fsck --strict --no-dangling 2>&1";
    let ran = Command::new("/bin/bash")
        .args(["-ec", script])
        .current_dir(root)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{said}");
    said
}

#[tokio::test]
async fn a_name_goes_back_from_a_file_to_a_directory_and_forth_again() {
    for (before, command) in [
        ("git branch topic/x", "git branch -m topic/x topic"),
        ("git branch topic/a/b", "git branch -m topic/a/b topic"),
        ("git checkout -qb topic/x", "git branch -m topic/x topic"),
        (
            "git branch topic/x; git branch topic/y",
            "git branch -q -D topic/x topic/y; git branch topic",
        ),
        (
            "git branch topic/x; git pack-refs --all",
            "git branch -m topic/x topic; git pack-refs --all",
        ),
        ("git tag v/1", "git tag -d v/1; git tag v"),
        // The control: from a directory back to a file.
        ("git branch topic", "git branch -m topic topic/x"),
        (
            "git branch topic",
            "git branch -m topic topic/x; mkdir -p .git/refs/heads/topic/a/b",
        ),
    ] {
        let watched = repository();
        let root = watched.ws.root.clone();
        shell(&root, before);
        let old = picture(&root);
        let changes = watched.command(command).await;
        let new = picture(&root);
        assert_ne!(old, new, "{command}");
        for file in &changes.files {
            // A plan names each part before anything has made way.
            let resolved = watched.ws.resolve(file.path.as_str()).await.unwrap();
            assert_eq!(resolved.path, file.path, "{command}");
        }
        take_back(&watched, &changes).await.unwrap();
        assert_eq!(picture(&root), old, "{command}");
        let forth = part_changes(&watched, &changes, Direction::Forth).await;
        operations(&watched).replace(&forth).await.unwrap();
        assert_eq!(picture(&root), new, "{command}");
    }
}

/// Only a part of git's state may be named below a file.
#[tokio::test]
async fn below_other_files_nothing_is_resolved() {
    let watched = repository();
    for path in ["a/below", ".git/config/below", ".git/HEAD/below"] {
        let refused = watched.ws.resolve(path).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotDirectory, "{path}");
    }
}

/// A branch that made way returns if what it made way for cannot come.
#[tokio::test]
async fn a_branch_that_made_way_returns_when_the_undo_fails() {
    let watched = repository();
    let root = watched.ws.root.clone();
    shell(&root, "git branch topic/a/x");
    let changes = watched.command("git branch -m topic/a/x topic").await;
    let branch = fs::read(root.join(".git/refs/heads/topic")).unwrap();
    // Git would not write it, so that the refusal comes after everything else.
    shell(
        &root,
        "echo \"$(git rev-parse HEAD~1) refs/heads/topic/a/x\" >> .git/packed-refs",
    );
    let failed = take_back(&watched, &changes).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Conflict, "{failed}");
    assert_eq!(
        fs::read(root.join(".git/refs/heads/topic")).unwrap(),
        branch
    );
    shell(
        &root,
        "rm .git/packed-refs; test -f .git/logs/refs/heads/topic",
    );
    assert!(!picture(&root).contains(".lock"));
    // The control.
    take_back(&watched, &changes).await.unwrap();
    shell(&root, "git rev-parse -q --verify refs/heads/topic/a/x");
}

#[tokio::test]
async fn a_name_that_stays_in_the_way_is_named_and_nothing_changes() {
    for (before, command, since, named) in [
        (
            "git branch topic/x",
            "git branch -q -D topic/x",
            "git branch topic",
            "beside `.git/logs/refs/heads/topic`",
        ),
        (
            "git branch topic/x",
            "git branch -q -D topic/x",
            "git branch topic; git pack-refs --all; rm -r .git/logs/refs/heads/topic",
            "beside `.git/refs/heads/topic`",
        ),
        (
            "git branch topic",
            "git branch -q -D topic",
            "git branch topic/y; rm -r .git/logs/refs/heads/topic",
            "beside `.git/refs/heads/topic/y`",
        ),
        (
            "git branch topic",
            "git branch -q -D topic",
            "git branch topic/y; git pack-refs --all; rm -r .git/logs/refs/heads/topic",
            "beside `.git/refs/heads/topic/y`",
        ),
        (
            "git branch topic",
            "git branch -m topic topic/x",
            "touch .git/refs/heads/topic/y.lock",
            "beside `.git/refs/heads/topic/y.lock`",
        ),
    ] {
        let watched = repository();
        let root = watched.ws.root.clone();
        shell(&root, before);
        let changes = watched.command(command).await;
        shell(&root, since);
        let now = picture(&root);
        let failed = take_back(&watched, &changes).await.unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::Conflict, "{since}: {failed}");
        assert!(failed.message().contains(named), "{since}: {failed}");
        assert_eq!(picture(&root), now, "{since}");
    }
}

#[tokio::test]
async fn packed_refs_keep_their_mode() {
    for mode in [0o600, 0o640, 0o644, 0o664] {
        let watched = repository();
        let root = watched.ws.root.clone();
        let old = picture(&root);
        let changes = watched.command("git branch side").await;
        let packed = root.join(".git/packed-refs");
        shell(&root, "git pack-refs --all");
        fs::set_permissions(&packed, fs::Permissions::from_mode(mode)).unwrap();
        take_back(&watched, &changes).await.unwrap();
        assert_eq!(picture(&root), old);
        let found = fs::metadata(&packed).unwrap().permissions().mode() & 0o777;
        assert_eq!(found, mode, "{found:o} instead of {mode:o}");
    }
}
