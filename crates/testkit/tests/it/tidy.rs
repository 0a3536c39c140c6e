//! Reads the tree and fails on what the compiler cannot see: an edge between crates that the
//! design does not draw, a file that grew too large, a promise without a test, a document that
//! names a file that is gone.
//!
//! Each check is one test and says in its message what to do. It must not judge style that
//! `rustfmt` or clippy judge already. Read next: `docs/ARCHITECTURE.md`, "Invariants".
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that reads the repository itself, which no workspace confines"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use haft_testkit::tier::Tag;

/// The most production lines a file may have; tests at its end do not count.
const MAX_PRODUCTION_LINES: usize = 600;

/// The most production lines of the program's own crate. What any edge needs is in `host`, and how other
/// agents write their settings in `agent-settings`.
const MAX_CLI_LINES: usize = 17_000;

/// Files that may be longer, each with the reason it is one thing.
const LONG_FILES: &[(&str, &str)] = &[];

/// Which of our crates a crate may depend on. A new edge is a design change: ADR first.
const EDGES: &[(&str, &[&str])] = &[
    ("contract", &[]),
    ("agents", &[]),
    ("policy", &["contract"]),
    ("connect", &["contract"]),
    ("egress", &["contract"]),
    ("documents", &[]),
    ("sandbox", &["contract", "documents", "egress"]),
    ("backends", &["contract", "sandbox"]),
    ("tools", &["contract"]),
    ("ledger", &["contract"]),
    ("runtime", &["contract"]),
    ("mcp", &["contract", "egress", "runtime"]),
    ("harness", &["contract", "runtime"]),
    ("testkit", &["contract", "harness"]),
    (
        "host",
        &[
            "contract", "runtime", "policy", "connect", "egress", "sandbox", "backends", "tools",
            "ledger", "mcp",
        ],
    ),
    (
        "gateway",
        &["contract", "host", "ledger", "policy", "runtime"],
    ),
    (
        "haft",
        &[
            "contract", "runtime", "policy", "sandbox", "backends", "tools", "ledger", "host",
        ],
    ),
    ("agent-settings", &["mcp", "host"]),
    (
        "cli",
        &[
            "agent-settings",
            "contract",
            "gateway",
            "runtime",
            "policy",
            "sandbox",
            "backends",
            "tools",
            "ledger",
            "mcp",
            "host",
        ],
    ),
];

/// What tests of any crate may also depend on. Never `haft` or `cli`: they are the top.
const DEV_EDGES: &[&str] = &[
    "agents",
    "contract",
    "documents",
    "harness",
    "testkit",
    "egress",
    "sandbox",
    "backends",
    "tools",
    "ledger",
    "policy",
    "runtime",
];

/// Dependencies that stay behind one crate, so that the others build without them.
const KEPT_BEHIND: &[(&str, &[&str])] = &[
    ("anyhow", &["cli"]),
    ("axum", &["gateway"]),
    ("cedar-policy", &["policy"]),
    ("clap", &["agent-settings", "cli"]),
    ("grep-searcher", &["backends"]),
    ("html5gum", &["documents"]),
    ("ignore", &["backends"]),
    ("indicatif", &["cli"]),
    ("jsonschema", &["runtime"]),
    ("landlock", &["sandbox"]),
    ("maud", &["gateway"]),
    ("libc", &["backends", "sandbox"]),
    ("miniz_oxide", &["documents", "egress"]),
    ("object_store", &["ledger"]),
    ("reqwest", &["egress"]),
    ("rmcp", &["mcp"]),
    // The command line asks the terminal whether it is one; the host and the ledger open their own
    // files only, in a private directory and without following links.
    (
        "rustix",
        &[
            "agent-settings",
            "backends",
            "cli",
            "egress",
            "host",
            "ledger",
            "sandbox",
        ],
    ),
    ("rusqlite", &["connect", "ledger"]),
    ("rustls-platform-verifier", &["connect", "ledger"]),
    ("russh-sftp", &["backends"]),
    ("seccompiler", &["sandbox"]),
    ("sqlparser", &["connect"]),
    ("sqlx", &["ledger"]),
    ("tokio-postgres", &["connect", "ledger"]),
    ("tokio-rustls", &["connect", "ledger"]),
    ("tracing-subscriber", &["cli"]),
];

