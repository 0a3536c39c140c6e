//! Makes `docs/soak.md` from a run of `just soak`: what each test did, how long it took, and the
//! figures it printed.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a program for maintainers that reads one report and writes one page"
)]

use std::{env, fmt::Write as _, fs, process::ExitCode};

use haft_testkit::junit;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/soak.md");

const OPENING: &str = "\
# The soak

What `just soak` did when it was last run: the tests with large counts, one after the other. The same tests run in CI with counts that are as small as they can be and still fail. Written by
`crates/testkit/examples/soak_page.rs` from the run.

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
    let mut page = OPENING.to_owned();
    for case in junit::cases(&report) {
        if !case.passed {
            eprintln!("did not pass: {} {}", case.binary, case.name);
            return ExitCode::FAILURE;
        }
        let _ = writeln!(
            page,
            "## `{}`\n\n{}, {:.0} s\n\n```text",
            case.name, case.binary, case.seconds
        );
        for line in case.output.lines().map(str::trim_end) {
            if !line.is_empty() && !LIBTEST.iter().any(|word| line.starts_with(word)) {
                let _ = writeln!(page, "{line}");
            }
        }
        let _ = writeln!(page, "```\n");
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    if let Err(error) = fs::write(PAGE, page) {
        eprintln!("docs/soak.md cannot be written: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
