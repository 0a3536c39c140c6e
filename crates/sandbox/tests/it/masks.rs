//! Deny rules as the sandbox's view: what is masked cannot be read or changed, in whatever way a
//! command tries. Every way is tried without the mask too, where it must work, so that a way that
//! never worked proves nothing.

use std::{fs, os::unix::fs::symlink, path::Path, process::Command as HostCommand};

use haft_contract::{
    ErrorKind, Masks,
    access::Command,
    ops::{ExitStatus, Spawn, Tier},
};

use crate::workspace::{Workspace, at, finish, sandbox_options};

/// What the hidden files hold.
const TOKEN: &str = "zebra-5501";

/// A workspace that is a git repository, with a secret in `.env` and in `d/.env`.
fn workspace() -> Workspace {
    let ws = Workspace::sandboxed(sandbox_options());
    ws.put(".env", &format!("TOKEN={TOKEN}\n"));
    ws.put("d/.env", &format!("TOKEN={TOKEN}\n"));
    ws.put("readme", "plain text\n");
    git(&ws, &["init", "-q"]);
    ws
}

fn git(ws: &Workspace, words: &[&str]) {
    let identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
    let done = HostCommand::new("git")
        .args(identity)
        .args(words)
        .current_dir(&ws.root)
        .status();
    assert!(done.unwrap().success(), "{words:?}");
}

fn hidden(globs: &[&str]) -> Masks {
    Masks {
        hidden: globs.iter().map(|glob| (*glob).to_owned()).collect(),
        ..Masks::NONE
    }
}

fn unchanging(globs: &[&str]) -> Masks {
    Masks {
        read_only: globs.iter().map(|glob| (*glob).to_owned()).collect(),
        ..Masks::NONE
    }
}

async fn run(ws: &Workspace, tier: Tier, masks: &Masks, script: &str) -> (String, ExitStatus) {
    let spawn = Spawn {
        masks: masks.clone(),
        ..Spawn::new(
            Command::Shell(format!("exec 2>&1; {script}")),
            at("."),
            tier,
        )
    };
    let (output, exit) = finish(&mut *ws.start(spawn).await).await;
    (output, exit.status)
}

async fn holds(ws: &Workspace, masks: Masks) -> Masks {
    let processes = ws.backend.operations().processes;
    processes.holds(Tier::T2, masks).await.unwrap()
}