/// How the attribute begins that leaves a test out of a plain run.
const IGNORED: &str = concat!("#[ign", "ore");

/// File names that say nothing about what is inside.
const VAGUE_NAMES: &[&str] = &[
    "common", "helpers", "manager", "misc", "shared", "util", "utils",
];

#[test]
fn crates_depend_only_along_the_edges_that_are_drawn() {
    let mut problems = Vec::new();
    for (krate, manifest) in manifests() {
        let Some((_, allowed)) = EDGES.iter().find(|(name, _)| *name == krate) else {
            problems.push(format!("crates/{krate} is not in `EDGES`"));
            continue;
        };
        for used in our_crates(&manifest, "dependencies") {
            if !allowed.contains(&used.as_str()) {
                problems.push(format!("{krate} -> {used}"));
            }
        }
        for used in our_crates(&manifest, "dev-dependencies") {
            if !DEV_EDGES.contains(&used.as_str()) && !allowed.contains(&used.as_str()) {
                problems.push(format!("{krate} -> {used} (dev)"));
            }
        }
    }
    report(
        &problems,
        "these edges are not in the design; write an ADR and add them to `EDGES`, or remove them",
    );
}

#[test]
fn the_program_holds_its_commands_and_screens_only() {
    let own = rust_files().filter(|file| {
        file.path.starts_with("crates/cli/src/") && !file.path.ends_with("/tests.rs")
    });
    let lines: usize = own.map(|file| production_lines(&file.text)).sum();
    assert!(
        lines < MAX_CLI_LINES,
        "crates/cli has {lines} production lines; move what is no command and no screen to crates/host"
    );
}

#[test]
fn heavy_dependencies_stay_behind_one_crate() {
    let mut problems = Vec::new();
    for (krate, manifest) in manifests() {
        for (dependency, homes) in KEPT_BEHIND {
            let used = table(&manifest, "dependencies").any(|name| name == *dependency);
            if used && !homes.contains(&krate.as_str()) {
                problems.push(format!("{krate} uses {dependency}; only {homes:?} may"));
            }
        }
    }
    report(
        &problems,
        "reach what you need through a trait of `contract`",
    );
}

#[test]
fn dependencies_are_declared_once_and_explained() {
    let mut problems = Vec::new();
    for (krate, manifest) in manifests() {
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let Some(dependencies) = manifest.get(section).and_then(toml::Value::as_table) else {
                continue;
            };
            for (name, value) in dependencies {
                // A crate that its tests use, and that needs it: with a version it could not be packaged.
                let is_way_back = section == "dev-dependencies"
                    && name.starts_with("haft-")
                    && value.get("path").is_some()
                    && value.get("version").is_none();
                if is_way_back {
                    continue;
                }
                if value.get("workspace").and_then(toml::Value::as_bool) != Some(true) {
                    problems.push(format!(
                        "crates/{krate}: `{name}` does not say `workspace = true`"
                    ));
                }
            }
        }
    }
    let explained = read("docs/ARCHITECTURE.md");
    let root: toml::Value = parse("Cargo.toml");
    let workspace = root.get("workspace").expect("[workspace]").clone();
    for name in table(&workspace, "dependencies").filter(|name| !name.starts_with("haft")) {
        if !explained.contains(&format!("`{name}`")) {
            problems.push(format!("`{name}` has no row in docs/ARCHITECTURE.md"));
        }
        let is_used = |manifest: &toml::Value| {
            ["dependencies", "dev-dependencies", "build-dependencies"]
                .iter()
                .any(|section| table(manifest, section).any(|used| used == name))
        };
        if !manifests().iter().any(|(_, manifest)| is_used(manifest)) {
            problems.push(format!("`{name}` is declared and used by no crate"));
        }
    }
    report(
        &problems,
        "declare it in the root Cargo.toml and give it a row under \"Dependencies\"",
    );
}

