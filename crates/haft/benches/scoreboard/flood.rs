//! Row 8: many calls at once that each wait 300 ms, beside one.

use std::time::{Duration, Instant};

use haft_contract::Terminal;
use serde_json::json;
use tokio::task::JoinSet;

use crate::{
    Scale,
    measure::median,
    report::{Goal, Row, time},
    setting::{self, Setting},
};

/// How long each call waits.
const WAIT_MS: u64 = 300;

pub(crate) fn rows(scale: Scale) -> Vec<Row> {
    let runtime = setting::many_threads();
    let floods: Vec<(Flood, Flood)> = runtime.block_on(async {
        let setting = Setting::open().await;
        at_once(&setting, 1).await;
        let mut floods = Vec::new();
        for _ in 0..scale.rounds {
            let alone = at_once(&setting, 1).await;
            floods.push((alone, at_once(&setting, scale.flood).await));
        }
        setting.haft.close().await.unwrap();
        floods
    });
    let alone = median(floods.iter().map(|(alone, _)| alone.wall.as_secs_f64()));
    let together = |of: fn(&Flood) -> Duration| {
        median(
            floods
                .iter()
                .map(|(_, together)| of(together).as_secs_f64()),
        )
    };
    let wall = together(|flood| flood.wall);
    vec![Row {
        number: 8,
        metric: format!("1 → {} calls of {WAIT_MS} ms at once (wall)", scale.flood),
        ours: time(wall),
        bare: format!("{} alone", time(alone)),
        figure: wall / alone,
        goal: Goal::RatioUpTo(1.2),
        beside: format!(
            "none lost; a call took {} at the median and {} at the 99th percentile",
            time(together(|flood| flood.p50)),
            time(together(|flood| flood.p99)),
        ),
        limits: "CPU: all calls are taken in, recorded and settled by the few cores there are, \
                 which the ledger's writer shares",
    }]
}

/// How long many calls took.
struct Flood {
    wall: Duration,
    p50: Duration,
    p99: Duration,
}

async fn at_once(setting: &Setting, calls: usize) -> Flood {
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..calls {
        let haft = setting.haft.clone();
        tasks.spawn(async move {
            let began = Instant::now();
            let outcome = haft.call("sleep", json!({"ms": WAIT_MS})).await;
            assert_eq!(outcome.terminal, Terminal::Succeeded, "{outcome:?}");
            began.elapsed()
        });
    }
    let mut times = tasks.join_all().await;
    let wall = began.elapsed();
    assert_eq!(times.len(), calls, "none is lost");
    times.sort();
    // The next flood finds the ledger at rest.
    setting.haft.runtime().flush().await.unwrap();
    Flood {
        wall,
        p50: times[calls / 2],
        p99: times[calls * 99 / 100],
    }
}
