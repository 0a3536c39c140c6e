//! The same of version 2 with its controllers, which not every machine has: `.ci/cgroup2` runs these
//! in a virtual machine with nothing else. Each says first that it is version 2 it got.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use haft_contract::ops::Limit;
use haft_testkit::PATIENCE;

use super::{MIB, name, start};
use crate::{
    cgroup::{
        Cgroup, CgroupError, CgroupName, CgroupParent, CgroupReport, CgroupSetting, Controller,
        Version,
    },
    limits::Limits,
    owner::Owner,
};

/// What `statfs` says of a file of version 2.
const CGROUP2: i64 = 0x6367_7270;

/// Grows for as long as it is let.
const BOMB: &str = "b() { b | b & }; b; sleep 600";

fn keepers() -> BTreeMap<Controller, Version> {
    let all = [Controller::Memory, Controller::Pids, Controller::Cpu];
    all.map(|controller| (controller, Version::V2)).into()
}

/// Where groups are made, and the directory of the first one.
fn parent(setting: &CgroupSetting) -> (Arc<CgroupParent>, PathBuf) {
    let parent = CgroupParent::detect(setting)
        .expect("cgroups can be made")
        .expect("some hierarchy");
    assert_eq!(parent.controllers(), keepers());
    assert!(parent.kills_at_once());
    let paths = parent.paths();
    let [path] = paths.as_slice() else {
        panic!("one hierarchy, not {paths:?}");
    };
    let of = rustix::fs::statfs(path).expect("a file system");
    assert_eq!(of.f_type, CGROUP2, "the kernel's own files");
    (parent, path.join("0"))
}

fn below(name: &str) -> CgroupSetting {
    CgroupSetting::Below(CgroupName::parse(name).expect("a name"))
}

/// A group, and its directory.
fn group(limits: &Limits) -> (Cgroup, PathBuf) {
    let (parent, path) = parent(&below(&name()));
    (parent.create(limits).expect("a group"), path)
}

fn file(directory: &Path, name: &str) -> String {
    let text = fs::read_to_string(directory.join(name)).expect("read");
    text.trim_end().to_owned()
}

/// The number after a name in a file of a group.
fn counter(directory: &Path, name: &str, of: &str) -> u64 {
    let text = file(directory, name);
    let line = text.lines().find_map(|line| line.strip_prefix(of));
    let number = line.unwrap_or_else(|| panic!("{of} in {text}"));
    number.trim().parse().expect("a number")
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Ends a group by `cgroup.kill`; its directories go.
fn end(group: Cgroup, path: &Path) {
    let most = file(path, "pids.max");
    group.kill().expect("killed");
    assert_eq!(
        file(path, "pids.max"),
        most,
        "who ends one by one refuses new ones first"
    );
    wait_until("it is empty", || {
        counter(path, "cgroup.events", "populated") == 0
    });
    assert_eq!(group.processes(), 0);
    drop(group);
    assert!(!path.exists(), "the group's directory");
    let above = path.parent().expect("a parent");
    assert!(!above.exists(), "the directory of this process");
}

#[test]
#[ignore = "vm: needs version 2 of cgroups alone"]
fn memory_beyond_the_limit_ends_the_command_and_is_told() {
    for (mib, expect) in [(16, Some(Limit::Memory)), (128, None)] {
        let (group, path) = group(&Limits {
            memory_bytes: mib * MIB,
            ..Limits::default()
        });
        assert_eq!(file(&path, "memory.max"), (mib * MIB).to_string());
        // One buffer of that size, filled by the kernel: no time goes by when it is emulated.
        let hold = "dd if=/dev/zero of=/dev/null bs=64M count=1";
        let status = start(&group, hold).wait().expect("ended");
        assert_eq!(status.success(), expect.is_none(), "{status} of {mib} MiB");
        assert_eq!(group.exceeded(), expect);
        let killed = counter(&path, "memory.events", "oom_kill ");
        assert_eq!(killed > 0, expect.is_some(), "{killed} killed");
        end(group, &path);
    }
}

#[test]
#[ignore = "vm: needs version 2 of cgroups alone"]
fn a_fork_bomb_stops_at_the_limit_and_ends_at_once() {
    let (group, path) = group(&Limits {
        processes: 32,
        ..Limits::default()
    });
    assert_eq!(file(&path, "pids.max"), "32");
    let mut child = start(&group, BOMB);
    wait_until("one is refused", || group.exceeded().is_some());
    // The kernel counts a process before it refuses it, so the count is one too high for a moment
    // as long as any of them forks. Held still, it is what the limit let be.
    fs::write(path.join("cgroup.freeze"), "1").expect("frozen");
    wait_until("they stand still", || {
        counter(&path, "cgroup.events", "frozen ") == 1
    });
    let now: u64 = file(&path, "pids.current").parse().expect("a number");
    assert!((2..=32).contains(&now), "{now} of at most 32");
    assert_eq!(group.exceeded(), Some(Limit::Processes));
    assert!(counter(&path, "pids.events", "max ") > 0);
    end(group, &path);
    child.wait().expect("ended");
}

/// The parent of a process, as long as it lives.
fn parent_of(process: &str) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, after) = stat.rsplit_once(") ")?;
    after.split(' ').nth(1).map(str::to_owned)
}

