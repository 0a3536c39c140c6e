//! Translates the error output of Docker and Podman into messages that say what to do next.
//!
//! Apart from whether the helper is missing, which only leads to an upload, their output is used for
//! messages and never for decisions.

use super::{destination::ContainerUser, options::ContainerOptions};
use crate::{client_program::last_line, remote::ConnectError};

/// The exit codes of a program that cannot be run, or is not there.
const CANNOT_RUN: i32 = 126;
const NOT_FOUND: i32 = 127;

/// Whether the container has no helper to run. Docker says so with either code, by version.
pub(super) fn helper_is_missing(code: Option<i32>, said: &str) -> bool {
    let said = said.to_lowercase();
    matches!(code, Some(CANNOT_RUN | NOT_FOUND))
        && (said.contains("no such file or directory") || said.contains("not found"))
}

/// The error if the helper could not be brought into the container, at either step.
pub(super) fn diagnose_upload(
    options: &ContainerOptions,
    code: Option<i32>,
    said: &str,
) -> ConnectError {
    let lower = said.to_lowercase();
    if lower.contains("read-only") {
        return ConnectError::new(format!(
            "the file system of the container `{}` is read-only, so Haft's helper cannot be brought there",
            options.container
        ))
        .hint("run the container without `--read-only`");
    }
    if matches!(code, Some(CANNOT_RUN | NOT_FOUND)) || lower.contains("exec format error") {
        return diagnose(options, code, said);
    }
    if let Some(known) = known(options, &lower) {
        return known;
    }
    let code = code.map_or_else(String::new, |code| format!(" with code {code}"));
    ConnectError::new(format!(
        "Haft's helper cannot be brought into the container `{}`: `{}` ended{code}{}",
        options.container,
        options.program.name(),
        last_line(said)
    ))
    .hint("check that the container has room")
}

/// The error for a connection that ended.
pub(super) fn diagnose(options: &ContainerOptions, code: Option<i32>, said: &str) -> ConnectError {
    let container = &options.container;
    let lower = said.to_lowercase();
    if let Some(known) = known(options, &lower) {
        return known;
    }
    if lower.contains("exec format error") {
        return ConnectError::new(format!(
            "Haft's helper is built for {}, and the container `{container}` is for another machine",
            std::env::consts::ARCH
        ))
        .hint("set `docker.helper` to a `haft` that is built for it");
    }
    if lower.contains("glibc") || helper_is_missing(code, said) {
        return ConnectError::new(format!(
            "Haft's helper does not start in the container `{container}`{}",
            last_line(said)
        ))
        .hint(
            "a helper built against another C library does not run there (Alpine's is not Debian's, \
             and an older one is not enough): set `docker.helper` to a statically linked `haft`",
        );
    }
    if code == Some(CANNOT_RUN) && lower.contains("permission denied") {
        return ConnectError::new(format!(
            "the container `{container}` does not let its user run programs from `/.haft`"
        ))
        .hint("its file system may be mounted `noexec`, or a security module may refuse it");
    }
    match code {
        Some(code) => ConnectError::new(format!(
            "the connection into the container `{container}` ended with code {code}{}",
            last_line(said)
        )),
        None => ConnectError::new(format!(
            "the connection into the container `{container}` ended{}",
            last_line(said)
        )),
    }
    .hint(format!(
        "try `{} exec {container} true`: it shows where it fails",
        options.program.name()
    ))
}

