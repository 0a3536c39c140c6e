//! Real cgroups of this machine. Root hands a directory of each hierarchy to the user the tests
//! run as and says its name in `HAFT_TEST_CGROUP` (`.ci/run`); without it these tests fail. Where
//! version 1 keeps the controllers, those of version 2 are in a machine of their own (`version_2.rs`).

use std::{
    fs,
    os::fd::AsRawFd,
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use haft_contract::ops::Limit;

use super::{Cgroup, CgroupName, CgroupParent, CgroupSetting, Controller, Version};
use crate::limits::Limits;

mod version_2;

const MIB: u64 = 1024 * 1024;

fn name() -> String {
    std::env::var("HAFT_TEST_CGROUP")
        .expect("HAFT_TEST_CGROUP names a cgroup that this user may use; see .ci/run")
}

fn parent() -> Arc<CgroupParent> {
    let name = name();
    let setting = CgroupSetting::Below(CgroupName::parse(&name).expect("a name"));
    CgroupParent::detect(&setting)
        .expect("cgroups can be made")
        .expect("some hierarchy")
}

/// A shell that enters the group first, then runs the script.
fn start(group: &Cgroup, script: &str) -> Child {
    let enter: Vec<String> = group
        .procs_descriptors()
        .map(|fd| {
            format!(
                "echo 0 > /proc/{}/fd/{}",
                std::process::id(),
                fd.as_raw_fd()
            )
        })
        .collect();
    Command::new("/bin/sh")
        .arg("-c")
        .arg(format!("{} && {{ {script}; }}", enter.join(" && ")))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("started")
}

fn run(limits: &Limits, script: &str) -> (ExitStatus, Option<Limit>) {
    let group = parent().create(limits).expect("a group");
    let status = start(&group, script).wait().expect("ended");
    let exceeded = group.exceeded();
    group.kill().expect("killed");
    (status, exceeded)
}

#[test]
#[ignore = "ci: needs a cgroup of its own"]
fn every_controller_is_to_be_had_here() {
    let mut held = parent().controllers();
    if held.get(&Controller::Cpu) == Some(&Version::V2) {
        // Which counts wherever it limits, and has no name for it.
        held.insert(Controller::CpuAccounting, Version::V2);
    }
    let found: Vec<Controller> = held.into_keys().collect();
    assert_eq!(found, Controller::ALL);
}

#[test]
#[ignore = "ci: needs a cgroup of its own"]
fn memory_beyond_the_limit_is_told() {
    let limits = Limits {
        memory_bytes: 32 * MIB,
        ..Limits::default()
    };
    let (status, exceeded) = run(&limits, "x=$(head -c 200000000 /dev/zero | tr '\\0' x)");
    assert!(!status.success());
    assert_eq!(exceeded, Some(Limit::Memory));
}

#[test]
#[ignore = "ci: needs a cgroup of its own"]
fn processes_beyond_the_limit_are_told() {
    let limits = Limits {
        processes: 8,
        ..Limits::default()
    };
    let many = "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 5 & done";
    let (_, exceeded) = run(&limits, many);
    assert_eq!(exceeded, Some(Limit::Processes));
}

#[test]
#[ignore = "ci: needs a cgroup of its own"]
fn processor_time_of_all_together_is_told() {
    let limits = Limits {
        cpu_time: Duration::from_millis(200),
        ..Limits::default()
    };
    let work = "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'";
    let (status, exceeded) = run(&limits, &format!("{work}; {work}; {work}; {work}; true"));
    assert!(status.success());
    assert_eq!(exceeded, Some(Limit::Cpu));
}

#[test]
#[ignore = "ci: needs a cgroup of its own"]
fn a_quota_holds_back_a_busy_loop() {
    let limits = Limits {
        cpu_percent: Some(20),
        ..Limits::default()
    };
    let group = parent().create(&limits).expect("a group");
    let began = Instant::now();
    let spin = "timeout 1 sh -c 'while :; do :; done'";
    let mut child = start(&group, &format!("{spin} & {spin}; wait"));
    child.wait().expect("ended");
    // Without the limit it would use at least one whole processor.
    let most = began.elapsed().mul_f64(0.2) + Duration::from_millis(150);
    let used = group.cpu_used().expect("counted");
    assert!(used < most, "{used:?} of at most {most:?}");
}

#[test]
#[ignore = "ci: needs a cgroup of its own"]
fn what_stays_within_its_limits_exceeds_none() {
    let (status, exceeded) = run(&Limits::default(), "true");
    assert!(status.success());
    assert_eq!(exceeded, None);
}

/// Ends a group with daemons in it and removes it.
fn check_end(parent: Arc<CgroupParent>) {
    let group = parent.create(&Limits::default()).expect("a group");
    let mut child = start(
        &group,
        "for i in 1 2 3 4 5 6 7 8; do setsid sleep 600 & done; sleep 600",
    );
    let began = Instant::now();
    while group.processes() < 9 {
        assert!(began.elapsed() < haft_testkit::PATIENCE, "never grew");
        std::thread::yield_now();
    }
    let began = Instant::now();
    group.kill().expect("killed");
    child.wait().expect("ended");
    while group.processes() > 0 {
        assert!(
            began.elapsed() < haft_testkit::PATIENCE,
            "something lives on"
        );
        std::thread::yield_now();
    }
    let paths = parent.paths();
    drop(group);
    let is_group = |entry: fs::DirEntry| entry.path().is_dir();
    for path in &paths {
        assert!(!fs::read_dir(path).expect("listed").flatten().any(is_group));
    }
    drop(parent);
    assert!(paths.iter().all(|path| !path.exists()));
}

#[test]
#[ignore = "ci: needs a cgroup of its own"]
fn everything_in_a_group_is_ended_and_the_directories_go() {
    check_end(parent());
}

#[test]
#[ignore = "ci: needs a cgroup of its own"]
fn version_2_ends_everything_at_once() {
    let parent = CgroupParent::of_version_2(&name());
    assert!(parent.kills_at_once());
    check_end(parent);
}

#[test]
#[ignore = "ci: needs a cgroup of its own"]
fn a_fork_bomb_is_ended_one_by_one() {
    let limits = Limits {
        processes: 64,
        ..Limits::default()
    };
    let group = parent().create(&limits).expect("a group");
    let mut child = start(&group, "b() { b | b & }; b; sleep 600");
    let began = Instant::now();
    while group.exceeded() != Some(Limit::Processes) {
        assert!(began.elapsed() < haft_testkit::PATIENCE, "never grew");
        std::thread::yield_now();
    }
    let began = Instant::now();
    group.kill().expect("killed");
    child.wait().expect("ended");
    while group.processes() > 0 {
        assert!(
            began.elapsed() < haft_testkit::PATIENCE,
            "something lives on"
        );
        std::thread::yield_now();
    }
}

/// A single-threaded process that enters does not wait for every processor; a whole process would,
/// for ten milliseconds or more.
#[test]
#[ignore = "ci: needs a cgroup of its own"]
fn entering_is_quick() {
    let group = parent().create(&Limits::default()).expect("a group");
    let enter = || {
        let began = Instant::now();
        let entered = |fd| rustix::io::write(fd, b"0").expect("entered");
        group.procs_descriptors().map(entered).for_each(drop);
        began.elapsed()
    };
    // On its own thread, so that the process of this test does not move.
    let mut taken: Vec<Duration> = std::thread::scope(|scope| {
        let enter = |_| scope.spawn(enter).join().expect("entered");
        (0..101).map(enter).collect()
    });
    taken.sort();
    // The best one: on a busy machine the others wait for a processor.
    assert!(taken[0] < Duration::from_millis(2), "{taken:?}");
}