#[test]
#[ignore = "vm: needs version 2 of cgroups alone"]
fn daemons_end_with_their_group() {
    let (group, path) = group(&Limits::default());
    // Three that left for a session of their own, each with a child that it left, and one that is
    // stopped. None of them has a parent here any more.
    let script = "for i in 1 2 3; do (setsid sh -c '(sleep 600 &); exec sleep 600' &); done; \
                  (sh -c 'kill -STOP $$; sleep 600' &); exec sleep 600";
    let mut child = start(&group, script);
    let mut daemons = Vec::new();
    wait_until("seven daemons", || {
        let all = file(&path, "cgroup.procs");
        let is_daemon = |process: &&str| parent_of(process).is_some_and(|parent| parent == "1");
        daemons = all.lines().filter(is_daemon).map(str::to_owned).collect();
        daemons.len() == 7
    });
    assert_eq!(group.exceeded(), None);
    end(group, &path);
    let status = child.wait().expect("ended");
    assert!(!status.success(), "{status}");
    let lives = |process: &String| Path::new("/proc").join(process).exists();
    wait_until("the daemons are gone", || !daemons.iter().any(lives));
}

#[test]
#[ignore = "vm: needs version 2 of cgroups alone"]
fn a_quota_holds_back_and_time_is_counted() {
    let (group, path) = group(&Limits {
        cpu_percent: Some(20),
        cpu_time: Duration::from_millis(100),
        ..Limits::default()
    });
    assert_eq!(file(&path, "cpu.max"), "20000 100000");
    let mut child = start(&group, "while :; do :; done");
    wait_until("it is held back", || {
        counter(&path, "cpu.stat", "nr_throttled ") > 0
    });
    wait_until("its time is used up", || group.exceeded().is_some());
    assert_eq!(group.exceeded(), Some(Limit::Cpu));
    end(group, &path);
    child.wait().expect("ended");
}

#[test]
#[ignore = "vm: needs version 2 of cgroups alone"]
fn what_was_handed_over_is_found_and_nothing_else_is_used() {
    let (configured, path) = parent(&below(&name()));
    let (found, other) = parent(&CgroupSetting::Auto);
    let base = |path: &Path| path.ancestors().nth(2).map(Path::to_owned);
    assert_eq!(base(&path), base(&other));
    drop((configured, found));
    let refused = CgroupParent::detect(&below("elsewhere"));
    assert!(
        matches!(refused, Err(CgroupError::Parent(_))),
        "{refused:?}"
    );
}

#[test]
#[ignore = "vm: needs version 2 of cgroups alone"]
fn the_report_says_that_nothing_is_missing() {
    for setting in [CgroupSetting::Auto, below(&name())] {
        let report = CgroupReport::look(&setting).expect("a report");
        let kept = |(controller, version)| (controller, Some(version));
        assert_eq!(
            report,
            CgroupReport {
                controllers: keepers().into_iter().map(kept).collect(),
                kills_at_once: true,
                remedy: None,
            }
        );
    }
}

/// The worst that a Haft can leave whose end nothing heard of: processes that are another one by the
/// time somebody has read which they are.
#[test]
#[ignore = "vm: needs version 2 of cgroups alone"]
fn what_a_crash_left_is_ended_by_the_next_haft_also_if_it_runs_away() {
    let (first, path) = parent(&below(&name()));
    let base = path.ancestors().nth(2).expect("handed over").to_owned();
    let owner = Owner::this_process().expect("an owner").to_string();
    let namespace = owner.split('-').next().expect("a namespace");
    let left = base.join(format!("haft-{namespace}-{}-1-0", std::process::id()));
    let group = left.join("0");
    fs::create_dir_all(&group).expect("made");
    drop(first);
    let procs = group.join("cgroup.procs");
    let run_away = "r() { r & }; r; r; r; r; r; r; r; r";
    let mut child = Command::new("/bin/sh")
        .arg("-c")
        .arg(format!("echo 0 > {} && {{ {run_away}; }}", procs.display()))
        .spawn()
        .expect("started");
    child.wait().expect("ended");
    assert_eq!(counter(&group, "cgroup.events", "populated"), 1);
    // One that ends them, and one that removes what was still dying then.
    drop(parent(&below(&name())));
    wait_until("they are ended", || {
        let events = fs::read_to_string(group.join("cgroup.events"));
        events.map_or(true, |events| events.contains("populated 0"))
    });
    drop(parent(&below(&name())));
    assert!(!left.exists());
}