/// Ways to read a file, each printing it where nothing is masked.
const WAYS_TO_READ: [(&str, &str); 43] = [
    ("by name", "cat .env"),
    ("glob", "cat .e*"),
    ("redirection", "cat < .env"),
    ("descriptor", "exec 3< .env; cat <&3"),
    ("grep -r", "grep -r zebra ."),
    ("find -exec", "find . -name '.e*' -exec cat {} +"),
    (
        "xargs",
        "find . -type f -not -path './.git/*' -print0 | xargs -0 cat",
    ),
    ("python", "python3 -c \"print(open('.e' + 'nv').read())\""),
    (
        "python with os.open",
        "python3 -c \"import os; print(os.read(os.open('.env', os.O_RDONLY), 99))\"",
    ),
    (
        "python link",
        "python3 -c \"import os; os.link('.env', 'l'); print(open('l').read())\"",
    ),
    ("perl", "perl -e 'open F, \".env\"; print <F>'"),
    (
        "node",
        "node -e \"console.log(require('fs').readFileSync('.env', 'utf8'))\"",
    ),
    ("awk", "awk 1 .env"),
    ("tar", "tar cf - . | tar xOf - ./.env"),
    ("cp -r", "cp -r . /tmp/c; cat /tmp/c/.env"),
    ("cp -a of a directory", "cp -a d /tmp/d; cat /tmp/d/.env"),
    ("install", "install -m 644 .env /tmp/i; cat /tmp/i"),
    ("git add", "git add -f .env; git show :.env"),
    (
        "git hash-object",
        "git cat-file -p $(git hash-object -w .env)",
    ),
    ("git diff", "git diff --no-index /dev/null .env"),
    ("git grep", "git grep --no-index zebra"),
    ("hard link", "ln .env h; cat h"),
    ("rename", "mv .env r; cat r"),
    ("rename of the parent", "mv d e; cat e/.env"),
    (
        "exchange",
        "mv --exchange .env readme || mv .env readme; cat readme",
    ),
    ("symlink", "ln -s .env s; cat s"),
    ("symlink to the parent", "ln -s d sd; cat sd/.env"),
    ("root of a process", "cat /proc/self/root$PWD/.env"),
    ("directory of a process", "cat /proc/self/cwd/.env"),
    (
        "directory of another process",
        "sleep 9 & cat /proc/$!/cwd/.env; kill $!",
    ),
    ("dd", "dd if=.env status=none"),
    ("xxd", "xxd -p .env | xxd -r -p"),
    ("base64", "base64 .env | base64 -d"),
    ("rsync", "rsync -a .env /tmp/r; cat /tmp/r"),
    ("zip", "zip -q -0 - .env | cat"),
    ("source", "set -a; . ./.env; printenv TOKEN"),
    ("mapfile", "mapfile -t lines < .env; echo \"${lines[@]}\""),
    ("here-document", "cat <<END\n$(<.env)\nEND"),
    ("sed", "sed -n p .env"),
    ("in the background", "(sleep 0.1; cat .env) & wait"),
    ("chmod first", "chmod 666 .env; cat .env"),
    (
        "user namespace",
        "unshare -rm sh -c 'umount .env; cat .env' || cat .env",
    ),
    (
        "unmounting and binding",
        "umount .env; mount --bind . /tmp; cat /tmp/.env .env",
    ),
];

#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn a_hidden_file_cannot_be_read_by_any_of_forty_ways() {
    let masks = hidden(&["**/.env"]);
    for (way, script) in WAYS_TO_READ {
        let (control, _) = run(&workspace(), Tier::T2, &Masks::NONE, script).await;
        assert!(
            control.contains(TOKEN),
            "{way} reads nothing anyway: {control}"
        );
        let ws = workspace();
        let (output, _) = run(&ws, Tier::T2, &masks, script).await;
        assert!(!output.contains(TOKEN), "{way}: {output}");
        // Nor did it leave a copy behind for the next command.
        let (later, _) = run(&ws, Tier::T2, &masks, "cat * d/* e/* 2> /dev/null").await;
        assert!(!later.contains(TOKEN), "{way}, later: {later}");
        assert_eq!(ws.text(".env"), format!("TOKEN={TOKEN}\n"), "{way}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ci: needs gVisor"]
async fn gvisor_hides_a_file_and_a_directory_too() {
    let masks = hidden(&["**/.env", "keys/**"]);
    for script in [
        "cat .env",
        "cat .e* d/.e*",
        "grep -r zebra .",
        "python3 -c \"print(open('.e' + 'nv').read())\"",
        "mv d e; cat e/.env",
        "ln .env h; cat h",
        "chmod 777 keys; cat keys/*",
    ] {
        let ws = workspace();
        ws.put("keys/one", TOKEN);
        let (control, _) = run(&ws, Tier::T3, &Masks::NONE, script).await;
        assert!(control.contains(TOKEN), "{script}: {control}");
        let ws = workspace();
        ws.put("keys/one", TOKEN);
        let (output, _) = run(&ws, Tier::T3, &masks, script).await;
        assert!(!output.contains(TOKEN), "{script}: {output}");
    }
}

/// Ways to change what is in `a`, where `a/b` holds `denied`.
const WAYS_TO_CHANGE: [(&str, &str); 12] = [
    ("redirection", "echo changed > a/b"),
    (
        "SL-11, rename of the parent",
        "mv a c; echo changed > c/b; mv c a",
    ),
    ("removing it", "rm -rf a"),
    ("sed -i", "sed -i s/denied/changed/ a/b"),
    (
        "python",
        "python3 -c \"open('a/' + 'b', 'w').write('changed')\"",
    ),
    ("hard link", "ln a/b h; echo changed > h"),
    ("symlink", "ln -s a c; echo changed > c/b"),
    ("replacing it", "echo changed > n; mv -f n a/b"),
    ("truncate", "truncate -s 1 a/b"),
    ("dd", "printf changed | dd of=a/b status=none"),
    ("through a process", "echo changed > /proc/self/cwd/a/b"),
    ("a new file", "touch a/new"),
];

#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn what_must_not_change_is_not_changed_by_any_of_twelve_ways() {
    let state = |ws: &Workspace| {
        let entries = fs::read_dir(ws.root.join("a")).map_or(0, Iterator::count);
        (fs::read_to_string(ws.root.join("a/b")).ok(), entries)
    };
    for (way, script) in WAYS_TO_CHANGE {
        for (masks, changes) in [(Masks::NONE, true), (unchanging(&["a/**"]), false)] {
            let ws = workspace();
            ws.put("a/b", "denied\n");
            let before = state(&ws);
            run(&ws, Tier::T2, &masks, script).await;
            assert_eq!(state(&ws) != before, changes, "{way}");
        }
    }
}

