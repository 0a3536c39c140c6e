//! Row 13: `grep` and `find` over a large tree beside `rg` and `fd`, with equal hits.

use std::{collections::BTreeSet, path::Path, process::Command};

use serde_json::{Value, json};

use crate::{
    Scale, machine,
    measure::{MeasuredPair, ResourcesUsed, used},
    report::{Goal, Row, time},
    setting::{self, Setting},
};

/// Files in one directory, and directories in one part.
const IN_DIRECTORY: usize = 100;
const IN_PART: usize = 20;

/// One file in so many has the line that is searched for.
const NEEDLE_EVERY: usize = 100;

const PATTERN: &str = "needle_[0-9]+";
const GLOB: &str = "*7.toml";

pub(crate) fn rows(scale: Scale) -> Vec<Row> {
    let runtime = setting::many_threads();
    let setting = runtime.block_on(Setting::open());
    plant(setting.path(), scale.files);
    let call = |tool: &str, arguments: Value| {
        let outcome = runtime.block_on(setting.call(tool, arguments));
        outcome.structured.clone().unwrap()
    };
    let grep = || call("grep", json!({"pattern": PATTERN, "limit": 5000}));
    let find = || call("find", json!({"pattern": GLOB, "limit": 5000}));
    let rg = || {
        let options = ["--line-number", "--color=never", "--hidden", "--glob=!.git"];
        run(&["rg"], &options, PATTERN, setting.path())
    };
    let fd = || {
        let options = ["--hidden", "--exclude=.git", "--color=never", "--glob"];
        run(&["fd", "fdfind"], &options, GLOB, setting.path())
    };

    assert_eq!(grep()["results"], json!(rg().lines().count()), "hits");
    let found: BTreeSet<String> = find()["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["path"].as_str().unwrap().to_owned())
        .collect();
    let expected: BTreeSet<String> = fd().lines().map(str::to_owned).collect();
    assert!(!expected.is_empty());
    assert_eq!(found, expected, "paths");

    let grepping = MeasuredPair::measure(
        scale.rounds,
        || used(|| drop(grep())),
        || used(|| drop(rg())),
    );
    let finding = MeasuredPair::measure(
        scale.rounds,
        || used(|| drop(find())),
        || used(|| drop(fd())),
    );
    runtime.block_on(setting.haft.close()).unwrap();
    let row = |metric: String, pair: &MeasuredPair| Row {
        number: 13,
        metric,
        ours: time(pair.ours(ResourcesUsed::everything)),
        bare: time(pair.bare(ResourcesUsed::everything)),
        figure: pair.ratio_of_sums(ResourcesUsed::everything),
        goal: Goal::RatioUpTo(1.0),
        beside: format!(
            "equal hits; wall {} ÷ {}",
            time(pair.ours(|used| used.wall)),
            time(pair.bare(|used| used.wall))
        ),
        limits: "every file is opened beneath the held root with `openat2`, which checks each step \
                 of the way, where the other opens by path",
    };
    vec![
        row(format!("`grep` of {} files ÷ `rg`", scale.files), &grepping),
        row(format!("`find` in {} files ÷ `fd`", scale.files), &finding),
    ]
}

fn run(names: &[&str], options: &[&str], pattern: &str, directory: &Path) -> String {
    let output = Command::new(machine::program(names))
        .args(options)
        .arg(pattern)
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(output.status.success(), "{names:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Makes a tree as a repository has it: nested directories, a `.gitignore` that leaves some files
/// out, and files of about a kilobyte.
pub(crate) fn plant(root: &Path, files: usize) {
    std::fs::create_dir(root.join(".git")).unwrap();
    std::fs::write(root.join(".gitignore"), "*.log\nbuild/\n").unwrap();
    let endings = ["rs", "toml", "md", "txt", "log"];
    let line = "fn some_function(argument: usize) -> usize { argument.wrapping_mul(31) + 7 }\n";
    let body = line.repeat(12);
    for number in 0..files {
        let directory = number / IN_DIRECTORY;
        let (part, module) = (directory / IN_PART, directory % IN_PART);
        let directory = root.join(format!("part{part}/module{module}"));
        if number % IN_DIRECTORY == 0 {
            std::fs::create_dir_all(&directory).unwrap();
        }
        let text = if number % NEEDLE_EVERY == 3 {
            format!("{body}let needle_{number} = 1;\n{body}")
        } else {
            body.clone()
        };
        let ending = endings[number / 10 % endings.len()];
        std::fs::write(directory.join(format!("file{number}.{ending}")), text).unwrap();
    }
}
