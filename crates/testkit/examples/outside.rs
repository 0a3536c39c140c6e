//! Packages every library crate as it would be published, and sends nothing. Then it builds and runs a
//! project of somebody else: it is not in this workspace, and its Haft is those packages, unpacked. It has the README's program, every example of
//! `crates/haft/examples`, and the test of `docs/adding-a-tool.md` that uses `haft-harness` as its only
//! dev-dependency of ours. A file or a dependency that a package lacks fails here.
//!
//! ```sh
//! just package
//! ```
//!
//! What is packaged is what is committed. Dependencies of others come from the lock file of the workspace, and nothing is downloaded. The
//! target directory is the workspace's, so that what has the same features is not built again.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a program for maintainers that makes a project and builds it"
)]

use std::{
    env,
    ffi::OsStr,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// What the project needs beside Haft, as the README tells its reader to add it.
const ADDED: &str = r#"
schemars = "1"
serde = { version = "1", features = ["derive"] }
serde_json = "1"
tempfile = "3"
tokio = { version = "1", features = ["full"] }
"#;

/// What its tests need.
const ADDED_FOR_TESTS: &str = r#"
haft-harness = "*"
"#;

/// The crates that are not published: the program, and what is for tests of this repository.
const UNPUBLISHED: [&str; 3] = ["haft-cli", "haft-agents", "haft-testkit"];

/// Comes before the names of its programs, which lie beside those of the workspace.
const OURS: &str = "outside_";

type Done<T = ()> = Result<T, String>;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Done {
    let target = env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| Path::new(ROOT).join("target"), PathBuf::from);
    let all = target.join("outside");
    if all.exists() {
        fs::remove_dir_all(&all).map_err(|error| format!("{}: {error}", all.display()))?;
    }
    let root = Path::new(ROOT);
    let mut words = vec!["package", "--workspace", "--no-verify"];
    words.extend(UNPUBLISHED.iter().flat_map(|name| ["--exclude", *name]));
    cargo(root, &target, &words)?;
    let packages = unpack(&target.join("package"), &all.join("packages"))?;
    // Examples name files of the folder `examples` of the repository, two directories up.
    copy(&root.join("examples"), &all.join("examples"))?;
    let project = all.join("crates/project");
    make_project(&project, &packages)?;

    cargo(&project, &target, &["build", "--bins", "--examples"])?;
    cargo(&project, &target, &["test", "--test", "tool"])?;
    let program = target.join("debug").join(format!("{OURS}readme"));
    let said = Command::new(&program).current_dir(&project).output();
    let said = said.map_err(|error| format!("{}: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let lines = r#""{\"lines\":"#;
    if said.status.success() && text.contains(lines) && text.contains("tool_result") {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&said.stderr).into_owned();
    Err(format!("the README's program says:\n{text}{errors}"))
}

/// Unpacks what `cargo package` made; the directory of each package.
fn unpack(made: &Path, into: &Path) -> Done<Vec<PathBuf>> {
    write_directory(into)?;
    let version = env!("CARGO_PKG_VERSION");
    let mut packages = Vec::new();
    for archive in files(made)? {
        let name = archive.file_name().and_then(OsStr::to_str);
        let name = name.and_then(|name| name.strip_suffix(".crate"));
        // There may be some of an older version.
        let Some(name) = name.filter(|name| name.ends_with(version)) else {
            continue;
        };
        let mut tar = Command::new("tar");
        // With the time of now: packages have one that is always the same, by which cargo would take
        // them for those of the last run.
        tar.arg("-xzmf").arg(&archive).arg("-C").arg(into);
        expect(tar)?;
        packages.push(into.join(name));
    }
    if packages.is_empty() {
        let place = made.display();
        return Err(format!("there are no packages in {place}"));
    }
    Ok(packages)
}

fn make_project(project: &Path, packages: &[PathBuf]) -> Done {
    let mut manifest = String::from(
        "[package]\nname = \"outside\"\nedition = \"2024\"\n\n[workspace]\n\n[features]\n",
    );
    // The workspace's own profiles, so that dependencies are the same there.
    let root = read(&Path::new(ROOT).join("Cargo.toml"))?;
    let profiles = root.find("[profile.").map(|at| &root[at..]);
    let _ = write!(manifest, "\n[dependencies]\nhaft = \"*\"{ADDED}");
    let _ = write!(manifest, "\n[dev-dependencies]{ADDED_FOR_TESTS}");

    write(&project.join("src/readme.rs"), &first_program("README.md")?)?;
    let _ = write!(
        manifest,
        "\n[[bin]]\nname = \"{OURS}readme\"\npath = \"src/readme.rs\"\n"
    );
    write(
        &project.join("tests/tool.rs"),
        &first_program("docs/adding-a-tool.md")?,
    )?;
    for example in files(&Path::new(ROOT).join("crates/haft/examples"))? {
        let file = example.file_name().and_then(OsStr::to_str);
        let file = file.ok_or("an example without a name")?;
        write(&project.join("examples").join(file), &read(&example)?)?;
        let name = file.trim_end_matches(".rs");
        let _ = write!(
            manifest,
            "\n[[example]]\nname = \"{OURS}{name}\"\npath = \"examples/{file}\"\n"
        );
    }
    manifest.push_str("\n[patch.crates-io]\n");
    for package in packages {
        let folder = package.file_name().and_then(OsStr::to_str);
        let name = folder.and_then(|folder| folder.rsplit_once('-'));
        let (name, _) = name.ok_or("a package without a version")?;
        let _ = writeln!(manifest, "{name} = {{ path = '{}' }}", package.display());
    }
    let _ = write!(manifest, "\n{}", profiles.unwrap_or_default());
    write(&project.join("Cargo.toml"), &manifest)?;
    // The versions of others are the workspace's; what is not needed is removed by cargo.
    let lock = read(&Path::new(ROOT).join("Cargo.lock"))?;
    write(&project.join("Cargo.lock"), &lock)
}

/// The first Rust program of a page.
fn first_program(page: &str) -> Done<String> {
    let text = read(&Path::new(ROOT).join(page))?;
    let code = text.split_once("```rust\n").map(|(_, rest)| rest);
    let code = code.and_then(|rest| Some(rest.split_once("```")?.0));
    code.map(str::to_owned)
        .ok_or_else(|| format!("{page} has no program"))
}

fn cargo(project: &Path, target: &Path, words: &[&str]) -> Done {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(project)
        .args(words)
        .args(["--offline", "--quiet"])
        .env("CARGO_TARGET_DIR", target)
        // Tests of the workspace run as another user; this one is not of the workspace.
        .env_remove("CARGO_MANIFEST_DIR");
    expect(cargo)
}

fn expect(mut command: Command) -> Done {
    let status = command.status();
    let status = status.map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("failed: {command:?}"))
}

/// The files of a directory, sorted.
fn files(directory: &Path) -> Done<Vec<PathBuf>> {
    let problem = |error| format!("{}: {error}", directory.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(problem)? {
        let path = entry.map_err(problem)?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn copy(from: &Path, to: &Path) -> Done {
    write_directory(to.parent().unwrap_or(to))?;
    let mut copy = Command::new("cp");
    copy.arg("-R").arg(from).arg(to);
    expect(copy)
}

fn read(path: &Path) -> Done<String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Done {
    write_directory(path.parent().unwrap_or(path))?;
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn write_directory(path: &Path) -> Done {
    fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))
}