#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn ordinary_work_goes_on_beside_a_hidden_file() {
    let ws = workspace();
    ws.put("keys/one", TOKEN);
    git(&ws, &["add", "-f", "."]);
    git(&ws, &["commit", "-q", "-m", "first"]);
    let masks = hidden(&["**/.env"]);
    for script in [
        "ls -la",
        "git status",
        "grep -r plain .",
        "find . -name readme",
        "cp -r d /tmp/copy",
        "tar cf /tmp/all.tar .",
        "echo more >> readme && git add readme && git -c user.name=a -c user.email=a@b commit -qm more",
        "mv readme d/ && mv d/readme .",
        "echo new > d/new && rm d/new",
    ] {
        let (output, status) = run(&ws, Tier::T2, &masks, script).await;
        assert_eq!(status, ExitStatus::Code(0), "{script}: {output}");
        assert!(!output.contains(TOKEN), "{script}: {output}");
    }
    // What is tracked and hidden looks modified, and in a hidden directory nothing looks deleted.
    let masks = hidden(&["**/.env", "keys/**"]);
    let (output, status) = run(&ws, Tier::T2, &masks, "git status --porcelain").await;
    assert_eq!(status, ExitStatus::Code(0), "{output}");
    assert!(output.contains(" M .env\n"), "{output}");
    assert!(!output.contains(" D "), "{output}");
}

#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn the_directories_above_a_path_of_a_rule_stay_where_they_are() {
    let ws = workspace();
    ws.put("conf/prod/key", TOKEN);
    let masks = hidden(&["conf/prod/key"]);
    for script in ["mv conf c2", "mv conf/prod p2", "rm -rf conf"] {
        let (output, status) = run(&ws, Tier::T2, &masks, script).await;
        assert_ne!(status, ExitStatus::Code(0), "{script}: {output}");
        assert_eq!(ws.text("conf/prod/key"), TOKEN, "{script}");
    }
}

/// What one in the workspace leads to is hidden, and not promised: `uncertain_masks.rs`.
#[tokio::test]
async fn a_link_out_of_the_workspace_needs_no_mask_or_has_none() {
    let ws = workspace();
    symlink(ws.outside.join("secret"), ws.root.join("far.env")).unwrap();
    symlink("/etc/ssl", ws.root.join("system.env")).unwrap();
    let far = hidden(&["**/far.env"]);
    assert_eq!(holds(&ws, far.clone()).await, far);
    assert_eq!(holds(&ws, hidden(&["**/system.env"])).await, Masks::NONE);
}

