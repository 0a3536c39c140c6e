//! What each feature of `haft` costs those who embed it: how many crates, and how long the first build
//! takes. Without arguments the numbers of crates are compared with `docs/build-cost.md`, so that a
//! feature that grows is seen in review.
//!
//! ```sh
//! just build-cost            # compares
//! just build-cost --check    # has clippy look at the sets of features by themselves
//! just build-cost --check-all
//! just build-cost --measure  # builds each from nothing and writes the page; `--measure none mcp` some
//! ```
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a program for maintainers that runs cargo and writes a page"
)]

use std::{
    collections::BTreeSet,
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Instant,
};

use haft_testkit::cpu_time::CpuTime;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

const PAGE: &str = "docs/build-cost.md";

/// The machine whose crates are counted; others have a few more or fewer.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// A choice of features, and what it is for.
struct FeatureSet {
    features: &'static str,
    gives: &'static str,
    /// Whether `--check` has it compiled by itself. Each takes a minute of a processor, and what the
    /// others differ in is in one of these.
    checked: bool,
}

const fn set(features: &'static str, gives: &'static str, checked: bool) -> FeatureSet {
    FeatureSet {
        features,
        gives,
        checked,
    }
}

const SETS: [FeatureSet; 11] = [
    set(
        "",
        "your own tools, rules, the record in memory or in a file",
        true,
    ),
    set(
        "shell",
        "rules about commands, for tools of your own that run some",
        false,
    ),
    set(
        "network",
        "tools of your own that reach hosts by name",
        false,
    ),
    set("webhook", "questions to a person over HTTP", false),
    set(
        "sandbox",
        "the built-in tools in a directory, and commands in a sandbox",
        true,
    ),
    set("containers", "workspaces in containers", false),
    set("ssh", "workspaces on other machines", false),
    set("mcp", "tools of MCP servers", false),
    set("postgres", "a record in PostgreSQL", false),
    set("object-storage", "artifacts in object storage", false),
    set(
        "default",
        "`containers`, `mcp`, `sandbox`, `ssh`, `webhook`",
        false,
    ),
];

/// What the first build builds: a tool of one's own that rules allow, arguments that its schema forbids, and
/// a tool that would run a command where there is nothing to run it, whatever rules say.
const PROGRAM: &str = r#"
use haft::{
    Cx,
    contract::{
        WorkPath,
        access::{Command, CommandAccess},
        ops::{Operations, Tier},
    },
    prelude::*,
    tool_fn,
};

#[derive(Deserialize, JsonSchema)]
struct Ask {
    symbol: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let price = tool_fn("price", "Says what a share costs.", async |ask: Ask, _: Cx| {
        Ok(format!("{} costs 42", ask.symbol))
    });
    let run = tool_fn("run", "Runs a command.", async |_: Ask, _: Cx| Ok("it ran"));
    let run = run.effects(Effects::UNKNOWN).accesses(|_, _| {
        Ok(vec![Access::Command(CommandAccess {
            command: Command::Argv(vec!["ls".to_owned()]),
            cwd: WorkPath::root(),
            stays: false,
        })])
    });
    let operations = Operations { tiers: vec![Tier::Host], ..Operations::none("/") };
    let haft = haft::Haft::open(".").operations(operations).in_memory();
    let haft = haft.tool(price).tool(run).sandbox("run", SandboxMode::Off);
    let haft = haft.allow("price").allow("run").build().await?;

