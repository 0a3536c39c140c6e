//! Commands that take all they can get (RX): which limit held is told by the kernel, everything
//! ends, and Haft goes on as if nothing had happened.
//!
//! Most run twice: with cgroups that root handed to the user the tests run as (`.ci/run`), and
//! without any, where limits per process hold. Each has a control: the same command under a limit
//! it fits into.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    time::{Duration, Instant},
};

use haft_contract::{
    ErrorKind, WorkPath,
    access::Command,
    ops::{ChildExit, ExitStatus, Limit, ProcessHandle, Spawn, Tier},
};
use haft_sandbox::{
    Limits, SandboxOptions,
    cgroup::{CgroupName, CgroupSetting},
    helper::Helper,
};
use haft_testkit::{eventually, helper_program, until_none};
use rustix::process::{Pid, Signal, kill_process};

use crate::workspace::{Workspace, finish};

pub(crate) const MIB: u64 = 1024 * 1024;

/// What keeps the limits of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitKeeping {
    ByCgroups,
    ByProcess,
}

pub(crate) fn cgroup(kept: LimitKeeping) -> CgroupSetting {
    match kept {
        LimitKeeping::ByProcess => CgroupSetting::Off,
        LimitKeeping::ByCgroups => {
            let name = std::env::var("HAFT_TEST_CGROUP")
                .expect("HAFT_TEST_CGROUP names a cgroup that this user may use; see .ci/run");
            CgroupSetting::Below(CgroupName::parse(&name).unwrap())
        }
    }
}

fn options(kept: LimitKeeping, limits: Limits) -> SandboxOptions {
    SandboxOptions {
        helper: Helper::Path(helper_program()),
        limits,
        cgroup: cgroup(kept),
        ..SandboxOptions::default()
    }
}

pub(crate) fn workspace(kept: LimitKeeping, limits: Limits) -> Workspace {
    Workspace::sandboxed(options(kept, limits))
}

pub(crate) async fn start(ws: &Workspace, script: &str) -> Box<dyn ProcessHandle> {
    let command = Command::Shell(script.to_owned());
    ws.start(Spawn::new(command, WorkPath::root(), Tier::T2))
        .await
}

/// Runs a script and says which limit it exceeded.
async fn check(
    kept: LimitKeeping,
    limits: Limits,
    script: &str,
    expect: Option<Limit>,
) -> ChildExit {
    let ws = workspace(kept, limits);
    let (output, exit) = finish(&mut *start(&ws, script).await).await;
    assert_eq!(
        exit.exceeded, expect,
        "{kept:?} {:?}: {output}",
        exit.status
    );
    exit
}

/// The processes that have this word in their command line.
fn having(word: &str) -> Vec<i32> {
    let has = |path: &Path| {
        fs::read(path.join("cmdline"))
            .is_ok_and(|line| line.windows(word.len()).any(|part| part == word.as_bytes()))
    };
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| has(&entry.path()))
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// How many they are.
pub(crate) fn count(word: &str) -> usize {
    having(word).len()
}

async fn rx_01(kept: LimitKeeping) {
    let word = format!("bomb-{kept:?}-{}", std::process::id());
    // The word is in the command line of every one of them.
    let bomb = format!("b() {{ b {word} | b {word} & }}; b; sleep 60");
    let limits = |processes| Limits {
        processes,
        ..Limits::default()
    };
    for (processes, grows_beyond_the_smaller) in [(40, false), (160, true)] {
        let ws = workspace(kept, limits(processes));
        let mut child = start(&ws, &bomb).await;
        // The init and bubblewrap do not have the word.
        let counted = || {
            let now = count(&word);
            assert!(now <= usize::try_from(processes).unwrap(), "{now}");
            now
        };
        let grown = if grows_beyond_the_smaller { 40 } else { 10 };
        eventually("the bomb grows", || counted() > grown).await;
        for _ in 0..40 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            counted();
        }
        child.stop(Duration::ZERO).await.unwrap();
        eventually("the bomb is gone", || count(&word) == 0).await;
        let (_, exit) = finish(&mut *child).await;
        match kept {
            LimitKeeping::ByCgroups => assert_eq!(exit.exceeded, Some(Limit::Processes)),
            // Where nothing counts what was refused, only those who stay are seen: a bomb whose
            // parts end before the others try again may have fallen below its limit for good.
            LimitKeeping::ByProcess => {}
        }
    }
    let (_, exit) = {
        let ws = workspace(kept, limits(40));
        let stay = "for i in $(seq 60); do sleep 2 & done 2>/dev/null; exec sleep 2";
        finish(&mut *start(&ws, stay).await).await
    };
    assert_eq!(exit.exceeded, Some(Limit::Processes), "{kept:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ci: needs a cgroup of its own"]
