//! Translates the error output of the `ssh` program into messages that say what to do next.
//!
//! Its output is used only for messages, never for decisions: whether a host key was accepted is
//! `ssh`'s own verdict, and it has ended the connection.

use super::destination::Destination;
use crate::{client_program::last_line, remote::ConnectError};

/// The exit code when `ssh` itself fails.
const SSH_FAILED: i32 = 255;

/// The exit codes of a shell that cannot run a program, or finds none.
const CANNOT_RUN: i32 = 126;
const NOT_FOUND: i32 = 127;

/// Whether the other side's shell found no helper to run.
pub(super) fn helper_is_missing(code: Option<i32>) -> bool {
    code == Some(NOT_FOUND)
}

/// Whether `ssh` itself failed without a message.
pub(super) fn is_silent(code: Option<i32>, said: &str) -> bool {
    code == Some(SSH_FAILED) && said.trim().is_empty()
}

/// The error for a connection that ended.
pub(super) fn diagnose(destination: &Destination, code: Option<i32>, said: &str) -> ConnectError {
    match code {
        Some(SSH_FAILED) | None => connection(destination, said),
        Some(CANNOT_RUN | NOT_FOUND) => helper(destination, said),
        Some(code) => ConnectError::new(format!(
            "Haft's helper on `{destination}` ended with code {code}{}",
            last_line(said)
        )),
    }
}

/// The error if `ssh` itself failed.
fn connection(destination: &Destination, said: &str) -> ConnectError {
    let host = destination.host();
    let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if has(&[
        "HOST IDENTIFICATION HAS CHANGED",
        "has changed and you have",
    ]) {
        return ConnectError::new(format!(
            "the host key of `{host}` is not the one that is known: either the machine was set up again, or another machine pretends to be it"
        ))
        .hint(format!(
            "compare the new fingerprint with the machine's administrator; if it is right, run \
             `ssh-keygen -R {host}` and then `ssh {destination}` once by hand"
        ));
    }
    if has(&["host key is known for", "Host key verification failed"]) {
        return ConnectError::new(format!("the host key of `{host}` is not known")).hint(format!(
            "run `ssh {destination}` once by hand, compare the fingerprint, and answer `yes`"
        ));
    }
    if has(&["Permission denied"]) {
        return ConnectError::new(format!(
            "`{destination}` accepts none of the keys that were offered"
        ))
        .hint(format!(
            "Haft never types a password: try `ssh -o BatchMode=yes {destination} true`; load the \
             key with `ssh-add`, install it with `ssh-copy-id {destination}`, or set \
             `ssh.identity_file`"
        ));
    }
    if has(&["Could not resolve hostname", "Name or service not known"]) {
        return ConnectError::new(format!("there is no host `{host}`")).hint(
            "check the spelling; an alias must be in `~/.ssh/config` of the user Haft runs as",
        );
    }
    if has(&["Connection refused"]) {
        return ConnectError::new(format!("`{host}` refuses the connection"))
            .hint("check that its SSH server runs and that `ssh.port` is right");
    }
    if has(&["timed out", "Timeout", "not responding"]) {
        return ConnectError::new(format!("`{host}` does not answer"))
            .hint("check that it is reachable from here, or raise `ssh.connect_timeout`");
    }
    if has(&["No route to host", "Network is unreachable"]) {
        return ConnectError::new(format!("there is no way to `{host}` from here"))
            .hint("check the network, the VPN, or the jump host in `~/.ssh/config`");
    }
    if has(&["subsystem request failed"]) {
        return ConnectError::new(format!(
            "`{host}` has no SFTP, over which Haft's helper is uploaded"
        ))
        .hint("turn on `Subsystem sftp internal-sftp` in its `sshd_config`");
    }
    let words = match last_line(said) {
        words if words.is_empty() => " without a message from `ssh`".to_owned(),
        words => words,
    };
    ConnectError::new(format!("the connection to `{destination}` ended{words}")).hint(format!(
        "try `ssh -v {destination} true`: it shows where it fails"
    ))
}

/// The error if the other side's shell could not run the helper.
fn helper(destination: &Destination, said: &str) -> ConnectError {
    let machine = std::env::consts::ARCH;
    if said.contains("Exec format error") || said.contains("cannot execute binary file") {
        return ConnectError::new(format!(
            "Haft's helper is built for {machine}, and `{destination}` is another machine"
        ))
        .hint("set `ssh.helper` to a `haft` that is built for it");
    }
    if said.contains("Permission denied") {
        return ConnectError::new(format!(
            "`{destination}` does not let programs run from `~/.cache/haft`"
        ))
        .hint("its home directory is probably mounted `noexec`; mount it without");
    }
    ConnectError::new(format!(
        "Haft's helper does not start on `{destination}`{}",
        last_line(said)
    ))
    .hint(
        "a helper built against a newer C library does not run on an older system: set \
         `ssh.helper` to a `haft` that does",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: i32, said: &str, message: &str, hint: &str) {
        let destination = Destination::parse("me@build").unwrap();
        let error = diagnose(&destination, Some(code), said);
        assert!(error.message().contains(message), "{said}: {error}");
        assert!(
            error.hint_text().unwrap_or_default().contains(hint),
            "{said}: {error}"
        );
    }

    #[test]
    fn each_failure_says_what_to_do_next() {
        check(
            255,
            "No ED25519 host key is known for build and you have requested strict checking.\n\
             Host key verification failed.",
            "the host key of `build` is not known",
            "run `ssh me@build` once by hand",
        );
        check(
            255,
            "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\nHost key for build has \
             changed and you have requested strict checking.\nHost key verification failed.",
            "not the one that is known",
            "ssh-keygen -R build",
        );
        check(
            255,
            "me@build: Permission denied (publickey).",
            "accepts none of the keys",
            "ssh-add",
        );
        check(
            255,
            "ssh: Could not resolve hostname build: Name or service not known",
            "there is no host `build`",
            "~/.ssh/config",
        );
        check(
            255,
            "ssh: connect to host build port 22: Connection refused",
            "refuses the connection",
            "ssh.port",
        );
        check(
            255,
            "ssh: connect to host build port 22: Connection timed out",
            "does not answer",
            "ssh.connect_timeout",
        );
        check(
            255,
            "Timeout, server build not responding.",
            "does not answer",
            "reachable",
        );
        check(
            255,
            "subsystem request failed on channel 0",
            "has no SFTP",
            "internal-sftp",
        );
        check(
            255,
            "kex_exchange\u{1b}[31m_x",
            "ended: kex_exchange[31m_x",
            "",
        );
        check(
            126,
            "sh: 1: exec: .cache/haft/helper-0: Exec format error",
            "is another machine",
            "ssh.helper",
        );
        check(
            126,
            "bash: .cache/haft/helper-0: Permission denied",
            "does not let programs run",
            "noexec",
        );
        check(
            127,
            "bash: .cache/haft/helper-0: cannot execute: required file not found",
            "does not start",
            "C library",
        );
        check(1, "haft helper: x", "ended with code 1: haft helper: x", "");
    }
}
