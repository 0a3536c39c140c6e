//! Deny rules that the sandbox cannot hold for certain: only they are reported as not held, and what
//! of them can be masked still is. Every script is run without masks too, where it must succeed.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _, fs::symlink},
};

use haft_contract::{
    ErrorKind, Masks,
    access::Command,
    ops::{ExitStatus, Spawn, Tier},
};
use haft_sandbox::{MaskLimits, SandboxOptions};

use crate::workspace::{Workspace, at, finish, sandbox_options};

/// What the hidden files hold.
const TOKEN: &str = "zebra-5502";

/// A workspace with a secret in `sub/.env` and in `keys/one.pem`.
fn workspace(limits: MaskLimits) -> Workspace {
    let ws = Workspace::sandboxed(SandboxOptions {
        masks: limits,
        ..sandbox_options()
    });
    ws.put("sub/.env", TOKEN);
    ws.put("keys/one.pem", TOKEN);
    ws
}

fn masks(hidden: &[&str], read_only: &[&str]) -> Masks {
    let owned = |globs: &[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect();
    Masks {
        hidden: owned(hidden),
        read_only: owned(read_only),
    }
}

async fn holds(ws: &Workspace, wanted: &Masks) -> Masks {
    let processes = ws.backend.operations().processes;
    processes.holds(Tier::T2, wanted.clone()).await.unwrap()
}

/// Starts a script as the runtime does: with what is held, and with the rest as an attempt.
fn spawn(held: Masks, attempted: Masks, script: &str) -> Spawn {
    Spawn {
        masks: held,
        attempted_masks: attempted,
        ..Spawn::new(
            Command::Shell(format!("exec 2>&1; {script}")),
            at("."),
            Tier::T2,
        )
    }
}

async fn run(ws: &Workspace, wanted: &Masks, script: &str) -> (String, ExitStatus) {
    let held = holds(ws, wanted).await;
    let spawn = spawn(held.clone(), wanted.without(&held), script);
    let (output, exit) = finish(&mut *ws.start(spawn).await).await;
    (output, exit.status)
}

/// A workspace of its own for the control, which must print the secret.
async fn check(limits: &MaskLimits, prepare: impl Fn(&Workspace), wanted: &Masks, script: &str) {
    for (masks, reads) in [(&Masks::NONE, true), (wanted, false)] {
        let ws = workspace(limits.clone());
        prepare(&ws);
        let (output, _) = run(&ws, masks, script).await;
        open_up(&ws);
        assert_eq!(output.contains(TOKEN), reads, "{script}: {output}");
    }
}

/// A way to make a mask uncertain: how it is made, in which bounds, and a script that reads.
type Trick = (&'static str, fn(&Workspace), MaskLimits, &'static str);

fn tricks() -> [Trick; 6] {
    let usual = MaskLimits::default;
    [
        (
            "a link of a hidden name to something of the system",
            |ws| {
                fs::create_dir(ws.root.join("z")).unwrap();
                symlink("/usr/lib", ws.root.join("z/.env")).unwrap();
            },
            usual(),
            "cat sub/.env keys/one.pem",
        ),
        (
            "a directory that cannot be listed",
            |ws| closed(ws, 0o311),
            usual(),
            "chmod 755 closed; cat closed/.env sub/.env keys/one.pem",
        ),
        (
            "a directory that cannot be opened at all",
            |ws| closed(ws, 0o000),
            usual(),
            "chmod 755 closed; cat closed/.env sub/.env keys/one.pem",
        ),
        (
            "the directory of the secret itself, closed",
            |ws| {
                let mode = fs::Permissions::from_mode(0o000);
                fs::set_permissions(ws.root.join("sub"), mode).unwrap();
            },
            usual(),
            "chmod 755 sub; cat sub/.env keys/one.pem",
        ),
        (
            "more places than are masked",
            |ws| (0..9).for_each(|number| ws.put(&format!("many/{number}/.env"), "")),
            MaskLimits {
                places: 4,
                ..usual()
            },
            "cat sub/.env keys/one.pem",
        ),
        (
            "more entries than are looked at",
            |ws| (0..99).for_each(|number| ws.put(&format!("many/deep/{number}"), "")),
            MaskLimits {
                entries: 40,
                ..usual()
            },
            "cat sub/.env keys/one.pem",
        ),
    ]
}

fn closed(ws: &Workspace, mode: u32) {
    ws.put("closed/.env", TOKEN);
    let mode = fs::Permissions::from_mode(mode);
    fs::set_permissions(ws.root.join("closed"), mode).unwrap();
}

/// So that the workspace can be removed.
fn open_up(ws: &Workspace) {
    for directory in ["closed", "sub"] {
        let mode = fs::Permissions::from_mode(0o755);
        let _ = fs::set_permissions(ws.root.join(directory), mode);
    }
}

#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn what_an_agent_makes_switches_off_one_promise_and_no_mask() {
    let wanted = masks(&["**/.env", "keys/*.pem"], &[]);
    for (trick, prepare, limits, script) in tricks() {
        let ws = workspace(limits.clone());
        prepare(&ws);
        let held = holds(&ws, &wanted).await;
        open_up(&ws);
        assert_eq!(held, masks(&["keys/*.pem"], &[]), "{trick}");
        check(&limits, prepare, &wanted, script).await;
        // In a workspace without it, everything is held.
        let ws = workspace(MaskLimits::default());
        assert_eq!(holds(&ws, &wanted).await, wanted, "{trick}");
    }
}

