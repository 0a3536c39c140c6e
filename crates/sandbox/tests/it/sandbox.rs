//! What a sandboxed command can and cannot do, looked at from both sides. The attack corpus is
//! elsewhere; these are the promises of the mechanism itself.

use std::{collections::BTreeSet, fs};

use haft_backends::LocalOptions;
use haft_contract::{
    access::Command,
    egress::{EgressRules, HostRule},
    ops::{ChildExit, ExitStatus, Layer, Refusal, Spawn, Tier},
};
use haft_sandbox::SandboxOptions;
use haft_testkit::eventually;

use crate::workspace::{Workspace, at, finish, sandbox_options};

/// A command's output and end.
struct Ran {
    output: String,
    exit: ChildExit,
}

async fn run(ws: &Workspace, tier: Tier, script: &str) -> Ran {
    // One stream, so that no line is met in the middle of another.
    let script = format!("exec 2>&1; {script}");
    let spawn = Spawn::new(Command::Shell(script), at("."), tier);
    ran(ws, spawn).await
}

async fn ran(ws: &Workspace, spawn: Spawn) -> Ran {
    let (output, exit) = finish(&mut *ws.start(spawn).await).await;
    Ran { output, exit }
}

fn sandboxed() -> Workspace {
    Workspace::sandboxed(sandbox_options())
}

fn refused(exit: &ChildExit, layer: Layer) -> Vec<&str> {
    let of_layer = |refusal: &&Refusal| refusal.layer == layer;
    let found = exit.refusals.iter().filter(of_layer);
    found.map(|refusal| refusal.what.as_str()).collect()
}

/// Runs a script that must succeed in every line.
async fn check(tier: Tier, script: &str) {
    let ws = sandboxed();
    let ran = run(&ws, tier, &format!("set -e\n{script}")).await;
    assert_eq!(ran.exit.status, ExitStatus::Code(0), "{}", ran.output);
    assert_eq!(ran.exit.refusals, [], "{}", ran.output);
}

#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn ordinary_work_is_not_refused() {
    for tier in [Tier::T1, Tier::T2] {
        check(
            tier,
            "echo text > file; mkdir -p a/b; mv file a/b/; cp -p a/b/file copy; chmod +x copy
             ln -s copy link; ln copy hard; mkfifo pipe; rm -r a link hard pipe copy
             echo x > \"$TMPDIR/t\"; echo x > ~/h; cat < <(echo process substitution)
             ls -l /usr > /dev/null; id > /dev/null; date > /dev/null; sleep 0.01
             touch -d @1000 old; test $(stat -c %Y old) = 1000; chmod 640 old; touch -h -d @5 old
             test $(stat -c %a old) = 640; exec 5>> old; chmod 600 /proc/self/fd/5; exec 5>&-
             cp -a old older; test $(stat -c %a,%Y older) = 600,5; tar cf - old | tar xpf - -C \"$TMPDIR\"
             (exit 0) & wait; seq 1000 | sort -n | tail -1 > /dev/null",
        )
        .await;
    }
}

#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn t2_has_a_file_system_of_its_own() {
    let ws = sandboxed();
    let script = format!(
        "cat {0}/secret; ls {0}; echo x > /etc/x; echo x > /usr/x; echo x > /x; echo x > /dev/x
         ls /root /var /sys /etc/shadow /etc/machine-id; ls -A ~ /tmp; hostname; cat /etc/hostname",
        ws.outside.display()
    );
    let ran = run(&ws, Tier::T2, &script).await;
    assert!(
        !ran.output.contains(crate::workspace::SECRET),
        "{}",
        ran.output
    );
    for line in [
        "bash: line 1: /etc/x: Read-only file system",
        "bash: line 1: /usr/x: Read-only file system",
        "bash: line 1: /x: Read-only file system",
        "bash: line 1: /dev/x: Read-only file system",
        "ls: cannot access '/root': No such file or directory",
        "ls: cannot access '/etc/shadow': No such file or directory",
        "ls: cannot access '/etc/machine-id': No such file or directory",
        "haft",
    ] {
        assert!(
            ran.output.lines().any(|found| found == line),
            "{line}:\n{}",
            ran.output
        );
    }
    ws.outside_is_untouched();
}

