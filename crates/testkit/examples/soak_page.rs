//! Makes `docs/soak.md` from a run of `just soak`: what each test did, how long it took, and the
//! figures it printed. Where a run had only some of the tests, the sections of the others stay.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a program for maintainers that reads one report and writes one page"
)]

use std::{
    env,
    fmt::Write as _,
    fs,
    process::{Command, ExitCode},
};

use haft_testkit::junit;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/soak.md");

const OPENING: &str = "\
# The soak

What `just soak` did when it was last run: the tests with large counts, one after the other. The same tests run in CI with counts that are as small as they can be and still fail. Written by
`crates/testkit/examples/soak_page.rs` from the run; a test that was run by itself since then says at which commit.

";

/// Lines of a test's output that are libtest's, not its own.
const LIBTEST: [&str; 3] = ["running ", "test ", "seed "];

fn main() -> ExitCode {
    let Some(path) = env::args().nth(1) else {
        eprintln!("usage: soak_page REPORT (the JUnit report of a soak)");
        return ExitCode::from(2);
    };
    let report = match fs::read_to_string(&path) {
        Ok(report) => report,
        Err(error) => {
            eprintln!("`{path}` cannot be read: {error}");
            return ExitCode::from(2);
        }
    };
    let before = fs::read_to_string(PAGE).unwrap_or_default();
    let commit = commit();
    let mut sections = Vec::new();
    for case in junit::cases(&report) {
        if !case.passed {
            eprintln!("did not pass: {} {}", case.binary, case.name);
            return ExitCode::FAILURE;
        }
        let title = format!("## `{}`\n\n{},", case.name, case.binary);
        let mut section = format!("{title} {:.0} s, at {commit}\n\n```text\n", case.seconds);
        for line in case.output.lines().map(str::trim_end) {
            if !line.is_empty() && !LIBTEST.iter().any(|word| line.starts_with(word)) {
                let _ = writeln!(section, "{line}");
            }
        }
        section.push_str("```\n\n");
        sections.push((title, section));
    }
    let mut page = OPENING.to_owned();
    for kept in before.split_inclusive("```\n\n").map(from_its_title) {
        match sections
            .iter()
            .position(|(title, _)| kept.starts_with(title))
        {
            Some(new) => page.push_str(&sections.remove(new).1),
            None => page.push_str(kept),
        }
        page.truncate(page.trim_end().len());
        page.push_str("\n\n");
    }
    for (_, section) in sections {
        page.push_str(&section);
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    if let Err(error) = fs::write(PAGE, page) {
        eprintln!("docs/soak.md cannot be written: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// A section of the page, without what opens the page.
fn from_its_title(section: &str) -> &str {
    let title = section.find("## ").unwrap_or(section.len());
    section.get(title..).unwrap_or_default()
}

/// What was measured, as git says, and where.
fn commit() -> String {
    let described = Command::new("git")
        .args(["rev-parse", "--short=10", "HEAD"])
        .output();
    let described = described.map(|output| output.stdout).unwrap_or_default();
    let commit = String::from_utf8_lossy(&described);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{} on {cores} cores", commit.trim())
}