#[test]
fn files_hold_one_thing() {
    let mut problems = Vec::new();
    let mut excused = BTreeSet::new();
    for file in rust_files().filter(SourceFile::is_production) {
        let lines = production_lines(&file.text);
        if lines <= MAX_PRODUCTION_LINES {
            continue;
        }
        if LONG_FILES.iter().any(|(path, _)| *path == file.path) {
            excused.insert(file.path);
        } else {
            problems.push(format!("{} has {lines} production lines", file.path));
        }
    }
    for (path, _) in LONG_FILES {
        if !excused.contains(*path) {
            problems.push(format!("{path} is in `LONG_FILES` and is not long"));
        }
    }
    report(
        &problems,
        "split by meaning, or list it in `LONG_FILES` with the reason it is one thing",
    );
}

#[test]
fn file_names_say_what_is_inside() {
    let problems: Vec<_> = rust_files()
        .filter(|file| {
            Path::new(&file.path)
                .components()
                .filter_map(|part| part.as_os_str().to_str())
                .any(|part| VAGUE_NAMES.contains(&part.trim_end_matches(".rs")))
        })
        .map(|file| file.path)
        .collect();
    report(&problems, "name the file after the one concept it holds");
}

#[test]
fn files_open_by_saying_what_they_are_for() {
    let problems: Vec<_> = rust_files()
        .filter(|file| !file.text.starts_with("//!"))
        .map(|file| file.path)
        .collect();
    report(
        &problems,
        "open with `//!`: what it is for, what it must not do, where to read next",
    );
}

#[test]
fn every_built_in_tool_is_in_the_catalog() {
    let catalog = read("crates/tools/src/catalog.rs");
    let problems: Vec<_> = rust_files()
        .filter(|file| file.path.starts_with("crates/tools/src/") && file.is_production())
        .flat_map(|file| {
            implementors(&strip_tests(&file.text), "Tool")
                .into_iter()
                .map(move |tool| (file.path.clone(), tool))
                .collect::<Vec<_>>()
        })
        .filter(|(_, tool)| !has_word(&catalog, tool))
        .map(|(path, tool)| format!("`{tool}` of {path}"))
        .collect();
    report(&problems, "add one line to crates/tools/src/catalog.rs");
}

#[test]
fn every_promise_names_the_tests_that_show_it() {
    let page = read("docs/promises.md");
    let promises = numbered_items(section(&page, "# Promises"));
    assert!(!promises.is_empty(), "docs/promises.md promises nothing");
    let of_ci = |test: &TestFunction| match &test.ignored {
        None => true,
        Some(reason) => Tag::parse(reason).is_some_and(|(tag, _)| matches!(tag, Tag::Ci | Tag::Vm)),
    };
    let tests: BTreeSet<String> = rust_files()
        .flat_map(|file| test_functions(&file.text))
        .filter(of_ci)
        .map(|test| test.name)
        .collect();
    let mut problems = Vec::new();
    for promise in promises {
        let title: String = promise.chars().take(60).collect();
        let Some((_, shown)) = promise.split_once("Shown by") else {
            problems.push(format!("no `Shown by` in: {title}…"));
            continue;
        };
        let names = backticked(shown);
        if names.is_empty() {
            problems.push(format!("no test named in: {title}…"));
        }
        for name in names {
            if !tests.contains(&name) {
                problems.push(format!("CI runs no test called `{name}`: {title}…"));
            }
        }
    }
    report(
        &problems,
        "a promise is only printed with the test that would fail without it",
    );
}

#[test]
fn attacks_that_promises_name_are_in_the_corpus() {
    let corpus: BTreeSet<String> = tree()
        .into_iter()
        .filter(|file| file.path.starts_with("attacks/"))
        .flat_map(|file| attack_ids(&file.text))
        .collect();
    assert!(!corpus.is_empty(), "attacks/ names no attack");
    let mut problems = Vec::new();
    for path in ["README.md", "SECURITY.md", "docs/promises.md"] {
        for id in attack_ids(&read(path)) {
            if !corpus.contains(&id) {
                problems.push(format!("{path} names {id}"));
            }
        }
    }
    report(&problems, "no file in attacks/ has a case of that number");
}

/// A file that no `mod` names is not compiled, and its tests never run.
#[test]
fn every_file_is_a_module_of_its_crate() {
    let files: BTreeMap<String, String> = rust_files().map(|file| (file.path, file.text)).collect();
    let mut problems = Vec::new();
    for path in files.keys() {
        let Some((parents, module)) = module_of(path) else {
            continue;
        };
        let declared = parents.iter().filter_map(|parent| files.get(parent));
        if !declared.into_iter().any(|text| declares(text, &module)) {
            problems.push(format!("{path} is in none of {parents:?}"));
        }
    }
    report(&problems, "declare it with `mod`, or remove it");
}

