//! A program that only runs helper modes, for embedders whose own program does not, and for tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    haft_backends::helper::run_if_asked().unwrap_or(ExitCode::from(2))
}
