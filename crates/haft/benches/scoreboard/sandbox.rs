//! Row 17: a sandboxed `bash -c true` beside bare bubblewrap with the very same mounts, the same in
//! tier T1 beside a bare spawn, and a file tool call in a workspace whose commands are sandboxed
//! beside one whose commands are not.

use std::{
    io::Write as _,
    os::fd::{AsRawFd as _, OwnedFd},
    path::Path,
    process::Command,
};

use haft::{Haft, LocalOptions, prelude::*};
use haft_backends::LocalBackend;
use haft_contract::{
    WorkPath,
    access::Command as Script,
    ops::{ExitStatus, Operations, Spawn, Tier},
};
use haft_sandbox::{Mount, SandboxPlan, helper::Helper};
use rustix::fs::{MemfdFlags, memfd_create};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::{
    Scale, machine,
    measure::{MeasuredPair, ResourcesUsed, used},
    report::{Goal, Row, time},
    setting,
};

/// The command both sides run.
const SCRIPT: &str = "true";

/// Bytes of the file that is read.
const FILE_BYTES: usize = 4096;

pub(crate) fn rows(scale: Scale) -> Vec<Row> {
    let runtime = setting::many_threads();
    let workspace = tempfile::tempdir().unwrap();
    let backend = LocalBackend::open(workspace.path(), sandboxed()).unwrap();
    let operations = backend.operations();
    for tier in [Tier::T1, Tier::T2] {
        assert!(operations.tiers.contains(&tier), "tier {tier} is missing");
    }
    let plan = backend.plan_sandbox(&spawn(Tier::T2)).unwrap();
    let t2 = MeasuredPair::measure(
        scale.rounds * 2,
        || commands(scale, &runtime, &operations, Tier::T2),
        || bare_bubblewrap(scale, &plan),
    );
    let t1 = MeasuredPair::measure(
        scale.rounds * 2,
        || commands(scale, &runtime, &operations, Tier::T1),
        || bare_spawn(scale, workspace.path()),
    );
    let files = files(scale, &runtime);
    vec![
        row(
            "`bash -c true` in T2 ÷ bare `bwrap --as-pid-1`, same mounts",
            &t2,
            1.0,
        ),
        row("`bash -c true` in T1 ÷ bare `posix_spawn`", &t1, 2.0),
        row("`read` with T2 for commands ÷ without", &files, 1.1),
    ]
}

/// A workspace whose commands are sandboxed with this program's own helper mode.
fn sandboxed() -> LocalOptions {
    let mut options = LocalOptions::default();
    options.sandbox.helper = Helper::CurrentExecutable;
    options
}

fn spawn(tier: Tier) -> Spawn {
    Spawn::new(Script::Shell(SCRIPT.to_owned()), WorkPath::root(), tier)
}

/// Sandboxed commands through the back end: what a call costs around it is rows 1 and 12.
fn commands(scale: Scale, runtime: &Runtime, operations: &Operations, tier: Tier) -> ResourcesUsed {
    let work = || {
        runtime.block_on(async {
            for _ in 0..scale.commands {
                let mut child = operations.processes.spawn(spawn(tier)).await.unwrap();
                while child.next_chunk().await.is_some() {}
                assert_eq!(child.wait().await.unwrap().status, ExitStatus::Code(0));
            }
        });
    };
    used(work).per(scale.commands)
}

fn bare_bubblewrap(scale: Scale, plan: &SandboxPlan) -> ResourcesUsed {
    let bubblewrap = machine::program(&["bwrap"]);
    let bash = machine::program(&["bash"]);
    let work = || {
        for _ in 0..scale.commands {
            // A made-up file is read to its end, so each command needs its own.
            let (arguments, _files) = same_mounts(plan);
            let output = Command::new(&bubblewrap)
                .args(arguments)
                .arg("--")
                .arg(&bash)
                .args(["-c", SCRIPT])
                .env_clear()
                .output()
                .unwrap();
            assert!(output.status.success(), "{output:?}");
        }
    };
    used(work).per(scale.commands)
}