#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn the_init_can_be_neither_read_nor_signalled() {
    let ws = sandboxed();
    let script = "cat /proc/1/environ && echo READ environ
        (echo x > /proc/1/mem) && echo WROTE mem
        head -c1 /proc/1/mem && echo READ mem
        ls -l /proc/1/fd && echo LISTED
        kill -STOP 1 && echo SIGNALLED
        kill -KILL 1 && echo SIGNALLED
        python3 - <<'X'
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print('PTRACE' if libc.ptrace(16, 1, 0, 0) == 0 else 'not traced')
X
        echo over";
    let ran = run(&ws, Tier::T2, script).await;
    for word in ["READ", "WROTE", "LISTED", "SIGNALLED", "PTRACE"] {
        assert!(!ran.output.contains(word), "{word}:\n{}", ran.output);
    }
    assert!(ran.output.contains("over\n"), "{}", ran.output);
    assert_eq!(refused(&ran.exit, Layer::Seccomp), ["ptrace"]);
}

#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn a_command_starts_with_three_descriptors_and_nothing_of_ours_in_its_environment() {
    for tier in [Tier::T1, Tier::T2] {
        let ws = sandboxed();
        let ran = run(
            &ws,
            tier,
            "for d in /proc/self/fd/*; do echo ${d##*/}; done; env",
        )
        .await;
        let numbers: Vec<_> = ran
            .output
            .lines()
            .filter(|line| line.parse::<u32>().is_ok_and(|number| number > 2))
            .collect();
        // The shell's own, for reading the directory.
        assert!(numbers.len() <= 1, "{tier}: {}", ran.output);
        // The test's own, which cargo sets.
        assert!(!ran.output.contains("CARGO_MANIFEST"), "{}", ran.output);
    }
}

#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn there_is_no_network_but_its_own_loopback() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo CONNECTED; echo over");
    for tier in [Tier::T1, Tier::T2] {
        let ran = run(&sandboxed(), tier, &script).await;
        assert!(!ran.output.contains("CONNECTED"), "{tier}: {}", ran.output);
    }
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "somebody connected");
}

#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn a_connection_that_leads_out_is_told_of() {
    let script =
        "(exec 3<>/dev/tcp/192.0.2.1/80); (exec 3<>/dev/tcp/127.0.0.1/9); getent hosts example.com";
    let ran = run(&sandboxed(), Tier::T2, script).await;
    assert!(
        ran.output.contains("Network is unreachable"),
        "{}",
        ran.output
    );
    assert!(ran.output.contains("Connection refused"), "{}", ran.output);
    assert_eq!(
        refused(&ran.exit, Layer::Egress),
        ["connect to 192.0.2.1:80", "look up the name of a host"],
        "{}",
        ran.output
    );
    let ran = run(&sandboxed(), Tier::T1, "(exec 3<>/dev/tcp/192.0.2.1/80)").await;
    assert_eq!(refused(&ran.exit, Layer::Seccomp), ["socket of family 2"]);
}

/// A command that may reach one host reaches it through the proxy, from its first moment, and
/// nothing else; the outcome names what it was refused.
#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn only_hosts_that_were_granted_are_reached() {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let served = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 1024];
        let got = stream.read(&mut request).unwrap();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
            .unwrap();
        String::from_utf8_lossy(&request[..got]).into_owned()
    });
    let ws = sandboxed();
    let script = format!(
        "curl -s --proxy $http_proxy http://127.0.0.1:{port}/x; echo
         curl -s -o /dev/null -w '%{{http_code}}\\n' http://example.invalid/"
    );
    let mut spawn = Spawn::new(Command::Shell(script), at("."), Tier::T2);
    let allow = HostRule::parse(&format!("127.0.0.1:{port}")).unwrap();
    spawn.egress = Some(std::sync::Arc::new(EgressRules {
        allow: vec![allow],
        deny: Vec::new(),
    }));
    let ran = ran(&ws, spawn).await;
    assert_eq!(ran.output, "hello\n403\n");
    assert!(served.join().unwrap().starts_with("GET /x HTTP/1.1\r\n"));
    let hosts = refused(&ran.exit, Layer::Egress);
    assert!(
        matches!(hosts.as_slice(), [host] if host.contains("example.invalid")),
        "{:?}",
        ran.exit
    );
}

