//! Attempts to escape a sandbox, one small function each, made with raw system calls because a
//! shell cannot make them.
//!
//! Each is run twice: inside the tier that is supposed to stop it, and on the host as the control
//! that shows the attempt is real. So none may harm a host: they touch what their arguments name
//! and their own processes, and calls that would change the machine are made with arguments the
//! kernel rejects after it has let them in. An attempt reports what happened and judges nothing;
//! `haft doctor` and the attack corpus do. Read next: `attempt.rs`, then one family.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the kernel takes words: what is a number, a flag or a descriptor is between it and the call"
)]

mod architecture;
mod attempt;
mod device;
mod file;
mod ipc;
mod kernel;
mod mount;
mod namespace;
mod own_child;
mod own_process;
mod process;
mod raw;
mod ring;
mod socket;
mod unix_socket;

use std::{io::Write as _, process::ExitCode};

pub use self::attempt::{Attempt, Control, Unusable, Verdict};

/// The most arguments an attempt takes.
const MAX_ARGUMENTS: usize = 16;

/// Exit code of an attempt that succeeded.
const SUCCEEDED: u8 = 0;
/// Exit code of an attempt that was refused.
const REFUSED: u8 = 1;
/// Exit code of a command line that names no attempt.
const UNUSABLE: u8 = 2;

/// Every attempt there is, family by family.
pub fn catalogue() -> impl Iterator<Item = &'static Attempt> {
    [
        file::ATTEMPTS,
        process::ATTEMPTS,
        own_process::ATTEMPTS,
        socket::ATTEMPTS,
        unix_socket::ATTEMPTS,
        namespace::ATTEMPTS,
        mount::ATTEMPTS,
        ring::ATTEMPTS,
        architecture::ATTEMPTS,
        kernel::ATTEMPTS,
        ipc::ATTEMPTS,
        device::ATTEMPTS,
    ]
    .into_iter()
    .flatten()
}

/// Makes one attempt and prints one line of JSON: `{"attempt", "result", "errno", "detail"}`. The
/// exit code is 0 if it succeeded, 1 if it was refused, 2 if there is no such attempt.
///
/// Run it in its own process with a single thread: many attempts fork.
pub fn run(name: &str, arguments: &[String]) -> ExitCode {
    let (line, code) = match attempt(name, arguments) {
        Ok(verdict) => {
            let code = match verdict {
                Verdict::Succeeded { .. } => SUCCEEDED,
                Verdict::Refused { .. } => REFUSED,
            };
            (verdict.to_json(name), code)
        }
        Err(unusable) => (unusable.to_json(name), UNUSABLE),
    };
    let mut stdout = std::io::stdout().lock();
    // Whoever does not read the verdict still gets the exit code.
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    ExitCode::from(code)
}

/// Makes one attempt in this process, which must be single-threaded.
fn attempt(name: &str, arguments: &[String]) -> Result<Verdict, Unusable> {
    let attempt = catalogue()
        .find(|attempt| attempt.name == name)
        .ok_or_else(|| Unusable::new(format!("there is no attempt `{name}`")))?;
    if arguments.len() > MAX_ARGUMENTS {
        return Err(Unusable::new(format!(
            "at most {MAX_ARGUMENTS} arguments are taken"
        )));
    }
    attempt.make(arguments)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_attempt_has_a_name_of_its_own() {
        let names: Vec<&str> = catalogue().map(|attempt| attempt.name).collect();
        let distinct: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(names.len(), distinct.len());
    }

    #[test]
    fn a_name_that_is_none_and_a_missing_argument_are_no_verdicts() {
        for (name, arguments) in [("escape", vec![]), ("read", vec![])] {
            let made = attempt(name, &arguments);
            assert!(made.is_err(), "`{name}` gave a verdict: {made:?}");
        }
    }
}
