//! Row 19: what it adds to a command that the workspace is compared before and after it, so that
//! what it changed can be taken back.

use haft::{Haft, LocalOptions, prelude::*};
use haft_sandbox::helper::Helper;
use tempfile::TempDir;

use crate::{
    Scale,
    measure::{MeasuredPair, used},
    report::{Goal, Row, time},
    search::plant,
    setting,
};

/// The most that a comparison may add, in seconds.
const MOST: f64 = 0.150;

pub(crate) fn rows(scale: Scale) -> Vec<Row> {
    let runtime = setting::many_threads();
    let open = |compared: bool| {
        let (workspace, record) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        plant(workspace.path(), scale.files);
        let mut options = LocalOptions::default();
        options.sandbox.helper = Helper::CurrentExecutable;
        let building = Haft::open(workspace.path())
            .data_dir(record.path())
            .configure(|runtime| runtime.loop_guard(haft::runtime::LoopGuard::OFF))
            .allow("bash")
            .local(options)
            .sandbox("bash", SandboxMode::Full);
        let building = if compared {
            building.build()
        } else {
            building.without_comparison().build()
        };
        (runtime.block_on(building).unwrap(), workspace, record)
    };
    let (compared, plain) = (open(true), open(false));
    let run = |(haft, _, _): &(Haft, TempDir, TempDir)| {
        used(|| {
            let call = haft.call("bash", json!({"command": "echo more >> changed.txt"}));
            let outcome = runtime.block_on(call);
            assert!(outcome.succeeded(), "{outcome:?}");
        })
    };
    let pair = MeasuredPair::measure(scale.rounds, || run(&compared), || run(&plain));
    for (haft, _, _) in [compared, plain] {
        runtime.block_on(haft.close()).unwrap();
    }
    let (with, without) = (pair.ours(|used| used.wall), pair.bare(|used| used.wall));
    let cpu = pair.ours(|used| used.process) - pair.bare(|used| used.process);
    vec![Row {
        number: 19,
        metric: format!(
            "what comparing {} files adds to a command (wall)",
            scale.files
        ),
        ours: time(with),
        bare: time(without),
        figure: with - without,
        goal: Goal::Seconds(MOST),
        beside: format!("{} of CPU more", time(cpu)),
        limits: "every file that is not ignored is looked at twice: before the command and after it",
    }]
}
