//! Linked work trees of git in a sandbox: they work, and nothing in them leads a git outside to
//! settings or hooks that a command wrote.

use std::{fs, process::Command as Program};

use haft_contract::{
    access::Command,
    ops::{ChildExit, ExitStatus, Layer, Spawn, Tier},
};

use crate::workspace::{Workspace, at, finish, sandbox_options};

const IDENTITY: &str = "export GIT_AUTHOR_NAME=D GIT_AUTHOR_EMAIL=d@x \
                        GIT_COMMITTER_NAME=D GIT_COMMITTER_EMAIL=d@x";

/// A workspace with a repository that has one commit.
fn repository() -> Workspace {
    let ws = Workspace::sandboxed(sandbox_options());
    ws.put("file", "text\n");
    ws.put("haft.toml", "");
    let script = "git init -q -b main . && git add -A && git commit -q -m First";
    assert!(outside(&ws, script).0);
    ws
}

/// Runs a script outside, as the user would.
fn outside(ws: &Workspace, script: &str) -> (bool, String) {
    let output = Program::new("bash")
        .args(["-c", &format!("exec 2>&1; {IDENTITY}; {script}")])
        .current_dir(&ws.root)
        .env("HOME", "/nonexistent")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success(), text)
}

async fn inside(ws: &Workspace, script: &str) -> (ChildExit, String) {
    let script = format!("exec 2>&1; {IDENTITY}; {script}");
    let spawn = Spawn::new(Command::Shell(script), at("."), Tier::T2);
    let (output, exit) = finish(&mut *ws.start(spawn).await).await;
    (exit, output)
}

async fn works(ws: &Workspace, script: &str) {
    let (exit, output) = inside(ws, &format!("set -e; {script}")).await;
    assert_eq!(exit.status, ExitStatus::Code(0), "{script}:\n{output}");
    assert_eq!(exit.refusals, [], "{script}:\n{output}");
}

#[tokio::test]
#[ignore = "ci: needs bubblewrap and git"]
async fn a_tree_in_the_workspace_is_added_used_moved_and_removed() {
    let ws = repository();
    works(
        &ws,
        "git worktree add -q trees/fix -b fix; ls trees/fix/file",
    )
    .await;
    works(
        &ws,
        "cd trees/fix; echo more >> file; git commit -qam More; git stash list; git checkout -q \
         --detach; git checkout -q fix; git rebase -q main",
    )
    .await;
    assert!(outside(&ws, "git -C trees/fix log -1 --format=%s | grep More").0);
    works(
        &ws,
        "git worktree move trees/fix trees/other; git -C trees/other status",
    )
    .await;
    works(&ws, "git worktree remove trees/other; git worktree prune").await;
    assert!(!ws.root.join("trees/other").exists());
    assert!(!ws.root.join(".git/worktrees/fix").exists());
    works(
        &ws,
        "echo x >> file; git stash -q; git checkout -q -b b; git stash pop -q",
    )
    .await;
    // Deep, locked, and with the relative link that `worktree.useRelativePaths` has git write.
    works(&ws, "git worktree add -q --lock a/b/c/deep").await;
    works(
        &ws,
        "echo 'gitdir: ../../../../.git/worktrees/deep' > a/b/c/deep/.git; cd a/b/c/deep
         git status; echo more >> file; git commit -qam Deep",
    )
    .await;
    works(
        &ws,
        "git worktree unlock a/b/c/deep; git worktree remove a/b/c/deep",
    )
    .await;
    assert!(!ws.root.join("a/b/c/deep").exists());
}

/// A repository of a command's own in a package directory, where nothing is refused by name, and a
/// link by way of which the text of a path leads elsewhere than the path.
const BY_WAY_OF_A_LINK: &str = "mkdir -p node_modules/x node_modules/.git/worktrees/fix
    cp -r evil/. node_modules/.git; ln -s node_modules/x lnk
    cp .git/worktrees/fix/HEAD .git/worktrees/fix/commondir node_modules/.git/worktrees/fix
    echo 'gitdir: ../../lnk/../.git/worktrees/fix' > trees/fix/.git";

/// A name that is no text.
const BY_ANOTHER_NAME: &str = "name=$(printf '\\377')
    cp -r .git/worktrees/fix \".git/worktrees/$name\"
    echo ../../../evil > \".git/worktrees/$name/commondir\"
    echo \"gitdir: ../../.git/worktrees/$name\" > trees/fix/.git";

/// More trees than are read.
const IN_A_CROWD: &str = "mkdir .git/worktrees/crowd-{1..2000}
    echo ../../../evil > .git/worktrees/fix/commondir";