#[test]
fn lints_are_lifted_with_a_reason() {
    let mut problems = Vec::new();
    for file in rust_files() {
        for opening in ["#[allow(", "#![allow(", "#[expect(", "#![expect("] {
            for (at, _) in file.text.match_indices(opening) {
                if is_commented(&file.text, at) || is_quoted(&file.text, at) {
                    continue;
                }
                let rest = file.text.get(at..).unwrap_or_default();
                let attribute = rest.split_inclusive(")]").next().unwrap_or_default();
                let line = line_number(&file.text, at);
                if !attribute.contains("reason =") {
                    problems.push(format!("{}:{line} gives no reason", file.path));
                }
            }
        }
    }
    report(&problems, "write `#[expect(lint, reason = \"…\")]`");
}

#[test]
fn only_backends_and_sandbox_are_unsafe() {
    let mut problems = Vec::new();
    for file in rust_files().filter(SourceFile::is_production) {
        if ["crates/backends/", "crates/sandbox/"]
            .iter()
            .any(|home| file.path.starts_with(home))
        {
            continue;
        }
        for (at, _) in file.text.match_indices("unsafe") {
            let rest = file.text.get(at..).unwrap_or_default();
            let is_code = ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"]
                .iter()
                .any(|code| rest.starts_with(code));
            if (is_code || rest.starts_with("unsafe_code")) && !is_commented(&file.text, at) {
                let line = line_number(&file.text, at);
                problems.push(format!("{}:{line}", file.path));
            }
        }
    }
    report(
        &problems,
        "unsafe code belongs behind a trait, in `sandbox` or `backends`",
    );
}

#[test]
fn each_crate_has_one_integration_binary() {
    let problems: Vec<_> = rust_files()
        .filter(|file| {
            let parts: Vec<_> = file.path.split('/').collect();
            matches!(parts.as_slice(), ["crates", _, "tests", _])
        })
        .map(|file| file.path)
        .collect();
    report(
        &problems,
        "make it a module of tests/it/main.rs; every binary links everything once more",
    );
}

#[test]
fn no_loose_end_is_left() {
    let mut problems = Vec::new();
    for file in rust_files() {
        for (number, line) in file.text.lines().enumerate() {
            if line.contains(concat!("FIX", "ME")) {
                problems.push(format!("{}:{}", file.path, number + 1));
            }
        }
    }
    report(&problems, "finish it, or open an issue and remove the mark");
}

#[test]
fn a_test_that_is_not_fast_says_its_tier_and_why() {
    let mut problems = Vec::new();
    for file in rust_files() {
        for (number, line) in file.text.lines().enumerate() {
            let Some(rest) = line.trim_start().strip_prefix(IGNORED) else {
                continue;
            };
            let reason = rest
                .strip_prefix(" = \"")
                .and_then(|rest| rest.split('"').next());
            if reason.and_then(Tag::parse).is_none() {
                problems.push(format!("{}:{}", file.path, number + 1));
            }
        }
    }
    report(
        &problems,
        "begin the reason with `ci: `, `soak: ` or `child: `, see crates/testkit/src/tier.rs",
    );
}

#[test]
fn no_path_of_the_machine_it_was_written_on() {
    let marks = [
        concat!("/wo", "rk/main"),
        concat!("/wo", "rk/shared"),
        concat!("/fa", "rm/"),
        concat!("/tmp/bash", "_jobs"),
    ];
    let mut problems = Vec::new();
    for file in tree() {
        for mark in marks {
            for (at, _) in file.text.match_indices(mark) {
                problems.push(format!("{}:{}", file.path, line_number(&file.text, at)));
            }
        }
    }
    report(&problems, "use a path that exists on the reader's machine");
}

#[test]
fn the_readme_names_the_rust_that_is_needed() {
    let needed = parse("Cargo.toml")["workspace"]["package"]["rust-version"].clone();
    let needed = format!("Rust {}.", needed.as_str().unwrap());
    assert!(read("README.md").contains(&needed), "{needed}");
}