/// SB-44: in T1 the processes of the machine can be seen, and only their own scheduling is theirs.
#[tokio::test]
#[ignore = "ci: needs Landlock and Python"]
async fn sb_44_in_t1_only_its_own_scheduling_can_be_changed() {
    let mut other = std::process::Command::new("sleep")
        .arg("600")
        .spawn()
        .unwrap();
    let script = format!(
        "python3 - <<'E'
import os, threading
def attempt(what, act):
    try:
        act()
        print(what, 'changed')
    except PermissionError:
        print(what, 'refused')
other = {}
attempt('own priority', lambda: os.setpriority(os.PRIO_PROCESS, 0, 5))
attempt('own affinity', lambda: os.sched_setaffinity(os.getpid(), os.sched_getaffinity(0)))
def of_a_thread():
    attempt('thread affinity', lambda: os.sched_setaffinity(threading.get_native_id(), os.sched_getaffinity(0)))
thread = threading.Thread(target=of_a_thread)
thread.start()
thread.join()
attempt('other priority', lambda: os.setpriority(os.PRIO_PROCESS, other, 5))
attempt('all of the user', lambda: os.setpriority(os.PRIO_USER, os.getuid(), 5))
attempt('other affinity', lambda: os.sched_setaffinity(other, {{0}}))
attempt('other policy', lambda: os.sched_setscheduler(other, os.SCHED_IDLE, os.sched_param(0)))
E",
        other.id()
    );
    let ran = run(&sandboxed(), Tier::T1, &script).await;
    let _ = other.kill();
    let _ = other.wait();
    assert_eq!(
        ran.output.lines().collect::<Vec<_>>(),
        [
            "own priority changed",
            "own affinity changed",
            "thread affinity changed",
            "other priority refused",
            "all of the user refused",
            "other affinity refused",
            "other policy refused",
        ]
    );
    let told = refused(&ran.exit, Layer::Seccomp);
    assert_eq!(
        told,
        ["setpriority", "sched_setaffinity", "sched_setscheduler"]
    );
}

/// SB-43: a program that runs as whoever owns it cannot be made, in either tier.
#[tokio::test]
#[ignore = "ci: needs bubblewrap and Python"]
async fn sb_43_no_set_user_id_program_is_made() {
    for tier in [Tier::T1, Tier::T2] {
        let ws = sandboxed();
        ws.put("f", "x");
        let ran = run(
            &ws,
            tier,
            "chmod u+s f; chmod 2755 f; chmod 755 f && echo plain
             python3 -c \"import os; os.open('made', os.O_CREAT | os.O_WRONLY, 0o4755)\" 2>/dev/null
             python3 -c \"import os; os.mknod('made', 0o104755)\" 2>/dev/null; mkdir -m 1777 d && echo sticky; true",
        )
        .await;
        assert!(
            ran.output.contains("plain\n") && ran.output.contains("sticky"),
            "{}",
            ran.output
        );
        let mode = fs::metadata(ws.root.join("f")).unwrap().permissions();
        assert_eq!(
            std::os::unix::fs::PermissionsExt::mode(&mode) & 0o7777,
            0o755,
            "{tier}"
        );
        assert!(!ws.root.join("made").exists(), "{tier}");
        let told = refused(&ran.exit, Layer::Seccomp);
        assert_eq!(told, ["set a set-user-id or set-group-id bit"], "{tier}");
    }
}

