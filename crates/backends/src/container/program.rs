//! The command line of Docker or Podman: where the program is and what it is told.
//!
//! Only what both understand alike is used. The command line depends on the operator's options and
//! on a hash or a random number.

use std::{ffi::OsString, path::PathBuf};

use haft_sandbox::helper::FLAG;

use super::{
    install::INSTALL,
    options::{ContainerOptions, ContainerProgram},
};
use crate::{
    client_program::{Digest, Launch, find_program},
    remote::{ConnectError, supervise::SERVE},
};

/// The environment variables it needs: for the user, and to find the engine and its configuration.
pub(super) const VARIABLES: [&str; 14] = [
    "HOME",
    "USER",
    "LOGNAME",
    "PATH",
    "XDG_RUNTIME_DIR",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "DOCKER_CONFIG",
    "DOCKER_CERT_PATH",
    "DOCKER_TLS_VERIFY",
    "CONTAINER_HOST",
    "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF",
    "SSH_AUTH_SOCK",
];

/// Where helpers are in a container. It is not below a home or `/tmp`: those may be mounted, and
/// what is copied to a mount by this command line does not always arrive in it.
pub(super) const DIRECTORY: &str = ".haft";

/// What the name of a helper begins with before it is complete.
pub(super) const INCOMPLETE: &str = "upload-";

/// What the name of a helper begins with once it is complete.
pub(super) const COMPLETE: &str = "helper-";

/// What the program is called for.
#[derive(Debug, Clone, Copy)]
pub(super) enum ConnectionPurpose<'a> {
    /// To run the helper with this digest, which serves.
    Serve(&'a Digest),
    /// To unpack an archive, read from standard input, at the root of the container.
    Unpack,
    /// To have the uploaded helper with this random name check itself and take its final name.
    Install(&'a str),
}

/// What starts the program, for a purpose.
pub(super) fn launch(
    options: &ContainerOptions,
    purpose: ConnectionPurpose<'_>,
) -> Result<Launch<'static>, ConnectError> {
    Ok(Launch {
        program: locate(&options.program)?,
        arguments: words(options, purpose),
        variables: &VARIABLES,
    })
}

/// The program, at an absolute path and never through `PATH`.
pub(super) fn locate(program: &ContainerProgram) -> Result<PathBuf, ConnectError> {
    let found = match program {
        ContainerProgram::At(path) => Some(path.clone()),
        ContainerProgram::Docker | ContainerProgram::Podman => find_program(program.name()),
    };
    found.ok_or_else(|| {
        let name = program.name();
        ConnectError::new(format!("there is no `{name}` program here")).hint(format!(
            "install it (`apt install {}`), or name another one in `docker.program`",
            match program {
                ContainerProgram::Docker => "docker.io",
                ContainerProgram::Podman | ContainerProgram::At(_) => "podman",
            }
        ))
    })
}

/// Its command line arguments.
fn words(options: &ContainerOptions, purpose: ConnectionPurpose<'_>) -> Vec<OsString> {
    let container = options.container.as_str();
    let mut words: Vec<String> = Vec::new();
    let mut add = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
    match purpose {
        ConnectionPurpose::Serve(digest) => {
            add(&["exec", "--interactive", "--workdir", "/"]);
            if let Some(user) = &options.user {
                add(&["--user", user.as_str()]);
            }
            let helper = format!("/{DIRECTORY}/{COMPLETE}{digest}");
            add(&[container, &helper, FLAG, SERVE]);
        }
        ConnectionPurpose::Unpack => add(&["cp", "-", &format!("{container}:/")]),
        ConnectionPurpose::Install(name) => {
            // As root there, because the directory is root's: what runs as `user` cannot replace
            // the program that serves.
            add(&["exec", "--workdir", "/", "--user", "0"]);
            let helper = format!("/{DIRECTORY}/{INCOMPLETE}{name}");
            add(&[container, &helper, FLAG, INSTALL]);
        }
    }
    words.into_iter().map(OsString::from).collect()
}

#[cfg(test)]
mod tests {
    use super::{
        super::destination::{ContainerName, ContainerUser},
        *,
    };

    fn shown(options: &ContainerOptions, purpose: ConnectionPurpose<'_>) -> String {
        let words = words(options, purpose);
        let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap()).collect();
        words.join(" ")
    }

    #[test]
    fn the_command_line_holds_the_operators_options_and_a_number() {
        let mut options = ContainerOptions::new(ContainerName::parse("web").unwrap());
        let digest = Digest::of(b"helper");
        assert_eq!(
            shown(&options, ConnectionPurpose::Serve(&digest)),
            format!(
                "exec --interactive --workdir / web /.haft/helper-{digest} __haft-helper serve"
            )
        );
        options.user = Some(ContainerUser::parse("dev:staff").unwrap());
        assert_eq!(
            shown(&options, ConnectionPurpose::Serve(&digest)),
            format!(
                "exec --interactive --workdir / --user dev:staff web /.haft/helper-{digest} \
                 __haft-helper serve"
            )
        );
        assert_eq!(shown(&options, ConnectionPurpose::Unpack), "cp - web:/");
        assert_eq!(
            shown(&options, ConnectionPurpose::Install("0a")),
            "exec --workdir / --user 0 web /.haft/upload-0a __haft-helper install"
        );
    }
}
