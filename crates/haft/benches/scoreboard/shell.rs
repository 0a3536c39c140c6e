//! Row 12: the `bash` tool beside a bare `posix_spawn` of the same command, also from a process
//! that holds much memory, which a `fork` would have to copy the tables of.

use std::{hint::black_box, process::Command};

use serde_json::json;
use tokio::runtime::Runtime;

use crate::{
    Scale, machine,
    measure::{MeasuredPair, ResourcesUsed, used},
    report::{Goal, Row, time},
    setting::{self, Setting},
};

/// The command both sides run.
const SCRIPT: &str = "true";

/// Touching every page makes it real.
const PAGE: usize = 4096;

pub(crate) fn rows(scale: Scale) -> Vec<Row> {
    let runtime = setting::many_threads();
    let setting = runtime.block_on(Setting::open());
    let small = pair(scale, &runtime, &setting);
    let mut ballast = vec![0_u8; scale.parent_bytes];
    for page in ballast.chunks_mut(PAGE) {
        page[0] = 1;
    }
    black_box(&mut ballast);
    let large = pair(scale, &runtime, &setting);
    black_box(ballast);
    runtime.block_on(setting.haft.close()).unwrap();
    let megabytes = scale.parent_bytes >> 20;
    vec![
        row(
            "`bash` ÷ `posix_spawn` of `bash -c`".to_owned(),
            &small,
            1.6,
        ),
        row(
            format!("the same from a parent of {megabytes} MB"),
            &large,
            1.7,
        ),
    ]
}

fn pair(scale: Scale, runtime: &Runtime, setting: &Setting) -> MeasuredPair {
    let ours = || {
        let work = || {
            runtime.block_on(async {
                for _ in 0..scale.commands {
                    setting.call("bash", json!({"command": SCRIPT})).await;
                }
            });
        };
        used(work).per(scale.commands)
    };
    let bash = machine::program(&["bash"]);
    let bare = || {
        let work = || {
            for _ in 0..scale.commands {
                // By its path, and with nothing to run between: else the standard library forks.
                let output = Command::new(&bash)
                    .args(["-c", SCRIPT])
                    .env_clear()
                    .env("PATH", "/usr/bin:/bin")
                    .current_dir(setting.path())
                    .output()
                    .unwrap();
                assert!(output.status.success());
            }
        };
        used(work).per(scale.commands)
    };
    // More rounds: children's CPU is told in hundredths of a second.
    MeasuredPair::measure(scale.rounds * 2, ours, bare)
}

fn row(metric: String, pair: &MeasuredPair, goal: f64) -> Row {
    let process = |used: &ResourcesUsed| used.process;
    let children = |used: &ResourcesUsed| used.children;
    Row {
        number: 12,
        metric,
        ours: time(pair.ours(ResourcesUsed::everything)),
        bare: time(pair.bare(ResourcesUsed::everything)),
        figure: pair.ratio_of_sums(ResourcesUsed::everything),
        goal: Goal::RatioUpTo(goal),
        beside: format!(
            "{} in our process and {} in the child, bare {} and {}; the wall ({} ÷ {}) also waits \
             for the disk twice, because a command's intent and its end are durable",
            time(pair.ours(process)),
            time(pair.ours(children)),
            time(pair.bare(process)),
            time(pair.bare(children)),
            time(pair.ours(|used| used.wall)),
            time(pair.bare(|used| used.wall)),
        ),
        limits: "not profiled closely: a thin sample puts about a fifth into the record of the call",
    }
}