#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn patterns_beyond_the_most_are_not_held_and_the_others_are() {
    let wanted = masks(&["keys/**", "**/.env"], &[]);
    let ws = workspace(MaskLimits {
        patterns: 1,
        ..MaskLimits::default()
    });
    assert_eq!(holds(&ws, &wanted).await, masks(&["keys/**"], &[]));
    let (output, _) = run(&ws, &wanted, "cat keys/one.pem").await;
    assert!(!output.contains(TOKEN), "{output}");
}

#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn a_promised_mask_that_cannot_be_made_stops_the_start() {
    let ws = workspace(MaskLimits::default());
    let wanted = masks(&["**/.env"], &[]);
    assert_eq!(holds(&ws, &wanted).await, wanted);
    let processes = ws.backend.operations().processes;
    let script = "cat sub/.env";
    let first = processes.spawn(spawn(wanted.clone(), Masks::NONE, script));
    first.await.unwrap();
    fs::create_dir(ws.root.join("z")).unwrap();
    symlink("/usr/lib", ws.root.join("z/.env")).unwrap();
    let second = processes.spawn(spawn(wanted.clone(), Masks::NONE, script));
    let refused = second.await.err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::TierUnavailable);
    assert!(refused.message().contains("z/.env"), "{refused}");
    // The control: an attempt that goes as far as it can.
    let third = processes.spawn(spawn(Masks::NONE, wanted, script)).await;
    let (output, exit) = finish(&mut *third.unwrap()).await;
    assert_eq!((output.as_str(), exit.status), ("", ExitStatus::Code(0)));
}

#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn a_link_in_the_workspace_promises_nothing_and_what_it_leads_to_is_hidden() {
    let prepare = |ws: &Workspace| {
        ws.put("config/secrets.txt", TOKEN);
        symlink("config/secrets.txt", ws.root.join("linked.env")).unwrap();
        ws.put("private/deep/key", TOKEN);
        symlink("private", ws.root.join("pri")).unwrap();
    };
    let usual = MaskLimits::default();
    for (pattern, script) in [
        ("**/linked.env", "cat linked.env config/secrets.txt"),
        ("linked.env", "cat linked.env config/secrets.txt"),
        ("pri/**", "cat pri/deep/key private/deep/key"),
        ("pri/deep/key", "cat pri/deep/key private/deep/key"),
        ("pri/deep/*", "cat pri/deep/key private/deep/key"),
        ("pri/**/k*", "cat pri/deep/key private/deep/key"),
        ("**/pri/*/key", "cat pri/deep/key private/deep/key"),
    ] {
        let ws = workspace(usual.clone());
        prepare(&ws);
        let wanted = masks(&[pattern], &[]);
        assert_eq!(holds(&ws, &wanted).await, Masks::NONE, "{pattern}");
        check(&usual, prepare, &wanted, script).await;
    }
    // A link to what the same rule means by its own name takes nothing away from it.
    let ws = workspace(usual);
    symlink("sub/.env", ws.root.join(".env")).unwrap();
    let wanted = masks(&["**/.env"], &[]);
    assert_eq!(holds(&ws, &wanted).await, wanted);
}

