//! Tier T3 for real: `runsc` from its Debian package, as whoever runs the tests. A machine without
//! it fails these.

use std::{fs, path::Path, time::Duration};

use haft_contract::{
    access::Command,
    ops::{ChildExit, ExitStatus, Input, Layer, Spawn, Tier},
};
use haft_testkit::{eventually, in_time, machine_clock};

use crate::workspace::{SECRET, Workspace, at, finish, sandbox_options};

/// As promise 6 (docs/promises.md) has it.
const STOP_LIMIT: Duration = Duration::from_secs(2);

fn spawn(script: &str) -> Spawn {
    Spawn::new(Command::Shell(script.to_owned()), at("."), Tier::T3)
}

async fn run(ws: &Workspace, spawn: Spawn) -> (ChildExit, String) {
    let (output, exit) = finish(&mut *ws.start(spawn).await).await;
    (exit, output)
}

/// How many processes have this text in their command line.
fn count(text: &str) -> usize {
    let has = |path: &Path| {
        fs::read(path.join("cmdline"))
            .is_ok_and(|line| line.windows(text.len()).any(|part| part == text.as_bytes()))
    };
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes.filter(|entry| has(&entry.path())).count()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ci: needs gVisor"]
async fn sb_38_the_kernel_is_gvisors_and_the_machine_is_not_there() {
    let ws = Workspace::sandboxed(sandbox_options());
    assert!(ws.backend.operations().tiers.contains(&Tier::T3));
    ws.put("in.txt", "from outside\n");
    let script = format!(
        "dmesg | head -1; uname -r; cat in.txt; cat > out.txt; id -un; cat {}/secret; exit 7",
        ws.outside.display()
    );
    let spawn = Spawn {
        input: Input::Bytes(b"given\n".to_vec()),
        ..spawn(&script)
    };
    let (exit, output) = run(&ws, spawn).await;
    assert_eq!(exit.status, ExitStatus::Code(7), "{output}");
    assert!(output.contains("Starting gVisor"), "{output}");
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert!(!output.contains(release.trim()), "{output}");
    assert!(output.contains("from outside"), "{output}");
    assert_eq!(ws.text("out.txt"), "given\n");
    assert!(!output.contains(SECRET), "{output}");
    ws.outside_is_untouched();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ci: needs gVisor"]
async fn what_is_protected_stays_and_what_appears_is_moved_away() {
    let ws = Workspace::sandboxed(sandbox_options());
    ws.put(".git/config", "[core]\n");
    ws.put(".git/HEAD", "ref: refs/heads/main\n");
    let script = "echo x > .git/config; echo x > .git/hooks/pre-commit; mv .git elsewhere
                  echo x > .envrc; echo x > .git/index; true";
    let (exit, output) = run(&ws, spawn(script)).await;
    assert_eq!(ws.text(".git/config"), "[core]\n", "{output}");
    assert!(ws.root.join(".git/index").exists(), "{output}");
    assert!(!ws.root.join(".git/hooks/pre-commit").exists(), "{output}");
    assert!(!ws.root.join(".envrc").exists(), "{output}");
    let told: Vec<_> = exit
        .refusals
        .iter()
        .map(|told| (told.layer, &*told.what))
        .collect();
    assert_eq!(told, [(Layer::Protected, "create .envrc")]);
}

/// SB-46: as in T2, but found afterwards.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "ci: needs gVisor"]
async fn sb_46_protected_names_below_the_root_are_held_or_moved_away() {
    let ws = Workspace::sandboxed(sandbox_options());
    ws.put("there/.envrc", "mine\n");
    ws.put("moved/.npmrc", "mine\n");
    ws.put(".git/HEAD", "ref: refs/heads/main\n");
    ws.put(".git/modules/a/HEAD", "ref: refs/heads/main\n");
    let script = "mkdir -p new/deep .git/modules/b
                  echo x > there/.envrc; echo x > there/f; echo x > new/deep/.envrc
                  echo x > .git/modules/b/config; mkdir .git/modules/a/hooks
                  mv moved away && mkdir moved && echo x > moved/.npmrc; true";
    let (exit, output) = run(&ws, spawn(script)).await;
    assert_eq!(ws.text("there/.envrc"), "mine\n", "{output}");
    assert_eq!(ws.text("there/f"), "x\n", "{output}");
    for path in [
        "new/deep/.envrc",
        ".git/modules/b/config",
        ".git/modules/a/hooks",
    ] {
        assert!(!ws.root.join(path).exists(), "{path}: {output}");
        let told = exit.refusals.iter().any(|told| told.what.contains(path));
        assert!(told, "{path}: {:?}", exit.refusals);
    }
    if ws.root.join("moved/.npmrc").exists() {
        assert_eq!(ws.text("moved/.npmrc"), "mine\n", "{output}");
    }
}

/// SB-43 in T3, where no filter of ours sees the calls.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "ci: needs gVisor"]
async fn sb_43_set_user_id_bits_are_cleared_and_told() {
    use std::os::unix::fs::PermissionsExt as _;
    let ws = Workspace::sandboxed(sandbox_options());
    ws.put("a/f", "x");
    ws.put("kept", "x");
    fs::set_permissions(ws.root.join("kept"), fs::Permissions::from_mode(0o4755)).unwrap();
    let script = "chmod 4755 a/f; echo x > g; chmod g+s g; chmod u+x g; true";
    let (exit, output) = run(&ws, spawn(script)).await;
    let mode = |path: &str| ws.root.join(path).metadata().unwrap().permissions().mode();
    for path in ["a/f", "g"] {
        assert_eq!(mode(path) & 0o6000, 0, "{path}: {output}");
    }
    // What was so before is somebody's own business.
    assert_eq!(mode("kept") & 0o6000, 0o4000);
    let told = |path: &str| exit.refusals.iter().any(|told| told.what.contains(path));
    // gVisor itself may have left the bit out.
    assert!(
        told("a/f") || output.contains("not permitted"),
        "{:?}",
        exit.refusals
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ci: needs gVisor"]
async fn promise_6_everything_is_gone_within_2_s_of_the_call_s_end() {
    let ws = Workspace::sandboxed(sandbox_options());
    // Every process of gVisor names the directory of the command.
    let own = format!("haft-{}/", rustix::process::geteuid().as_raw());
    let own = format!("{own}{}", pid_in_names());
    in_time("T3", STOP_LIMIT, async || {
        let mut child = ws
            .start(spawn("echo ready; (setsid sleep 100000 &); sleep 100000"))
            .await;
        let chunk = child.next_chunk().await.unwrap();
        assert_eq!(chunk.bytes, b"ready\n");
        assert!(count(&own) >= 3, "{} of gVisor's processes", count(&own));
        let ended = machine_clock::now();
        drop(child);
        eventually("all are gone", || count(&own) == 0).await;
        machine_clock::now().saturating_sub(ended)
    })
    .await;
}

/// What the name of this process's private directory holds: its pid namespace and its id.
fn pid_in_names() -> String {
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap();
    let namespace = namespace.to_str().unwrap();
    let number = namespace.trim_start_matches("pid:[").trim_end_matches(']');
    format!("{number}-{}-", std::process::id())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ci: needs gVisor"]
async fn what_this_tier_cannot_do_is_refused() {
    let ws = Workspace::sandboxed(sandbox_options());
    let processes = ws.backend.operations().processes;
    let spawn = Spawn {
        progress_channel: true,
        ..spawn("true")
    };
    let error = processes.spawn(spawn).await.err().unwrap();
    assert_eq!(error.kind(), haft_contract::ErrorKind::TierUnavailable);
}