/// The error for what either program says alike, whatever it was called for. Takes lower case.
fn known(options: &ContainerOptions, said: &str) -> Option<ConnectError> {
    let program = options.program.name();
    let container = &options.container;
    let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if has(&["no such container", "no container with name or id"]) {
        return Some(
            ConnectError::new(format!("there is no container `{container}`")).hint(format!(
                "`{program} ps --all` lists those there are; correct `docker.container`"
            )),
        );
    }
    if has(&["is paused"]) {
        return Some(
            ConnectError::new(format!("the container `{container}` is paused"))
                .hint(format!("let it go on: `{program} unpause {container}`")),
        );
    }
    if has(&[
        "is not running",
        "on running containers",
        "container state improper",
    ]) {
        return Some(
            ConnectError::new(format!("the container `{container}` does not run"))
                .hint(format!("start it: `{program} start {container}`")),
        );
    }
    if has(&["permission denied while trying to connect"]) {
        return Some(
            ConnectError::new(format!(
                "the account Haft runs as may not use `{program}`"
            ))
            .hint(
                "use rootless Docker or `program = \"podman\"`; whoever is in the group `docker` is \
                 as good as root",
            ),
        );
    }
    if has(&[
        "cannot connect to the docker daemon",
        "cannot connect to podman",
    ]) {
        return Some(
            ConnectError::new(format!("`{program}` does not reach its service")).hint(
                "start it (`systemctl start docker`), or set DOCKER_HOST to where it listens",
            ),
        );
    }
    if has(&["unable to find user", "no matching entries in passwd"]) {
        let user = options.user.as_ref().map_or("", ContainerUser::as_str);
        return Some(
            ConnectError::new(format!("the container `{container}` has no user `{user}`"))
                .hint("correct `docker.user`; a number works without an entry in `/etc/passwd`"),
        );
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{super::destination::ContainerName, *};

    fn options() -> ContainerOptions {
        let mut options = ContainerOptions::new(ContainerName::parse("web").unwrap());
        options.user = Some(ContainerUser::parse("dev").unwrap());
        options
    }

    fn check(code: i32, said: &str, message: &str, hint: &str) {
        let error = diagnose(&options(), Some(code), said);
        assert!(error.message().contains(message), "{said}: {error}");
        let shown = error.hint_text().unwrap_or_default();
        assert!(shown.contains(hint), "{said}: {error}");
    }

    /// What Docker 20 to 28 and Podman 4 say.
    #[test]
    fn each_failure_says_what_to_do_next() {
        check(
            1,
            "Error response from daemon: No such container: web",
            "there is no container `web`",
            "docker ps --all",
        );
        check(
            125,
            "Error: no container with name or ID \"web\" found: no such container",
            "there is no container `web`",
            "docker ps --all",
        );
        check(
            1,
            "Error response from daemon: container 61c4 is not running",
            "`web` does not run",
            "`docker start web`",
        );
        check(
            255,
            "Error: can only create exec sessions on running containers: container state improper",
            "`web` does not run",
            "`docker start web`",
        );
        check(
            1,
            "Error response from daemon: Container web is paused, unpause the container before exec",
            "is paused",
            "`docker unpause web`",
        );
        check(
            1,
            "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
            "does not reach its service",
            "systemctl start docker",
        );
        check(
            1,
            "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock",
            "may not use `docker`",
            "rootless",
        );
        check(
            126,
            "unable to find user dev: no matching entries in passwd file",
            "has no user `dev`",
            "docker.user",
        );
        check(
            1,
            "exec /.haft/helper-0: exec format error",
            "another machine",
            "docker.helper",
        );
        check(
            127,
            "OCI runtime exec failed: exec failed: unable to start container process: exec: \"/.haft/helper-0\": stat /.haft/helper-0: no such file or directory: unknown",
            "does not start",
            "statically linked",
        );
        check(
            1,
            "/.haft/helper-0: /lib/libc.so.6: version `GLIBC_2.39' not found",
            "does not start",
            "C library",
        );
        check(
            126,
            "exec: \"/.haft/helper-0\": permission denied",
            "does not let its user run",
            "noexec",
        );
        check(137, "", "ended with code 137", "docker exec web true");
    }

    #[test]
    fn a_helper_that_cannot_be_copied_says_why() {
        let error = diagnose_upload(
            &options(),
            Some(1),
            "Error response from daemon: container rootfs is marked read-only",
        );
        assert!(
            error.to_string().contains("without `--read-only`"),
            "{error}"
        );
        let error = diagnose_upload(&options(), Some(1), "no space left on device");
        assert!(error.to_string().contains("no space left"), "{error}");
    }

    #[test]
    fn a_missing_helper_is_known_by_code_and_words() {
        let crun = "Error: crun: executable file `/.haft/helper-0` not found in $PATH: No such file or directory: OCI runtime attempted to invoke a command that was not found";
        assert!(helper_is_missing(Some(127), crun));
        assert!(helper_is_missing(
            Some(126),
            "stat /.haft/helper-0: no such file or directory: unknown"
        ));
        assert!(!helper_is_missing(Some(126), "permission denied"));
        assert!(!helper_is_missing(Some(1), "no such file or directory"));
    }
}