#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn a_protected_name_that_is_absent_cannot_be_created() {
    for tier in [Tier::T1, Tier::T2] {
        let ws = sandboxed();
        let ran = run(
            &ws,
            tier,
            "echo x > .bashrc; mkdir .vscode; mkdir -p sub/.claude; ln -s /etc/passwd .npmrc
             echo x > plain; mv plain .mcp.json; ln plain haft.toml; cd sub; echo x > ../.envrc
             mkdir -p .config; cd .config; mkdir git; mkdir -p /tmp/.vscode && echo fine",
        )
        .await;
        assert_eq!(
            refused(&ran.exit, Layer::Protected),
            [
                "create `.bashrc`",
                "create `.vscode`",
                "create `sub/.claude`",
                "create `.npmrc`",
                "create `.mcp.json`",
                "create `haft.toml`",
                "create `.envrc`",
                "create `sub/.config/git`",
            ],
            "{tier}: {}",
            ran.output
        );
        let mut names: Vec<_> = fs::read_dir(&ws.root)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["plain", "sub"], "{tier}");
    }
}

#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn git_commits_and_what_it_would_run_later_stays() {
    let ws = sandboxed();
    let git = |arguments: &[&str]| {
        let done = std::process::Command::new("git")
            .args(arguments)
            .current_dir(&ws.root)
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
    };
    git(&["init", "-q"]);
    fs::remove_dir_all(ws.root.join(".git/hooks")).unwrap();
    let before = ws.text(".git/config");
    ws.put(".vscode/settings.json", "{}");
    let commit = "git -c user.name=a -c user.email=a@b commit -qm";
    let ran = run(
        &ws,
        Tier::T2,
        &format!(
            "set -e; echo 1 > f; git add f; {commit} one; git checkout -qb other; echo 2 > f
             {commit} two -a; git checkout -q -; git merge -q other; git tag t; git stash list
             git gc -q; git log --oneline | wc -l; git branch hooks/config; git reset -q --hard HEAD~1"
        ),
    )
    .await;
    assert_eq!(ran.exit.status, ExitStatus::Code(0), "{}", ran.output);
    assert_eq!(ran.exit.refusals, [], "{}", ran.output);
    let attacks = "git config core.fsmonitor ./x; echo x >> .git/config; echo x > .git/hooks/pre-commit
         mv .git .git2; rm -rf .git/hooks; mv .git/config .git/c2; cp /bin/true .git/hooks/post-checkout
         echo x > .vscode/settings.json; rm -rf .vscode; mv .vscode v; echo over";
    let ran = run(&ws, Tier::T2, attacks).await;
    assert!(ran.output.contains("over\n"), "{}", ran.output);
    assert_eq!(ws.text(".git/config"), before);
    assert_eq!(ws.text(".vscode/settings.json"), "{}");
    assert_eq!(fs::read_dir(ws.root.join(".git/hooks")).unwrap().count(), 0);
}

/// Found by review: limits of other processes, which would end them or blind the init.
#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn sb_12_the_limits_of_another_process_cannot_be_changed() {
    for tier in [Tier::T1, Tier::T2] {
        let ws = sandboxed();
        let script = "python3 -c 'import os, resource
try: resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (0, 0)); print(\"changed\")
except PermissionError: print(\"refused\")'; ulimit -n 100; true";
        let ran = run(&ws, tier, script).await;
        assert_eq!(ran.output, "refused\n", "{tier}");
        assert_eq!(refused(&ran.exit, Layer::Seccomp), ["prlimit64"], "{tier}");
    }
}