#[test]
fn documents_name_only_files_that_exist() {
    let mut problems = Vec::new();
    for file in tree().into_iter().filter(SourceFile::is_document) {
        let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
        for link in links(&file.text) {
            if !root().join(folder).join(&link).exists() {
                problems.push(format!("{} links to {link}", file.path));
            }
        }
        for name in backticked(&file.text) {
            let is_path = ["crates/", "docs/", ".ci/", ".config/", "examples/"]
                .iter()
                .any(|start| name.starts_with(start));
            if !is_path || name.contains(['<', '*', '…', ' ']) {
                continue;
            }
            for path in braces_expanded(&name) {
                if !root().join(&path).exists() {
                    problems.push(format!("{} names `{path}`", file.path));
                }
            }
        }
    }
    report(&problems, "a document that is not true is worse than none");
}

#[test]
fn the_justfile_is_short() {
    let justfile = read("justfile");
    let mut recipes: BTreeMap<&str, usize> = BTreeMap::new();
    let mut current = "";
    for line in justfile.lines().filter(|line| !line.trim().is_empty()) {
        if line.starts_with('#') {
            continue;
        }
        if line.starts_with(char::is_whitespace) {
            *recipes.entry(current).or_default() += 1;
        } else {
            current = line.split([' ', ':']).next().unwrap_or_default();
            recipes.entry(current).or_default();
        }
    }
    assert!(
        recipes.len() <= 21 && recipes.values().all(|commands| *commands == 1),
        "at most twenty-one recipes, one command each; put the logic in Rust: {recipes:?}"
    );
}

/// A file of the repository, with its path from the root.
pub(crate) struct SourceFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl SourceFile {
    fn is_production(&self) -> bool {
        self.path.starts_with("crates/") && self.path.contains("/src/")
    }

