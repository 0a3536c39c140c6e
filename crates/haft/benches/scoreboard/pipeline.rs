//! Row 3: `read` of a small file through the whole pipeline, beside `std::fs::read`.

use std::hint::black_box;

use serde_json::json;

use crate::{
    Scale,
    measure::{MeasuredPair, used},
    report::{Goal, Row, time},
    setting::{self, Setting},
};

/// The file's size.
const BYTES: usize = 4096;

pub(crate) fn rows(scale: Scale) -> Vec<Row> {
    let runtime = setting::one_thread();
    let setting = runtime.block_on(Setting::open());
    let path = setting.path().join("small.txt");
    let line = "a line of sixty-three characters, so that sixty-four make 4 KB.\n";
    std::fs::write(&path, line.repeat(BYTES / line.len())).unwrap();
    let ours = || {
        let work = || {
            runtime.block_on(async {
                for _ in 0..scale.calls {
                    let outcome = setting.call("read", json!({"path": "small.txt"})).await;
                    assert_eq!(outcome.content[0].len(), BYTES);
                }
                setting.haft.runtime().flush().await.unwrap();
            });
        };
        used(work).per(scale.calls)
    };
    let bare = || {
        let work = || {
            for _ in 0..scale.calls {
                assert_eq!(black_box(std::fs::read(&path).unwrap()).len(), BYTES);
            }
        };
        used(work).per(scale.calls)
    };
    let pair = MeasuredPair::measure(scale.rounds, ours, bare);
    runtime.block_on(setting.haft.close()).unwrap();
    vec![Row {
        number: 3,
        metric: "`read` of 4 KB ÷ `std::fs::read`".to_owned(),
        ours: time(pair.ours(|used| used.thread)),
        bare: time(pair.bare(|used| used.thread)),
        figure: pair.ratio(|used| used.thread),
        goal: Goal::RatioUpTo(5.0),
        beside: format!(
            "the figure is the calling thread's; {} a call with the ledger's threads ({:.1} ×)",
            time(pair.ours(|used| used.process)),
            pair.ratio(|used| used.process),
        ),
        limits: "the pipeline of row 1, and system calls a bare read does not make: the root is \
                 checked, and the path is resolved before it is decided about and opened after",
    }]
}