/// The command line with the namespaces and mounts of a plan.
fn same_mounts(plan: &SandboxPlan) -> (Vec<String>, Vec<OwnedFd>) {
    let namespaces = plan.namespaces.as_ref().unwrap();
    let mut line: Vec<String> = [
        "--unshare-user",
        "--unshare-pid",
        // Else its monitor does not wait for its child, and what that used is never counted.
        "--as-pid-1",
        "--unshare-net",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
        "--disable-userns",
        "--die-with-parent",
        "--new-session",
        "--hostname",
        namespaces.hostname,
    ]
    .map(str::to_owned)
    .to_vec();
    let mut files = Vec::new();
    for mount in &namespaces.mounts {
        let words: Vec<String> = match mount {
            Mount::ReadOnly { source, at } => vec!["--ro-bind".into(), text(source), text(at)],
            Mount::Writable { source, at } => vec!["--bind".into(), text(source), text(at)],
            Mount::Link { target, at } => vec!["--symlink".into(), text(target), text(at)],
            Mount::Processes { at } => vec!["--proc".into(), text(at)],
            Mount::Devices { at } => vec!["--dev".into(), text(at)],
            Mount::Seal { at } => vec!["--remount-ro".into(), text(at)],
            Mount::Memory { at, bytes, mode } => vec![
                "--perms".into(),
                format!("{mode:04o}"),
                "--size".into(),
                bytes.to_string(),
                "--tmpfs".into(),
                text(at),
            ],
            Mount::File { at, text: content } => {
                let file = memfd_create("made-up", MemfdFlags::empty()).unwrap();
                let mut writer = std::fs::File::from(file);
                writer.write_all(content.as_bytes()).unwrap();
                rustix::fs::seek(&writer, rustix::fs::SeekFrom::Start(0)).unwrap();
                let number = writer.as_raw_fd().to_string();
                files.push(OwnedFd::from(writer));
                vec![
                    "--perms".into(),
                    "0444".into(),
                    "--file".into(),
                    number,
                    text(at),
                ]
            }
        };
        line.extend(words);
    }
    (line, files)
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn bare_spawn(scale: Scale, directory: &Path) -> ResourcesUsed {
    let bash = machine::program(&["bash"]);
    let work = || {
        for _ in 0..scale.commands {
            let output = Command::new(&bash)
                .args(["-c", SCRIPT])
                .env_clear()
                .current_dir(directory)
                .output()
                .unwrap();
            assert!(output.status.success());
        }
    };
    used(work).per(scale.commands)
}

/// Reads through the whole path of a call, in two Hafts that differ in their sandbox alone.
fn files(scale: Scale, runtime: &Runtime) -> MeasuredPair {
    let open = |options: LocalOptions, mode: SandboxMode| {
        let (workspace, record) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(workspace.path().join("file"), vec![b'x'; FILE_BYTES]).unwrap();
        let building = Haft::open(workspace.path())
            .data_dir(record.path())
            .configure(|runtime| runtime.loop_guard(haft::runtime::LoopGuard::OFF))
            .local(options)
            .sandbox("bash", mode)
            .build();
        (runtime.block_on(building).unwrap(), workspace, record)
    };
    let confined = open(sandboxed(), SandboxMode::Full);
    let plain = open(LocalOptions::default(), SandboxMode::Off);
    let read = |(haft, _, _): &(Haft, TempDir, TempDir)| {
        let work = || {
            runtime.block_on(async {
                for _ in 0..scale.calls {
                    let outcome = haft.call("read", json!({"path": "file"})).await;
                    assert!(outcome.succeeded(), "{outcome:?}");
                }
                // Each side pays for its own record, and leaves none of it to the other.
                haft.runtime().flush().await.unwrap();
            });
        };
        used(work).per(scale.calls)
    };
    let pair = MeasuredPair::measure(scale.rounds, || read(&confined), || read(&plain));
    for (haft, _, _) in [confined, plain] {
        runtime.block_on(haft.close()).unwrap();
    }
    pair
}

fn row(metric: &str, pair: &MeasuredPair, goal: f64) -> Row {
    let process = |used: &ResourcesUsed| used.process;
    let children = |used: &ResourcesUsed| used.children;
    Row {
        number: 17,
        metric: metric.to_owned(),
        ours: time(pair.ours(ResourcesUsed::everything)),
        bare: time(pair.bare(ResourcesUsed::everything)),
        figure: pair.ratio_of_sums(ResourcesUsed::everything),
        goal: Goal::RatioUpTo(goal),
        beside: format!(
            "{} in our process and {} in children, bare {} and {}; wall {} ÷ {}",
            time(pair.ours(process)),
            time(pair.ours(children)),
            time(pair.bare(process)),
            time(pair.bare(children)),
            time(pair.ours(|used| used.wall)),
            time(pair.bare(|used| used.wall)),
        ),
        limits: "the helper is a second program to load, and its set-up, the filter and the \
                 record of its end are work that a bare command does not do",
    }
}
