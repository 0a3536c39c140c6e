//! Promise 11 for git: what real `git` did to a repository in the real sandbox is said and taken back,
//! and what cannot be is named. Compared by what `git` itself says afterwards.

use std::{fmt::Write as _, path::Path, process::Command};

use crate::support::{Ran, Stage};

const CONFIG: &str = "[policy]\nallow = [\"bash\", \"undo\"]\n";

/// Fourteen calls of an agent at work. Each leaves the repository in another state.
const SESSION: [(&str, &str); 14] = [
    (
        "commit with a heredoc",
        "echo two >> a && git commit -qam \"$(cat <<'EOF'\nAdd two\n\nWith a body.\nEOF\n)\"",
    ),
    (
        "amend",
        "echo three >> a && git commit -q --amend -am 'Add two and three'",
    ),
    ("branch", "git branch side"),
    (
        "checkout -b",
        "git checkout -qb topic && echo t > t && git add t && git commit -qm topic",
    ),
    (
        "checkout",
        "git checkout -q main && echo m > m && git add m && git commit -qm m",
    ),
    ("merge", "git merge -q --no-ff -m merge topic"),
    (
        "rebase",
        "git checkout -q side && echo s > s && git add s && git commit -qm s && git rebase -q main",
    ),
    (
        "stash push",
        "echo dirty >> a && echo staged > staged && git add staged && git stash push -q",
    ),
    ("stash pop", "git stash pop -q"),
    ("reset --hard", "git reset -q --hard HEAD~1"),
    ("tag", "git tag v1 && git tag -a v2 -m two"),
    (
        "cherry-pick",
        "git checkout -qb extra first && echo e > e && git add e && git commit -qm e && \
         git checkout -q main && git cherry-pick extra",
    ),
    (
        "branch -D of a packed branch",
        "git pack-refs --all && git branch -qD topic",
    ),
    (
        "a second stash and a staged file",
        "echo more >> m && git stash push -qm second && echo n > n && git add n",
    ),
];

/// A repository with two commits and a stash.
fn repository(config: &str) -> Stage {
    repository_in(Stage::bare(), config)
}

fn repository_in(stage: Stage, config: &str) -> Stage {
    stage.write("haft.toml", config);
    stage.haft(&["trust"]).ok();
    let identity =
        "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n";
    std::fs::write(stage.home.join(".gitconfig"), identity).unwrap();
    git(&stage, &["init", "-q"]);
    stage.write("a", "one\n");
    stage.write(".gitignore", "haft.toml\n");
    git(&stage, &["add", "a", ".gitignore"]);
    git(&stage, &["commit", "-qm", "first"]);
    git(&stage, &["tag", "first"]);
    stage.write("b", "b\n");
    git(&stage, &["add", "b"]);
    git(&stage, &["commit", "-qm", "second"]);
    stage.write("b", "b\nmine\n");
    git(&stage, &["stash", "push", "-qm", "mine"]);
    stage
}

/// Runs git as the person in the terminal does.
fn git(stage: &Stage, args: &[&str]) -> String {
    git_in(stage, &stage.work, args)
}

fn git_in(stage: &Stage, place: &Path, args: &[&str]) -> String {
    let ran = Command::new("git")
        .args(args)
        .current_dir(place)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", &stage.home)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    let failed = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "git {args:?}: {said}{failed}");
    said
}

/// Everything git says about where the repository is. A repository that is not sound fails.
fn picture(stage: &Stage) -> String {
    let looks: [&[&str]; 8] = [
        &["rev-parse", "HEAD"],
        &["rev-parse", "--symbolic-full-name", "HEAD"],
        &["for-each-ref"],
        &["status", "--porcelain"],
        &["ls-files", "--stage"],
        &["diff"],
        &["stash", "list"],
        &["fsck", "--strict", "--no-dangling"],
    ];
    let mut picture = String::new();
    for look in looks {
        let said = git(stage, look);
        writeln!(picture, "$ git {}\n{said}", look.join(" ")).unwrap();
    }
    picture
}