/// Ways to change `sub/a.txt` and `sub/x.lock`, which hold `denied`.
const WAYS_TO_CHANGE: [&str; 6] = [
    "echo changed > sub/a.txt; echo changed > sub/x.lock",
    "sed -i s/denied/changed/ sub/a.txt sub/x.lock",
    "rm -f sub/a.txt sub/x.lock",
    "echo new > n; mv -f n sub/a.txt; echo new > n; mv -f n sub/x.lock",
    "mv sub other; echo changed > other/a.txt; echo changed > other/x.lock; mv other sub",
    "ln -s sub l; echo changed > l/a.txt; echo changed > l/x.lock",
];

#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn a_name_that_must_not_be_written_is_kept_where_it_exists() {
    let wanted = masks(&[], &["**/*.lock", "**/a.txt"]);
    for script in WAYS_TO_CHANGE {
        for (masks, changes) in [(&Masks::NONE, true), (&wanted, false)] {
            let ws = workspace(MaskLimits::default());
            for file in ["sub/a.txt", "sub/x.lock"] {
                ws.put(file, "denied\n");
            }
            assert_eq!(holds(&ws, masks).await, Masks::NONE);
            run(&ws, masks, script).await;
            for file in ["sub/a.txt", "sub/x.lock"] {
                let text = fs::read_to_string(ws.root.join(file)).ok();
                let is_changed = text.as_deref() != Some("denied\n");
                assert_eq!(is_changed, changes, "{script}: {file}");
            }
            // Others can be made, which is why the rule is not held.
            let (output, status) = run(&ws, masks, "echo new > b.lock && cat b.lock").await;
            assert_eq!((output.as_str(), status), ("new\n", ExitStatus::Code(0)));
        }
    }
}

#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn a_name_that_is_not_utf_8_can_be_hidden() {
    let directory = OsStr::from_bytes(b"caf\xe9");
    let prepare = |ws: &Workspace| {
        let directory = ws.root.join(directory);
        fs::create_dir_all(directory.join("keys")).unwrap();
        fs::write(directory.join(".env"), TOKEN).unwrap();
        fs::write(directory.join("keys/one"), TOKEN).unwrap();
    };
    let wanted = masks(&["**/.env", "**/keys/**"], &[]);
    let ws = workspace(MaskLimits::default());
    prepare(&ws);
    assert_eq!(holds(&ws, &wanted).await, wanted);
    let (_, status) = run(&ws, &wanted, "true").await;
    assert_eq!(status, ExitStatus::Code(0));
    let script = "cat caf*/.env; cat caf*/keys/*";
    check(&MaskLimits::default(), prepare, &wanted, script).await;
}

/// Its configuration is JSON, which has no such names.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "ci: needs gVisor"]
async fn gvisor_says_which_name_is_not_utf_8() {
    let ws = workspace(MaskLimits::default());
    let directory = ws.root.join(OsStr::from_bytes(b"caf\xe9"));
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join(".env"), TOKEN).unwrap();
    let spawn = Spawn {
        tier: Tier::T3,
        ..spawn(masks(&["**/.env"], &[]), Masks::NONE, "true")
    };
    let refused = ws.backend.operations().processes.spawn(spawn).await;
    let refused = refused.err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::TierUnavailable);
    assert!(refused.message().contains("rename `"), "{refused}");
}