    fn is_document(&self) -> bool {
        Path::new(&self.path)
            .extension()
            .is_some_and(|extension| extension == "md")
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate is two folders below the root")
        .to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn parse(path: &str) -> toml::Value {
    toml::from_str(&read(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every text file of the repository, sorted by path.
pub(crate) fn tree() -> Vec<SourceFile> {
    let mut files = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() && name != "target" && name != ".git" {
                folders.push(entry.path());
            } else if kind.is_file()
                && name != "Cargo.lock"
                && let Ok(text) = fs::read_to_string(entry.path())
            {
                let path = entry.path();
                let path = path.strip_prefix(root()).unwrap().to_str().unwrap();
                files.push(SourceFile {
                    path: path.to_owned(),
                    text,
                });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

pub(crate) fn rust_files() -> impl Iterator<Item = SourceFile> {
    tree().into_iter().filter(|file| {
        Path::new(&file.path)
            .extension()
            .is_some_and(|extension| extension == "rs")
    })
}

fn manifests() -> Vec<(String, toml::Value)> {
    let mut manifests: Vec<_> = fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|krate| (krate.clone(), parse(&format!("crates/{krate}/Cargo.toml"))))
        .collect();
    manifests.sort_by(|a, b| a.0.cmp(&b.0));
    manifests
}

/// The names in one table of a manifest.
fn table<'m>(manifest: &'m toml::Value, section: &str) -> impl Iterator<Item = &'m str> {
    manifest
        .get(section)
        .and_then(toml::Value::as_table)
        .into_iter()
        .flat_map(|table| table.keys().map(String::as_str))
}

/// Our own crates in one table of a manifest, by folder.
fn our_crates(manifest: &toml::Value, section: &str) -> Vec<String> {
    table(manifest, section)
        .filter_map(|name| match name {
            "haft" => Some("haft"),
            other => other.strip_prefix("haft-"),
        })
        .map(str::to_owned)
        .collect()
}

/// The text without its `#[cfg(test)]` modules. Relies on `rustfmt`: a block ends at the first
/// closing brace with the indentation of its opening line.
pub(crate) fn strip_tests(text: &str) -> String {
    let mut kept = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            kept.push(line);
            continue;
        }
        let indentation = line.len() - line.trim_start().len();
        let closing = format!("{}}}", " ".repeat(indentation));
        let opens_block = lines.peek().is_some_and(|next| next.ends_with('{'));
        for skipped in lines.by_ref() {
            if !opens_block || skipped == closing {
                break;
            }
        }
    }
    kept.join("\n")
}

fn production_lines(text: &str) -> usize {
    strip_tests(text).lines().count()
}

/// The types that implement a trait in this text.
fn implementors(text: &str, of: &str) -> Vec<String> {
    let mark = format!("{of} for ");
    text.lines()
        .filter(|line| line.starts_with("impl"))
        .filter_map(|line| line.split_once(mark.as_str()))
        .filter(|(before, _)| before.trim_end() == "impl" || before.ends_with("> "))
        .map(|(_, rest)| rest.split([' ', '<', '{']).next().unwrap_or_default())
        .map(str::to_owned)
        .collect()
}

/// A test, and why a plain run leaves it out, if it does.
#[derive(Debug, PartialEq)]
struct TestFunction {
    name: String,
    ignored: Option<String>,
}

/// The functions that carry a test attribute, also in a `proptest!` block.
fn test_functions(text: &str) -> Vec<TestFunction> {
    let mut tests = Vec::new();
    let mut is_test = false;
    let mut ignored = None;
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some(rest) = line.strip_prefix(IGNORED) {
            ignored = Some(rest.split('"').nth(1).unwrap_or_default().to_owned());
        } else if let Some(rest) = line
            .strip_prefix("async fn ")
            .or_else(|| line.strip_prefix("fn "))
        {
            let ignored = ignored.take();
            if is_test {
                let name = rest.split(['(', '<']).next().unwrap_or_default();
                tests.push(TestFunction {
                    name: name.to_owned(),
                    ignored,
                });
            }
            is_test = false;
        }
    }
    tests
}

/// The numbers of attacks in a text, such as `PE-03`.
fn attack_ids(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-')
        .filter(|word| {
            let is_id = |group: &str, number: &str| {
                group.len() == 2
                    && number.len() == 2
                    && group.bytes().all(|byte| byte.is_ascii_uppercase())
                    && number.bytes().all(|byte| byte.is_ascii_digit())
            };
            word.split_once('-').is_some_and(|(a, b)| is_id(a, b))
        })
        .map(str::to_owned)
        .collect()
}

/// The files of which one must declare the module that a file is, and the module's name. `None` for
/// files that cargo finds by itself.
fn module_of(path: &str) -> Option<(Vec<String>, String)> {
    let (mut folder, name) = path.rsplit_once('/')?;
    if !path.starts_with("crates/") || ["lib.rs", "main.rs", "build.rs"].contains(&name) {
        return None;
    }
    let mut module = name.strip_suffix(".rs")?;
    if name == "mod.rs" {
        (folder, module) = folder.rsplit_once('/')?;
    }
    if ["examples", "bin", "benches"].contains(&folder.rsplit('/').next()?) {
        return None;
    }
    let parents = ["/mod.rs", "/main.rs", "/lib.rs", ".rs"];
    let parents = parents.map(|end| format!("{folder}{end}")).to_vec();
    Some((parents, module.to_owned()))
}

/// Whether a text has a `mod` of this name that is a file.
fn declares(text: &str, module: &str) -> bool {
    let end = format!("mod {module};");
    text.lines().any(|line| {
        line.trim()
            .strip_suffix(&end)
            .is_some_and(|before| before.is_empty() || before.ends_with(' '))
    })
}

/// The part of a document under a heading, up to the next one of the same level.
fn section<'t>(text: &'t str, heading: &str) -> &'t str {
    let Some((_, rest)) = text.split_once(&format!("{heading}\n")) else {
        return "";
    };
    rest.split("\n## ").next().unwrap_or(rest)
}

/// The items of a numbered list, each joined to one line.
fn numbered_items(text: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for line in text.lines() {
        let is_item = line
            .split_once(". ")
            .is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        if is_item {
            items.push(line.to_owned());
        } else if line.starts_with(' ')
            && let Some(item) = items.last_mut()
        {
            item.push(' ');
            item.push_str(line.trim());
        }
    }
    items
}

/// What stands between single backticks, outside fenced blocks.
fn backticked(text: &str) -> Vec<String> {
    prose(text)
        .split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// The text without fenced blocks.
fn prose(text: &str) -> String {
    let mut fenced = false;
    text.lines()
        .filter(|line| {
            let is_fence = line.trim_start().starts_with("```");
            fenced ^= is_fence;
            !fenced && !is_fence
        })
        .collect::<Vec<_>>()
        .join("\n")
}

/// The relative targets of Markdown links, without fragments.
fn links(text: &str) -> Vec<String> {
    prose(text)
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.split('#').next().unwrap_or_default().to_owned())
        .filter(|target| !target.is_empty() && !target.contains(':'))
        .collect()
}

