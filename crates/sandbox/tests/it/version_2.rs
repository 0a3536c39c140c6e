//! Whole commands under cgroups of version 2. Not every machine has it with its controllers, so
//! `.ci/cgroup2` runs these in a virtual machine with nothing else.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use haft_contract::ops::{ExitStatus, Limit};
use haft_sandbox::{
    Limits,
    cgroup::{CgroupReport, Version},
};
use haft_testkit::{eventually, until_none};

use crate::{
    exhaustion::{DAEMONS, LimitKeeping, MIB, cgroup, count, daemons, start, workspace},
    workspace::{Workspace, finish},
};

/// A workspace whose commands version 2 limits.
fn limited(limits: Limits) -> Workspace {
    let report = CgroupReport::look(&cgroup(LimitKeeping::ByCgroups)).unwrap();
    let mut kept = report.controllers.values();
    assert!(kept.all(|kept| *kept == Some(Version::V2)), "{report:?}");
    assert!(report.kills_at_once);
    workspace(LimitKeeping::ByCgroups, limits)
}

/// The directories of commands' groups.
fn groups() -> Vec<PathBuf> {
    let name = std::env::var("HAFT_TEST_CGROUP").expect("HAFT_TEST_CGROUP; see .ci/cgroup2");
    let below = |path: &Path| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        paths.filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    let hafts = below(&Path::new("/sys/fs/cgroup").join(name));
    hafts.iter().flat_map(|haft| below(haft)).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "vm: needs version 2 of cgroups alone"]
async fn memory_ends_inside_the_limit() {
    for (mib, expect) in [(32, Some(Limit::Memory)), (256, None)] {
        let ws = limited(Limits {
            memory_bytes: mib * MIB,
            ..Limits::default()
        });
        // One buffer of that size, filled by the kernel: no time goes by when it is emulated.
        let hold = "dd if=/dev/zero of=/dev/null bs=96M count=1";
        let (output, exit) = finish(&mut *start(&ws, hold).await).await;
        assert_eq!(exit.exceeded, expect, "{:?}: {output}", exit.status);
        assert_eq!(exit.status == ExitStatus::Code(0), expect.is_none());
        until_none("the group's directory goes", groups).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "vm: needs version 2 of cgroups alone"]
async fn a_fork_bomb_stays_small_and_is_gone_at_once() {
    let word = format!("bomb-{}", std::process::id());
    let bomb = format!("b() {{ b {word} | b {word} & }}; b; sleep 60");
    let ws = limited(Limits {
        processes: 40,
        ..Limits::default()
    });
    let mut child = start(&ws, &bomb).await;
    let [group] = groups().try_into().unwrap();
    let refused = || {
        let now = count(&word);
        assert!(now <= 40, "{now}");
        let events = fs::read_to_string(group.join("pids.events")).unwrap();
        events.trim_end() != "max 0"
    };
    eventually("one is refused", refused).await;
    child.stop(Duration::ZERO).await.unwrap();
    eventually("the bomb is gone", || count(&word) == 0).await;
    let (_, exit) = finish(&mut *child).await;
    assert_eq!(exit.exceeded, Some(Limit::Processes));
    until_none("the group's directory goes", groups).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "vm: needs version 2 of cgroups alone"]
async fn daemons_end_with_their_command() {
    let word = format!("daemon-{}", std::process::id());
    let ws = limited(Limits::default());
    let mut child = start(&ws, &daemons(&word)).await;
    eventually("they run", || count(&word) == DAEMONS).await;
    let [group] = groups().try_into().unwrap();
    let members = fs::read_to_string(group.join("cgroup.procs")).unwrap();
    assert!(members.lines().count() >= DAEMONS, "{members}");
    child.stop(Duration::ZERO).await.unwrap();
    eventually("they are gone", || count(&word) == 0).await;
    finish(&mut *child).await;
    until_none("the group's directory goes", groups).await;
}
