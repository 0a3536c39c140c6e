//! The helper modes of a program: hidden modes that set up sandboxes from inside.
//!
//! A program that embeds Haft calls `haft::helper::exit_if_asked` first in `main`, before it starts
//! threads or reads its arguments. One that does not uses a helper that is installed.

use std::{ffi::OsString, io::Write as _, process::ExitCode};

use crate::{
    find_helper,
    helper::{self, FLAG},
    init, loopback, probe,
    process::warden,
    reader,
};

/// Runs a helper mode if the arguments ask for one, and returns its exit code. `None` means the
/// program continues as usual. Call it first in `main`, before anything starts a thread: where there
/// are several, what a helper does would concern one of them, so the program is then no helper.
///
/// `other_mode` runs modes from outside this crate and returns `None` for those it does not know.
pub fn run_if_asked(other_mode: impl FnOnce(&str) -> Option<ExitCode>) -> Option<ExitCode> {
    let is_early = has_one_thread();
    if is_early {
        helper::note_that_it_answers();
    }
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()?.to_str() != Some(FLAG) {
        return None;
    }
    if !is_early {
        // The program as usual is the last thing that whoever asked expects.
        return Some(ExitCode::from(2));
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
        Some(find_helper::VERSION) => say_version(),
        Some("init") => init::run(&rest),
        Some(warden::MODE) => warden::run(&rest),
        Some(reader::MODE) => reader::run(),
        Some("probe") => probe(&rest),
        Some("bridge") => haft_egress::bridge::run(&rest),
        // Prints nothing: whoever started a helper reads its report, and a person never does.
        Some(other) => other_mode(other).unwrap_or(ExitCode::from(2)),
        None => ExitCode::from(2),
    })
}

/// Whether nothing has started a thread yet.
fn has_one_thread() -> bool {
    let threads = std::fs::read_dir("/proc/self/task");
    threads.map_or(true, |threads| threads.take(2).count() < 2)
}

fn say_version() -> ExitCode {
    match std::io::stdout().write_all(find_helper::answer().as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(2),
    }
}

/// Tries one way out of a sandbox; `haft doctor` and the attack corpus use it.
fn probe(arguments: &[String]) -> ExitCode {
    let (name, rest) = match arguments.split_first() {
        Some((name, rest)) => (name.as_str(), rest),
        None => ("", arguments),
    };
    probe::run(name, rest)
}
