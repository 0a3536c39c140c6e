//! Row 10: from the start of `haft mcp` to its first `tools/list`, and what it holds in memory then.

use std::time::Instant;

use serde_json::json;

use super::{
    pipes::{Pipes, request},
    program::Home,
};
use crate::{
    Scale,
    measure::median,
    report::{Goal, Row, bytes, time},
};

/// Starts of which the median counts.
const STARTS: usize = 10;

pub(crate) fn rows(_: Scale) -> Vec<Row> {
    let home = Home::with("[policy]\nallow = [\"read\"]\n");
    let list = request(1, "tools/list", &json!({}));
    let starts: Vec<(f64, f64)> = (0..STARTS)
        .map(|_| {
            let began = Instant::now();
            let mut haft = Pipes::open(&mut home.haft(&["mcp"]));
            assert!(haft.ask(&list).contains("\"tools\""));
            (began.elapsed().as_secs_f64(), haft.server.resident_bytes())
        })
        .collect();
    let first = median(starts.iter().map(|(time, _)| *time));
    let shortest = starts
        .iter()
        .map(|(time, _)| *time)
        .fold(f64::MAX, f64::min);
    let idle = median(starts.iter().map(|(_, bytes)| *bytes));
    let row = |metric: &str, ours: String, figure: f64, goal: Goal, beside: String, limits| Row {
        number: 10,
        metric: metric.to_owned(),
        ours,
        bare: "–".to_owned(),
        figure,
        goal,
        beside,
        limits,
    };
    vec![
        row(
            "`haft mcp` from its start to the first `tools/list` (wall)",
            time(first),
            first,
            Goal::Seconds(0.015),
            format!("the shortest of {STARTS} took {}", time(shortest)),
            "opening the record, whose first page of the disk is waited for",
        ),
        row(
            "`haft mcp` idle (resident)",
            bytes(idle),
            idle,
            Goal::Bytes(40.0 * 1024.0 * 1024.0),
            String::new(),
            "the program's own pages and SQLite's caches",
        ),
    ]
}