#[tokio::test]
#[ignore = "ci: needs bubblewrap and git"]
async fn what_would_lead_git_to_a_commands_settings_is_moved_away() {
    const EVIL: &str = "mkdir -p evil/objects evil/refs; echo 'ref: refs/heads/main' > evil/HEAD
        printf '[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = touch owned; false\\n' \
        > evil/config";
    for (attack, moved) in [
        (
            "echo ../../../evil > .git/worktrees/fix/commondir",
            ".git/worktrees/fix/commondir",
        ),
        (
            "echo 'gitdir: ../../evil' > trees/fix/.git",
            "trees/fix/.git",
        ),
        (
            "rm trees/fix/.git; ln -s ../../evil trees/fix/.git",
            "trees/fix/.git",
        ),
        (
            "mv .git/worktrees/fix .git/worktrees/old; ln -s ../../evil .git/worktrees/fix",
            ".git/worktrees/fix",
        ),
        (
            "rm .git/worktrees/fix/gitdir; echo 'gitdir: ../../evil' > trees/fix/.git",
            "trees/fix/.git",
        ),
        (BY_WAY_OF_A_LINK, "trees/fix/.git"),
        (BY_ANOTHER_NAME, "trees/fix/.git"),
        (IN_A_CROWD, ".git/worktrees/fix/commondir"),
        (
            "rm trees/fix/.git; mv evil trees/fix/.git",
            "trees/fix/.git",
        ),
        (
            "git worktree add -q trees/new; echo ../../../evil > .git/worktrees/new/commondir",
            ".git/worktrees/new/commondir",
        ),
        (
            "git worktree add -q trees/new; echo 'gitdir: ../../evil' > trees/new/.git",
            "trees/new/.git",
        ),
    ] {
        let ws = repository();
        works(&ws, "git worktree add -q trees/fix").await;
        let (exit, output) = inside(&ws, &format!("{EVIL}\n{attack}")).await;
        let told = exit.refusals.iter().any(|refusal| {
            let names = refusal.what.contains(moved);
            let refused = refusal.layer == Layer::Protected;
            names && refused
        });
        // A symlink under the name is refused before it exists.
        assert!(told, "{attack}: {:?}\n{output}", exit.refusals);
        for tree in ["trees/fix", "trees/new"] {
            outside(&ws, &format!("git -C {tree} status"));
            assert!(!ws.root.join(tree).join("owned").exists(), "{attack}");
        }
        assert!(!ws.root.join("owned").exists(), "{attack}");
    }
}

/// Only a tree that git has registered has a `.git` file, and settings of a tree are refused.
#[tokio::test]
#[ignore = "ci: needs bubblewrap and git"]
async fn nothing_else_becomes_a_repository() {
    let ws = repository();
    works(&ws, "git worktree add -q trees/fix").await;
    for attack in [
        "mkdir sub; echo 'gitdir: ../evil' > sub/.git",
        "echo x > .git/worktrees/fix/config.worktree",
        "mkdir .git/worktrees/fix/hooks",
        "mkdir sub2; git init -q sub2",
    ] {
        let (exit, output) = inside(&ws, attack).await;
        let refused = exit.refusals.iter().any(|it| it.layer == Layer::Protected);
        assert!(refused, "{attack}: {output}");
    }
    assert!(!ws.root.join("sub/.git").exists());
    let hooks = ws.root.join(".git/worktrees/fix/hooks");
    assert!(fs::symlink_metadata(hooks).is_err());
}

/// Ways to change what git obeys in `.git/info` and where it finds objects. Each works outside.
const WAYS_TO_MISLEAD: [(&str, &str); 7] = [
    (".git/info/exclude", "echo x >> .git/info/exclude"),
    (
        ".git/info/attributes",
        "echo '* filter=x' > .git/info/attributes",
    ),
    (
        ".git/objects/info/alternates",
        "echo /x > .git/objects/info/alternates",
    ),
    (
        ".git/info/exclude",
        "rm .git/info/exclude; echo x > .git/info/exclude",
    ),
    (".git/info/exclude", "echo x > n; mv -f n .git/info/exclude"),
    (
        ".git/info/attributes",
        "mv .git/info .git/i; mkdir .git/info; echo x > .git/info/attributes",
    ),
    (
        ".git/objects/info/alternates",
        "mv .git/objects/info .git/i; mkdir .git/objects/info
         echo x > .git/objects/info/alternates",
    ),
];

#[tokio::test]
#[ignore = "ci: needs bubblewrap and git"]
async fn what_git_ignores_filters_and_borrows_is_protected_and_git_goes_on() {
    let prepared = || {
        let ws = repository();
        for (path, text) in [
            (".git/info/exclude", "*.log\n"),
            (".git/info/attributes", "*.bin binary\n"),
            (".git/objects/info/alternates", "/nonexistent/objects\n"),
        ] {
            ws.put(path, text);
        }
        ws
    };
    for (path, attack) in WAYS_TO_MISLEAD {
        let ws = prepared();
        let before = ws.text(path);
        outside(&ws, attack);
        assert_ne!(
            fs::read_to_string(ws.root.join(path)).ok(),
            Some(before.clone()),
            "{attack}"
        );
        let ws = prepared();
        inside(&ws, attack).await;
        assert_eq!(ws.text(path), before, "{attack}");
    }
    let ws = repository();
    works(
        &ws,
        "echo one >> file; git commit -qam One; git checkout -q -b side HEAD~1; echo x > other
         git add other; git commit -qm Side; git rebase -q main; echo two >> file; git stash -q
         git stash pop -q; git commit -qam Two; git tag v1; git checkout -q main; git merge -q side
         git gc -q; git repack -adq; git commit-graph write; git update-server-info
         git worktree add -q trees/t; git worktree remove trees/t; git status --porcelain",
    )
    .await;
}