/// Found by review: what leads git to settings of the attacker's, and names whose parent is moved.
#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn sb_29_what_git_and_others_obey_cannot_be_exchanged_with_its_parent() {
    let ws = sandboxed();
    ws.put(".git/HEAD", "ref: refs/heads/main\n");
    ws.put(".git/modules/lib/HEAD", "ref: refs/heads/main\n");
    ws.put(".git/modules/lib/config", "[core]\n");
    ws.put(".config/nvim/init.lua", "kept");
    ws.put("lib/.git", "gitdir: ../.git/modules/lib\n");
    ws.put("sub/.git/hooks/sample", "");
    let script = "echo /evil > .git/modules/lib/commondir
        mv .git/modules/lib .git/modules/old
        echo 'gitdir: /evil' > lib/.git
        mv .config .c2
        (cd sub/.git/hooks && echo evil > post-commit)
        mkdir d; echo evil > d/$'\\xff'/../.envrc; true";
    run(&ws, Tier::T2, script).await;
    for absent in [
        ".git/modules/lib/commondir",
        ".git/modules/old",
        ".c2",
        "sub/.git/hooks/post-commit",
        "d/.envrc",
    ] {
        assert!(!ws.root.join(absent).exists(), "{absent}");
    }
    let read = |path: &str| fs::read_to_string(ws.root.join(path)).unwrap();
    assert_eq!(read("lib/.git"), "gitdir: ../.git/modules/lib\n");
    assert_eq!(read(".config/nvim/init.lua"), "kept");
}

/// SB-27: Landlock guards neither mode nor times; they are guarded all the same.
#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn sb_27_attributes_outside_cannot_be_changed() {
    use std::os::unix::fs::MetadataExt as _;
    for tier in [Tier::T1, Tier::T2] {
        let ws = sandboxed();
        let secret = ws.outside.join("secret");
        let state = || {
            let found = fs::metadata(&secret).unwrap();
            (found.mode(), found.mtime(), found.gid())
        };
        let before = state();
        std::os::unix::fs::symlink(&secret, ws.root.join("link")).unwrap();
        let script = format!(
            "s={0}; chmod 777 $s; touch -d @5 $s; chmod 777 link; touch -d @5 link; chgrp 0 $s
             python3 - <<'X'
import os
for call in (lambda: os.chmod('{0}', 0o777), lambda: os.utime('{0}', (1, 1)),
             lambda: os.setxattr('{0}', 'user.x', b'1'), lambda: os.chmod('../outside/secret', 0o777)):
    try:
        call()
        print('CHANGED')
    except OSError as error:
        print(error)
X",
            secret.display()
        );
        let ran = run(&ws, tier, &script).await;
        assert_eq!(state(), before, "{tier}: {}", ran.output);
        assert!(!ran.output.contains("CHANGED"), "{tier}: {}", ran.output);
        if tier == Tier::T1 {
            let what = format!("change the mode or times of `{}`", secret.display());
            assert_eq!(refused(&ran.exit, Layer::Seccomp), [what], "{}", ran.output);
        }
    }
}

/// SB-30: what left the session, the group and its parent is gone with the command.
#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn sb_30_nothing_outlives_the_command() {
    for tier in [Tier::T1, Tier::T2] {
        let ws = sandboxed();
        // Were it waited for, the run would never end.
        let script = "(setsid env -i bash -c 'exec >&- 2>&- <&-
            until [ -e go ]; do sleep 0.05; done; echo late > late' &) ; echo done";
        let ran = run(&ws, tier, script).await;
        assert_eq!(ran.output, "done\n");
        fs::write(ws.root.join("go"), "").unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(900)).await;
        assert!(!ws.root.join("late").exists(), "{tier}");
    }
}

/// SB-34: a tier that cannot be had is refused, whatever the reason.
#[tokio::test]
async fn sb_34_without_a_helper_there_is_no_sandbox() {
    let ws = Workspace::sandboxed(SandboxOptions {
        helper: haft_sandbox::helper::Helper::Path("/nonexistent/helper".into()),
        ..SandboxOptions::default()
    });
    assert_eq!(ws.backend.operations().tiers, [Tier::Host]);
    for tier in [Tier::T1, Tier::T2, Tier::T3] {
        let spawn = Spawn::new(Command::Shell("true".to_owned()), at("."), tier);
        let refused = ws.backend.operations().processes.spawn(spawn).await;
        let error = refused.err().expect("a refusal");
        assert_eq!(error.kind(), haft_contract::ErrorKind::TierUnavailable);
    }
}

