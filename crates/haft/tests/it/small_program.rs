//! A small program run as a process of its own: what it called is on record although it closed
//! nothing, and its commands find a helper, or it is told the line that makes it one.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::Arc,
};

use haft::contract::{
    CallId, TenantId, Terminal,
    host::{History as _, Verification},
};
use haft_ledger::{LedgerOptions, StoredLedger};
use haft_runtime::SystemClock;

/// How often a program is run: what is lost is lost in some runs and not in others.
const RUNS: usize = 20;

/// Calls of each run.
const CALLS: usize = 3;

/// A workspace with a file, and a data directory, both empty of anything else.
struct ProgramDirectories {
    workspace: tempfile::TempDir,
    data: tempfile::TempDir,
}

impl ProgramDirectories {
    fn new() -> Self {
        let place = Self {
            workspace: tempfile::tempdir().unwrap(),
            data: tempfile::tempdir().unwrap(),
        };
        std::fs::write(place.workspace.path().join("notes.txt"), "hello").unwrap();
        place
    }

    /// The program with these arguments after its directories.
    fn program(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(example("small_program"));
        command
            .args([self.workspace.path(), self.data.path()])
            .args(arguments);
        command
    }
}

/// Where cargo puts an example, which it builds with the tests.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let target = test.parent().and_then(Path::parent).unwrap();
    let program = target.join("examples").join(name);
    assert!(
        program.is_file(),
        "build it with `cargo build -p haft --examples`"
    );
    program
}

fn said(output: &Output) -> String {
    let (out, error) = (&output.stdout, &output.stderr);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(error)
    );
    String::from_utf8(out.clone()).unwrap()
}

#[tokio::test]
async fn what_a_program_called_is_on_record_although_it_closed_nothing() {
    let place = ProgramDirectories::new();
    let mut made = Vec::new();
    for _ in 0..RUNS {
        let output = place.program(&[&CALLS.to_string()]).output().unwrap();
        let said = said(&output);
        made.extend(said.lines().map(|line| {
            let (call, ending) = line.split_once(' ').unwrap();
            assert_eq!(ending, "Succeeded", "{said}");
            CallId::parse(call).unwrap()
        }));
    }
    assert_eq!(made.len(), RUNS * CALLS);
    let options = LedgerOptions::new(place.data.path().join("record"), Arc::new(SystemClock));
    let (ledger, recovery) = StoredLedger::open(options).await.unwrap();
    // Nothing was left open, so nothing had to be settled for it.
    assert!(recovery.is_empty(), "{recovery:?}");
    let tenant = TenantId::local();
    for call in made {
        let stored = ledger.call(&tenant, call).await.unwrap().unwrap();
        assert_eq!(stored.terminal, Some(Terminal::Succeeded), "{call}");
    }
    let verified = ledger.verify(&tenant).await.unwrap();
    assert!(
        matches!(verified, Verification::Intact { .. }),
        "{verified:?}"
    );
    ledger.close().await.unwrap();
}

