//! The helper modes of a program: hidden modes that set up sandboxes from inside.
//!
//! A program that embeds Haft calls `haft::helper::run_if_asked` first in `main`, before it starts
//! threads or reads its arguments; or it ships the `haft-helper` program and names it.

use std::{ffi::OsString, process::ExitCode};

use crate::{
    helper::{self, FLAG},
    init, loopback, probe,
    process::warden,
};

/// Runs a helper mode if the arguments ask for one, and returns its exit code. `None` means the
/// program continues as usual. Call it first in `main`.
///
/// `other_mode` runs modes from outside this crate and returns `None` for those it does not know.
pub fn run_if_asked(other_mode: impl FnOnce(&str) -> Option<ExitCode>) -> Option<ExitCode> {
    helper::note_that_it_answers();
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()?.to_str() != Some(FLAG) {
        return None;
    }
    let mode = arguments.next();
    let whole: Vec<OsString> = arguments.collect();
    let rest: Vec<String> = whole
        .iter()
        .filter_map(|argument| argument.to_str().map(str::to_owned))
        .collect();
    Some(match mode.as_ref().and_then(|mode| mode.to_str()) {
        Some(loopback::MAKE) => loopback::make(&whole),
        Some(loopback::ENTER) => loopback::enter(&whole),
        Some("init") => init::run(&rest),
        Some(warden::MODE) => warden::run(&rest),
        Some("probe") => probe(&rest),
        Some("bridge") => haft_egress::bridge::run(&rest),
        // Prints nothing: whoever started a helper reads its report, and a person never does.
        Some(other) => other_mode(other).unwrap_or(ExitCode::from(2)),
        None => ExitCode::from(2),
    })
}

/// Tries one way out of a sandbox; `haft doctor` and the attack corpus use it.
fn probe(arguments: &[String]) -> ExitCode {
    let (name, rest) = match arguments.split_first() {
        Some((name, rest)) => (name.as_str(), rest),
        None => ("", arguments),
    };
    probe::run(name, rest)
}