/// Makes a call of the session `work` and returns its id.
fn bash(stage: &Stage, script: &str) -> String {
    let ran = stage.haft(&["call", "bash", "--json", "--session", "work", script]);
    assert_eq!(ran.code, 0, "{script}: {}", ran.all());
    let outcome: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    outcome["call"].as_str().unwrap().to_owned()
}

/// Makes every call of the session. Returns their ids, and the pictures before the first and after
/// each.
fn session(stage: &Stage) -> (Vec<String>, Vec<String>) {
    let mut pictures = vec![picture(stage)];
    let mut calls = Vec::new();
    for (name, script) in SESSION {
        calls.push(bash(stage, script));
        let now = picture(stage);
        // The control: a call that leaves no trace would prove nothing when it is undone.
        assert_ne!(pictures.last(), Some(&now), "{name} left no trace");
        pictures.push(now);
    }
    (calls, pictures)
}

fn says(ran: &Ran, parts: &[&str]) {
    let said = ran.all();
    for part in parts {
        assert!(said.contains(part), "{part:?} is missing in {said}");
    }
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn promise_11_a_session_of_git_goes_back_one_by_one_and_forth_again() {
    let stage = repository(CONFIG);
    let (calls, pictures) = session(&stage);
    let steps = SESSION.iter().zip(&calls).zip(&pictures).rev();
    let mut undone = Vec::new();
    for (((name, _), call), before) in steps {
        let ran = stage.haft(&["undo", call, "--json"]);
        assert_eq!(ran.code, 0, "{name}: {}", ran.all());
        assert_eq!(&picture(&stage), before, "{name}: {}", ran.all());
        let outcome: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        undone.push(outcome["call"].as_str().unwrap().to_owned());
    }
    // An undo is a call too.
    let after = pictures.iter().skip(1);
    for (((name, _), call), after) in SESSION.iter().zip(undone.iter().rev()).zip(after) {
        let ran = stage.haft(&["undo", call]);
        assert_eq!(ran.code, 0, "{name}: {}", ran.all());
        assert_eq!(&picture(&stage), after, "{name}: {}", ran.all());
    }
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn promise_11_a_session_of_git_goes_back_in_one_go() {
    let stage = repository(CONFIG);
    let (_, pictures) = session(&stage);
    let dry = stage.haft(&["undo", "--session", "work", "--dry-run"]);
    says(
        &dry,
        &[
            "git: branch main: ",
            "git: tag v1: removed",
            "git: stash: 2 → 1",
        ],
    );
    assert_eq!(
        pictures.last(),
        Some(&picture(&stage)),
        "a dry run moved something"
    );
    let ran = stage.haft(&["undo", "--session", "work"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    assert_eq!(pictures[0], picture(&stage), "{}", ran.all());
}

/// The control for the two above: without a record of what commands change nothing goes back.
#[test]
#[ignore = "ci: needs bubblewrap"]
fn promise_11_without_a_record_of_commands_git_stays_where_it_is() {
    let stage = repository(&format!("{CONFIG}[undo]\ncommands = false\n"));
    let before = picture(&stage);
    let call = bash(&stage, "git checkout -qb topic");
    let after = picture(&stage);
    assert_ne!(before, after);
    let ran = stage.haft(&["undo", &call]);
    says(&ran, &["not everything can be taken back"]);
    assert_eq!(after, picture(&stage));
}

/// What git did is said wherever a person looks at a call.
#[test]
#[ignore = "ci: needs bubblewrap"]
fn promise_11_what_git_did_is_said() {
    let stage = repository(CONFIG);
    let first = git(&stage, &["rev-parse", "--short=7", "main"]);
    bash(
        &stage,
        "git checkout -qb topic && echo x > x && git add x && git commit -qm x",
    );
    let second = git(&stage, &["rev-parse", "--short=7", "topic"]);
    let (first, second) = (first.trim(), second.trim());
    let new = format!("branch topic: new, at {second}");
    let lines = ["HEAD: main → topic", &new, "index: 3 → 4 files"];
    for args in [&["show", "last"][..], &["diff", "last"]] {
        says(&stage.haft(args), &lines);
    }
    // The person's prompt looks at the repository in between, which is no conflict.
    stage.write("a", "one\n");
    git(&stage, &["status"]);
    let removed = format!("branch topic: removed, was at {second}");
    let back = ["HEAD: topic → main", &removed, "index: 4 → 3 files"];
    says(&stage.haft(&["undo", "last", "--dry-run"]), &back);
    let ran = stage.haft(&["undo", "last"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    says(&ran, &back);
    assert_eq!(
        git(&stage, &["rev-parse", "--short=7", "HEAD"]).trim(),
        first
    );
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn promise_11_a_commit_of_the_person_in_between_is_not_lost() {
    let stage = repository(CONFIG);
    let call = bash(&stage, "echo two >> a && git commit -qam agent");
    stage.write("c", "c\n");
    git(&stage, &["add", "c"]);
    git(&stage, &["commit", "-qm", "person"]);
    let log = git(&stage, &["log", "--format=%H %s"]);
    assert!(log.contains("person"), "{log}");
    let ran = stage.haft(&["undo", &call]);
    assert_eq!(ran.code, 1, "{}", ran.all());
    says(
        &ran,
        &[
            "conflict: .git/refs/heads/main: it has changed since",
            "branch main: ",
            "not put back: a: it changed together with git's state, which stays",
        ],
    );
    assert_eq!(log, git(&stage, &["log", "--format=%H %s"]));
    assert_eq!(git(&stage, &["status", "--porcelain"]), "");
    git(&stage, &["fsck", "--strict"]);

    // The control: once the person takes their commit back, the undo goes through.
    git(&stage, &["reset", "-q", "--hard", "HEAD~1"]);
    let ran = stage.haft(&["undo", &call]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    assert_eq!(git(&stage, &["log", "--format=%s"]), "second\nfirst\n");
}

/// Packing refs and looking moves nothing, so it is no conflict.
#[test]
#[ignore = "ci: needs bubblewrap"]
fn promise_11_packed_refs_go_back_like_loose_ones() {
    let stage = repository(CONFIG);
    let before = picture(&stage);
    let call = bash(
        &stage,
        "git checkout -qb a/b/c && echo x > x && git add x && git commit -qm x && git tag deep/v1",
    );
    git(&stage, &["pack-refs", "--all"]);
    assert!(stage.read(".git/packed-refs").contains("refs/heads/a/b/c"));
    assert!(!stage.exists(".git/refs/heads/a/b/c"));
    let ran = stage.haft(&["undo", &call]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    assert_eq!(before, picture(&stage));
    let redo = stage.haft(&["undo", "last"]);
    assert_eq!(redo.code, 0, "{}", redo.all());
    assert_eq!(
        git(&stage, &["rev-parse", "--abbrev-ref", "HEAD"]),
        "a/b/c\n"
    );
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn promise_11_a_push_is_named_and_not_taken_back() {
    let stage = Stage::bare();
    let remote = stage.home.join("remote.git");
    let config = format!("{CONFIG}[sandbox]\nwritable = [\"{}\"]\n", remote.display());
    std::fs::create_dir(&remote).unwrap();
    git_in(&stage, &remote, &["init", "-q", "--bare"]);
    let stage = repository_in(stage, &config);
    let place = remote.display().to_string();
    git(&stage, &["remote", "add", "origin", &place]);
    git(&stage, &["push", "-q", "origin", "main"]);
    let call = bash(
        &stage,
        "echo two >> a && git commit -qam agent && git push -q origin main",
    );
    let pushed = git_in(&stage, &remote, &["rev-parse", "main"]);
    assert_eq!(pushed, git(&stage, &["rev-parse", "main"]));
    let ran = stage.haft(&["undo", &call]);
    says(
        &ran,
        &["git pushed; what the remote got stays there (1: `origin/main`)"],
    );
    assert_eq!(ran.code, 0, "{}", ran.all());
    assert_eq!(git(&stage, &["log", "-1", "--format=%s"]), "second\n");
    assert_eq!(pushed, git_in(&stage, &remote, &["rev-parse", "main"]));
    assert_eq!(pushed, git(&stage, &["rev-parse", "origin/main"]));
    // The control: a commit alone names no push.
    let call = bash(&stage, "git commit -q --allow-empty -m alone");
    let ran = stage.haft(&["undo", &call]);
    assert!(!ran.all().contains("pushed"), "{}", ran.all());
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn promise_11_a_commit_that_gc_removed_is_named_and_the_branch_stays() {
    let stage = repository(CONFIG);
    bash(&stage, "echo two >> a && git commit -qam two");
    let amend = bash(&stage, "echo three >> a && git commit -qam three --amend");
    // The control: a repacking that loses nothing says nothing.
    let repack = bash(&stage, "git repack -qad");
    assert!(!stage.haft(&["undo", &repack]).all().contains("objects"));
    let gc = bash(
        &stage,
        "git reflog expire --expire=now --all && git gc -q --prune=now",
    );
    let before = picture(&stage);
    says(
        &stage.haft(&["undo", &gc, "--dry-run"]),
        &["git removed objects, as `git gc` and `git prune` do"],
    );
    let ran = stage.haft(&["undo", &amend]);
    assert_eq!(ran.code, 1, "{}", ran.all());
    says(
        &ran,
        &[
            "not put back: .git/refs/heads/main: branch main was at",
            "no longer in `.git/objects`",
        ],
    );
    assert_eq!(git(&stage, &["log", "-1", "--format=%s"]), "three\n");
    assert_eq!(before, picture(&stage));
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn promise_11_an_unfinished_rebase_and_a_git_at_work_are_waited_for() {
    let stage = repository(CONFIG);
    git(&stage, &["checkout", "-qb", "side", "first"]);
    stage.write("a", "other\n");
    git(&stage, &["commit", "-qam", "other"]);
    git(&stage, &["checkout", "-q", "main"]);
    stage.write("a", "mine\n");
    git(&stage, &["commit", "-qam", "mine"]);
    let before = picture(&stage);
    let call = bash(&stage, "git rebase side || true");
    assert!(stage.exists(".git/rebase-merge"));
    let ran = stage.haft(&["undo", &call]);
    assert_eq!(ran.code, 1, "{}", ran.all());
    says(&ran, &["a rebase is in progress; end it first"]);
    git(&stage, &["rebase", "--abort"]);
    assert_eq!(before, picture(&stage));

    // A merge that stopped at a conflict has no directory of its own, and goes back.
    let call = bash(&stage, "git merge side || true");
    assert!(stage.exists(".git/MERGE_HEAD"));
    let lock = stage.work.join(".git/index.lock");
    std::fs::write(&lock, "").unwrap();
    let ran = stage.haft(&["undo", &call]);
    assert_eq!(ran.code, 1, "{}", ran.all());
    says(&ran, &["git is at work here: `.git/index.lock` exists"]);
    assert!(stage.exists(".git/MERGE_HEAD"));
    std::fs::remove_file(lock).unwrap();
    let ran = stage.haft(&["undo", &call]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    assert_eq!(before, picture(&stage));
}

/// A linked work tree has its refs elsewhere, which is said where somebody would miss them.
#[test]
#[ignore = "ci: needs bubblewrap"]
fn promise_11_a_repository_outside_the_workspace_is_named() {
    let stage = repository(CONFIG);
    let tree = stage.home.join("tree");
    let place = tree.display().to_string();
    git(&stage, &["worktree", "add", "-q", &place]);
    std::fs::copy(stage.work.join("haft.toml"), tree.join("haft.toml")).unwrap();
    stage.haft(&["trust", "-C", &place]).ok();
    let ran = stage.haft(&["call", "bash", "-C", &place, "echo x > x"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    let ran = stage.haft(&["undo", "last", "-C", &place]);
    says(
        &ran,
        &["the git repository of this work tree is outside the workspace"],
    );
    assert!(!tree.join("x").exists());
}

/// What a call leaves in `.git` keeps git's state where it is, and with it what belongs to it; not the
/// person's own file.
#[test]
#[ignore = "ci: needs bubblewrap"]
fn promise_11_a_call_cannot_keep_its_own_files_from_going_back() {
    let obstacles = [
        // Named plainly, they would be denied.
        (
            "python3 -c \"import os; os.mkdir('.gi' + 't/rebase-merge')\"",
            ".git/rebase-merge",
        ),
        (
            "python3 -c \"open('.gi' + 't/refs/heads/main.lock', 'w')\"",
            ".git/refs/heads/main.lock",
        ),
    ];
    for (obstacle, path) in obstacles {
        let stage = repository(CONFIG);
        stage.write("notes.txt", "the only copy\n");
        let call = bash(
            &stage,
            &format!("echo two >> a && git commit -qam agent && : > notes.txt && {obstacle}"),
        );
        let ran = stage.haft(&["undo", &call]);
        assert_eq!(ran.code, 1, "{}", ran.all());
        assert_eq!(stage.read("notes.txt"), "the only copy\n", "{}", ran.all());
        says(
            &ran,
            &[
                "1 file put back, 1 could not be put back, git's state left alone",
                "not put back: a: it changed together with git's state, which stays",
                "the command left",
                path,
            ],
        );
        assert_eq!(git(&stage, &["log", "-1", "--format=%s"]), "agent\n");
        // The control: without it everything goes back.
        let place = stage.work.join(path);
        let removed = std::fs::remove_dir(&place).or_else(|_| std::fs::remove_file(&place));
        removed.unwrap();
        let ran = stage.haft(&["undo", &call]);
        assert_eq!(ran.code, 0, "{}", ran.all());
        assert_eq!(git(&stage, &["log", "-1", "--format=%s"]), "second\n");
        assert_eq!(stage.read("a"), "one\n");
    }
}

/// A line of `packed-refs` whose name leads to a branch by its path is not that branch.
#[test]
#[ignore = "ci: needs bubblewrap"]
fn promise_11_a_forged_line_of_packed_refs_moves_no_branch() {
    let stage = repository(CONFIG);
    let main = git(&stage, &["rev-parse", "main"]);
    let call = bash(
        &stage,
        "git pack-refs --all && git rev-parse first > id && python3 -c \"
open('.gi' + 't/packed-refs', 'a').write(open('id').read().strip() + ' refs/x/../heads/main\\n')
\"",
    );
    let ran = stage.haft(&["undo", &call]);
    assert!(ran.all().contains("`.git/packed-refs`"), "{}", ran.all());
    assert!(stage.read(".git/packed-refs").contains("refs/heads/main"));
    assert!(!stage.exists(".git/refs/heads/main"), "{}", ran.all());
    stage.write(
        ".git/packed-refs",
        stage
            .read(".git/packed-refs")
            .replace("refs/x/../heads/main", "refs/heads/other"),
    );
    assert_eq!(main, git(&stage, &["rev-parse", "main"]));
}

/// Git's own files are not counted as files, nor listed.
#[test]
#[ignore = "ci: needs bubblewrap"]
fn promise_11_git_is_one_thing_in_counts_and_lists() {
    let stage = repository(CONFIG);
    bash(&stage, "echo two >> a && git commit -qam agent");
    let dry = stage.haft(&["undo", "last", "--dry-run"]);
    says(&dry, &["1 file would be put back\n", "git: branch main: "]);
    stage.haft(&["undo", "last"]).ok();
    let log = stage.haft(&["log"]).ok();
    assert!(log.contains("git's state a"), "{log}");
    assert!(!log.contains(".git/HEAD"), "{log}");
    let again = stage.haft(&["undo", "last", "--dry-run"]);
    assert_eq!(again.code, 0, "{}", again.all());
    // The control: a call that only moved git names no file.
    bash(&stage, "git branch side");
    says(&stage.haft(&["undo", "last"]), &["git's state put back\n"]);
}

/// A linked work tree that the call made: a dry run names the protected file that stays.
#[test]
#[ignore = "ci: needs bubblewrap"]
fn promise_11_a_dry_run_foresees_protected_files() {
    let stage = repository(CONFIG);
    git(&stage, &["add", "-f", "haft.toml"]);
    git(&stage, &["commit", "-qm", "settings"]);
    let ran = stage.haft(&["call", "bash", "git worktree add -q wt2 && ls wt2"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    let dry = stage.haft(&["undo", "last", "--dry-run"]);
    let undone = stage.haft(&["undo", "last"]);
    assert_eq!((dry.code, undone.code), (1, 1), "{}", dry.all());
    says(&dry, &["`wt2/haft.toml` would not be put back"]);
    says(&undone, &["not put back: wt2/haft.toml"]);
}
