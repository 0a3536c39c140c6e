//! What reading a command costs, and a decision about one that was not seen before. Run with
//! `cargo run --release -p haft-policy --example shell_cost`.
#![allow(clippy::print_stdout, reason = "an example that prints figures")]

use std::{hint::black_box, time::Instant};

use haft_contract::{WorkPath, access::Command};
use haft_policy::shell::analyse;

/// Rounds of a measurement; the best of `REPEATS` is shown.
const ROUNDS: u32 = 1000;
const REPEATS: u32 = 7;

fn main() {
    let typical =
        "git log --oneline -20 -- src/lib.rs | grep -i fix | head -5; cargo test -p policy";
    let line =
        "cd src && grep -rn 'TODO' lib.rs | sort | uniq -c | head -20 > todo.txt && echo done\n";
    let script = line.repeat(2000 / line.len() + 1);
    measure("typical", typical);
    measure("script", &script);
    measure(
        "unclear",
        "for f in $(ls); do sed -i \"s/a/$f/\" \"$f\"; done",
    );
}

fn measure(name: &str, script: &str) {
    let command = Command::Shell(script.to_owned());
    let root = WorkPath::root();
    let once = || {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            let _ = black_box(analyse(black_box(&command), &root, "/w"));
        }
        start.elapsed() / ROUNDS
    };
    let best = (0..REPEATS).map(|_| once()).min().unwrap_or_default();
    println!("{name:8} {:5} bytes  {best:?}", script.len());
}