/// SB-34: what fails only when a sandbox is set up fails the call, in words for a model.
#[tokio::test]
async fn sb_34_a_sandbox_that_cannot_be_set_up_runs_nothing() {
    for helper in ["/nonexistent/helper", "/bin/true"] {
        let ws = Workspace::sandboxed(SandboxOptions {
            helper: haft_sandbox::helper::Helper::Path(helper.into()),
            ..sandbox_options()
        });
        for tier in [Tier::T1, Tier::T2] {
            let command = Command::Shell("echo x > made".to_owned());
            let spawn = Spawn::new(command, at("."), tier);
            let refused = ws.backend.operations().processes.spawn(spawn).await;
            crate::workspace::refused(
                refused.map(|_| ()),
                haft_contract::ErrorKind::TierUnavailable,
            );
            assert!(!ws.root.join("made").exists());
        }
    }
}

#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn a_layer_can_be_left_out_to_show_what_the_others_hold() {
    for layer in Layer::ALL {
        let ws = Workspace::sandboxed(SandboxOptions {
            without: BTreeSet::from([layer]),
            ..sandbox_options()
        });
        let ran = run(&ws, Tier::T2, "echo fine").await;
        assert_eq!(ran.output, "fine\n", "{}", layer.as_str());
    }
}

/// SB-29: what a sandboxed command left in the workspace is never run on the host.
#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn sb_29_the_host_executes_nothing_from_the_workspace() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let ws = sandboxed();
    ws.put("bin/tool", "#!/bin/bash\necho ran\n");
    let tool = ws.root.join("bin/tool");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    let link = ws.outside.join("link");
    symlink(&tool, &link).unwrap();
    let path = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    for name in [
        "./bin/tool".to_owned(),
        "bin/../bin/tool".to_owned(),
        path(&tool),
        path(&link),
    ] {
        let spawn = |tier| Spawn::new(Command::Argv(vec![name.clone()]), at("."), tier);
        let refused = ws
            .backend
            .operations()
            .processes
            .spawn(spawn(Tier::Host))
            .await;
        let error = refused.err().expect("a refusal");
        assert_eq!(
            error.kind(),
            haft_contract::ErrorKind::AccessDenied,
            "{name}"
        );
        if !name.ends_with("link") {
            assert_eq!(ran(&ws, spawn(Tier::T2)).await.output, "ran\n", "{name}");
        }
    }
}

/// UN-05: a name in a shared directory belongs to whoever makes it first.
#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn un_05_commands_run_where_somebody_took_the_name_of_the_private_directory() {
    let shared = tempfile::tempdir().unwrap();
    let name = format!("haft-{}", rustix::process::geteuid().as_raw());
    let taken = shared.path().join(&name);
    let theirs = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(theirs.path(), &taken).unwrap();
    let options = LocalOptions {
        temporary: shared.path().display().to_string(),
        sandbox: sandbox_options(),
        ..LocalOptions::default()
    };
    let ws = Workspace::with(tempfile::tempdir().unwrap(), options);
    let script = "cd \"$TMPDIR\" && echo x > file && stat -c %a . && pwd -P";
    let ran = run(&ws, Tier::T1, script).await;
    assert_eq!(ran.exit.status, ExitStatus::Code(0), "{}", ran.output);
    let (mode, place) = ran.output.trim().split_once('\n').unwrap();
    assert_eq!(mode, "700");
    let shown = shared.path().canonicalize().unwrap();
    assert!(
        place.starts_with(&format!("{}/{name}-", shown.display())),
        "{place}"
    );
    assert_eq!(fs::read_dir(theirs.path()).unwrap().count(), 0);
}