    let answer = haft.call("price", json!({"symbol": "HAFT"})).await;
    assert!(answer.succeeded(), "{answer:?}");
    let wrong = haft.call("price", json!({"symbol": 1.5, "more": true})).await;
    assert!(!wrong.succeeded(), "arguments that the schema forbids: {wrong:?}");
    let ran = haft.call("run", json!({"symbol": ""})).await;
    assert!(!ran.succeeded(), "{ran:?}");
    haft.close().await?;
    Ok(())
}
"#;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (first, named) = arguments
        .split_first()
        .map_or((None, &[][..]), |(first, named)| {
            (Some(first.as_str()), named)
        });
    let done = match first {
        None => compare(),
        Some("--check") => check(),
        Some("--measure") => measure(named),
        Some("--check-all") => check_all(),
        Some(other) => Err(format!(
            "`{other}` is not known; there are --check, --check-all and --measure"
        )),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

/// Compares the numbers of crates with the page.
fn compare() -> Result<(), String> {
    let page = Path::new(ROOT).join(PAGE);
    let page = fs::read_to_string(&page).map_err(|error| format!("{PAGE}: {error}"))?;
    let mut wrong = String::new();
    for set in &SETS {
        let count = crates(set)?.len();
        let row = page.lines().find(|line| line.starts_with(&set.row()));
        let written = row.and_then(|row| row.split('|').nth(2)?.trim().parse::<usize>().ok());
        if written != Some(count) {
            let written = written.map_or("nothing".to_owned(), |count| count.to_string());
            let _ = writeln!(
                wrong,
                "{}: {count} crates, and the page says {written}",
                set.name()
            );
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    Err(format!(
        "what features of `haft` cost is not what {PAGE} says:\n{wrong}\
         if a new dependency is worth it, run `just build-cost --measure`"
    ))
}

/// Has clippy look at the sets that need it.
fn check() -> Result<(), String> {
    SETS.iter().filter(|set| set.checked).try_for_each(lint)
}

/// Has clippy look at every set, and at all features at once, and shows that commands are refused without
/// their feature.
fn check_all() -> Result<(), String> {
    SETS.iter().try_for_each(lint)?;
    lint(&set("default,postgres,object-storage", "everything", true))?;
    let status = features_apart(cargo(&[
        "test",
        "--package",
        "haft-policy",
        "--lib",
        "--locked",
    ]))
    .args(["--no-default-features", "no_parser"])
    .status()
    .map_err(|error| format!("cargo could not be started: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err("commands are not refused where nothing reads them".to_owned())
    }
}

/// The features of dependencies differ from those of the workspace, so what is built does, too.
fn features_apart(mut cargo: Command) -> Command {
    let target = env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| Path::new(ROOT).join("target"), PathBuf::from);
    cargo.env("CARGO_TARGET_DIR", target.join("features"));
    cargo
}

fn lint(set: &FeatureSet) -> Result<(), String> {
    let begun = Instant::now();
    let lint = cargo(&[
        "clippy",
        "--package",
        "haft",
        "--lib",
        "--locked",
        "--quiet",
    ]);
    let status = features_apart(lint)
        .args(["--no-default-features", "--features", set.features])
        .args(["--", "-D", "warnings"])
        .status()
        .map_err(|error| format!("cargo could not be started: {error}"))?;
    eprintln!("{}: {} s", set.name(), begun.elapsed().as_secs());
    if status.success() {
        Ok(())
    } else {
        Err(format!("`haft` does not compile with {} alone", set.name()))
    }
}

/// Counts the crates of every set, builds the named ones from nothing, as a project outside the
/// workspace does (all of them if none is named), and writes the page.
fn measure(named: &[String]) -> Result<(), String> {
    let page = Path::new(ROOT).join(PAGE);
    let old = fs::read_to_string(&page).unwrap_or_default();
    let machine = machine();
    let mut rows = String::new();
    for set in &SETS {
        let count = crates(set)?.len();
        let is_named = named.is_empty() || named.iter().any(|name| *name == set.shown());
        let cost = if is_named {
            let cost = first_build(set)?;
            eprintln!(
                "{}: {count} crates, {} s, {} s of a processor",
                set.name(),
                cost.wall,
                cost.cpu
            );
            format!("{} | {} | {}", cost.wall, cost.cpu, today())
        } else {
            let row = old.lines().find(|line| line.starts_with(&set.row()));
            let cells: Vec<&str> = row.into_iter().flat_map(|row| row.split(" | ")).collect();
            cells
                .get(2..5)
                .map_or("– | – | –".to_owned(), |cells| cells.join(" | "))
        };
        let _ = writeln!(rows, "{} {count} | {cost} | {} |", set.row(), set.gives);
    }
    let text = format!(
        "# What features cost\n\n\
         Generated by `just build-cost --measure`; do not edit. The machine: {machine}.\n\n\
         The crates that a program compiles which has only `haft` as a dependency, with \
         `default-features = false` and these features: those of `haft` itself included, on Linux and \
         x86-64. Then the first debug build of such a program, from nothing and without downloads: how \
         long it took on that machine, how much of a processor, and when. A neighbour makes the first \
         number larger and hardly the second.\n\n\
         CI counts the crates and fails where the page is not true.\n\n\
         | features | crates | seconds | processor seconds | measured | what they give |\n\
         |---|---|---|---|---|---|\n\
         {rows}\n\
         Why the smallest is not smaller: [ADR 0063](adr/0063-features-are-cut-where-crates-are.md).\n"
    );
    fs::write(page, text).map_err(|error| format!("{PAGE}: {error}"))
}

fn today() -> String {
    let date = Command::new("date").args(["-u", "+%Y-%m-%d"]).output();
    let date = date.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    date.unwrap_or_default()
}

struct BuildCost {
    wall: u64,
    cpu: u64,
}

fn first_build(set: &FeatureSet) -> Result<BuildCost, String> {
    let project = tempfile::tempdir().map_err(|error| error.to_string())?;
    let root = fs::canonicalize(ROOT).map_err(|error| error.to_string())?;
    let features = set.features.split(',').filter(|one| !one.is_empty());
    let features: Vec<String> = features.map(|one| format!("{one:?}")).collect();
    let manifest = format!(
        "[package]\nname = \"first-build\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\nhaft = {{ path = \"{}\", default-features = false, features = [{}] }}\n\
         schemars = \"1\"\nserde = \"1\"\ntokio = {{ version = \"1\", features = [\"macros\", \"rt\"] }}\n",
        root.join("crates/haft").display(),
        features.join(", ")
    );
    let write = |path: &str, text: &str| {
        let path = project.path().join(path);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    write("Cargo.toml", &manifest)?;
    fs::create_dir(project.path().join("src")).map_err(|error| error.to_string())?;
    write("src/main.rs", PROGRAM)?;
    // The same versions as in the workspace.
    fs::copy(root.join("Cargo.lock"), project.path().join("Cargo.lock"))
        .map_err(|error| error.to_string())?;
    let (begun, before) = (Instant::now(), CpuTime::of_process("self"));
    let status = cargo(&["build", "--offline", "--quiet"])
        .current_dir(project.path())
        .env("CARGO_TARGET_DIR", project.path().join("target"))
        .status()
        .map_err(|error| format!("cargo could not be started: {error}"))?;
    if !status.success() {
        return Err(format!("a program with {} does not compile", set.name()));
    }
    let cost = BuildCost {
        wall: begun.elapsed().as_secs(),
        cpu: CpuTime::of_process("self").saturating_sub(before).as_secs(),
    };
    let ran = Command::new(project.path().join("target/debug/first-build"))
        .current_dir(project.path())
        .status()
        .map_err(|error| format!("the program could not be started: {error}"))?;
    if ran.success() {
        Ok(cost)
    } else {
        Err(format!(
            "the program with {} does not do what it should",
            set.name()
        ))
    }
}

/// The crates that are compiled for a set.
fn crates(set: &FeatureSet) -> Result<BTreeSet<String>, String> {
    let output = cargo(&["tree", "--package", "haft", "--locked", "--offline"])
        .args(["--no-default-features", "--features", set.features])
        .args(["--edges", "normal,build", "--target", TARGET])
        .args(["--prefix", "none", "--no-dedupe", "--format", "{p}"])
        .output()
        .map_err(|error| format!("cargo could not be started: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!(
            "the crates of {} are not known: {said}",
            set.name()
        ));
    }
    // `name v1.2.3`, and for some where it is from.
    let lines = String::from_utf8_lossy(&output.stdout);
    let name = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    Ok(lines
        .lines()
        .filter(|line| !line.is_empty())
        .map(name)
        .collect())
}

/// Cargo as somebody outside runs it: with nothing that makes it faster or chooses other features.
fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(ROOT).args(arguments);
    for variable in [
        "__CARGO_TEST_CHANNEL_OVERRIDE_DO_NOT_USE_THIS",
        "CARGO_INCREMENTAL",
        "CARGO_PROFILE_DEV_DEBUG",
        "CARGO_RESOLVER_FEATURE_UNIFICATION",
        "CARGO_UNSTABLE_FEATURE_UNIFICATION",
        "RUSTC_WRAPPER",
    ] {
        command.env_remove(variable);
    }
    command
}

fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let processors = read("/proc/cpuinfo");
    let model = processors
        .lines()
        .find(|line| line.starts_with("model name"));
    let model = model
        .and_then(|line| line.split_once(": "))
        .map_or("", |(_, model)| model);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = read("/proc/meminfo");
    let memory = memory
        .split_whitespace()
        .nth(1)
        .and_then(|kb| kb.parse::<u64>().ok());
    let memory = memory.unwrap_or_default() / 1_000_000;
    let system = read("/proc/sys/kernel/osrelease");
    let system = system.split(['-', '+', '\n']).next().unwrap_or_default();
    let compiler = Command::new("rustc").arg("--version").output();
    let compiler = compiler.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let compiler = compiler.unwrap_or_default();
    let compiler = compiler.split(' ').nth(1).unwrap_or_default();
    format!("{cores} cores ({model}), {memory} GB, Linux {system}, Rust {compiler}")
}

impl FeatureSet {
    /// Its name in messages.
    fn name(&self) -> String {
        match self.features {
            "" => "no feature".to_owned(),
            features => format!("`{features}`"),
        }
    }

    fn shown(&self) -> &'static str {
        match self.features {
            "" => "none",
            features => features,
        }
    }

    /// How its row on the page begins.
    fn row(&self) -> String {
        match self.features {
            "" => "| none |".to_owned(),
            features => format!("| `{features}` |"),
        }
    }
}
