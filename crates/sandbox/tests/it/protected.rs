//! Protected names that a command creates although its init refuses to: by changing the name in
//! memory between the init's look and the kernel's. The watch outside takes them away again.

use std::{collections::BTreeSet, fs, path::Path};

use haft_contract::{
    access::Command,
    ops::{ChildExit, Layer, Spawn, Tier},
};
use haft_sandbox::SandboxOptions;

use crate::workspace::{Workspace, at, finish, sandbox_options};

/// Creates files in one thread while another changes the name; ends when it has won, that is, holds
/// a file of the protected name open.
const RACE: &str = r#"python3 - <<'X'
import ctypes, os, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
harmless, protected = b"harmless-name", b"./.envrc\0----"
name = ctypes.create_string_buffer(harmless, 32)
stop = False
def swap():
    while not stop:
        ctypes.memmove(name, harmless, len(harmless) + 1)
        time.sleep(0.00002)
        ctypes.memmove(name, protected, len(protected))
        time.sleep(0.00002)
threading.Thread(target=swap, daemon=True).start()
until = time.monotonic() + 60
while time.monotonic() < until:
    fd = libc.open(name, os.O_CREAT | os.O_WRONLY, 0o644)
    if fd < 0:
        continue
    if os.readlink(f"/proc/self/fd/{fd}").split("/")[-1].startswith((".envrc", "haft-quarantined")):
        os.write(fd, b"echo owned\n")
        print("won"); sys.stdout.flush(); os._exit(0)
    os.close(fd)
print("lost"); sys.stdout.flush(); os._exit(1)
X"#;

async fn race(options: SandboxOptions, tier: Tier) -> (Workspace, ChildExit, String) {
    let ws = Workspace::sandboxed(options);
    let spawn = Spawn::new(Command::Shell(RACE.to_owned()), at("."), tier);
    let (output, exit) = finish(&mut *ws.start(spawn).await).await;
    (ws, exit, output)
}

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ci: needs bubblewrap"]
async fn a_race_that_is_won_leaves_nothing_behind() {
    for tier in [Tier::T1, Tier::T2] {
        let kept = tempfile::tempdir().unwrap();
        let options = SandboxOptions {
            quarantine: Some(kept.path().join("kept")),
            ..sandbox_options()
        };
        let (ws, exit, output) = race(options, tier).await;
        // Otherwise this shows nothing.
        assert!(output.contains("won"), "{output}");
        assert!(!ws.root.join(".envrc").exists(), "{:?}", names(&ws.root));
        let told = exit.refusals.first().unwrap();
        assert_eq!(
            (told.layer, told.what.as_str()),
            (Layer::Protected, "create .envrc")
        );
        assert!(
            told.why.contains("appeared while the command ran"),
            "{told}"
        );
        // Who wins once may win again before the end.
        let names_kept = names(&kept.path().join("kept"));
        assert!(
            names_kept.iter().any(|name| told.why.contains(name)),
            "{told} {names_kept:?}"
        );
        let left = names(&ws.root);
        assert!(left.iter().all(|name| name == "harmless-name"), "{left:?}");
    }
}

/// The control: without this layer the file stays.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "ci: needs bubblewrap"]
async fn without_the_watch_it_stays() {
    let options = SandboxOptions {
        without: BTreeSet::from([Layer::Protected]),
        ..sandbox_options()
    };
    let (ws, exit, output) = race(options, Tier::T2).await;
    assert!(output.contains("won"), "{output}");
    assert!(ws.root.join(".envrc").exists());
    assert_eq!(exit.refusals, []);
}