/// However commands end, nothing of theirs stays: no descriptor, no zombie, no directory.
#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn nothing_is_left_of_many_commands() {
    let ws = sandboxed();
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    let private = run(&ws, Tier::T1, "printf %s \"$TMPDIR\"").await.output;
    assert!(private.starts_with("/tmp/haft-"), "{private}");
    run(&ws, Tier::T2, "true").await;
    let before = descriptors();
    for round in 0..20 {
        for tier in [Tier::T1, Tier::T2] {
            let spawn = Spawn::new(
                Command::Shell("sleep 1000 & echo x; sleep 1000".to_owned()),
                at("."),
                tier,
            );
            let mut child = ws.start(spawn).await;
            match round % 3 {
                0 => drop(child),
                1 => child.stop(std::time::Duration::ZERO).await.unwrap(),
                _ => drop(child.next_chunk().await),
            }
            run(&ws, tier, "true").await;
        }
    }
    let children = || {
        let path = format!("/proc/self/task/{}/children", std::process::id());
        fs::read_to_string(path).unwrap_or_default()
    };
    let private = || fs::exists(&private).unwrap();
    eventually("no more descriptors", || descriptors() <= before).await;
    eventually("no children", || children().is_empty()).await;
    eventually("no directory", || !private()).await;
}

/// SL-16: what is bound is what was opened, or nothing runs.
#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn sl_16_a_workspace_that_was_replaced_is_not_entered() {
    for tier in [Tier::T1, Tier::T2] {
        let ws = sandboxed();
        let away = ws.root.with_extension("away");
        fs::rename(&ws.root, &away).unwrap();
        std::os::unix::fs::symlink(&ws.outside, &ws.root).unwrap();
        let spawn = || {
            Spawn::new(
                Command::Shell("cat secret; echo x > made".to_owned()),
                at("."),
                tier,
            )
        };
        let refused = ws.backend.operations().processes.spawn(spawn()).await;
        let error = refused.err().expect("a refusal");
        assert_eq!(
            error.kind(),
            haft_contract::ErrorKind::WorkspaceMoved,
            "{error}"
        );
        fs::remove_file(&ws.root).unwrap();
        fs::create_dir(&ws.root).unwrap();
        let refused = ws.backend.operations().processes.spawn(spawn()).await;
        let error = refused.err().expect("a refusal");
        assert_eq!(
            error.kind(),
            haft_contract::ErrorKind::WorkspaceMoved,
            "{error}"
        );
        assert_eq!(fs::read_dir(&ws.root).unwrap().count(), 0);
        ws.outside_is_untouched();
    }
}

/// What the process that is killed below does: it starts commands and waits.
#[tokio::test]
#[ignore = "child: of the test below, which kills it"]
async fn starts_commands_and_waits() {
    let seconds = std::env::var("HAFT_TEST_SLEEP").unwrap();
    let ws = sandboxed();
    let mut children = Vec::new();
    for tier in [Tier::T1, Tier::T2] {
        let script = format!("setsid sleep {seconds} & echo ready; exec sleep {seconds}");
        let spawn = Spawn::new(Command::Shell(script), at("."), tier);
        let mut child = ws.start(spawn).await;
        assert!(child.next_chunk().await.is_some());
        children.push(child);
    }
    println!("all run");
    std::future::pending::<()>().await;
}

/// A Haft that is killed takes its commands with it, within two seconds.
#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn a_killed_haft_takes_its_commands_with_it() {
    use std::io::{BufRead as _, BufReader};
    let seconds = format!("{}", 100_000 + std::process::id());
    let mut haft = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "sandbox::starts_commands_and_waits",
            "--ignored",
            "--nocapture",
        ])
        .env("HAFT_TEST_SLEEP", &seconds)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(haft.stdout.take().unwrap()).lines();
    assert!(
        lines
            .map_while(Result::ok)
            .any(|line| line.contains("all run"))
    );
    let sleeping = || {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let wanted = format!("sleep\0{seconds}\0");
        let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        lines.filter(|line| line == wanted.as_bytes()).count()
    };
    // Two commands, each with a child that left its session.
    eventually("all sleep", || sleeping() >= 4).await;
    let before = sleeping();
    haft.kill().unwrap();
    haft.wait().unwrap();
    assert_eq!(before, 4);
    eventually("all are gone", || sleeping() == 0).await;
}