/// `a/{b,c}.rs` as `a/b.rs` and `a/c.rs`.
fn braces_expanded(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else {
        return vec![path.to_owned()];
    };
    let Some((inside, after)) = rest.split_once('}') else {
        return vec![path.to_owned()];
    };
    inside
        .split(',')
        .flat_map(|choice| braces_expanded(&format!("{before}{choice}{after}")))
        .collect()
}

/// Whether a name occurs with no letter, digit or underscore on either side.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text.get(..at).and_then(|text| text.chars().next_back());
        let after = text
            .get(at + word.len()..)
            .and_then(|text| text.chars().next());
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

fn line_number(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or_default().matches('\n').count() + 1
}

fn line_before(text: &str, at: usize) -> &str {
    let before = text.get(..at).unwrap_or_default();
    before.rsplit('\n').next().unwrap_or_default()
}

fn is_commented(text: &str, at: usize) -> bool {
    line_before(text, at).contains("//")
}

fn is_quoted(text: &str, at: usize) -> bool {
    line_before(text, at).matches('"').count() % 2 == 1
}

#[track_caller]
pub(crate) fn report(problems: &[String], advice: &str) {
    assert!(
        problems.is_empty(),
        "\n  {}\n{advice}\n",
        problems.join("\n  ")
    );
}

/// A merge that was not finished, or a snapshot nobody looked at, is in the tree by mistake.
#[test]
fn nothing_is_left_over_from_a_merge_or_a_snapshot() {
    let mut problems = Vec::new();
    for file in tree() {
        if file.path.ends_with(".snap.new") {
            problems.push(format!("{}: accept it or remove it", file.path));
        }
        for (index, line) in file.text.lines().enumerate() {
            if line.starts_with(concat!("<<<<", "<<< "))
                || line.starts_with(concat!(">>>>", ">>> "))
            {
                problems.push(format!("{}:{}: a conflict", file.path, index + 1));
            }
        }
    }
    report(&problems, "Finish the merge, or take the file out.");
}

/// The checks above are only worth what their readers are worth.
#[test]
fn the_readers_of_the_tree_read_right() {
    let code =
        "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {\n    }\n}\nimpl Tool for Read {\n}\n";
    assert_eq!(production_lines(code), 3);
    assert_eq!(implementors(code, "Tool"), ["Read"]);
    assert!(implementors("impl ErasedTool for Script {", "Tool").is_empty());
    let tests = "#[test]\nfn one() {\n#[tokio::test]\n#[IGNORED = \"ci: slow\"]\nasync fn two() {\nfn three() {";
    let tests = test_functions(&tests.replace("#[IGNORED", IGNORED));
    let tests: Vec<_> = tests
        .iter()
        .map(|test| (test.name.as_str(), test.ignored.as_deref()))
        .collect();
    assert_eq!(tests, [("one", None), ("two", Some("ci: slow"))]);
    assert_eq!(attack_ids("(PE-03) AB-1, x-12 SH-46."), ["PE-03", "SH-46"]);
    let (parents, module) = module_of("crates/a/src/b/mod.rs").unwrap();
    assert_eq!(
        (parents[2].as_str(), &*module),
        ("crates/a/src/lib.rs", "b")
    );
    assert!(declares("pub(crate) mod b;", "b") && !declares("mod ab;\nmod b {", "b"));
    assert_eq!(
        braces_expanded("a/{b,c}/{d,e}"),
        ["a/b/d", "a/b/e", "a/c/d", "a/c/e"]
    );
    assert_eq!(links("[x](y.md#z) [w](https://v)"), ["y.md"]);
    assert_eq!(backticked("`a` b\n```\n`c`\n```\n`d`"), ["a", "d"]);
    assert_eq!(
        numbered_items("1. one\n   more\n\n2. two\n"),
        ["1. one more", "2. two"]
    );
    assert!(has_word("[Read, Write]", "Read") && !has_word("ReadOutput", "Read"));
}