async fn rx_01_a_fork_bomb_stays_small_and_is_gone_at_once_with_cgroups() {
    rx_01(LimitKeeping::ByCgroups).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ci: needs bubblewrap"]
async fn rx_01_a_fork_bomb_stays_small_and_is_gone_at_once_without() {
    rx_01(LimitKeeping::ByProcess).await;
}

/// Holds so many MiB of memory that it has written to.
fn hold(mib: u64) -> String {
    format!("head -c {mib}M /dev/zero | tail -c {mib}M | wc -c")
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ci: needs a cgroup of its own"]
async fn rx_08_memory_ends_inside_the_limit() {
    let limits = |memory_bytes| Limits {
        memory_bytes,
        ..Limits::default()
    };
    let script = format!("set -o pipefail; {}", hold(256));
    let over = check(
        LimitKeeping::ByCgroups,
        limits(64 * MIB),
        &script,
        Some(Limit::Memory),
    )
    .await;
    assert_ne!(over.status, ExitStatus::Code(0));
    let within = check(LimitKeeping::ByCgroups, limits(600 * MIB), &script, None).await;
    assert_eq!(within.status, ExitStatus::Code(0));
    // Of each process alone the kernel keeps it as well, and tells nobody.
    let over = check(LimitKeeping::ByProcess, limits(64 * MIB), &script, None).await;
    assert_ne!(over.status, ExitStatus::Code(0));
    let within = check(LimitKeeping::ByProcess, limits(600 * MIB), &script, None).await;
    assert_eq!(within.status, ExitStatus::Code(0));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ci: needs bubblewrap"]
async fn rx_09_processor_time_ends() {
    let limits = |seconds| Limits {
        cpu_time: Duration::from_secs(seconds),
        ..Limits::default()
    };
    check(
        LimitKeeping::ByProcess,
        limits(1),
        "while :; do :; done",
        Some(Limit::Cpu),
    )
    .await;
    for kept in [LimitKeeping::ByCgroups, LimitKeeping::ByProcess] {
        // Something further down, whose end only its own parent sees.
        let spin = "sh -c 'while :; do :; done'; true";
        check(kept, limits(1), spin, Some(Limit::Cpu)).await;
        check(kept, limits(60), "seq 100000 > /dev/null", None).await;
    }
}

/// How often a command without a quota may be outdone by the rest of the machine.
const ROUNDS_TO_GET_MORE: usize = 20;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ci: needs a cgroup of its own"]
async fn rx_09_a_quota_leaves_the_processors_to_others() {
    let spin = "for i in 1 2 3 4; do timeout 2 sh -c 'while :; do :; done' & done; wait; times";
    let used = async |cpu_percent| {
        let limits = Limits {
            cpu_percent,
            ..Limits::default()
        };
        let ws = workspace(LimitKeeping::ByCgroups, limits);
        let began = Instant::now();
        let (output, _) = finish(&mut *start(&ws, spin).await).await;
        processor_seconds(&output) / began.elapsed().as_secs_f64()
    };
    // Of one processor; and what was used before the first period was over.
    let quota = used(Some(5)).await;
    assert!(quota < 0.1, "{quota} with a quota");
    // That it was the quota shows as soon as a command without one gets more, which on a machine that
    // has much to do may take a few.
    let mut free = 0.0_f64;
    for _ in 0..ROUNDS_TO_GET_MORE {
        free = free.max(used(None).await);
        if free > quota * 2.0 {
            return;
        }
    }
    panic!("{free} without, {quota} with");
}

/// The processor time of a shell's children, from the second line of `times`.
fn processor_seconds(times: &str) -> f64 {
    let seconds = |text: &str| {
        let (minutes, seconds) = text.trim_end_matches('s').split_once('m').unwrap();
        minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
    };
    let line = times.lines().last().unwrap();
    line.split_whitespace().map(seconds).sum()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ci: needs a cgroup of its own"]
async fn rx_10_a_full_temporary_directory_is_told() {
    let limits = |tmp_bytes| Limits {
        tmp_bytes,
        ..Limits::default()
    };
    let fill = "head -c 16M /dev/zero > /tmp/x";
    for kept in [LimitKeeping::ByCgroups, LimitKeeping::ByProcess] {
        check(kept, limits(8 * MIB), fill, Some(Limit::Disk)).await;
        check(kept, limits(32 * MIB), fill, None).await;
        // The other places in memory are no way round.
        check(
            kept,
            limits(8 * MIB),
            "head -c 16M /dev/zero > /dev/shm/x",
            Some(Limit::Disk),
        )
        .await;
        check(
            kept,
            limits(8 * MIB),
            "head -c 16M /dev/zero > ~/x",
            Some(Limit::Disk),
        )
        .await;
    }
}

/// `HAFT_ATTACK_FIXTURES/small` is a file system of 8 MiB.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "ci: needs files that only root can make"]
async fn rx_10_a_full_workspace_is_told_and_others_can_still_be_written() {
    let fixtures =
        std::env::var("HAFT_ATTACK_FIXTURES").expect("HAFT_ATTACK_FIXTURES; see .ci/run");
    let small = tempfile::tempdir_in(Path::new(&fixtures).join("small"))
        .expect("`small` among the fixtures; see .ci/run");
    let other = workspace(LimitKeeping::ByProcess, Limits::default());
    let full = Workspace::sandboxed_in(small, options(LimitKeeping::ByProcess, Limits::default()));
    let (_, exit) = finish(&mut *start(&full, "head -c 16M /dev/zero > big").await).await;
    assert_eq!(exit.exceeded, Some(Limit::Disk));
    let error = full.write("note", &"x".repeat(1 << 20)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    other.write("note", "x").await.unwrap();
    fs::remove_file(full.root.join("big")).unwrap();
    full.write("note", "x").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ci: needs a cgroup of its own"]
async fn rx_10_a_file_beyond_its_size_is_told() {
    let limits = |file_bytes| Limits {
        file_bytes,
        ..Limits::default()
    };
    let write = "head -c 3M /dev/zero > big";
    for kept in [LimitKeeping::ByCgroups, LimitKeeping::ByProcess] {
        check(kept, limits(MIB), write, Some(Limit::FileSize)).await;
        check(kept, limits(4 * MIB), write, None).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ci: needs a cgroup of its own"]
async fn rx_11_many_small_files_end_inside_the_limit() {
    let limits = |memory_bytes| Limits {
        memory_bytes,
        tmp_bytes: 8 * MIB,
        ..Limits::default()
    };
    let make = |count: u32| {
        format!(
            "cd /tmp && perl -e 'for (1..{count}) {{ open my $f, \">\", $_ or exit 3; print $f 1; close $f or exit 3; }}'"
        )
    };
    // Each takes a page, so the space ends first; empty ones take memory of the kernel.
    check(
        LimitKeeping::ByCgroups,
        limits(64 * MIB),
        &make(1_000_000),
        Some(Limit::Disk),
    )
    .await;
    let empty = "cd /tmp && perl -e 'for (1..1000000) { open my $f, \">\", $_ or exit 3; }'";
    let exit = check(
        LimitKeeping::ByCgroups,
        limits(64 * MIB),
        empty,
        Some(Limit::Memory),
    )
    .await;
    assert_ne!(exit.status, ExitStatus::Code(0));
    check(LimitKeeping::ByCgroups, limits(64 * MIB), &make(500), None).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ci: needs a cgroup of its own"]
async fn rx_22_open_files_are_told_and_the_next_command_has_its_own() {
    let limits = |open_files| Limits {
        open_files,
        ..Limits::default()
    };
    let open = "perl -e 'my @f; for (1..200) { open my $f, \"<\", \"/dev/null\" or last; push @f, $f; } \
                print scalar @f; select undef, undef, undef, 1.0'";
    for kept in [LimitKeeping::ByCgroups, LimitKeeping::ByProcess] {
        check(kept, limits(64), open, Some(Limit::OpenFiles)).await;
        check(kept, limits(1024), open, None).await;
    }
}

/// A command with processes that left its session and their parents.
pub(crate) fn daemons(word: &str) -> String {
    let daemon = format!("(sh -c \"sleep 600; : {word}\" &); sleep 600; : {word}");
    format!("for i in 1 2 3; do (setsid sh -c '{daemon}' &); done; sleep 600; :")
}

/// How many of them have the word in their command line, with the shell that started them.
pub(crate) const DAEMONS: usize = 7;

/// Without a pid namespace it is the init that ends what a command left. If something else ends the
/// init first, the group still knows everything that is in it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "ci: needs a cgroup of its own"]
async fn daemons_end_in_their_cgroup_where_the_init_was_killed() {
    let word = format!("daemon-{}", std::process::id());
    let ws = workspace(LimitKeeping::ByCgroups, Limits::default());
    let command = Command::Shell(daemons(&word));
    let spawn = Spawn::new(command, WorkPath::root(), Tier::T1);
    let mut child = ws.start(spawn).await;
    eventually("they run", || having(&word).len() == DAEMONS).await;
    let mut parents = BTreeSet::new();
    eventually("they have left their parents", || {
        let all = having(&word);
        parents = all.iter().filter_map(|one| parent(*one)).collect();
        parents.retain(|parent| !all.contains(parent));
        parents.len() == 1
    })
    .await;
    let init = Pid::from_raw(*parents.first().unwrap()).unwrap();
    kill_process(init, Signal::KILL).unwrap();
    let (_, exit) = finish(&mut *child).await;
    assert_eq!(exit.status, ExitStatus::Signal(9));
    until_none("what the command left", || having(&word)).await;
}

/// The parent of a process, while it lives.
fn parent(process: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, after) = stat.rsplit_once(") ")?;
    after.split(' ').nth(1)?.parse().ok()
}

/// The 99th percentile of the time a call takes that does nothing but look at a file.
async fn p99_of_a_look(ws: &Workspace) -> Duration {
    let mut taken = Vec::new();
    for _ in 0..500 {
        let began = Instant::now();
        ws.stat("note").await.unwrap();
        taken.push(began.elapsed());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    taken.sort();
    taken[taken.len() * 99 / 100]
}

/// What all of RX share: the worker stays healthy.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "ci: needs a cgroup of its own"]
async fn rx_01_08_09_other_calls_hardly_notice() {
    let limits = Limits {
        processes: 100,
        memory_bytes: 256 * MIB,
        cpu_percent: Some(50),
        ..Limits::default()
    };
    let ws = workspace(LimitKeeping::ByCgroups, limits);
    ws.put("note", "x");
    let before = p99_of_a_look(&ws).await;
    let mut running = Vec::new();
    for greedy in [
        "b() { b | b & }; b; sleep 60",
        &hold(512),
        "while :; do :; done",
    ] {
        running.push(start(&ws, greedy).await);
    }
    let during = p99_of_a_look(&ws).await;
    for mut child in running {
        child.stop(Duration::ZERO).await.unwrap();
    }
    println!(
        "p99 of a look at a file: {before:?} alone, {during:?} beside a fork bomb, a memory hog and a busy loop"
    );
    // A few milliseconds are what a busy machine adds to either.
    assert!(
        during < before * 2 + Duration::from_millis(10),
        "{before:?} before, {during:?} during"
    );
}