#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn a_workspace_that_must_not_change_can_still_be_read() {
    let ws = workspace();
    let masks = unchanging(&["**"]);
    assert_eq!(holds(&ws, masks.clone()).await, masks);
    let script = "cat readme; echo x > new; echo x > .git/new; echo x > readme; ls";
    let (output, _) = run(&ws, Tier::T2, &masks, script).await;
    assert!(output.contains("plain text"), "{output}");
    assert_eq!(ws.text("readme"), "plain text\n");
    assert!(!ws.root.join("new").exists() && !ws.root.join(".git/new").exists());
}

#[tokio::test]
async fn what_a_mount_cannot_hold_is_not_promised() {
    let ws = workspace();
    ws.put("a/b", "");
    symlink("a", ws.root.join("c")).unwrap();
    for (masks, held) in [
        (hidden(&["**/.env"]), hidden(&["**/.env"])),
        (hidden(&["**"]), Masks::NONE),
        // A name that can appear anywhere, or whose place does not exist yet.
        (unchanging(&["**/*.lock"]), Masks::NONE),
        (unchanging(&["absent/**"]), Masks::NONE),
        (unchanging(&["a/**", "a/*"]), unchanging(&["a/**"])),
        (unchanging(&["a/b"]), unchanging(&["a/b"])),
        // By another name a file would match that does not by its own.
        (hidden(&["c/*"]), Masks::NONE),
        (hidden(&["c/b"]), Masks::NONE),
        (unchanging(&["c/**"]), Masks::NONE),
    ] {
        assert_eq!(holds(&ws, masks.clone()).await, held, "{masks:?}");
    }
    let processes = ws.backend.operations().processes;
    for tier in [Tier::Host, Tier::T1] {
        let held = processes.holds(tier, hidden(&["**/.env"])).await.unwrap();
        assert_eq!(held, Masks::NONE);
        let spawn = Spawn {
            masks: hidden(&["**/.env"]),
            ..Spawn::new(Command::Shell("true".to_owned()), at("."), tier)
        };
        let refused = processes.spawn(spawn).await.err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::TierUnavailable);
    }
}

#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn too_many_hidden_files_are_not_hidden_and_the_command_does_not_start() {
    let ws = workspace();
    for number in 0..513 {
        ws.put(&format!("many/{number}/.key"), TOKEN);
    }
    let masks = hidden(&["**/.key"]);
    assert_eq!(holds(&ws, masks.clone()).await, Masks::NONE);
    let spawn = Spawn {
        masks,
        ..Spawn::new(Command::Shell("true".to_owned()), at("."), Tier::T2)
    };
    let refused = ws.backend.operations().processes.spawn(spawn).await;
    let refused = refused.err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::TierUnavailable);
    assert!(refused.message().contains("more than 512"), "{refused}");
}

/// Not a promise: prints what finding the masks of a large workspace costs.
#[tokio::test]
#[ignore = "soak: 50,000 files, and what finding masks among them costs"]
async fn the_cost_of_a_search_through_fifty_thousand_files() {
    let ws = Workspace::sandboxed(sandbox_options());
    for directory in 0..500 {
        let path = format!("src/{directory}");
        fs::create_dir_all(ws.root.join(&path)).unwrap();
        for file in 0..100 {
            fs::write(Path::new(&ws.root).join(&path).join(file.to_string()), "").unwrap();
        }
    }
    ws.put(".env", TOKEN);
    for masks in [hidden(&["**/.env"]), hidden(&[".env/x", "src/1/**"])] {
        let began = std::time::Instant::now();
        holds(&ws, masks.clone()).await;
        println!("{masks:?}: {:?}", began.elapsed());
    }
    for masks in [Masks::NONE, hidden(&["**/.env"])] {
        let began = std::time::Instant::now();
        run(&ws, Tier::T2, &masks, "true").await;
        println!("start with {masks:?}: {:?}", began.elapsed());
    }
}