/// What the program says of a command that asks where it is.
fn run_command(place: &ProgramDirectories, helper: Option<&Path>, path: Option<&Path>) -> String {
    // In a directory of its own: cargo puts a helper beside it.
    let own = tempfile::tempdir().unwrap();
    let copy = own.path().join("program");
    std::fs::copy(example("small_program"), &copy).unwrap();
    let mut program = Command::new(copy);
    program
        .args([place.workspace.path(), place.data.path()])
        .args(["0", "echo ran here"])
        .env_remove("HAFT_HELPER")
        .env("PATH", "/nonexistent");
    if let Some(helper) = helper {
        program.env("HAFT_HELPER", helper);
    }
    if let Some(path) = path {
        program.env("PATH", path);
    }
    said(&program.output().unwrap())
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn a_program_without_the_line_finds_an_installed_helper() {
    let place = ProgramDirectories::new();
    // On `PATH`, under the name of the command line, as `cargo install` leaves it there.
    let installed = tempfile::tempdir().unwrap();
    std::fs::copy(crate::attacks::helper(), installed.path().join("haft")).unwrap();
    let said = run_command(&place, None, Some(installed.path()));
    assert!(said.contains("ran here"), "{said}");
    // Named.
    let said = run_command(&place, Some(&crate::attacks::helper()), None);
    assert!(said.contains("ran here"), "{said}");
}

#[test]
fn a_program_without_a_helper_is_told_the_line() {
    let place = ProgramDirectories::new();
    // Empty means none, also where one lies beside the program.
    let said = run_command(&place, Some(Path::new("")), None);
    assert!(said.contains("`haft::helper::exit_if_asked();`"), "{said}");
    assert!(
        said.contains("first of a `main` that is not `async`"),
        "{said}"
    );
    assert!(!said.contains("install haft"), "{said}");
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn a_helper_in_the_workspace_is_not_used() {
    let place = ProgramDirectories::new();
    let inside = place.workspace.path().join("haft-helper");
    std::fs::copy(crate::attacks::helper(), &inside).unwrap();
    // Where it really is counts, however it is spelled.
    let elsewhere = tempfile::tempdir().unwrap();
    let (program, directory) = (elsewhere.path().join("haft"), elsewhere.path().join("bin"));
    std::os::unix::fs::symlink(&inside, &program).unwrap();
    std::os::unix::fs::symlink(place.workspace.path(), &directory).unwrap();
    for (named, path) in [
        (Some(&*inside), place.workspace.path()),
        (Some(&*program), place.workspace.path()),
        (None, place.workspace.path()),
        (None, elsewhere.path()),
        (None, &*directory),
    ] {
        let said = run_command(&place, named, Some(path));
        assert!(said.contains("exit_if_asked"), "{named:?} {path:?}: {said}");
    }
}

/// `cargo run` starts a program in the project it works on, where a command could replace it.
#[test]
#[ignore = "ci: needs bubblewrap"]
fn a_program_with_the_line_may_lie_in_its_own_workspace() {
    let place = ProgramDirectories::new();
    let inside = place.workspace.path().join("target");
    std::fs::copy(example("program_in_workspace"), &inside).unwrap();
    let output = Command::new(&inside)
        .args([place.workspace.path(), place.data.path()])
        .env("PATH", "/nonexistent")
        .output()
        .unwrap();
    let said = said(&output);
    // The second command is set up by what the program was, not by what the first made of its file.
    assert!(
        said.contains("replaced") && said.contains("ran here"),
        "{said}"
    );
}

/// A program is shared by every workspace of a process, also by those that its file does not lie in.
#[test]
#[ignore = "ci: needs bubblewrap"]
fn a_command_cannot_replace_the_program_that_sets_up_other_workspaces() {
    for replace in [
        "rm target",
        "mv target moved",
        "mv target moved && rm moved",
    ] {
        let (place, outside) = (ProgramDirectories::new(), tempfile::tempdir().unwrap());
        let other = tempfile::tempdir().unwrap();
        let inside = place.workspace.path().join("target");
        std::fs::copy(example("program_in_a_workspace_of_two"), &inside).unwrap();
        let mark = outside.path().join("mark");
        // What would be started unconfined, if the program were started by its path.
        let script = format!("#!/bin/sh\ntouch {}\n", mark.display());
        std::fs::write(place.workspace.path().join("script"), script).unwrap();
        let command = format!("{replace} && cp script target && chmod 755 target && echo replaced");
        let output = Command::new(&inside)
            .args([place.workspace.path(), other.path()])
            .arg(command)
            .env("PATH", "/nonexistent")
            .output()
            .unwrap();
        let said = said(&output);
        for expect in ["replaced", "ran in t1", "ran in t2", "ran in host"] {
            assert!(said.contains(expect), "{replace}: {said}");
        }
        assert!(!mark.exists(), "{replace}: {said}");
    }
}
