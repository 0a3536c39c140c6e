//! Row 14: copying a large file beside `cp`, and reading deep inside one beside a raw scan, with
//! what either adds to the process's memory.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    path::Path,
    process::Command,
};

use serde_json::json;

use crate::{
    Scale, machine,
    measure::{MeasuredPair, ResourcesUsed, used},
    report::{Goal, Row, bytes, time},
    setting::{self, Setting},
};

/// One line of the large file.
const LINE: &str = "a line of the large file, about as long as the lines of a log usually are\n";

/// The scan reads this much at a time.
const CHUNK: usize = 256 * 1024;

/// Memory may grow by this much.
const GROWTH: f64 = 16.0 * 1024.0 * 1024.0;

/// Each round moves gigabytes.
const MOST_ROUNDS: usize = 5;

pub(crate) fn rows(scale: Scale) -> Vec<Row> {
    let runtime = setting::many_threads();
    let setting = runtime.block_on(Setting::open());
    let large = setting.path().join("large.txt");
    let lines = plant(&large, scale.large_bytes);
    let rounds = scale.rounds.min(MOST_ROUNDS);
    let call = |tool: &str, arguments| runtime.block_on(setting.call(tool, arguments));
    let remove = |name: &str| std::fs::remove_file(setting.path().join(name)).unwrap();

    let (copying, copy_growth) = growing(|| {
        let ours = || {
            let arguments = json!({"source": "large.txt", "destination": "ours.txt"});
            let used = used(|| drop(call("copy", arguments)));
            remove("ours.txt");
            used
        };
        let bare = || {
            let mut command = Command::new(machine::program(&["cp"]));
            command.args(["large.txt", "bare.txt"]);
            command.current_dir(setting.path());
            let used = used(|| assert!(command.status().unwrap().success()));
            remove("bare.txt");
            used
        };
        MeasuredPair::measure(rounds, ours, bare)
    });
    let deep = lines - 10;
    let (reading, read_growth) = growing(|| {
        let ours = || {
            let arguments = json!({"path": "large.txt", "offset": deep, "limit": 5});
            used(|| {
                let outcome = call("read", arguments);
                let text = outcome.content[0].as_text().unwrap();
                assert_eq!(text, LINE.repeat(5));
            })
        };
        let bare = || used(|| assert!(scan(&large, deep) >= deep));
        MeasuredPair::measure(rounds, ours, bare)
    });
    runtime.block_on(setting.haft.close()).unwrap();

    let size = bytes(scale.large_bytes as f64);
    vec![
        compared(
            format!("`copy` of {size} ÷ `cp`"),
            &copying,
            1.1,
            "ours is on the disk when it returns, `cp`'s is not",
            "making the copy durable, which `cp` leaves to later",
        ),
        grown(format!("memory a `copy` of {size} adds"), copy_growth),
        compared(
            format!("`read` at the end of {size} ÷ a raw scan"),
            &reading,
            1.2,
            "both count every line before",
            "the chunks between the file and the counter of lines",
        ),
        grown(format!("memory a `read` in {size} adds"), read_growth),
    ]
}

fn compared(
    metric: String,
    pair: &MeasuredPair,
    goal: f64,
    beside: &str,
    limits: &'static str,
) -> Row {
    Row {
        number: 14,
        metric,
        ours: time(pair.ours(ResourcesUsed::everything)),
        bare: time(pair.bare(ResourcesUsed::everything)),
        figure: pair.ratio_of_sums(ResourcesUsed::everything),
        goal: Goal::RatioUpTo(goal),
        beside: format!(
            "{beside}; wall {} ÷ {}",
            time(pair.ours(|used| used.wall)),
            time(pair.bare(|used| used.wall))
        ),
        limits,
    }
}

fn grown(metric: String, growth: u64) -> Row {
    Row {
        number: 14,
        metric,
        ours: bytes(growth as f64),
        bare: "–".to_owned(),
        figure: growth as f64,
        goal: Goal::Bytes(GROWTH),
        beside: String::new(),
        limits: "the buffers between the files",
    }
}

/// Measures, and tells by how much memory grew at the worst moment.
fn growing(measure: impl FnOnce() -> MeasuredPair) -> (MeasuredPair, u64) {
    machine::forget_peak();
    let before = machine::resident_bytes();
    let pair = measure();
    (pair, machine::peak_bytes().saturating_sub(before))
}

/// Counts the lines up to one, as fast as reading allows.
fn scan(path: &Path, until: usize) -> usize {
    let mut file = File::open(path).unwrap();
    let mut chunk = vec![0_u8; CHUNK];
    let mut lines = 0;
    loop {
        let got = file.read(&mut chunk).unwrap();
        lines += memchr::memchr_iter(b'\n', &chunk[..got]).count();
        if got == 0 || lines >= until {
            return lines;
        }
    }
}

/// Makes a file of about this size; how many lines it has.
fn plant(path: &Path, size: usize) -> usize {
    let lines = size / LINE.len();
    let block = LINE.repeat(10_000);
    let mut file = File::create(path).unwrap();
    let mut left = lines * LINE.len();
    while left > 0 {
        let now = left.min(block.len());
        file.write_all(&block.as_bytes()[..now]).unwrap();
        left -= now;
    }
    // Writing back must not fall into somebody's turn.
    file.sync_all().unwrap();
    lines
}
